//! The errors of this crate. They contain the expected value, the actual value and the file.

use std::path::PathBuf;

/// The result of an operation of this crate.
pub type Result<T> = std::result::Result<T, DataError>;

/// An error of this crate: a file, download, table, text or image is invalid, or a split or batch
/// cannot be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// A file could not be opened, read, written or renamed.
    #[error("{}: {source}", file.display())]
    Io {
        /// The file or directory.
        file: PathBuf,
        /// The reason given by the operating system.
        source: std::io::Error,
    },
    /// The first four bytes are not those of the expected IDX type.
    #[error(
        "{}: bad magic number: expected {expected} ({expected:#010x}), found {found} ({found:#010x})",
        file.display()
    )]
    BadMagic {
        /// The file.
        file: PathBuf,
        /// 2051 for images, 2049 for labels.
        expected: u32,
        /// The first four bytes, big-endian.
        found: u32,
    },
    /// The uncompressed content ends before the size in the header.
    #[error("{}: truncated: expected {expected_bytes} bytes, found {found_bytes}", file.display())]
    Truncated {
        /// The file.
        file: PathBuf,
        /// The number of uncompressed bytes that the header requires, or the length of the header
        /// itself.
        expected_bytes: u64,
        /// The number of uncompressed bytes found.
        found_bytes: u64,
    },
    /// The content has more items than the header states.
    #[error("{}: wrong count: the header promises {expected} items, the file holds {found}{}", file.display(), and_bytes(*rest_bytes))]
    WrongCount {
        /// The file.
        file: PathBuf,
        /// Items according to the header.
        expected: u64,
        /// Complete items according to the length of the content.
        found: u64,
        /// The number of bytes after the last complete item.
        rest_bytes: u64,
    },
    /// The header states more bytes than any file of this kind has. Nothing was read or allocated
    /// for it.
    #[error("{}: the header promises {promised_bytes} bytes, the limit is {limit_bytes}", file.display())]
    TooLarge {
        /// The file.
        file: PathBuf,
        /// Bytes according to the header; saturates at `u64::MAX`.
        promised_bytes: u64,
        /// The limit of this crate.
        limit_bytes: u64,
    },
    /// A gzip stream that cannot be decoded, or whose checksum is wrong.
    #[error("{}: corrupt gzip stream after {unpacked_bytes} unpacked bytes: {source}", file.display())]
    CorruptGzip {
        /// The file.
        file: PathBuf,
        /// The number of bytes decompressed before the error.
        unpacked_bytes: u64,
        /// The reason given by the decoder.
        source: std::io::Error,
    },
    /// The size of the images differs from that of the data set.
    #[error(
        "{}: expected images of {} x {} pixels, found {} x {}",
        file.display(), expected[0], expected[1], found[0], found[1]
    )]
    ImageSize {
        /// The file.
        file: PathBuf,
        /// `[rows, cols]` of the data set.
        expected: [usize; 2],
        /// `[rows, cols]` according to the header.
        found: [usize; 2],
    },
    /// The number of pixels given is not `count * channels * rows * cols` for any count.
    #[error("{pixels} pixels are not an integer number of images of {channels} x {rows} x {cols}")]
    RaggedImages {
        /// The number of bytes given.
        pixels: usize,
        /// Channels of an image.
        channels: usize,
        /// Rows of an image.
        rows: usize,
        /// Columns of an image.
        cols: usize,
    },
    /// The number of labels differs from the number of images.
    #[error(
        "{} holds {images} images, but {} holds {labels} labels",
        images_file.display(), labels_file.display()
    )]
    LengthMismatch {
        /// The source of the images.
        images_file: PathBuf,
        /// The number of images.
        images: usize,
        /// The source of the labels.
        labels_file: PathBuf,
        /// The number of labels.
        labels: usize,
    },
    /// A label that is not a class.
    #[error(
        "{}: label {label} at position {index} is out of range: there are {classes} classes",
        file.display()
    )]
    LabelOutOfRange {
        /// The source of the labels.
        file: PathBuf,
        /// The index of the first invalid label.
        index: usize,
        /// The label.
        label: u8,
        /// Labels must be below this.
        classes: usize,
    },
    /// More classes than labels can distinguish.
    #[error("{classes} classes, expected at most {most}")]
    ClassCount {
        /// The number of classes requested.
        classes: usize,
        /// The largest possible number of classes.
        most: usize,
    },
    /// A file without any example.
    #[error("{}: holds 0 examples, expected at least 1", file.display())]
    Empty {
        /// The file.
        file: PathBuf,
    },
    /// A text file without any character.
    #[error("{}: no text: 0 characters, expected at least 1", file.display())]
    NoText {
        /// The file.
        file: PathBuf,
    },
    /// A token file without any token.
    #[error("{}: no tokens: 0 bytes, expected at least 2", file.display())]
    NoTokens {
        /// The file.
        file: PathBuf,
    },
    /// All columns of a table are excluded.
    #[error("{}: no column is left besides {}, expected at least 1", file.display(), excluded_columns.join(", "))]
    NoColumnLeft {
        /// The file.
        file: PathBuf,
        /// The excluded columns.
        excluded_columns: Vec<String>,
    },
    /// The files belong to another data set that uses the same file names.
    #[error("{}: these are the files of {found}, not of {expected}", file.display())]
    OtherDataSet {
        /// The file that showed this.
        file: PathBuf,
        /// The requested data set.
        expected: &'static str,
        /// The data set found.
        found: &'static str,
    },
    /// A directory lacks files of the data set.
    #[error("{}: no complete {data_set} here: missing {}{}", directory.display(), missing.join(", "), instead(others))]
    Missing {
        /// The given directory.
        directory: PathBuf,
        /// The data set.
        data_set: &'static str,
        /// The names that were not found, neither with nor without `.gz`.
        missing: Vec<String>,
        /// Subfolders of the directory with other data sets of this format.
        others: Vec<PathBuf>,
    },
    /// The data set was found neither locally nor by download.
    #[error(
        "{data_set} is nowhere to be found.\n  looked in: {}\n{}  download: {download}\n  \
         Put the files ({}) into a directory and name it (--data DIR, or TERNION_DATA=DIR).",
        list(searched, "no directory"), lines(skipped), files.join(", ")
    )]
    NotFound {
        /// The data set.
        data_set: &'static str,
        /// Every directory that was searched.
        searched: Vec<PathBuf>,
        /// What the given directories lack, one line each.
        skipped: Vec<String>,
        /// Why nothing was downloaded.
        download: String,
        /// The file names of the data set.
        files: Vec<String>,
    },
    /// A file in the cache is corrupt and could not be downloaded again.
    #[error(
        "{source}\n  It is in the cache, and could not be downloaded again: {download}\n  \
         Delete it from {}, and it will be downloaded when the network is available.",
        folder.display()
    )]
    CorruptCache {
        /// The folder of the cache.
        folder: PathBuf,
        /// The error of the corrupt file.
        source: Box<DataError>,
        /// Why nothing was downloaded.
        download: String,
    },
    /// The name of a directory is empty. It would mean the working directory, which is never
    /// intended.
    #[error("the name of the data directory is empty: expected a directory, \"auto\" or \"synthetic\"")]
    EmptyDirectoryName,
    /// Every mirror failed for one file.
    #[error("{file} could not be downloaded: {}", attempts.join("; "))]
    Download {
        /// Name of the file.
        file: String,
        /// One entry per mirror: its URL and the reason.
        attempts: Vec<String>,
    },
    /// The data set has no synthetic version.
    #[error(
        "{data_set}: no synthetic data replaces it, expected a directory or \"auto\" and not \"synthetic\""
    )]
    NoSynthetic {
        /// The requested data set.
        data_set: &'static str,
    },
    /// The batch size is 0. A batch needs at least one example.
    #[error("batches: batch size 0, expected at least 1")]
    ZeroBatchSize,
    /// The batch size is too large: a padded batch must fit in memory.
    #[error(
        "batches: batch size {batch_size} for {examples} examples, expected at most {limit} for batches that are padded"
    )]
    LargeBatchSize {
        /// The requested size.
        batch_size: usize,
        /// Examples in the split.
        examples: usize,
        /// The largest allowed size.
        limit: usize,
    },
    /// More synthetic images than fit in memory.
    #[error("synthetic images: {count}, expected at most {limit}")]
    LargeCount {
        /// The requested number.
        count: usize,
        /// The largest allowed number.
        limit: usize,
    },
    /// The normalization of pixels needs a finite mean and a finite, positive standard deviation.
    #[error("normalize: mean {mean} and std {std}: both must be finite, the std above 0")]
    Normalization {
        /// The mean given.
        mean: f32,
        /// The standard deviation given.
        std: f32,
    },
    /// A text file has bytes that are not UTF-8.
    #[error("{}: line {line}, column {column}: not UTF-8 text (byte {byte_offset} of the file)", file.display())]
    NotText {
        /// The file.
        file: PathBuf,
        /// The line of the first invalid byte, from 1.
        line: usize,
        /// The column of the first invalid byte in that line, in characters, from 1.
        column: usize,
        /// The number of bytes before it.
        byte_offset: usize,
    },
    /// A text without any character, or too short to be split in two.
    #[error("{what}: a text of {found} characters, expected at least {expected}")]
    ShortText {
        /// The file, or the operation.
        what: String,
        /// The minimum number of characters.
        expected: usize,
        /// The number of characters found.
        found: usize,
    },
    /// A character that is not in the vocabulary.
    #[error(
        "encode: character {character:?} at position {position} (line {line}, column {column}) is not among the \
         {vocabulary_size} of the vocabulary"
    )]
    UnknownCharacter {
        /// The first such character.
        character: char,
        /// The number of characters before it.
        position: usize,
        /// Its line, from 1.
        line: usize,
        /// Its column in that line, in characters, from 1.
        column: usize,
        /// The number of characters in the vocabulary.
        vocabulary_size: usize,
    },
    /// A token without an entry in the vocabulary.
    #[error("decode: token {token} at position {position}: expected 0 to {}", vocabulary_size - 1)]
    UnknownToken {
        /// The first such token.
        token: i64,
        /// The number of tokens before it.
        position: usize,
        /// The number of tokens in the vocabulary; at least 1.
        vocabulary_size: usize,
    },
    /// Too few tokens for a window and the token after it, or a window of length 0.
    #[error(
        "windows: context {context} of {tokens} tokens: the context must be at least 1 and less than the tokens"
    )]
    Context {
        /// Tokens per window.
        context: usize,
        /// Tokens of the text.
        tokens: usize,
    },
    /// The batch size is too large: a batch of windows must fit in memory.
    #[error("windows: batches of {batch_size} windows of {context} tokens, expected at most {limit} tokens")]
    LargeTokenBatch {
        /// The requested number of windows.
        batch_size: usize,
        /// Tokens per window.
        context: usize,
        /// The largest allowed number of tokens.
        limit: usize,
    },
    /// An invalid line in a tokenizer's file.
    #[error("{}: line {line}: {reason}", file.display())]
    Tokenizer {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The expected and the found content.
        reason: String,
    },
    /// A cell of a table that is not valid in its column.
    #[error("{}: line {line}, column {column} ({name}): {error}", file.display())]
    Cell {
        /// The file.
        file: PathBuf,
        /// The line, from 1; the header is line 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// The column's name.
        name: String,
        /// What is wrong.
        error: CellError,
    },
    /// A column that is not in the table.
    #[error("{}: line 1: no column {name}; there are {}", file.display(), columns.join(", "))]
    NoColumn {
        /// The file.
        file: PathBuf,
        /// The requested name.
        name: String,
        /// The existing names.
        columns: Vec<String>,
    },
    /// A character that cannot separate cells.
    #[error(
        "csv: delimiter {delimiter:?}, expected an ASCII character other than a quotation mark or a line end"
    )]
    Delimiter {
        /// The given character.
        delimiter: char,
    },
    /// The number of cells given is not `rows * columns` for any number of rows.
    #[error("{cells} cells are not an integer number of rows of {columns} columns")]
    RaggedTable {
        /// The number of cells given.
        cells: usize,
        /// Columns of the table.
        columns: usize,
    },
    /// The columns differ from those that were standardized, or are in another order.
    #[error("standardize: columns {}, expected {}", found.join(", "), expected.join(", "))]
    OtherColumns {
        /// The columns of the scaler.
        expected: Vec<String>,
        /// The columns of the table.
        found: Vec<String>,
    },
    /// A table with too few rows to hold out some of them.
    #[error("{}: {rows} rows, expected at least 2: some to train on and some held out", file.display())]
    FewRows {
        /// The file.
        file: PathBuf,
        /// The number of rows found.
        rows: usize,
    },
    /// A file of fixed-length records that is truncated, or is another kind of file.
    #[error("{}: {found_bytes} bytes are not an integer number of records of {record_bytes} bytes", file.display())]
    RaggedRecords {
        /// The file.
        file: PathBuf,
        /// Bytes of the file.
        found_bytes: u64,
        /// Bytes of a record.
        record_bytes: u64,
    },
    /// A token file contains, or would have to contain, a token that is too large.
    #[error("{}: token {token} at position {position}, expected 0 to {largest}", file.display())]
    TokenOutOfRange {
        /// The file.
        file: PathBuf,
        /// The first such token.
        token: i64,
        /// The number of tokens before it.
        position: usize,
        /// The largest token of the vocabulary, or the largest that fits in two bytes.
        largest: usize,
    },
    /// A range of tokens outside a token file.
    #[error("{}: {count} tokens from {start} on, expected no more than its {tokens}", file.display())]
    TokenRange {
        /// The file.
        file: PathBuf,
        /// The first requested token.
        start: usize,
        /// The number of requested tokens.
        count: usize,
        /// Tokens of the file.
        tokens: usize,
    },
    /// The number of means or standard deviations is wrong: each channel, or column, needs one of
    /// each.
    #[error("normalize: {means} means and {stds} standard deviations, expected {expected} of each")]
    ScaleCount {
        /// Channels of the images, or columns of the table.
        expected: usize,
        /// The number of means given.
        means: usize,
        /// The number of standard deviations given.
        stds: usize,
    },
    /// A transform that is not possible with the size of the images.
    #[error("{transform}: {reason}")]
    Transform {
        /// The transform.
        transform: &'static str,
        /// The expected and the found value.
        reason: String,
    },
    /// An image file that cannot be decoded or written.
    #[error("{}: {reason}", file.display())]
    ImageFile {
        /// The file.
        file: PathBuf,
        /// The reason given by the library for the format.
        reason: String,
    },
    /// A tensor could not be created on the device.
    // Boxed: the error contains shapes, and would make every `Result` of this crate that large.
    #[error(transparent)]
    Tensor(Box<ternion_core::Error>),
    /// The prefetching thread could not be started.
    #[error("prefetch: the thread could not be started: {0}")]
    PrefetchStart(std::io::Error),
    /// The prefetching thread panicked; the iterator ends after this error.
    #[error("prefetch: the thread panicked: {0}")]
    PrefetchPanic(String),
}

/// What is wrong with a cell of a table.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CellError {
    /// Text that is not a number.
    #[error("expected a number, found {0:?}")]
    NotANumber(String),
    /// An empty cell.
    #[error("expected a number, found an empty cell")]
    Empty,
    /// A number that is infinite or NaN, or that overflows f64.
    #[error("expected a finite number, found {0:?}")]
    NotFinite(String),
    /// A divisor that is not positive.
    #[error("expected a number above 0, found {0}")]
    NotPositive(f64),
    /// The line ends before this column.
    #[error("missing: expected {expected} cells, found {found}")]
    Missing {
        /// Columns of the table.
        expected: usize,
        /// Cells of the line.
        found: usize,
    },
    /// The line continues after the last column.
    #[error("surplus: expected {expected} cells, found {found}")]
    Surplus {
        /// Columns of the table.
        expected: usize,
        /// Cells of the line.
        found: usize,
    },
    /// The cells are separated by another delimiter than configured, so that each line is a single
    /// cell.
    #[error("the cells seem to be separated by {found:?}, expected {expected:?}")]
    Delimiter {
        /// The configured delimiter.
        expected: char,
        /// The delimiter found in the header.
        found: char,
    },
    /// A number that becomes infinite or 0 in a dtype, or equal to another number of its column.
    #[error("{number} becomes infinite, 0 or equal to another number in {dtype}: f64 (float64) holds it")]
    Inexact {
        /// The number.
        number: String,
        /// The dtype that cannot represent it.
        dtype: String,
    },
    /// Column names that are all numbers: the file has no header.
    #[error(
        "the header is a line of numbers, {0:?} among them: has the file no header, names of the columns are needed"
    )]
    NumberAsName(String),
    /// A quotation mark that is never closed, or that is followed by text.
    #[error("quotation marks do not pair up")]
    Quotation,
    /// A column of the header without a name.
    #[error("the column has no name")]
    Unnamed,
    /// Two columns with the same name.
    #[error("column {0} has the same name")]
    Repeated(usize),
}

/// Describes the bytes after the last complete item.
fn and_bytes(rest: u64) -> String {
    if rest == 0 { String::new() } else { format!(" and {rest} bytes of another") }
}

impl From<ternion_core::Error> for DataError {
    fn from(error: ternion_core::Error) -> Self {
        DataError::Tensor(Box::new(error))
    }
}

impl From<DataError> for ternion_core::Error {
    fn from(error: DataError) -> Self {
        match error {
            DataError::Tensor(error) => *error,
            other => ternion_core::Error::invalid("data", other.to_string()),
        }
    }
}

/// Returns one line per text.
fn lines(texts: &[String]) -> String {
    texts.iter().map(|text| format!("  {text}\n")).collect()
}

/// Returns a suggestion of the folders that can be given instead of the directory.
fn instead(others: &[PathBuf]) -> String {
    match others {
        [] => String::new(),
        _ => format!("; name one of those that are here: {}", list(others, "")),
    }
}

/// Returns the paths on one line, or `none` if there are none.
fn list(paths: &[PathBuf], none: &str) -> String {
    if paths.is_empty() {
        return none.to_string();
    }
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}
