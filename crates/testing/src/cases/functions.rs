//! Rows of functions that are composed of ops (`crates/core/src/functions`), one file per family, with the same stems as there.

use crate::table::OpCase;

mod activations;
mod special;

/// The rows.
pub fn rows() -> Vec<OpCase> {
    [activations::rows(), special::rows()].concat()
}
