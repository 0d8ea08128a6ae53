//! Rows of borders, concatenation, splitting and repetition.

use crate::prelude::*;

/// The rows.
pub fn rows() -> Vec<OpCase> {
    vec![]
}
