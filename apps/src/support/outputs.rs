//! The files that a program writes: checked before the work, written after it.

use crate::support::console::print_line;
use crate::support::program::Outcome;
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

/// A file named by an option of the command line.
#[derive(Clone, Copy)]
pub struct FileOption<'a> {
    /// The option, for messages.
    pub option: &'static str,
    /// The file, if the option was given.
    pub file: &'a Option<PathBuf>,
}

/// What error messages call the JSON file next to a checkpoint.
pub const CHECKPOINT_JSON: &str = "the JSON of a checkpoint";

/// Returns the path of that JSON file.
pub fn checkpoint_json(checkpoint: &Path) -> PathBuf {
    let mut name = checkpoint.as_os_str().to_owned();
    name.push(".json");
    name.into()
}

/// Checks that no two options name the same file: the later one would overwrite the earlier.
pub fn check_distinct(outputs: &[FileOption<'_>]) -> Outcome<()> {
    let mut seen: Vec<(&str, PathBuf)> = Vec::new();
    for (option, file) in named_files(outputs).filter(|(_, file)| !is_special(file)) {
        let path = resolved(file);
        if let Some((other, _)) = seen.iter().find(|(_, other_path)| *other_path == path) {
            return Err(format!("{other} and {option} name the same file: {}", file.display()).into());
        }
        seen.push((option, path));
    }
    Ok(())
}

/// Checks that no output overwrites a file that is read.
pub fn check_not_overwritten(read: &[FileOption<'_>], written: &[FileOption<'_>]) -> Outcome<()> {
    read.iter().try_for_each(|input| check_distinct(&[&[*input], written].concat()))
}

/// Checks that every file can be written, without changing any.
pub fn check_writable(outputs: &[FileOption<'_>]) -> Outcome<()> {
    // Excludes pipes: the reader of a pipe would mistake opening and closing it for the end.
    named_files(outputs)
        .filter(|(_, file)| !is_special(file))
        .try_for_each(|(option, file)| check_one_writable(option, file))
}

fn named_files<'a>(outputs: &[FileOption<'a>]) -> impl Iterator<Item = (&'static str, &'a Path)> {
    outputs.iter().filter_map(|output| Some((output.option, output.file.as_deref()?)))
}

fn check_one_writable(option: &str, file: &Path) -> Outcome<()> {
    let error_message = if file.is_dir() {
        format!("{} is a folder, expected a file", file.display())
    } else if let Some(folder) = folder(file).filter(|folder| !folder.is_dir()) {
        format!("{}: there is no folder {}", file.display(), folder.display())
    } else {
        match try_to_write(file) {
            Ok(()) => return Ok(()),
            Err(error) => format!("{}: cannot be written: {error}", file.display()),
        }
    };
    Err(format!("{option}: {error_message}").into())
}

fn folder(file: &Path) -> Option<&Path> {
    file.parent().filter(|folder| !folder.as_os_str().is_empty())
}

/// Opens the file for writing without changing it, and removes it again if it did not exist.
fn try_to_write(file: &Path) -> std::io::Result<()> {
    let existed = file.exists();
    OpenOptions::new().append(true).create(true).open(file)?;
    // Removes the file by its real path, so that a dangling link remains.
    if existed { Ok(()) } else { fs::remove_file(file.canonicalize()?) }
}

/// Returns one path for all paths that lead to the same file.
fn resolved(file: &Path) -> PathBuf {
    let mut file = file.to_path_buf();
    // Follows dangling links, up to the number that the system follows.
    for _ in 0..40 {
        match fs::read_link(&file) {
            Ok(target) if !file.exists() => file = folder(&file).unwrap_or(Path::new(".")).join(target),
            _ => break,
        }
    }
    let in_folder = || {
        let folder = folder(&file).unwrap_or(Path::new(".")).canonicalize().ok()?;
        Some(folder.join(file.file_name()?))
    };
    file.canonicalize().ok().or_else(in_folder).unwrap_or(file)
}

/// Returns whether this is a pipe, or a device such as /dev/null, which has nothing to overwrite.
fn is_special(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

/// Checks that a file exists and can be read.
pub fn check_readable(option: &str, file: &Path) -> Outcome<()> {
    File::open(file)
        .map(drop)
        .map_err(|error| format!("{option}: {}: cannot be read: {error}", file.display()).into())
}

/// Writes `text` and prints a line about it.
pub fn write(file: &Path, text: &str) -> Outcome<()> {
    fs::write(file, text).map_err(|error| format!("{}: cannot be written: {error}", file.display()))?;
    print_line!("{} written", file.display());
    Ok(())
}
