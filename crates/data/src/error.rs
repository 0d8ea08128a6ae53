//! The errors of this crate: what was expected, what was found, and in which file.

use std::path::PathBuf;

/// Result of an operation of this crate.
pub type Result<T> = std::result::Result<T, DataError>;

/// Everything that can go wrong between a file, a mirror or a split and a batch.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// A file could not be opened, read, written or renamed.
    #[error("{}: {source}", file.display())]
    Io {
        /// The file or directory.
        file: PathBuf,
        /// The system's reason.
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
    /// The (unpacked) content ends before the header's promise is kept.
    #[error("{}: truncated: expected {expected_bytes} bytes, found {found_bytes}", file.display())]
    Truncated {
        /// The file.
        file: PathBuf,
        /// Unpacked bytes that the header, or the header's own length, calls for.
        expected_bytes: u64,
        /// Unpacked bytes that there are.
        found_bytes: u64,
    },
    /// The content holds more items than the header promises.
    #[error("{}: wrong count: the header promises {expected} items, the file holds {found}{}", file.display(), and_bytes(*rest_bytes))]
    WrongCount {
        /// The file.
        file: PathBuf,
        /// Items by the header.
        expected: u64,
        /// Whole items by the length of the content.
        found: u64,
        /// What follows them.
        rest_bytes: u64,
    },
    /// The header promises more than any file of this kind holds; nothing was read or allocated for it.
    #[error("{}: the header promises {promised_bytes} bytes, the limit is {limit_bytes}", file.display())]
    TooLarge {
        /// The file.
        file: PathBuf,
        /// Bytes by the header; saturates at `u64::MAX`.
        promised_bytes: u64,
        /// The limit of this crate.
        limit_bytes: u64,
    },
    /// A gzip stream that does not decode, or whose checksum is wrong.
    #[error("{}: corrupt gzip stream after {unpacked_bytes} unpacked bytes: {source}", file.display())]
    CorruptGzip {
        /// The file.
        file: PathBuf,
        /// Bytes that could be unpacked before the fault.
        unpacked_bytes: u64,
        /// The decoder's reason.
        source: std::io::Error,
    },
    /// Images of another size than the data set's.
    #[error(
        "{}: expected images of {} x {} pixels, found {} x {}",
        file.display(), expected[0], expected[1], found[0], found[1]
    )]
    ImageSize {
        /// The file.
        file: PathBuf,
        /// `[rows, cols]` of the data set.
        expected: [usize; 2],
        /// `[rows, cols]` by the header.
        found: [usize; 2],
    },
    /// The pixels given are not `count * channels * rows * cols` for any count.
    #[error("{pixels} pixels are no whole number of images of {channels} x {rows} x {cols}")]
    RaggedImages {
        /// Bytes given.
        pixels: usize,
        /// Channels of an image.
        channels: usize,
        /// Rows of an image.
        rows: usize,
        /// Columns of an image.
        cols: usize,
    },
    /// As many labels as images are needed.
    #[error(
        "{} holds {images} images, but {} holds {labels} labels",
        images_file.display(), labels_file.display()
    )]
    LengthMismatch {
        /// Where the images are from.
        images_file: PathBuf,
        /// How many images.
        images: usize,
        /// Where the labels are from.
        labels_file: PathBuf,
        /// How many labels.
        labels: usize,
    },
    /// A label that names no class.
    #[error(
        "{}: label {label} at position {index} is out of range: there are {classes} classes",
        file.display()
    )]
    LabelOutOfRange {
        /// Where the labels are from.
        file: PathBuf,
        /// Position of the first bad label.
        index: usize,
        /// The label.
        label: u8,
        /// Labels must be below this.
        classes: usize,
    },
    /// More classes than labels tell apart.
    #[error("{classes} classes, expected at most {most}")]
    ClassCount {
        /// Classes asked for.
        classes: usize,
        /// The most that there can be.
        most: usize,
    },
    /// A file that holds no example at all.
    #[error("{}: holds 0 examples, expected at least 1", file.display())]
    Empty {
        /// The file.
        file: PathBuf,
    },
    /// A text file without a character.
    #[error("{}: no text: 0 characters, expected at least 1", file.display())]
    NoText {
        /// The file.
        file: PathBuf,
    },
    /// A file of tokens without one.
    #[error("{}: no tokens: 0 bytes, expected at least 2", file.display())]
    NoTokens {
        /// The file.
        file: PathBuf,
    },
    /// A table has no other columns than those that are left out.
    #[error("{}: no column is left beside {}, expected at least 1", file.display(), left_out.join(", "))]
    NoColumnLeft {
        /// The file.
        file: PathBuf,
        /// The columns that are left out.
        left_out: Vec<String>,
    },
    /// The files belong to a data set that uses the same file names.
    #[error("{}: these are the files of {found}, not of {expected}", file.display())]
    OtherDataSet {
        /// The file by which it was told.
        file: PathBuf,
        /// The data set that was asked for.
        expected: &'static str,
        /// The data set that is there.
        found: &'static str,
    },
    /// A directory lacks files of the data set.
    #[error("{}: no complete {data_set} here: missing {}{}", directory.display(), missing.join(", "), instead(others))]
    Missing {
        /// The directory that was named.
        directory: PathBuf,
        /// The data set.
        data_set: &'static str,
        /// The names that were looked for and not found, with or without `.gz`.
        missing: Vec<String>,
        /// Folders of the directory that hold other data sets of this form.
        others: Vec<PathBuf>,
    },
    /// Neither a local copy nor a download gave the data set.
    #[error(
        "{data_set} is nowhere to be found.\n  looked in: {}\n{}  download: {download}\n  \
         Put the files ({}) into a directory and name it (--data DIR, or TERNION_DATA=DIR).",
        list(searched, "no directory"), lines(passed_over), files.join(", ")
    )]
    NotFound {
        /// The data set.
        data_set: &'static str,
        /// Every directory that was looked into.
        searched: Vec<PathBuf>,
        /// What the directories that were named lack, one line each.
        passed_over: Vec<String>,
        /// Why there was no download.
        download: String,
        /// The file names of the data set.
        files: Vec<String>,
    },
    /// A file in the cache is damaged and could not be downloaded again.
    #[error(
        "{damage}\n  It is in the cache, and could not be downloaded again: {download}\n  \
         Delete it from {}, and it will be downloaded when the network is there.",
        folder.display()
    )]
    DamagedCache {
        /// The folder of the cache.
        folder: PathBuf,
        /// What is wrong with which file.
        damage: Box<DataError>,
        /// Why there was no download.
        download: String,
    },
    /// The name of a directory is empty: it would stand for the working directory, which nobody meant.
    #[error("the name of the data directory is empty: expected a directory, \"auto\" or \"synthetic\"")]
    EmptyDirectoryName,
    /// Every mirror failed for one file.
    #[error("{file} could not be downloaded: {}", attempts.join("; "))]
    Download {
        /// Name of the file.
        file: String,
        /// One line a mirror: its address and what went wrong.
        attempts: Vec<String>,
    },
    /// There is no such synthetic data set.
    #[error(
        "{data_set}: nothing is drawn in its place, expected a directory or \"auto\" and not \"synthetic\""
    )]
    NoSynthetic {
        /// The data set that was asked for.
        data_set: &'static str,
    },
    /// A batch needs at least one example.
    #[error("batches: batch size 0, expected at least 1")]
    ZeroBatchSize,
    /// A batch that is filled up to its size must fit into memory.
    #[error(
        "batches: batch size {batch_size} for {examples} examples, expected at most {limit} for batches that are filled up"
    )]
    LargeBatchSize {
        /// The size that was asked for.
        batch_size: usize,
        /// Examples in the split.
        examples: usize,
        /// The largest possible one.
        limit: usize,
    },
    /// More drawn images than memory can hold.
    #[error("synthetic images: {count}, expected at most {limit}")]
    LargeCount {
        /// The number that was asked for.
        count: usize,
        /// The largest possible one.
        limit: usize,
    },
    /// Pixels can be normalised only by a finite mean and a finite, positive deviation.
    #[error("normalise: mean {mean} and deviation {deviation}: both must be finite, the deviation above 0")]
    Normalisation {
        /// The mean given.
        mean: f32,
        /// The standard deviation given.
        deviation: f32,
    },
    /// A text file holds bytes that are not UTF-8.
    #[error("{}: line {line}, column {column}: not UTF-8 text (byte {byte_offset} of the file)", file.display())]
    NotText {
        /// The file.
        file: PathBuf,
        /// Line of the first such byte, from 1.
        line: usize,
        /// The character of that line that it would begin, from 1.
        column: usize,
        /// Bytes before it.
        byte_offset: usize,
    },
    /// A text without a character, or too short for two parts.
    #[error("{what}: a text of {found} characters, expected at least {expected}")]
    ShortText {
        /// The file, or what was asked for.
        what: String,
        /// The least number of characters.
        expected: usize,
        /// Characters that there are.
        found: usize,
    },
    /// A character that the vocabulary lacks.
    #[error(
        "encode: character {character:?} at position {position} (line {line}, column {column}) is not among the \
         {vocabulary_size} of the vocabulary"
    )]
    UnknownCharacter {
        /// The first such character.
        character: char,
        /// Characters before it.
        position: usize,
        /// Its line, from 1.
        line: usize,
        /// Its place in that line in characters, from 1.
        column: usize,
        /// Characters of the vocabulary.
        vocabulary_size: usize,
    },
    /// A token that no vocabulary entry has.
    #[error("decode: token {token} at position {position}: expected 0 to {}", vocabulary_size - 1)]
    UnknownToken {
        /// The first such token.
        token: i64,
        /// Tokens before it.
        position: usize,
        /// Tokens of the vocabulary; at least 1.
        vocabulary_size: usize,
    },
    /// Too few tokens for a window and the token after it, or a window of none.
    #[error(
        "windows: context {context} of {tokens} tokens: the context must be at least 1 and less than the tokens"
    )]
    Context {
        /// Tokens of a window.
        context: usize,
        /// Tokens of the text.
        tokens: usize,
    },
    /// A batch of windows must fit into memory.
    #[error("windows: batches of {batch_size} windows of {context} tokens, expected at most {limit} tokens")]
    LargeTokenBatch {
        /// Windows that were asked for.
        batch_size: usize,
        /// Tokens of a window.
        context: usize,
        /// The largest number of tokens.
        limit: usize,
    },
    /// A line of a tokenizer's file that does not fit the rest.
    #[error("{}: line {line}: {reason}", file.display())]
    Tokenizer {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What was expected and found.
        reason: String,
    },
    /// A cell of a table that is not what its column needs.
    #[error("{}: line {line}, column {column} ({name}): {fault}", file.display())]
    Cell {
        /// The file.
        file: PathBuf,
        /// The line, from 1; the header's is line 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// The column's name.
        name: String,
        /// What is wrong.
        fault: CellFault,
    },
    /// A column that a table does not have.
    #[error("{}: line 1: no column {name}; there are {}", file.display(), columns.join(", "))]
    NoColumn {
        /// The file.
        file: PathBuf,
        /// The name that was asked for.
        name: String,
        /// The names that there are.
        columns: Vec<String>,
    },
    /// Cells cannot be separated by this character.
    #[error(
        "csv: delimiter {delimiter:?}, expected an ASCII character other than a quotation mark or a line end"
    )]
    Delimiter {
        /// The character given.
        delimiter: char,
    },
    /// The cells given are not `rows * columns` for any number of rows.
    #[error("{cells} cells are no whole number of rows of {columns} columns")]
    RaggedTable {
        /// Cells given.
        cells: usize,
        /// Columns of the table.
        columns: usize,
    },
    /// Columns that do not stand in the order in which they were standardised.
    #[error("standardise: columns {}, expected {}", found.join(", "), expected.join(", "))]
    OtherColumns {
        /// The columns of the standardisation.
        expected: Vec<String>,
        /// The columns of the table.
        found: Vec<String>,
    },
    /// A table too short to hold rows out.
    #[error("{}: {rows} rows, expected at least 2: some to train on and some held out", file.display())]
    FewRows {
        /// The file.
        file: PathBuf,
        /// Rows that there are.
        rows: usize,
    },
    /// A file of records of one length that is cut off, or is another kind of file.
    #[error("{}: {found_bytes} bytes are no whole number of records of {record_bytes} bytes", file.display())]
    RaggedRecords {
        /// The file.
        file: PathBuf,
        /// Bytes of the file.
        found_bytes: u64,
        /// Bytes of a record.
        record_bytes: u64,
    },
    /// A file of tokens holds, or would have to hold, one that is too large.
    #[error("{}: token {token} at position {position}, expected 0 to {largest}", file.display())]
    ForeignToken {
        /// The file.
        file: PathBuf,
        /// The first such token.
        token: i64,
        /// Tokens before it.
        position: usize,
        /// The largest token of the vocabulary, or that two bytes hold.
        largest: usize,
    },
    /// Tokens that a file of tokens does not have.
    #[error("{}: {count} tokens from {start} on, expected no more than its {tokens}", file.display())]
    TokenRange {
        /// The file.
        file: PathBuf,
        /// The first token that was asked for.
        start: usize,
        /// How many were asked for.
        count: usize,
        /// Tokens of the file.
        tokens: usize,
    },
    /// Each channel, or column, needs one mean and one deviation.
    #[error("normalise: {means} means and {deviations} deviations, expected {expected} of each")]
    ScaleCount {
        /// Channels of the images, or columns of the table.
        expected: usize,
        /// Means given.
        means: usize,
        /// Deviations given.
        deviations: usize,
    },
    /// A transform that the images do not allow.
    #[error("{transform}: {reason}")]
    Transform {
        /// The transform.
        transform: &'static str,
        /// What was expected and found.
        reason: String,
    },
    /// An image file that cannot be decoded or written.
    #[error("{}: {reason}", file.display())]
    ImageFile {
        /// The file.
        file: PathBuf,
        /// The reason, in the words of the format's library.
        reason: String,
    },
    /// A tensor could not be made on the device.
    // Boxed: that error holds shapes, and would make every `Result` of this crate as large.
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
pub enum CellFault {
    /// Text that is no number.
    #[error("expected a number, found {0:?}")]
    NotANumber(String),
    /// Nothing between two commas.
    #[error("expected a number, found an empty cell")]
    Empty,
    /// A number that is infinite or not a number, or too large for one.
    #[error("expected a finite number, found {0:?}")]
    NotFinite(String),
    /// A number by which others are divided.
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
    /// The line goes on after the last column.
    #[error("surplus: expected {expected} cells, found {found}")]
    Surplus {
        /// Columns of the table.
        expected: usize,
        /// Cells of the line.
        found: usize,
    },
    /// Cells that stand apart by another character than was said, so that all of a line are one.
    #[error("the cells seem to be separated by {found:?}, expected {expected:?}")]
    Delimiter {
        /// What was said.
        expected: char,
        /// What stands in the header.
        found: char,
    },
    /// A number that becomes infinite in a dtype, or equal to another of its column.
    #[error("{number} becomes infinite, 0 or equal to another number in {dtype}: f64 (float64) holds it")]
    Inexact {
        /// The number.
        number: String,
        /// The dtype that does not hold it.
        dtype: String,
    },
    /// Names of columns that are numbers: a file without a header.
    #[error(
        "the header is a line of numbers, {0:?} among them: has the file no header, names of the columns are needed"
    )]
    NumberAsName(String),
    /// A quotation mark that nothing closes, or that is followed by text.
    #[error("quotation marks do not pair up")]
    Quotation,
    /// A column of the header without a name.
    #[error("the column has no name")]
    Unnamed,
    /// Two columns of one name.
    #[error("column {0} has the same name")]
    Repeated(usize),
}

/// What follows the last whole item, in words.
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

/// A line for each.
fn lines(texts: &[String]) -> String {
    texts.iter().map(|text| format!("  {text}\n")).collect()
}

/// The folders that may be named in the place of the directory.
fn instead(others: &[PathBuf]) -> String {
    match others {
        [] => String::new(),
        _ => format!("; name one of those that are here: {}", list(others, "")),
    }
}

/// Paths in one line, or `none` where there are none.
fn list(paths: &[PathBuf], none: &str) -> String {
    if paths.is_empty() {
        return none.to_string();
    }
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}
