//! `docs/reference/environment.md` lists every environment variable of Ternion, and no other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const PAGE: &str = "docs/reference/environment.md";

/// The prefix of the names of all variables.
const PREFIX: &str = concat!("TERNION", "_");

/// The files whose variables must have a row: sources, scripts, and the documents that name
/// variables.
const ENDINGS: [&str; 11] =
    [".rs", ".py", ".pyi", ".sh", ".cu", ".cuh", ".h", ".wgsl", ".toml", ".yml", ".md"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the files of the repository that may name variables, with their text.
fn files() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of the project") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_symlink() {
                continue;
            } else if path.is_dir() {
                folders.extend(is_searched(&name).then_some(path));
            } else if folder.ends_with(".ci") || ENDINGS.iter().any(|ending| name.ends_with(ending)) {
                found.push((path.strip_prefix(root()).expect("within the repository").into(), read(&path)));
            }
        }
    }
    found
}

/// Returns whether a folder belongs to the repository: neither a build output nor hidden.
fn is_searched(folder: &str) -> bool {
    let is_built = ["target", "bundle", "node_modules"].contains(&folder);
    let is_hidden = folder.starts_with('.') && ![".ci", ".github"].contains(&folder);
    !is_built && !is_hidden
}

/// Returns the variables that a text names.
fn names(text: &str) -> Vec<&str> {
    let is_letter = |letter: char| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_';
    let starts = text.match_indices(PREFIX).map(|(start, _)| &text[start..]);
    let names = starts.map(|rest| rest.split(|letter| !is_letter(letter)).next().unwrap_or_default());
    names.filter(|name| name.len() > PREFIX.len()).collect()
}

/// Returns whether code names the variable in order to read it: as a string, or as a parameter of a
/// shell script.
fn reads(code: &str, name: &str) -> bool {
    let is_string = ["\"", "'"].iter().any(|quote| code.contains(&format!("{quote}{name}{quote}")));
    let is_whole = |rest: &str| names(rest).first() == Some(&name);
    let is_parameter = ["$", "${"]
        .iter()
        .any(|mark| code.match_indices(&format!("{mark}{name}")).any(|(start, _)| is_whole(&code[start..])));
    is_string || is_parameter
}

/// Returns the rows of the page by their variable.
fn rows(page: &str) -> BTreeMap<&str, &str> {
    let mut rows = BTreeMap::new();
    for line in page.lines() {
        let variable = line.strip_prefix("| `").and_then(|rest| rest.split('`').next()).unwrap_or_default();
        if variable.starts_with(PREFIX) {
            assert!(rows.insert(variable, line).is_none(), "{PAGE} has two rows of {variable}");
        }
    }
    rows
}

/// Returns the files that a row links to.
fn linked(row: &str) -> impl Iterator<Item = PathBuf> {
    let folder = root().join(PAGE).parent().expect("a folder").to_path_buf();
    row.split("](").skip(1).filter_map(|rest| rest.split(')').next()).map(move |link| folder.join(link))
}

/// Returns the variables in a file that have no row.
fn missing(file: &Path, text: &str, rows: &BTreeMap<&str, &str>) -> Vec<String> {
    let mut missing: Vec<&str> = names(text).into_iter().filter(|name| !rows.contains_key(name)).collect();
    missing.sort_unstable();
    missing.dedup();
    missing.into_iter().map(|name| format!("{name} of {} is not in {PAGE}", file.display())).collect()
}

#[test]
fn every_variable_is_on_the_page() {
    let page = read(&root().join(PAGE));
    let rows = rows(&page);
    // The changelog also names variables that were removed.
    let is_checked = |file: &Path| file != Path::new("CHANGELOG.md");
    let files: Vec<_> = files().into_iter().filter(|(file, _)| is_checked(file)).collect();
    let named: usize = files.iter().map(|(_, text)| names(text).len()).sum();
    assert!(named > 200, "{named} names in {} files: a check that finds nothing shows nothing", files.len());
    let missing: Vec<String> = files.iter().flat_map(|(file, text)| missing(file, text, &rows)).collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn every_row_links_to_a_file_that_reads_the_variable() {
    let page = read(&root().join(PAGE));
    for (name, row) in rows(&page) {
        let is_read = linked(row).any(|path| path.is_file() && reads(&read(&path), name));
        assert!(is_read, "{PAGE}: no file that the row of {name} links to reads it");
    }
}

#[test]
fn names_are_found_and_mentions_are_not_reads() {
    let text = "`V_A=1` and V_B2_C, V_*".replace("V_", PREFIX);
    let [first, second] = ["A", "B2_C"].map(|name| format!("{PREFIX}{name}"));
    assert_eq!(names(&text), [&first, &second]);
    assert_eq!(missing(Path::new("a.rs"), &text, &BTreeMap::from([(second.as_str(), "")])).len(), 1);
    for code in ["var(\"N\")", "get('N')", "${N:-}", "\"$N\""] {
        assert!(reads(&code.replace('N', &first), &first), "{code}");
    }
    for code in ["// N asks for it", "export N=1", "$N_B", "\"N=1\""] {
        assert!(!reads(&code.replace('N', &first), &first), "{code}");
    }
}
