//! What a training needs beside the model: checkpoints to go on from, metrics, and curves.
//!
//! | what | types |
//! |---|---|
//! | all that a training must remember, in one list | [`TrainingState`]; a part with a state of its own is [`Stateful`] |
//! | one file of it, or a folder that keeps the last few | [`Checkpoint`], [`Checkpoints`] |
//! | numbers by name and step | [`Recorder`], and its sinks [`Jsonl`], [`TensorBoard`] and `Progress` (feature `progress`) |
//! | pictures of them | [`Chart`]: panels of curves, as SVG |
//!
//! A training that is stopped, by Ctrl-C, a power cut or `kill -9`, and goes on from its last checkpoint ends with the same bits as one that ran through: weights, state of the
//! optimiser, losses. [`TrainingState`] shows how.

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
