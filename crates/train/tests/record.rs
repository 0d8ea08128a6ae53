//! Recorded values are stored exactly in every file, also after a training run was interrupted and
//! resumed.

mod support;

use serde_json::Value as Json;
use std::fs;
use std::path::{Path, PathBuf};
use support::Folder;
use ternion_core::{DType, Result, Tensor};
use ternion_nn::StateDict;
use ternion_train::{Jsonl, Recorder, Sink, Start, Stateful, TensorBoard, TrainingState};

fn message<T>(result: Result<T>) -> String {
    match result {
        Ok(_) => panic!("it was accepted"),
        Err(error) => error.to_string(),
    }
}

fn lines(path: &Path) -> Vec<Json> {
    let text = fs::read_to_string(path).expect("it was written");
    assert!(text.is_empty() || text.ends_with('\n'));
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

const SPECIAL: [(f64, &str); 3] =
    [(f64::NAN, "NaN"), (f64::INFINITY, "Infinity"), (f64::NEG_INFINITY, "-Infinity")];

#[test]
fn jsonl_contains_every_number_exactly() -> Result<()> {
    let folder = Folder::new("jsonl");
    let file = folder.file("m.jsonl");
    let mut recorder = Recorder::new().with(Jsonl::new(&file, Start::New)?);
    recorder.scalar("train/\"loss\"\n", 1, 0.1 + 0.2)?;
    for (value, _) in SPECIAL {
        recorder.scalar("odd", u64::MAX, value)?;
    }
    // Already written, without the recorder being dropped.
    let found = lines(&file);
    assert_eq!((found[0]["name"].as_str(), found[0]["step"].as_u64()), (Some("train/\"loss\"\n"), Some(1)));
    assert_eq!(found[0]["value"].as_f64(), Some(0.1 + 0.2));
    assert!(found[0]["time"].as_f64() > Some(1.7e9) && found[0].get("special").is_none());
    for (line, (_, word)) in found[1..].iter().zip(SPECIAL) {
        assert!(line["value"].is_null() && line["special"] == word && line["step"] == u64::MAX, "{line}");
    }
    assert!(message(recorder.scalar("", 1, 0.0)).contains("an empty name"));
    Ok(())
}

#[test]
fn resumed_record_drops_later_steps() -> Result<()> {
    let folder = Folder::new("jsonl-resumed");
    let file = folder.file("m.jsonl");
    let record = |recorder: &mut Recorder, steps: std::ops::RangeInclusive<u64>| {
        steps.into_iter().try_for_each(|step| recorder.scalar("loss", step, step as f64))
    };
    record(&mut Recorder::new().with(Jsonl::new(&file, Start::After(0))?), 1..=7)?;
    assert!(message(Jsonl::new(&file, Start::New)).contains("m.jsonl: is the record of an earlier training"));
    // Truncated within a two-byte character.
    let mut bytes = fs::read(&file).expect("it was written");
    bytes.extend("{\"step\":8,\"name\":\"\u{e9}".as_bytes());
    bytes.pop();
    fs::write(&file, &bytes).expect("the folder can be written");
    record(&mut Recorder::new().with(Jsonl::new(&file, Start::After(4))?), 5..=6)?;
    let steps = |file: &Path| {
        lines(file).iter().map(|line| line["step"].as_u64().expect("a step")).collect::<Vec<_>>()
    };
    assert_eq!(steps(&file), [1, 2, 3, 4, 5, 6]);
    drop(Jsonl::new(&file, Start::After(6))?);
    assert_eq!(steps(&file), [1, 2, 3, 4, 5, 6]);
    fs::write(&file, "{\"step\":1}\nno JSON\n{\"step\":3}\n").expect("the folder can be written");
    assert!(
        message(Jsonl::new(&file, Start::After(6))).contains("line 2 is not a metric of a training run: ")
    );
    assert_eq!(fs::read_to_string(&file).expect("it exists"), "{\"step\":1}\nno JSON\n{\"step\":3}\n");
    assert!(message(Jsonl::new(folder.file("no/m.jsonl"), Start::New)).contains("cannot be written: "));
    Ok(())
}

// ---- Event files, read by code that is independent of the writer.

/// CRC-32C bit by bit, with the reflected polynomial.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), |crc, _| step(crc)))
}

fn unmasked(masked: u32) -> u32 {
    masked.wrapping_sub(0xa282_ead8).rotate_left(15)
}

fn take<'b>(bytes: &mut &'b [u8], count: usize) -> &'b [u8] {
    let (taken, rest) = bytes.split_at(count);
    *bytes = rest;
    taken
}

fn number(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let byte = take(bytes, 1)[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}

/// Returns the fields of a protocol buffer: number, and the bytes of the value.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut data = Vec::new();
    while !bytes.is_empty() {
        let key = number(&mut bytes);
        let value = match key & 7 {
            0 => number(&mut bytes).to_le_bytes().to_vec(),
            1 => take(&mut bytes, 8).to_vec(),
            2 => {
                let count = number(&mut bytes) as usize;
                take(&mut bytes, count).to_vec()
            }
            5 => take(&mut bytes, 4).to_vec(),
            other => panic!("wire type {other}"),
        };
        data.push((key >> 3, value));
    }
    data
}

fn field(bytes: &[u8], wanted: u64) -> Option<Vec<u8>> {
    fields(bytes).into_iter().find(|(number, _)| *number == wanted).map(|(_, value)| value)
}

/// Returns the data of each record of an event file.
fn records(path: &Path) -> Vec<Vec<u8>> {
    let file = fs::read(path).expect("it was written");
    let (mut bytes, mut found) = (&file[..], Vec::new());
    while !bytes.is_empty() {
        let length = take(&mut bytes, 8);
        let sum = |bytes: &[u8]| unmasked(u32::from_le_bytes(bytes.try_into().expect("4 bytes")));
        assert_eq!(sum(take(&mut bytes, 4)), crc32c(length));
        let data = take(&mut bytes, u64::from_le_bytes(length.try_into().expect("8 bytes")) as usize);
        assert_eq!(sum(take(&mut bytes, 4)), crc32c(data));
        found.push(data.to_vec());
    }
    found
}

fn event_files(folder: &Folder) -> Vec<PathBuf> {
    folder.names().iter().filter(|name| name.contains("tfevents")).map(|name| folder.file(name)).collect()
}

fn step_of(event: &[u8]) -> u64 {
    u64::from_le_bytes(field(event, 2).expect("a step").try_into().expect("8 bytes"))
}

#[test]
fn event_files_are_records_of_scalars() -> Result<()> {
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    let folder = Folder::new("events");
    let mut recorder = Recorder::new().with(TensorBoard::new(&folder.0, Start::New)?);
    let recorded =
        [("train/loss", 1, 2.5), ("train/loss", 300, f64::NAN), ("\u{e9}", 1 << 40, f64::NEG_INFINITY)];
    for (name, step, value) in recorded {
        recorder.scalar(name, step, value)?;
    }
    let files = event_files(&folder);
    let events = records(&files[0]);
    assert_eq!((files.len(), events.len()), (1, 4));
    assert_eq!(field(&events[0], 3).expect("a version"), b"brain.Event:2");
    for (event, (name, step, value)) in events[1..].iter().zip(recorded) {
        let time = f64::from_le_bytes(field(event, 1).expect("a time").try_into().expect("8 bytes"));
        assert!(time > 1.7e9);
        let entry = field(&field(event, 5).expect("a summary"), 1).expect("a value");
        let found = f32::from_le_bytes(field(&entry, 2).expect("a number").try_into().expect("4 bytes"));
        assert_eq!((field(&entry, 1), step_of(event)), (Some(name.as_bytes().to_vec()), step));
        assert_eq!(found.to_bits(), (value as f32).to_bits());
    }
    let text = message(TensorBoard::new(&folder.0, Start::New));
    assert!(text.contains("has TensorBoard's files of an earlier training"), "{text}");
    assert!(message(TensorBoard::new(folder.file("no"), Start::New)).contains("no: cannot be read: "));
    Ok(())
}

#[test]
fn resumed_training_run_writes_a_file_that_supersedes_later_steps() -> Result<()> {
    let folder = Folder::new("events-resumed");
    drop(TensorBoard::new(&folder.0, Start::New)?);
    for step in [7, 9] {
        drop(TensorBoard::new(&folder.0, Start::After(step))?);
    }
    let files = event_files(&folder);
    assert_eq!(files.len(), 3, "one for each, also within a second");
    // In the order of their names.
    for (file, step) in files[1..].iter().zip([8, 10]) {
        let events = records(file);
        let log = field(&events[1], 7).expect("a session log");
        assert_eq!((fields(&log), step_of(&events[1])), (vec![(1, 1_u64.to_le_bytes().to_vec())], step));
    }
    Ok(())
}

// ---- The recorder

/// A sink whose disk is full.
struct Full;

impl Sink for Full {
    fn scalar(&mut self, _: &ternion_train::Scalar<'_>) -> Result<()> {
        Err(ternion_core::Error::invalid("full", "no space left"))
    }
}

#[test]
fn failing_sink_is_reported_and_the_others_continue() -> Result<()> {
    let folder = Folder::new("full");
    let file = folder.file("m.jsonl");
    let mut recorder = Recorder::new().with(Full).with(Jsonl::new(&file, Start::New)?);
    assert!(message(recorder.scalar("loss", 1, 2.0)).contains("no space left"));
    assert_eq!((lines(&file).len(), recorder.series("loss")), (1, &[(1, 2.0)][..]));
    Ok(())
}

#[test]
fn a_folder_gets_both_files_and_a_checkpoint_brings_the_history_back() -> Result<()> {
    let folder = Folder::new("recorder");
    let device = ternion_cpu::device();
    let (record, checkpoint) = (folder.file("a/record"), folder.file("run"));
    let mut recorder = Recorder::new().folder(&record, Start::New)?;
    for (name, step, value) in [("a.b/loss", 1, 0.5), ("a.b/loss", u64::MAX, f64::NAN), ("accuracy", 1, 1.0)]
    {
        recorder.scalar(name, step, value)?;
    }
    assert_eq!(support::names(&record).len(), 2);
    TrainingState::new(&device).part("metrics", &mut recorder).save(1, &checkpoint)?;
    drop(recorder);
    let mut resumed = Recorder::new();
    let step = TrainingState::new(&device).part("metrics", &mut resumed).resume(&checkpoint)?;
    let mut resumed = resumed.folder(&record, Start::After(step))?;
    assert_eq!(resumed.names().collect::<Vec<_>>(), ["a.b/loss", "accuracy"]);
    assert_eq!(resumed.series("a.b/loss")[0], (1, 0.5));
    assert!(resumed.series("a.b/loss")[1].0 == u64::MAX && resumed.series("a.b/loss")[1].1.is_nan());
    assert!(resumed.series("none").is_empty());
    resumed.scalar("accuracy", 2, 0.25)?;
    let steps: Vec<_> =
        lines(&record.join("metrics.jsonl")).iter().map(|line| line["step"].clone()).collect();
    assert_eq!(steps, [1, 1, 2]);
    let text = message(Recorder::new().folder(&record, Start::New));
    assert!(text.contains("metrics.jsonl: is the record of an earlier training"), "{text}");
    Ok(())
}

#[test]
fn invalid_history_is_an_error() -> Result<()> {
    let device = ternion_cpu::device();
    let tensor = |count: usize, dtype| Tensor::zeros([count], dtype, &device);
    let steps = || tensor(2, DType::I64);
    let rejected = |entries: &[(&str, Tensor)]| {
        let state: StateDict =
            entries.iter().map(|(key, tensor)| (key.to_string(), tensor.clone())).collect();
        message(Recorder::new().restore(&state))
    };
    assert!(rejected(&[("loss.steps", steps()?)]).contains("missing: loss.values"));
    assert!(rejected(&[("loss.values", tensor(2, DType::F64)?)]).contains("extra: loss.values"));
    assert!(rejected(&[("loss", steps()?)]).contains("extra: loss"));
    let text = rejected(&[("loss.steps", steps()?), ("loss.values", tensor(3, DType::F64)?)]);
    assert!(
        text.contains("loss: steps [2] i64 and values [3] f64, expected [count] i64 and [count] f64"),
        "{text}"
    );
    assert!(
        rejected(&[("loss.steps", steps()?), ("loss.values", tensor(2, DType::F32)?)])
            .contains("values [2] f32")
    );
    Ok(())
}
