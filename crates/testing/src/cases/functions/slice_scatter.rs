//! Rows of slices that replace parts of a tensor, and of elements by strides.

use crate::prelude::*;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    [vec![strided(), strided_scatter()], selects(), slices(), diagonals()].concat()
}

/// Returns `x` with each element of `source` written to the index that `index_of` returns for its
/// index in `source`.
fn scatter_slice(x: &Array, source: &Array, index_of: impl Fn(&[usize]) -> Vec<usize>) -> Array {
    let mut result = x.clone();
    Array::from_fn(&source.shape, |at| {
        *result.at_mut(&index_of(at)) = source.at(at);
        0.0
    });
    result
}

fn strided() -> OpCase {
    OpCase::new("as_strided", "[3,4] by [2,1] from 1")
        .input(Distinct)
        .shapes([&[9], &[3, 5]])
        .also(INTEGERS)
        .also(BOOL)
        // Some elements occur twice: their gradients are sums.
        .f32_limit(1e-6, 2e-6)
        .double_backward()
        .run(|x| x[0].as_strided(&[3, 4], &[2, 1], 1))
        .oracle(|x| Array::from_fn(&[3, 4], |at| x[0].data[1 + 2 * at[0] + at[1]]))
        .rejects("as_strided: size [3], strides [4] and offset 1 reach beyond 9 elements", |device| {
            Tensor::zeros([9], F32, device)?.as_strided(&[3], &[4], 1)
        })
        .rejects("as_strided: size [2], strides [18446744073709551615] and offset 1 reach beyond 9 elements", |device| {
            Tensor::zeros([9], F32, device)?.as_strided(&[2], &[usize::MAX], 1)
        })
        .rejects("as_strided: 1 strides for 2 sizes", |device| {
            Tensor::zeros([9], F32, device)?.as_strided(&[3, 1], &[1], 0)
        })
}

fn strided_scatter() -> OpCase {
    OpCase::new("as_strided_scatter", "[2,3] by [4,1] from 1")
        .input(Distinct)
        .input(Uniform(-3.0, 3.0))
        .on([&[9], &[2, 3]])
        .on([&[3, 4], &[2, 3]])
        .also(INTEGERS)
        .exact()
        .double_backward()
        .run(|x| x[0].as_strided_scatter(&x[1], &[2, 3], &[4, 1], 1))
        .oracle(|x| {
            let mut result = x[0].clone();
            for (number, value) in x[1].data.iter().enumerate() {
                result.data[1 + 4 * (number / 3) + number % 3] = *value;
            }
            result
        })
        .rejects("as_strided_scatter: source has shape [3], expected [2]", |device| {
            let x = Tensor::zeros([3], F32, device)?;
            x.as_strided_scatter(&x, &[2], &[1], 0)
        })
}

fn row(op: &'static str, parameters: impl Into<String>) -> OpCase {
    OpCase::new(op, parameters).input(Distinct).input(Uniform(-3.0, 3.0)).also(INTEGERS).also(BOOL).exact().double_backward()
}

fn selects() -> Vec<OpCase> {
    vec![
        row("select_scatter", "axis=1 index=-2")
            .on([&[3, 5], &[3]])
            .on([&[2, 3, 4], &[2, 4]])
            .on([&[0, 3], &[0]])
            .run(|x| x[0].select_scatter(&x[1], 1, -2))
            .oracle(|x| {
                let size = x[0].shape[1];
                scatter_slice(&x[0], &x[1], |at| [&at[..1], &[size - 2], &at[1..]].concat())
            })
            .rejects("select_scatter: index 3 is out of range for size 3", |device| {
                Tensor::zeros([3], F32, device)?.select_scatter(&Tensor::zeros((), F32, device)?, 0, 3)
            })
            .rejects("select_scatter: source has shape [2], expected [3]", |device| {
                Tensor::zeros([4, 3], F32, device)?.select_scatter(&Tensor::zeros([2], F32, device)?, 0, -4)
            }),
    ]
}

fn slices() -> Vec<OpCase> {
    vec![
        row("slice_scatter", "axis=0 1::2")
            .on([&[7], &[3]])
            .on([&[4, 3], &[2, 3]])
            .run(|x| x[0].slice_scatter(&x[1], 0, [Some(1), None], 2))
            .oracle(|x| scatter_slice(&x[0], &x[1], |at| [&[1 + 2 * at[0]], &at[1..]].concat()))
            .rejects("slice_scatter: a step of 0, expected at least 1", |device| {
                let x = Tensor::zeros([3], F32, device)?;
                x.slice_scatter(&x, 0, [None, None], 0)
            })
            .rejects("slice_scatter: dtypes f32 and f64 differ; cast one of them with to_dtype", |device| {
                let x = Tensor::zeros([3], F32, device)?;
                x.slice_scatter(&x.to_dtype(F64)?, 0, [None, None], 1)
            }),
        row("slice_scatter", "axis=1 -4:-1")
            .on([&[2, 6], &[2, 3]])
            .run(|x| x[0].slice_scatter(&x[1], 1, [Some(-4), Some(-1)], 1))
            .oracle(|x| scatter_slice(&x[0], &x[1], |at| vec![at[0], at[1] + 2])),
        row("slice_scatter", "nothing, 5:2")
            .on([&[6], &[0]])
            .run(|x| x[0].slice_scatter(&x[1], 0, [Some(5), Some(2)], 1))
            .oracle(|x| x[0].clone()),
    ]
}

fn diagonals() -> Vec<OpCase> {
    let case = |offset: isize| {
        row("diagonal_scatter", format!("offset={offset} axes=0,1"))
            .run(move |x| x[0].diagonal_scatter(&x[1], offset, 0, 1))
            .oracle(move |x| {
                let (below, above) = (offset.min(0).unsigned_abs(), offset.max(0) as usize);
                scatter_slice(&x[0], &x[1], |at| {
                    let position = at[at.len() - 1];
                    [&[position + below, position + above], &at[..at.len() - 1]].concat()
                })
            })
    };
    vec![
        case(0)
            .on([&[3, 3], &[3]])
            .on([&[3, 5, 2], &[2, 3]])
            .rejects("diagonal_scatter: axes 1 and 1, expected two", |device| {
                let x = Tensor::zeros([3, 3], F32, device)?;
                x.diagonal_scatter(&x, 0, 1, 1)
            })
            .rejects("diagonal_scatter: source has shape [2], expected [3]", |device| {
                Tensor::zeros([3, 4], F32, device)?.diagonal_scatter(&Tensor::zeros([2], F32, device)?, 0, 0, 1)
            }),
        case(2).on([&[3, 5], &[3]]).on([&[4, 4], &[2]]),
        case(-1).on([&[3, 5], &[2]]),
        case(9).on([&[3, 5], &[0]]),
    ]
}
