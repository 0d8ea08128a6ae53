//! Messages consist of parts and are rendered once: their literal text contains no dtype name and
//! no Rust method, and no code replaces words in them.

use std::path::{Path, PathBuf};

/// Names of Rust's interface that have other names in a binding: they must be parts of a message
/// (`DType`, `Term`), not literal text.
const NAMES_OF_RUST: [&str; 14] = [
    "f64",
    "f32",
    "f16",
    "bf16",
    "i64",
    "i32",
    "i16",
    "i8",
    "u8",
    "to_dtype",
    "to_device",
    "cotangent",
    "cotangents",
    "usize",
];

/// The start of an expression that builds a message.
const MESSAGES: [&str; 4] = ["Error::invalid(", "Error::autograd(", "Error::dtype(", "text!["];

/// Ways to replace words of a text.
const REPLACEMENTS: [&str; 5] = [".replace(", ".replacen(", ".strip_prefix(", ".find(is_", ".split("];

fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    fn collect(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
        let mut entries: Vec<PathBuf> = std::fs::read_dir(folder)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").path())
            .collect();
        entries.sort();
        for path in entries {
            if path.is_dir() {
                collect(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).expect("a source");
                found.push((path, text.split("#[cfg(test)]").next().unwrap_or_default().to_owned()));
            }
        }
    }
    let mut found = Vec::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut found);
    assert!(!found.is_empty(), "{folder} has no sources");
    found
}

/// Returns the string literals of the expression at the start of `code`, up to its closing bracket.
fn literals(code: &str) -> Vec<String> {
    let (mut depth, mut found, mut chars) = (0_i32, Vec::new(), code.chars());
    while let Some(c) = chars.next() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            '"' => {
                let mut literal = String::new();
                while let Some(c) = chars.next().filter(|c| *c != '"') {
                    literal.extend(if c == '\\' { chars.next() } else { Some(c) });
                }
                found.push(literal);
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    found
}

/// Returns the words in literals of messages in `code` that should be parts of the message.
fn names_of_rust(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for message in MESSAGES {
        for (at, start) in code.match_indices(message) {
            let rest = &code[at + start.len()..];
            // The name of an op, which is a separate field.
            let names_op =
                ["Error::invalid(", "Error::dtype("].contains(&message) && rest.trim_start().starts_with('"');
            for literal in literals(&code[at + start.len() - 1..]).into_iter().skip(usize::from(names_op)) {
                let mut words = literal.split(|c: char| !(c.is_alphanumeric() || c == '_'));
                let is_formatted = literal.contains("dtype}") || literal.contains("{dtype:");
                if is_formatted || words.any(|word| NAMES_OF_RUST.contains(&word)) {
                    found.push(literal);
                }
            }
        }
    }
    found
}

#[test]
fn words_of_messages_name_nothing_of_rust() {
    for folder in ["crates/core/src", "crates/nn/src", "crates/train/src", "crates/python/src"] {
        for (path, code) in sources(folder) {
            // The names of precisions are the strings from which a `Precision` is parsed, in every
            // language.
            if path.ends_with("core/src/precision.rs") {
                continue;
            }
            let found = names_of_rust(&code);
            assert!(found.is_empty(), "{}: {found:#?}", path.display());
        }
    }
    let planted = "Err(Error::invalid(op, format!(\"{value} does not fit i64\")))";
    assert_eq!(
        names_of_rust(planted),
        ["{value} does not fit i64"],
        "a check that finds nothing shows nothing"
    );
    assert_eq!(names_of_rust("text![\"tensor is {dtype}\"]").len(), 1);
    assert!(names_of_rust("text![\"tensor is \", dtype]").is_empty());
}

#[test]
fn the_binding_replaces_no_words() {
    let renders = ["src/dialect.rs", "src/error.rs", "src/diagnostics/check.rs"];
    let rendered: Vec<_> = sources("crates/python/src")
        .into_iter()
        .chain(sources("crates/core/src/error"))
        .filter(|(path, _)| renders.iter().any(|end| path.ends_with(end)) || path.ends_with("error/text.rs"))
        .collect();
    assert_eq!(rendered.len(), renders.len() + 1, "a file that renders messages is gone");
    for (path, code) in rendered {
        let found: Vec<&&str> = REPLACEMENTS.iter().filter(|way| code.contains(**way)).collect();
        assert!(found.is_empty(), "{}: {found:?}", path.display());
    }
    // Python's messages are built from the parts of an error.
    for (path, code) in sources("crates/python/src") {
        assert!(!code.contains("crate::words"), "{}", path.display());
    }
}
