//! Rows of functions of two elements, their forms with a number, and the fused forms built on them.

use crate::prelude::*;

/// The rows.
pub fn rows() -> Vec<OpCase> {
    vec![
        OpCase::new("add", "")
            .input(Uniform(-4.0, 4.0))
            .input(Uniform(-4.0, 4.0))
            .shapes([&[], &[1, 13], &[7, 33]])
            .on([&[7, 1], &[33]])
            .also(INTEGERS)
            .twice()
            .run(|x| x[0].add(&x[1]))
            .oracle(|x| x[0].zip(&x[1], |a, b| a + b))
            .rejects("add: shapes [2] and [3] do not broadcast", |device| {
                Tensor::zeros([2], F32, device)?.add(&Tensor::zeros([3], F32, device)?)
            }),
        OpCase::new("maximum", "")
            .input(Distinct)
            .input(Fixed(vec![1.0 / 64.0]))
            .shapes([&[5], &[7, 33]])
            .run(|x| x[0].maximum(&x[1]))
            .oracle(|x| x[0].zip(&x[1], f64::max)),
    ]
}
