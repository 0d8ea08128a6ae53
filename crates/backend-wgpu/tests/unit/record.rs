//! Writes a record of every launch of a test to a folder: the linked source of each shader, and a
//! line for each launch.
//!
//! Comparing two such folders shows whether a change leaves all shaders unmodified:
//! `TERNION_WGPU_RECORD=FOLDER cargo test -p ternion-wgpu --lib`. With this variable the op table's
//! rows run in all their dtypes.

use sha2::{Digest, Sha256};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

/// Returns the folder, if the variable is set.
pub(crate) fn folder() -> Option<PathBuf> {
    std::env::var_os("TERNION_WGPU_RECORD").filter(|folder| !folder.is_empty()).map(PathBuf::from)
}

/// Records a launch of this op, in a file named after the running test, which is the name of its
/// thread.
pub(crate) fn launched(op: &str, groups: usize, text: &str, parameters: &[u8]) {
    let Some(folder) = folder() else { return };
    std::fs::create_dir_all(&folder).expect("a folder");
    let name = digest(text.as_bytes());
    let path = folder.join(format!("{name}.wgsl"));
    if !path.exists() {
        std::fs::write(path, text).expect("writes");
    }
    let current = std::thread::current();
    let Some(test) = current.name() else { return };
    let test = test.rsplit("::").next().unwrap_or(test);
    let list = folder.join(format!("{test}.tsv"));
    let mut list = OpenOptions::new().create(true).append(true).open(list).expect("opens");
    let line = format!("{op}\t{name}\t{groups}\t{}\n", digest(parameters));
    list.write_all(line.as_bytes()).expect("writes");
}

/// Returns the first half of a SHA-256 as text.
fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes)[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}
