//! Rows of activations that are no ops of their own.

use crate::cases::binary::both_gradients;
use crate::cases::unary::around_bounds;
use crate::prelude::*;

/// The rows.
pub fn rows() -> Vec<OpCase> {
    [vec![hardtanh()], prelu()].concat()
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

fn prelu() -> Vec<OpCase> {
    let row = |parameters: &str| OpCase::new("prelu", parameters).input(AwayFrom(0.25)).input(Uniform(-0.5, 0.75)).twice();
    let of = |x: f64, weight: f64| if x > 0.0 { x } else { weight * x };
    let infinity = f64::INFINITY;
    vec![
        row("")
            .on([&[], &[]])
            .on([&[7, 33], &[1]])
            .on([&[0, 3], &[1]])
            .run(|x| x[0].prelu(&x[1]))
            .oracle(move |x| {
                let weight = x[1].data[0];
                x[0].map(|x| of(x, weight))
            })
            .hostile("special", [Array::new(&[5], vec![f64::NAN, infinity, -infinity, 0.0, -0.0]), Array::new(&[1], vec![0.5])])
            .rejects("prelu: weight of shape [2], expected [1] or [3]", |device| {
                Tensor::zeros([2, 3], F32, device)?.prelu(&Tensor::zeros([2], F32, device)?)
            })
            .rejects("prelu: input is i32, expected a floating dtype", |device| {
                let x = Tensor::zeros([1], I32, device)?;
                x.prelu(&x)
            }),
        row("channels")
            .on([&[5, 3], &[3]])
            .on([&[2, 3, 5], &[3]])
            .on([&[2, 3, 2, 3], &[3]])
            .run(|x| x[0].prelu(&x[1]))
            .oracle(move |x| Array::from_fn(&x[0].shape, |at| of(x[0].at(at), x[1].at(&[at[1]])))),
        // The weight has no part in an infinite element above 0.
        OpCase::new("prelu", "gradient beside infinities")
            .input(Fixed(vec![infinity, -2.0, 3.0, 0.0]))
            .input(Fixed(vec![0.5]))
            .on([&[4], &[1]])
            .forward_only("compares gradients themselves")
            .run(|x| both_gradients(x, |x, weight| x.prelu(weight)))
            .oracle(|_| (Array::new(&[4], vec![1.0, 0.5, 1.0, 0.5]), Array::new(&[1], vec![-2.0]))),
    ]
}
