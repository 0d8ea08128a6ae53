//! How a program ends: well, or with an error that says in words what is wrong.

use crate::support::say::warn;
use std::process::ExitCode;

/// Errors of tensors, data and files, all of which say in words what is wrong.
pub type Outcome<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Tells an error on standard error; the status that the program ends with.
pub fn end(outcome: Outcome<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            warn(format_args!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}
