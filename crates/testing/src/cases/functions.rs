//! Rows of functions that are composed of ops (`crates/core/src/functions`), one file per family, with the same stems as there.

use crate::table::OpCase;

mod activations;
mod channels;
mod convolutions;
mod grid;
mod indexing;
mod integers;
mod pads;
mod pools;
mod resize;
mod special;
mod statistics;
mod unique;

/// The rows.
pub fn rows() -> Vec<OpCase> {
    [
        activations::rows(),
        channels::rows(),
        convolutions::rows(),
        grid::rows(),
        indexing::rows(),
        integers::rows(),
        pads::rows(),
        pools::rows(),
        resize::rows(),
        special::rows(),
        statistics::rows(),
        unique::rows(),
    ]
    .concat()
}
