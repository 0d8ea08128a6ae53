//! Rows of powers, exponentials and products.

use super::oracles::{Matrix, each_matrix, exp, identity, inverse, product};
use super::{row, spread, tensor, zeros};
use crate::oracle;
use crate::prelude::*;
use ternion_linalg as linalg;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    [powers(), chains(), vectors(), vandermonde()].concat()
}

fn power(matrix: &Matrix, n: i64) -> Matrix {
    let base = if n < 0 { inverse(matrix) } else { matrix.clone() };
    (0..n.abs()).fold(identity(matrix.len()), |power, _| product(&power, &base, matrix.len()))
}

fn powers() -> Vec<OpCase> {
    let mut rows: Vec<OpCase> = [3i64, 7, -1, -2]
        .into_iter()
        .map(|n| {
            row("linalg.matrix_power", &format!("n={n}"))
                .input(if n < 0 { spread() } else { Uniform(-1.0, 1.0) })
                .shapes([&[0, 0], &[1, 1], &[4, 4], &[2, 3, 3]])
                .double_backward()
                .run(move |x| linalg::matrix_power(&x[0], n))
                .oracle(move |x| each_matrix(&x[0], [x[0].shape[x[0].rank() - 1]; 2], |matrix| power(matrix, n)))
        })
        .collect();
    rows.extend([
        OpCase::new("linalg.matrix_power", "n=0")
            .input(Uniform(-1.0, 1.0))
            .shapes([&[3, 3], &[2, 2, 2]])
            .also(INTEGERS)
            .exact()
            .run(|x| linalg::matrix_power(&x[0], 0))
            .oracle(|x| each_matrix(&x[0], [x[0].shape[x[0].rank() - 1]; 2], |matrix| identity(matrix.len())))
            .rejects("linalg.matrix_power: the matrix is singular", |device| {
                linalg::matrix_power(&zeros(&[2, 2], device)?, -1)
            })
            .rejects("linalg.matrix_power: input is i64, expected f32 or f64", |device| {
                linalg::matrix_power(&Tensor::ones([2, 2], I64, device)?, -1)
            })
            .rejects("linalg.matrix_power: matrices of 2 x 3, expected square ones", |device| {
                linalg::matrix_power(&zeros(&[2, 3], device)?, 2)
            }),
        OpCase::new("linalg.matrix_exp", "")
            .input(Uniform(-1.0, 1.0))
            .shapes([&[0, 0], &[1, 1], &[2, 2], &[4, 4], &[2, 3, 3], &[0, 2, 2]])
            .double_backward()
            .run(|x| linalg::matrix_exp(&x[0]))
            .oracle(|x| each_matrix(&x[0], [x[0].shape[x[0].rank() - 1]; 2], exp))
            .adversarial("zeros", [Array::zeros(&[3, 3])])
            .adversarial("nilpotent", [Array::new(&[2, 2], vec![0.0, 300.0, 0.0, 0.0])])
            .rejects("linalg.matrix_exp: matrices of 2 x 3, expected square ones", |device| {
                linalg::matrix_exp(&zeros(&[2, 3], device)?)
            })
            .rejects("linalg.matrix_exp: input is u8, expected a floating dtype", |device| {
                linalg::matrix_exp(&Tensor::zeros([2, 2], U8, device)?)
            }),
        // Matrices of one batch with different scalings: rotations by several quarter turns and
        // small ones.
        row("linalg.matrix_exp", "scaled")
            .input(Fixed(vec![0.0, 5.0, -5.0, 0.0, 0.1, 0.2, -0.3, 0.1]))
            .shapes([&[2, 2, 2]])
            .run(|x| linalg::matrix_exp(&x[0]))
            .oracle(|x| each_matrix(&x[0], [2, 2], exp)),
    ]);
    rows
}

fn chains() -> Vec<OpCase> {
    vec![
        row("linalg.multi_dot", "")
            .input(Uniform(-1.0, 1.0))
            .input(Uniform(-1.0, 1.0))
            .input(Uniform(-1.0, 1.0))
            .on([&[2, 7], &[7, 3], &[3, 5]])
            .on([&[5, 1], &[1, 6], &[6, 2]])
            .on([&[5], &[5, 6], &[6, 2]])
            .on([&[3, 5], &[5, 2], &[2]])
            .on([&[3], &[3, 2], &[2]])
            .on([&[3, 0], &[0, 2], &[2, 2]])
            .double_backward()
            .run(|x| linalg::multi_dot(&[&x[0], &x[1], &x[2]]))
            .oracle(|x| {
                let first = if x[0].rank() == 1 { x[0].reshape(&[1, x[0].elements()]) } else { x[0].clone() };
                let last = if x[2].rank() == 1 { x[2].reshape(&[x[2].elements(), 1]) } else { x[2].clone() };
                let product = oracle::matmul(&oracle::matmul(&first, &x[1]), &last);
                let mut shape = product.shape.clone();
                if x[2].rank() == 1 {
                    shape.remove(1);
                }
                if x[0].rank() == 1 {
                    shape.remove(0);
                }
                product.reshape(&shape)
            })
            .rejects("linalg.multi_dot: 1 tensors, expected at least 2", |device| {
                linalg::multi_dot(&[&zeros(&[2, 2], device)?])
            })
            .rejects("linalg.multi_dot: [2, 2] x [3, 2]: inner sizes differ", |device| {
                linalg::multi_dot(&[&zeros(&[2, 2], device)?, &zeros(&[3, 2], device)?])
            })
            .rejects(
                "linalg.multi_dot: expected 2 (of the first and the last, 1 or 2) axes, got shape [2, 2, 2]",
                |device| linalg::multi_dot(&[&zeros(&[2, 2, 2], device)?, &zeros(&[2, 2], device)?]),
            ),
    ]
}

fn vectors() -> Vec<OpCase> {
    vec![
        OpCase::new("linalg.cross", "dim=-1")
            .input(Uniform(-2.0, 2.0))
            .input(Uniform(-2.0, 2.0))
            .on([&[3], &[3]])
            .on([&[5, 3], &[5, 3]])
            .on([&[2, 1, 3], &[1, 4, 3]])
            .on([&[0, 3], &[0, 3]])
            .also(&[I32, I64])
            .double_backward()
            .run(|x| linalg::cross(&x[0], &x[1], -1))
            .oracle(|x| {
                let shape = crate::array::broadcast_shape(&x[0].shape, &x[1].shape);
                let (a, b) = (x[0].expand(&shape), x[1].expand(&shape));
                Array::from_fn(&shape, |index| {
                    let at = |from: &Array, k: usize| {
                        let mut other = index.to_vec();
                        other[index.len() - 1] = (index[index.len() - 1] + k) % 3;
                        from.at(&other)
                    };
                    at(&a, 1) * at(&b, 2) - at(&a, 2) * at(&b, 1)
                })
            })
            .rejects("linalg.cross: shapes [2] and [2], expected size 3 along axis 0", |device| {
                linalg::cross(&zeros(&[2], device)?, &zeros(&[2], device)?, 0)
            })
            .rejects("linalg.cross: shapes [3] and [1, 3] differ in their ranks", |device| {
                linalg::cross(&zeros(&[3], device)?, &zeros(&[1, 3], device)?, -1)
            }),
        OpCase::new("linalg.vecdot", "dim=-1")
            .input(Uniform(-1.0, 1.0))
            .input(Uniform(-1.0, 1.0))
            .on([&[5], &[5]])
            .on([&[3, 5], &[3, 5]])
            .on([&[2, 1, 4], &[3, 4]])
            .on([&[3, 0], &[3, 0]])
            .double_backward()
            .run(|x| linalg::vecdot(&x[0], &x[1], -1))
            .oracle(|x| {
                let products = x[0].zip(&x[1], |a, b| a * b);
                products.reduce(&[products.rank() - 1], Keep::No, |slice| slice.iter().sum())
            })
            .rejects("linalg.vecdot: input is i64, expected a floating dtype", |device| {
                linalg::vecdot(&Tensor::ones([2], I64, device)?, &Tensor::ones([2], I64, device)?, -1)
            })
            .rejects("linalg.vecdot: shapes [2] and [3] do not broadcast", |device| {
                linalg::vecdot(&zeros(&[2], device)?, &zeros(&[3], device)?, -1)
            }),
    ]
}

fn vandermonde() -> Vec<OpCase> {
    vec![
        OpCase::new("linalg.vander", "")
            .input(Uniform(-1.5, 1.5))
            .shapes([&[4], &[2, 3]])
            .also(INTEGERS)
            .double_backward()
            .run(|x| linalg::vander(&x[0], None))
            .oracle(|x| {
                let columns = x[0].shape[x[0].rank() - 1];
                let shape = [&x[0].shape[..], &[columns]].concat();
                Array::from_fn(&shape, |index| x[0].at(&index[..x[0].rank()]).powi(index[x[0].rank()] as i32))
            })
            .rejects("linalg.vander: 0 columns, expected at least 1", |device| {
                linalg::vander(&tensor(&[1], &[1.0], device)?, Some(0))
            })
            .rejects("linalg.vander: expected at least 1 axes, got shape []", |device| {
                linalg::vander(&zeros(&[], device)?, None)
            }),
        OpCase::new("linalg.vander", "columns=1")
            .input(Uniform(-1.5, 1.5))
            .shapes([&[3], &[0]])
            .also(INTEGERS)
            .forward_only("it depends on nothing")
            .run(|x| linalg::vander(&x[0], Some(1)))
            .oracle(|x| Array::full(&[x[0].shape[0], 1], 1.0)),
        OpCase::new("linalg.vander", "columns=7")
            .input(Uniform(-1.5, 1.5))
            .shapes([&[5], &[0]])
            .run(|x| linalg::vander(&x[0], Some(7)))
            .oracle(|x| {
                let shape = [x[0].shape[0], 7];
                Array::from_fn(&shape, |index| x[0].at(&index[..1]).powi(index[1] as i32))
            }),
    ]
}
