//! Rows of quantiles, and of histograms with boundaries.

use crate::prelude::*;
use ternion_core::{Axis, HistogramBins, Interpolation};

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    [quantiles(), nanquantiles(), histograms()].concat()
}

const ALL: [Interpolation; 5] = [
    Interpolation::Linear,
    Interpolation::Lower,
    Interpolation::Higher,
    Interpolation::Midpoint,
    Interpolation::Nearest,
];

/// Returns quantile `q` of sorted elements without NaN.
fn sorted_quantile(sorted: &[f64], q: f64, interpolation: Interpolation) -> f64 {
    if sorted.is_empty() {
        return f64::NAN;
    }
    let position = q * (sorted.len() - 1) as f64;
    let (low, high) = (sorted[position.floor() as usize], sorted[position.ceil() as usize]);
    if low == high {
        return low;
    }
    match interpolation {
        Interpolation::Linear => low + (position - position.floor()) * (high - low),
        Interpolation::Lower => low,
        Interpolation::Higher => high,
        Interpolation::Midpoint => (low + high) / 2.0,
        Interpolation::Nearest => sorted[position.round_ties_even() as usize],
    }
}

fn quantile(slice: &[f64], q: f64, interpolation: Interpolation, ignores_nan: bool) -> f64 {
    let mut numbers: Vec<f64> = slice.iter().copied().filter(|x| !x.is_nan()).collect();
    if numbers.len() < slice.len() && !ignores_nan {
        return f64::NAN;
    }
    numbers.sort_by(f64::total_cmp);
    sorted_quantile(&numbers, q, interpolation)
}

/// Quantiles that do not fall on an element, or halfway between two, in rows of up to 7 elements.
fn fractions() -> Values {
    Fixed(vec![0.0625, 0.3125, 0.9375])
}

fn quantiles() -> Vec<OpCase> {
    let mut rows: Vec<OpCase> = ALL
        .into_iter()
        .map(|interpolation| {
            let row = OpCase::new("quantile", format!("{interpolation:?} axis=1"))
                .input(Distinct)
                .input(fractions())
                .on([&[3, 6], &[3]])
                .on([&[2, 6, 3], &[2]])
                .run(move |x| x[0].quantile(&x[1], Some(Axis(1)), false, interpolation))
                .oracle(move |x| {
                    let parts = x[1].data.iter().map(|&q| {
                        x[0].reduce(&[1], Keep::No, move |slice| quantile(slice, q, interpolation, false))
                    });
                    let parts: Vec<Array> = parts.collect();
                    let shape = [&[parts.len()], &parts[0].shape[..]].concat();
                    Array::new(&shape, parts.into_iter().flat_map(|part| part.data).collect())
                });
            if interpolation == Interpolation::Linear { row.double_backward() } else { row }
        })
        .collect();
    let single = |parameters: &str, axis: Option<isize>, keep: bool| {
        OpCase::new("quantile", parameters)
            .input(Distinct)
            .input(fractions())
            .run(move |x| x[0].quantile(&x[1], axis.map(Axis), keep, Interpolation::Linear))
            .oracle(move |x| {
                let axes = axis.map_or((0..x[0].rank()).collect(), |axis| vec![axis as usize]);
                let (q, keep) = (x[1].data[0], if keep { Keep::Yes } else { Keep::No });
                x[0].reduce(&axes, keep, move |slice| quantile(slice, q, Interpolation::Linear, false))
            })
    };
    let infinite = [f64::NEG_INFINITY, f64::INFINITY, 1.0, f64::INFINITY];
    rows.extend([
        single("one quantile of all, kept", None, true).on([&[3, 6], &[]]),
        single("one quantile of all", None, false)
            .on([&[], &[]])
            .on([&[3, 6], &[]])
            .adversarial("infinite", [Array::new(&[4], infinite.to_vec()), Array::scalar(0.875)])
            .adversarial("NaN", [Array::new(&[3], vec![1.0, f64::NAN, 2.0]), Array::scalar(0.5)])
            .rejects("quantile: q of 1.5, expected 0 to 1", |device| {
                let q = Tensor::full((), 1.5, F32, device)?;
                Tensor::zeros([3], F32, device)?.quantile(&q, None, false, Interpolation::Linear)
            })
            .rejects("quantile: no elements in shape [0]", |device| {
                let q = Tensor::full((), 0.5, F32, device)?;
                Tensor::zeros([0], F32, device)?.quantile(&q, None, false, Interpolation::Linear)
            })
            .rejects("quantile: input is i64, expected a floating dtype", |device| {
                let q = Tensor::full((), 1, I64, device)?;
                Tensor::zeros([3], I64, device)?.quantile(&q, None, false, Interpolation::Linear)
            }),
        single("one share, axis=0 kept", Some(0), true).on([&[6, 3], &[]]),
    ]);
    rows
}

fn nanquantiles() -> Vec<OpCase> {
    let some_nan = Values::custom(|shapes, position, rng| {
        let count: usize = shapes[position].iter().product();
        let order = rng.permutation(count);
        order.into_iter().map(|k| if k % 4 == 0 { f64::NAN } else { k as f64 / 32.0 }).collect()
    });
    [Interpolation::Linear, Interpolation::Nearest]
        .into_iter()
        .map(|interpolation| {
            OpCase::new("nanquantile", format!("{interpolation:?} axis=1"))
                .input(some_nan.clone())
                .input(fractions())
                .on([&[4, 9], &[]])
                .forward_only("of NaN there are no central differences")
                .run(move |x| x[0].nanquantile(&x[1], Some(Axis(1)), false, interpolation))
                .oracle(move |x| {
                    let q = x[1].data[0];
                    x[0].reduce(&[1], Keep::No, move |slice| quantile(slice, q, interpolation, true))
                })
                .adversarial("only NaN", [Array::full(&[2, 3], f64::NAN), Array::scalar(0.5)])
        })
        .chain([OpCase::new("nanquantile", "without NaN")
            .input(Distinct)
            .input(fractions())
            .on([&[3, 6], &[3]])
            .double_backward()
            .run(|x| x[0].nanquantile(&x[1], None, false, Interpolation::Linear))
            .oracle(|x| {
                let quantiles = x[1].data.iter().map(|&q| quantile(&x[0].data, q, Interpolation::Linear, true));
                Array::new(&[3], quantiles.collect())
            })])
        .collect()
}

/// Returns the sums of the weights of the elements between boundaries; with `density` divided by
/// the total and the width of the bin.
fn sums(x: &Array, weights: &[f64], edges: &[f64], density: bool) -> Array {
    let count = edges.len() - 1;
    let mut sums = vec![0.0; count];
    for (&x, weight) in x.data.iter().zip(weights) {
        let bin = (0..count).find(|&bin| {
            let is_last = bin == count - 1;
            x >= edges[bin] && (x < edges[bin + 1] || (is_last && x == edges[bin + 1]))
        });
        if let Some(bin) = bin {
            sums[bin] += weight;
        }
    }
    let total: f64 = sums.iter().sum();
    if density {
        sums = sums.iter().zip(edges.windows(2)).map(|(sum, ends)| sum / total / (ends[1] - ends[0])).collect();
    }
    Array::new(&[count], sums)
}

fn even_edges(low: f64, high: f64, count: usize) -> Vec<f64> {
    (0..=count).map(|at| low + (high - low) * at as f64 / count as f64).collect()
}

fn histograms() -> Vec<OpCase> {
    const WHY: &str = "steps";
    // Quarters: some are boundaries, and some are outside.
    let quarters = || Values::custom(|shapes, position, rng| {
        (0..shapes[position].iter().product()).map(|_| rng.integer(-10, 10) as f64 / 4.0).collect()
    });
    let even = |range| HistogramBins::Even { count: 4, range };
    vec![
        OpCase::new("histogram", "4 bins of -2 to 2, edges")
            .input(quarters())
            .shapes([&[33], &[5, 7], &[0], &[]])
            .forward_only(WHY)
            .run(move |x| x[0].histogram_with_edges(even(Some((-2.0, 2.0))), None, false))
            .oracle(|x| {
                let edges = even_edges(-2.0, 2.0, 4);
                (sums(&x[0], &vec![1.0; x[0].elements()], &edges, false), Array::new(&[5], edges))
            })
            .adversarial("special", [Array::new(&[5], vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 2.0, -2.0])])
            .rejects("histogram: 0 intervals, expected at least 1", |device| {
                let bins = HistogramBins::Even { count: 0, range: None };
                Tensor::zeros([3], F32, device)?.histogram_with_edges(bins, None, false)
            })
            .rejects("histogram: intervals between NaN and NaN", move |device| {
                Tensor::full([3], f64::NAN, F32, device)?.histogram_with_edges(even(None), None, false)
            })
            .rejects("histogram: weight has shape [2], expected [3]", move |device| {
                let weight = Tensor::zeros([2], F32, device)?;
                Tensor::zeros([3], F32, device)?.histogram_with_edges(even(None), Some(&weight), false)
            }),
        OpCase::new("histogram", "given edges, weighted density")
            .input(quarters())
            .input(Fixed(vec![0.5, 1.0, 2.0]))
            .shapes([&[33]])
            .forward_only(WHY)
            .run(|x| {
                let edges = Tensor::from_slice(&[-1.0f32, -0.5, 0.25, 2.0], [4], x[0].device())?.to_dtype(x[0].dtype())?;
                x[0].histogram_with_edges(HistogramBins::Edges(&edges), Some(&x[1]), true)
            })
            .oracle(|x| {
                let edges = [-1.0, -0.5, 0.25, 2.0];
                (sums(&x[0], &x[1].data, &edges, true), Array::new(&[4], edges.to_vec()))
            }),
        OpCase::new("histogram", "of equal numbers, edges")
            .input(Fixed(vec![3.0]))
            .shapes([&[5]])
            .forward_only(WHY)
            .run(move |x| x[0].histogram_with_edges(even(None), None, false))
            .oracle(|_| (Array::new(&[4], vec![0.0, 0.0, 5.0, 0.0]), Array::new(&[5], even_edges(2.5, 3.5, 4)))),
    ]
}
