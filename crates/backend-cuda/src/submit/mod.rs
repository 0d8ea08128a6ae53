//! Submission of work to the device: the launch queue, the history of launches, errors, recorded
//! steps.

pub(crate) mod capture;
pub(crate) mod errors;
pub(crate) mod history;
pub(crate) mod queue;
