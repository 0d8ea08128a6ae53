//! Tokens of GPT-2: its own vocabulary if the two files exist, else the bytes of the text.

use crate::support::program::Outcome;
use std::path::Path;
use ternion::data::{BpeTokenizer, ByteTokenizer, DataError, DataSource, Tokenizer};

/// The kind of tokens.
pub enum Vocabulary {
    /// Words and parts of words (byte-pair encoding).
    Bpe(Box<BpeTokenizer>),
    /// 256 tokens.
    Bytes,
}

impl Vocabulary {
    /// Returns the vocabulary of the files in `bpe`, else of files next to the weights, else bytes.
    pub fn find(bpe: Option<&Path>, weights: Option<&Path>) -> Outcome<Vocabulary> {
        let read = |folder: &Path| BpeTokenizer::gpt2(DataSource::Directory(folder.to_path_buf()));
        if let Some(folder) = bpe {
            return Ok(Vocabulary::Bpe(Box::new(read(folder)?)));
        }
        let Some(weights) = weights else { return Ok(Vocabulary::Bytes) };
        let folder = if weights.is_dir() { weights } else { weights.parent().unwrap_or(Path::new("")) };
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        match read(folder) {
            Ok(tokenizer) => Ok(Vocabulary::Bpe(Box::new(tokenizer))),
            Err(DataError::Missing { .. }) => Ok(Vocabulary::Bytes),
            Err(damaged) => Err(damaged.into()),
        }
    }

    /// Returns the tokenizer, which converts text to tokens and back.
    pub fn tokenizer(&self) -> &dyn Tokenizer {
        match self {
            Vocabulary::Bpe(tokenizer) => &**tokenizer,
            Vocabulary::Bytes => &ByteTokenizer,
        }
    }

    /// Returns the token between two texts, if any.
    pub fn end_of_text(&self) -> Option<i64> {
        match self {
            Vocabulary::Bpe(tokenizer) => tokenizer.end_of_text(),
            Vocabulary::Bytes => None,
        }
    }

    /// Checks that this is the vocabulary of a model of `tokens` tokens; the model may have some
    /// additional tokens that are not text.
    pub fn check(&self, tokens: usize) -> Outcome<()> {
        let tokenizer_size = self.tokenizer().vocabulary_size();
        match self {
            Vocabulary::Bytes if tokens != tokenizer_size => Err(format!(
                "the model has {tokens} tokens, and without vocab.json and merges.txt text is bytes, which are {tokenizer_size}: name their folder by --bpe"
            )
            .into()),
            _ if tokens < tokenizer_size => {
                Err(format!("the model has {tokens} tokens, the files of the vocabulary have {tokenizer_size}").into())
            }
            _ => Ok(()),
        }
    }
}

impl std::fmt::Display for Vocabulary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let count = self.tokenizer().vocabulary_size();
        match self {
            Vocabulary::Bpe(_) => write!(f, "{count} tokens of words and parts of words"),
            Vocabulary::Bytes => {
                write!(
                    f,
                    "BYTES AS TOKENS: no vocab.json and merges.txt were named (--bpe), so that each byte is one of {count}"
                )
            }
        }
    }
}

/// Decodes tokens that arrive one by one. A character may consist of several tokens: it is returned
/// once it is complete.
pub struct StreamDecoder<'a> {
    tokenizer: &'a dyn Tokenizer,
    pending: Vec<i64>,
}

impl<'a> StreamDecoder<'a> {
    pub fn new(vocabulary: &'a Vocabulary) -> StreamDecoder<'a> {
        StreamDecoder { tokenizer: vocabulary.tokenizer(), pending: Vec::new() }
    }

    /// Returns the text that is complete with `token`.
    pub fn push(&mut self, token: i64) -> Outcome<String> {
        self.pending.push(token);
        let text = self.tokenizer.decode(&self.pending)?;
        // A character has at most 4 bytes.
        if text.ends_with('\u{fffd}') && self.pending.len() < 4 {
            return Ok(String::new());
        }
        self.pending.clear();
        Ok(text)
    }

    /// Returns the remaining text at the end.
    pub fn finish(self) -> Outcome<String> {
        Ok(self.tokenizer.decode(&self.pending)?)
    }
}
