//! Rows of the op table for the unsigned dtypes of more than 8 bits, with numbers above the largest
//! of the signed dtype of the same size, which a signed kernel would treat as negative.

use crate::prelude::*;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    UNSIGNED.iter().flat_map(|&dtype| [quotients(dtype), comparisons(dtype), extremes(dtype), sorts(dtype)]).collect()
}

/// Returns numbers on both sides of the middle of the range, and at its ends; for u64 only numbers
/// that f64 represents.
fn numbers(dtype: DType) -> Vec<f64> {
    let half = 256f64.powi(dtype.size() as i32) / 2.0;
    let (last, below_half) = match dtype {
        U64 => (2.0 * half - 4096.0, half - 1024.0),
        _ => (2.0 * half - 1.0, half - 1.0),
    };
    vec![half, 0.0, 3.0, last, below_half, 7.0, half, 1.0, half + 4096.0, last, 2.0]
}

/// Returns each of the n [`numbers`] n times in succession. The other input repeats all of them n
/// times, so that both together form all n^2 pairs.
fn second_operands(dtype: DType) -> Vec<f64> {
    let all = numbers(dtype);
    (0..all.len() * all.len()).map(|at| all[at / all.len()]).collect()
}

fn pairs(op: &'static str, dtype: DType) -> OpCase {
    OpCase::new(op, format!("pairs of {dtype}"))
        .input(Fixed(numbers(dtype)))
        .input(Fixed(second_operands(dtype)))
        .shapes([&[121]])
        .dtypes(&[dtype])
}

fn quotients(dtype: DType) -> OpCase {
    pairs("div", dtype)
        .run(|x| {
            Ok(vec![
                x[0].div(&x[1])?,
                x[0].remainder(&x[1])?,
                x[0].maximum(&x[1])?,
                x[0].minimum(&x[1])?,
                x[0].div_scalar(3)?,
                x[0].remainder_scalar(7)?,
            ])
        })
        .oracle(|x| {
            // Not in f64, in which rounding may carry a 64-bit quotient to the next integer. A
            // quotient by 0 is 0, as the CPU and the kernels define it.
            let integer_op = |function: fn(u64, u64) -> Option<u64>| {
                x[0].zip(&x[1], move |a, b| function(a as u64, b as u64).unwrap_or(0) as f64)
            };
            vec![
                integer_op(u64::checked_div),
                integer_op(u64::checked_rem),
                x[0].zip(&x[1], f64::max),
                x[0].zip(&x[1], f64::min),
                x[0].map(|a| (a as u64 / 3) as f64),
                x[0].map(|a| (a as u64 % 7) as f64),
            ]
        })
}

fn comparisons(dtype: DType) -> OpCase {
    pairs("lt", dtype)
        .forward_only("bools have no gradient")
        .run(|x| {
            Ok(vec![
                x[0].lt(&x[1])?,
                x[0].le(&x[1])?,
                x[0].gt(&x[1])?,
                x[0].ge(&x[1])?,
                x[0].eq(&x[1])?,
                x[0].gt_scalar(40_000)?,
            ])
        })
        .oracle(|x| {
            let compare = |function: fn(&f64, &f64) -> bool| x[0].zip(&x[1], move |a, b| f64::from(function(&a, &b)));
            vec![
                compare(f64::lt),
                compare(f64::le),
                compare(f64::gt),
                compare(f64::ge),
                compare(f64::eq),
                x[0].map(|a| f64::from(a > 40_000.0)),
            ]
        })
}

fn extremes(dtype: DType) -> OpCase {
    OpCase::new("max", format!("numbers of {dtype}"))
        .input(Fixed(numbers(dtype)))
        .shapes([&[11, 1], &[4, 9], &[3, 40]])
        .dtypes(&[dtype])
        .run(|x| {
            let x = &x[0];
            Ok(vec![x.max(1)?, x.min(1)?, x.max(0)?, x.min(0)?, x.argmax(1)?, x.argmin(1)?])
        })
        .oracle(|x| {
            let first_best = |better: fn(&f64, &f64) -> bool| {
                move |values: &[f64]| {
                    let choose = |best, at| if better(&values[at], &values[best]) { at } else { best };
                    (1..values.len()).fold(0, choose) as f64
                }
            };
            let largest = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
            let smallest = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
            vec![
                x[0].reduce(&[1], Keep::No, largest),
                x[0].reduce(&[1], Keep::No, smallest),
                x[0].reduce(&[0], Keep::No, largest),
                x[0].reduce(&[0], Keep::No, smallest),
                x[0].reduce(&[1], Keep::No, first_best(f64::gt)),
                x[0].reduce(&[1], Keep::No, first_best(f64::lt)),
            ]
        })
}

fn sorts(dtype: DType) -> OpCase {
    OpCase::new("sort", format!("numbers of {dtype}"))
        .input(Fixed(numbers(dtype)))
        .shapes([&[7], &[2, 40], &[1, 2050]])
        .dtypes(&[dtype])
        .run(|x| Ok(vec![x[0].sort(-1, false)?.0, x[0].sort(-1, true)?.0]))
        .oracle(|x| {
            let sorted = |is_descending: bool| {
                x[0].map_slices(x[0].rank() - 1, move |slice| {
                    let mut values = slice.to_vec();
                    values.sort_by(f64::total_cmp);
                    if is_descending {
                        values.reverse();
                    }
                    values
                })
            };
            vec![sorted(false), sorted(true)]
        })
}
