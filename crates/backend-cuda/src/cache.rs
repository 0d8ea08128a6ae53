//! Compiled kernels on disk, so that a program, from its second run on, starts as fast as if its
//! kernels had been compiled ahead of time.
//!
//! An entry is named by the SHA-256 of everything it depends on, and begins with the SHA-256 of its
//! content: a truncated or foreign file counts as missing. An entry is written to a temporary file
//! next to the final one and then renamed, because several processes may write the same entry.

use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use ternion_core::{Error, Result};

/// Bytes of a digest.
const DIGEST_BYTES: usize = 32;

/// A temporary file of this age was left by a process that ended while it wrote the file.
const ABANDONED_AGE: Duration = Duration::from_secs(3600);

/// A folder of entries. Without a folder nothing is cached.
#[derive(Debug)]
pub(crate) struct Cache {
    folder: Option<PathBuf>,
}

impl Cache {
    /// Returns the cache in `$TERNION_CACHE`, or else in the user's cache directory.
    pub(crate) fn from_environment() -> Cache {
        let variable =
            |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = || variable("HOME").map(|home| home.join(".cache"));
        // Relative paths are to be ignored, according to the XDG Base Directory Specification.
        let absolute = |path: &PathBuf| path.is_absolute();
        let user =
            || variable("XDG_CACHE_HOME").filter(absolute).or_else(|| variable("LOCALAPPDATA")).or_else(home);
        let root = variable("TERNION_CACHE").or_else(|| user().map(|cache| cache.join("ternion")));
        Cache { folder: root.map(|root| root.join("kernels")) }
    }

    /// Returns the entry for `key`, which lists everything it depends on, if there is a valid one.
    pub(crate) fn get(&self, key: &[&str]) -> Option<Vec<u8>> {
        let bytes = std::fs::read(self.path(key)?).ok()?;
        let (digest, body) = bytes.split_at_checked(DIGEST_BYTES)?;
        (digest == Sha256::digest(body).as_slice()).then(|| body.to_vec())
    }

    /// Stores an entry. A failure is not an error: the kernel is compiled again next time.
    pub(crate) fn put(&self, key: &[&str], body: &[u8]) {
        let _ = self.store(key, body);
    }

    /// Stores an entry that will be distributed, and returns its file.
    ///
    /// # Errors
    /// There is no folder, or the file cannot be written.
    pub(crate) fn store(&self, key: &[&str], body: &[u8]) -> Result<PathBuf> {
        let variables = "expected one of TERNION_CACHE, XDG_CACHE_HOME, LOCALAPPDATA and HOME, found none";
        let none = || Error::invalid("cuda", format!("no folder for the kernel cache: {variables}"));
        let path = self.path(key).ok_or_else(none)?;
        write(&path, body).map_err(|error| Error::File {
            path: path.display().to_string(),
            detail: error.to_string(),
            code: error.raw_os_error(),
        })?;
        Ok(path)
    }

    /// Returns whether the cache has an entry.
    pub(crate) fn has_entries(&self) -> bool {
        let entries = self.folder.as_ref().and_then(|folder| std::fs::read_dir(folder).ok());
        entries
            .into_iter()
            .flatten()
            .flatten()
            .any(|entry| entry.path().extension().is_some_and(|end| end == "cubin"))
    }

    fn path(&self, key: &[&str]) -> Option<PathBuf> {
        let folder = self.folder.as_ref()?;
        let mut digest = Sha256::new();
        for part in key {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part.as_bytes());
        }
        let name: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Some(folder.join(name + ".cubin"))
    }
}

/// Writes a temporary file next to `path` and renames it to `path`, so that a reader finds the
/// whole file or none.
fn write(path: &Path, body: &[u8]) -> std::io::Result<()> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let unique = format!("{}-{}.tmp", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let temporary = path.with_extension(unique);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
        static SWEPT: Once = Once::new();
        SWEPT.call_once(|| sweep(folder, ABANDONED_AGE));
    }
    let mut bytes = Sha256::digest(body).to_vec();
    bytes.extend_from_slice(body);
    let written = std::fs::write(&temporary, bytes).and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

/// Removes temporary files that killed processes have left. Ignores files that cannot be removed,
/// for example because another process has removed them.
fn sweep(folder: &Path, min_age: Duration) {
    let is_abandoned = |entry: &std::fs::DirEntry| {
        let age = entry.metadata().and_then(|metadata| metadata.modified()).map(|time| time.elapsed());
        entry.path().extension().is_some_and(|extension| extension == "tmp")
            && age.is_ok_and(|age| age.is_ok_and(|age| age >= min_age))
    };
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten().filter(is_abandoned) {
        let _ = std::fs::remove_file(entry.path());
    }
}

#[cfg(test)]
impl Cache {
    /// Returns an empty cache for the test of that name.
    pub(crate) fn fresh(name: &str) -> Cache {
        let folder = std::env::temp_dir().join(format!("ternion-cache-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        Cache { folder: Some(folder) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_is_found_under_its_own_key_only() {
        let cache = Cache::fresh("keys");
        cache.put(&["ab", "c"], b"machine code");
        assert_eq!(cache.get(&["ab", "c"]).as_deref(), Some(&b"machine code"[..]));
        assert_eq!(cache.get(&["a", "bc"]), None);
        assert_eq!(Cache { folder: None }.get(&["ab", "c"]), None);
    }

    #[test]
    fn an_entry_that_cannot_be_stored_is_an_error_that_names_its_file() {
        let cache = Cache::fresh("stored");
        let path = cache.store(&["key"], b"machine code").expect("stored");
        assert_eq!(cache.path(&["key"]).as_ref(), Some(&path));
        assert_eq!(cache.get(&["key"]).as_deref(), Some(&b"machine code"[..]));
        let below_a_file = Cache { folder: Some(path.join("kernels")) };
        let error = below_a_file.store(&["key"], b"machine code").expect_err("not a folder").to_string();
        assert!(error.contains(&path.join("kernels").display().to_string()), "{error}");
        let error = Cache { folder: None }.store(&["key"], b"machine code").expect_err("nowhere").to_string();
        assert!(error.contains("TERNION_CACHE"), "{error}");
        // A running program continues without the cache.
        below_a_file.put(&["key"], b"machine code");
        assert_eq!(below_a_file.get(&["key"]), None);
    }

    #[test]
    fn an_empty_folder_has_no_entries() {
        let cache = Cache::fresh("entries");
        assert!(!cache.has_entries());
        cache.put(&["key"], b"body");
        assert!(cache.has_entries());
        assert!(!Cache { folder: None }.has_entries());
    }

    #[test]
    fn a_damaged_entry_is_none() {
        let cache = Cache::fresh("damage");
        let key = ["kernel"];
        cache.put(&key, b"machine code");
        let path = cache.path(&key).expect("a folder");
        let sound = std::fs::read(&path).expect("written");
        let mut flipped = sound.clone();
        *flipped.last_mut().expect("not empty") ^= 1;
        for damaged in [&sound[..sound.len() - 1], &sound[..DIGEST_BYTES - 1], &[], &flipped] {
            std::fs::write(&path, damaged).expect("writes");
            assert_eq!(cache.get(&key), None);
        }
        cache.put(&key, b"machine code");
        assert!(cache.get(&key).is_some());
    }

    #[test]
    fn what_was_abandoned_is_swept_away() {
        let cache = Cache::fresh("sweep");
        cache.put(&["kept"], b"machine code");
        let folder = cache.folder.as_ref().expect("a folder");
        std::fs::write(folder.join("ab.1-2.tmp"), b"half").expect("writes");
        sweep(folder, ABANDONED_AGE);
        assert_eq!(std::fs::read_dir(folder).expect("reads").count(), 2, "it may be being written");
        sweep(folder, Duration::ZERO);
        assert_eq!(std::fs::read_dir(folder).expect("reads").count(), 1);
        assert!(cache.get(&["kept"]).is_some());
    }

    /// What each process of the next test runs, in the folder that `TERNION_TEST_RACE` names. Does
    /// nothing without this variable.
    #[test]
    fn one_of_several_processes() {
        let Some(folder) = std::env::var_os("TERNION_TEST_RACE").map(PathBuf::from) else { return };
        let cache = Cache { folder: Some(folder) };
        for round in 0..200 {
            let (key, body) = ([["a", "b", "c"][round % 3]], [round as u8 % 3; 10_000]);
            let found = cache.get(&key);
            assert!(found.is_none_or(|found| found == body), "part of an entry, or another one");
            cache.put(&key, &body);
        }
    }

    #[test]
    fn racing_processes_see_only_complete_entries() {
        let cache = Cache::fresh("processes");
        let folder = cache.folder.as_ref().expect("a folder");
        let process = || {
            std::process::Command::new(std::env::current_exe().expect("this program"))
                .args(["--exact", "cache::tests::one_of_several_processes"])
                .env("TERNION_TEST_RACE", folder)
                .stdout(std::process::Stdio::piped())
                .spawn()
                .expect("starts")
        };
        for process in [(); 4].map(|()| process()) {
            let ended = process.wait_with_output().expect("ends");
            let output = String::from_utf8_lossy(&ended.stdout).into_owned();
            assert!(ended.status.success() && output.contains("1 passed"), "{output}");
        }
        for (byte, key) in ["a", "b", "c"].into_iter().enumerate() {
            assert_eq!(cache.get(&[key]), Some(vec![byte as u8; 10_000]));
        }
        assert_eq!(std::fs::read_dir(folder).expect("reads").count(), 3, "no temporary file stays");
    }

    #[test]
    fn racing_writers_leave_one_sound_entry() {
        let cache = Cache::fresh("race");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..50).for_each(|_| cache.put(&["same"], &[7; 10_000])));
            }
        });
        assert_eq!(cache.get(&["same"]), Some(vec![7; 10_000]));
        let left = std::fs::read_dir(cache.folder.as_ref().expect("a folder")).expect("reads").count();
        assert_eq!(left, 1, "no temporary file stays");
    }
}
