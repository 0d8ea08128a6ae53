//! Rows of losses that are composed of ops. Half-precision inputs are computed in f32, and their
//! losses are f32.

use crate::prelude::*;

mod classes;
mod ctc;
mod distances;
mod likelihoods;
mod margins;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    [classes::rows(), ctc::rows(), distances::rows(), likelihoods::rows(), margins::rows()].concat()
}

fn mean(x: &Array) -> Array {
    Array::scalar(x.sum() / x.elements() as f64)
}

/// Targets of 1 and -1.
fn signs() -> Input {
    Input::float(Values::custom(|shapes, position, rng| {
        (0..shapes[position].iter().product()).map(|_| rng.sign()).collect()
    }))
    .constant()
}
