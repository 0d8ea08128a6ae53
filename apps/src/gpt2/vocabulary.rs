//! Tokens of GPT-2: its own where the two files of its vocabulary are at hand, else the bytes of the text.

use crate::support::program::Outcome;
use std::path::Path;
use ternion::data::{BpeTokenizer, ByteTokenizer, DataError, DataSource, Tokenizer};

/// What stands for text.
pub enum Vocabulary {
    /// Words and parts of words.
    Bpe(Box<BpeTokenizer>),
    /// 256 tokens.
    Bytes,
}

impl Vocabulary {
    /// That of the files in `bpe`, else of files beside the weights, else bytes.
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

    /// Turns text into tokens and back.
    pub fn tokenizer(&self) -> &dyn Tokenizer {
        match self {
            Vocabulary::Bpe(tokenizer) => &**tokenizer,
            Vocabulary::Bytes => &ByteTokenizer,
        }
    }

    /// The token between two texts, if there is one.
    pub fn end_of_text(&self) -> Option<i64> {
        match self {
            Vocabulary::Bpe(tokenizer) => tokenizer.end_of_text(),
            Vocabulary::Bytes => None,
        }
    }

    /// That a model of `tokens` tokens is one of these; it may have some more that are no text.
    pub fn check(&self, tokens: usize) -> Outcome<()> {
        let own = self.tokenizer().vocabulary_size();
        match self {
            Vocabulary::Bytes if tokens != own => Err(format!(
                "the model has {tokens} tokens, and without vocab.json and merges.txt text is bytes, which are {own}: name their folder by --bpe"
            )
            .into()),
            _ if tokens < own => {
                Err(format!("the model has {tokens} tokens, the files of the vocabulary have {own}").into())
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

/// Text from tokens that come one by one. A character may take several: it is shown when it is whole.
pub struct Shown<'a> {
    tokenizer: &'a dyn Tokenizer,
    pending: Vec<i64>,
}

impl<'a> Shown<'a> {
    pub fn new(vocabulary: &'a Vocabulary) -> Shown<'a> {
        Shown { tokenizer: vocabulary.tokenizer(), pending: Vec::new() }
    }

    /// What can be shown now that `token` is there.
    pub fn push(&mut self, token: i64) -> Outcome<String> {
        self.pending.push(token);
        let text = self.tokenizer.decode(&self.pending)?;
        // No character has more bytes than 4.
        if text.ends_with('\u{fffd}') && self.pending.len() < 4 {
            return Ok(String::new());
        }
        self.pending.clear();
        Ok(text)
    }

    /// What is left at the end.
    pub fn rest(self) -> Outcome<String> {
        Ok(self.tokenizer.decode(&self.pending)?)
    }
}
