//! Rows of scatter reductions, and of searches in sorted sequences.

use crate::cases::reduce::gradients;
use crate::cases::unary::wrap;
use crate::prelude::*;
use ternion_core::ScatterReduction::{self, Amax, Amin, Mean, Prod, Sum};

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    [scatters(), slices(), gradients_by_convention(), searches(), buckets()].concat()
}

const REDUCTIONS: [(ScatterReduction, &str); 5] =
    [(Sum, "sum"), (Prod, "prod"), (Mean, "mean"), (Amax, "amax"), (Amin, "amin")];

/// Reduces `initial` (if it is included) and the elements scattered to it, in order.
fn reduced(dtype: DType, reduction: ScatterReduction, initial: Option<f64>, sources: &[f64]) -> f64 {
    let all: Vec<f64> = initial.into_iter().chain(sources.iter().copied()).collect();
    let folded = |start: f64, f: fn(f64, f64) -> f64| all.iter().fold(start, |a, &b| wrap(dtype, f(a, b)));
    let extreme = |f: fn(f64, f64) -> f64| {
        all.iter()
            .copied()
            .reduce(|a, b| if a.is_nan() || b.is_nan() { f64::NAN } else { f(a, b) })
            .unwrap_or(0.0)
    };
    match (reduction, dtype) {
        (Sum, Bool) | (Amax, _) => extreme(f64::max),
        (Prod, Bool) | (Amin, _) => extreme(f64::min),
        (Sum, _) => folded(0.0, |a, b| a + b),
        (Prod, _) => folded(1.0, |a, b| a * b),
        (Mean, dtype) if dtype.is_float() => all.iter().sum::<f64>() / all.len() as f64,
        (Mean, _) => (folded(0.0, |a, b| a + b) / all.len() as f64).floor(),
    }
}

/// Reduces the elements of `source` into those of `base`: for each index below `index_shape`,
/// `index_of` returns the index along `axis` in `base`.
fn oracle(
    dtype: DType,
    (reduction, include_self, axis): (ScatterReduction, bool, usize),
    [base, source]: [&Array; 2],
    index_shape: &[usize],
    index_of: impl Fn(&[usize]) -> f64,
) -> Array {
    let mut sources: Vec<Vec<f64>> = vec![Vec::new(); base.elements()];
    Array::from_fn(index_shape, |at| {
        let mut target = at.to_vec();
        target[axis] = index_of(at) as usize;
        sources[base.position(&target)].push(source.at(at));
        0.0
    });
    let reduced_values = base.data.iter().zip(&sources).map(|(&initial, sources)| match sources.is_empty() {
        true => initial,
        false => reduced(dtype, reduction, include_self.then_some(initial), sources),
    });
    Array::new(&base.shape, reduced_values.collect())
}

/// Values that differ from each other and from those of `Distinct`.
fn between() -> Values {
    Values::custom(|shapes, position, rng| {
        let count: usize = shapes[position].iter().product();
        let half = (count / 2) as f64;
        rng.permutation(count).into_iter().map(|k| (2.0 * (k as f64 - half) + 1.0) / 64.0).collect()
    })
}

/// Base, index and source; min and max have no ties.
fn row(op: &'static str, reduction: (ScatterReduction, &str), include_self: bool, axis: usize) -> OpCase {
    let (base, source) = match reduction.0 {
        Amax | Amin => (Distinct, between()),
        Prod => (AwayFrom(0.5), AwayFrom(0.5)),
        Sum | Mean => (Uniform(-4.0, 4.0), Uniform(-4.0, 4.0)),
    };
    let case = OpCase::new(op, format!("{} include_self={include_self} axis={axis}", reduction.1))
        .input(base)
        .input(Input::index(Values::Index { input: 0, axis }))
        .input(source)
        .also(INTEGERS)
        .double_backward();
    if reduction.0 == Mean { case } else { case.also(BOOL) }
}

fn scatters() -> Vec<OpCase> {
    let mut rows = scatter_rows();
    rows[0] = rejecting_elements(rows[0].clone());
    rows
}

fn scatter_rows() -> Vec<OpCase> {
    let kinds = REDUCTIONS.into_iter().flat_map(|kind| [(kind, true), (kind, false)]);
    kinds
        .flat_map(|(kind, include_self)| {
            let with = |axis: usize| {
                row("scatter_reduce", kind, include_self, axis)
                    .run(move |x| x[0].scatter_reduce(axis, &x[1], &x[2], kind.0, include_self))
                    .oracle_for(move |dtype, x| {
                        let parameters = (kind.0, include_self, axis);
                        oracle(dtype, parameters, [&x[0], &x[2]], &x[1].shape, |at| x[1].at(at))
                    })
            };
            let adversarial = [
                Array::new(&[6], vec![f64::INFINITY, 0.0, f64::NAN, -0.0, 1.0, f64::NEG_INFINITY]),
                Array::new(&[7], vec![0.0, 1.0, 2.0, 3.0, 4.0, 4.0, 4.0]),
                Array::new(&[7], vec![1.0, f64::INFINITY, 1.0, 0.0, f64::INFINITY, f64::NAN, 2.0]),
            ];
            [
                with(0)
                    .on([&[5], &[13], &[13]])
                    .on([&[5, 3], &[7, 2], &[9, 3]])
                    .on([&[5, 3], &[0, 3], &[0, 3]])
                    .on([&[1, 1], &[1, 1], &[1, 1]])
                    .adversarial("special", adversarial),
                with(1).on([&[2, 3, 5], &[2, 4, 5], &[2, 4, 5]]).on([&[3, 4], &[2, 9], &[3, 9]]),
            ]
        })
        .collect()
}

fn slices() -> Vec<OpCase> {
    let mut rows = slice_rows();
    rows[0] = rejecting_slices(rows[0].clone());
    rows
}

fn slice_rows() -> Vec<OpCase> {
    let kinds = REDUCTIONS.into_iter().flat_map(|kind| [(kind, true), (kind, false)]);
    kinds
        .map(|(kind, include_self)| {
            row("index_reduce", kind, include_self, 1)
                .run(move |x| x[0].index_reduce(1, &x[1], &x[2], kind.0, include_self))
                .oracle_for(move |dtype, x| {
                    let parameters = (kind.0, include_self, 1);
                    oracle(dtype, parameters, [&x[0], &x[2]], &x[2].shape, |at| x[1].data[at[1]])
                })
                .on([&[3, 4], &[7], &[3, 7]])
                .on([&[2, 3, 5], &[2], &[2, 2, 5]])
                .on([&[2, 3], &[0], &[2, 0]])
        })
        .collect()
}

/// Gradients that central differences cannot determine: those of a product with infinities and
/// zeros (for each element the product of the others), and those of a min or max that is NaN.
fn gradients_by_convention() -> Vec<OpCase> {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let row = |op: &'static str, kind: (ScatterReduction, &str), include_self: bool, [base, source]: [&[f64; 3]; 2], want: [[f64; 3]; 2]| {
        let reduce = if op == "scatter_reduce" { Tensor::scatter_reduce } else { Tensor::index_reduce };
        OpCase::new(op, format!("{} include_self={include_self}, gradients at NaN, infinities and zeros", kind.1))
            .input(Fixed(base.to_vec()))
            .input(Input::index(Fixed(vec![0.0, 0.0, 1.0])))
            .input(Fixed(source.to_vec()))
            .on([&[3], &[3], &[3]])
            .forward_only("compares gradients themselves")
            .run(move |x| {
                let reduced =
                    |leaves: &[Tensor]| reduce(&leaves[0], 0, &x[1], &leaves[1], kind.0, include_self);
                gradients(&[x[0].clone(), x[2].clone()], reduced)
            })
            .oracle(move |_| want.map(|want| Array::new(&[3], want.to_vec())).to_vec())
    };
    let mut rows = Vec::new();
    for op in ["scatter_reduce", "index_reduce"] {
        rows.extend([
            row(op, (Prod, "prod"), true, [&[inf, 0.0, inf], &[2.0, 3.0, 0.0]], [[nan, 0.0, 1.0], [inf, inf, 0.0]]),
            row(op, (Prod, "prod"), false, [&[inf, 0.0, 1.0], &[inf, 3.0, nan]], [[0.0, 0.0, 1.0], [nan, inf, nan]]),
            row(op, (Amax, "amax"), true, [&[nan, 1.0, 1.0], &[2.0, 3.0, 4.0]], [[nan, 0.0, 1.0], [nan, nan, 1.0]]),
            row(op, (Amin, "amin"), true, [&[1.0, 1.0, nan], &[2.0, 1.0, nan]], [[0.5, nan, 1.0], [0.0, 0.5, nan]]),
            row(op, (Amin, "amin"), false, [&[nan, 1.0, 1.0], &[2.0, 3.0, nan]], [[0.0, 0.0, 1.0], [1.0, 0.0, nan]]),
        ]);
    }
    rows
}

fn zeros(shape: &[usize], dtype: DType, device: &Device) -> Result<Tensor> {
    Tensor::zeros(shape, dtype, device)
}

fn rejecting_elements(row: OpCase) -> OpCase {
    row.rejects("scatter_reduce: a source of shape [1] for an index of [2]", |device| {
        let (base, index) = (zeros(&[3], F32, device)?, zeros(&[2], I64, device)?);
        base.scatter_reduce(0, &index, &zeros(&[1], F32, device)?, Sum, true)
    })
    .rejects("scatter_reduce: index of shape [2, 4] on shape [3, 3] along axis 0", |device| {
        let (base, index) = (zeros(&[3, 3], F32, device)?, zeros(&[2, 4], I64, device)?);
        base.scatter_reduce(0, &index, &zeros(&[2, 4], F32, device)?, Sum, true)
    })
    .rejects("scatter_reduce: dtypes f32 and f64 differ; cast one of them with to_dtype", |device| {
        let (base, index) = (zeros(&[3], F32, device)?, zeros(&[2], I64, device)?);
        base.scatter_reduce(0, &index, &zeros(&[2], F64, device)?, Sum, true)
    })
    .rejects("scatter_reduce: base is bool, expected a number", |device| {
        let (base, index) = (zeros(&[3], Bool, device)?, zeros(&[2], I64, device)?);
        base.scatter_reduce(0, &index, &zeros(&[2], Bool, device)?, Mean, true)
    })
    .rejects("scatter_reduce: index 3 is out of range for size 3", |device| {
        let index = Tensor::full([2], 3, I64, device)?;
        zeros(&[3], F32, device)?.scatter_reduce(0, &index, &zeros(&[2], F32, device)?, Prod, true)
    })
    .rejects("scatter_reduce: axis 1 on shape [3]", |device| {
        let (base, index) = (zeros(&[3], F32, device)?, zeros(&[2], I64, device)?);
        base.scatter_reduce(1, &index, &zeros(&[2], F32, device)?, Amax, true)
    })
}

fn rejecting_slices(row: OpCase) -> OpCase {
    row.rejects("index_reduce: source has shape [3], expected [2]", |device| {
        let (base, index) = (zeros(&[3], F32, device)?, zeros(&[2], I64, device)?);
        base.index_reduce(0, &index, &zeros(&[3], F32, device)?, Sum, true)
    })
    .rejects("index_reduce: index -1 is out of range for size 3", |device| {
        let index = Tensor::full([2], -1, I64, device)?;
        zeros(&[3], F32, device)?.index_reduce(0, &index, &zeros(&[2], F32, device)?, Amin, true)
    })
}

/// Sorted along the last axis, with equal elements; none below 0, so that they are sorted as
/// unsigned numbers too.
fn ordered() -> Values {
    Values::custom(|shapes, position, rng| {
        let size = shapes[position].last().copied().unwrap_or(1);
        let rows = shapes[position].iter().product::<usize>() / size.max(1);
        let row = |rng: &mut Rng| {
            let mut row: Vec<i64> = (0..size).map(|_| rng.integer(0, 12)).collect();
            row.sort_unstable();
            row.into_iter().map(|value| value as f64).collect::<Vec<_>>()
        };
        (0..rows).flat_map(|_| row(rng)).collect()
    })
}

/// Returns how many elements of a sequence are below a value, or (if `right`) not above it.
fn insertion_index(sequence: &[f64], value: f64, right: bool) -> f64 {
    let is_before = |&element: &f64| value.is_nan() || element < value || (right && element == value);
    sequence.iter().filter(|element| is_before(element)).count() as f64
}

/// Returns the insertion index of each value in its row of the sequence, or in the only row.
fn insertion_indices(sequence: &Array, values: &Array, right: bool) -> Array {
    let size = sequence.shape.last().copied().unwrap_or(0);
    let width = values.shape.last().copied().unwrap_or(1).max(1);
    let indices = values.data.iter().enumerate().map(|(at, &value)| {
        let row = if sequence.rank() == 1 { 0 } else { at / width };
        insertion_index(&sequence.data[row * size..(row + 1) * size], value, right)
    });
    Array::new(&values.shape, indices.collect())
}

fn searches() -> Vec<OpCase> {
    let row = |right: bool| {
        OpCase::new("searchsorted", format!("right={right}"))
            .input(ordered())
            .input(Integers(-1, 13))
            .on([&[9], &[4, 7]])
            .on([&[8], &[]])
            .on([&[1], &[5]])
            .on([&[0], &[3]])
            .on([&[7], &[0]])
            .on([&[2, 3, 9], &[2, 3, 5]])
            .on([&[2, 0], &[2, 5]])
            .also(INTEGERS)
            .forward_only("positions")
            .run(move |x| x[0].searchsorted(&x[1], right, None))
            .oracle(move |x| insertion_indices(&x[0], &x[1], right))
            .adversarial(
                "special",
                [
                    Array::new(&[5], vec![f64::NEG_INFINITY, -0.0, 0.0, 1.0, f64::INFINITY]),
                    Array::new(&[6], vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 2.0]),
                ],
            )
    };
    let sorter = OpCase::new("searchsorted", "sorter")
        .input(Distinct)
        .input(Uniform(-0.5, 0.5))
        .on([&[9], &[4, 7]])
        .on([&[2, 9], &[2, 5]])
        .forward_only("positions")
        .run(|x| x[0].searchsorted(&x[1], false, Some(&x[0].argsort(-1, false)?)))
        .oracle(|x| insertion_indices(&x[0], &x[1], false));
    vec![
        sorter,
        row(false),
        row(true)
            .rejects("searchsorted: a sequence without axes", |device| {
                Tensor::zeros((), F32, device)?.searchsorted(&Tensor::zeros([2], F32, device)?, true, None)
            })
            .rejects("searchsorted: values of shape [3, 2] for a sequence of [2, 4]", |device| {
                Tensor::zeros([2, 4], F32, device)?.searchsorted(
                    &Tensor::zeros([3, 2], F32, device)?,
                    true,
                    None,
                )
            })
            .rejects("searchsorted: dtypes f32 and f64 differ; cast one of them with to_dtype", |device| {
                Tensor::zeros([2], F32, device)?.searchsorted(&Tensor::zeros([2], F64, device)?, true, None)
            })
            .rejects("searchsorted: sorter has shape [1], expected [2]", |device| {
                let sorter = Tensor::zeros([1], I64, device)?;
                Tensor::zeros([2], F32, device)?.searchsorted(
                    &Tensor::zeros([2], F32, device)?,
                    true,
                    Some(&sorter),
                )
            })
            .rejects("searchsorted: index 2 is out of range for size 2", |device| {
                let sorter = Tensor::full([2], 2, I64, device)?;
                Tensor::zeros([2], F32, device)?.searchsorted(
                    &Tensor::zeros([2], F32, device)?,
                    true,
                    Some(&sorter),
                )
            }),
    ]
}

fn buckets() -> Vec<OpCase> {
    let row = |right: bool| {
        OpCase::new("bucketize", format!("right={right}"))
            .input(Integers(-1, 13))
            .input(ordered())
            .on([&[4, 7], &[9]])
            .on([&[], &[8]])
            .on([&[3], &[0]])
            .also(INTEGERS)
            .forward_only("positions")
            .run(move |x| x[0].bucketize(&x[1], right))
            .oracle(move |x| insertion_indices(&x[1], &x[0], right))
    };
    vec![
        row(false),
        row(true).rejects("bucketize: expected 1 axes, got shape [1, 2]", |device| {
            Tensor::zeros([2], F32, device)?.bucketize(&Tensor::zeros([1, 2], F32, device)?, true)
        }),
    ]
}
