//! Numeric tables with named columns, from CSV files.

mod csv_parser;

use crate::error::{CellError, DataError, Result};
use crate::file::read_utf8;
use crate::random::Philox;
use csv_parser::CsvParser;
use std::path::Path;
use std::sync::Arc;
use ternion_core::{DType, Device, Tensor};

/// The format of a CSV file.
///
/// In every format, cells may be in double quotes (a doubled quote inside stands for one quote; a
/// line break inside is an error), blanks around a cell and empty lines are ignored, and lines end
/// in LF or CRLF.
#[derive(Debug, Clone, PartialEq)]
pub struct CsvConfig {
    /// The character that separates cells, in ASCII; a comma by default.
    pub delimiter: char,
    /// The names of the columns if the file has no header line. By default, the first line is the
    /// header.
    pub names: Option<Vec<String>>,
    /// The columns that are read, in this order; all by default. The other columns may contain
    /// anything.
    pub columns: Option<Vec<String>>,
    /// How an empty cell of a column that is read is handled; an error by default.
    pub missing: MissingCells,
}

/// How empty cells are handled.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum MissingCells {
    /// They are an error.
    #[default]
    Error,
    /// They are replaced by this number, which must be finite.
    Fill(f64),
    /// Their rows are dropped.
    DropRow,
}

impl Default for CsvConfig {
    fn default() -> Self {
        CsvConfig { delimiter: ',', names: None, columns: None, missing: MissingCells::Error }
    }
}

/// Rows of finite numbers in named columns: at least one row and one column.
///
/// Clones share the cells.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    file: Arc<Path>,
    columns: Arc<[String]>,
    /// `[rows, columns]`
    cells: Arc<Vec<f64>>,
    /// The line of each row in the file; empty for a table that was computed.
    lines: Arc<Vec<usize>>,
}

impl Table {
    /// Creates a table of these numbers.
    ///
    /// # Shapes
    /// `cells` is `[rows, columns]` in row-major order.
    ///
    /// # Errors
    /// Returns an error if a name is empty or repeated, there are no rows, the number of cells is
    /// not a multiple of the number of columns, or a number is not finite.
    pub fn new(columns: &[&str], cells: Vec<f64>) -> Result<Table> {
        let columns: Vec<String> = columns.iter().map(|name| (*name).to_string()).collect();
        let file = Path::new("table");
        check_names(&columns, file, 1)?;
        if columns.is_empty() || !cells.len().is_multiple_of(columns.len()) {
            return Err(DataError::RaggedTable { cells: cells.len(), columns: columns.len() });
        }
        let table = Table::from_parts(file, columns, cells, Vec::new())?;
        match table.cells.iter().position(|cell| !cell.is_finite()) {
            Some(index) => {
                let (row, column) = (index / table.columns.len(), index % table.columns.len());
                Err(table.cell_error(row, column, CellError::NotFinite(table.cells[index].to_string())))
            }
            None => Ok(table),
        }
    }

    /// Reads a CSV file whose first line names the columns.
    ///
    /// # Errors
    /// Same as [`Table::read_with`].
    pub fn read(file: impl AsRef<Path>) -> Result<Table> {
        Table::read_with(file, &CsvConfig::default())
    }

    /// Reads a CSV file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, is not UTF-8 or has no rows; if a name is
    /// empty, repeated or missing, a line has a different number of cells than the header, or a
    /// cell is not a finite number (with line and column); or if the delimiter is a quotation mark,
    /// a line break or not ASCII.
    pub fn read_with(file: impl AsRef<Path>, config: &CsvConfig) -> Result<Table> {
        let file = file.as_ref();
        CsvParser { file, config }.read(&read_utf8(file)?)
    }

    fn from_parts(file: &Path, columns: Vec<String>, cells: Vec<f64>, lines: Vec<usize>) -> Result<Table> {
        if cells.is_empty() {
            return Err(DataError::Empty { file: file.to_path_buf() });
        }
        Ok(Table { file: file.into(), columns: columns.into(), cells: cells.into(), lines: lines.into() })
    }

    /// Returns the number of rows; at least 1.
    pub fn rows(&self) -> usize {
        self.cells.len() / self.columns.len()
    }

    /// Returns the names of the columns.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Returns all cells, `[rows, columns]`.
    pub fn cells(&self) -> &[f64] {
        &self.cells
    }

    /// Returns one row, `[columns]`, or `None` if `index` is out of range.
    pub fn row(&self, index: usize) -> Option<&[f64]> {
        self.cells.chunks_exact(self.columns.len()).nth(index)
    }

    /// Returns one column, `[rows]`.
    ///
    /// # Errors
    /// Returns an error if there is no column with this name.
    pub fn column(&self, name: &str) -> Result<Vec<f64>> {
        let index = self.index_of(name)?;
        Ok(self.cells.chunks_exact(self.columns.len()).map(|row| row[index]).collect())
    }

    /// Returns the table of these columns, in this order.
    ///
    /// # Errors
    /// Returns an error if a name is not a column or is repeated, or no name is given.
    pub fn select(&self, names: &[&str]) -> Result<Table> {
        let indices = names.iter().map(|name| self.index_of(name)).collect::<Result<Vec<usize>>>()?;
        let columns: Vec<String> = names.iter().map(|name| (*name).to_string()).collect();
        check_names(&columns, &self.file, 1)?;
        let rows = self.cells.chunks_exact(self.columns.len());
        let cells = rows.flat_map(|row| indices.iter().map(|&index| row[index])).collect();
        Table::from_parts(&self.file, columns, cells, self.lines.to_vec())
    }

    /// Returns the table without these columns.
    ///
    /// # Errors
    /// Returns an error if a name is not a column, or no column is left.
    pub fn without(&self, names: &[&str]) -> Result<Table> {
        names.iter().try_for_each(|name| self.index_of(name).map(|_| ()))?;
        let kept_columns: Vec<&str> =
            self.columns.iter().map(String::as_str).filter(|name| !names.contains(name)).collect();
        if kept_columns.is_empty() {
            let excluded_columns = names.iter().map(|&name| name.to_owned()).collect();
            return Err(DataError::NoColumnLeft { file: self.file.to_path_buf(), excluded_columns });
        }
        self.select(&kept_columns)
    }

    /// Splits the rows in two: about four fifths for training, and one fifth (at least one row)
    /// held out.
    ///
    /// The held-out rows are chosen at random by `seed`, identically on every platform. Both parts
    /// keep the order of the table.
    ///
    /// # Errors
    /// Returns an error if there are fewer than two rows.
    pub fn train_test_split(&self, seed: u64) -> Result<(Table, Table)> {
        let rows = self.rows();
        if rows < 2 {
            return Err(DataError::FewRows { file: self.file.to_path_buf(), rows });
        }
        let mut positions: Vec<usize> = (0..rows).collect();
        Philox::new(seed, 0).shuffle(&mut positions);
        let (held_out, train) = positions.split_at_mut((rows / 5).max(1));
        held_out.sort_unstable();
        train.sort_unstable();
        Ok((self.take(train)?, self.take(held_out)?))
    }

    /// Returns the table as an f32 tensor of `[rows, columns]` on a device.
    ///
    /// # Errors
    /// Returns an error if a number is outside the range of f32, or so close to 0 that it would
    /// become 0; if two different numbers of a column would become equal because f32 has too few
    /// digits for them, as for timestamps in seconds; or if the tensor cannot be created.
    /// [`to_tensor_of`](Table::to_tensor_of) with f64 accepts every number.
    pub fn to_tensor(&self, device: &Device) -> Result<Tensor> {
        self.to_tensor_of(DType::F32, device)
    }

    /// Returns the table as a tensor of `[rows, columns]` on a device, in a floating dtype.
    ///
    /// # Errors
    /// Same as [`to_tensor`](Table::to_tensor), with this dtype; also if the dtype is not floating.
    pub fn to_tensor_of(&self, dtype: DType, device: &Device) -> Result<Tensor> {
        let shape = [self.rows(), self.columns.len()];
        if dtype == DType::F64 {
            return Ok(Tensor::from_slice(&self.cells, shape, device)?);
        }
        if !dtype.is_float() {
            return Err(ternion_core::Error::dtype("table", "dtype", dtype, "a floating dtype").into());
        }
        (0..self.columns.len()).try_for_each(|column| self.check_column(column, dtype))?;
        let narrow = if dtype == DType::F32 { |cell: f64| cell as f32 } else { round_to_odd };
        let values: Vec<f32> = self.cells.iter().map(|&cell| narrow(cell)).collect();
        Ok(Tensor::from_vec(values, shape, device)?.to_dtype(dtype)?)
    }

    /// Checks that no number of a column becomes infinite in `dtype`, that in f32 no nonzero number
    /// becomes 0, and that large numbers stay distinct: from 2^`significant_bits` on, distinct
    /// values must round to distinct values (all values in f32, only integers in f16 and bf16).
    fn check_column(&self, column: usize, dtype: DType) -> Result<()> {
        let width = self.columns.len();
        let cell = |row: usize| self.cells[row * width + column];
        let inexact = |row: usize| {
            let (number, dtype) = (cell(row).to_string(), dtype.to_string());
            self.cell_error(row, column, CellError::Inexact { number, dtype })
        };
        let overflow = overflow_threshold(dtype);
        let vanishes = |number: f64| dtype == DType::F32 && number != 0.0 && number as f32 == 0.0;
        if let Some(row) = (0..self.rows()).find(|&row| cell(row).abs() >= overflow || vanishes(cell(row))) {
            return Err(inexact(row));
        }
        let must_stay_distinct = |number: f64| dtype == DType::F32 || number.fract() == 0.0;
        // Below this limit the dtype represents all integers, and rounds only digits after the
        // point.
        let exact_integer_limit = 2f64.powi(significant_bits(dtype));
        let is_large = |&row: &usize| cell(row).abs() >= exact_integer_limit && must_stay_distinct(cell(row));
        let mut large: Vec<usize> = (0..self.rows()).filter(is_large).collect();
        large.sort_by(|&left, &right| cell(left).total_cmp(&cell(right)));
        let becomes_equal = |pair: &&[usize]| {
            let (left, right) = (cell(pair[0]), cell(pair[1]));
            left != right && rounded(left, dtype) == rounded(right, dtype)
        };
        large.windows(2).find(becomes_equal).map_or(Ok(()), |pair| Err(inexact(pair[0].max(pair[1]))))
    }

    /// Returns the rows at these indices, which must exist.
    pub(crate) fn take(&self, indices: &[usize]) -> Result<Table> {
        let width = self.columns.len();
        let cells = indices.iter().flat_map(|&row| &self.cells[row * width..(row + 1) * width]).copied();
        let lines = indices.iter().filter_map(|&row| self.lines.get(row)).copied().collect();
        Table::from_parts(&self.file, self.columns.to_vec(), cells.collect(), lines)
    }

    /// Returns a table with the same rows and other numbers: `[rows, columns]`.
    pub(crate) fn with_cells(&self, columns: &[&str], cells: Vec<f64>) -> Result<Table> {
        let columns = columns.iter().map(|name| (*name).to_string()).collect();
        Table::from_parts(&self.file, columns, cells, self.lines.to_vec())
    }

    pub(crate) fn index_of(&self, name: &str) -> Result<usize> {
        index_of(name, &self.columns, &self.file)
    }

    /// Returns the error for an invalid cell.
    pub(crate) fn cell_error(&self, row: usize, column: usize, error: CellError) -> DataError {
        let line = self.lines.get(row).copied().unwrap_or(row + 1);
        let (file, name) = (self.file.to_path_buf(), self.columns[column].clone());
        DataError::Cell { file, line, column: column + 1, name, error }
    }
}

/// Returns the smallest number that becomes infinite in a floating dtype: half a step above the
/// largest finite one.
fn overflow_threshold(dtype: DType) -> f64 {
    let exponent = if dtype == DType::F16 { 16 } else { 128 };
    2f64.powi(exponent) * (1.0 - 2f64.powi(-significant_bits(dtype) - 1))
}

/// Returns the number of significant bits of a dtype narrower than f64.
fn significant_bits(dtype: DType) -> i32 {
    match dtype {
        DType::F16 => 11,
        DType::BF16 => 8,
        _ => 24,
    }
}

/// Rounds a finite number to the precision of a dtype narrower than f64, ties to even. The number
/// must not be subnormal in that dtype.
fn rounded(number: f64, dtype: DType) -> f64 {
    let drop = 52 - (significant_bits(dtype) - 1);
    let (bits, half) = (number.to_bits(), 1u64 << (drop - 1));
    let odd = (bits >> drop) & 1;
    f64::from_bits(((bits + (half - 1) + odd) >> drop) << drop)
}

/// Converts a number to f32 with rounding to odd. Rounding the result to half precision then equals
/// rounding the number once (Boldo and Melquiond 2008, Emulation of FMA and correctly rounded sums,
/// theorem 3).
fn round_to_odd(number: f64) -> f32 {
    let near = number as f32;
    if f64::from(near) == number || !near.is_finite() {
        return near;
    }
    let toward_zero = if f64::from(near).abs() > number.abs() { near.to_bits() - 1 } else { near.to_bits() };
    f32::from_bits(toward_zero | 1)
}

fn index_of(name: &str, columns: &[String], file: &Path) -> Result<usize> {
    columns.iter().position(|column| column == name).ok_or_else(|| DataError::NoColumn {
        file: file.to_path_buf(),
        name: name.to_string(),
        columns: columns.to_vec(),
    })
}

/// Checks that every column has a unique, non-empty name.
fn check_names(columns: &[String], file: &Path, line: usize) -> Result<()> {
    let name_error = |index: usize| match columns.iter().position(|name| *name == columns[index]) {
        _ if columns[index].is_empty() => Some(CellError::Unnamed),
        Some(first) if first < index => Some(CellError::Repeated(first + 1)),
        _ => None,
    };
    match (0..columns.len()).find_map(|index| Some((index, name_error(index)?))) {
        None => Ok(()),
        Some((index, error)) => {
            let (file, name) = (file.to_path_buf(), columns[index].clone());
            Err(DataError::Cell { file, line, column: index + 1, name, error })
        }
    }
}

#[cfg(test)]
mod tests;
