//! What is deliberately absent: devices in core and nn, `unsafe` outside backends, unfinished work anywhere.

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

/// The line without its comment.
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
        "crates/testing",
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
    for package in ["core", "nn", "derive", "train"] {
        let manifest =
            std::fs::read_to_string(root().join(format!("crates/{package}/Cargo.toml"))).expect("a manifest");
        let dependencies = manifest.split("[dev-dependencies]").next().unwrap_or("");
        for backend in ["ternion-cpu", "ternion-cuda", "ternion-wgpu"] {
            assert!(!dependencies.contains(backend), "{package} depends on {backend}");
        }
    }
}

/// The manifests cannot see a device that is chosen by its name, or compiled in by a feature of another crate.
#[test]
fn the_sources_of_core_and_nn_name_no_device() {
    for folder in ["crates/core/src", "crates/nn/src", "crates/derive/src", "crates/train/src"] {
        let found = offenders(folder, names_a_device);
        assert!(found.is_empty(), "{found:#?}");
    }
    assert!(
        names_a_device("let device = ternion_cpu::device();"),
        "a check that finds nothing shows nothing"
    );
    assert!(names_a_device("if device.name() == \"cuda\" {") && names_a_device("#[cfg(feature = \"wgpu\")]"));
}

/// Whether a line of code names a backend's crate, or a backend in a string of its own; an example within a longer message is no choice.
fn names_a_device(line: &str) -> bool {
    ["cpu", "cuda", "wgpu"]
        .iter()
        .any(|backend| line.contains(&format!("ternion_{backend}")) || line.contains(&format!("\"{backend}")))
}

#[test]
fn nothing_is_unfinished() {
    // Spelled in two parts, so that this file does not find itself.
    let marks = [["todo", "!("], ["unimplemented", "!("], ["#[ign", "ore"], ["FIX", "ME"]]
        .map(|parts| parts.concat());
    for folder in ["src", "crates", "tests", "examples", "xtask/src"] {
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
