//! What the sources must not contain: devices in core and nn, `unsafe` outside backends, unfinished
//! work anywhere; and that paths in documents exist.

use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut stack = vec![root().join(folder)];
    while let Some(folder) = stack.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of the project") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                stack.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).expect("UTF-8 source");
                found.push((path, text));
            }
        }
    }
    assert!(!found.is_empty(), "no sources in {folder}");
    found
}

/// Returns the line without its comment.
fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or("")
}

fn offenders(folder: &str, is_bad: impl Fn(&str) -> bool) -> Vec<String> {
    sources(folder)
        .into_iter()
        .flat_map(|(path, text)| {
            let bad: Vec<String> = text
                .lines()
                .enumerate()
                .filter(|(_, line)| is_bad(code(line)))
                .map(|(number, line)| format!("{}:{}: {line}", path.display(), number + 1))
                .collect();
            bad
        })
        .collect()
}

#[test]
fn unsafe_lives_in_backends_only() {
    for folder in [
        "src",
        "crates/core",
        "crates/nn",
        "crates/derive",
        "crates/data",
        "crates/train",
        "crates/linalg",
        "crates/testing",
        "apps",
        "examples",
        "xtask/src",
    ] {
        let found = offenders(folder, |line| {
            line.contains("unsafe {") || line.contains("unsafe fn") || line.contains("unsafe impl")
        });
        assert!(found.is_empty(), "{found:#?}");
    }
}

#[test]
fn core_and_nn_depend_on_no_backend() {
    for package in ["core", "nn", "derive", "train", "linalg"] {
        let manifest =
            std::fs::read_to_string(root().join(format!("crates/{package}/Cargo.toml"))).expect("a manifest");
        let dependencies = manifest.split("[dev-dependencies]").next().unwrap_or("");
        for backend in ["ternion-cpu", "ternion-cuda", "ternion-wgpu"] {
            assert!(!dependencies.contains(backend), "{package} depends on {backend}");
        }
    }
}

/// A check of the manifests would miss a device that is selected by its name, or compiled in by a
/// feature of another crate.
#[test]
fn the_sources_of_core_and_nn_name_no_device() {
    for folder in
        ["crates/core/src", "crates/nn/src", "crates/derive/src", "crates/train/src", "crates/linalg/src"]
    {
        let found = offenders(folder, names_a_device);
        assert!(found.is_empty(), "{found:#?}");
    }
    assert!(
        names_a_device("let device = ternion_cpu::device();"),
        "a check that finds nothing shows nothing"
    );
    assert!(names_a_device("if device.name() == \"cuda\" {") && names_a_device("#[cfg(feature = \"wgpu\")]"));
}

/// Returns whether a line of code names a backend's crate, or has a string that is a backend's
/// name; an example within a longer message does not select a backend.
fn names_a_device(line: &str) -> bool {
    ["cpu", "cuda", "wgpu"]
        .iter()
        .any(|backend| line.contains(&format!("ternion_{backend}")) || line.contains(&format!("\"{backend}")))
}

#[test]
fn nothing_is_unfinished() {
    // Written in two parts, so that this file does not match.
    let marks = [["todo", "!("], ["unimplemented", "!("], ["#[ign", "ore"], ["FIX", "ME"]]
        .map(|parts| parts.concat());
    for folder in ["src", "apps", "crates", "tests", "examples", "xtask/src"] {
        let found = offenders(folder, |line| marks.iter().any(|mark| line.contains(mark.as_str())));
        assert!(found.is_empty(), "{found:#?}");
    }
}

#[test]
fn every_unsafe_block_of_a_backend_says_why_it_is_sound() {
    for (path, text) in sources("crates/backend-cpu") {
        let lines: Vec<&str> = text.lines().collect();
        for (number, line) in lines.iter().enumerate() {
            let opens = code(line).contains("unsafe {") || code(line).contains("unsafe impl");
            let near = &lines[number.saturating_sub(6)..=number];
            assert!(
                !opens || near.iter().any(|line| line.contains("SAFETY:")),
                "{}:{}",
                path.display(),
                number + 1
            );
        }
    }
}

/// Files that do not exist because readers of the guides create them.
const CREATED: &[&str] =
    &["kernels/ops/copy_bulk.cu", "kernels/ptx/cp_async_bulk.cuh", "tests/kernels/copies.rs"];

/// Returns the files of the repository with one of these endings, relative to its root.
fn files(endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut stack = vec![root().to_path_buf()];
    while let Some(folder) = stack.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of the project") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                // Excludes build outputs of cargo and Python, and git's files.
                let is_ours = !["target", "bundle", "node_modules"].contains(&name.as_str());
                let is_shown = name == ".ci" || !name.starts_with('.');
                if is_ours && is_shown && !path.is_symlink() {
                    stack.push(path);
                }
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                found.push(path.strip_prefix(root()).expect("within the repository").to_path_buf());
            }
        }
    }
    found
}

/// Returns the Markdown pages of the repository.
fn pages() -> Vec<(PathBuf, String)> {
    let read = |page: PathBuf| {
        let text = std::fs::read_to_string(root().join(&page)).expect("UTF-8 text");
        (page, text)
    };
    files(&[".md"]).into_iter().map(read).collect()
}

/// The endings of source files.
const SOURCES: [&str; 6] = [".rs", ".cu", ".cuh", ".wgsl", ".py", ".pyi"];

/// Returns the parts of `text` in backticks that are names of source files, with or without a part
/// of their path.
fn file_names(text: &str) -> Vec<String> {
    let is_name = |words: &&str| {
        let letters = |letter: char| letter.is_ascii_alphanumeric() || "/._-{},".contains(letter);
        SOURCES.iter().any(|ending| words.ends_with(ending) && words.len() > ending.len())
            && !words.starts_with("..")
            && words.chars().all(letters)
    };
    let quoted = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    quoted.filter(is_name).flat_map(expanded).collect()
}

/// Returns the parts of `text` in backticks that are paths within the repository: they start with
/// one of its folders and contain only characters of a path.
fn paths(text: &str) -> Vec<String> {
    const FOLDERS: [&str; 16] = [
        ".ci",
        "apps",
        "bench",
        "benches",
        "crates",
        "docs",
        "examples",
        "kernels",
        "python",
        "shaders",
        "src",
        "tests",
        "xtask",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "README.md",
    ];
    let is_path = |words: &&str| {
        let first = words.split('/').next().unwrap_or_default();
        let letters = |letter: char| letter.is_ascii_alphanumeric() || "/._-{},*".contains(letter);
        FOLDERS.contains(&first) && words.contains(['/', '.']) && words.chars().all(letters)
    };
    let quoted = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    quoted.filter(is_path).flat_map(|words| expanded(words.trim_end_matches('/'))).collect()
}

/// Expands `a/{b,c}.rs` to two paths.
fn expanded(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else { return vec![path.to_string()] };
    let Some((inner, after)) = rest.split_once('}') else { return vec![path.to_string()] };
    inner.split(',').flat_map(|part| expanded(&format!("{before}{part}{after}"))).collect()
}

/// Returns whether the path exists, in the repository or, for `src` and `tests`, in one of its
/// crates. A `*` in the last component matches any characters.
fn exists(path: &str) -> bool {
    if CREATED.contains(&path) {
        return true;
    }
    if path.starts_with("src/") || path.starts_with("tests/") {
        let crates = std::fs::read_dir(root().join("crates")).expect("the crates").flatten();
        return root().join(path).exists()
            || crates.into_iter().any(|found| found.path().join(path).exists());
    }
    let Some((before, after)) = path.split_once('*') else { return root().join(path).exists() };
    let (folder, prefix) = before.rsplit_once('/').unwrap_or(("", before));
    let Ok(entries) = std::fs::read_dir(root().join(folder)) else { return false };
    entries.flatten().any(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        name.starts_with(prefix) && name.ends_with(after)
    })
}

/// Returns the targets of a page's links, `[words](target)`, without code and without the part
/// after a `#`.
fn links(text: &str) -> Vec<String> {
    let mut in_code = false;
    let mut found = Vec::new();
    for line in text.lines() {
        in_code ^= line.trim_start().starts_with("```");
        let prose: String = line.split('`').step_by(2).collect();
        let targets = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        let local = targets.filter(|target| !target.contains("://") && !target.starts_with('#'));
        if !in_code {
            found.extend(local.map(|target| target.split('#').next().unwrap_or_default().to_string()));
        }
    }
    found
}

#[test]
fn every_path_and_link_in_the_documents_leads_somewhere() {
    let sources = files(&SOURCES);
    let is_source = |name: &String| {
        CREATED.iter().any(|path| Path::new(path).ends_with(name))
            || sources.iter().any(|path| path.ends_with(name))
    };
    let mut checked = 0;
    let mut missing = Vec::new();
    for (page, text) in pages() {
        let folder = root().join(&page).parent().expect("a folder").to_path_buf();
        let (paths, links, names) = (paths(&text), links(&text), file_names(&text));
        checked += paths.len() + links.len() + names.len();
        let wrong_paths = paths.into_iter().filter(|path| !exists(path) && !folder.join(path).exists());
        let wrong_links = links.into_iter().filter(|link| !folder.join(link).exists());
        let wrong_names = names.into_iter().filter(|name| !is_source(name) && !folder.join(name).exists());
        let wrong = wrong_paths.chain(wrong_links).chain(wrong_names);
        missing.extend(wrong.map(|words| format!("{}: {words}", page.display())));
    }
    missing.dedup();
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(checked > 200, "a check that finds {checked} paths shows nothing");
    assert!(!exists("tests/no_such_test.rs") && exists("kernels/*.tsv"));
    assert_eq!(
        paths("`crates/{core,nn}/src` `cargo test` `src` `a/b`"),
        ["crates/core/src", "crates/nn/src"]
    );
    assert_eq!(links("[a](b.md#c), `[d](e)`, [f](https://g), [h](#i)"), ["b.md"]);
}

/// The list in ARCHITECTURE.md that names a file to start from for each kind of change.
#[test]
fn every_entry_point_names_a_file() {
    let page = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("UTF-8 text");
    let section = page.split("## Entry points").nth(1).and_then(|rest| rest.split("\n## ").next());
    let rows: Vec<&str> =
        section.expect("the section").lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(rows.len() >= 20, "{} entry points", rows.len());
    for row in rows {
        let has_link = links(row).iter().any(|link| root().join(link).exists());
        let named = paths(row);
        let has_path = named.iter().any(|path| exists(path))
            || row.split('`').skip(1).step_by(2).any(|folder| ["kernels", "shaders"].contains(&folder));
        assert!(has_link || has_path, "{row}");
        assert!(named.iter().all(|path| exists(path)), "{row}");
    }
}
