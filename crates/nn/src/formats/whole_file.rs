//! Files that appear whole or not at all.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Chains of symbolic links above this are taken for circles, as by Linux.
const MAX_LINKS: usize = 40;

/// Writes a file under a temporary name beside `path` and renames it when it is complete and on
/// disk: a crash leaves the old file. Who may read and write that stays as it was. Temporary files that
/// processes left behind which were killed are removed.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    // A pipe or a device keeps nothing that could be half written, and would be gone if a file took
    // its place.
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
        return OpenOptions::new().write(true).open(path)?.write_all(bytes);
    }
    let path = &behind_links(path)?;
    remove_left_behind(path);
    let temporary = temporary_beside(path)?;
    let written = write_through(&temporary, path, bytes).and_then(|()| fs::rename(&temporary, path));
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
    let mut temporary = begin_of_temporaries(name);
    temporary.push(format!("{}.{count}.tmp", std::process::id()));
    Ok(path.with_file_name(temporary))
}

/// What the names of all temporary files for a file of this name begin with.
fn begin_of_temporaries(name: &OsStr) -> OsString {
    let mut begin = OsString::from(".");
    begin.push(name);
    begin.push(".");
    begin
}

/// Writes a new file, locked meanwhile, with the permissions of `old` if that is there.
fn write_through(path: &Path, old: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    // Where files cannot be locked, nothing that is left behind is removed either.
    let _ = file.lock_shared();
    if let Ok(metadata) = fs::metadata(old) {
        file.set_permissions(metadata.permissions())?;
    }
    file.write_all(bytes)?;
    file.sync_all()
}

/// Removes the temporary files for `path` that nobody writes any more: a process that is killed leaves them, and its locks are gone.
fn remove_left_behind(path: &Path) {
    let Some(name) = path.file_name() else { return };
    let begin = begin_of_temporaries(name);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if is_temporary(&entry.file_name(), &begin) {
            remove_unless_locked(&entry.path());
        }
    }
}

/// Whether a name is `begin`, the number of a process, a count and `.tmp`.
fn is_temporary(name: &OsStr, begin: &OsStr) -> bool {
    let rest = name.as_encoded_bytes().strip_prefix(begin.as_encoded_bytes());
    let Some(numbers) = rest.and_then(|rest| rest.strip_suffix(b".tmp")) else { return false };
    let parts: Vec<&[u8]> = numbers.split(|&byte| byte == b'.').collect();
    parts.len() == 2 && parts.iter().all(|part| !part.is_empty() && part.iter().all(u8::is_ascii_digit))
}

/// Files of the last seconds may be new ones that are about to be locked.
const NEW: Duration = Duration::from_secs(10);

/// What cannot be opened, locked or removed is left there: a save does not fail for it.
fn remove_unless_locked(path: &Path) {
    let age = || fs::metadata(path).ok()?.modified().ok()?.elapsed().ok();
    if age().is_none_or(|age| age < NEW) {
        return;
    }
    let Ok(file) = OpenOptions::new().write(true).open(path) else { return };
    match file.try_lock() {
        Ok(()) => drop(fs::remove_file(path)),
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => {}
    }
}

/// Makes the renaming itself durable, where a folder can be opened for that.
fn sync_folder(path: &Path) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}
