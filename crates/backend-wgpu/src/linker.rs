//! Puts a shader together: its own text, what is generated for it, and those items of the library that it reaches by name.
//!
//! A text is a flat list of items (`fn`, `struct`, `const`, `alias`, `var`, `override`). Compilers of GPU drivers are slow: what a shader does not
//! use is left out before they see it.

use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::{Arc, LazyLock};

/// A declaration on the top level of a text.
#[derive(Debug)]
struct Item {
    name: String,
    text: String,
    /// Every identifier in it.
    words: FxHashSet<String>,
}

/// The items of a file by name.
type Library = FxHashMap<String, Arc<Item>>;

/// Arithmetic that a shader is about: which file tells what a number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Class {
    /// f32, and 16-bit floats, which are widened.
    Float,
    /// i32.
    Int,
    /// u8 and bool, as numbers from 0 to 255.
    Byte,
    /// i64, as two words.
    Wide,
}

macro_rules! texts {
    ($($constant:ident = $file:literal),* $(,)?) => {
        $(static $constant: LazyLock<Library> = LazyLock::new(|| library(include_str!(concat!("../shaders/", $file))));)*
    };
}
texts! {
    FLOAT = "float.wgsl", INT = "int.wgsl", BYTE = "byte.wgsl", WIDE = "wide.wgsl",
    STORE = "store.wgsl", CAST = "cast.wgsl", INDEX = "index.wgsl", WRITE = "write.wgsl", RESULT = "result.wgsl", PHILOX = "philox.wgsl",
    ROW = "row.wgsl", REDUCE = "reduce.wgsl", SOFTMAX = "softmax.wgsl", NORM = "norm.wgsl", LOSS = "loss.wgsl",
}

/// Where a name is looked for: the class first, then what all have in common.
fn libraries(class: Class) -> [&'static Library; 13] {
    let own = match class {
        Class::Float => &FLOAT,
        Class::Int => &INT,
        Class::Byte => &BYTE,
        Class::Wide => &WIDE,
    };
    [own, &STORE, &CAST, &INDEX, &WRITE, &RESULT, &PHILOX, &WIDE, &ROW, &REDUCE, &SOFTMAX, &NORM, &LOSS]
}

/// The whole text of a shader: all of `root`, and what it reaches. Identifiers of `defines` stand for their texts.
pub(crate) fn link(root: &str, class: Class, defines: &[(String, String)]) -> String {
    let mut text = without_comments(root);
    let mut taken: FxHashSet<String> = items(&text).into_iter().map(|item| item.name).collect();
    let mut waiting: Vec<String> = sorted(identifiers(&text));
    let libraries = libraries(class);
    while let Some(name) = waiting.pop() {
        if taken.contains(&name) {
            continue;
        }
        if let Some((_, with)) = defines.iter().find(|(defined, _)| *defined == name) {
            waiting.extend(sorted(identifiers(with)));
        } else if let Some(item) = libraries.iter().find_map(|library| library.get(&name)) {
            text.push_str(&item.text);
            text.push('\n');
            waiting.extend(sorted(item.words.clone()));
        }
        taken.insert(name);
    }
    substituted(&text, defines)
}

/// In one order, so that a shader is the same text in every run.
fn sorted(words: FxHashSet<String>) -> Vec<String> {
    let mut words: Vec<String> = words.into_iter().collect();
    words.sort_unstable();
    words
}

fn library(text: &str) -> Library {
    items(&without_comments(text)).into_iter().map(|item| (item.name.clone(), Arc::new(item))).collect()
}

/// The text without what follows `//` on a line.
fn without_comments(text: &str) -> String {
    let mut bare = String::with_capacity(text.len());
    for line in text.lines() {
        bare.push_str(line.split("//").next().unwrap_or_default().trim_end());
        bare.push('\n');
    }
    bare
}

/// Words that begin with a letter or `_`, and what is between them.
fn pieces(text: &str) -> impl Iterator<Item = (bool, &str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let word = is_word(first);
        let end = rest.find(|c: char| is_word(c) != word).unwrap_or(rest.len());
        let (piece, after) = rest.split_at(end);
        rest = after;
        Some((word && !first.is_ascii_digit(), piece))
    })
}

fn identifiers(text: &str) -> FxHashSet<String> {
    pieces(text).filter(|(word, _)| *word).map(|(_, piece)| piece.to_string()).collect()
}

fn substituted(text: &str, defines: &[(String, String)]) -> String {
    let put = |(word, piece)| match defines.iter().find(|(name, _)| word && name == piece) {
        Some((_, with)) => with.as_str(),
        None => piece,
    };
    pieces(text).map(put).collect()
}

/// The items of a text without comments.
fn items(text: &str) -> Vec<Item> {
    let mut found = Vec::new();
    let (mut depth, mut begin) = (0usize, 0);
    for (at, c) in text.char_indices() {
        match c {
            '{' | '(' | '[' => depth += 1,
            '}' | ')' | ']' => depth -= 1,
            _ => {}
        }
        if depth == 0 && (c == '}' || c == ';') {
            found.extend(item(&text[begin..=at]));
            begin = at + 1;
        }
    }
    found
}

/// One item; nothing of a stray `;`, a directive, or a text that declares nothing.
fn item(text: &str) -> Option<Item> {
    let words: Vec<&str> = pieces(text).filter(|(word, _)| *word).map(|(_, piece)| piece).collect();
    let kinds = ["fn", "struct", "const", "alias", "var", "override"];
    let kind = words.iter().position(|word| kinds.contains(word))?;
    // `var<workgroup> name`, `var<storage, read_write> name`: past the brackets.
    let name = if words[kind] == "var" {
        let behind = text.split_once('>').map_or(text, |(_, behind)| behind);
        pieces(behind).find(|(word, piece)| *word && *piece != "var").map(|(_, piece)| piece)?
    } else {
        words.get(kind + 1)?
    };
    Some(Item { name: name.to_string(), text: text.trim().to_string(), words: identifiers(text) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_found_by_name() {
        let text = "// a comment with fn in it\nstruct Pair { a: u32, b: u32 };\nvar<workgroup> shared_sums: array<f32, 4>;\n\
                    const ONE: u32 = 1u;\n@compute @workgroup_size(64)\nfn main() { let x = ONE; }\nalias C = f32;";
        let names: Vec<String> = items(&without_comments(text)).into_iter().map(|item| item.name).collect();
        assert_eq!(names, ["Pair", "shared_sums", "ONE", "main", "C"]);
    }

    #[test]
    fn only_what_is_reached_is_linked() {
        let text = link("fn main() { let x = FUNCTION(one()); }", Class::Int, &[("FUNCTION".into(), "unary_neg".into())]);
        assert!(text.contains("fn unary_neg") && text.contains("fn one()") && text.contains("alias C"), "{text}");
        assert!(!text.contains("unary_abs") && !text.contains("FUNCTION"), "{text}");
    }
}
