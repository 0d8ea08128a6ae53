//! Files that appear whole or not at all, and the error of one that cannot be read or written.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use ternion_core::Error;

/// Chains of symbolic links above this are taken for circles, as by Linux.
const MAX_LINKS: usize = 40;

/// What is wrong with the file at `path`.
pub(crate) fn file_error(path: &Path, detail: impl Into<String>) -> Error {
    let name = if path.as_os_str().is_empty() { "\"\"".to_owned() } else { path.display().to_string() };
    Error::File { path: name, detail: detail.into() }
}

/// Writes a file under a temporary name beside `path` and renames it when it is complete and on
/// disk: a crash leaves the old file.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    // A pipe or a device keeps nothing that could be half written, and would be gone if a file took
    // its place.
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
        return OpenOptions::new().write(true).open(path)?.write_all(bytes);
    }
    let path = &behind_links(path)?;
    let temporary = temporary_beside(path)?;
    let written = write_through(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // The error that counts is the first one; what is left behind is at worst a stray temporary
        // file.
        let _ = fs::remove_file(&temporary);
        return written;
    }
    sync_folder(path)
}

/// The file that a path stands for, which may be yet to come: renaming onto a symbolic link would
/// replace the link.
fn behind_links(path: &Path) -> std::io::Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..MAX_LINKS {
        // Whatever is no link, or is not there, cannot be read as one.
        let Ok(target) = fs::read_link(&path) else { return Ok(path) };
        path.pop();
        path.push(target);
    }
    Err(std::io::Error::other(format!("more than {MAX_LINKS} symbolic links")))
}

/// A name in the same folder that no other thread or process uses.
fn temporary_beside(path: &Path) -> std::io::Result<PathBuf> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().ok_or_else(|| std::io::Error::other("this is no file name"))?;
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let mut temporary = std::ffi::OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{}.{count}.tmp", std::process::id()));
    Ok(path.with_file_name(temporary))
}

fn write_through(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Makes the renaming itself durable, where a folder can be opened for that.
fn sync_folder(path: &Path) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}
