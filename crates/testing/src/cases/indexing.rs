//! Rows of `x.i(..)`, of assignment to slices, and of masks.

use crate::prelude::*;
use ternion_core::no_grad;
use ternion_core::ops::indexing::{Ellipsis, IndexItem, IntoIndex, NewAxis, Slice};

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    [numbers_and_ranges(), steps(), tensors(), masks(), assignments(), rejected_calls()].concat()
}

fn row(op: &'static str, parameters: &str) -> OpCase {
    OpCase::new(op, parameters).input(Uniform(-4.0, 4.0)).also(INTEGERS).also(BOOL).exact().double_backward()
}

/// `x.i(index)` on shape `from`: the result has shape `to`, and its element `at` is element
/// `source_index(at)` of x.
fn basic<Kind: 'static>(
    parameters: &str,
    index: impl IntoIndex<Kind>,
    from: &'static [usize],
    to: &'static [usize],
    source_index: impl Fn(&[usize]) -> Vec<usize> + Send + Sync + 'static,
) -> OpCase {
    let items: Vec<IndexItem> = index.into_index();
    row("index", parameters)
        .shapes([from])
        .run(move |x| x[0].i(items.clone()))
        .oracle(move |x| Array::from_fn(to, |at| x[0].at(&source_index(at))))
}

#[allow(clippy::reversed_empty_ranges, reason = "a negative end counts from the end of the axis")]
fn numbers_and_ranges() -> Vec<OpCase> {
    vec![
        basic("[2]", 2, &[4, 3], &[3], |at| vec![2, at[0]]),
        basic("[-1]", -1, &[4, 3], &[3], |at| vec![3, at[0]]),
        basic("[1, -2]", (1, -2), &[4, 3], &[], |_| vec![1, 1]),
        basic("[1usize]", (1usize,), &[4], &[], |_| vec![1]),
        basic("[:, 1]", (.., 1), &[4, 3], &[4], |at| vec![at[0], 1]),
        basic("[1:3]", 1..3, &[4, 3], &[2, 3], |at| vec![at[0] + 1, at[1]]),
        basic("[2:, :2]", (2.., ..2), &[4, 3], &[2, 2], |at| vec![at[0] + 2, at[1]]),
        basic("[-3:-1]", -3..-1, &[5], &[2], |at| vec![at[0] + 2]),
        basic("[1:=-1]", 1..=-1, &[5], &[4], |at| vec![at[0] + 1]),
        basic("[:=2]", ..=2, &[5], &[3], |at| vec![at[0]]),
        basic("[:-2]", ..-2, &[5], &[3], |at| vec![at[0]]),
        basic("[-100:100]", -100..100, &[5], &[5], |at| vec![at[0]]),
        basic("[3:1]", Slice::new(3, 1, 1), &[5, 2], &[0, 2], |at| at.to_vec()),
        basic("[7:]", 7.., &[5], &[0], |at| at.to_vec()),
        basic("[..., 0]", (Ellipsis, 0), &[2, 3, 4], &[2, 3], |at| vec![at[0], at[1], 0]),
        basic("[1, ..., 2]", (1, Ellipsis, 2), &[2, 3, 4], &[3], |at| vec![1, at[0], 2]),
        basic("[0, ..., 1]", (0, Ellipsis, 1), &[2, 3], &[], |_| vec![0, 1]),
        basic("[...]", Ellipsis, &[2, 3], &[2, 3], |at| at.to_vec()),
        basic("[:, new, 1:]", (.., NewAxis, 1..), &[2, 3], &[2, 1, 2], |at| vec![at[0], at[2] + 1]),
        basic("[..., new]", (Ellipsis, NewAxis), &[2, 3], &[2, 3, 1], |at| vec![at[0], at[1]]),
        basic("[new, 1, new]", (NewAxis, 1, NewAxis), &[2, 3], &[1, 1, 3], |at| vec![1, at[2]]),
        basic("[new] of a number", NewAxis, &[], &[1], |_| vec![]),
        basic("[0:2, 1, :, 2]", (0..2, 1, .., 2), &[3, 2, 4, 3], &[2, 4], |at| vec![at[0], 1, at[1], 2]),
    ]
}

fn steps() -> Vec<OpCase> {
    vec![
        basic("[::2]", Slice::new(None, None, 2), &[5], &[3], |at| vec![2 * at[0]]),
        basic("[1::3]", Slice::new(1, None, 3), &[8], &[3], |at| vec![1 + 3 * at[0]]),
        basic("[::-1]", Slice::new(None, None, -1), &[5, 2], &[5, 2], |at| vec![4 - at[0], at[1]]),
        basic("[::-2]", Slice::new(None, None, -2), &[6], &[3], |at| vec![5 - 2 * at[0]]),
        basic("[3:0:-1]", Slice::new(3, 0, -1), &[5], &[3], |at| vec![3 - at[0]]),
        basic("[-2::-1]", Slice::new(-2, None, -1), &[5], &[4], |at| vec![3 - at[0]]),
        basic("[100:-100:-2]", Slice::new(100, -100, -2), &[5], &[3], |at| vec![4 - 2 * at[0]]),
        basic("[-9:2:-1]", Slice::new(-9, 2, -1), &[5], &[0], |at| at.to_vec()),
        basic("[::-1] of nothing", Slice::new(None, None, -1), &[0, 2], &[0, 2], |at| at.to_vec()),
        basic(
            "[::-1, 1, ::2]",
            (Slice::new(None, None, -1), 1, Slice::new(None, None, 2)),
            &[3, 2, 5],
            &[3, 3],
            |at| vec![2 - at[0], 1, 2 * at[1]],
        ),
    ]
}

/// Resolves a negative index, which counts from the end.
fn front(at: f64, size: usize) -> usize {
    (if at < 0.0 { at + size as f64 } else { at }) as usize
}

/// Indices into an axis of `size` elements from either end.
fn either_end(size: i64) -> Input {
    Input::index(Integers(-size, size - 1))
}

fn tensors() -> Vec<OpCase> {
    vec![
        row("index", "[i]")
            .input(either_end(4))
            .on([&[4, 3], &[5]])
            .on([&[4], &[]])
            .on([&[4, 2], &[2, 3]])
            .on([&[4, 2], &[0]])
            .run(|x| x[0].i(&x[1]))
            .oracle(|x| {
                let shape = [&x[1].shape[..], &x[0].shape[1..]].concat();
                let rank = x[1].rank();
                Array::from_fn(&shape, |at| {
                    x[0].at(&[&[front(x[1].at(&at[..rank]), 4)], &at[rank..]].concat())
                })
            })
            .rejects("index: index 4 is out of range for size 4", |device| {
                Tensor::zeros([4], F32, device)?.i(&Tensor::full([1], 4, I32, device)?)
            })
            .rejects("index: index -5 is out of range for size 4", |device| {
                Tensor::zeros([4], F32, device)?.i(&Tensor::full([1], -5, I64, device)?)
            }),
        row("index", "[:, i, 1:]")
            .input(either_end(3))
            .on([&[2, 3, 4], &[2, 2]])
            .run(|x| x[0].i((.., &x[1], 1..)))
            .oracle(|x| {
                Array::from_fn(&[2, 2, 2, 3], |at| x[0].at(&[at[0], front(x[1].at(&at[1..3]), 3), at[3] + 1]))
            }),
        row("index", "[i, j]")
            .input(either_end(4))
            .input(either_end(3))
            .on([&[4, 3, 2], &[5], &[5]])
            .on([&[4, 3, 2], &[2, 1], &[3]])
            .on([&[4, 3, 2], &[], &[3]])
            .run(|x| x[0].i((&x[1], &x[2])))
            .oracle(|x| {
                let both = x[1].zip(&x[2], |i, j| (front(i, 4) * 3 + front(j, 3)) as f64);
                Array::from_fn(&[&both.shape[..], &[2]].concat(), |at| {
                    let (index, rest) = at.split_at(both.rank());
                    let flat = both.at(index) as usize;
                    x[0].at(&[flat / 3, flat % 3, rest[0]])
                })
            })
            .rejects("index: index 4 is out of range for size 3", |device| {
                let (i, j) = (Tensor::full([2], 0, I32, device)?, Tensor::full([2], 4, I32, device)?);
                Tensor::zeros([4, 3], F32, device)?.i((&i, &j))
            })
            .rejects("index: shapes [2] and [3] do not broadcast", |device| {
                let (i, j) = (Tensor::full([2], 0, I32, device)?, Tensor::full([3], 0, I64, device)?);
                Tensor::zeros([4, 3], F32, device)?.i((&i, &j))
            }),
        row("index", "[i, :, j]: apart, and so first")
            .input(either_end(4))
            .input(either_end(2))
            .on([&[4, 3, 2], &[5], &[5]])
            .run(|x| x[0].i((&x[1], .., &x[2])))
            .oracle(|x| {
                Array::from_fn(&[5, 3], |at| {
                    x[0].at(&[front(x[1].at(&at[..1]), 4), at[1], front(x[2].at(&at[..1]), 2)])
                })
            }),
        row("index", "[:, 1, i]: an integer and a tensor")
            .input(either_end(2))
            .on([&[4, 3, 2], &[5]])
            .run(|x| x[0].i((.., 1, &x[1])))
            .oracle(|x| Array::from_fn(&[4, 5], |at| x[0].at(&[at[0], 1, front(x[1].at(&at[1..]), 2)]))),
        row("index", "[-1, :, i]: a number apart from a tensor")
            .input(either_end(2))
            .on([&[4, 3, 2], &[5]])
            .run(|x| x[0].i((-1, .., &x[1])))
            .oracle(|x| Array::from_fn(&[5, 3], |at| x[0].at(&[3, at[1], front(x[1].at(&at[..1]), 2)]))),
        row("index", "[:, i, ..., j]: an ellipsis of no axes parts them")
            .input(either_end(3))
            .input(either_end(2))
            .on([&[4, 3, 2], &[5], &[5]])
            .run(|x| x[0].i((.., &x[1], Ellipsis, &x[2])))
            .oracle(|x| {
                Array::from_fn(&[5, 4], |at| {
                    x[0].at(&[at[1], front(x[1].at(&at[..1]), 3), front(x[2].at(&at[..1]), 2)])
                })
            }),
        row("index", "[i, new, ::-1]")
            .input(either_end(4))
            .on([&[4, 3], &[2]])
            .run(|x| x[0].i((&x[1], NewAxis, Slice::new(None, None, -1))))
            .oracle(|x| Array::from_fn(&[2, 1, 3], |at| x[0].at(&[front(x[1].at(&at[..1]), 4), 2 - at[2]]))),
    ]
}

/// A mask whose elements repeat this pattern.
fn mask(pattern: &[u8]) -> Input {
    Input::of(Bool, Fixed(pattern.iter().map(|&bit| f64::from(bit)).collect()))
}

fn masks() -> Vec<OpCase> {
    let pattern = [0u8, 1, 1, 0, 1];
    let chosen = |mask: &Array| -> Vec<usize> { (0..mask.elements()).filter(|&at| mask.data[at] != 0.0).collect() };
    vec![
        row("index", "[mask]")
            .input(mask(&pattern))
            .on([&[5, 2], &[5]])
            .on([&[5, 3], &[5, 3]])
            .run(|x| x[0].i(&x[1]))
            .oracle(move |x| {
                let indices = chosen(&x[1]);
                let rest = x[0].elements() / x[1].elements();
                let data = indices.iter().flat_map(|&at| x[0].data[at * rest..(at + 1) * rest].to_vec()).collect();
                Array::new(&[&[indices.len()], &x[0].shape[x[1].rank()..]].concat(), data)
            })
            .rejects("index: a mask of shape [4] on axes of sizes [5]", |device| {
                Tensor::zeros([5], F32, device)?.i(&Tensor::zeros([4], Bool, device)?)
            })
            .rejects("index: a mask without axes", |device| {
                Tensor::zeros([5], F32, device)?.i(&Tensor::zeros((), Bool, device)?)
            }),
        row("index", "[:, mask, 1:]")
            .input(mask(&pattern))
            .on([&[2, 5, 3], &[5]])
            .run(|x| x[0].i((.., &x[1], 1..)))
            .oracle(|x| {
                Array::from_fn(&[2, 3, 2], |at| x[0].at(&[at[0], [1, 2, 4][at[1]], at[2] + 1]))
            }),
        row("index", "[mask, i]")
            .input(mask(&pattern))
            .input(either_end(3))
            .on([&[5, 3], &[5], &[3]])
            .on([&[5, 3], &[5], &[2, 1]])
            .run(|x| x[0].i((&x[1], &x[2])))
            .oracle(|x| {
                let indices = Array::new(&[3], vec![1.0, 2.0, 4.0]);
                indices.zip(&x[2], |at, index| x[0].at(&[at as usize, front(index, 3)]))
            }),
        row("masked_select", "")
            .input(mask(&pattern))
            .on([&[5], &[5]])
            .on([&[2, 5], &[5]])
            .on([&[5], &[2, 5]])
            .on([&[3, 1], &[5]])
            .on([&[], &[5]])
            .run(|x| x[0].masked_select(&x[1]))
            .oracle(|x| {
                let shape = crate::array::broadcast_shape(&x[0].shape, &x[1].shape);
                let (values, mask) = (x[0].expand(&shape), x[1].expand(&shape));
                let kept: Vec<f64> =
                    (0..mask.elements()).filter(|&at| mask.data[at] != 0.0).map(|at| values.data[at]).collect();
                Array::new(&[kept.len()], kept)
            })
            .rejects("masked_select: mask is i32, expected bool", |device| {
                Tensor::zeros([2], F32, device)?.masked_select(&Tensor::zeros([2], I32, device)?)
            })
            .rejects("masked_select: shapes [2] and [3] do not broadcast", |device| {
                Tensor::zeros([2], F32, device)?.masked_select(&Tensor::zeros([3], Bool, device)?)
            }),
        row("masked_scatter", "")
            .input(mask(&pattern))
            .input(Uniform(-4.0, 4.0))
            .on([&[5], &[5], &[3]])
            .on([&[2, 5], &[5], &[7]])
            .on([&[2, 5], &[2, 1], &[3, 4]])
            .run(|x| x[0].masked_scatter(&x[1], &x[2]))
            .oracle(|x| {
                let mask = x[1].expand(&x[0].shape);
                let mut next = 0;
                Array::from_fn(&x[0].shape, |at| {
                    if mask.at(at) == 0.0 {
                        return x[0].at(at);
                    }
                    next += 1;
                    x[2].data[next - 1]
                })
            })
            .rejects("masked_scatter: dtypes f32 and f64 differ; cast one of them with to_dtype", |device| {
                let (x, mask) = (Tensor::zeros([2], F32, device)?, Tensor::ones([2], Bool, device)?);
                x.masked_scatter(&mask, &Tensor::zeros([2], F64, device)?)
            })
            .rejects("masked_scatter: a source of 1 elements for 2 positions", |device| {
                let (x, mask) = (Tensor::zeros([2], F32, device)?, Tensor::ones([2], Bool, device)?);
                x.masked_scatter(&mask, &Tensor::zeros([1], F32, device)?)
            })
            .rejects("masked_scatter: mask has shape [3], expected [2]", |device| {
                let (x, mask) = (Tensor::zeros([2], F32, device)?, Tensor::ones([3], Bool, device)?);
                x.masked_scatter(&mask, &x)
            }),
        OpCase::new("nonzero", "")
            .input(Integers(-1, 1))
            .also(INTEGERS)
            .also(BOOL)
            .shapes([&[7], &[3, 4], &[2, 2, 3], &[], &[0, 2]])
            .forward_only("positions")
            .run(|x| x[0].nonzero())
            .oracle(|x| {
                let (mut indices, mut count) = (Vec::new(), 0);
                Array::from_fn(&x[0].shape, |at| {
                    if x[0].at(at) != 0.0 {
                        indices.extend(at.iter().map(|&at| at as f64));
                        count += 1;
                    }
                    0.0
                });
                Array::new(&[count, x[0].rank()], indices)
            }),
    ]
}

fn assignments() -> Vec<OpCase> {
    let assign = |parameters: &str, items: Vec<IndexItem>, index: fn(&[usize]) -> Option<Vec<usize>>| {
        let in_place = items.clone();
        let oracle = move |x: &[Array]| {
            Array::from_fn(&x[0].shape, |at| match index(at) {
                None => x[0].at(at),
                Some(source_index) => {
                    // The source is broadcast: missing leading axes, and axes of size 1.
                    let leading = source_index.len() - x[1].rank();
                    let source_index: Vec<usize> =
                        source_index[leading..].iter().zip(&x[1].shape).map(|(&at, &size)| at.min(size - 1)).collect();
                    x[1].at(&source_index)
                }
            })
        };
        let base = |op: &'static str| row(op, parameters).input(Uniform(-4.0, 4.0));
        [
            base("slice_assign").run(move |x| x[0].slice_assign(items.clone(), &x[1])).oracle(oracle),
            OpCase { double_backward: false, ..base("slice_assign_") }
                .forward_only("changes a tensor in place")
                .run(move |x| {
                    no_grad(|| {
                        let y = x[0].copy()?;
                        y.slice_assign_(in_place.clone(), &x[1])?;
                        Ok(y)
                    })
                })
                .oracle(oracle),
        ]
    };
    let on = |rows: [OpCase; 2], shapes: &[[&[usize]; 2]]| {
        rows.map(|row| shapes.iter().fold(row, |row, &shapes| row.on(shapes)))
    };
    let mut rows = Vec::new();
    rows.extend(on(
        assign("[1:3, ::2]", (1..3, Slice::new(None, None, 2)).into_index(), |at| {
            ((1..3).contains(&at[0]) && at[1] % 2 == 0).then(|| vec![at[0] - 1, at[1] / 2])
        }),
        &[[&[4, 5], &[2, 3]], [&[4, 5], &[3]], [&[4, 5], &[2, 1]], [&[4, 5], &[]]],
    ));
    rows.extend(on(
        assign("[::-1, 2]", (Slice::new(None, None, -1), 2).into_index(), |at| {
            (at[1] == 2).then(|| vec![3 - at[0]])
        }),
        &[[&[4, 5], &[4]], [&[4, 5], &[1]]],
    ));
    rows.extend(on(
        assign("[..., new, -1]", (Ellipsis, NewAxis, -1).into_index(), |at| {
            (at[2] == 3).then(|| vec![at[0], at[1], 0])
        }),
        &[[&[2, 3, 4], &[2, 3, 1]], [&[2, 3, 4], &[1]]],
    ));
    rows.extend(on(assign("[2:2]", (2..2).into_index(), |_| None), &[[&[4, 3], &[0, 3]], [&[4, 3], &[3]]]));
    rows
}

fn rejected_calls() -> Vec<OpCase> {
    fn on<const N: usize>(
        shape: [usize; N],
        call: impl Fn(&Tensor) -> Result<Tensor> + Send + Sync + 'static,
    ) -> impl Fn(&Device) -> Result<Tensor> + Send + Sync + 'static {
        move |device| call(&Tensor::zeros(shape, F32, device)?)
    }
    let row = basic("[0] that fits", 0, &[3], &[], |_| vec![0])
        .rejects("index: index 3 is out of range for size 3", on([3], |x| x.i(3)))
        .rejects("index: index -4 is out of range for size 3", on([3], |x| x.i(-4)))
        .rejects("index: 2 axes of shape [3]", on([3], |x| x.i((0, 0))))
        .rejects("index: more than one ellipsis", on([3], |x| x.i((Ellipsis, Ellipsis))))
        .rejects("index: a slice with step 0", on([3], |x| x.i(Slice::new(None, None, 0))))
        .rejects("index: tensor is f32, expected i32, i64 or bool", on([3], |x| x.i(x)))
        .rejects("slice_assign: a source of shape [3] into [2]", on([3], |x| x.slice_assign(..2, x)))
        .rejects(
            "slice_assign: an index with tensors; use scatter, index_add or masked_scatter",
            on([3], |x| x.slice_assign(&Tensor::zeros([1], I32, x.device())?, x)),
        )
        .rejects(
            "slice_assign: dtypes f32 and i32 differ; cast one of them with to_dtype",
            on([3], |x| x.slice_assign(.., &x.to_dtype(I32)?)),
        );
    vec![row]
}
