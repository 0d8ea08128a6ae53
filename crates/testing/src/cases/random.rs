//! Rows of random numbers and dropout.

use crate::prelude::*;

/// The rows.
pub fn rows() -> Vec<OpCase> {
    vec![]
}
