//! Rows of f32 products that permit a device to use another algorithm: bf16x6 (six bf16 products
//! for each f32 product), or TF32.

use super::matmul::{product, square};
use crate::oracle;
use crate::prelude::*;
use ternion_core::ops::matmul::MatmulOptions;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    [bf16x6(), tf32()].into_iter().flatten().collect()
}

/// Products that permit bf16x6, with the limits of f32.
fn bf16x6() -> Vec<OpCase> {
    fn permitted() -> MatmulOptions<'static> {
        MatmulOptions { bf16x6: true, ..Default::default() }
    }
    vec![
        product("matmul", "bf16x6")
            .on([&[1, 1], &[1, 1]])
            .on([&[7, 5], &[5, 3]])
            .on([&[17, 33], &[33, 9]])
            .on([&[0, 4], &[4, 3]])
            .on([&[3, 0], &[0, 2]])
            .double_backward()
            .run(|x| x[0].matmul_with(&x[1], permitted()))
            .oracle(|x| oracle::matmul(&x[0], &x[1]))
            .adversarial("infinite", [square(f64::INFINITY), square(1.0)])
            .adversarial("nan", [square(1.0), square(f64::NAN)]),
        product("matmul", "bf16x6 edges")
            .on([&[65, 31], &[31, 66]])
            .on([&[1, 129], &[129, 7]])
            .on([&[33, 2], &[2, 1]])
            .f32_limit(4e-6, 2e-6)
            .run(|x| x[0].matmul_with(&x[1], permitted()))
            .oracle(|x| oracle::matmul(&x[0], &x[1])),
        product("matmul", "bf16x6 batched")
            .on([&[2, 3, 5, 4], &[2, 3, 4, 6]])
            .on([&[3, 4], &[5, 4, 2]])
            .run(|x| x[0].matmul_with(&x[1], permitted()))
            .oracle(|x| oracle::matmul(&x[0], &x[1])),
        product("matmul", "bf16x6 bias alpha residual")
            .input(Uniform(-1.0, 1.0))
            .input(Uniform(-1.0, 1.0))
            .on([&[7, 5], &[5, 3], &[3], &[7, 3]])
            .run(|x| {
                let (bias, residual) = (Some(&x[2]), Some(&x[3]));
                x[0].matmul_with(&x[1], MatmulOptions { bias, residual, alpha: -2.5, ..permitted() })
            })
            .oracle(|x| {
                oracle::matmul(&x[0], &x[1]).zip(&x[2], |y, b| -2.5 * y + b).zip(&x[3], |y, r| y + r)
            }),
    ]
}

/// Products that permit TF32: a device that does not round has the same limits as without the
/// permission.
fn tf32() -> Vec<OpCase> {
    fn permitted() -> MatmulOptions<'static> {
        MatmulOptions { tf32: true, ..Default::default() }
    }
    let row = |parameters: &str| product("matmul", parameters).tf32_factors(2);
    vec![
        row("tf32")
            .on([&[1, 1], &[1, 1]])
            .on([&[7, 5], &[5, 3]])
            .on([&[17, 33], &[33, 9]])
            .on([&[0, 4], &[4, 3]])
            .on([&[3, 0], &[0, 2]])
            .run(|x| x[0].matmul_with(&x[1], permitted()))
            .oracle(|x| oracle::matmul(&x[0], &x[1]))
            .adversarial("infinite", [square(f64::INFINITY), square(1.0)])
            .adversarial("nan", [square(1.0), square(f64::NAN)]),
        row("tf32 edges")
            .on([&[65, 31], &[31, 66]])
            .on([&[1, 129], &[129, 7]])
            .on([&[33, 2], &[2, 1]])
            .on([&[101, 8], &[8, 37]])
            .f32_limit(4e-6, 2e-6)
            .run(|x| x[0].matmul_with(&x[1], permitted()))
            .oracle(|x| oracle::matmul(&x[0], &x[1])),
        row("tf32 batched")
            .on([&[2, 3, 5, 4], &[2, 3, 4, 6]])
            .on([&[3, 4], &[5, 4, 2]])
            .run(|x| x[0].matmul_with(&x[1], permitted()))
            .oracle(|x| oracle::matmul(&x[0], &x[1])),
        // The bias is added without rounding.
        row("tf32 bias")
            .input(Uniform(-1.0, 1.0))
            .on([&[7, 5], &[5, 3], &[3]])
            .on([&[2, 3, 4], &[2, 4, 5], &[5]])
            .run(|x| x[0].matmul_with(&x[1], MatmulOptions { bias: Some(&x[2]), ..permitted() }))
            .oracle(|x| oracle::matmul(&x[0], &x[1]).zip(&x[2], |y, b| y + b)),
        row("tf32 alpha residual")
            .input(Uniform(-1.0, 1.0))
            .on([&[7, 5], &[5, 3], &[7, 3]])
            .run(|x| {
                x[0].matmul_with(&x[1], MatmulOptions { residual: Some(&x[2]), alpha: -2.5, ..permitted() })
            })
            .oracle(|x| oracle::matmul(&x[0], &x[1]).zip(&x[2], |y, r| -2.5 * y + r)),
    ]
}
