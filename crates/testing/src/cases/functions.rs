//! Rows of functions that are composed of ops (`crates/core/src/functions`), one file per family, with the same stems as there.

use crate::table::OpCase;

mod activations;
mod indexing;
mod integers;
mod special;
mod statistics;
mod unique;

/// The rows.
pub fn rows() -> Vec<OpCase> {
    [
        activations::rows(),
        indexing::rows(),
        integers::rows(),
        special::rows(),
        statistics::rows(),
        unique::rows(),
    ]
    .concat()
}
