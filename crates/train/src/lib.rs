//! Training utilities: checkpoints to resume from, metrics, and charts.
//!
//! | what | types |
//! |---|---|
//! | the complete state of a training run | [`TrainingState`]; stateful parts: [`Stateful`] |
//! | a file of that state, or a folder of them | [`Checkpoint`], [`Checkpoints`] |
//! | metrics by name and step | [`Recorder`]: [`Jsonl`], [`TensorBoard`], `Progress` (feature) |
//! | charts of metrics | [`Chart`]: panels of curves, as SVG |
//!
//! A training run that is stopped by Ctrl-C, a power failure or `kill -9`, and resumed from its
//! last checkpoint, ends bit-identical to one without interruption: weights, optimizer state,
//! losses. [`TrainingState`] shows how.

mod chart;
mod checkpoint;
mod folder;
mod record;
mod state;

pub use chart::{Chart, Panel, Scale, Series};
pub use checkpoint::Checkpoint;
pub use folder::{Checkpoints, Keep, Resumed};
#[cfg(feature = "progress")]
pub use record::Progress;
pub use record::{Jsonl, Recorder, Scalar, Sink, Start, TensorBoard};
pub use state::{Stateful, TrainingState, Value};
