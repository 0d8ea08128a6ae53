//! Rows of membership tests, and of combinations of elements.

use crate::prelude::*;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    let mut rows: Vec<OpCase> = [false, true].into_iter().map(isin).collect();
    rows.extend([(2, false), (3, false), (2, true), (1, true), (4, false), (0, false)].map(|(r, with)| choices(r, with)));
    rows
}

fn isin(invert: bool) -> OpCase {
    OpCase::new("isin", format!("invert={invert}"))
        .input(Integers(-3, 3))
        .input(Integers(-2, 2))
        .on([&[5, 7], &[3]])
        .on([&[], &[2, 3]])
        .on([&[4], &[0]])
        .on([&[0], &[3]])
        .also(INTEGERS)
        .also(BOOL)
        .forward_only("bools")
        .run(move |x| x[0].isin(&x[1], invert))
        .oracle(move |x| x[0].map(|value| f64::from(u8::from(x[1].data.contains(&value) != invert))))
        .adversarial(
            "special",
            [
                Array::new(&[4], vec![f64::NAN, f64::INFINITY, -0.0, 7.0]),
                Array::new(&[5], vec![f64::NAN, 0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN]),
            ],
        )
        .rejects("isin: dtypes f32 and i64 differ; cast one of them with to_dtype", move |device| {
            Tensor::zeros([2], F32, device)?.isin(&Tensor::zeros([2], I64, device)?, invert)
        })
}

/// Returns all combinations of `r` of the indices `first..count`, in order.
fn chosen(first: usize, count: usize, r: usize, with_replacement: bool) -> Vec<Vec<usize>> {
    if r == 0 {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for index in first..count {
        for rest in chosen(if with_replacement { index } else { index + 1 }, count, r - 1, with_replacement) {
            all.push([&[index], &rest[..]].concat());
        }
    }
    all
}

fn choices(r: usize, with_replacement: bool) -> OpCase {
    OpCase::new("combinations", format!("r={r} with_replacement={with_replacement}"))
        .input(Distinct)
        .shapes([&[4], &[1], &[0]])
        .also(INTEGERS)
        .also(BOOL)
        .f32_limit(1e-6, 2e-6)
        .double_backward()
        .run(move |x| x[0].combinations(r, with_replacement))
        .oracle(move |x| {
            if r == 0 {
                return Array::zeros(&[0]);
            }
            let all = chosen(0, x[0].elements(), r, with_replacement);
            Array::new(&[all.len(), r], all.into_iter().flatten().map(|index| x[0].data[index]).collect())
        })
        .rejects("combinations: choices of 50 of 100 elements do not fit into memory", |device| {
            Tensor::zeros([100], F32, device)?.combinations(50, false)
        })
        .rejects("combinations: expected 1 axes, got shape [2, 2]", move |device| {
            Tensor::zeros([2, 2], F32, device)?.combinations(r, with_replacement)
        })
}
