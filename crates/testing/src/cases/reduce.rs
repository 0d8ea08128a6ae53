//! Rows of reductions over axes, variance and cumulative sums.

mod lengths;

use super::unary::wrap;
use crate::oracle::log_sum_exp;
use crate::prelude::*;
use ternion_core::dispatch::apply_one;
use ternion_core::ops::reduce::{CumulativeSum, Reduce, ReduceOp};
use ternion_core::{AxisSet, GradOptions, enable_grad, grad};

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    let mut rows = Vec::new();
    for reduction in reductions() {
        rows.extend(reduction.rows());
    }
    rows.extend(zeros_in_products());
    rows.extend(large_rows());
    rows.extend(positions());
    rows.extend(integers());
    rows.extend(any_and_all());
    rows.extend(variances());
    rows.extend(running_sums());
    rows.extend(conventions());
    rows.extend([log_of_empty(), all_elements(), rejected()]);
    rows
}

/// A reduction with its definition over the elements along the axes.
struct Reduction {
    op: &'static str,
    values: Values,
    run: fn(&Tensor, &[isize], Keep) -> Result<Tensor>,
    definition: fn(&[f64]) -> f64,
    /// Whether an empty slice can be reduced.
    reduces_empty: bool,
}

macro_rules! method {
    ($name:ident, $keep_name:ident) => {
        |x, axes, keep| match keep {
            Keep::No => x.$name(axes),
            Keep::Yes => x.$keep_name(axes),
        }
    };
}

fn sum(x: &[f64]) -> f64 {
    x.iter().sum()
}

fn mean(x: &[f64]) -> f64 {
    sum(x) / x.len() as f64
}

fn largest(x: &[f64]) -> f64 {
    x.iter().copied().reduce(|a, b| if a > b || a.is_nan() { a } else { b }).unwrap_or(f64::NAN)
}

fn smallest(x: &[f64]) -> f64 {
    x.iter().copied().reduce(|a, b| if a < b || a.is_nan() { a } else { b }).unwrap_or(f64::NAN)
}

fn largest_magnitude(x: &[f64]) -> f64 {
    largest(&x.iter().map(|x| x.abs()).collect::<Vec<_>>())
}

fn sum_of_squares(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x).sum()
}

/// Factors near 1 and -1, so that products neither grow nor underflow.
fn near_units() -> Values {
    Values::custom(|shapes, position, rng| {
        (0..shapes[position].iter().product()).map(|_| rng.sign() * rng.uniform(0.75, 1.25)).collect()
    })
}

/// Different magnitudes, of either sign.
fn distinct_magnitudes() -> Values {
    Values::custom(|shapes, position, rng| {
        let count = shapes[position].iter().product();
        rng.permutation(count).into_iter().map(|k| rng.sign() * (k + 1) as f64 / 32.0).collect()
    })
}

fn reductions() -> Vec<Reduction> {
    let row =
        |op, values, run, definition, reduces_empty| Reduction { op, values, run, definition, reduces_empty };
    vec![
        row("sum", Uniform(-2.0, 2.0), method!(sum, sum_keep), sum, true),
        row("prod", near_units(), method!(prod, prod_keep), |x| x.iter().product(), true),
        row("mean", Uniform(-2.0, 2.0), method!(mean, mean_keep), mean, true),
        row("max", Distinct, method!(max, max_keep), largest, false),
        row("min", Distinct, method!(min, min_keep), smallest, false),
        row("sum_squares", Uniform(-2.0, 2.0), method!(sum_squares, sum_squares_keep), sum_of_squares, true),
        row("max_abs", distinct_magnitudes(), method!(max_abs, max_abs_keep), largest_magnitude, false),
        row("norm", AwayFrom(0.2), method!(norm, norm_keep), |x| sum_of_squares(x).sqrt(), true),
        row("logsumexp", Uniform(-3.0, 3.0), method!(logsumexp, logsumexp_keep), log_sum_exp_strict, false),
    ]
}

/// Returns [`log_sum_exp`], or NaN if an element is NaN.
fn log_sum_exp_strict(x: &[f64]) -> f64 {
    if x.iter().any(|x| x.is_nan()) { f64::NAN } else { log_sum_exp(x) }
}

/// Lists of axes, counted from either end, and whether they are kept.
const AXES: [(&[isize], Keep); 7] = [
    (&[0], Keep::No),
    (&[1], Keep::Yes),
    (&[-1], Keep::No),
    (&[2, 0], Keep::Yes),
    (&[0, 1], Keep::No),
    (&[0, 1, 2], Keep::No),
    (&[], Keep::No),
];

fn resolve(axes: &[isize], rank: usize) -> Vec<usize> {
    axes.iter().map(|&axis| axis.rem_euclid(rank as isize) as usize).collect()
}

fn parameters(axes: &[isize], keep: Keep) -> String {
    format!("axes={axes:?}{}", if keep == Keep::Yes { " keep" } else { "" })
}

impl Reduction {
    fn rows(&self) -> Vec<OpCase> {
        let (run, definition) = (self.run, self.definition);
        let mut rows: Vec<OpCase> = AXES
            .into_iter()
            .map(|(axes, keep)| {
                let mut row = OpCase::new(self.op, parameters(axes, keep))
                    .input(self.values.clone())
                    .shapes([&[1, 1, 1], &[3, 5, 7], &[2, 1, 33], &[5, 17, 2]])
                    .double_backward()
                    .run(move |x| run(&x[0], axes, keep))
                    .oracle(move |x| x[0].reduce(&resolve(axes, 3), keep, definition));
                if self.reduces_empty {
                    row = row.shapes([&[3, 0, 2], &[0, 0, 3]]);
                } else if !axes.contains(&1) {
                    row = row.shapes([&[3, 0, 2]]);
                }
                row
            })
            .collect();
        rows.push(self.special());
        rows
    }

    /// One special number in each row, then rows of special numbers only.
    fn special(&self) -> OpCase {
        let (run, definition) = (self.run, self.definition);
        let (nan, inf) = (f64::NAN, f64::INFINITY);
        let rows = vec![
            1.0, nan, 2.0, inf, 1.0, 2.0, -inf, 1.0, 2.0, inf, -inf, 1.0, 0.0, -0.0, 0.0, nan, nan, nan, inf,
            inf, inf, -inf, -inf, -inf, 60000.0, 50000.0, -60000.0, -1.0, -3.0, -2.0,
        ];
        OpCase::new(self.op, "special numbers")
            .input(self.values.clone())
            .shapes([&[2, 3]])
            .run(move |x| run(&x[0], &[1], Keep::No))
            .oracle(move |x| x[0].reduce(&[1], Keep::No, definition))
            .adversarial("special", [Array::new(&[10, 3], rows)])
            .perf([&[8192, 1024]])
    }
}

/// For an empty slice the sum of exponentials is 0, and differences cannot determine the gradient
/// of its logarithm.
fn log_of_empty() -> OpCase {
    OpCase::new("logsumexp", "of nothing")
        .input(Uniform(-3.0, 3.0))
        .shapes([&[3, 0], &[0, 0]])
        .forward_only("infinite")
        .run(|x| Ok(vec![x[0].logsumexp(1)?, x[0].logsumexp_keep(..)?]))
        .oracle(|x| {
            vec![x[0].reduce(&[1], Keep::No, log_sum_exp), x[0].reduce(&[0, 1], Keep::Yes, log_sum_exp)]
        })
}

/// The gradient of a product with one, two or three factors of zero, which division cannot compute.
fn zeros_in_products() -> Vec<OpCase> {
    vec![
        OpCase::new("prod", "with zeros")
            .input(Fixed(vec![
                0.0, 1.5, -0.5, 2.0, 0.0, 0.0, 1.25, -0.75, 0.0, 0.0, 0.0, 1.0, 0.5, 1.5, -2.0, 1.0,
            ]))
            .shapes([&[4, 4]])
            .double_backward()
            .run(|x| Ok(vec![x[0].prod(1)?, x[0].prod_keep(0)?, x[0].prod(..)?]))
            .oracle(|x| {
                let product = |x: &[f64]| x.iter().product();
                vec![
                    x[0].reduce(&[1], Keep::No, product),
                    x[0].reduce(&[0], Keep::Yes, product),
                    x[0].reduce(&[0, 1], Keep::No, product),
                ]
            }),
    ]
}

/// Enough elements for several tiles, and to detect inaccurate summation.
fn large_rows() -> Vec<OpCase> {
    let row =
        |op, run: fn(&Tensor) -> Result<Tensor>, axes: &'static [usize], definition: fn(&[f64]) -> f64| {
            OpCase::new(op, format!("large, axes={axes:?}"))
                .input(Uniform(0.5, 1.5))
                .shapes([&[3, 4099], &[1031, 5], &[67, 131]])
                .run(move |x| run(&x[0]))
                .oracle(move |x| x[0].reduce(axes, Keep::No, definition))
        };
    vec![
        row("sum", |x| x.sum(1), &[1], sum),
        row("sum", |x| x.sum(0), &[0], sum),
        row("sum", |x| x.sum(..), &[0, 1], sum),
        row("mean", |x| x.mean(1), &[1], mean),
        row("norm", |x| x.norm(..), &[0, 1], |x| sum_of_squares(x).sqrt()),
        row("logsumexp", |x| x.logsumexp(0), &[0], log_sum_exp),
        row("var", |x| x.var(1, 1.0), &[1], |x| variance(x, 1.0)),
    ]
}

fn first_position(x: &[f64], better: fn(f64, f64) -> bool) -> f64 {
    let mut best = 0;
    for (at, &value) in x.iter().enumerate() {
        if !x[best].is_nan() && (value.is_nan() || better(value, x[best])) {
            best = at;
        }
    }
    best as f64
}

fn positions() -> Vec<OpCase> {
    type Case = (&'static str, fn(&Tensor, &[isize], Keep) -> Result<Tensor>, fn(&[f64]) -> f64);
    let cases: [Case; 2] = [
        ("argmax", method!(argmax, argmax_keep), |x| first_position(x, |a, b| a > b)),
        ("argmin", method!(argmin, argmin_keep), |x| first_position(x, |a, b| a < b)),
    ];
    let mut rows = Vec::new();
    for (op, run, definition) in cases {
        for (axes, keep) in AXES {
            rows.push(
                OpCase::new(op, parameters(axes, keep))
                    .input(Integers(-3, 3))
                    .shapes([&[1, 1, 1], &[3, 5, 7], &[2, 1, 133], &[5, 17, 2]])
                    .also(INTEGERS)
                    .also(UNSIGNED)
                    .forward_only("positions have no gradient")
                    .run(move |x| run(&x[0], axes, keep))
                    .oracle(move |x| x[0].reduce(&resolve(axes, 3), keep, definition)),
            );
        }
        // The extreme element is near the end of a row, where kernels that process a block at a
        // time add the length of the preceding blocks to its index.
        rows.push(
            OpCase::new(op, "late in long rows")
                .input(Values::custom(|shapes, position, rng| {
                    let [rows, columns] = [shapes[position][0], shapes[position][1]];
                    let mut values: Vec<f64> = (0..rows * columns).map(|_| rng.uniform(-1.0, 1.0)).collect();
                    for row in values.chunks_mut(columns) {
                        (row[columns - 7], row[columns - 4]) = (2.0, -2.0);
                        (row[columns - 3], row[columns - 2]) = (2.0, -2.0);
                    }
                    values
                }))
                .shapes([&[2, 1500], &[3, 4100]])
                .also(INTEGERS)
                .also(UNSIGNED)
                .forward_only("positions have no gradient")
                .run(move |x| run(&x[0], &[1], Keep::No))
                .oracle(move |x| x[0].reduce(&[1], Keep::No, definition)),
        );
        let nan = f64::NAN;
        rows.push(
            OpCase::new(op, "special numbers")
                .input(Distinct)
                .shapes([&[2, 3]])
                .forward_only("positions have no gradient")
                .run(move |x| run(&x[0], &[1], Keep::No))
                .oracle(move |x| x[0].reduce(&[1], Keep::No, definition))
                .adversarial(
                    "special",
                    [Array::new(
                        &[5, 3],
                        vec![
                            1.0,
                            nan,
                            nan,
                            f64::INFINITY,
                            0.0,
                            f64::INFINITY,
                            0.0,
                            f64::NEG_INFINITY,
                            f64::NEG_INFINITY,
                            nan,
                            1.0,
                            2.0,
                            0.0,
                            -0.0,
                            0.0,
                        ],
                    )],
                ),
        );
    }
    rows
}

fn integers() -> Vec<OpCase> {
    type Case = (&'static str, fn(&Tensor, &[isize], Keep) -> Result<Tensor>, fn(&[f64]) -> f64);
    let cases: [Case; 4] = [
        ("sum", method!(sum, sum_keep), sum),
        ("prod", method!(prod, prod_keep), |x| x.iter().product()),
        ("max", method!(max, max_keep), largest),
        ("min", method!(min, min_keep), smallest),
    ];
    let mut rows = Vec::new();
    for (op, run, definition) in cases {
        // The product of eight numbers up to 9 is exact in float64; that of 255 and 254 wraps in a
        // byte.
        for (axes, keep) in [(&[1isize][..], Keep::No), (&[0, 1], Keep::Yes), (&[], Keep::No)] {
            rows.push(
                OpCase::new(op, format!("integers, {}", parameters(axes, keep)))
                    .input(Integers(-9, 9))
                    .shapes([&[2, 4], &[1, 8], &[8, 1]])
                    .dtypes(INTEGERS)
                    .also(UNSIGNED)
                    .run(move |x| run(&x[0], axes, keep))
                    .oracle(move |x| x[0].reduce(&resolve(axes, 2), keep, definition)),
            );
        }
        rows.push(
            OpCase::new(op, "beyond a byte")
                .input(Fixed(vec![255.0, 254.0, 3.0]))
                .shapes([&[3], &[5]])
                .dtypes(&[I16, I8, U8])
                .run(move |x| run(&x[0], &[0], Keep::No))
                .oracle(move |x| x[0].reduce(&[0], Keep::No, definition)),
        );
    }
    rows.extend(wrapping());
    rows.extend(bool_counts());
    rows
}

/// The ops themselves keep their dtype.
fn wrapping() -> Vec<OpCase> {
    let cases: [(&'static str, ReduceOp, fn(&[f64]) -> f64); 2] =
        [("sum", ReduceOp::Sum, sum), ("prod", ReduceOp::Prod, |x| x.iter().product())];
    let row = |op, parameters| {
        OpCase::new(op, parameters)
            .input(Fixed(vec![255.0, 254.0, 3.0]))
            .shapes([&[3], &[5], &[4, 3]])
            .dtypes(INTEGERS)
            .also(UNSIGNED)
    };
    let mut rows: Vec<OpCase> = cases
        .into_iter()
        .map(|(name, op, definition)| {
            row(name, "the op, which wraps")
                .run(move |x| apply_one(Reduce { op, axes: AxisSet::one(0), keep: false }, &[&x[0]]))
                .oracle_for(move |dtype, x| {
                    x[0].reduce(&[0], Keep::No, definition).map(|v| wrap(dtype, v))
                })
        })
        .collect();
    rows.push(
        row("cumsum", "the op, which wraps")
            .run(|x| apply_one(CumulativeSum { axis: 0 }, &[&x[0]]))
            .oracle_for(|dtype, x| x[0].map_slices(0, cumulative).map(|v| wrap(dtype, v))),
    );
    rows
}

/// Sums of bool count in i64, like those of integers.
fn bool_counts() -> Vec<OpCase> {
    type Case = (&'static str, fn(&Tensor) -> Result<Tensor>, fn(&Array) -> Array);
    let cases: [Case; 3] = [
        ("sum", |x| x.sum(1), |x| x.reduce(&[1], Keep::No, sum)),
        ("prod", |x| x.prod_keep(1), |x| x.reduce(&[1], Keep::Yes, |x| x.iter().product())),
        ("cumsum", |x| x.cumsum(1), |x| x.map_slices(1, cumulative)),
    ];
    cases
        .into_iter()
        .map(|(op, run, definition)| {
            OpCase::new(op, "bools")
                .input(Bools)
                .shapes([&[7, 300], &[0, 3]])
                .dtypes(BOOL)
                .run(move |x| {
                    let y = run(&x[0])?;
                    assert_eq!(y.dtype(), I64, "{op} of bool");
                    Ok(y)
                })
                .oracle(move |x| definition(&x[0]))
        })
        .collect()
}

fn any_and_all() -> Vec<OpCase> {
    type Case = (&'static str, fn(&Tensor, &[isize], Keep) -> Result<Tensor>, fn(&[f64]) -> f64);
    let cases: [Case; 2] = [
        ("any", method!(any, any_keep), |x| f64::from(x.iter().any(|&x| x != 0.0))),
        ("all", method!(all, all_keep), |x| f64::from(x.iter().all(|&x| x != 0.0))),
    ];
    let mut rows = Vec::new();
    for (op, run, definition) in cases {
        for (axes, keep) in AXES {
            rows.push(
                OpCase::new(
                    if op == "any" { "max" } else { "min" },
                    format!("as {op}, {}", parameters(axes, keep)),
                )
                .input(Bools)
                .shapes([&[1, 1, 1], &[3, 2, 1], &[1, 5, 2], &[3, 0, 2]])
                .dtypes(BOOL)
                .also(INTEGERS)
                .also(UNSIGNED)
                .also(FLOATS)
                .forward_only("bools have no gradient")
                .run(move |x| run(&x[0], axes, keep))
                .oracle(move |x| x[0].reduce(&resolve(axes, 3), keep, definition)),
            );
        }
    }
    rows
}

/// `sum((x - mean)^2) / max(n - correction, 0)`.
fn variance(x: &[f64], correction: f64) -> f64 {
    let mean = mean(x);
    x.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (x.len() as f64 - correction).max(0.0)
}

/// Neighbors along every axis are far apart: no deviation is near zero, where it has a kink.
fn spread() -> Values {
    Values::custom(|shapes, position, rng| {
        let side = |index: &[usize]| if index.iter().sum::<usize>() % 2 == 0 { 2.0 } else { -2.0 };
        Array::from_fn(&shapes[position], |index| side(index) + rng.uniform(-1.0, 1.0)).data
    })
}

fn variances() -> Vec<OpCase> {
    let mut rows = Vec::new();
    for (axes, keep) in AXES {
        let shapes: [&[usize]; 3] = [&[3, 5, 7], &[5, 17, 2], &[2, 3, 33]];
        // Without axes each element is reduced by itself: a single element only has a population
        // variance.
        let correction = if axes.is_empty() { 0.0 } else { 1.0 };
        rows.push(
            OpCase::new("var", format!("{} correction={correction}", parameters(axes, keep)))
                .input(Uniform(-2.0, 3.0))
                .shapes(shapes)
                .double_backward()
                .run(move |x| match keep {
                    Keep::No => x[0].var(axes, correction),
                    Keep::Yes => x[0].var_keep(axes, correction),
                })
                .oracle(move |x| x[0].reduce(&resolve(axes, 3), keep, |x| variance(x, correction))),
        );
        if !axes.is_empty() {
            rows.push(
                OpCase::new("var", format!("as std, {}", parameters(axes, keep)))
                    .input(spread())
                    .shapes(shapes)
                    .double_backward()
                    .run(move |x| match keep {
                        Keep::No => x[0].std(axes, 0.0),
                        Keep::Yes => x[0].std_keep(axes, 0.0),
                    })
                    .oracle(move |x| x[0].reduce(&resolve(axes, 3), keep, |x| variance(x, 0.0).sqrt())),
            );
        }
    }
    rows.push(offset_variance());
    rows.push(degenerate_variance());
    rows.extend(lengths::beyond_their_squares());
    rows
}

/// A mean far from zero: the sum of squares minus the square of the sum would have no correct
/// digit.
fn offset_variance() -> OpCase {
    OpCase::new("var", "far from zero")
        .input(Fixed(vec![10001.0, 10002.0, 10004.0, 10003.0]))
        .shapes([&[4, 8]])
        .dtypes(&[F64, F32])
        .run(|x| x[0].var(1, 0.0))
        .oracle(|x| x[0].reduce(&[1], Keep::No, |x| variance(x, 0.0)))
        // The mean is rounded to 1e-3 in f32; its error enters squared.
        .grad_tolerances(Tolerance { abs: 1e-4, rel: 1e-6 }, Tolerance { abs: 5e-4, rel: 1e-4 })
}

fn degenerate_variance() -> OpCase {
    OpCase::new("var", "of too few")
        .input(Uniform(-2.0, 2.0))
        .shapes([&[3, 1], &[3, 0], &[2, 2]])
        .forward_only("infinite or not a number")
        .run(|x| Ok(vec![x[0].var(1, 1.0)?, x[0].var(1, 2.0)?, x[0].var(1, 5.0)?, x[0].std(1, 1.0)?]))
        .oracle(|x| {
            let var = |correction| x[0].reduce(&[1], Keep::No, |x| variance(x, correction));
            vec![var(1.0), var(2.0), var(5.0), var(1.0).map(f64::sqrt)]
        })
}

fn cumulative(slice: &[f64]) -> Vec<f64> {
    let mut sum = 0.0;
    slice
        .iter()
        .map(|x| {
            sum += x;
            sum
        })
        .collect()
}

fn running_sums() -> Vec<OpCase> {
    let mut rows: Vec<OpCase> = [0isize, 1, -1]
        .into_iter()
        .map(|axis| {
            OpCase::new("cumsum", format!("axis={axis}"))
                .input(Uniform(-2.0, 2.0))
                .shapes([&[1, 1], &[7, 33], &[0, 3], &[3, 0], &[65, 2], &[1, 500]])
                .double_backward()
                .run(move |x| x[0].cumsum(axis))
                .oracle(move |x| x[0].map_slices(resolve(&[axis], 2)[0], cumulative))
        })
        .collect();
    rows.push(
        OpCase::new("cumsum", "integers")
            .input(Integers(-9, 9))
            .shapes([&[7], &[4, 3, 5]])
            .dtypes(INTEGERS)
            .also(UNSIGNED)
            .run(|x| x[0].cumsum(0))
            .oracle(|x| x[0].map_slices(0, cumulative))
            .rejects("cumsum: axis 2 on shape [3, 4]", |device| Tensor::zeros([3, 4], F32, device)?.cumsum(2))
            .rejects("cumsum: input is bool, expected a number", |device| {
                apply_one(CumulativeSum { axis: 0 }, &[&Tensor::zeros([3], Bool, device)?])
            }),
    );
    rows
}

/// Returns the gradient for a cotangent of ones.
pub(crate) fn gradient(x: &Tensor, f: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    enable_grad(|| {
        let x = x.detach().requires_grad()?;
        let y = f(&x)?;
        let ones = y.ones_like()?.detach();
        let computed = grad(&[y], &[x.clone()], &[ones], GradOptions::default())?.remove(0);
        computed.map_or_else(|| x.detach().zeros_like(), Ok)
    })
}

/// Returns the gradients of all inputs for a cotangent of ones.
pub(crate) fn gradients(x: &[Tensor], f: impl Fn(&[Tensor]) -> Result<Tensor>) -> Result<Vec<Tensor>> {
    enable_grad(|| {
        let leaves = x.iter().map(|x| x.detach().requires_grad()).collect::<Result<Vec<_>>>()?;
        let y = f(&leaves)?;
        let ones = y.ones_like()?.detach();
        let computed = grad(&[y], &leaves, &[ones], GradOptions::default())?;
        x.iter().zip(computed).map(|(x, computed)| computed.map_or_else(|| x.detach().zeros_like(), Ok)).collect()
    })
}

/// Gradients by convention, where differences cannot determine them: each row of two elements is
/// one case.
fn conventions() -> Vec<OpCase> {
    let row = |op, what: &str, values: &[f64], f: fn(&Tensor) -> Result<Tensor>, want: &[f64]| {
        let want = want.to_vec();
        OpCase::new(op, format!("gradient at {what}"))
            .input(Fixed(values.to_vec()))
            .shapes([&[values.len() / 2, 2]])
            .forward_only("compares gradients themselves")
            .run(move |x| gradient(&x[0], f))
            .oracle(move |x| Array::new(&x[0].shape, want.clone()))
    };
    let (nan, inf, low) = (f64::NAN, f64::INFINITY, -1e4);
    // A power of two: inputs are rounded to f32 for every dtype.
    let (half_root, huge) = (0.5f64.sqrt(), 2f64.powi(100));
    vec![
        row("norm", "huge and tiny numbers", &[3.0 * huge, 4.0 * huge, 3.0 / huge, -4.0 / huge], |x| x.norm(1), &[0.6, 0.8, 0.6, -0.8])
            .dtypes(&[F64, F32]),
        row("var", "huge and tiny numbers, as std", &[1e20, -1e20, 1e-30, -1e-30], |x| x.std(1, 1.0), &[half_root, -half_root, half_root, -half_root])
            .dtypes(&[F64, F32]),
        row("max", "ties", &[1.0, 1.0, 2.0, 1.0], |x| x.max(1), &[0.5, 0.5, 1.0, 0.0]),
        row("min", "ties", &[1.0, 1.0, 2.0, 1.0], |x| x.min_keep(1), &[0.5, 0.5, 0.0, 1.0]),
        row(
            "max",
            "ties over all",
            &[1.0, 3.0, 3.0, 3.0],
            |x| x.max_all(),
            &[0.0, 1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0],
        ),
        row("max", "NaN", &[nan, 1.0, 2.0, 1.0], |x| x.max(1), &[nan, nan, 1.0, 0.0]),
        row("min", "NaN", &[nan, 1.0, 2.0, 1.0], |x| x.min_keep(1), &[nan, nan, 0.0, 1.0]),
        row("max", "NaN over all", &[nan, 1.0, 2.0, nan], |x| x.max_all(), &[0.5, 0.0, 0.0, 0.5]),
        row("min", "NaN over all", &[2.0, nan, 1.0, 1.0], |x| x.min_all(), &[0.0, 1.0, 0.0, 0.0]),
        row("prod", "an infinity or NaN next to a zero", &[inf, 0.0, 0.0, nan], |x| x.prod(1), &[0.0, inf, nan, 0.0]),
        row("max_abs", "ties", &[-1.0, 1.0, 0.0, 0.0], |x| x.max_abs(1), &[-0.5, 0.5, 0.0, 0.0]),
        row("norm", "zero", &[0.0, 0.0, 3.0, 4.0], |x| x.norm(1), &[0.0, 0.0, 0.6, 0.8]),
        row("norm", "zero, over nothing", &[0.0, -2.0], |x| x.norm(&[] as &[isize]), &[0.0, -1.0]),
        row("var", "no spread, as std", &[1.0, 1.0, 1.0, 3.0], |x| x.std(1, 0.0), &[0.0, 0.0, -0.5, 0.5]),
        // Masked rows: a row of only -infinity has a gradient of zero, not NaN.
        row(
            "logsumexp",
            "-infinity",
            &[0.0, low, 0.0, 0.0],
            |x| {
                x.masked_fill(&x.lt_scalar(1.0)?.logical_and(&x.eq_scalar(0.0)?)?, f64::NEG_INFINITY)?
                    .logsumexp(1)
            },
            &[0.0, 1.0, 0.0, 0.0],
        ),
    ]
}

fn all_elements() -> OpCase {
    OpCase::new("sum", "over everything")
        .input(Distinct)
        .shapes([&[], &[5], &[3, 5, 7]])
        .run(|x| Ok(vec![x[0].sum_all()?, x[0].mean_all()?, x[0].max_all()?, x[0].min_all()?]))
        .oracle(|x| {
            [sum, mean, largest, smallest].iter().map(|f| Array::scalar(f(&x[0].data))).collect::<Vec<_>>()
        })
}

fn rejected() -> OpCase {
    OpCase::new("sum", "rejects")
        .input(Uniform(-1.0, 1.0))
        .shapes([&[3]])
        .run(|x| x[0].sum(0))
        .oracle(|x| Array::scalar(x[0].sum()))
        .rejects("sum: axis 3 on shape [4, 7]", |device| Tensor::zeros([4, 7], F32, device)?.sum(3))
        .rejects("sum: axis -3 on shape [4, 7]", |device| Tensor::zeros([4, 7], F32, device)?.sum([0, -3]))
        .rejects("max: axis 1 is named twice on shape [4, 7]", |device| {
            Tensor::zeros([4, 7], F32, device)?.max([-1, 1])
        })
        .rejects("any: axis 1 on shape [3]", |device| Tensor::zeros([3], Bool, device)?.any(1))
        .rejects("sum: input is bool, expected a number", |device| {
            let op = Reduce { op: ReduceOp::Sum, axes: AxisSet::one(0), keep: false };
            apply_one(op, &[&Tensor::zeros([3], Bool, device)?])
        })
        .rejects("argmax: input is bool, expected a number", |device| {
            Tensor::zeros([3], Bool, device)?.argmax(0)
        })
        .rejects("mean: input is i32, expected a floating dtype", |device| {
            Tensor::zeros([3], I32, device)?.mean_all()
        })
        .rejects("std: input is i32, expected a floating dtype", |device| {
            Tensor::zeros([3], I32, device)?.std(.., 1.0)
        })
        .rejects("max: no elements along axes [1] of shape [2, 0]", |device| {
            Tensor::zeros([2, 0], F32, device)?.max(1)
        })
        .rejects("argmin: no elements along axes [0] of shape [0]", |device| {
            Tensor::zeros([0], F32, device)?.argmin(0)
        })
        .rejects("max_abs: no elements along axes [0] of shape [0]", |device| {
            Tensor::zeros([0], F32, device)?.max_abs(0)
        })
}
