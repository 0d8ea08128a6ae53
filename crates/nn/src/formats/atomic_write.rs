//! Atomic writes of files.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Longer chains of symbolic links are assumed to be cyclic, as in Linux.
const MAX_LINKS: usize = 40;

/// Writes a file under a temporary name next to `path`, and renames it when it is complete and on
/// disk: a crash leaves the old file. The permissions of an existing file are kept. Temporary files
/// left by killed processes are removed.
pub(crate) fn write_atomic(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    // Pipes and devices are written directly: a rename would replace them by a regular file.
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
        return OpenOptions::new().write(true).open(path)?.write_all(bytes);
    }
    let path = &resolve_links(path)?;
    remove_stale(path);
    let temporary = temporary_path(path)?;
    let written = write_and_sync(&temporary, path, bytes).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // Return the first error. If the removal fails, a stray temporary file is the worst result.
        let _ = fs::remove_file(&temporary);
        return written;
    }
    sync_folder(path)
}

/// Follows symbolic links to the file that `path` refers to, which need not exist. Renaming a file
/// onto the link itself would replace the link.
fn resolve_links(path: &Path) -> std::io::Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..MAX_LINKS {
        // `read_link` fails if the path is not a link or does not exist.
        let Ok(target) = fs::read_link(&path) else { return Ok(path) };
        path.pop();
        path.push(target);
    }
    Err(std::io::Error::other(format!("more than {MAX_LINKS} symbolic links")))
}

/// Returns a name in the same folder that no other thread or process uses.
fn temporary_path(path: &Path) -> std::io::Result<PathBuf> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().ok_or_else(|| std::io::Error::other("this is not a file name"))?;
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let mut temporary = temporary_prefix(name);
    temporary.push(format!("{}.{count}.tmp", std::process::id()));
    Ok(path.with_file_name(temporary))
}

/// Returns the common prefix of the names of all temporary files for a file of this name.
fn temporary_prefix(name: &OsStr) -> OsString {
    let mut prefix = OsString::from(".");
    prefix.push(name);
    prefix.push(".");
    prefix
}

/// Writes a new file, locked while it is written, with the permissions of `old` if that exists.
fn write_and_sync(path: &Path, old: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    // The error is ignored: where files cannot be locked, `remove_stale` removes none.
    let _ = file.lock_shared();
    if let Ok(metadata) = fs::metadata(old) {
        file.set_permissions(metadata.permissions())?;
    }
    file.write_all(bytes)?;
    file.sync_all()
}

/// Removes temporary files for `path` that no process is writing any longer. A killed process
/// leaves its temporary file, but its lock is released.
fn remove_stale(path: &Path) {
    let Some(name) = path.file_name() else { return };
    let prefix = temporary_prefix(name);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if is_temporary(&entry.file_name(), &prefix) {
            remove_unless_locked(&entry.path());
        }
    }
}

/// Whether a name consists of `prefix`, a process id, a count and `.tmp`.
fn is_temporary(name: &OsStr, prefix: &OsStr) -> bool {
    let rest = name.as_encoded_bytes().strip_prefix(prefix.as_encoded_bytes());
    let Some(numbers) = rest.and_then(|rest| rest.strip_suffix(b".tmp")) else { return false };
    let parts: Vec<&[u8]> = numbers.split(|&byte| byte == b'.').collect();
    parts.len() == 2 && parts.iter().all(|part| !part.is_empty() && part.iter().all(u8::is_ascii_digit))
}

/// A younger file may have just been created and not be locked yet.
const MIN_STALE_AGE: Duration = Duration::from_secs(10);

/// Skips a file that cannot be opened, locked or removed: saving does not fail because of it.
fn remove_unless_locked(path: &Path) {
    let age = || fs::metadata(path).ok()?.modified().ok()?.elapsed().ok();
    if age().is_none_or(|age| age < MIN_STALE_AGE) {
        return;
    }
    let Ok(file) = OpenOptions::new().write(true).open(path) else { return };
    match file.try_lock() {
        Ok(()) => drop(fs::remove_file(path)),
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => {}
    }
}

/// Makes the rename itself durable, on systems where a folder can be synced.
fn sync_folder(path: &Path) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}
