//! Rows of functions that are composed of ops (`crates/core/src/functions`), one file per family, with the same stems as there.

use crate::table::OpCase;

mod activations;
mod bags;
mod bounds;
mod channels;
mod convolutions;
mod distances;
mod distributions;
mod grid;
mod indexing;
mod integers;
mod losses;
mod pads;
mod placing;
mod pools;
mod products;
mod quantiles;
mod resize;
mod sets;
mod slopes;
mod special;
mod statistics;
mod sums_of_powers;
mod unique;
mod windows;

/// The rows.
pub fn rows() -> Vec<OpCase> {
    let families = [
        activations::rows(),
        bags::rows(),
        bounds::rows(),
        channels::rows(),
        convolutions::rows(),
        distances::rows(),
        distributions::rows(),
        grid::rows(),
        indexing::rows(),
        integers::rows(),
        losses::rows(),
        pads::rows(),
        placing::rows(),
        pools::rows(),
        products::rows(),
        quantiles::rows(),
        resize::rows(),
        sets::rows(),
        slopes::rows(),
        special::rows(),
        statistics::rows(),
        sums_of_powers::rows(),
        unique::rows(),
        windows::rows(),
    ];
    super::compositions(families.concat())
}
