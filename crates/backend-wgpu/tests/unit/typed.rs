//! Shaders and variants are chosen by type: outside the linker, which works on text, nothing is
//! recognized by comparing or splitting a string.

use std::path::{Path, PathBuf};

/// How a string is recognized.
const COMPARISONS: [&str; 7] =
    ["== \"", "!= \"", "starts_with(\"", "ends_with(\"", ".split(", ".split_once(", ".contains(\""];
/// Whose job is text: the linker and its `#repeat`.
const TEXT: [&str; 2] = ["linker.rs", "repeat.rs"];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => sources(&path, found),
            false => found.push(path),
        }
    }
}

#[test]
fn no_shader_is_recognized_by_a_string() {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    assert!(files.len() > 40, "{} files", files.len());
    let is_text = |path: &PathBuf| TEXT.iter().any(|name| path.ends_with(name));
    for path in files.iter().filter(|path| !is_text(path)) {
        let text = std::fs::read_to_string(path).expect("a text");
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        for (number, line) in code.lines().enumerate() {
            let found = COMPARISONS.iter().find(|comparison| line.contains(**comparison));
            assert!(found.is_none(), "{}:{}: {line}", path.display(), number + 1);
        }
    }
}
