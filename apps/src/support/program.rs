//! How a program ends: successfully, or with an error message.

use crate::support::console::warn;
use std::process::ExitCode;

/// A result whose errors (of tensors, data and files) have a message for the user.
pub type Outcome<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Prints an error to standard error; returns the exit status.
pub fn exit_code(outcome: Outcome<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            warn(format_args!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}
