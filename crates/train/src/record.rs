//! Numbers of a training by name and step: noted once, told to every sink.

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

/// A number of a training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scalar<'a> {
    /// What it is, such as `train/loss`: TensorBoard groups by what is before the slash.
    pub name: &'a str,
    /// Steps that were made when it was found.
    pub step: u64,
    /// The number; may be NaN or infinite.
    pub value: f64,
    /// Seconds since 1970.
    pub time: f64,
}

/// A place that numbers are told to.
pub trait Sink {
    /// Takes a number. What it took is safe from a crash of the program when it returns.
    ///
    /// # Errors
    /// If it cannot be written.
    fn scalar(&mut self, scalar: &Scalar<'_>) -> Result<()>;
}

/// Whether a record begins, or goes on after a training was resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// A new record. Where one of an earlier training is, it is an error: nothing is mixed, and nothing is lost.
    New,
    /// Goes on behind this step: what was noted of later ones, before the training was cut off, is dropped. Where no record is yet, one begins.
    After(u64),
}

/// Notes the numbers of a training, and tells them to sinks that the user chooses.
///
/// It remembers all of them, for curves at the end; as a [`part`](crate::TrainingState::part) of a checkpoint they come back with it. Note what belongs to a step before the checkpoint of that step is saved.
///
/// ```
/// use ternion_train::{Recorder, Start};
/// # fn main() -> ternion_core::Result<()> {
/// # let folder = std::env::temp_dir().join(format!("ternion-train-record-doc-{}", std::process::id()));
/// let mut recorder = Recorder::new().folder(&folder, Start::New)?; // metrics.jsonl, and files for TensorBoard
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

/// The file of a folder's numbers, one object in a line.
const JSONL_FILE: &str = "metrics.jsonl";

impl Recorder {
    /// A recorder that only remembers.
    pub fn new() -> Recorder {
        Recorder::default()
    }

    /// Tells a further sink.
    pub fn with(mut self, sink: impl Sink + 'static) -> Recorder {
        self.sinks.push(Box::new(sink));
        self
    }

    /// Writes `metrics.jsonl` ([`Jsonl`]) and event files of TensorBoard ([`TensorBoard`]) into `folder`, which is made if there is none.
    ///
    /// # Errors
    /// If they cannot be written, or with [`Start::New`] are there already.
    pub fn folder(self, folder: impl AsRef<Path>, start: Start) -> Result<Recorder> {
        let folder = folder.as_ref();
        std::fs::create_dir_all(folder)
            .map_err(|error| Error::file_system(folder, "cannot be made", &error))?;
        Ok(self.with(Jsonl::new(folder.join(JSONL_FILE), start)?).with(TensorBoard::new(folder, start)?))
    }

    /// Notes the number `name` of a step. Every sink is told, also if an earlier one fails.
    ///
    /// # Errors
    /// An empty name; the first error of a sink.
    pub fn scalar(&mut self, name: &str, step: u64, value: f64) -> Result<()> {
        if name.is_empty() {
            return Err(Error::invalid("recorder", "an empty name"));
        }
        match self.history.get_mut(name) {
            Some(series) => series.push((step, value)),
            None => drop(self.history.insert(name.to_owned(), vec![(step, value)])),
        }
        let scalar = Scalar { name, step, value, time: now() };
        let mut told = Ok(());
        for sink in &mut self.sinks {
            told = told.and(sink.scalar(&scalar));
        }
        told
    }

    /// The numbers of a name with their steps, in the order in which they were noted; none of a name that never was.
    pub fn series(&self, name: &str) -> &[(u64, f64)] {
        self.history.get(name).map_or(&[], Vec::as_slice)
    }

    /// All names, in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.history.keys().map(String::as_str)
    }
}

const STEPS: &str = ".steps";
const VALUES: &str = ".values";

/// What it remembers: `NAME.steps`, i64, and `NAME.values`, f64, both `[count]`.
impl Stateful for Recorder {
    fn state(&self, device: &Device) -> Result<StateDict> {
        let mut state = StateDict::new();
        for (name, series) in &self.history {
            // A tensor has no u64; the bits come back.
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
                    _ => return Err(misfit(text!["extra: ", key])),
                }
            };
            let values = state.get(&format!("{name}{VALUES}"));
            let values = values.ok_or_else(|| misfit(text!["missing: ", name, VALUES]))?;
            let is_row = |tensor: &Tensor, dtype| tensor.shape().rank() == 1 && tensor.dtype() == dtype;
            if !is_row(steps, DType::I64) || !is_row(values, DType::F64) || steps.dims() != values.dims() {
                let got = text![name, ": steps ", steps, " and values ", values];
                let expected = text![", expected [count] ", DType::I64, " and [count] ", DType::F64];
                return Err(misfit(text![got, expected]));
            }
            let steps = steps.to_vec::<i64>()?.into_iter().map(i64::cast_unsigned);
            history.insert(name.to_owned(), steps.zip(values.to_vec::<f64>()?).collect());
        }
        self.history = history;
        Ok(())
    }
}

fn misfit(detail: Text) -> Error {
    Error::invalid("recorder", text!["the state does not fit; ", detail])
}

/// Seconds since 1970; 0 for a clock that stands before.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}
