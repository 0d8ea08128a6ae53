//! What the programs share.

pub(crate) mod checksum;
pub(crate) mod corpus;
pub mod digits;
pub(crate) mod divergence;
pub(crate) mod files;
pub(crate) mod given;
pub mod gpt_step;
pub(crate) mod interrupts;
pub mod learner;
pub(crate) mod memory;
pub(crate) mod outputs;
pub(crate) mod plan;
pub mod precise;
pub mod program;
pub mod ranges;
pub mod repeated;
pub(crate) mod saving;
pub(crate) mod say;
pub(crate) mod weights;
