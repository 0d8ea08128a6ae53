//! The parts of a message that differ between languages, and the dialect with which they are
//! rendered.
//!
//! A message is stored as parts, [`Text`], and converted to a string last: with the names of the
//! Rust API by `Display`, with those of a binding by [`Error::in_dialect`]. A binding therefore
//! never searches a message for names to replace, which could also change words that come from the
//! user.

use crate::{DType, Error, Shape, Tensor};
use std::fmt;

/// The names of a language's API for the parts of a message. The defaults are those of Rust.
pub trait Dialect {
    /// Returns the name of the function through which a caller knows an op.
    fn op<'a>(&self, op: &'a str) -> &'a str {
        op
    }

    /// Returns the name of a dtype.
    fn dtype(&self, dtype: DType) -> &'static str {
        dtype.name()
    }

    /// Returns the name of a method, an argument or a concept of the API.
    fn term(&self, term: Term) -> &'static str {
        term.in_rust()
    }
}

/// The names of the Rust API.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rust;

impl Dialect for Rust {}

macro_rules! terms {
    ($($(#[$doc:meta])* $name:ident => $in_rust:literal,)*) => {
        /// A method, an argument or a concept of the API that messages refer to.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Term {
            $($(#[$doc])* $name,)*
        }

        impl Term {
            /// Every term.
            pub const ALL: &'static [Term] = &[$(Term::$name),*];

            /// Returns the name in Rust.
            pub const fn in_rust(self) -> &'static str {
                match self {
                    $(Term::$name => $in_rust,)*
                }
            }
        }
    };
}

terms! {
    /// The method that converts a tensor to another dtype.
    ToDType => "to_dtype",
    /// The method that copies a tensor to another device.
    ToDevice => "to_device",
    /// The method that makes a tensor require a gradient.
    RequiresGrad => "requires_grad",
    /// The option to return no gradient instead of an error for an unused input.
    AllowUnused => "allow_unused",
    /// The weight of an output in a backward pass.
    Cotangent => "cotangent",
    /// The plural of [`Cotangent`](Term::Cotangent).
    Cotangents => "cotangents",
    /// The words between the number of outputs and the number of cotangents:
    /// `2 outputs but 3 cotangents`.
    OutputsAgainst => "outputs but",
    /// The advice for a backward pass from more than one element.
    WeighOutputs => "use grad with cotangents",
}

/// A part of a message.
pub enum Part {
    /// Words, numbers, shapes and names from users: the same in every language.
    Words(String),
    /// The name of a dtype.
    DType(DType),
    /// A name of the API.
    Term(Term),
    /// The message of another error.
    Error(Box<Error>),
}

/// A message in parts. [`text!`](crate::text) creates one; plain strings are converted with
/// `into()`.
///
/// ```
/// use ternion_core::{DType, text};
///
/// let text = text!["0.5 is not an integer, tensor is ", DType::I32];
/// assert_eq!(text.to_string(), "0.5 is not an integer, tensor is i32");
/// ```
#[derive(Default)]
pub struct Text(Vec<Part>);

/// Creates a [`Text`] from words, numbers, shapes, dtypes, terms and errors, which are
/// concatenated.
#[macro_export]
macro_rules! text {
    ($($part:expr),+ $(,)?) => {{
        let mut text = $crate::error::Text::default();
        $(text.push($part);)+
        text
    }};
}

impl Text {
    /// Appends the parts of `more`.
    pub fn push(&mut self, more: impl Into<Text>) {
        for part in more.into().0 {
            match (self.0.last_mut(), part) {
                (Some(Part::Words(words)), Part::Words(more)) => words.push_str(&more),
                (_, part) => self.0.push(part),
            }
        }
    }

    /// Concatenates `texts`, with `separator` between them.
    pub fn joined(texts: impl IntoIterator<Item = Text>, separator: &str) -> Text {
        let mut joined = Text::default();
        for (index, text) in texts.into_iter().enumerate() {
            if index > 0 {
                joined.push(separator);
            }
            joined.push(text);
        }
        joined
    }

    /// Returns the parts, in order. Consecutive words are one part.
    pub fn parts(&self) -> &[Part] {
        &self.0
    }

    /// Returns the text with the names of `dialect`.
    pub fn in_dialect<'a>(&'a self, dialect: &'a dyn Dialect) -> impl fmt::Display + 'a {
        fmt::from_fn(move |f| self.0.iter().try_for_each(|part| part.write(f, dialect)))
    }
}

impl Part {
    fn write(&self, f: &mut fmt::Formatter<'_>, dialect: &dyn Dialect) -> fmt::Result {
        match self {
            Part::Words(words) => f.write_str(words),
            Part::DType(dtype) => f.write_str(dialect.dtype(*dtype)),
            Part::Term(term) => f.write_str(dialect.term(*term)),
            Part::Error(error) => error.write(f, dialect),
        }
    }
}

/// The text with the names of the Rust API.
impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.in_dialect(&Rust))
    }
}

/// The text in the debug format of strings.
impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

macro_rules! parts {
    ($($type:ty: $value:pat => $part:expr;)*) => {$(
        impl From<$type> for Text {
            #[cold]
            fn from($value: $type) -> Text {
                Text(vec![$part])
            }
        }
    )*};
}

parts! {
    String: words => Part::Words(words);
    &str: words => Part::Words(words.to_owned());
    &String: words => Part::Words(words.clone());
    std::borrow::Cow<'_, str>: words => Part::Words(words.into_owned());
    usize: number => Part::Words(number.to_string());
    &Shape: shape => Part::Words(format!("{shape:?}"));
    DType: dtype => Part::DType(dtype);
    Term: term => Part::Term(term);
    Error: error => Part::Error(Box::new(error));
}

/// Describes a tensor for an error: `[2, 3] f32`.
impl From<&Tensor> for Text {
    #[cold]
    fn from(tensor: &Tensor) -> Text {
        text![tensor.shape(), " ", tensor.dtype()]
    }
}

#[cfg(test)]
mod tests {
    use super::{Dialect, Part, Term, Text};
    use crate::{DType, Error, Shape};

    /// A language in which every name is different.
    struct Loud;

    impl Dialect for Loud {
        fn op<'a>(&self, op: &'a str) -> &'a str {
            if op == "recip" { "RECIPROCAL" } else { op }
        }
        fn dtype(&self, dtype: DType) -> &'static str {
            if dtype == DType::I64 { "LONG" } else { "OTHER" }
        }
        fn term(&self, _: Term) -> &'static str {
            "TERM"
        }
    }

    #[test]
    fn parts_are_renamed_and_words_are_not() {
        let shape = Shape::new(&[2, 3]).unwrap();
        let text = text!["i64 to_dtype ", &shape, " ", DType::I64, ", ", Term::ToDType, format!(" {}", 7)];
        assert_eq!(text.to_string(), "i64 to_dtype [2, 3] i64, to_dtype 7");
        assert_eq!(text.in_dialect(&Loud).to_string(), "i64 to_dtype [2, 3] LONG, TERM 7");
        assert_eq!(format!("{text:?}"), "\"i64 to_dtype [2, 3] i64, to_dtype 7\"");
    }

    #[test]
    fn words_that_follow_each_other_are_one_part() {
        let text = text!["a", String::from("b"), 3, DType::Bool, "c", "d"];
        let [Part::Words(first), Part::DType(DType::Bool), Part::Words(last)] = text.parts() else {
            panic!("{} parts", text.parts().len())
        };
        assert_eq!((first.as_str(), last.as_str()), ("ab3", "cd"));
    }

    #[test]
    fn texts_are_joined() {
        let texts = [text!["x ", DType::F32], text!["y ", DType::I64]];
        assert_eq!(Text::joined(texts, "; ").in_dialect(&Loud).to_string(), "x OTHER; y LONG");
        assert_eq!(Text::joined([], "; ").to_string(), "");
    }

    #[test]
    fn an_error_inside_a_text_is_rendered_in_the_same_language() {
        let inner = Error::dtype("recip", "input", DType::I64, "a floating dtype");
        let outer = Error::invalid("load", text!["lr: ", inner]);
        assert_eq!(outer.to_string(), "load: lr: recip: input is i64, expected a floating dtype");
        assert_eq!(
            outer.in_dialect(&Loud).to_string(),
            "load: lr: RECIPROCAL: input is LONG, expected a floating dtype"
        );
    }
}
