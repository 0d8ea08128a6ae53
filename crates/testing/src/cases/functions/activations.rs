//! Rows of activations that are no ops of their own.

use crate::cases::unary::around_bounds;
use crate::prelude::*;

/// The rows.
pub fn rows() -> Vec<OpCase> {
    vec![hardtanh()]
}

/// As `clamp`, but that the gradient at the bounds is 0 (`python/tests/test_edges.py`).
fn hardtanh() -> OpCase {
    let kept = |x: f64| if x.is_nan() { x } else { x.clamp(-0.75, 1.25) };
    let edges = vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.75, 1.25];
    OpCase::new("hardtanh", "low=-0.75 high=1.25")
        .input(around_bounds())
        .shapes([&[], &[0, 3], &[13], &[7, 33]])
        .run(|x| x[0].hardtanh(-0.75, 1.25))
        .oracle(move |x| x[0].map(kept))
        .hostile("bounds", [Array::new(&[5], edges)])
}
