//! Rows of padding, concatenation, splitting and repetition.

use crate::prelude::*;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    [pads(), concatenations(), parts(), repetitions()].concat()
}

fn pads() -> Vec<OpCase> {
    let row = |amounts: Vec<[usize; 2]>, value: f64| {
        let run_amounts = amounts.clone();
        OpCase::new("pad", format!("{amounts:?} value={value}"))
            .input(Uniform(-4.0, 4.0))
            .also(INTEGERS)
            .exact()
            .double_backward()
            .run(move |x| x[0].pad(&run_amounts, value))
            .oracle(move |x| pad(&x[0], &amounts, value))
    };
    vec![
        row(vec![[2, 1]], 3.0).shapes([&[1], &[33], &[0]]),
        row(vec![[1, 0], [2, 3]], 0.0)
            .shapes([&[7, 5], &[1, 1], &[0, 3], &[3, 0]])
            .rejects("pad: 1 amounts for shape [2, 3]", |device| {
                Tensor::zeros([2, 3], F32, device)?.pad(&[[1, 1]], 0.0)
            }),
        row(vec![[0, 0], [0, 0]], 5.0).shapes([&[3, 4]]),
        row(vec![[0, 0], [1, 1], [0, 2]], 2.0).shapes([&[2, 3, 5]]).perf([&[64, 256, 1024]]),
        row(vec![], 1.0).shapes([&[]]),
        OpCase::new("pad", "infinity")
            .input(Uniform(-4.0, 4.0))
            .shapes([&[3]])
            .exact()
            .forward_only("differences of infinities")
            .rejects("pad: -2 does not fit u8", |device| Tensor::zeros([2], U8, device)?.pad(&[[0, 1]], -2))
            .run(|x| x[0].pad(&[[1, 1]], f64::NEG_INFINITY))
            .oracle(|x| pad(&x[0], &[[1, 1]], f64::NEG_INFINITY)),
    ]
}

fn pad(x: &Array, amounts: &[[usize; 2]], value: f64) -> Array {
    let shape: Vec<usize> = x.shape.iter().zip(amounts).map(|(size, [before, after])| size + before + after).collect();
    Array::from_fn(&shape, |at| {
        let source_index: Option<Vec<usize>> = (0..at.len())
            .map(|axis| at[axis].checked_sub(amounts[axis][0]).filter(|&at| at < x.shape[axis]))
            .collect();
        source_index.map_or(value, |source_index| x.at(&source_index))
    })
}

fn concat(parts: &[Array], axis: usize) -> Array {
    let mut shape = parts[0].shape.clone();
    shape[axis] = parts.iter().map(|part| part.shape[axis]).sum();
    Array::from_fn(&shape, |at| {
        let mut source_index = at.to_vec();
        for part in parts {
            if source_index[axis] < part.shape[axis] {
                return part.at(&source_index);
            }
            source_index[axis] -= part.shape[axis];
        }
        unreachable!("sizes add up")
    })
}

fn concatenations() -> Vec<OpCase> {
    let three = |op: &'static str, axis: isize| {
        OpCase::new(op, format!("axis={axis}"))
            .input(Uniform(-4.0, 4.0))
            .input(Uniform(-4.0, 4.0))
            .input(Uniform(-4.0, 4.0))
            .also(INTEGERS)
            .also(BOOL)
            .exact()
            .double_backward()
    };
    let concat_row = |axis: isize, normalized_axis: usize| {
        three("concat", axis)
            .run(move |x| Tensor::concat(&[&x[0], &x[1], &x[2]], axis))
            .oracle(move |x| concat(x, normalized_axis))
    };
    let stack_row = |axis: isize, normalized_axis: usize| {
        three("stack", axis)
            .shapes([&[3, 5], &[1, 33], &[0, 2]])
            .run(move |x| Tensor::stack(&[&x[0], &x[1], &x[2]], axis))
            .oracle(move |x| {
                let mut shape = x[0].shape.clone();
                shape.insert(normalized_axis, 1);
                concat(&x.iter().map(|part| part.reshape(&shape)).collect::<Vec<_>>(), normalized_axis)
            })
    };
    let zeros = |device: &Device, shape: &[usize]| Tensor::zeros(shape, F32, device);
    vec![
        concat_row(0, 0)
            .on([&[2], &[5], &[1]])
            .on([&[2, 3], &[0, 3], &[4, 3]])
            .rejects("concat: expected at least 1 input, got 0", |_| Tensor::concat(&[], 0))
            .rejects("concat: input has shape [2, 4], expected [2, 3]", move |device| {
                Tensor::concat(&[&zeros(device, &[2, 3])?, &zeros(device, &[2, 4])?], 0)
            })
            .rejects("concat: expected 2 axes, got shape [3]", move |device| {
                Tensor::concat(&[&zeros(device, &[2, 3])?, &zeros(device, &[3])?], 0)
            })
            .rejects("concat: dtypes f32 and i32 differ; cast one of them with to_dtype", move |device| {
                Tensor::concat(&[&zeros(device, &[2])?, &Tensor::zeros([2], I32, device)?], 0)
            })
            .rejects("concat: axis 1 on shape [2]", move |device| Tensor::concat(&[&zeros(device, &[2])?], 1)),
        concat_row(1, 1).on([&[3, 2], &[3, 33], &[3, 1]]).on([&[2, 3, 2], &[2, 1, 2], &[2, 4, 2]]),
        concat_row(-1, 2).on([&[2, 3, 2], &[2, 3, 5], &[2, 3, 1]]).perf([&[64, 64, 256], &[64, 64, 256], &[64, 64, 512]]),
        stack_row(0, 0)
            .rejects("stack: expected at least 1 input, got 0", |_| Tensor::stack(&[], 0))
            .rejects("stack: input has shape [4], expected [3]", move |device| {
                Tensor::stack(&[&zeros(device, &[3])?, &zeros(device, &[4])?], 0)
            })
            .rejects("stack: axis 2 on shape [3]", move |device| Tensor::stack(&[&zeros(device, &[3])?], 2))
            .rejects("stack: axis -3 on shape [3]", move |device| Tensor::stack(&[&zeros(device, &[3])?], -3))
            .rejects("stack: dtypes f32 and i32 differ; cast one of them with to_dtype", move |device| {
                Tensor::stack(&[&zeros(device, &[3])?, &Tensor::zeros([3], I32, device)?], 0)
            })
            .rejects(
                "stack: shape [1, 1, 1, 1, 1, 1, 1, 1] has 8 axes, no more are possible",
                move |device| Tensor::stack(&[&zeros(device, &[1; 8])?], 0),
            ),
        stack_row(1, 1),
        stack_row(-1, 2),
    ]
}

fn narrow(x: &Array, axis: usize, start: usize, length: usize) -> Array {
    x.map_slices(axis, |slice| slice[start..start + length].to_vec())
}

fn parts() -> Vec<OpCase> {
    let row = |op: &'static str, parameters: &str| {
        OpCase::new(op, parameters).input(Uniform(-4.0, 4.0)).also(INTEGERS).also(BOOL).exact().double_backward()
    };
    let rejected_call = |call: fn(&Tensor) -> Result<Vec<Tensor>>| {
        move |device: &Device| call(&Tensor::zeros([4, 3], F32, device)?)
    };
    vec![
        row("split", "axis=1 size=3")
            .shapes([&[2, 7], &[2, 6], &[2, 2, 5], &[2, 3]])
            .run(|x| x[0].split(1, 3))
            .oracle(|x| {
                let length = x[0].shape[1];
                (0..length.div_ceil(3)).map(|at| narrow(&x[0], 1, 3 * at, 3.min(length - 3 * at))).collect::<Vec<_>>()
            })
            .rejects("split: parts of size 0", rejected_call(|x| x.split(0, 0)))
            .rejects("split: axis 2 on shape [4, 3]", rejected_call(|x| x.split(2, 1))),
        row("split_sizes", "axis=0 [2, 0, 3]")
            .shapes([&[5], &[5, 3]])
            .run(|x| x[0].split_sizes(0, &[2, 0, 3]))
            .oracle(|x| vec![narrow(&x[0], 0, 0, 2), narrow(&x[0], 0, 2, 0), narrow(&x[0], 0, 2, 3)])
            .rejects("split_sizes: sizes [2, 3] on axis 0 of shape [4, 3]", rejected_call(|x| x.split_sizes(0, &[2, 3])))
            .rejects(
                "split_sizes: sizes [18446744073709551615, 5] on axis 0 of shape [4, 3]",
                rejected_call(|x| x.split_sizes(0, &[usize::MAX, 5])),
            ),
        // Only some of the outputs are used: the others receive no gradient.
        row("split_sizes", "axis=1 [2, 1, 3], first and last")
            .shapes([&[3, 6], &[2, 6, 2]])
            .run(|x| {
                let mut parts = x[0].split_sizes(1, &[2, 1, 3])?;
                parts.remove(1);
                Ok(parts)
            })
            .oracle(|x| vec![narrow(&x[0], 1, 0, 2), narrow(&x[0], 1, 3, 3)]),
        row("split_sizes", "axis=1 [2, 1, 3], last")
            .shapes([&[3, 6], &[2, 6, 2]])
            .run(|x| Ok(x[0].split_sizes(1, &[2, 1, 3])?.remove(2)))
            .oracle(|x| narrow(&x[0], 1, 3, 3)),
        row("chunk", "axis=-1 count=3")
            .shapes([&[2, 7], &[2, 6], &[2, 2]])
            .run(|x| x[0].chunk(-1, 3))
            .oracle(|x| {
                let length = x[0].shape[1];
                let size = length.div_ceil(3);
                (0..length.div_ceil(size))
                    .map(|at| narrow(&x[0], 1, size * at, size.min(length - size * at)))
                    .collect::<Vec<_>>()
            })
            .rejects("chunk: 0 parts", rejected_call(|x| x.chunk(0, 0))),
    ]
}

fn repetitions() -> Vec<OpCase> {
    let row = |op: &'static str, parameters: String| {
        OpCase::new(op, parameters).input(Uniform(-4.0, 4.0)).also(INTEGERS).also(BOOL).exact().double_backward()
    };
    let roll = |shift: isize, axis: usize| {
        row("roll", format!("shift={shift} axis={axis}"))
            .run(move |x| x[0].roll(shift, axis))
            .oracle(move |x| {
                x[0].map_slices(axis, |slice| {
                    let size = slice.len() as isize;
                    (0..size).map(|at| slice[(at - shift).rem_euclid(size) as usize]).collect()
                })
            })
    };
    let repeat = |counts: &'static [usize]| {
        row("repeat", format!("{counts:?}"))
            .run(move |x| x[0].repeat(counts))
            .oracle(move |x| {
                let leading = counts.len() - x[0].rank();
                let shape: Vec<usize> = (0..counts.len())
                    .map(|axis| counts[axis] * if axis < leading { 1 } else { x[0].shape[axis - leading] })
                    .collect();
                Array::from_fn(&shape, |at| {
                    let source_index: Vec<usize> =
                        (0..x[0].rank()).map(|axis| at[leading + axis] % x[0].shape[axis]).collect();
                    x[0].at(&source_index)
                })
            })
    };
    vec![
        roll(2, 0).shapes([&[5], &[7, 3], &[1], &[0, 2]]),
        roll(-9, 1).shapes([&[2, 7], &[2, 3, 3], &[2, 9]]),
        roll(0, 1).shapes([&[2, 5]]).rejects("roll: axis 2 on shape [4]", |device| {
            Tensor::zeros([4], F32, device)?.roll(1, 2)
        }),
        repeat(&[3]).shapes([&[], &[1], &[13]]),
        repeat(&[2, 3]).shapes([&[4], &[2, 5], &[1, 1], &[0, 2]]).rejects(
            "repeat: counts [2] for shape [4, 3]",
            |device| Tensor::zeros([4, 3], F32, device)?.repeat(&[2]),
        ),
        repeat(&[2, 1, 3]).shapes([&[2, 3, 2], &[3, 2]]),
        repeat(&[0, 2]).shapes([&[2, 3]]),
        repeat(&[1, 2, 1, 1, 1, 1, 1, 2]).shapes([&[1, 2, 1, 1, 1, 1, 1, 3]]),
    ]
}
