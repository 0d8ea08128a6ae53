//! Rows of comparisons and selection.

use crate::prelude::*;

/// The rows.
pub fn rows() -> Vec<OpCase> {
    vec![]
}
