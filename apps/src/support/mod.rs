//! Code that the programs share.

pub(crate) mod checksum;
pub(crate) mod console;
pub(crate) mod corpus;
pub mod digits;
pub(crate) mod divergence;
pub(crate) mod files;
pub(crate) mod given_options;
pub mod gpt_step;
pub(crate) mod hyperparameters;
pub(crate) mod interrupts;
pub mod learner;
pub(crate) mod memory;
pub mod mixed_precision;
pub mod nvtx;
pub(crate) mod outputs;
pub mod program;
pub mod replayable;
pub(crate) mod saving;
pub(crate) mod weights;
