//! Metrics of a training run by name and step, recorded once and passed to every sink.

mod jsonl;
#[cfg(feature = "progress")]
mod progress;
mod tensorboard;

pub use jsonl::Jsonl;
#[cfg(feature = "progress")]
pub use progress::Progress;
pub use tensorboard::TensorBoard;

use crate::state::Stateful;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use ternion_core::error::Text;
use ternion_core::{DType, Device, Error, Result, Tensor, text};
use ternion_nn::StateDict;

/// A value of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scalar<'a> {
    /// The name of the metric, such as `train/loss`: TensorBoard groups by the part before the
    /// slash.
    pub name: &'a str,
    /// The number of completed steps when it was measured.
    pub step: u64,
    /// The value; may be NaN or infinite.
    pub value: f64,
    /// Time in seconds since 1970.
    pub time: f64,
}

/// A destination of metrics.
pub trait Sink {
    /// Accepts a value. After this returns, a crash of the program does not lose the value.
    ///
    /// # Errors
    /// Returns an error if the value cannot be written.
    fn scalar(&mut self, scalar: &Scalar<'_>) -> Result<()>;
}

/// Whether to start a new record, or to continue one after a training run was resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// A new record. An existing record is an error, so that runs are not mixed and nothing is
    /// lost.
    New,
    /// Continues after this step: values of later steps, recorded before the training run was
    /// interrupted, are dropped. If no record exists, a new one is started.
    After(u64),
}

/// Records the metrics of a training run, and passes them to the sinks that the user chooses.
///
/// It keeps all values in memory, for charts at the end. If it is a
/// [`part`](crate::TrainingState::part) of a checkpoint, they are restored with it. Record the
/// values of a step before the checkpoint of that step is saved.
///
/// ```
/// use ternion_train::{Recorder, Start};
/// # fn main() -> ternion_core::Result<()> {
/// # let folder = std::env::temp_dir().join(format!("ternion-train-record-doc-{}", std::process::id()));
/// // Writes metrics.jsonl, and files for TensorBoard.
/// let mut recorder = Recorder::new().folder(&folder, Start::New)?;
/// for step in 1..=3 {
///     recorder.scalar("train/loss", step, 1.0 / step as f64)?;
/// }
/// assert_eq!(recorder.series("train/loss")[1], (2, 0.5));
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct Recorder {
    sinks: Vec<Box<dyn Sink>>,
    history: BTreeMap<String, Vec<(u64, f64)>>,
}

/// The file of a folder's metrics, one JSON object per line.
const JSONL_FILE: &str = "metrics.jsonl";

impl Recorder {
    /// Creates a recorder without sinks.
    pub fn new() -> Recorder {
        Recorder::default()
    }

    /// Adds a sink.
    pub fn with(mut self, sink: impl Sink + 'static) -> Recorder {
        self.sinks.push(Box::new(sink));
        self
    }

    /// Adds sinks that write `metrics.jsonl` ([`Jsonl`]) and event files of TensorBoard
    /// ([`TensorBoard`]) to `folder`, which is created if it does not exist.
    ///
    /// # Errors
    /// Returns an error if the files cannot be written, or already exist and `start` is
    /// [`Start::New`].
    pub fn folder(self, folder: impl AsRef<Path>, start: Start) -> Result<Recorder> {
        let folder = folder.as_ref();
        std::fs::create_dir_all(folder)
            .map_err(|error| Error::file_system(folder, "cannot be made", &error))?;
        Ok(self.with(Jsonl::new(folder.join(JSONL_FILE), start)?).with(TensorBoard::new(folder, start)?))
    }

    /// Records the value `name` of a step. It is passed to every sink, even if an earlier one
    /// fails.
    ///
    /// # Errors
    /// Returns an error for an empty name, or the first error of a sink.
    pub fn scalar(&mut self, name: &str, step: u64, value: f64) -> Result<()> {
        if name.is_empty() {
            return Err(Error::invalid("recorder", "an empty name"));
        }
        match self.history.get_mut(name) {
            Some(series) => series.push((step, value)),
            None => drop(self.history.insert(name.to_owned(), vec![(step, value)])),
        }
        let scalar = Scalar { name, step, value, time: now() };
        let mut result = Ok(());
        for sink in &mut self.sinks {
            result = result.and(sink.scalar(&scalar));
        }
        result
    }

    /// Returns the values of a name with their steps, in the order in which they were recorded;
    /// empty for an unknown name.
    pub fn series(&self, name: &str) -> &[(u64, f64)] {
        self.history.get(name).map_or(&[], Vec::as_slice)
    }

    /// Returns all names, in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.history.keys().map(String::as_str)
    }
}

const STEPS: &str = ".steps";
const VALUES: &str = ".values";

/// The state of a recorder: `NAME.steps`, i64, and `NAME.values`, f64, both `[count]`.
impl Stateful for Recorder {
    fn state(&self, device: &Device) -> Result<StateDict> {
        let mut state = StateDict::new();
        for (name, series) in &self.history {
            // Steps are stored as i64; the cast preserves the bits.
            let steps: Vec<i64> = series.iter().map(|&(step, _)| step.cast_signed()).collect();
            let values: Vec<f64> = series.iter().map(|&(_, value)| value).collect();
            state.insert(format!("{name}{STEPS}"), Tensor::from_vec(steps, [series.len()], device)?);
            state.insert(format!("{name}{VALUES}"), Tensor::from_vec(values, [series.len()], device)?);
        }
        Ok(state)
    }

    fn restore(&mut self, state: &StateDict) -> Result<()> {
        let mut history = BTreeMap::new();
        for (key, steps) in state {
            let Some(name) = key.strip_suffix(STEPS) else {
                match key.strip_suffix(VALUES) {
                    Some(name) if state.contains_key(&format!("{name}{STEPS}")) => continue,
                    _ => return Err(mismatch(text!["extra: ", key])),
                }
            };
            let values = state.get(&format!("{name}{VALUES}"));
            let values = values.ok_or_else(|| mismatch(text!["missing: ", name, VALUES]))?;
            let is_row = |tensor: &Tensor, dtype| tensor.shape().rank() == 1 && tensor.dtype() == dtype;
            if !is_row(steps, DType::I64) || !is_row(values, DType::F64) || steps.dims() != values.dims() {
                let actual = text![name, ": steps ", steps, " and values ", values];
                let expected = text![", expected [count] ", DType::I64, " and [count] ", DType::F64];
                return Err(mismatch(text![actual, expected]));
            }
            let steps = steps.to_vec::<i64>()?.into_iter().map(i64::cast_unsigned);
            history.insert(name.to_owned(), steps.zip(values.to_vec::<f64>()?).collect());
        }
        self.history = history;
        Ok(())
    }
}

fn mismatch(detail: Text) -> Error {
    Error::invalid("recorder", text!["the state does not fit; ", detail])
}

/// Returns seconds since 1970; 0 if the clock is before that.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}
