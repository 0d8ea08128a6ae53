//! Reads IDX files, plain or gzip. This module is independent of the data set.
//!
//! An IDX file of bytes consists of a magic number, one length per axis, and the items. Magic
//! number and lengths are big-endian u32.

use crate::error::{DataError, Result};
use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Magic number of a rank-3 file of bytes: `[count, rows, cols]`.
const IMAGES_MAGIC: u32 = 2051;
/// Magic number of a rank-1 file of bytes: `[count]`.
const LABELS_MAGIC: u32 = 2049;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// Larger content is rejected before any of it is read. The largest data sets of the MNIST family
/// have 0.7 GB.
const LIMIT_BYTES: u64 = 1 << 30;

/// The content of an image file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdxImages {
    /// Pixels, `[count, rows, cols]` in row-major order.
    pub pixels: Vec<u8>,
    /// Rows of an image.
    pub rows: usize,
    /// Columns of an image.
    pub cols: usize,
}

/// Reads an image file (magic number 2051), plain or gzip. The format is detected from the content,
/// not from the name.
///
/// # Errors
/// Returns an error if the file cannot be read, is not an IDX image file, or is shorter or longer
/// than its header states.
pub fn read_images(file: &Path) -> Result<IdxImages> {
    let (dims, pixels) = read_file::<3>(file, IMAGES_MAGIC)?;
    let [_count, rows, cols] = dims;
    Ok(IdxImages { pixels, rows: rows as usize, cols: cols as usize })
}

/// Reads a label file (magic number 2049), plain or gzip. The format is detected from the content,
/// not from the name.
///
/// # Errors
/// Same as [`read_images`].
pub fn read_labels(file: &Path) -> Result<Vec<u8>> {
    let ([_count], labels) = read_file::<1>(file, LABELS_MAGIC)?;
    Ok(labels)
}

fn read_file<const RANK: usize>(file: &Path, magic: u32) -> Result<([u32; RANK], Vec<u8>)> {
    let opened = File::open(file).map_err(|source| DataError::Io { file: file.to_path_buf(), source })?;
    read_stream(BufReader::new(opened), file, magic)
}

/// Reads from any stream. `file` is used in messages.
fn read_stream<const RANK: usize>(
    mut stream: impl BufRead,
    file: &Path,
    magic: u32,
) -> Result<([u32; RANK], Vec<u8>)> {
    let start = stream.fill_buf().map_err(|source| DataError::Io { file: file.to_path_buf(), source })?;
    if start.starts_with(&GZIP_MAGIC) {
        Content { stream: MultiGzDecoder::new(stream), file, read_bytes: 0 }.read(magic)
    } else {
        Content { stream, file, read_bytes: 0 }.read(magic)
    }
}

/// The uncompressed content of a file, with the read position for messages.
struct Content<'a, R> {
    stream: R,
    file: &'a Path,
    read_bytes: u64,
}

impl<R: Read> Content<'_, R> {
    fn read<const RANK: usize>(mut self, magic: u32) -> Result<([u32; RANK], Vec<u8>)> {
        let header_bytes = 4 + 4 * RANK as u64;
        let found_magic = self.read_u32(header_bytes)?;
        if found_magic != magic {
            return Err(DataError::BadMagic {
                file: self.file.to_path_buf(),
                expected: magic,
                found: found_magic,
            });
        }
        let mut dims = [0; RANK];
        for dim in &mut dims {
            *dim = self.read_u32(header_bytes)?;
        }
        let items = self.read_items(&dims)?;
        Ok((dims, items))
    }

    fn read_u32(&mut self, header_bytes: u64) -> Result<u32> {
        let bytes = self.read_exactly(4, header_bytes)?;
        Ok(bytes.iter().fold(0, |number, &byte| number << 8 | u32::from(byte)))
    }

    fn read_items(&mut self, dims: &[u32]) -> Result<Vec<u8>> {
        let product = dims.iter().try_fold(1_u64, |product, &dim| product.checked_mul(u64::from(dim)));
        let promised_bytes = product.unwrap_or(u64::MAX);
        if promised_bytes > LIMIT_BYTES {
            return Err(DataError::TooLarge {
                file: self.file.to_path_buf(),
                promised_bytes,
                limit_bytes: LIMIT_BYTES,
            });
        }
        let items = self.read_exactly(promised_bytes, self.read_bytes + promised_bytes)?;
        self.expect_end(dims, promised_bytes)?;
        Ok(items)
    }

    /// Reads the next `count` bytes. The allocation grows with the bytes that are read, not with
    /// the size that the header states.
    fn read_exactly(&mut self, count: u64, expected_bytes: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let outcome = (&mut self.stream).take(count).read_to_end(&mut bytes);
        self.read_bytes += bytes.len() as u64;
        let cut_off = match outcome {
            Ok(_) => (bytes.len() as u64) < count,
            Err(source) if source.kind() == io::ErrorKind::UnexpectedEof => true,
            Err(source) => return Err(self.read_error(source)),
        };
        if cut_off {
            let file = self.file.to_path_buf();
            return Err(DataError::Truncated { file, expected_bytes, found_bytes: self.read_bytes });
        }
        Ok(bytes)
    }

    /// Reads to the end of the stream and checks that no bytes follow. This also verifies the
    /// checksum of a gzip stream.
    fn expect_end(&mut self, dims: &[u32], promised_bytes: u64) -> Result<()> {
        let surplus_bytes = io::copy(&mut (&mut self.stream).take(LIMIT_BYTES), &mut io::sink())
            .map_err(|source| self.read_error(source))?;
        if surplus_bytes == 0 {
            return Ok(());
        }
        let expected = dims.first().map_or(0, |&count| u64::from(count));
        let item_bytes = dims.iter().skip(1).map(|&dim| u64::from(dim)).product::<u64>().max(1);
        let (found, rest_bytes) =
            ((promised_bytes + surplus_bytes) / item_bytes, (promised_bytes + surplus_bytes) % item_bytes);
        Err(DataError::WrongCount { file: self.file.to_path_buf(), expected, found, rest_bytes })
    }

    fn read_error(&self, source: io::Error) -> DataError {
        let file = self.file.to_path_buf();
        match source.kind() {
            // flate2 reports these for an invalid header, invalid blocks and a wrong checksum.
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                DataError::CorruptGzip { file, unpacked_bytes: self.read_bytes, source }
            }
            _ => DataError::Io { file, source },
        }
    }
}

#[cfg(test)]
mod tests;
