//! Rows of picking, putting, adding and sorting.

use crate::prelude::*;

/// The rows.
pub fn rows() -> Vec<OpCase> {
    vec![]
}
