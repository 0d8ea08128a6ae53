//! Reads a whole file, as bytes or as text. This module is independent of the file's format.

use crate::error::{DataError, Result};
use std::path::Path;

/// # Errors
/// Returns an error if the file cannot be read.
pub(crate) fn read_bytes(file: &Path) -> Result<Vec<u8>> {
    std::fs::read(file).map_err(|source| DataError::Io { file: file.to_path_buf(), source })
}

/// # Errors
/// Returns an error if the file cannot be read, or is not UTF-8. The error then has line and
/// column.
pub(crate) fn read_utf8(file: &Path) -> Result<String> {
    String::from_utf8(read_bytes(file)?).map_err(|error| {
        let byte_offset = error.utf8_error().valid_up_to();
        let before = String::from_utf8_lossy(&error.as_bytes()[..byte_offset]);
        let (line, column) = line_and_column(&before);
        DataError::NotText { file: file.to_path_buf(), line, column, byte_offset }
    })
}

/// Returns line and column, both from 1, of the text that follows `before`. Columns count
/// characters.
pub(crate) fn line_and_column(before: &str) -> (usize, usize) {
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_from_one_in_characters() {
        for (before, expected) in [("", (1, 1)), ("ab", (1, 3)), ("a\n", (2, 1)), ("a\n\nßü", (3, 3))] {
            assert_eq!(line_and_column(before), expected, "{before:?}");
        }
    }

    #[test]
    fn invalid_utf8_is_reported_with_position() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("latin1.txt");
        std::fs::write(&file, b"one\nd\xc3\xa9j\xe0 vu").unwrap();
        let message = read_utf8(&file).unwrap_err().to_string();
        assert!(
            message.ends_with("latin1.txt: line 2, column 4: not UTF-8 text (byte 8 of the file)"),
            "{message}"
        );
        assert!(matches!(read_utf8(&folder.path().join("absent")), Err(DataError::Io { .. })));
    }
}
