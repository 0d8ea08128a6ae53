//! Rows of permuted, repeated and flipped elements, and of sums to a smaller shape.

use crate::prelude::*;
use ternion_core::Axis;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    [moves(), tiles(), repeats(), flips(), rotations(), sums(), indices()].concat()
}

fn row(op: &'static str, parameters: impl Into<String>) -> OpCase {
    OpCase::new(op, parameters).input(Uniform(-4.0, 4.0)).also(INTEGERS).also(BOOL).exact().double_backward()
}

fn moves() -> Vec<OpCase> {
    let case = |from: &'static [isize], to: &'static [isize], order: &'static [usize]| {
        row("movedim", format!("{from:?} to {to:?}"))
            .run(move |x| x[0].movedim(from, to))
            .oracle(move |x| x[0].permute(order))
    };
    vec![
        case(&[0], &[2], &[1, 2, 0])
            .shapes([&[2, 3, 4], &[2, 0, 3]])
            .rejects("movedim: axis 2 on shape [2, 3]", |device| {
                Tensor::zeros([2, 3], F32, device)?.movedim(&[0], &[2])
            })
            .rejects("movedim: axes [0] to [1, 0], expected as many of both, each once", |device| {
                Tensor::zeros([2, 3], F32, device)?.movedim(&[0], &[1, 0])
            })
            .rejects("movedim: axes [0, -2] to [1, 0], expected as many of both, each once", |device| {
                Tensor::zeros([2, 3], F32, device)?.movedim(&[0, -2], &[1, 0])
            })
            .rejects("movedim: axes [0, 1] to [1, -1], expected as many of both, each once", |device| {
                Tensor::zeros([2, 3], F32, device)?.movedim(&[0, 1], &[1, -1])
            }),
        case(&[-1], &[0], &[2, 0, 1]).shapes([&[2, 3, 4]]),
        case(&[0, 1], &[-1, 0], &[1, 2, 3, 0]).shapes([&[2, 3, 4, 2]]),
        case(&[], &[], &[0, 1]).shapes([&[2, 3]]),
    ]
}

fn tiles() -> Vec<OpCase> {
    let case = |counts: &'static [usize]| {
        row("tile", format!("{counts:?}"))
            .f32_limit(1e-6, 2e-6)
            .run(move |x| x[0].tile(counts))
            .oracle(move |x| {
                let rank = x[0].rank().max(counts.len());
                let padded_shape = [&vec![1; rank - x[0].rank()][..], &x[0].shape].concat();
                let times = [&vec![1; rank - counts.len()][..], counts].concat();
                let shape: Vec<usize> = padded_shape.iter().zip(&times).map(|(size, times)| size * times).collect();
                let x = x[0].reshape(&padded_shape);
                Array::from_fn(&shape, |at| {
                    x.at(&at.iter().zip(&padded_shape).map(|(at, size)| at % size).collect::<Vec<_>>())
                })
            })
    };
    vec![
        case(&[2]).shapes([&[], &[3], &[2, 3], &[0, 2]]),
        case(&[2, 1, 3]).shapes([&[3], &[2, 2, 2], &[2, 1, 3, 2]]),
        case(&[0, 2]).shapes([&[3]]),
        case(&[]).shapes([&[3, 2]]),
    ]
}

fn repeats() -> Vec<OpCase> {
    // The gradient of a repeated element is a sum.
    let with_sum_limit = |row: OpCase| row.f32_limit(1e-6, 2e-6);
    let uniform = |count: usize, axis: Option<isize>| {
        with_sum_limit(row("repeat_interleave", format!("{count} axis={axis:?}")))
            .run(move |x| x[0].repeat_interleave(count, axis.map(Axis)))
            .oracle(move |x| {
                let (x, axis) = match axis {
                    None => (x[0].reshape(&[x[0].elements()]), 0),
                    Some(axis) => (x[0].clone(), axis.rem_euclid(x[0].rank() as isize) as usize),
                };
                x.map_slices(axis, |slice| slice.iter().flat_map(|&value| vec![value; count]).collect())
            })
    };
    let each = with_sum_limit(row("repeat_interleave", "each axis=1"))
        .input(Input::index(Integers(0, 3)))
        .on([&[2, 5], &[5]])
        .on([&[2, 3, 2], &[3]])
        .on([&[2, 0], &[0]])
        .run(|x| x[0].repeat_interleave(&x[1], Some(Axis(1))))
        .oracle(|x| {
            let times = &x[1].data;
            x[0].map_slices(1, |slice| {
                slice.iter().zip(times).flat_map(|(&value, &times)| vec![value; times as usize]).collect()
            })
        })
        .rejects("repeat_interleave: repeats has shape [3], expected [2]", |device| {
            Tensor::zeros([2], F32, device)?.repeat_interleave(&Tensor::zeros([3], I64, device)?, None)
        })
        .rejects("repeat_interleave: repeats is f32, expected i32 or i64", |device| {
            let x = Tensor::zeros([2], F32, device)?;
            x.repeat_interleave(&x, None)
        })
        .rejects("repeat_interleave: repeats of -1, expected 0 or more", |device| {
            Tensor::zeros([2], F32, device)?.repeat_interleave(&Tensor::full([2], -1, I64, device)?, None)
        });
    vec![
        uniform(3, Some(0)).shapes([&[4], &[2, 3], &[0, 3]]).rejects(
            "repeat_interleave: axis 1 on shape [2]",
            |device| Tensor::zeros([2], F32, device)?.repeat_interleave(2, Some(Axis(1))),
        ),
        uniform(2, Some(-1)).shapes([&[2, 3], &[2, 3, 4]]),
        uniform(1, Some(0)).shapes([&[3]]),
        uniform(0, Some(0)).shapes([&[3, 2]]),
        uniform(2, None).shapes([&[], &[2, 3]]),
        each,
    ]
}

fn flips() -> Vec<OpCase> {
    type Run = fn(&Tensor) -> Result<Tensor>;
    let case = |name: &'static str, run: Run, axis: usize| {
        row(name, "").run(move |x| run(&x[0])).oracle(move |x| {
            x[0].map_slices(axis, |slice| slice.iter().rev().copied().collect())
        })
    };
    vec![
        case("fliplr", Tensor::fliplr, 1)
            .shapes([&[2, 5], &[2, 3, 4], &[2, 0], &[2, 1]])
            .rejects("fliplr: expected at least 2 axes, got shape [3]", |device| {
                Tensor::zeros([3], F32, device)?.fliplr()
            }),
        case("flipud", Tensor::flipud, 0)
            .shapes([&[5], &[3, 2], &[2, 3, 4], &[0, 2]])
            .rejects("flipud: expected at least 1 axes, got shape []", |device| {
                Tensor::zeros((), F32, device)?.flipud()
            }),
    ]
}

/// Rotates by a right angle from the first axis to the second: the last column becomes the first
/// row.
fn rotated(x: &Array, first: usize, second: usize) -> Array {
    let mut shape = x.shape.clone();
    shape.swap(first, second);
    Array::from_fn(&shape, |at| {
        let mut source_index = at.to_vec();
        source_index[first] = at[second];
        source_index[second] = x.shape[second] - 1 - at[first];
        x.at(&source_index)
    })
}

fn rotations() -> Vec<OpCase> {
    let case = |rotations: isize, first: isize, second: isize| {
        row("rot90", format!("turns={rotations} axes={first},{second}"))
            .run(move |x| x[0].rot90(rotations, first, second))
            .oracle(move |x| {
                let normalize = |axis: isize| axis.rem_euclid(x[0].rank() as isize) as usize;
                (0..rotations.rem_euclid(4)).fold(x[0].clone(), |x, _| rotated(&x, normalize(first), normalize(second)))
            })
    };
    let mut rows: Vec<OpCase> =
        [-1, 0, 1, 2, 7].map(|rotations| case(rotations, 0, 1).shapes([&[2, 3], &[3, 2, 2], &[0, 2]])).to_vec();
    rows.push(case(1, -1, 0).shapes([&[2, 3], &[2, 3, 4]]));
    rows[0] = rows[0].clone().rejects("rot90: axes 1 and 1, expected two", |device| {
        Tensor::zeros([2, 2], F32, device)?.rot90(1, 1, -1)
    });
    rows[1] = rows[1].clone().rejects("rot90: axis 1 on shape [2]", |device| {
        Tensor::zeros([2], F32, device)?.rot90(1, 0, 1)
    });
    rows
}

fn sums() -> Vec<OpCase> {
    let case = |shape: &'static [usize]| {
        OpCase::new("sum_to_size", format!("{shape:?}"))
            .input(Uniform(-4.0, 4.0))
            .also(INTEGERS)
            .also(BOOL)
            .f32_limit(1e-6, 2e-6)
            .double_backward()
            .run(move |x| x[0].sum_to_size(shape))
            .oracle(move |x| {
                let mut sums = Array::zeros(shape);
                let leading = x[0].rank() - shape.len();
                Array::from_fn(&x[0].shape, |at| {
                    let source_index: Vec<usize> = at[leading..].iter().zip(shape).map(|(&at, &size)| at.min(size - 1)).collect();
                    *sums.at_mut(&source_index) += x[0].at(at);
                    0.0
                });
                sums
            })
    };
    vec![
        case(&[2, 3]).shapes([&[2, 3], &[4, 2, 3], &[0, 2, 3]]),
        case(&[3, 1]).shapes([&[3, 5], &[2, 3, 4], &[3, 1], &[3, 0]]),
        case(&[1, 1]).shapes([&[3, 5], &[1, 1]]),
        case(&[])
            .shapes([&[], &[3], &[2, 3]])
            .rejects("sum_to_size: [2] does not broadcast to shape [3]", |device| {
                Tensor::zeros([3], F32, device)?.sum_to_size([2])
            })
            .rejects("sum_to_size: [1, 3] does not broadcast to shape [3]", |device| {
                Tensor::zeros([3], F32, device)?.sum_to_size([1, 3])
            }),
    ]
}

fn indices() -> Vec<OpCase> {
    let case = |shape: &'static [usize]| {
        OpCase::new("unravel_index", format!("{shape:?}"))
            .input(Integers(0, 23))
            .shapes([&[], &[7], &[0, 2], &[3, 5]])
            .dtypes(INTEGERS)
            .forward_only("positions")
            .run(move |x| x[0].unravel_index(shape))
            .oracle(move |x| {
                let stride = |axis: usize| shape[axis + 1..].iter().product::<usize>();
                let indices_along = |axis: usize| {
                    x[0].map(|index| (index as usize / stride(axis) % shape[axis]) as f64)
                };
                (0..shape.len()).map(indices_along).collect::<Vec<_>>()
            })
    };
    vec![
        case(&[2, 3, 4])
            .rejects("unravel_index: input is f32, expected an integer dtype", |device| {
                Tensor::zeros([2], F32, device)?.unravel_index([2])
            })
            .rejects("unravel_index: shape [2, 0], expected elements", |device| {
                Tensor::zeros([2], I64, device)?.unravel_index([2, 0])
            }),
        // More elements than the input has: the input is repeated.
        case(&[5]),
        case(&[3, 2]),
    ]
}
