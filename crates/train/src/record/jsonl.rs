//! Metrics as lines of JSON.

use super::{Scalar, Sink, Start};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use ternion_core::{Error, Result};
use ternion_nn::checkpoint::write_file;

/// A file with one JSON object per line:
/// `{"step":100,"time":1767225600.5,"name":"train/loss","value":0.25}`.
///
/// JSON has no NaN and no infinity: the value is then `null`, and `"special"` is `"NaN"`,
/// `"Infinity"` or `"-Infinity"`. Each line is passed to the operating system as a whole: a crash
/// loses at most the line that is being written.
#[derive(Debug)]
pub struct Jsonl {
    path: PathBuf,
    file: File,
}

/// A line of the file.
#[derive(Serialize)]
struct Line<'a> {
    step: u64,
    time: f64,
    name: &'a str,
    value: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    special: Option<&'static str>,
}

/// The part of a line that determines whether it is kept.
#[derive(Deserialize)]
struct StepField {
    step: u64,
}

impl Jsonl {
    /// Opens the file `path`.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written; with [`Start::New`] if it exists and is not
    /// empty; with [`Start::After`] if it has lines in another format (the last one may be
    /// truncated).
    pub fn new(path: impl AsRef<Path>, start: Start) -> Result<Jsonl> {
        let path = path.as_ref().to_path_buf();
        let write_error = |error: std::io::Error| Error::file_system(&path, "cannot be written", &error);
        let file = OpenOptions::new().append(true).create(true).open(&path).map_err(write_error)?;
        let is_empty = file.metadata().map_err(write_error)?.len() == 0;
        match start {
            Start::New if !is_empty => {
                let detail = "is the record of an earlier training: resume that, or use another name";
                return Err(Error::file(&path, detail));
            }
            Start::After(step) if !is_empty => drop_later(&path, step)?,
            Start::New | Start::After(_) => return Ok(Jsonl { path, file }),
        }
        // Another file may be at this path now.
        let file = OpenOptions::new().append(true).open(&path).map_err(write_error)?;
        Ok(Jsonl { path, file })
    }
}

/// Removes the lines of later steps from the file, and the last one if it is truncated.
fn drop_later(path: &Path, step: u64) -> Result<()> {
    let bytes = fs::read(path).map_err(|error| Error::file_system(path, "cannot be read", &error))?;
    let mut kept_lines = Vec::with_capacity(bytes.len());
    let complete_lines = bytes.split_inclusive(|&byte| byte == b'\n').filter(|line| line.ends_with(b"\n"));
    for (number, line) in complete_lines.enumerate() {
        let entry: StepField = serde_json::from_slice(line).map_err(|error| {
            Error::file(path, format!("line {} is not a metric of a training run: {error}", number + 1))
        })?;
        if entry.step <= step {
            kept_lines.extend_from_slice(line);
        }
    }
    if kept_lines.len() < bytes.len() { write_file(path, &kept_lines) } else { Ok(()) }
}

/// Returns the word for a number that JSON cannot represent.
fn special(value: f64) -> Option<&'static str> {
    match value {
        _ if value.is_nan() => Some("NaN"),
        f64::INFINITY => Some("Infinity"),
        f64::NEG_INFINITY => Some("-Infinity"),
        _ => None,
    }
}

impl Sink for Jsonl {
    fn scalar(&mut self, &Scalar { name, step, value, time }: &Scalar<'_>) -> Result<()> {
        let line =
            Line { step, time, name, value: value.is_finite().then_some(value), special: special(value) };
        let write_error = |error: std::io::Error| Error::file_system(&self.path, "cannot be written", &error);
        let mut text = serde_json::to_string(&line).map_err(|error| write_error(error.into()))?;
        text.push('\n');
        (&self.file).write_all(text.as_bytes()).map_err(write_error)
    }
}
