//! TensorBoard's own reader finds what was written. `TERNION_TENSORBOARD` names a Python
//! interpreter that has the package `tensorboard`; without it only tests/record.rs reads the
//! records.

mod support;

use std::process::Command;
use support::Folder;
use ternion_core::Result;
use ternion_train::{Recorder, Start, TensorBoard};

/// Prints all scalars as JSON: by tag, rows of step and value, where the value is Python's text.
const READER: &str = "
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={'scalars': 0})
events.Reload()
print(json.dumps({tag: [[event.step, repr(event.value)] for event in events.Scalars(tag)] for tag in events.Tags()['scalars']}))
";

#[test]
fn tensorboard_reads_the_event_files() -> Result<()> {
    let Some(python) = std::env::var_os("TERNION_TENSORBOARD") else { return Ok(()) };
    let folder = Folder::new("tensorboard");
    let note = |start, steps: std::ops::RangeInclusive<u64>, value: f64| -> Result<()> {
        let mut recorder = Recorder::new().with(TensorBoard::new(&folder.0, start)?);
        steps.into_iter().try_for_each(|step| recorder.scalar("train/loss", step, value * step as f64))?;
        recorder.scalar("odd", 1, f64::NAN)?;
        recorder.scalar("odd", 2, f64::INFINITY)
    };
    note(Start::New, 1..=5, 1.0)?;
    // The training run was interrupted after step 5, and its last checkpoint is of step 3.
    note(Start::After(3), 4..=6, 0.5)?;
    let output =
        Command::new(&python).args(["-c", READER]).arg(&folder.0).output().expect("the interpreter runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let scalars: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let loss = [(1, "1.0"), (2, "2.0"), (3, "3.0"), (4, "2.0"), (5, "2.5"), (6, "3.0")];
    assert_eq!(scalars["train/loss"], serde_json::json!(loss));
    assert_eq!(scalars["odd"], serde_json::json!([(1, "nan"), (2, "inf"), (1, "nan"), (2, "inf")]));
    Ok(())
}
