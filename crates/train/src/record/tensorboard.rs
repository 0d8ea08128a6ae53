//! Metrics as event files of TensorBoard.
//!
//! An event file is a sequence of records: length (u64), masked CRC-32C of the length, data, masked
//! CRC-32C of the data, all little-endian (TensorFlow's `record_writer.h`). The data is a protocol
//! buffer, `tensorflow.Event` (`event.proto`), of which scalars need six fields.

use super::{Scalar, Sink, Start, now};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use ternion_core::{Error, Result};

/// Event files in a folder, for `tensorboard --logdir FOLDER`. Values are f32, including NaN and
/// infinity.
///
/// A resumed training run writes a further file, which makes TensorBoard ignore the values of later
/// steps in earlier files.
#[derive(Debug)]
pub struct TensorBoard {
    path: PathBuf,
    file: File,
}

/// Part of the name of every event file, by which TensorBoard recognizes them.
const MARK: &str = "tfevents.";

impl TensorBoard {
    /// Creates a file in `folder`, which must exist.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written; with [`Start::New`] if the folder has event
    /// files.
    pub fn new(folder: impl AsRef<Path>, start: Start) -> Result<TensorBoard> {
        let folder = folder.as_ref();
        let newest = newest_second(folder)?;
        if let (Start::New, Some(_)) = (start, newest) {
            let detail = "has TensorBoard's files of an earlier training: resume that, or use another folder";
            return Err(Error::file(folder, detail));
        }
        // TensorBoard reads files in the order of their names: a later one must have a later
        // second.
        let second = (now() as u64).max(newest.map_or(0, |second| second.saturating_add(1)));
        let path = folder.join(format!("events.out.{MARK}{second:010}.ternion.{}", std::process::id()));
        let opened = OpenOptions::new().append(true).create_new(true).open(&path);
        let file = opened.map_err(|error| Error::file_system(&path, "cannot be written", &error))?;
        let mut board = TensorBoard { path, file };
        board.write(Event { time: now(), step: 0, kind: EventKind::FileVersion })?;
        if let Start::After(step) = start {
            board.write(Event {
                time: now(),
                step: step.saturating_add(1),
                kind: EventKind::SessionStart,
            })?;
        }
        Ok(board)
    }

    fn write(&mut self, event: Event<'_>) -> Result<()> {
        let written = self.file.write_all(&record(&event.encoded()));
        written.map_err(|error| Error::file_system(&self.path, "cannot be written", &error))
    }
}

impl Sink for TensorBoard {
    fn scalar(&mut self, &Scalar { name, step, value, time }: &Scalar<'_>) -> Result<()> {
        self.write(Event { time, step, kind: EventKind::Scalar { name, value: value as f32 } })
    }
}

/// Returns the second in the name of the newest event file of a folder.
fn newest_second(folder: &Path) -> Result<Option<u64>> {
    let read_error = |error: std::io::Error| Error::file_system(folder, "cannot be read", &error);
    let mut newest = None;
    for entry in fs::read_dir(folder).map_err(read_error)? {
        let name = entry.map_err(read_error)?.file_name();
        if let Some((_, rest)) = name.to_string_lossy().split_once(MARK) {
            let second = rest.split('.').next().and_then(|digits| digits.parse().ok()).unwrap_or(0);
            newest = newest.max(Some(second));
        }
    }
    Ok(newest)
}

/// A message of the file.
struct Event<'a> {
    time: f64,
    step: u64,
    kind: EventKind<'a>,
}

enum EventKind<'a> {
    /// The first message of every file.
    FileVersion,
    /// A start at the event's step: values of this step and later ones in earlier files are
    /// ignored.
    SessionStart,
    Scalar {
        name: &'a str,
        value: f32,
    },
}

/// Field numbers of `tensorflow.Event`, `SessionLog`, `Summary` and `Summary.Value`.
mod field {
    pub const WALL_TIME: u32 = 1;
    pub const STEP: u32 = 2;
    pub const FILE_VERSION: u32 = 3;
    pub const SUMMARY: u32 = 5;
    pub const SESSION_LOG: u32 = 7;
    pub const STATUS: u32 = 1;
    pub const VALUE: u32 = 1;
    pub const TAG: u32 = 1;
    pub const SIMPLE_VALUE: u32 = 2;
}

/// `SessionLog.SessionStatus.START`
const START: u64 = 1;

impl Event<'_> {
    fn encoded(&self) -> Vec<u8> {
        let mut event = Message::default();
        event.double(field::WALL_TIME, self.time);
        event.varint(field::STEP, self.step);
        match self.kind {
            EventKind::FileVersion => event.bytes(field::FILE_VERSION, b"brain.Event:2"),
            EventKind::SessionStart => {
                let mut log = Message::default();
                log.varint(field::STATUS, START);
                event.bytes(field::SESSION_LOG, &log.0);
            }
            EventKind::Scalar { name, value } => {
                let (mut entry, mut summary) = (Message::default(), Message::default());
                entry.bytes(field::TAG, name.as_bytes());
                entry.float(field::SIMPLE_VALUE, value);
                summary.bytes(field::VALUE, &entry.0);
                event.bytes(field::SUMMARY, &summary.0);
            }
        }
        event.0
    }
}

/// A protocol buffer in its wire format: each field is its number and wire type, then its value.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn key(&mut self, field: u32, wire_type: u32) {
        self.number(u64::from(field << 3 | wire_type));
    }

    /// Writes a varint: seven bits per byte, the lowest first; the eighth bit is set if more
    /// follow.
    fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn varint(&mut self, field: u32, value: u64) {
        self.key(field, 0);
        self.number(value);
    }

    fn double(&mut self, field: u32, value: f64) {
        self.key(field, 1);
        self.0.extend(value.to_le_bytes());
    }

    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.key(field, 2);
        self.number(bytes.len() as u64);
        self.0.extend(bytes);
    }

    fn float(&mut self, field: u32, value: f32) {
        self.key(field, 5);
        self.0.extend(value.to_le_bytes());
    }
}

fn record(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    let parts: [&[u8]; 4] =
        [&length, &masked_checksum(&length).to_le_bytes(), data, &masked_checksum(data).to_le_bytes()];
    parts.concat()
}

/// Returns the checksum rotated by 15 bits plus a constant, which keeps checksums of data that
/// contains checksums useful.
fn masked_checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check values: CRC-32C of "123456789" is e3069283 (RFC 3720's polynomial); the header that
    /// TensorFlow writes before the 24 bytes of its file version.
    #[test]
    fn checksums_are_those_of_the_format() {
        assert_eq!(crc32c::crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(masked_checksum(&24_u64.to_le_bytes()).to_le_bytes(), [0xa3, 0x7f, 0x4b, 0x22]);
    }

    #[test]
    fn an_event_has_the_bytes_of_the_protocol_buffer() {
        let event = Event { time: 1.0, step: 300, kind: EventKind::Scalar { name: "a", value: 0.5 } };
        let expected = [
            &[0x09][..], // field 1, 64 bits
            &1.0_f64.to_le_bytes(),
            &[0x10, 0xac, 0x02],       // field 2: 300
            &[0x2a, 0x0a, 0x0a, 0x08], // field 5, 10 bytes: field 1, 8 bytes
            &[0x0a, 0x01, b'a', 0x15], // field 1: "a"; field 2, 32 bits
            &0.5_f32.to_le_bytes(),
        ];
        assert_eq!(event.encoded(), expected.concat());
        let start = Event { time: 0.0, step: 1, kind: EventKind::SessionStart }.encoded();
        assert_eq!(start[9..], [0x10, 0x01, 0x3a, 0x02, 0x08, 0x01]);
    }
}
