//! GPT-2's byte-level byte-pair encoding, read from its two published files.

use crate::error::{DataError, Result};
use crate::file::read_utf8;
use crate::local::LocalSet;
use crate::mnist::DataSource;
use crate::text::{Tokenizer, look_up};
use std::collections::BTreeMap;
use std::path::Path;
use tokenizers::decoders::byte_level::ByteLevel;
use tokenizers::models::bpe::{BPE, Merges, Vocab};
use tokenizers::tokenizer::Decoder;

const GPT2: LocalSet = LocalSet {
    name: "GPT-2's vocabulary",
    folders: &["gpt2"],
    layouts: &[&["encoder.json", "vocab.bpe"], &["vocab.json", "merges.txt"]],
    published: "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/",
};
/// The token that separates two documents in GPT-2's training data.
const END_OF_TEXT: &str = "<|endoftext|>";

/// GPT-2's tokenizer. Tokens are words and parts of words, merged from bytes, so that every text
/// can be encoded.
///
/// Radford et al., "Language Models are Unsupervised Multitask Learners" (2019), section 2.2.
/// Special tokens in the text are not recognized: `<|endoftext|>` is encoded as its characters.
#[derive(Debug, Clone)]
pub struct BpeTokenizer {
    tokenizer: tokenizers::Tokenizer,
    /// The text of each token. Each byte is represented by the character that GPT-2 maps it to.
    entries: Vec<String>,
}

impl BpeTokenizer {
    /// Loads GPT-2's vocabulary of 50,257 tokens.
    ///
    /// The files are `encoder.json` and `vocab.bpe`, or `vocab.json` and `merges.txt`, which have
    /// the same content. They are searched in the subfolder `gpt2` of a data directory, then in the
    /// directory itself.
    ///
    /// # Errors
    /// Returns an error if the files are not found (there is no download and no synthetic data),
    /// and the errors of [`BpeTokenizer::read`].
    pub fn gpt2(source: DataSource) -> Result<BpeTokenizer> {
        let files = GPT2.open(&source)?.files;
        BpeTokenizer::read(&files[0], &files[1])
    }

    /// Reads a vocabulary and its merges. The vocabulary is JSON that maps tokens to ids. The
    /// merges are a text file: an optional first line that starts with `#version`, then two tokens
    /// per line, highest merge priority first.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read, the ids are not 0, 1, 2, .. with each id used
    /// once, a byte has no token, or a merge does not consist of two tokens whose concatenation is
    /// a token. The error names file and line.
    pub fn read(vocabulary: impl AsRef<Path>, merges: impl AsRef<Path>) -> Result<BpeTokenizer> {
        let ids = read_vocabulary(vocabulary.as_ref())?;
        let merges = read_merges(merges.as_ref(), &ids)?;
        let mut entries = vec![String::new(); ids.len()];
        for (token, &id) in &ids {
            entries[id as usize].clone_from(token);
        }
        let vocab: Vocab = ids.into_iter().collect();
        let invalid = |error: tokenizers::Error| tokenizer_error(vocabulary.as_ref(), 1, error.to_string());
        let model = BPE::builder().vocab_and_merges(vocab, merges).build().map_err(invalid)?;
        let mut tokenizer = tokenizers::Tokenizer::new(model);
        tokenizer.with_pre_tokenizer(Some(byte_level()));
        Ok(BpeTokenizer { tokenizer, entries })
    }

    /// Returns the token that separates documents, if the vocabulary has one: 50256 in GPT-2's.
    pub fn end_of_text(&self) -> Option<i64> {
        self.entries.iter().position(|entry| entry == END_OF_TEXT).map(|token| token as i64)
    }
}

impl Tokenizer for BpeTokenizer {
    fn vocabulary_size(&self) -> usize {
        self.entries.len()
    }

    fn encode(&self, text: &str) -> Result<Vec<i64>> {
        let encoding = self.tokenizer.encode_fast(text, false);
        let encoding = encoding.map_err(|error| ternion_core::Error::invalid("encode", error.to_string()))?;
        Ok(encoding.get_ids().iter().map(|&token| i64::from(token)).collect())
    }

    fn decode(&self, tokens: &[i64]) -> Result<String> {
        let entries =
            look_up(tokens, &self.entries).map(|entry| entry.cloned()).collect::<Result<Vec<String>>>()?;
        let pieces = byte_level().decode_chain(entries);
        let pieces = pieces.map_err(|error| ternion_core::Error::invalid("decode", error.to_string()))?;
        Ok(pieces.concat())
    }
}

/// GPT-2's pre-tokenizer: splits text into words by its regular expression, and maps each byte to a
/// character.
fn byte_level() -> ByteLevel {
    let (add_prefix_space, trim_offsets, use_regex) = (false, false, true);
    ByteLevel::new(add_prefix_space, trim_offsets, use_regex)
}

fn tokenizer_error(file: &Path, line: usize, reason: String) -> DataError {
    DataError::Tokenizer { file: file.to_path_buf(), line, reason }
}

/// Reads the ids of all tokens: 0, 1, 2, .., each used once, with a token for every byte.
fn read_vocabulary(file: &Path) -> Result<BTreeMap<String, u32>> {
    let ids: BTreeMap<String, u32> = serde_json::from_str(&read_utf8(file)?).map_err(|error| {
        tokenizer_error(file, error.line(), format!("expected tokens and their numbers: {error}"))
    })?;
    let mut owners: Vec<Option<&str>> = vec![None; ids.len()];
    for (token, &id) in &ids {
        let highest = ids.len() - 1;
        match owners.get_mut(id as usize) {
            None => {
                let reason = format!("token {token:?} has number {id}, expected 0 to {highest}");
                return Err(tokenizer_error(file, 1, reason));
            }
            Some(Some(owner)) => {
                let reason = format!("tokens {owner:?} and {token:?} have the same number {id}");
                return Err(tokenizer_error(file, 1, reason));
            }
            Some(owner) => *owner = Some(token),
        }
    }
    // A byte without a token would be dropped from the text.
    match ByteLevel::alphabet().iter().map(char::to_string).filter(|byte| !ids.contains_key(byte)).min() {
        Some(byte) => {
            Err(tokenizer_error(file, 1, format!("no token {byte:?}: each of the 256 bytes needs one")))
        }
        None => Ok(ids),
    }
}

fn read_merges(file: &Path, ids: &BTreeMap<String, u32>) -> Result<Merges> {
    let content = read_utf8(file)?;
    let lines = content.lines().zip(1..).filter(|(line, line_number)| {
        let is_version = *line_number == 1 && line.starts_with("#version");
        !is_version && !line.is_empty()
    });
    let merge = |(line, line_number): (&str, usize)| {
        let mut tokens = line.split(' ');
        let (Some(left), Some(right), None) = (tokens.next(), tokens.next(), tokens.next()) else {
            return Err(tokenizer_error(
                file,
                line_number,
                format!("expected two tokens with a blank between, found {line:?}"),
            ));
        };
        let merged = format!("{left}{right}");
        match [left, right, &merged].into_iter().find(|token| !ids.contains_key(*token)) {
            Some(unknown) => {
                Err(tokenizer_error(file, line_number, format!("the vocabulary has no token {unknown:?}")))
            }
            None => Ok((left.to_string(), right.to_string())),
        }
    };
    lines.map(merge).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION: &str = "#version: 0.2\n";

    /// Returns a vocabulary of the 256 byte tokens in character order, followed by the tokens in
    /// `merged`.
    fn vocabulary(merged: &[&str]) -> String {
        let mut bytes: Vec<String> = ByteLevel::alphabet().iter().map(char::to_string).collect();
        bytes.sort();
        let tokens = bytes.iter().map(String::as_str).chain(merged.iter().copied());
        let ids: BTreeMap<&str, u32> = tokens.zip(0..).collect();
        serde_json::to_string(&ids).unwrap()
    }

    /// Builds a tokenizer from the contents of both files. Error messages omit the folder name.
    fn read(vocabulary: &str, merges: &str) -> std::result::Result<BpeTokenizer, String> {
        let folder = tempfile::tempdir().unwrap();
        let files = [folder.path().join("encoder.json"), folder.path().join("vocab.bpe")];
        std::fs::write(&files[0], vocabulary).unwrap();
        std::fs::write(&files[1], merges).unwrap();
        BpeTokenizer::read(&files[0], &files[1]).map_err(|error| {
            error
                .to_string()
                .replace(&format!("{}{}", folder.path().display(), std::path::MAIN_SEPARATOR), "")
        })
    }

    #[test]
    fn pair_with_highest_priority_is_merged_first() {
        let vocabulary = vocabulary(&["lo", "low", "Ġlow", "er", "Ġl", END_OF_TEXT]);
        let tokenizer = read(&vocabulary, &format!("{VERSION}l o\ne r\nlo w\nĠ low\nĠ l\n")).unwrap();
        let text_of = |tokens: Vec<i64>| -> Vec<String> {
            tokens.iter().map(|&token| tokenizer.decode(&[token]).unwrap()).collect()
        };
        assert_eq!(
            text_of(tokenizer.encode("low lower slow").unwrap()),
            ["low", " low", "er", " ", "s", "low"]
        );
        assert_eq!((tokenizer.vocabulary_size(), tokenizer.end_of_text()), (262, Some(261)));
        // Text is split into words before merging: the space in "s low" does not belong to the
        // preceding word.
        assert_eq!(text_of(tokenizer.encode("s low").unwrap()), ["s", " low"]);
    }

    #[test]
    fn text_round_trips_and_invalid_utf8_is_replaced() {
        let tokenizer = read(&vocabulary(&[]), VERSION).unwrap();
        for text in ["", "a", " \n\t  x ", "naïve Ċ 日本 🦀", "don't <|endoftext|>", "\u{0}\u{7f}\u{ad}"]
        {
            let tokens = tokenizer.encode(text).unwrap();
            assert_eq!(tokens.len(), text.len(), "{text:?}");
            assert_eq!(tokenizer.decode(&tokens).unwrap(), text);
        }
        let crab = tokenizer.encode("🦀").unwrap();
        assert_eq!(tokenizer.decode(&crab[..3]).unwrap(), "\u{fffd}");
        assert_eq!(tokenizer.end_of_text(), None);
    }

    #[test]
    fn unknown_tokens_are_reported_with_position() {
        let tokenizer = read(&vocabulary(&[]), VERSION).unwrap();
        let message = tokenizer.decode(&[5, 256]).unwrap_err().to_string();
        assert_eq!(message, "decode: token 256 at position 1: expected 0 to 255");
    }

    #[test]
    fn corrupt_files_are_reported_with_line() {
        let intact = vocabulary(&["lo"]);
        let cases = [
            (
                intact.as_str(),
                "#version: 0.2\nl o\nlo\n",
                "vocab.bpe: line 3: expected two tokens with a blank between, found \"lo\"",
            ),
            (
                &intact,
                "l o\nl o w\n",
                "vocab.bpe: line 2: expected two tokens with a blank between, found \"l o w\"",
            ),
            (&intact, "l o\nlo w\n", "vocab.bpe: line 2: the vocabulary has no token \"low\""),
            (&intact, "xy z\n", "vocab.bpe: line 1: the vocabulary has no token \"xy\""),
            (
                &intact.replace("\"lo\":256", "\"lo\":300"),
                "",
                "encoder.json: line 1: token \"lo\" has number 300, expected 0 to 256",
            ),
            ("{}", "", "encoder.json: line 1: no token \"!\": each of the 256 bytes needs one"),
        ];
        for (vocabulary, merges, expected) in cases {
            assert_eq!(read(vocabulary, merges).unwrap_err(), expected);
        }
        let twice = read(&intact.replace("\"lo\":256", "\"lo\":7"), "").unwrap_err();
        assert!(twice.contains("have the same number 7"), "{twice}");
        for broken in ["{\"a\": 1,\n \"b\": -2}", "{\"a\": 1,\n \"b\"", "[\n1]"] {
            let message = read(broken, "").unwrap_err();
            assert!(
                message.contains("encoder.json: line ")
                    && message.contains("expected tokens and their numbers"),
                "{message}"
            );
        }
    }

    #[test]
    fn gpt2_is_found_under_either_pair_of_names() {
        let folder = tempfile::tempdir().unwrap();
        let load = || BpeTokenizer::gpt2(DataSource::Directory(folder.path().to_path_buf()));
        assert!(matches!(load(), Err(DataError::Missing { .. })));
        std::fs::write(folder.path().join("vocab.json"), vocabulary(&["lo"])).unwrap();
        std::fs::write(folder.path().join("merges.txt"), "#version: 0.2\nl o\n").unwrap();
        assert_eq!(load().unwrap().encode("lo").unwrap(), [256]);
    }
}
