//! What tells one data set from another: a training goes on with the data that it began with.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Of the hash before the first byte.
const START: u64 = 0xcbf2_9ce4_8422_2325;

/// The FNV-1a hash of 64 bits.
pub fn checksum(bytes: impl IntoIterator<Item = u8>) -> String {
    told(continued(START, bytes))
}

/// The same of all bytes of a file, of which a piece at a time is in memory.
pub fn file_checksum(file: &Path) -> std::io::Result<String> {
    let (mut file, mut hash, mut piece) = (File::open(file)?, START, vec![0; 1 << 20]);
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(told(hash)),
            count => hash = continued(hash, piece[..count].iter().copied()),
        }
    }
}

fn continued(hash: u64, bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(hash, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

fn told(hash: u64) -> String {
    format!("{hash:016x}")
}
