//! Rows of gather, scatter, index_add and sort along an axis.

use crate::prelude::*;
use std::cmp::Ordering;
use ternion_core::{Scalar, no_grad};

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    [gathers(), scatters(), scatters_in_place(), selections(), scaled_sums(), embeddings(), sorts(), counts()].concat()
}

/// Returns the index with `at` along `axis`.
fn with_axis(index: &[usize], axis: usize, at: f64) -> Vec<usize> {
    let mut changed = index.to_vec();
    changed[axis] = at as usize;
    changed
}

/// `y[.., i, ..] = x[.., index[.., i, ..], ..]`.
fn gather(x: &Array, index: &Array, axis: usize) -> Array {
    Array::from_fn(&index.shape, |at| x.at(&with_axis(at, axis, index.at(at))))
}

/// `y[.., index[.., i, ..], ..] = combine(y[..], source[.., i, ..])`, in row-major order of the
/// source.
fn scatter(base: &Array, index: &Array, source: &Array, axis: usize, combine: impl Fn(f64, f64) -> f64) -> Array {
    let mut y = base.clone();
    Array::from_fn(&index.shape, |at| {
        let element = y.at_mut(&with_axis(at, axis, index.at(at)));
        *element = combine(*element, source.at(at));
        0.0
    });
    y
}

/// Returns the slices `index[i]` along `axis`.
pub(crate) fn index_select(x: &Array, index: &Array, axis: usize) -> Array {
    x.map_slices(axis, |slice| index.data.iter().map(|&at| slice[at as usize]).collect())
}

/// Adds slice `i` of the source to slice `index[i]` of the base.
pub(crate) fn index_add(base: &Array, index: &Array, source: &Array, axis: usize) -> Array {
    let mut y = base.clone();
    Array::from_fn(&source.shape, |at| {
        *y.at_mut(&with_axis(at, axis, index.data[at[axis]])) += source.at(at);
        0.0
    });
    y
}

/// Indices along `axis` of input 0.
fn into_first(axis: usize) -> Input {
    Input::index(Values::Index { input: 0, axis })
}

fn gathers() -> Vec<OpCase> {
    let row = |axis: usize| {
        OpCase::new("gather", format!("axis={axis}"))
            .input(Uniform(-4.0, 4.0))
            .input(into_first(axis))
            .also(INTEGERS)
            .also(UNSIGNED)
            .also(BOOL)
            .exact()
            .double_backward()
            .run(move |x| x[0].gather(axis, &x[1]))
            .oracle(move |x| gather(&x[0], &x[1], axis))
    };
    vec![
        row(0)
            .on([&[5], &[13]])
            .on([&[5, 3], &[7, 3]])
            .on([&[5, 3], &[2, 2]])
            .on([&[5, 3], &[0, 3]])
            .on([&[1, 1], &[1, 1]])
            // Hundreds of gradients are added in each element.
            .on([&[1], &[1400]])
            .on([&[3], &[1400]])
            .rejects("gather: index of shape [3, 4] on shape [2, 3] along axis 0", |device| {
                Tensor::zeros([2, 3], F32, device)?.gather(0, &Tensor::zeros([3, 4], I32, device)?)
            })
            .rejects("gather: index of shape [3] on shape [2, 3] along axis 0", |device| {
                Tensor::zeros([2, 3], F32, device)?.gather(0, &Tensor::zeros([3], I32, device)?)
            })
            .rejects("gather: index is f32, expected i32 or i64", |device| {
                Tensor::zeros([2], F32, device)?.gather(0, &Tensor::zeros([2], F32, device)?)
            })
            .rejects("gather: index 2 is out of range for size 2", |device| {
                Tensor::zeros([2], F32, device)?.gather(0, &Tensor::full([1], 2, I32, device)?)
            })
            .rejects("gather: index -1 is out of range for size 2", |device| {
                Tensor::zeros([2], F32, device)?.gather(0, &Tensor::full([1], -1, I64, device)?)
            })
            .rejects("gather: axis 2 on shape [2]", |device| {
                Tensor::zeros([2], F32, device)?.gather(2, &Tensor::zeros([1], I64, device)?)
            }),
        row(1).on([&[4, 6], &[4, 9]]).on([&[2, 3, 5], &[2, 4, 5]]).on([&[2, 3, 5], &[1, 7, 3]]).perf([
            &[512, 4096],
            &[512, 4096],
        ]),
        row(2).on([&[2, 3, 7], &[2, 3, 33]]).on([&[1, 2, 3, 2], &[1, 2, 5, 1]]),
        OpCase::new("gather", "axis=-1")
            .input(Uniform(-4.0, 4.0))
            .input(into_first(1))
            .on([&[3, 4], &[3, 2]])
            .exact()
            .run(|x| x[0].gather(-1, &x[1]))
            .oracle(|x| gather(&x[0], &x[1], 1)),
    ]
}

/// Creates a row with base, index and source of a scatter along `axis`.
fn scatter_row(op: &'static str, parameters: String, axis: usize) -> OpCase {
    OpCase::new(op, parameters)
        .input(Uniform(-4.0, 4.0))
        .input(into_first(axis))
        .input(Uniform(-4.0, 4.0))
        .also(INTEGERS)
        .also(UNSIGNED)
}

fn scatters() -> Vec<OpCase> {
    let set = |axis: usize| {
        scatter_row("scatter_set", format!("axis={axis}"), axis)
            .also(BOOL)
            .exact()
            .double_backward()
            .run(move |x| x[0].scatter(axis, &x[1], &x[2]))
            .oracle(move |x| scatter(&x[0], &x[1], &x[2], axis, |_, new| new))
    };
    let add = |axis: usize| {
        scatter_row("scatter_add", format!("axis={axis}"), axis)
            .double_backward()
            .run(move |x| x[0].scatter_add(axis, &x[1], &x[2]))
            .oracle_for(move |dtype, x| {
                scatter(&x[0], &x[1], &x[2], axis, |sum, new| super::unary::wrap(dtype, sum + new))
            })
    };
    vec![
        set(0)
            .on([&[5], &[13], &[13]])
            .on([&[5, 3], &[2, 3], &[2, 3]])
            .on([&[5, 3], &[7, 2], &[7, 2]])
            .on([&[5, 3], &[0, 3], &[0, 3]])
            // Slices longer than a block.
            .on([&[3, 1100], &[2, 1100], &[2, 1100]])
            .rejects("scatter_set: source has shape [3], expected [2]", |device| {
                let index = Tensor::zeros([2], I32, device)?;
                Tensor::zeros([4], F32, device)?.scatter(0, &index, &Tensor::zeros([3], F32, device)?)
            })
            .rejects("scatter_set: dtypes f32 and f64 differ; cast one of them with to_dtype", |device| {
                let index = Tensor::zeros([2], I32, device)?;
                Tensor::zeros([4], F32, device)?.scatter(0, &index, &Tensor::zeros([2], F64, device)?)
            })
            .rejects("scatter_set: index 4 is out of range for size 4", |device| {
                let index = Tensor::full([1], 4, I64, device)?;
                Tensor::zeros([4], F32, device)?.scatter(0, &index, &Tensor::zeros([1], F32, device)?)
            }),
        set(1).on([&[4, 6], &[4, 9], &[4, 9]]).on([&[2, 3, 5], &[1, 4, 3], &[1, 4, 3]]),
        OpCase::new("scatter_set", "axis=1, each index once")
            .input(Uniform(-4.0, 4.0))
            .input(Input::index(Values::UniqueIndex { input: 0, axis: 1 }))
            .input(Uniform(-4.0, 4.0))
            .on([&[3, 7], &[3, 4], &[3, 4]])
            .on([&[3, 7], &[3, 7], &[3, 7]])
            .exact()
            .double_backward()
            .run(|x| x[0].scatter(1, &x[1], &x[2]))
            .oracle(|x| scatter(&x[0], &x[1], &x[2], 1, |_, new| new)),
        add(0)
            .on([&[5], &[13], &[13]])
            .on([&[1], &[33], &[33]])
            .on([&[5, 3], &[7, 2], &[7, 2]])
            .on([&[5, 3], &[0, 3], &[0, 3]])
            .on([&[3, 1100], &[2, 1100], &[2, 1100]])
            .rejects("scatter_add: base is bool, expected a number", |device| {
                let (base, index) = (Tensor::zeros([2], Bool, device)?, Tensor::zeros([2], I32, device)?);
                base.scatter_add(0, &index, &base)
            })
            .rejects("scatter_add: index -3 is out of range for size 4", |device| {
                let index = Tensor::full([1], -3, I32, device)?;
                Tensor::zeros([4], F32, device)?.scatter_add(0, &index, &Tensor::zeros([1], F32, device)?)
            }),
        add(1)
            .on([&[4, 6], &[4, 9], &[4, 9]])
            .on([&[2, 3, 5], &[1, 4, 3], &[1, 4, 3]])
            .perf([&[512, 1024], &[512, 4096], &[512, 4096]]),
        add(2).on([&[2, 3, 7], &[2, 3, 11], &[2, 3, 11]]),
    ]
}

fn scatters_in_place() -> Vec<OpCase> {
    let row = |op: &'static str| {
        scatter_row(op, "axis=1, in place, into a slice".into(), 1)
            .on([&[4, 6], &[4, 9], &[4, 9]])
            .forward_only("changes a tensor in place")
    };
    // The tensor that is changed is the middle of a larger one, which must not change.
    fn changed(x: &[Tensor], change: impl Fn(&Tensor) -> Result<()>) -> Result<Tensor> {
        no_grad(|| {
            let wide = x[0].pad(&[[1, 2], [2, 1]], 0)?.copy()?;
            change(&wide.narrow(0, 1, x[0].dims()[0])?.narrow(1, 2, x[0].dims()[1])?)?;
            Ok(wide)
        })
    }
    fn padded(x: &Array) -> Array {
        let [rows, columns] = x.sizes();
        Array::from_fn(&[rows + 3, columns + 3], |at| match (at[0].checked_sub(1), at[1].checked_sub(2)) {
            (Some(row), Some(column)) if row < rows && column < columns => x.at(&[row, column]),
            _ => 0.0,
        })
    }
    vec![
        row("scatter_set")
            .exact()
            .run(|x| changed(x, |base| base.scatter_(1, &x[1], &x[2])))
            .oracle(|x| padded(&scatter(&x[0], &x[1], &x[2], 1, |_, new| new))),
        row("scatter_add")
            .run(|x| changed(x, |base| base.scatter_add_(1, &x[1], &x[2])))
            .oracle_for(|dtype, x| {
                padded(&scatter(&x[0], &x[1], &x[2], 1, |sum, new| super::unary::wrap(dtype, sum + new)))
            }),
        OpCase::new("index_add", "axis=1, in place, into a slice")
            .input(Uniform(-4.0, 4.0))
            .input(into_first(1))
            .input(Uniform(-4.0, 4.0))
            .on([&[4, 6], &[9], &[4, 9]])
            .forward_only("changes a tensor in place")
            .run(|x| changed(x, |base| base.index_add_(1, &x[1], &x[2])))
            .oracle(|x| padded(&index_add(&x[0], &x[1], &x[2], 1))),
    ]
}

fn index_add_row(axis: usize) -> OpCase {
    OpCase::new("index_add", format!("axis={axis}"))
        .input(Uniform(-4.0, 4.0))
        .input(into_first(axis))
        .input(Uniform(-4.0, 4.0))
        .also(INTEGERS)
        .also(UNSIGNED)
        .double_backward()
        .run(move |x| x[0].index_add(axis, &x[1], &x[2]))
        .oracle_for(move |dtype, x| {
            index_add(&x[0], &x[1], &x[2], axis).map(|sum| super::unary::wrap(dtype, sum))
        })
}

fn selections() -> Vec<OpCase> {
    let select = |axis: usize| {
        OpCase::new("index_select", format!("axis={axis}"))
            .input(Uniform(-4.0, 4.0))
            .input(into_first(axis))
            .also(INTEGERS)
            .also(UNSIGNED)
            .also(BOOL)
            .exact()
            .double_backward()
            .run(move |x| x[0].index_select(axis, &x[1]))
            .oracle(move |x| index_select(&x[0], &x[1], axis))
    };
    vec![
        select(0)
            .on([&[5], &[13]])
            .on([&[5, 3], &[7]])
            .on([&[5, 3], &[0]])
            .on([&[3, 0], &[2]])
            .on([&[1, 33], &[1]])
            // Selections of complete rows, which are copied by one task and by several.
            .on([&[5, 2, 17], &[9]])
            .on([&[5, 40], &[300]])
            // Hundreds of gradients are added in each element.
            .on([&[1, 1], &[1400]])
            .on([&[3, 1], &[1400]])
            .rejects("index_select: expected 1 axes, got shape [1, 2]", |device| {
                Tensor::zeros([4], F32, device)?.index_select(0, &Tensor::zeros([1, 2], I32, device)?)
            })
            .rejects("index_select: axis -2 on shape [4]", |device| {
                Tensor::zeros([4], F32, device)?.index_select(-2, &Tensor::zeros([1], I32, device)?)
            })
            .rejects("index_select: index is u8, expected i32 or i64", |device| {
                Tensor::zeros([4], F32, device)?.index_select(0, &Tensor::zeros([1], U8, device)?)
            }),
        select(1)
            .on([&[4, 6], &[9]])
            .on([&[2, 3, 5], &[4]])
            .on([&[3, 4, 33], &[5]])
            .on([&[2, 3, 4, 1, 12], &[5]])
            .perf([&[512, 4096], &[4096]]),
        select(2).on([&[2, 3, 7], &[33]]),
        index_add_row(0)
            .on([&[5], &[13], &[13]])
            .on([&[5, 3], &[7], &[7, 3]])
            .on([&[5, 3], &[0], &[0, 3]])
            .on([&[3, 1100], &[2], &[2, 1100]])
            .rejects("index_add: source has shape [3, 2], expected [2, 2]", |device| {
                let index = Tensor::zeros([2], I32, device)?;
                Tensor::zeros([4, 2], F32, device)?.index_add(0, &index, &Tensor::zeros([3, 2], F32, device)?)
            })
            .rejects("index_add: index 4 is out of range for size 4", |device| {
                let index = Tensor::from_slice(&[3i32, 4], [2], device)?;
                Tensor::zeros([4, 2], F32, device)?.index_add(0, &index, &Tensor::ones([2, 2], F32, device)?)
            })
            .rejects("index_add: index -1 is out of range for size 4", |device| {
                let index = Tensor::from_slice(&[-1i64, 0], [2], device)?;
                Tensor::zeros([4, 2], F32, device)?.index_add(0, &index, &Tensor::ones([2, 2], F32, device)?)
            })
            .rejects("index_add: base is bool, expected a number", |device| {
                let index = Tensor::zeros([2], I32, device)?;
                let base = Tensor::zeros([2], Bool, device)?;
                base.index_add(0, &index, &base)
            }),
        index_add_row(1).on([&[4, 6], &[9], &[4, 9]]).on([&[2, 3, 5], &[4], &[2, 4, 5]]),
        index_add_row(2).on([&[2, 3, 7], &[11], &[2, 3, 11]]),
    ]
}

fn embeddings() -> Vec<OpCase> {
    vec![
        OpCase::new("embedding", "")
            .input(Uniform(-4.0, 4.0))
            .input(into_first(0))
            .on([&[7, 5], &[]])
            .on([&[7, 5], &[4]])
            .on([&[7, 5], &[2, 3]])
            .on([&[1, 33], &[2, 1, 3]])
            .on([&[7, 5], &[0]])
            .also(INTEGERS)
            .also(BOOL)
            .exact()
            .double_backward()
            .run(|x| x[0].embedding(&x[1]))
            .oracle(|x| {
                let shape = [&x[1].shape[..], &x[0].shape[1..]].concat();
                index_select(&x[0], &x[1], 0).reshape(&shape)
            })
            .rejects("embedding: indices is f32, expected i32 or i64", |device| {
                let table = Tensor::zeros([4, 2], F32, device)?;
                table.embedding(&Tensor::zeros([1], F32, device)?)
            })
            .rejects("embedding: index 4 is out of range for size 4", |device| {
                Tensor::zeros([4, 2], F32, device)?.embedding(&Tensor::full([1, 3], 4, I32, device)?)
            })
            .rejects("embedding: expected 2 axes, got shape [4]", |device| {
                Tensor::zeros([4], F32, device)?.embedding(&Tensor::zeros([1], I32, device)?)
            })
            .perf([&[50257, 768], &[8, 1024]]),
    ]
}

/// NaN is larger than every number.
fn order(a: f64, b: f64) -> Ordering {
    a.is_nan().cmp(&b.is_nan()).then(a.partial_cmp(&b).unwrap_or(Ordering::Equal))
}

/// Returns the indices that sort a slice: equal elements keep their order.
fn sorted(slice: &[f64], descending: bool) -> Vec<usize> {
    let mut positions: Vec<usize> = (0..slice.len()).collect();
    positions.sort_by(|&a, &b| {
        let ascending = order(slice[a], slice[b]);
        if descending { ascending.reverse() } else { ascending }
    });
    positions
}

fn sort(x: &Array, axis: usize, descending: bool) -> (Array, Array) {
    let values = x.map_slices(axis, |slice| sorted(slice, descending).into_iter().map(|at| slice[at]).collect());
    let positions = x.map_slices(axis, |slice| sorted(slice, descending).into_iter().map(|at| at as f64).collect());
    (values, positions)
}

fn tied_sort(descending: bool) -> OpCase {
    OpCase::new("sort", format!("ties, axis=1 descending={descending}"))
        .input(Integers(-2, 3))
        .shapes([&[3, 33], &[2, 100], &[2, 2050]])
        .also(INTEGERS)
        .also(UNSIGNED)
        .also(BOOL)
        .exact()
        .forward_only("ties have no gradient")
        .run(move |x| x[0].sort(1, descending))
        .oracle(move |x| sort(&x[0], 1, descending))
}

/// `index_add` of slices that are multiplied by a factor.
fn scaled_sums() -> Vec<OpCase> {
    let row = |alpha: Scalar, kind: &str| {
        OpCase::new("index_add", format!("axis=1 alpha={alpha}{kind}"))
            .input(Uniform(-4.0, 4.0))
            .input(into_first(1))
            .input(Uniform(-4.0, 4.0))
            .on([&[3, 5], &[7], &[3, 7]])
            .on([&[2, 3, 2], &[2], &[2, 2, 2]])
            .on([&[2, 3], &[0], &[2, 0]])
            // Sums of 50 terms: enough that accumulation in half precision is detected.
            .on([&[2, 3], &[150], &[2, 150]])
            .oracle_for(move |dtype, x| {
                let scaled = x[2].map(|x| alpha.as_f64() * x);
                let sum = index_add(&x[0], &x[1], &scaled, 1);
                sum.map(|sum| super::unary::wrap(dtype, sum))
            })
    };
    let changed = |x: &Tensor, index: &Tensor, source: &Tensor, alpha: Scalar| {
        let y = x.copy()?;
        no_grad(|| y.index_add_with_(1, index, source, alpha))?;
        Ok(y)
    };
    let (half, three) = (Scalar::Float(-0.5), Scalar::Int(3));
    vec![
        row(half, "").double_backward().run(move |x| x[0].index_add_with(1, &x[1], &x[2], half)),
        row(three, "").also(INTEGERS).run(move |x| x[0].index_add_with(1, &x[1], &x[2], three)),
        row(three, " in place")
            .also(INTEGERS)
            .forward_only("in place")
            .run(move |x| changed(&x[0], &x[1], &x[2], three))
            .rejects("index_add: 0.5 is not an integer, tensor is i64", |device| {
                let (x, index) = (Tensor::zeros([2, 2], I64, device)?, Tensor::zeros([2], I64, device)?);
                x.index_add_with(1, &index, &x, 0.5)
            }),
    ]
}

fn sorts() -> Vec<OpCase> {
    let sort_row = |axis: usize, descending: bool| {
        OpCase::new("sort", format!("axis={axis} descending={descending}"))
            .input(Distinct)
            .exact()
            .double_backward()
            .differentiable_outputs(1)
            .run(move |x| x[0].sort(axis, descending))
            .oracle(move |x| sort(&x[0], axis, descending))
    };
    let special = Array::new(
        &[1, 9],
        vec![1.0, f64::NAN, f64::INFINITY, -0.0, 0.0, f64::NEG_INFINITY, f64::NAN, 0.0, -1.0],
    );
    let topk = |largest: bool| {
        OpCase::new("topk", format!("k=2 axis=1 largest={largest}"))
            .input(Distinct)
            .shapes([&[3, 7], &[2, 2], &[2, 3, 5], &[0, 4]])
            .exact()
            .double_backward()
            .differentiable_outputs(1)
            .run(move |x| x[0].topk(2, 1, largest))
            .oracle(move |x| {
                let (values, positions) = sort(&x[0], 1, largest);
                (values.map_slices(1, |slice| slice[..2].to_vec()), positions.map_slices(1, |slice| slice[..2].to_vec()))
            })
    };
    vec![
        sort_row(0, false)
            .shapes([&[1], &[33], &[7, 3], &[0, 3]])
            .rejects("sort: axis 1 on shape [3]", |device| Tensor::zeros([3], F32, device)?.sort(1, false)),
        sort_row(1, false).shapes([&[3, 33], &[2, 5, 3], &[3, 0]]).adversarial("special", [special.clone()]),
        sort_row(1, true).shapes([&[3, 33], &[2, 5, 3]]).adversarial("special", [special]).perf([&[512, 1024]]),
        tied_sort(false),
        tied_sort(true),
        OpCase::new("argsort", "axis=-1")
            .input(Distinct)
            .shapes([&[13], &[3, 7]])
            .forward_only("positions")
            .run(|x| x[0].argsort(-1, false))
            .oracle(|x| sort(&x[0], x[0].rank() - 1, false).1)
            .rejects("argsort: axis 1 on shape [3]", |device| Tensor::zeros([3], F32, device)?.argsort(1, false)),
        OpCase::new("topk", "ties, k=2 axis=1")
            .input(Integers(-2, 3))
            .shapes([&[3, 33], &[2, 2]])
            .also(INTEGERS)
            .also(UNSIGNED)
            .also(BOOL)
            .exact()
            .forward_only("ties have no gradient")
            .run(|x| x[0].topk(2, 1, true))
            .oracle(|x| {
                let (values, positions) = sort(&x[0], 1, true);
                (values.map_slices(1, |slice| slice[..2].to_vec()), positions.map_slices(1, |slice| slice[..2].to_vec()))
            }),
        OpCase::new("argsort", "ties, axis=1")
            .input(Integers(-2, 3))
            .shapes([&[3, 33]])
            .also(INTEGERS)
            .also(BOOL)
            .exact()
            .forward_only("positions")
            .run(|x| x[0].argsort(1, true))
            .oracle(|x| sort(&x[0], 1, true).1),
        topk(true).rejects("topk: 4 elements of axis 0 on shape [3]", |device| {
            Tensor::zeros([3], F32, device)?.topk(4, 0, true)
        }),
        topk(false),
    ]
}

/// Returns the bin of each element between boundaries: half open, the last closed; `None` outside.
fn bin(value: f64, edges: &[f64]) -> Option<usize> {
    let last = edges.len() - 2;
    (0..=last).find(|&at| value >= edges[at] && (value < edges[at + 1] || (at == last && value == edges[at + 1])))
}

fn counts() -> Vec<OpCase> {
    let histogram = |bins: usize, low: f64, high: f64| {
        OpCase::new("histogram", format!("bins={bins} {low}..{high}"))
            .forward_only("counts")
            .run(move |x| x[0].histogram(bins, low, high))
            .oracle_for(move |dtype, x| {
                let round = |v: f64| if dtype == F64 { v } else { f64::from(v as f32) };
                let mut edges: Vec<f64> =
                    (0..bins).map(|at| round(low + at as f64 * ((high - low) / bins as f64))).collect();
                edges.push(round(high));
                let mut counts = Array::zeros(&[bins]);
                for at in x[0].data.iter().filter_map(|&value| bin(value, &edges)) {
                    counts.data[at] += 1.0;
                }
                counts
            })
    };
    vec![
        OpCase::new("bincount", "")
            .input(Integers(0, 6))
            .dtypes(INTEGERS)
            // With wider dtypes a rehearsal, whose tensors contain arbitrary bits, might request
            // all memory.
            .also(&[U16])
            .shapes([&[1], &[33], &[0]])
            .forward_only("counts")
            .run(|x| x[0].bincount(3))
            .oracle(|x| {
                let largest = x[0].data.iter().copied().fold(-1.0, f64::max);
                let mut counts = Array::zeros(&[(largest as isize + 1).max(3) as usize]);
                for &value in &x[0].data {
                    counts.data[value as usize] += 1.0;
                }
                counts
            })
            .rejects("bincount: value -2 is negative", |device| {
                Tensor::full([2], -2, I64, device)?.bincount(0)
            })
            .rejects("bincount: input is f32, expected an integer dtype", |device| {
                Tensor::zeros([2], F32, device)?.bincount(0)
            })
            .rejects("bincount: expected 1 axes, got shape [2, 2]", |device| {
                Tensor::zeros([2, 2], I32, device)?.bincount(0)
            }),
        histogram(7, -1.0, 2.0)
            .input(Uniform(-2.0, 3.0))
            .shapes([&[100], &[3, 33], &[], &[0]])
            .adversarial("special", [Array::new(&[7], vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 2.0, -1.0, 2.0])])
            .rejects("histogram: 0 bins between 0.0 and 1.0", |device| {
                Tensor::zeros([2], F32, device)?.histogram(0, 0.0, 1.0)
            })
            .rejects("histogram: 2 bins between 1.0 and 1.0", |device| {
                Tensor::zeros([2], F32, device)?.histogram(2, 1.0, 1.0)
            })
            .rejects("histogram: input is i32, expected a floating dtype", |device| {
                Tensor::zeros([2], I32, device)?.histogram(2, 0.0, 1.0)
            }),
        // Tenths are not exact: elements on the boundaries themselves.
        histogram(10, 0.0, 1.0)
            .input(Fixed((0..=10).map(|tenth| f64::from(tenth) / 10.0).collect()))
            .shapes([&[11], &[2, 11]])
            .dtypes(&[F64, F32]),
        histogram(1, -8.0, 8.0).input(Integers(-9, 9)).shapes([&[40]]),
    ]
}
