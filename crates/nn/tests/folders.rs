//! The folders of the crate are layered: each imports only from itself and from those below it.

use std::path::{Path, PathBuf};

/// From the lowest layer to the highest.
const FOLDERS: [&str; 8] = ["module", "init", "layers", "losses", "models", "optim", "formats", "inspect"];

/// Returns the code of a file, without comments and tests.
fn code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).expect("a source");
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    code.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

/// Returns the folders from which `code` imports.
fn imports(code: &str) -> Vec<&str> {
    let names = code.match_indices("crate::").map(|(at, start)| &code[at + start.len()..]);
    names
        .map(|rest| rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or_default())
        .collect()
}

#[test]
fn each_folder_imports_from_those_below_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for path in sources(&root) {
        let inside = path.strip_prefix(&root).expect("a file of the crate").with_extension("");
        let folder = inside.components().next().expect("a name").as_os_str().to_string_lossy().into_owned();
        if folder == "lib" {
            continue;
        }
        let floor = FOLDERS.iter().position(|known| *known == folder);
        let floor = floor
            .unwrap_or_else(|| panic!("{folder} has no floor: add it to this test and to ARCHITECTURE.md"));
        for import in imports(&code(&path)) {
            let at = FOLDERS.iter().position(|known| *known == import);
            assert!(at.is_some_and(|at| at <= floor), "{} imports from {import}", path.display());
        }
    }
}
