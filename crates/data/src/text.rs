//! Text: a corpus, its training and validation parts, and its tokens by characters or bytes. No
//! tensors.

use crate::error::{DataError, Result};
use crate::file::{line_and_column, read_utf8};
use crate::local::LocalSet;
use crate::mnist::DataSource;
use std::path::Path;
use std::sync::Arc;

const TINY_SHAKESPEARE: LocalSet = LocalSet {
    name: "Tiny Shakespeare",
    folders: &["text", "tinyshakespeare"],
    layouts: &[&["tinyshakespeare.txt"], &["input.txt"]],
    published: "https://github.com/karpathy/char-rnn (data/tinyshakespeare/input.txt)",
};

/// A text of at least one character. Clones share it.
///
/// ```
/// # use ternion_data::{CharVocabulary, Text, Tokenizer, Tokens};
/// # fn main() -> ternion_data::Result<()> {
/// let text = Text::new("to be or not to be, that is the question")?;
/// let vocabulary = CharVocabulary::new(&text);
/// let (train, validation) = text.train_validation()?;
/// let train = Tokens::new(vocabulary.encode(train.as_str())?);
/// assert_eq!((train.len(), validation.as_str()), (36, "tion"));
/// assert_eq!(vocabulary.decode(&train.as_slice()[..5])?, "to be");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    content: Arc<str>,
}

impl Text {
    /// Creates a text.
    ///
    /// # Errors
    /// Returns an error if `content` is empty.
    pub fn new(content: impl Into<String>) -> Result<Text> {
        Text::named("text", content.into())
    }

    /// Reads a UTF-8 file unmodified, including line endings.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, is not UTF-8 (with line and column) or is
    /// empty.
    pub fn read(file: impl AsRef<Path>) -> Result<Text> {
        let file = file.as_ref();
        Text::named(&file.display().to_string(), read_utf8(file)?)
    }

    /// Loads the plays of Shakespeare that char-rnn and nanoGPT use: 1,115,394 characters, 65 of
    /// them distinct.
    ///
    /// The file is `tinyshakespeare.txt` or `input.txt`. It is searched in the subfolders `text`
    /// and `tinyshakespeare` of a data directory, then in the directory itself.
    ///
    /// # Errors
    /// Returns an error if the file is not found (there is no download and no synthetic data), and
    /// the errors of [`Text::read`].
    pub fn tiny_shakespeare(source: DataSource) -> Result<Text> {
        Text::read(&TINY_SHAKESPEARE.open(&source)?.files[0])
    }

    fn named(what: &str, content: String) -> Result<Text> {
        if content.is_empty() {
            return Err(DataError::ShortText { what: what.to_string(), expected: 1, found: 0 });
        }
        Ok(Text { content: content.into() })
    }

    /// Returns the characters.
    pub fn as_str(&self) -> &str {
        &self.content
    }

    /// Splits the text as nanoGPT does: the first 90 % of the characters for training, and the rest
    /// for validation.
    ///
    /// # Errors
    /// Returns an error if there are fewer than two characters.
    pub fn train_validation(&self) -> Result<(Text, Text)> {
        let characters = self.content.chars().count();
        // The same as `int(n * 0.9)` in nanoGPT's `prepare.py`.
        let train_characters = (characters as f64 * 0.9) as usize;
        match self.content.char_indices().nth(train_characters) {
            Some((cut, _)) if cut > 0 => {
                let (train, validation) = self.content.split_at(cut);
                Ok((Text { content: train.into() }, Text { content: validation.into() }))
            }
            _ => Err(DataError::ShortText {
                what: "train and validation".to_string(),
                expected: 2,
                found: characters,
            }),
        }
    }
}

/// Converts text to tokens, which are integers from 0, and back.
pub trait Tokenizer {
    /// Returns the number of different tokens; at least 1.
    fn vocabulary_size(&self) -> usize;

    /// Returns the tokens of `text`.
    ///
    /// # Errors
    /// Returns an error if the vocabulary lacks a character. The error has its position.
    fn encode(&self, text: &str) -> Result<Vec<i64>>;

    /// Returns the text of `tokens`. Invalid UTF-8 becomes U+FFFD: a model may split a character.
    ///
    /// # Errors
    /// Returns an error if a token is not in the vocabulary. The error has its position.
    fn decode(&self, tokens: &[i64]) -> Result<String>;
}

/// Returns the entry of each token.
///
/// # Errors
/// Returns an error if a token has no entry.
pub(crate) fn look_up<'a, T>(tokens: &'a [i64], entries: &'a [T]) -> impl Iterator<Item = Result<&'a T>> {
    tokens.iter().enumerate().map(|(position, &token)| {
        let entry = usize::try_from(token).ok().and_then(|index| entries.get(index));
        entry.ok_or(DataError::UnknownToken { token, position, vocabulary_size: entries.len() })
    })
}

/// A character-level vocabulary. The tokens are numbered in Unicode order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CharVocabulary {
    /// Sorted and distinct; at least one.
    characters: Vec<char>,
}

impl CharVocabulary {
    /// Creates the vocabulary of the characters that occur in `text`.
    ///
    /// To restore it, save its [`characters`](CharVocabulary::characters) with the model, and
    /// create a vocabulary of a text that consists of them.
    pub fn new(text: &Text) -> CharVocabulary {
        let mut characters: Vec<char> = text.as_str().chars().collect();
        characters.sort_unstable();
        characters.dedup();
        CharVocabulary { characters }
    }

    /// Returns the characters: `characters()[token]`.
    pub fn characters(&self) -> &[char] {
        &self.characters
    }
}

impl Tokenizer for CharVocabulary {
    fn vocabulary_size(&self) -> usize {
        self.characters.len()
    }

    fn encode(&self, text: &str) -> Result<Vec<i64>> {
        let token_of = |(position, (byte, character)): (usize, (usize, char))| {
            let unknown = |_| {
                let (line, column) = line_and_column(&text[..byte]);
                let vocabulary_size = self.characters.len();
                DataError::UnknownCharacter { character, position, line, column, vocabulary_size }
            };
            self.characters.binary_search(&character).map(|token| token as i64).map_err(unknown)
        };
        text.char_indices().enumerate().map(token_of).collect()
    }

    fn decode(&self, tokens: &[i64]) -> Result<String> {
        look_up(tokens, &self.characters).map(|character| character.copied()).collect()
    }
}

/// A byte-level tokenizer of UTF-8 text: 256 tokens, and every text can be encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ByteTokenizer;

impl Tokenizer for ByteTokenizer {
    fn vocabulary_size(&self) -> usize {
        256
    }

    fn encode(&self, text: &str) -> Result<Vec<i64>> {
        Ok(text.bytes().map(i64::from).collect())
    }

    fn decode(&self, tokens: &[i64]) -> Result<String> {
        let entries: [u8; 256] = std::array::from_fn(|byte| byte as u8);
        let bytes = look_up(tokens, &entries).map(|byte| byte.copied()).collect::<Result<Vec<u8>>>()?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(content: &str) -> Text {
        Text::new(content).unwrap()
    }

    #[test]
    fn characters_are_numbered_in_order_and_read_back() {
        let vocabulary = CharVocabulary::new(&text("hello, wörld\n"));
        assert_eq!(vocabulary.characters().iter().collect::<String>(), "\n ,dehlorwö");
        assert_eq!(vocabulary.vocabulary_size(), 11);
        assert_eq!(vocabulary.encode("hö\n").unwrap(), [5, 10, 0]);
        assert_eq!(vocabulary.decode(&[5, 10, 0]).unwrap(), "hö\n");
        let saved: String = vocabulary.characters().iter().collect();
        assert_eq!(CharVocabulary::new(&text(&saved)), vocabulary);
    }

    #[test]
    fn unknown_character_is_reported_with_position() {
        let vocabulary = CharVocabulary::new(&text("ab\nö"));
        assert_eq!(
            vocabulary.encode("ab\nöaXb").unwrap_err().to_string(),
            "encode: character 'X' at position 5 (line 2, column 3) is not among the 4 of the vocabulary"
        );
    }

    #[test]
    fn unknown_token_is_reported_with_position() {
        let vocabulary = CharVocabulary::new(&text("abc"));
        let message = |tokens: &[i64]| vocabulary.decode(tokens).unwrap_err().to_string();
        assert_eq!(message(&[0, 2, 3]), "decode: token 3 at position 2: expected 0 to 2");
        assert_eq!(message(&[-1]), "decode: token -1 at position 0: expected 0 to 2");
        assert!(ByteTokenizer.decode(&[65, 256]).unwrap_err().to_string().ends_with("expected 0 to 255"));
    }

    #[test]
    fn bytes_are_tokens_and_invalid_utf8_is_replaced() {
        let tokens = ByteTokenizer.encode("aö").unwrap();
        assert_eq!(tokens, [97, 0xc3, 0xb6]);
        assert_eq!(ByteTokenizer.decode(&tokens).unwrap(), "aö");
        assert_eq!(ByteTokenizer.decode(&tokens[..2]).unwrap(), "a\u{fffd}");
    }

    #[test]
    fn the_first_nine_tenths_of_the_characters_are_for_training() {
        let (train, validation) = text("äöüäöüäöüäöüäöüäöü1").train_validation().unwrap();
        assert_eq!((train.as_str().chars().count(), validation.as_str()), (17, "ü1"));
        let (train, validation) = text("ab").train_validation().unwrap();
        assert_eq!((train.as_str(), validation.as_str()), ("a", "b"));
        assert!(text("a").train_validation().is_err());
    }

    #[test]
    fn empty_text_is_an_error_with_the_file_name() {
        assert!(matches!(Text::new(""), Err(DataError::ShortText { .. })));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("nothing.txt");
        std::fs::write(&file, "").unwrap();
        let message = Text::read(&file).unwrap_err().to_string();
        assert!(message.ends_with("nothing.txt: a text of 0 characters, expected at least 1"), "{message}");
    }

    #[test]
    fn tiny_shakespeare_is_found_under_either_name() {
        let folder = tempfile::tempdir().unwrap();
        let load = || Text::tiny_shakespeare(DataSource::Directory(folder.path().to_path_buf()));
        assert!(matches!(load(), Err(DataError::Missing { .. })));
        std::fs::write(folder.path().join("input.txt"), "First Citizen:\n").unwrap();
        assert_eq!(load().unwrap().as_str(), "First Citizen:\n");
    }
}
