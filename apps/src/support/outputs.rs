//! The files that a program will write: checked before the work, written after it.

use crate::support::program::Outcome;
use crate::support::say::say;
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

/// A file named by an option of the command line.
#[derive(Clone, Copy)]
pub struct Output<'a> {
    /// The option, for messages.
    pub option: &'static str,
    /// The file, if the option was given.
    pub file: &'a Option<PathBuf>,
}

/// The option of the JSON that stands beside a checkpoint, for messages.
pub const BESIDE: &str = "the JSON of a checkpoint";

/// Where that JSON stands.
pub fn beside(checkpoint: &Path) -> PathBuf {
    let mut name = checkpoint.as_os_str().to_owned();
    name.push(".json");
    name.into()
}

/// That no two options name the same file: the later one would overwrite the earlier.
pub fn check_distinct(outputs: &[Output<'_>]) -> Outcome<()> {
    let mut seen: Vec<(&str, PathBuf)> = Vec::new();
    for (option, file) in given(outputs).filter(|(_, file)| !is_special(file)) {
        let place = place(file);
        if let Some((other, _)) = seen.iter().find(|(_, taken)| *taken == place) {
            return Err(format!("{other} and {option} name the same file: {}", file.display()).into());
        }
        seen.push((option, place));
    }
    Ok(())
}

/// That nothing that is read is written over.
pub fn check_kept(read: &[Output<'_>], written: &[Output<'_>]) -> Outcome<()> {
    read.iter().try_for_each(|input| check_distinct(&[&[*input], written].concat()))
}

/// That every file can be written. Leaves all of them as they are.
pub fn check_writable(outputs: &[Output<'_>]) -> Outcome<()> {
    // A pipe would hear of the trial: its reader would take the end of it for the end.
    given(outputs)
        .filter(|(_, file)| !is_special(file))
        .try_for_each(|(option, file)| check_one(option, file))
}

fn given<'a>(outputs: &[Output<'a>]) -> impl Iterator<Item = (&'static str, &'a Path)> {
    outputs.iter().filter_map(|output| Some((output.option, output.file.as_deref()?)))
}

fn check_one(option: &str, file: &Path) -> Outcome<()> {
    let fault = if file.is_dir() {
        format!("{} is a folder, expected a file", file.display())
    } else if let Some(folder) = folder(file).filter(|folder| !folder.is_dir()) {
        format!("{}: there is no folder {}", file.display(), folder.display())
    } else {
        match try_to_write(file) {
            Ok(()) => return Ok(()),
            Err(error) => format!("{}: cannot be written: {error}", file.display()),
        }
    };
    Err(format!("{option}: {fault}").into())
}

fn folder(file: &Path) -> Option<&Path> {
    file.parent().filter(|folder| !folder.as_os_str().is_empty())
}

/// Opens the file for writing without changing it; one that was not there is gone again afterwards.
fn try_to_write(file: &Path) -> std::io::Result<()> {
    let existed = file.exists();
    OpenOptions::new().append(true).create(true).open(file)?;
    // Through its real path, so that a link to a file that is yet to come stays.
    if existed { Ok(()) } else { fs::remove_file(file.canonicalize()?) }
}

/// The same for every way of writing a path to the same file.
fn place(file: &Path) -> PathBuf {
    let mut file = file.to_path_buf();
    // Links to a file that is yet to come, as many as the system follows.
    for _ in 0..40 {
        match fs::read_link(&file) {
            Ok(target) if !file.exists() => file = folder(&file).unwrap_or(Path::new(".")).join(target),
            _ => break,
        }
    }
    let whole = || {
        let folder = folder(&file).unwrap_or(Path::new(".")).canonicalize().ok()?;
        Some(folder.join(file.file_name()?))
    };
    file.canonicalize().ok().or_else(whole).unwrap_or(file)
}

/// Whether this is a pipe, or a device such as /dev/null, which keeps nothing that could be overwritten.
fn is_special(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

/// That a file is there and can be read.
pub fn check_readable(option: &str, file: &Path) -> Outcome<()> {
    File::open(file)
        .map(drop)
        .map_err(|error| format!("{option}: {}: cannot be read: {error}", file.display()).into())
}

/// Writes `text` and tells so.
pub fn write(file: &Path, text: &str) -> Outcome<()> {
    fs::write(file, text).map_err(|error| format!("{}: cannot be written: {error}", file.display()))?;
    say!("{} written", file.display());
    Ok(())
}
