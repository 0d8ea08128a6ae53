//! Valid and invalid IDX files.

use super::*;
use crate::random::Philox;
use flate2::{Compression, write::GzEncoder};
use std::io::Write;

/// Three images of 2 x 4 pixels.
fn image_file() -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in [2051_u32, 3, 2, 4] {
        bytes.extend(number.to_be_bytes());
    }
    bytes.extend(0..24_u8);
    bytes
}

fn label_file(labels: &[u8]) -> Vec<u8> {
    let mut bytes = 2049_u32.to_be_bytes().to_vec();
    bytes.extend((labels.len() as u32).to_be_bytes());
    bytes.extend(labels);
    bytes
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn images_of(bytes: &[u8]) -> Result<([u32; 3], Vec<u8>)> {
    read_stream(bytes, Path::new("folder/images"), IMAGES_MAGIC)
}

fn labels_of(bytes: &[u8]) -> Result<([u32; 1], Vec<u8>)> {
    read_stream(bytes, Path::new("folder/labels"), LABELS_MAGIC)
}

#[test]
fn plain_and_gzip_files_give_the_same_content() {
    let expected = ([3, 2, 4], (0..24).collect::<Vec<u8>>());
    assert_eq!(images_of(&image_file()).unwrap(), expected);
    assert_eq!(images_of(&gzip(&image_file())).unwrap(), expected);
    assert_eq!(labels_of(&gzip(&label_file(&[7, 0, 9]))).unwrap(), ([3], vec![7, 0, 9]));
    assert_eq!(labels_of(&label_file(&[])).unwrap(), ([0], vec![]));
}

#[test]
fn files_on_disk_are_distinguished_by_content_not_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let unpacked_by_the_browser = folder.path().join("images.gz");
    std::fs::write(&unpacked_by_the_browser, image_file()).unwrap();
    let images = read_images(&unpacked_by_the_browser).unwrap();
    assert_eq!((images.rows, images.cols, images.pixels.len()), (2, 4, 24));
    let labels = folder.path().join("labels");
    std::fs::write(&labels, gzip(&label_file(&[1, 2]))).unwrap();
    assert_eq!(read_labels(&labels).unwrap(), [1, 2]);
    let absent = folder.path().join("absent");
    let message = read_labels(&absent).unwrap_err().to_string();
    assert!(message.starts_with(&absent.display().to_string()), "{message}");
}

#[test]
fn bad_magic_number_is_reported_with_file_and_both_numbers() {
    let message = labels_of(&image_file()).unwrap_err().to_string();
    assert_eq!(
        message,
        "folder/labels: bad magic number: expected 2049 (0x00000801), found 2051 (0x00000803)"
    );
}

#[test]
fn truncated_file_is_reported_with_file_and_both_sizes() {
    let intact = image_file();
    for (length, expected) in [(0, 16), (3, 16), (15, 16), (16, 40), (39, 40)] {
        let message = images_of(&intact[..length]).unwrap_err().to_string();
        let found = if length == 15 { 15 } else { length };
        assert_eq!(message, format!("folder/images: truncated: expected {expected} bytes, found {found}"));
    }
}

#[test]
fn surplus_content_is_a_wrong_count() {
    let mut bytes = image_file();
    bytes.extend([0; 9]);
    let message =
        "folder/images: wrong count: the header promises 3 items, the file holds 4 and 1 bytes of another";
    assert_eq!(images_of(&bytes).unwrap_err().to_string(), message);
    assert_eq!(images_of(&gzip(&bytes)).unwrap_err().to_string(), message);
}

#[test]
fn huge_header_is_rejected_without_an_allocation() {
    let mut bytes = image_file();
    for (dims, promised) in [([u32::MAX; 3], u64::MAX), ([2_000_000, 28, 28], 1_568_000_000)] {
        for (axis, dim) in dims.iter().enumerate() {
            bytes[4 + 4 * axis..8 + 4 * axis].copy_from_slice(&dim.to_be_bytes());
        }
        match images_of(&bytes).unwrap_err() {
            DataError::TooLarge { promised_bytes, .. } => assert_eq!(promised_bytes, promised),
            other => panic!("{other}"),
        }
    }
    // Just below the limit: the file is short, so little is read, and the error reports how much.
    bytes[4..16].copy_from_slice(&[0, 0, 64, 0, 0, 0, 1, 0, 0, 0, 0, 255]);
    let message = images_of(&bytes).unwrap_err().to_string();
    assert_eq!(message, "folder/images: truncated: expected 1069547536 bytes, found 40");
}

#[test]
fn corrupt_gzip_checksum_is_detected() {
    let mut bytes = gzip(&image_file());
    let checksum_at = bytes.len() - 8;
    bytes[checksum_at] ^= 1;
    let error = images_of(&bytes).unwrap_err();
    assert!(matches!(error, DataError::CorruptGzip { unpacked_bytes: 40, .. }), "{error}");
}

/// Every length, and thousands of random corruptions: the result is an error or correct content,
/// never a panic.
#[test]
fn reader_neither_panics_nor_accepts_truncated_files() {
    let (plain, packed) = (image_file(), gzip(&image_file()));
    for whole in [&plain, &packed] {
        for length in 0..whole.len() {
            assert!(images_of(&whole[..length]).is_err(), "accepted {length} of {} bytes", whole.len());
        }
    }
    let mut random = Philox::new(5, 0);
    let mut accepted = 0;
    for round in 0..20_000 {
        let mut bytes = if round % 2 == 0 { plain.clone() } else { packed.clone() };
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.next_u32() as u8;
        }
        bytes.truncate(random.below(bytes.len() as u64 * 2) as usize);
        if let Ok((dims, pixels)) = images_of(&bytes) {
            let promised: u64 = dims.iter().map(|&dim| u64::from(dim)).product();
            assert_eq!(pixels.len() as u64, promised, "round {round}");
            accepted += 1;
        }
    }
    // Corrupt pixels of a plain file cannot be detected, so some files are accepted, but not most.
    assert!((1..15_000).contains(&accepted), "{accepted}");
}
