//! Assembles a shader from its own text, the text generated for it, and the items of the library
//! that it references by name.
//!
//! A text is a flat list of items (`fn`, `struct`, `const`, `alias`, `var`, `override`). The
//! compilers of GPU drivers are slow, so items that a shader does not use are removed beforehand.

use crate::names::{self, Fill};
use crate::repeat::unroll;
use crate::shaders::{self, Class, class_texts};
use rustc_hash::{FxHashMap, FxHashSet};
use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

/// A declaration at the top level of a text.
#[derive(Debug)]
struct Item {
    name: String,
    text: String,
    is_function: bool,
    words: Words,
}

/// The identifiers of a text, and whether any occurrence precedes a parenthesis (is a call). A
/// variable may have the same name as an unrelated function.
type Words = FxHashMap<String, bool>;

/// The items of a file by name.
type Library = FxHashMap<String, Arc<Item>>;

static CLASSES: [LazyLock<Library>; 6] = [
    LazyLock::new(|| library(class_texts(Class::Float))),
    LazyLock::new(|| library(class_texts(Class::Int))),
    LazyLock::new(|| library(class_texts(Class::Byte))),
    LazyLock::new(|| library(class_texts(Class::Wide))),
    LazyLock::new(|| library(class_texts(Class::Unsigned))),
    LazyLock::new(|| library(class_texts(Class::WideUnsigned))),
];

/// Items that shaders of every class may reference.
static COMMON: LazyLock<Library> = LazyLock::new(|| library(shaders::COMMON));

/// The libraries in which a name is looked up: the class first.
fn libraries(class: Class) -> [&'static Library; 2] {
    [&CLASSES[class as usize], &COMMON]
}

/// Returns the whole text of a shader: all of `root`, and the items that it references. Each
/// placeholder of `fills` is replaced with its text. Those that are numbers may also be used in the
/// repeated lines of `root`.
///
/// # Errors
/// The name of a placeholder that is referenced and not filled.
pub(crate) fn link(root: &str, class: Class, fills: &[Fill]) -> Result<String, String> {
    let numbers: Vec<(&str, usize)> =
        fills.iter().filter_map(|fill| Some((fill.placeholder(), fill.number()? as usize))).collect();
    let fills: Vec<(&str, Cow<'static, str>)> =
        fills.iter().map(|fill| (fill.placeholder(), fill.wgsl())).collect();
    let mut text = unroll(&strip_comments(root), &numbers);
    let mut linked: FxHashSet<String> = items(&text).into_iter().map(|item| item.name).collect();
    let mut pending = sorted(words_of(&text));
    let libraries = libraries(class);
    while let Some((name, is_called)) = pending.pop() {
        if linked.contains(&name) {
            continue;
        }
        let item = libraries.iter().find_map(|library| library.get(&name));
        if let Some((_, with)) = fills.iter().find(|(placeholder, _)| *placeholder == name) {
            // The text that replaces a called name is called.
            pending.extend(sorted(words_of(with)).into_iter().map(|(word, _)| (word, true)));
        } else if let Some(item) = item.filter(|item| is_called || !item.is_function) {
            text.push_str(&item.text);
            text.push('\n');
            pending.extend(sorted(item.words.clone()));
        } else if item.is_some() {
            continue;
        } else if names::is_placeholder(&name) {
            return Err(name);
        }
        linked.insert(name);
    }
    Ok(substitute(&text, &fills))
}

/// Returns the words in a fixed order, so that a shader has the same text in every run.
fn sorted(words: Words) -> Vec<(String, bool)> {
    let mut words: Vec<(String, bool)> = words.into_iter().collect();
    words.sort_unstable();
    words
}

fn library(texts: &[&str]) -> Library {
    let all = texts.iter().flat_map(|text| items(&unroll(&strip_comments(text), &[])));
    all.map(|item| (item.name.clone(), Arc::new(item))).collect()
}

/// Returns the text without comments (`//` to the end of the line).
fn strip_comments(text: &str) -> String {
    let mut bare = String::with_capacity(text.len());
    for line in text.lines() {
        bare.push_str(line.split("//").next().unwrap_or_default().trim_end());
        bare.push('\n');
    }
    bare
}

/// Splits a text into words, which begin with a letter or `_`, and the pieces between them.
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

fn words_of(text: &str) -> Words {
    let mut words = Words::default();
    let mut pieces = pieces(text).peekable();
    while let Some((is_word, piece)) = pieces.next() {
        if is_word {
            let is_called = pieces.peek().is_some_and(|(_, next)| next.trim_start().starts_with('('));
            *words.entry(piece.to_string()).or_default() |= is_called;
        }
    }
    words
}

fn substitute(text: &str, fills: &[(&str, Cow<'static, str>)]) -> String {
    let replace = |(word, piece)| match fills.iter().find(|(placeholder, _)| word && *placeholder == piece) {
        Some((_, with)) => with.as_ref(),
        None => piece,
    };
    pieces(text).map(replace).collect()
}

/// Returns the items of a text without comments.
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

/// Returns the item of a text, or `None` for a stray `;`, a directive, or a text without a
/// declaration.
fn item(text: &str) -> Option<Item> {
    let words: Vec<&str> = pieces(text).filter(|(word, _)| *word).map(|(_, piece)| piece).collect();
    let kinds = ["fn", "struct", "const", "alias", "var", "override"];
    let kind = words.iter().position(|word| kinds.contains(word))?;
    // In `var<workgroup> name` and `var<storage, read_write> name` the name follows the brackets.
    let name = if words[kind] == "var" {
        let rest = text.split_once('>').map_or(text, |(_, rest)| rest);
        pieces(rest).find(|(word, piece)| *word && *piece != "var").map(|(_, piece)| piece)?
    } else {
        words.get(kind + 1)?
    };
    Some(Item {
        name: name.to_string(),
        text: text.trim().to_string(),
        is_function: words[kind] == "fn",
        words: words_of(text),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Function;
    use ternion_core::UnaryOp;

    #[test]
    fn items_are_found_by_name() {
        let text = "// a comment with fn in it\nstruct Pair { a: u32, b: u32 };\nvar<workgroup> shared_sums: array<f32, 4>;\n\
                    const ONE: u32 = 1u;\n@compute @workgroup_size(64)\nfn main() { let x = ONE; }\nalias C = f32;";
        let names: Vec<String> = items(&strip_comments(text)).into_iter().map(|item| item.name).collect();
        assert_eq!(names, ["Pair", "shared_sums", "ONE", "main", "C"]);
    }

    #[test]
    fn no_name_means_two_things() {
        let mut count = 0;
        let mut names = FxHashSet::default();
        for item in shaders::COMMON.iter().flat_map(|text| items(&unroll(&strip_comments(text), &[]))) {
            count += 1;
            assert!(names.insert(item.name.clone()), "{} is declared twice", item.name);
        }
        assert!(count > 100, "{count} items");
        // A name that all classes define is looked up in the class. No other name of a class may
        // shadow a common one.
        let own = |class: usize| CLASSES[class].keys().cloned().collect::<FxHashSet<String>>();
        let interface = &(&(&own(0) & &own(1)) & &own(2)) & &own(3);
        for class in 0..3 {
            let hidden: Vec<String> = own(class)
                .into_iter()
                .filter(|name| names.contains(name) && !interface.contains(name))
                .collect();
            assert!(
                hidden.iter().all(|name| own(3).contains(name)),
                "{hidden:?} of class {class} hide others"
            );
        }
    }

    #[test]
    fn only_what_is_reached_is_linked() {
        let negated = Fill::from(Function::unary(UnaryOp::Neg, false));
        let text = link("fn main() { let x = FUNCTION(one()); }", Class::Int, &[negated])
            .expect("no other placeholder");
        assert!(
            text.contains("fn unary_neg") && text.contains("fn one()") && text.contains("alias C"),
            "{text}"
        );
        assert!(!text.contains("unary_abs") && !text.contains("FUNCTION"), "{text}");
        let text = link("fn main() { let located = 1u; let x = located + 2u; }", Class::Int, &[])
            .expect("no placeholder");
        assert!(!text.contains("params"), "a variable is not a function: {text}");
    }

    #[test]
    fn a_placeholder_that_nothing_fills_is_an_error() {
        let missing = link("fn main() { let x = FUNCTION(one()); }", Class::Int, &[]);
        assert_eq!(missing, Err("FUNCTION".into()));
    }
}
