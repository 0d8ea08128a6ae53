//! Rows of tensor creation: constants, evenly spaced numbers, nested arrays, diagonals, triangles,
//! one-hot rows.

use crate::compare::round_to;
use crate::prelude::*;
use ternion_core::{Scalar, no_grad};

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    let mut rows = vec![full(), negative(), constants(), like(), fill_in_place(), large_integers()];
    rows.extend([
        iota(),
        iota_integers(),
        arange(),
        linspace(),
        linspace_of_integers(),
        linspace_ends(),
        logspace(),
        eye(),
        nested(),
        rejected(),
    ]);
    rows.extend(triangles());
    rows.push(one_hot());
    rows
}

const ALL: &[DType] = &DType::ALL;
const NUMBERS: &[DType] = &[F64, F32, F16, BF16, I64, I32, I16, I8, U64, U32, U16, U8];

/// A value whose upper bits do not fit a narrow dtype.
fn negative() -> OpCase {
    OpCase::new("fill", "value=-100")
        .on([])
        .dtypes(SIGNED)
        .run_on(|_, device, dtype| Tensor::full([3, 5], -100, dtype, device))
        .oracle(|_| Array::full(&[3, 5], -100.0))
}

fn full() -> OpCase {
    OpCase::new("fill", "value=3")
        .on([])
        .dtypes(ALL)
        .exact()
        .run_on(|_, device, dtype| {
            Ok(vec![
                Tensor::full((), 3, dtype, device)?,
                Tensor::full([7, 33], 3.0, dtype, device)?,
                Tensor::full([0, 3], 3, dtype, device)?,
                Tensor::full([2, 3, 5], true, dtype, device)?,
            ])
        })
        .oracle_for(|dtype, _| {
            let three = if dtype == Bool { 1.0 } else { 3.0 };
            vec![
                Array::scalar(three),
                Array::full(&[7, 33], three),
                Array::zeros(&[0, 3]),
                Array::full(&[2, 3, 5], 1.0),
            ]
        })
}

/// Numbers that floats round, infinities and NaN.
fn constants() -> OpCase {
    OpCase::new("fill", "special numbers")
        .on([])
        .exact()
        .run_on(|_, device, dtype| {
            [0.1, -0.0, 1e30, f64::NAN, f64::INFINITY, f64::NEG_INFINITY]
                .iter()
                .map(|&value| Tensor::full([3], value, dtype, device))
                .collect::<Result<Vec<_>>>()
        })
        .oracle_for(|dtype, _| {
            [0.1, -0.0, 1e30, f64::NAN, f64::INFINITY, f64::NEG_INFINITY]
                .iter()
                .map(|&value| Array::full(&[3], round_to(dtype, value)))
                .collect::<Vec<_>>()
        })
}

fn large_integers() -> OpCase {
    OpCase::new("fill", "large integers")
        .on([])
        .dtypes(&[I64])
        .run_on(|_, device, dtype| {
            // 2^62 + 1 is not representable in float64: the difference of two such numbers shows
            // whether it was kept.
            let exact = Tensor::full([2], (1i64 << 62) + 1, dtype, device)?;
            exact.sub_scalar(1i64 << 62)
        })
        .oracle(|_| Array::full(&[2], 1.0))
}

fn like() -> OpCase {
    OpCase::new("fill", "like another tensor")
        .input(Integers(-3, 3))
        .shapes([&[], &[0, 3], &[7, 33]])
        .also(INTEGERS)
        .also(UNSIGNED)
        .also(BOOL)
        .forward_only("constants")
        .run(|x| Ok(vec![x[0].zeros_like()?, x[0].ones_like()?, x[0].full_like(1.0)?]))
        .oracle(|x| vec![x[0].map(|_| 0.0), x[0].map(|_| 1.0), x[0].map(|_| 1.0)])
}

fn fill_in_place() -> OpCase {
    OpCase::new("fill", "in place, a slice")
        .input(Integers(-3, 3))
        .shapes([&[5, 7]])
        .also(INTEGERS)
        .also(UNSIGNED)
        .exact()
        .forward_only("changes a tensor in place")
        .run(|x| {
            no_grad(|| {
                let y = x[0].detach().t()?.copy()?.t()?;
                y.narrow(0, 1, 3)?.slice_axis(1, 5, -1, -2)?.fill_(9)?;
                Ok(y)
            })
        })
        .oracle(|x| {
            Array::from_fn(&x[0].shape, |at| match (at[0], at[1]) {
                (1..=3, 1 | 3 | 5) => 9.0,
                _ => x[0].at(at),
            })
        })
}

fn iota() -> OpCase {
    OpCase::new("iota", "start=-1.5 step=0.1")
        .on([])
        .run_on(|_, device, dtype| {
            Ok(vec![Tensor::iota(37, dtype, -1.5, 0.1, device)?, Tensor::iota(0, dtype, 1.0, 1.0, device)?])
        })
        .exact()
        .oracle_for(|dtype, _| {
            let at = |i: usize| round_to(dtype, -1.5 + i as f64 * 0.1);
            vec![Array::new(&[37], (0..37).map(at).collect()), Array::zeros(&[0])]
        })
        .rejects("iota: output is bool, expected a number", |device| Tensor::iota(3, Bool, 0, 1, device))
        .rejects("iota: 0.5 is not an integer, tensor is i32", |device| {
            Tensor::iota(3, I32, 0, 0.5, device)
        })
}

fn iota_integers() -> OpCase {
    // Five numbers. The last ones do not fit a narrow dtype, and wrap.
    let past_the_end = |dtype| match dtype {
        I8 => (100i64, 20i64),
        I16 => (32_700, 20),
        U16 => (65_500, 20),
        _ => (200, 20),
    };
    OpCase::new("iota", "integers")
        .on([])
        .dtypes(INTEGERS)
        .also(UNSIGNED)
        .run_on(move |_, device, dtype| {
            let (start, step) = past_the_end(dtype);
            let mut outputs =
                vec![Tensor::iota(33, dtype, 3, 7, device)?, Tensor::iota(5, dtype, start, step, device)?];
            if !dtype.is_unsigned() {
                outputs.push(Tensor::iota(9, dtype, 4, -3, device)?);
            }
            Ok(outputs)
        })
        .oracle_for(move |dtype, _| {
            let sequence = |count: usize, start: f64, step: f64| {
                let at = |i| super::unary::wrap(dtype, start + i as f64 * step);
                Array::new(&[count], (0..count).map(at).collect())
            };
            let (start, step) = past_the_end(dtype);
            let mut arrays = vec![sequence(33, 3.0, 7.0), sequence(5, start as f64, step as f64)];
            if !dtype.is_unsigned() {
                arrays.push(sequence(9, 4.0, -3.0));
            }
            arrays
        })
}

fn arange() -> OpCase {
    let bounds: [(f64, f64, f64); 5] =
        [(0.0, 5.0, 1.0), (2.0, 11.0, 3.0), (2.0, 12.0, 3.0), (7.0, 7.0, 1.0), (9.0, 1.0, -2.0)];
    OpCase::new("iota", "as arange")
        .on([])
        .dtypes(&[F64, F32, F16, BF16, I64, I32, I16, I8])
        .exact()
        .run_on(move |_, device, dtype| {
            bounds.iter().map(|&(a, b, s)| Tensor::arange(a, b, s, dtype, device)).collect::<Result<Vec<_>>>()
        })
        .oracle(move |_| {
            let list = |(start, end, step): (f64, f64, f64)| {
                let mut data = Vec::new();
                let mut value = start;
                while if step > 0.0 { value < end } else { value > end } {
                    data.push(value);
                    value += step;
                }
                Array::new(&[data.len()], data)
            };
            bounds.iter().map(|&bounds| list(bounds)).collect::<Vec<_>>()
        })
        .rejects("arange: from 0 to 5 by 0: the step is 0", |device| Tensor::arange(0, 5, 0, F32, device))
        .rejects("arange: from 0 to 5 by -1: the step leads away from the end", |device| {
            Tensor::arange(0, 5, -1, I32, device)
        })
        .rejects("arange: from 0 to inf by 1: a bound is not finite", |device| {
            Tensor::arange(0, f64::INFINITY, 1, F32, device)
        })
        .rejects("arange: from 0.0 to 1e300 by 1.0: too many elements", |device| {
            Tensor::arange(0.0, 1e300, 1.0, F32, device)
        })
        .rejects("arange: 0.5 is not an integer, tensor is i64", |device| {
            Tensor::arange(0, 5, 0.5, I64, device)
        })
        .rejects("arange: from 250 to 300 by 10: not all numbers fit u8", |device| {
            Tensor::arange(250, 300, 10, U8, device)
        })
        .rejects("arange: from 100 to 131 by 10: not all numbers fit i8", |device| {
            Tensor::arange(100, 131, 10, I8, device)
        })
        .rejects("arange: from 2147483640 to 2147483650 by 4: not all numbers fit i32", |device| {
            Tensor::arange(2147483640i64, 2147483650i64, 4, I32, device)
        })
        .rejects("arange: from 3 to -4 by -1: not all numbers fit u8", |device| {
            Tensor::arange(3, -4, -1, U8, device)
        })
        .rejects("arange: from 5 to -1 by -1: the step does not fit u8", |device| {
            Tensor::arange(5, -1, -1, U8, device)
        })
        .rejects("arange: output is bool, expected a number", |device| Tensor::arange(0, 2, 1, Bool, device))
}

fn linspace() -> OpCase {
    OpCase::new("iota", "as linspace")
        .on([])
        .run_on(|_, device, dtype| {
            Ok(vec![
                Tensor::linspace(0.0, 1.0, 7, dtype, device)?,
                Tensor::linspace(1.0, -0.3, 10, dtype, device)?,
                Tensor::linspace(2.0, 3.0, 1, dtype, device)?,
                Tensor::linspace(2.0, 3.0, 0, dtype, device)?,
            ])
        })
        .oracle_for(|_, _| {
            let sequence = |start: f64, end: f64, count: usize| {
                let at = |i: usize| start + (end - start) * i as f64 / (count - 1) as f64;
                Array::new(&[count], (0..count).map(at).collect())
            };
            vec![sequence(0.0, 1.0, 7), sequence(1.0, -0.3, 10), Array::full(&[1], 2.0), Array::zeros(&[0])]
        })
        .rejects("linspace: output is bool, expected a number", |device| Tensor::linspace(0.0, 1.0, 3, Bool, device))
}

/// With integer dtypes the end points are truncated first: from 4.9 to -3 the step is the same as
/// from 4 to -3.
fn linspace_of_integers() -> OpCase {
    OpCase::new("iota", "as linspace of integers")
        .on([])
        .dtypes(&[I64, I32, I16, I8])
        .exact()
        .run_on(|_, device, dtype| {
            Ok(vec![
                Tensor::linspace(4.9, -3.0, 8, dtype, device)?,
                Tensor::linspace(0.0, 10.9, 5, dtype, device)?,
                Tensor::linspace(7.5, 9.0, 1, dtype, device)?,
                Tensor::linspace(2.0, 3.0, 0, dtype, device)?,
            ])
        })
        .oracle_for(|_, _| {
            let all: [&[f64]; 4] =
                [&[4.0, 3.0, 2.0, 1.0, 0.0, -1.0, -2.0, -3.0], &[0.0, 2.0, 5.0, 7.0, 10.0], &[7.0], &[]];
            all.map(|numbers| Array::new(&[numbers.len()], numbers.to_vec())).to_vec()
        })
        .rejects("linspace: 300 does not fit u8", |device| Tensor::linspace(0.0, 300.7, 3, U8, device))
}

/// Powers of integers are exact.
fn logspace() -> OpCase {
    OpCase::new("logspace", "")
        .on([])
        .dtypes(NUMBERS)
        .exact()
        .run_on(|_, device, dtype| {
            Ok(vec![
                Tensor::logspace(0.0, 4.0, 5, 3.0, dtype, device)?,
                Tensor::logspace(2.0, 0.0, 3, 10.0, dtype, device)?,
                Tensor::logspace(6.0, 9.0, 1, 2.0, dtype, device)?,
                Tensor::logspace(0.0, 2.0, 0, 2.0, dtype, device)?,
                Tensor::logspace(0.0, if dtype.is_float() { 2.0 } else { 2.7 }, 3, 5.0, dtype, device)?,
            ])
        })
        .oracle_for(|_, _| {
            let all: [&[f64]; 5] =
                [&[1.0, 3.0, 9.0, 27.0, 81.0], &[100.0, 10.0, 1.0], &[64.0], &[], &[1.0, 5.0, 25.0]];
            all.map(|powers| Array::new(&[powers.len()], powers.to_vec())).to_vec()
        })
        .rejects("logspace: 1000 does not fit i8", |device| Tensor::logspace(0.0, 3.0, 4, 10.0, I8, device))
        .rejects("logspace: output is bool, expected a number", |device| {
            Tensor::logspace(0.0, 3.0, 4, 10.0, Bool, device)
        })
}

/// Both end points are exact: in float64 -0.5 + 4 * (1.1 / 4) would be 0.6000000000000001.
fn linspace_ends() -> OpCase {
    OpCase::new("iota", "as linspace, its ends")
        .on([])
        .exact()
        .run_on(|_, device, dtype| Tensor::linspace(-0.5, 0.6, 5, dtype, device)?.slice_axis(0, 0, 5, 4))
        .oracle_for(|dtype, _| Array::new(&[2], vec![-0.5, round_to(dtype, 0.6)]))
}

fn eye() -> OpCase {
    OpCase::new("copy", "as eye")
        .on([])
        .dtypes(ALL)
        .run_on(|_, device, dtype| {
            [0, 1, 5].iter().map(|&size| Tensor::eye(size, dtype, device)).collect::<Result<Vec<_>>>()
        })
        .oracle(|_| {
            let identity = |size: usize| Array::from_fn(&[size, size], |at| f64::from(at[0] == at[1]));
            vec![identity(0), identity(1), identity(5)]
        })
}

fn nested() -> OpCase {
    OpCase::new("new", "")
        .on([])
        .dtypes(&[F32])
        .exact()
        .run_on(|_, device, _| {
            let rows: Vec<Vec<f32>> = vec![vec![1.0, 2.0], vec![3.0, 4.0], vec![5.0, 6.0]];
            let slice: &[f32] = &[1.0, 2.0, 3.0];
            Ok(vec![
                Tensor::new(2.5f32, device)?,
                Tensor::new([1.0f32, 2.0, 3.0], device)?,
                Tensor::new(slice, device)?,
                Tensor::new([[1.0f32, 2.0], [3.0, 4.0], [5.0, 6.0]], device)?,
                Tensor::new(rows, device)?,
                Tensor::new([[[1i32, 2], [3, 4]]], device)?,
                Tensor::new([[[[true], [false]]]], device)?,
                Tensor::new(Vec::<f32>::new(), device)?,
                Tensor::new([[0u8; 3]; 0], device)?,
            ])
        })
        .oracle(|_| {
            let matrix = Array::new(&[3, 2], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
            let row = Array::new(&[3], vec![1.0, 2.0, 3.0]);
            vec![
                Array::scalar(2.5),
                row.clone(),
                row,
                matrix.clone(),
                matrix,
                Array::new(&[1, 2, 2], vec![1.0, 2.0, 3.0, 4.0]),
                Array::new(&[1, 1, 2, 1], vec![1.0, 0.0]),
                Array::zeros(&[0]),
                Array::zeros(&[0, 3]),
            ]
        })
        .rejects("new: row 1 has shape [1], row 0 has [2]", |device| {
            Tensor::new(vec![vec![1.0f32, 2.0], vec![3.0]], device)
        })
}

fn rejected() -> OpCase {
    OpCase::new("fill", "rejects")
        .on([])
        .run_on(|_, device, dtype| Tensor::ones([1], dtype, device))
        .oracle(|_| Array::full(&[1], 1.0))
        .rejects("fill: 0.5 is not an integer, tensor is i32", |device| {
            Tensor::full([2], 0.5, I32, device)
        })
        .rejects("fill: 256 does not fit u8", |device| Tensor::full([2], 256, U8, device))
        .rejects("fill: -1 does not fit u8", |device| Tensor::full([2], -1, U8, device))
        .rejects("fill: 65536 does not fit u16", |device| Tensor::full([2], 1 << 16, U16, device))
        .rejects("fill: 4294967296 does not fit u32", |device| Tensor::full([2], 1i64 << 32, U32, device))
        .rejects("fill: -1 does not fit u64", |device| Tensor::full([2], -1, U64, device))
        .rejects("fill: 1.8446744073709552e19 does not fit u64", |device| {
            Tensor::full([2], 2f64.powi(64), U64, device)
        })
        .rejects("fill: 9223372036854775808 does not fit i64", |device| {
            Tensor::full([2], 1u64 << 63, I64, device)
        })
        .rejects("fill: 128 does not fit i8", |device| Tensor::full([2], 128, I8, device))
        .rejects("fill: -32769 does not fit i16", |device| Tensor::full([2], -32769, I16, device))
        .rejects("fill: NaN is not an integer, tensor is i64", |device| {
            Tensor::full([2], f64::NAN, I64, device)
        })
        .rejects("fill: 9.223372036854776e18 does not fit i64", |device| {
            Tensor::full([2], 2f64.powi(63), I64, device)
        })
        .rejects("fill: 2147483648 does not fit i32", |device| {
            Tensor::zeros([2], I32, device)?.fill_(Scalar::Int(1 << 31))
        })
        .rejects("shape: [1, 1, 1, 1, 1, 1, 1, 1, 1] has 9 axes, at most 8 are possible", |device| {
            Tensor::zeros([1; 9], F32, device)
        })
}

fn triangles() -> Vec<OpCase> {
    [-3isize, -1, 0, 1, 9, isize::MIN, isize::MAX]
        .into_iter()
        .map(|diagonal| {
            OpCase::new("where", format!("as tril and triu, diagonal={diagonal}"))
                .input(Uniform(-2.0, 2.0))
                .shapes([&[1, 1], &[5, 7], &[7, 3], &[2, 3, 4, 5], &[3, 0]])
                .also(INTEGERS)
                .exact()
                .double_backward()
                .run(move |x| Ok(vec![x[0].tril(diagonal)?, x[0].triu(diagonal)?]))
                .oracle(move |x| {
                    let keep = |is_kept: fn(i128) -> bool| {
                        Array::from_fn(&x[0].shape, |at| {
                            let [.., row, column] = *at else { unreachable!("at least two axes") };
                            let above = column as i128 - row as i128 - diagonal as i128;
                            if is_kept(above) { x[0].at(at) } else { 0.0 }
                        })
                    };
                    vec![keep(|above| above <= 0), keep(|above| above >= 0)]
                })
                .rejects("tril: expected at least 2 axes, got shape [3]", |device| {
                    Tensor::zeros([3], F32, device)?.tril(0)
                })
        })
        .collect()
}

fn one_hot() -> OpCase {
    OpCase::new("scatter_set", "as one_hot")
        .input(Input::index(Integers(0, 4)))
        .shapes([&[], &[7], &[3, 5], &[0]])
        .dtypes(NUMBERS)
        .also(BOOL)
        .forward_only("classes have no gradient")
        .run_on(|x, _, dtype| x[0].one_hot(5, dtype))
        .oracle(|x| {
            let shape = [&x[0].shape[..], &[5]].concat();
            Array::from_fn(&shape, |at| {
                let (&class, outer) = at.split_last().expect("the axis of classes");
                f64::from(x[0].at(outer) == class as f64)
            })
        })
        .rejects("one_hot: index 5 is out of range for size 5", |device| {
            Tensor::new([1i64, 5], device)?.one_hot(5, F32)
        })
        .rejects("one_hot: index -1 is out of range for size 5", |device| {
            Tensor::new([1i32, -1], device)?.one_hot(5, F32)
        })
        .rejects("one_hot: input is f32, expected i32 or i64", |device| {
            Tensor::zeros([2], F32, device)?.one_hot(5, F32)
        })
}
