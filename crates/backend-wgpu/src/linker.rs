//! Assembles a shader from its own source, the source generated for it, and the declarations of the
//! library that it references by name.
//!
//! A WGSL source is a flat list of declarations (`fn`, `struct`, `const`, `alias`, `var`,
//! `override`). The compilers of GPU drivers are slow, so declarations that a shader does not use
//! are removed before compilation.

use crate::names::{self, Fill};
use crate::repeat::unroll;
use crate::shaders::{self, Class, class_sources};
use rustc_hash::{FxHashMap, FxHashSet};
use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

/// A declaration at the top level of a WGSL source.
#[derive(Debug)]
struct Declaration {
    name: String,
    source: String,
    is_function: bool,
    words: Words,
}

/// The identifiers of a source, each with whether any occurrence is followed by a parenthesis, as
/// in a call. A variable may have the same name as an unrelated function.
type Words = FxHashMap<String, bool>;

/// The declarations of a library by name.
type Library = FxHashMap<String, Arc<Declaration>>;

static CLASSES: [LazyLock<Library>; 6] = [
    LazyLock::new(|| library(class_sources(Class::Float))),
    LazyLock::new(|| library(class_sources(Class::Int))),
    LazyLock::new(|| library(class_sources(Class::Byte))),
    LazyLock::new(|| library(class_sources(Class::Wide))),
    LazyLock::new(|| library(class_sources(Class::Unsigned))),
    LazyLock::new(|| library(class_sources(Class::WideUnsigned))),
];

/// Declarations that shaders of every class may reference.
static COMMON: LazyLock<Library> = LazyLock::new(|| library(shaders::COMMON));

/// Returns the libraries in which a name is looked up: first that of the class, then the common
/// one.
fn libraries(class: Class) -> [&'static Library; 2] {
    [&CLASSES[class as usize], &COMMON]
}

/// Returns the complete source of a shader: all of `root`, and the declarations that it references.
/// Each placeholder of `fills` is replaced with its value. Placeholders for numbers may also be
/// used in the `#repeat` lines of `root`.
///
/// # Errors
/// The name of a placeholder that is referenced and has no value.
pub(crate) fn link(root: &str, class: Class, fills: &[Fill]) -> Result<String, String> {
    let numbers: Vec<(&str, usize)> =
        fills.iter().filter_map(|fill| Some((fill.placeholder(), fill.number()? as usize))).collect();
    let fills: Vec<(&str, Cow<'static, str>)> =
        fills.iter().map(|fill| (fill.placeholder(), fill.wgsl())).collect();
    let mut source = unroll(&strip_comments(root), &numbers);
    let mut linked: FxHashSet<String> =
        declarations(&source).into_iter().map(|declaration| declaration.name).collect();
    let mut pending = sorted(words_of(&source));
    let libraries = libraries(class);
    while let Some((name, is_called)) = pending.pop() {
        if linked.contains(&name) {
            continue;
        }
        let declaration = libraries.iter().find_map(|library| library.get(&name));
        if let Some((_, replacement)) = fills.iter().find(|(placeholder, _)| *placeholder == name) {
            // If a placeholder is called, so is the name that replaces it.
            pending.extend(sorted(words_of(replacement)).into_iter().map(|(word, _)| (word, true)));
        } else if let Some(declaration) =
            declaration.filter(|declaration| is_called || !declaration.is_function)
        {
            source.push_str(&declaration.source);
            source.push('\n');
            pending.extend(sorted(declaration.words.clone()));
        } else if declaration.is_some() {
            continue;
        } else if names::is_placeholder(&name) {
            return Err(name);
        }
        linked.insert(name);
    }
    Ok(substitute(&source, &fills))
}

/// Returns the words in a fixed order, so that a shader has the same source in every run.
fn sorted(words: Words) -> Vec<(String, bool)> {
    let mut words: Vec<(String, bool)> = words.into_iter().collect();
    words.sort_unstable();
    words
}

fn library(sources: &[&str]) -> Library {
    let all = sources.iter().flat_map(|source| declarations(&unroll(&strip_comments(source), &[])));
    all.map(|declaration| (declaration.name.clone(), Arc::new(declaration))).collect()
}

/// Returns the source without comments (`//` to the end of the line).
fn strip_comments(source: &str) -> String {
    let mut bare = String::with_capacity(source.len());
    for line in source.lines() {
        bare.push_str(line.split("//").next().unwrap_or_default().trim_end());
        bare.push('\n');
    }
    bare
}

/// Splits a source into tokens: words of letters, digits and `_`, and the text between them. Also
/// returns whether a token is an identifier, that is, a word that does not begin with a digit.
fn tokens(source: &str) -> impl Iterator<Item = (bool, &str)> {
    let mut rest = source;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let word = is_word(first);
        let end = rest.find(|c: char| is_word(c) != word).unwrap_or(rest.len());
        let (token, after) = rest.split_at(end);
        rest = after;
        Some((word && !first.is_ascii_digit(), token))
    })
}

fn words_of(source: &str) -> Words {
    let mut words = Words::default();
    let mut tokens = tokens(source).peekable();
    while let Some((is_identifier, token)) = tokens.next() {
        if is_identifier {
            let is_called = tokens.peek().is_some_and(|(_, next)| next.trim_start().starts_with('('));
            *words.entry(token.to_string()).or_default() |= is_called;
        }
    }
    words
}

fn substitute(source: &str, fills: &[(&str, Cow<'static, str>)]) -> String {
    let replace = |(is_identifier, token)| match fills
        .iter()
        .find(|(placeholder, _)| is_identifier && *placeholder == token)
    {
        Some((_, replacement)) => replacement.as_ref(),
        None => token,
    };
    tokens(source).map(replace).collect()
}

/// Returns the declarations of a source without comments.
fn declarations(source: &str) -> Vec<Declaration> {
    let mut declarations = Vec::new();
    let (mut depth, mut begin) = (0usize, 0);
    for (index, c) in source.char_indices() {
        match c {
            '{' | '(' | '[' => depth += 1,
            '}' | ')' | ']' => depth -= 1,
            _ => {}
        }
        if depth == 0 && (c == '}' || c == ';') {
            declarations.extend(declaration(&source[begin..=index]));
            begin = index + 1;
        }
    }
    declarations
}

/// Returns the declaration in `source`, or `None` for a stray `;`, a directive, or anything else
/// that declares nothing.
fn declaration(source: &str) -> Option<Declaration> {
    let words: Vec<&str> =
        tokens(source).filter(|(is_identifier, _)| *is_identifier).map(|(_, token)| token).collect();
    let kinds = ["fn", "struct", "const", "alias", "var", "override"];
    let kind = words.iter().position(|word| kinds.contains(word))?;
    // In `var<workgroup> name` and `var<storage, read_write> name` the name follows the brackets.
    let name = if words[kind] == "var" {
        let rest = source.split_once('>').map_or(source, |(_, rest)| rest);
        tokens(rest)
            .find(|(is_identifier, token)| *is_identifier && *token != "var")
            .map(|(_, token)| token)?
    } else {
        words.get(kind + 1)?
    };
    Some(Declaration {
        name: name.to_string(),
        source: source.trim().to_string(),
        is_function: words[kind] == "fn",
        words: words_of(source),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Function;
    use ternion_core::UnaryOp;

    #[test]
    fn declarations_are_found_by_name() {
        let source = "// a comment with fn in it\nstruct Pair { a: u32, b: u32 };\nvar<workgroup> shared_sums: array<f32, 4>;\n\
                    const ONE: u32 = 1u;\n@compute @workgroup_size(64)\nfn main() { let x = ONE; }\nalias C = f32;";
        let names: Vec<String> =
            declarations(&strip_comments(source)).into_iter().map(|declaration| declaration.name).collect();
        assert_eq!(names, ["Pair", "shared_sums", "ONE", "main", "C"]);
    }

    #[test]
    fn names_are_unique() {
        let mut count = 0;
        let mut names = FxHashSet::default();
        for declaration in
            shaders::COMMON.iter().flat_map(|source| declarations(&unroll(&strip_comments(source), &[])))
        {
            count += 1;
            assert!(names.insert(declaration.name.clone()), "{} is declared twice", declaration.name);
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
    fn only_referenced_declarations_are_linked() {
        let negated = Fill::from(Function::unary(UnaryOp::Neg, false));
        let source = link("fn main() { let x = FUNCTION(one()); }", Class::Int, &[negated])
            .expect("no other placeholder");
        assert!(
            source.contains("fn unary_neg") && source.contains("fn one()") && source.contains("alias C"),
            "{source}"
        );
        assert!(!source.contains("unary_abs") && !source.contains("FUNCTION"), "{source}");
        let source = link("fn main() { let located = 1u; let x = located + 2u; }", Class::Int, &[])
            .expect("no placeholder");
        assert!(!source.contains("params"), "a variable is not a function: {source}");
    }

    #[test]
    fn a_placeholder_without_a_value_is_an_error() {
        let missing = link("fn main() { let x = FUNCTION(one()); }", Class::Int, &[]);
        assert_eq!(missing, Err("FUNCTION".into()));
    }
}
