//! Tokens in a file, two bytes each. The file is read in pieces as needed, and written from a text
//! of any length.

use crate::error::{DataError, Result};
use crate::text::Tokenizer;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tempfile::NamedTempFile;

const TOKEN_BYTES: usize = 2;

/// Text is encoded in pieces of about this many bytes.
const PIECE_BYTES: usize = 1 << 20;

/// A file of tokens, each an unsigned little-endian integer of two bytes, without a header:
/// nanoGPT's `.bin` format.
///
/// The tokens are not loaded into memory. Clones share the file.
#[derive(Debug, Clone)]
pub struct TokenFile {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    file: Mutex<File>,
    tokens: usize,
    vocabulary_size: usize,
}

impl TokenFile {
    /// Opens a file whose tokens must be below `vocabulary_size`. This is checked when they are
    /// read.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, is empty, or has an odd number of bytes.
    pub fn open(file: impl AsRef<Path>, vocabulary_size: usize) -> Result<TokenFile> {
        let path = file.as_ref().to_path_buf();
        let in_file = |source| DataError::Io { file: path.clone(), source };
        let file = File::open(&path).map_err(in_file)?;
        let found_bytes = file.metadata().map_err(in_file)?.len();
        if found_bytes == 0 {
            return Err(DataError::NoTokens { file: path });
        }
        if !found_bytes.is_multiple_of(TOKEN_BYTES as u64) {
            return Err(DataError::RaggedRecords {
                file: path,
                found_bytes,
                record_bytes: TOKEN_BYTES as u64,
            });
        }
        let tokens = usize::try_from(found_bytes / TOKEN_BYTES as u64).unwrap_or(usize::MAX);
        Ok(TokenFile { shared: Arc::new(Shared { path, file: Mutex::new(file), tokens, vocabulary_size }) })
    }

    /// Returns the number of tokens.
    pub fn len(&self) -> usize {
        self.shared.tokens
    }

    /// Returns whether there are no tokens. Always false, because empty files are rejected.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads `count` tokens from index `start`.
    ///
    /// # Errors
    /// Returns an error if the range is outside the file, the file cannot be read, or a token is
    /// not below the vocabulary size. The error then has its position.
    pub fn read(&self, start: usize, count: usize) -> Result<Vec<i64>> {
        let Shared { path, file, tokens, vocabulary_size } = &*self.shared;
        if start.checked_add(count).is_none_or(|end| end > *tokens) {
            return Err(DataError::TokenRange { file: path.clone(), start, count, tokens: *tokens });
        }
        let mut bytes = vec![0; count * TOKEN_BYTES];
        {
            // Each use sets the file position, so a poisoned lock is harmless.
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            file.seek(SeekFrom::Start((start * TOKEN_BYTES) as u64))
                .and_then(|_| file.read_exact(&mut bytes))
                .map_err(|source| DataError::Io { file: path.clone(), source })?;
        }
        let values: Vec<i64> = bytes
            .chunks_exact(TOKEN_BYTES)
            .map(|pair| i64::from(u16::from_le_bytes([pair[0], pair[1]])))
            .collect();
        match values.iter().position(|&token| token >= *vocabulary_size as i64) {
            None => Ok(values),
            Some(at) => {
                let (largest, position) = (vocabulary_size.saturating_sub(1), start + at);
                Err(DataError::TokenOutOfRange { file: path.clone(), token: values[at], position, largest })
            }
        }
    }
}

/// Writes the tokens of a UTF-8 text file to a file for [`TokenFile::open`], and returns their
/// number.
///
/// The text is read in pieces. A piece ends before a line break that follows a non-blank character.
/// No byte, character or word of GPT-2 crosses such a position: the tokens of all pieces are equal
/// to the tokens of the whole text. The new file is written atomically.
///
/// # Errors
/// Returns an error if a file cannot be read or written, the text is not UTF-8 (with its line) or
/// is empty, or a token does not fit in two bytes.
pub fn tokenize_file(
    text: impl AsRef<Path>,
    tokenizer: &(impl Tokenizer + ?Sized),
    out: impl AsRef<Path>,
) -> Result<usize> {
    let (text, out) = (text.as_ref(), out.as_ref());
    let mut pieces = Pieces::open(text)?;
    let on_disk = |source| DataError::Io { file: out.to_path_buf(), source };
    // A pipe or a device must not be replaced by a file.
    if out.metadata().is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
        let file = File::options().write(true).open(out).map_err(on_disk)?;
        return write_tokens(&mut pieces, tokenizer, file, out).map(|(_, count)| count);
    }
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let temporary = new_file(folder).map_err(on_disk)?;
    let (temporary, count) = write_tokens(&mut pieces, tokenizer, temporary, out)?;
    temporary.as_file().sync_all().map_err(on_disk)?;
    temporary.persist(out).map_err(|error| on_disk(error.error))?;
    Ok(count)
}

/// Writes the tokens of all pieces. Returns the writer and the number of tokens. `out` is used in
/// messages.
fn write_tokens<W: Write>(
    pieces: &mut Pieces,
    tokenizer: &(impl Tokenizer + ?Sized),
    writer: W,
    out: &Path,
) -> Result<(W, usize)> {
    let on_disk = |source| DataError::Io { file: out.to_path_buf(), source };
    let mut writer = BufWriter::new(writer);
    let mut count = 0;
    while let Some(piece) = pieces.next_piece(PIECE_BYTES)? {
        for token in tokenizer.encode(&piece)? {
            let number = u16::try_from(token).map_err(|_| {
                let (file, largest) = (out.to_path_buf(), usize::from(u16::MAX));
                DataError::TokenOutOfRange { file, token, position: count, largest }
            })?;
            writer.write_all(&number.to_le_bytes()).map_err(on_disk)?;
            count += 1;
        }
    }
    if count == 0 {
        return Err(DataError::NoText { file: pieces.path.clone() });
    }
    let writer = writer.into_inner().map_err(|error| on_disk(error.into_error()))?;
    Ok((writer, count))
}

/// Creates a temporary file that, after renaming, has the usual permissions of a new file.
fn new_file(folder: &Path) -> std::io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // The user's umask still applies.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(folder)
}

/// A text in pieces whose boundaries do not split a word.
struct Pieces {
    path: PathBuf,
    reader: BufReader<File>,
    /// Text that was read but not yet returned.
    pending: String,
    /// The number of lines read, and their bytes.
    lines: usize,
    bytes: usize,
}

impl Pieces {
    fn open(path: &Path) -> Result<Pieces> {
        let file = File::open(path).map_err(|source| DataError::Io { file: path.to_path_buf(), source })?;
        let path = path.to_path_buf();
        Ok(Pieces { path, reader: BufReader::new(file), pending: String::new(), lines: 0, bytes: 0 })
    }

    /// Returns the next piece. It has at least `size` bytes, unless the text ends or has no
    /// position to cut.
    fn next_piece(&mut self, size: usize) -> Result<Option<String>> {
        while self.read_line()? {
            if self.pending.len() < size {
                continue;
            }
            let Some(cut) = last_cut(&self.pending).filter(|&cut| cut >= size) else { continue };
            let rest = self.pending.split_off(cut);
            return Ok(Some(std::mem::replace(&mut self.pending, rest)));
        }
        Ok(Some(std::mem::take(&mut self.pending)).filter(|last| !last.is_empty()))
    }

    /// Reads a line. Returns false at the end of the file.
    fn read_line(&mut self) -> Result<bool> {
        let mut line = Vec::new();
        let read = self.reader.read_until(b'\n', &mut line);
        let read = read.map_err(|source| DataError::Io { file: self.path.clone(), source })?;
        let line = String::from_utf8(line).map_err(|error| {
            let valid = error.utf8_error().valid_up_to();
            let column = String::from_utf8_lossy(&error.as_bytes()[..valid]).chars().count() + 1;
            let (file, line, byte_offset) = (self.path.clone(), self.lines + 1, self.bytes + valid);
            DataError::NotText { file, line, column, byte_offset }
        })?;
        self.pending.push_str(&line);
        self.lines += 1;
        self.bytes += read;
        Ok(read > 0)
    }
}

/// Returns the position before the last line break that follows a non-blank character.
fn last_cut(text: &str) -> Option<usize> {
    let ends = text.rmatch_indices('\n').map(|(at, _)| at);
    ends.into_iter().find(|&at| text[..at].chars().next_back().is_some_and(|before| !before.is_whitespace()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::ByteTokenizer;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    /// Each word with the blanks before it is a token, as in GPT-2. A cut within a word would
    /// change the tokens.
    struct Words;

    impl Tokenizer for Words {
        fn vocabulary_size(&self) -> usize {
            1 << 16
        }
        fn encode(&self, text: &str) -> Result<Vec<i64>> {
            let mut tokens = Vec::new();
            let mut hash = 0;
            let mut in_word = false;
            for character in text.chars() {
                if in_word && character.is_whitespace() {
                    tokens.push(hash);
                    hash = 0;
                }
                in_word = !character.is_whitespace();
                hash = (hash * 31 + i64::from(u32::from(character))) % 65_536;
            }
            tokens.push(hash);
            Ok(tokens)
        }
        fn decode(&self, _: &[i64]) -> Result<String> {
            Ok(String::new())
        }
    }

    #[test]
    #[cfg(unix)]
    fn pipe_receives_the_tokens_and_is_not_replaced() {
        let folder = folder();
        let (text, pipe) = (folder.path().join("text"), folder.path().join("pipe"));
        std::fs::write(&text, "ab").unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let pipe_path = pipe.clone();
        let reader = std::thread::spawn(move || std::fs::read(pipe_path).unwrap());
        assert_eq!(tokenize_file(&text, &ByteTokenizer, &pipe).unwrap(), 2);
        assert_eq!(reader.join().unwrap(), [b'a', 0, b'b', 0]);
        assert!(!pipe.is_file());
    }

    #[test]
    fn text_in_pieces_has_the_tokens_of_the_whole_text() {
        let folder = folder();
        let (text, out) = (folder.path().join("text"), folder.path().join("tokens.bin"));
        let verse = "one two\n\n  three\t\nfour \n\nfünf\r\n\u{2003}six";
        let content = verse.repeat(40);
        std::fs::write(&text, &content).unwrap();
        let mut pieces = Pieces::open(&text).unwrap();
        let mut joined = Vec::new();
        while let Some(piece) = pieces.next_piece(64).unwrap() {
            joined.push(piece);
        }
        assert!(joined.len() > 10, "{}", joined.len());
        assert_eq!(joined.concat(), content);
        let tokens: Vec<i64> = joined.iter().flat_map(|piece| Words.encode(piece).unwrap()).collect();
        assert_eq!(tokens, Words.encode(&content).unwrap());

        assert_eq!(tokenize_file(&text, &ByteTokenizer, &out).unwrap(), content.len());
        let file = TokenFile::open(&out, 256).unwrap();
        assert_eq!(file.len(), content.len());
        assert_eq!(file.read(0, file.len()).unwrap(), ByteTokenizer.encode(&content).unwrap());
        assert_eq!(file.read(4, 3).unwrap(), [116, 119, 111]);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left behind");
    }

    #[test]
    fn bytes_are_little_endian_numbers_below_the_vocabulary() {
        let folder = folder();
        let path = folder.path().join("tokens.bin");
        std::fs::write(&path, [1, 0, 0, 1, 255, 255]).unwrap();
        let file = TokenFile::open(&path, 65_536).unwrap();
        assert_eq!(file.read(0, 3).unwrap(), [1, 256, 65_535]);
        let message = |result: Result<Vec<i64>>| {
            let text = result.unwrap_err().to_string();
            text.replace(&path.display().to_string(), "tokens.bin")
        };
        let small = TokenFile::open(&path, 257).unwrap();
        assert_eq!(message(small.read(1, 2)), "tokens.bin: token 65535 at position 2, expected 0 to 256");
        assert_eq!(message(file.read(2, 2)), "tokens.bin: 2 tokens from 2 on, expected no more than its 3");
        assert_eq!(message(file.read(usize::MAX, 2)).matches("expected no more than its 3").count(), 1);
    }

    #[test]
    fn invalid_token_files_and_texts_are_reported() {
        let folder = folder();
        let path = folder.path().join("input");
        let message = |result: Result<usize>| result.unwrap_err().to_string();
        let open = || TokenFile::open(&path, 9).map(|file| file.len());
        let tokenize = || tokenize_file(&path, &ByteTokenizer, folder.path().join("out"));
        assert!(matches!(open(), Err(DataError::Io { .. })));
        assert!(matches!(tokenize(), Err(DataError::Io { .. })));
        std::fs::write(&path, "").unwrap();
        assert!(message(open()).ends_with("input: no tokens: 0 bytes, expected at least 2"));
        assert!(message(tokenize()).ends_with("input: no text: 0 characters, expected at least 1"));
        std::fs::write(&path, "abc").unwrap();
        assert!(message(open()).ends_with("3 bytes are not an integer number of records of 2 bytes"));
        std::fs::write(&path, b"one\nd\xc3\xa9j\xe0 vu").unwrap();
        let error = message(tokenize());
        assert!(error.ends_with("input: line 2, column 4: not UTF-8 text (byte 8 of the file)"), "{error}");
        assert!(!folder.path().join("out").exists());
        std::fs::write(&path, "text").unwrap();
        assert!(tokenize_file(&path, &ByteTokenizer, folder.path().join("no").join("out")).is_err());
    }
}
