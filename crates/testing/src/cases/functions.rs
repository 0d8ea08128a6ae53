//! Rows of functions that are composed of ops (`crates/core/src/functions`), one file per family, with the same stems as there.

use crate::table::OpCase;

mod activations;
mod bags;
mod blends;
mod bounds;
mod channels;
mod contractions;
mod convolutions;
mod correlation;
mod distances;
mod distributions;
mod division;
mod grid;
mod indexing;
mod integers;
mod losses;
mod pads;
mod placing;
mod pools;
mod products;
mod quantiles;
mod reductions;
mod resize;
mod rounding;
mod scaling;
mod sets;
mod signs;
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
        blends::rows(),
        bounds::rows(),
        channels::rows(),
        contractions::rows(),
        convolutions::rows(),
        correlation::rows(),
        distances::rows(),
        distributions::rows(),
        division::rows(),
        grid::rows(),
        indexing::rows(),
        integers::rows(),
        losses::rows(),
        pads::rows(),
        placing::rows(),
        pools::rows(),
        products::rows(),
        quantiles::rows(),
        reductions::rows(),
        resize::rows(),
        rounding::rows(),
        scaling::rows(),
        sets::rows(),
        signs::rows(),
        slopes::rows(),
        special::rows(),
        statistics::rows(),
        sums_of_powers::rows(),
        unique::rows(),
        windows::rows(),
    ];
    super::compositions(families.concat())
}
