//! Rows of block matrices.

use crate::cases::unary::wrap;
use crate::prelude::*;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    vec![diagonal(), kron()]
}

fn diagonal() -> OpCase {
    OpCase::new("block_diag", "")
        .input(Uniform(-4.0, 4.0))
        .input(Uniform(-4.0, 4.0))
        .input(Uniform(-4.0, 4.0))
        .on([&[2, 3], &[1, 4], &[3, 2]])
        .on([&[], &[3], &[2, 2]])
        .on([&[0, 2], &[2, 0], &[1, 3]])
        .on([&[0], &[1], &[0, 0]])
        .also(INTEGERS)
        .also(BOOL)
        .exact()
        .double_backward()
        .run(|x| Tensor::block_diag(&x.iter().collect::<Vec<_>>()))
        .oracle(|x| {
            let matrix = |x: &Array| match x.shape[..] {
                [] => x.reshape(&[1, 1]),
                [n] => x.reshape(&[1, n]),
                _ => x.clone(),
            };
            let blocks: Vec<Array> = x.iter().map(matrix).collect();
            let size = |axis: usize| blocks.iter().map(|block| block.shape[axis]).sum();
            let mut result = Array::zeros(&[size(0), size(1)]);
            let mut corner = [0, 0];
            for block in &blocks {
                Array::from_fn(&block.shape, |at| {
                    *result.at_mut(&[corner[0] + at[0], corner[1] + at[1]]) = block.at(at);
                    0.0
                });
                corner = [corner[0] + block.shape[0], corner[1] + block.shape[1]];
            }
            result
        })
        .rejects("block_diag: expected at least 1 tensor, got 0", |_| Tensor::block_diag(&[]))
        .rejects("block_diag: expected at most 2 axes, got shape [1, 1, 1]", |device| {
            Tensor::block_diag(&[&Tensor::zeros([1, 1, 1], F32, device)?])
        })
        .rejects("block_diag: dtypes f32 and f64 differ; cast one of them with to_dtype", |device| {
            Tensor::block_diag(&[&Tensor::zeros([1], F32, device)?, &Tensor::zeros([1], F64, device)?])
        })
}

fn kron() -> OpCase {
    OpCase::new("kron", "")
        .input(Uniform(-4.0, 4.0))
        .input(Uniform(-4.0, 4.0))
        .on([&[2, 3], &[4, 5]])
        .on([&[], &[3]])
        .on([&[3], &[2, 2]])
        .on([&[2, 0], &[3, 3]])
        .on([&[2, 1, 3, 2], &[2, 3]])
        .also(INTEGERS)
        .also(BOOL)
        .double_backward()
        .run(|x| x[0].kron(&x[1]))
        .oracle_for(|dtype, x| {
            let rank = x[0].rank().max(x[1].rank());
            let with_leading_axes = |x: &Array| x.reshape(&[&vec![1; rank - x.rank()][..], &x.shape].concat());
            let (a, b) = (with_leading_axes(&x[0]), with_leading_axes(&x[1]));
            let shape: Vec<usize> = a.shape.iter().zip(&b.shape).map(|(a, b)| a * b).collect();
            Array::from_fn(&shape, |at| {
                let of_a: Vec<usize> = at.iter().zip(&b.shape).map(|(at, size)| at / size).collect();
                let of_b: Vec<usize> = at.iter().zip(&b.shape).map(|(at, size)| at % size).collect();
                wrap(dtype, a.at(&of_a) * b.at(&of_b))
            })
        })
        .rejects("kron: expected at most 4 axes, got shape [1, 1, 1, 1, 1]", |device| {
            Tensor::zeros([2], F32, device)?.kron(&Tensor::zeros([1, 1, 1, 1, 1], F32, device)?)
        })
        .rejects("kron: dtypes f32 and f64 differ; cast one of them with to_dtype", |device| {
            Tensor::zeros([2], F32, device)?.kron(&Tensor::zeros([2], F64, device)?)
        })
}
