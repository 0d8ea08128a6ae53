//! Reads a CSV file into a table. The `csv` crate splits lines into cells; errors that it would
//! ignore are reported here.

use super::{CsvConfig, MissingCells, Table, check_names, index_of};
use crate::error::{CellError, DataError, Result};
use csv::{ReaderBuilder, StringRecord, Terminator};
use std::path::Path;

/// Parses a CSV file. The path is for error messages.
pub(super) struct CsvParser<'a> {
    pub file: &'a Path,
    pub config: &'a CsvConfig,
}

impl CsvParser<'_> {
    /// Parses `content` into a table.
    pub fn read(&self, content: &str) -> Result<Table> {
        let delimiter = self.delimiter()?;
        let lines = Lines::of(content, self.config.delimiter);
        // Flexible, because lines of another length are reported below, with the column at which
        // they differ.
        let mut reader = ReaderBuilder::new()
            .delimiter(delimiter)
            .terminator(Terminator::Any(b'\n'))
            .has_headers(false)
            .flexible(true)
            .from_reader(lines.text.as_bytes());
        let mut records = reader.records().zip(lines.numbers.iter().copied());
        let (header, header_line) = match &self.config.names {
            Some(names) => (names.clone(), 1),
            None => match records.next() {
                Some((record, number)) => (self.record(record)?.iter().map(str::to_string).collect(), number),
                None => return Err(self.unpaired(&lines, &[]).unwrap_or_else(|| self.empty())),
            },
        };
        if self.config.names.is_none() {
            self.check_is_header(&header, header_line)?;
        }
        check_names(&header, self.file, header_line)?;
        let names = self.config.columns.as_ref().unwrap_or(&header);
        let chosen =
            names.iter().map(|name| index_of(name, &header, self.file)).collect::<Result<Vec<usize>>>()?;
        check_names(names, self.file, header_line)?;
        let (mut cells, mut numbers) = (Vec::new(), Vec::new());
        for (record, number) in records {
            let is_read = self
                .read_row(&self.record(record)?, number, &header, &chosen, &mut cells)
                .map_err(|error| self.delimiter_error(number, &header).unwrap_or(error))?;
            numbers.extend(is_read.then_some(number));
        }
        match self.unpaired(&lines, &header) {
            Some(error) => Err(error),
            None => Table::from_parts(self.file, names.clone(), cells, numbers),
        }
    }

    /// Checks the header. A line that has only numbers (including infinity and NaN) is not a
    /// header: its data would be lost without an error.
    fn check_is_header(&self, header: &[String], line: usize) -> Result<()> {
        match header.iter().all(|name| name.parse::<f64>().is_ok()) {
            true if !header.is_empty() => {
                Err(self.cell_error(line, 0, header, CellError::NumberAsName(header[0].clone())))
            }
            _ => Ok(()),
        }
    }

    fn delimiter(&self) -> Result<u8> {
        let delimiter = self.config.delimiter;
        match u8::try_from(delimiter) {
            Ok(byte) if byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r') => Ok(byte),
            _ => Err(DataError::Delimiter { delimiter }),
        }
    }

    /// Converts the result of the `csv` crate. No error is expected, because the text is in memory
    /// and valid UTF-8, and records may have any number of fields.
    fn record(&self, record: csv::Result<StringRecord>) -> Result<StringRecord> {
        record.map_err(|error| DataError::Io { file: self.file.to_path_buf(), source: error.into() })
    }

    fn empty(&self) -> DataError {
        DataError::Empty { file: self.file.to_path_buf() }
    }

    fn unpaired(&self, lines: &Lines, header: &[String]) -> Option<DataError> {
        let (line, column) = lines.unpaired?;
        Some(self.cell_error(line, column, header, CellError::Quotation))
    }

    /// Returns the error for an invalid line if the header is a single name that contains another
    /// delimiter.
    fn delimiter_error(&self, line: usize, header: &[String]) -> Option<DataError> {
        let expected = self.config.delimiter;
        let [name] = header else { return None };
        let found =
            [',', ';', '\t', '|'].into_iter().find(|&other| other != expected && name.contains(other))?;
        Some(self.cell_error(line, 0, header, CellError::Delimiter { expected, found }))
    }

    /// Appends the `chosen` cells of a line. Returns false if the line is dropped.
    fn read_row(
        &self,
        record: &StringRecord,
        number: usize,
        header: &[String],
        chosen: &[usize],
        cells: &mut Vec<f64>,
    ) -> Result<bool> {
        let (expected, found) = (header.len(), record.len());
        if found < expected {
            return Err(self.cell_error(number, found, header, CellError::Missing { expected, found }));
        }
        if found > expected {
            return Err(self.cell_error(number, expected, header, CellError::Surplus { expected, found }));
        }
        let start = cells.len();
        for &column in chosen {
            match (parse(&record[column]), self.config.missing) {
                (Err(CellError::Empty), MissingCells::Fill(fill)) if fill.is_finite() => cells.push(fill),
                (Err(CellError::Empty), MissingCells::DropRow) => {
                    cells.truncate(start);
                    return Ok(false);
                }
                (Err(error), _) => return Err(self.cell_error(number, column, header, error)),
                (Ok(cell), _) => cells.push(cell),
            }
        }
        Ok(true)
    }

    fn cell_error(&self, line: usize, column: usize, header: &[String], error: CellError) -> DataError {
        let name = header.get(column).cloned().unwrap_or_else(|| "no name".to_string());
        DataError::Cell { file: self.file.to_path_buf(), line, column: column + 1, name, error }
    }
}

fn parse(cell: &str) -> std::result::Result<f64, CellError> {
    match cell.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        Ok(_) => Err(CellError::NotFinite(cell.to_string())),
        Err(_) if cell.is_empty() => Err(CellError::Empty),
        Err(_) => Err(CellError::NotANumber(cell.to_string())),
    }
}

/// The non-empty lines, prepared for the `csv` crate: without blanks around cells, because the
/// crate does not recognize a quotation mark after a blank.
struct Lines {
    text: String,
    /// The line number of each line in the file, from 1. The crate's line numbers do not count the
    /// empty lines before them.
    numbers: Vec<usize>,
    /// Line (from 1) and column (from 0) of the first cell with unbalanced quotation marks, which
    /// the crate would accept. `text` ends before that line.
    unpaired: Option<(usize, usize)>,
}

impl Lines {
    fn of(content: &str, delimiter: char) -> Lines {
        // Spreadsheets write a byte order mark before the first name.
        let content = content.strip_prefix('\u{feff}').unwrap_or(content);
        let mut lines =
            Lines { text: String::with_capacity(content.len()), numbers: Vec::new(), unpaired: None };
        for (line, number) in content.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty()) {
            let start = lines.text.len();
            if let Err(column) = append_tidied(line, delimiter, &mut lines.text) {
                lines.text.truncate(start);
                lines.unpaired = Some((number, column));
                break;
            }
            lines.text.push('\n');
            lines.numbers.push(number);
        }
        lines
    }
}

/// The state of the parser within a cell.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CellState {
    Start,
    Plain,
    Quoted,
    /// Directly after a quotation mark that closes the cell, unless another one follows.
    Closed,
    /// In blanks after the closed cell.
    AfterQuote,
}

/// Appends a line without the blanks around its cells. If quotation marks are unbalanced, or text
/// follows a closing one, the error is the column of that cell.
fn append_tidied(line: &str, delimiter: char, text: &mut String) -> std::result::Result<(), usize> {
    let (mut state, mut column) = (CellState::Start, 0);
    // Blanks in an unquoted cell, pending until another character follows them.
    let mut blanks = String::new();
    for character in line.chars() {
        let is_delimiter = character == delimiter && state != CellState::Quoted;
        let is_blank = character.is_whitespace() && !is_delimiter;
        state = match (state, character) {
            _ if is_delimiter => {
                blanks.clear();
                column += 1;
                CellState::Start
            }
            (CellState::Start | CellState::Closed, '"') => CellState::Quoted,
            (CellState::Quoted, '"') => CellState::Closed,
            (CellState::Quoted, _) => CellState::Quoted,
            (CellState::Start, _) if is_blank => continue,
            (CellState::Closed | CellState::AfterQuote, _) if is_blank => {
                state = CellState::AfterQuote;
                continue;
            }
            (CellState::Closed | CellState::AfterQuote, _) => return Err(column),
            (CellState::Plain, _) if is_blank => {
                blanks.push(character);
                continue;
            }
            (CellState::Start | CellState::Plain, _) => {
                text.push_str(&blanks);
                blanks.clear();
                CellState::Plain
            }
        };
        text.push(character);
    }
    if state == CellState::Quoted { Err(column) } else { Ok(()) }
}
