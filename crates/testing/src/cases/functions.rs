//! Rows of functions that are composed of ops (`crates/core/src/functions`), one file per family,
//! with the same file stems.

use crate::table::OpCase;

mod activations;
mod embedding_bag;
mod blends;
mod blocks;
mod bounds;
mod channels;
mod closeness;
mod contractions;
mod convolutions;
mod correlation;
mod diagonals;
mod distances;
mod distributions;
mod division;
mod drawing;
mod grid;
mod indexing;
mod integers;
mod joining;
mod losses;
mod permute;
mod pads;
mod slice_scatter;
mod pools;
mod products;
mod quantiles;
mod reductions;
mod resize;
mod rounding;
mod scaling;
mod sequences;
mod sets;
mod signs;
mod gradient;
mod special;
mod splitting;
mod statistics;
mod sums_of_powers;
mod embedding;
mod take;
mod unique;
mod windows;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    let families = [
        activations::rows(),
        embedding_bag::rows(),
        blends::rows(),
        blocks::rows(),
        bounds::rows(),
        channels::rows(),
        closeness::rows(),
        contractions::rows(),
        convolutions::rows(),
        correlation::rows(),
        diagonals::rows(),
        distances::rows(),
        distributions::rows(),
        division::rows(),
        drawing::rows(),
        grid::rows(),
        indexing::rows(),
        integers::rows(),
        joining::rows(),
        losses::rows(),
        permute::rows(),
        pads::rows(),
        slice_scatter::rows(),
        pools::rows(),
        products::rows(),
        quantiles::rows(),
        reductions::rows(),
        resize::rows(),
        rounding::rows(),
        scaling::rows(),
        sequences::rows(),
        sets::rows(),
        signs::rows(),
        gradient::rows(),
        special::rows(),
        splitting::rows(),
        statistics::rows(),
        sums_of_powers::rows(),
        embedding::rows(),
        take::rows(),
        unique::rows(),
        windows::rows(),
    ];
    super::compositions(families.concat())
}
