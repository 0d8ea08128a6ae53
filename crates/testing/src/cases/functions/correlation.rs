//! Rows of covariances and correlations.

use crate::prelude::*;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    let mut rows = vec![cov(1.0), cov(0.0)];
    rows.extend(weighted());
    rows.push(corrcoef());
    rows.extend(extreme());
    rows.extend(unobserved());
    rows
}

/// Without observations: 0 divided by their number minus the correction, or by 0 if that is
/// negative.
fn unobserved() -> Vec<OpCase> {
    let row = |op: &'static str, parameters: String| {
        OpCase::new(op, parameters).input(Uniform(-2.0, 2.0)).shapes([&[3, 0], &[2, 0], &[1, 0], &[0], &[0, 0]])
    };
    let cov = |correction: f64| {
        row("cov", format!("correction={correction}, no observations"))
            .run(move |x| x[0].cov(correction, None, None))
            .oracle(move |x| covariance(&x[0], &[], (-correction).max(0.0)))
            .rejects("cov: weights whose sum is 0", move |device| {
                let counts = Tensor::zeros([0], I64, device)?;
                Tensor::zeros([3, 0], F32, device)?.cov(correction, Some(&counts), None)
            })
    };
    let corrcoef = row("corrcoef", "no observations".into())
        .run(|x| x[0].corrcoef())
        .oracle(|x| covariance(&x[0], &[], 0.0));
    let none = "NaN has no differences";
    vec![cov(1.0).forward_only(none), cov(0.0).forward_only(none), cov(-2.0), corrcoef.forward_only(none)]
}

/// Numbers whose products exceed the range of the dtype, although the scaled result does not.
fn extreme() -> Vec<OpCase> {
    // Results are scaled to this magnitude instead of 1, where gradients would be subnormal and a
    // device might flush them to 0.
    const SCALE: f64 = (1 << 26) as f64;
    let values = || Fixed(vec![1.0, -2.0, 0.5, 0.25, 1.5, -0.75]);
    let power = |x: &Tensor, [single, double]: [i32; 2]| 2f64.powi(if x.dtype() == F64 { double } else { single });
    let of_counts = |x: &Array| covariance(x, &[2.0, 1.0, 3.0], 5.0);
    let of_all = |x: &Array| covariance(x, &[1.0; 3], 2.0);
    let row = |is_weighted: bool| {
        let name = if is_weighted { "fweights, beyond the sum of squares" } else { "beyond the sum of squares" };
        let row = OpCase::new("cov", name)
            .input(values())
            .input(Input::of(I64, Fixed(vec![2.0, 1.0, 3.0])))
            .on([&[2, 3], &[3]])
            .dtypes(&[F64, F32, BF16])
            .f32_limit(4e-6, 4e-6)
            .run(move |x| {
                let unit = power(&x[0], [63, 511]);
                let result = x[0].mul_scalar(unit)?.cov(1.0, is_weighted.then_some(&x[1]), None)?;
                // Divides by `unit` squared, the scale of the products.
                result.mul_scalar(SCALE / unit / unit)
            })
            .oracle(move |x| (if is_weighted { of_counts(&x[0]) } else { of_all(&x[0]) }).map(|result| result * SCALE));
        // In f64 second derivatives of weighted sums overflow.
        if is_weighted { row } else { row.double_backward() }
    };
    let sizes = [("large", [84, 900]), ("small", [-73, -900])];
    let of_size = |(name, exponents): (&str, [i32; 2])| {
        OpCase::new("corrcoef", format!("{name} numbers"))
            .input(Uniform(-2.0, 2.0))
            .shapes([&[3, 7]])
            .dtypes(&[F64, F32, BF16])
            .f32_limit(8e-6, 8e-6)
            .run(move |x| x[0].mul_scalar(power(&x[0], exponents))?.corrcoef())
            .oracle(|x| correlation(&x[0]))
    };
    [row(false), row(true)].into_iter().chain(sizes.map(of_size)).collect()
}

/// The definition: sums over observations, each with its weight, of products of deviations from the
/// weighted means, divided by `divisor`.
fn covariance(x: &Array, weights: &[f64], divisor: f64) -> Array {
    let x = if x.rank() < 2 { x.reshape(&[1, x.elements()]) } else { x.clone() };
    let [variables, observations] = x.sizes();
    let total: f64 = weights.iter().sum();
    let mean = |row: usize| (0..observations).map(|at| weights[at] * x.at(&[row, at])).sum::<f64>() / total;
    let means: Vec<f64> = (0..variables).map(mean).collect();
    let result = Array::from_fn(&[variables, variables], |at| {
        let product = |k: usize| weights[k] * (x.at(&[at[0], k]) - means[at[0]]) * (x.at(&[at[1], k]) - means[at[1]]);
        (0..observations).map(product).sum::<f64>() / divisor
    });
    if variables == 1 { result.reshape(&[]) } else { result }
}

fn observations(x: &Array) -> usize {
    x.shape.last().copied().unwrap_or(1)
}

fn cov(correction: f64) -> OpCase {
    OpCase::new("cov", format!("correction={correction}"))
        .input(Uniform(-2.0, 2.0))
        .shapes([&[3, 7], &[1, 5], &[6], &[4, 2], &[0, 3]])
        .f32_limit(4e-6, 4e-6)
        .double_backward()
        .run(move |x| x[0].cov(correction, None, None))
        .oracle(move |x| {
            let count = observations(&x[0]);
            covariance(&x[0], &vec![1.0; count], count as f64 - correction)
        })
        .rejects("cov: input is i32, expected a floating dtype", |device| {
            Tensor::zeros([2, 3], I32, device)?.cov(1.0, None, None)
        })
        .rejects("cov: expected at most 2 axes, got shape [1, 2, 3]", |device| {
            Tensor::zeros([1, 2, 3], F32, device)?.cov(1.0, None, None)
        })
}

fn weighted() -> [OpCase; 3] {
    let row = |parameters: &str| {
        OpCase::new("cov", parameters).input(Uniform(-2.0, 2.0)).f32_limit(4e-6, 4e-6)
    };
    let counts = || Input::of(I64, Fixed(vec![1.0, 3.0, 0.0, 2.0, 1.0]));
    [
        row("fweights")
            .input(counts())
            .on([&[3, 5], &[5]])
            .double_backward()
            .run(|x| x[0].cov(1.0, Some(&x[1]), None))
            .oracle(|x| covariance(&x[0], &x[1].data, x[1].sum() - 1.0))
            .rejects("cov: fweights is f32, expected an integer dtype", |device| {
                let x = Tensor::ones([3], F32, device)?;
                x.cov(1.0, Some(&x), None)
            })
            .rejects("cov: fweights below 0", |device| {
                Tensor::ones([2], F32, device)?.cov(1.0, Some(&Tensor::from_vec(vec![1i64, -1], [2], device)?), None)
            })
            .rejects("cov: weights whose sum is 0", |device| {
                Tensor::ones([2], F32, device)?.cov(1.0, Some(&Tensor::zeros([2], I64, device)?), None)
            }),
        row("aweights")
            .input(Uniform(0.5, 2.0))
            .on([&[3, 5], &[5]])
            .double_backward()
            .run(|x| x[0].cov(1.0, None, Some(&x[1])))
            .oracle(|x| {
                let (weights, total) = (&x[1].data, x[1].sum());
                covariance(&x[0], weights, total - weights.iter().map(|w| w * w).sum::<f64>() / total)
            })
            .rejects("cov: dtypes f32 and f64 differ; cast one of them with to_dtype", |device| {
                Tensor::ones([2], F32, device)?.cov(1.0, None, Some(&Tensor::ones([2], F64, device)?))
            }),
        row("fweights, aweights and correction=0.5")
            .input(counts())
            .input(Uniform(0.5, 2.0))
            .on([&[3, 5], &[5], &[5]])
            .double_backward()
            .run(|x| x[0].cov(0.5, Some(&x[1]), Some(&x[2])))
            .oracle(|x| {
                let weights = x[1].zip(&x[2], |count, weight| count * weight);
                let total = weights.sum();
                covariance(&x[0], &weights.data, total - 0.5 * weights.dot(&x[2]) / total)
            }),
    ]
}

/// Fewer variables than observations, and no collinear variables: correlations stay away from -1
/// and 1.
fn corrcoef() -> OpCase {
    OpCase::new("corrcoef", "")
        .input(Uniform(-2.0, 2.0))
        .shapes([&[3, 7], &[2, 9], &[0, 3]])
        .f32_limit(8e-6, 8e-6)
        .double_backward()
        .run(|x| x[0].corrcoef())
        .oracle(|x| correlation(&x[0]))
        .rejects("corrcoef: input is i32, expected a floating dtype", |device| {
            Tensor::zeros([2, 3], I32, device)?.corrcoef()
        })
}

fn correlation(x: &Array) -> Array {
    let count = observations(x);
    let result = covariance(x, &vec![1.0; count], count as f64 - 1.0);
    Array::from_fn(&result.shape, |at| {
        let entry = |i: usize, j: usize| result.at(&[i, j]);
        if at[0] == at[1] { 1.0 } else { entry(at[0], at[1]) / (entry(at[0], at[0]) * entry(at[1], at[1])).sqrt() }
    })
}
