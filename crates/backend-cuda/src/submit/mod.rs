//! Work on its way to the device: launches, what was launched last, what went wrong, recorded
//! steps.

pub(crate) mod capture;
pub(crate) mod errors;
pub(crate) mod history;
pub(crate) mod queue;
