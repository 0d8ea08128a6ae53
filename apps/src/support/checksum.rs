//! Checksums that identify a data set: a run can only be resumed with the data that it began with.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The initial value of the hash.
const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// Returns the 64-bit FNV-1a hash as hexadecimal digits.
pub fn checksum(bytes: impl IntoIterator<Item = u8>) -> String {
    to_hex(update(OFFSET_BASIS, bytes))
}

/// Returns the hash of a file's bytes. The file is read in chunks of 1 MiB.
pub fn file_checksum(file: &Path) -> std::io::Result<String> {
    let (mut file, mut hash, mut chunk) = (File::open(file)?, OFFSET_BASIS, vec![0; 1 << 20]);
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(to_hex(hash)),
            count => hash = update(hash, chunk[..count].iter().copied()),
        }
    }
}

fn update(hash: u64, bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(hash, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

fn to_hex(hash: u64) -> String {
    format!("{hash:016x}")
}
