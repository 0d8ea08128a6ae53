//! Rows of norms and condition numbers.

use super::oracles::{Matrix, each, inverse, matrices, svd};
use super::{row, spread, tensor, zeros};
use crate::prelude::*;
use ternion_linalg as linalg;
use ternion_linalg::{MatrixNorm, NormOptions, VectorNormOptions};

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    [vectors(), of_matrices(), conditions(), normalized()].concat()
}

/// All orders except the infinite ones.
const ORDERS: [f64; 7] = [2.0, 1.0, 3.0, 0.5, 1.5, -1.0, -2.0];

/// Returns `(sum |x|^p)^(1/p)`.
fn p_norm(order: f64, x: &[f64]) -> f64 {
    let magnitudes = x.iter().map(|x| x.abs());
    match order {
        f64::INFINITY => magnitudes.fold(0.0, f64::max),
        f64::NEG_INFINITY => magnitudes.fold(f64::INFINITY, f64::min),
        0.0 => x.iter().filter(|x| **x != 0.0).count() as f64,
        order => magnitudes.map(|x| x.powf(order)).sum::<f64>().powf(1.0 / order),
    }
}

fn along(dim: &[isize], keepdim: bool) -> VectorNormOptions {
    VectorNormOptions { dim: Some(dim.to_vec()), keepdim, dtype: None }
}

/// The norms of these orders along axis 1.
fn of_orders(name: &str, orders: &'static [f64], values: impl Into<Input>) -> OpCase {
    OpCase::new("linalg.vector_norm", name)
        .input(values)
        .shapes([&[3, 5], &[2, 3, 2], &[0, 3], &[1, 1]])
        .run(|x| orders.iter().map(|&order| linalg::vector_norm(&x[0], order, &along(&[1], false))).collect::<Result<Vec<_>>>())
        .oracle(|x| orders.iter().map(|&order| x[0].reduce(&[1], Keep::No, |slice| p_norm(order, slice))).collect::<Vec<_>>())
}

/// The norms of all differences.
fn differences() -> OpCase {
    const ORDERS: [f64; 7] = [2.0, 1.0, 3.0, 0.5, -1.5, f64::INFINITY, f64::NEG_INFINITY];
    OpCase::new("dist", "")
        .input(Distinct)
        .input(Fixed(vec![9.5, -10.25, 8.5]))
        .shapes([&[], &[5], &[3, 7]])
        .on([&[3, 1], &[4]])
        .run(|x| ORDERS.iter().map(|&order| linalg::dist(&x[0], &x[1], order)).collect::<Result<Vec<_>>>())
        .oracle(|x| {
            let differences = x[0].zip(&x[1], |a, b| a - b);
            ORDERS.iter().map(|&order| Array::scalar(p_norm(order, &differences.data))).collect::<Vec<_>>()
        })
        .rejects("dist: shapes [2] and [3] do not broadcast", |device| {
            linalg::dist(&zeros(&[2], device)?, &zeros(&[3], device)?, 2.0)
        })
        .rejects("dist: dtypes f32 and f64 differ; cast one of them with to_dtype", |device| {
            linalg::dist(&Tensor::zeros([2], F32, device)?, &Tensor::zeros([2], F64, device)?, 2.0)
        })
        .rejects("dist: order NaN, expected a number", |device| {
            linalg::dist(&zeros(&[2], device)?, &zeros(&[2], device)?, f64::NAN)
        })
}

fn vectors() -> Vec<OpCase> {
    vec![
        differences(),
        of_orders("dim=1", &ORDERS, AwayFrom(0.25)).double_backward(),
        // Different magnitudes: the maximum and the minimum are unique.
        of_orders("infinite dim=1", &[f64::INFINITY, f64::NEG_INFINITY], Distinct),
        OpCase::new("linalg.vector_norm", "all keepdim")
            .input(AwayFrom(0.25))
            .shapes([&[], &[5], &[0], &[3, 7]])
            .run(|x| {
                let all = VectorNormOptions { keepdim: true, ..Default::default() };
                Ok((
                    linalg::vector_norm(&x[0], 2.0, &all)?,
                    linalg::vector_norm(&x[0], 0.0, &VectorNormOptions::default())?.detach(),
                ))
            })
            .differentiable_outputs(1)
            .oracle(|x| {
                let norm = Array::full(&vec![1; x[0].rank()], p_norm(2.0, &x[0].data));
                (norm, Array::scalar(p_norm(0.0, &x[0].data)))
            }),
        OpCase::new("linalg.vector_norm", "special")
            .input(AwayFrom(0.25))
            .shapes([&[3]])
            .forward_only("the other rows have gradients")
            .run(|x| {
                let norms = [2.0, 3.0, -1.0, f64::INFINITY, f64::NEG_INFINITY];
                norms.iter().map(|&order| linalg::vector_norm(&x[0], order, &Default::default())).collect::<Result<Vec<_>>>()
            })
            .oracle(|x| [2.0, 3.0, -1.0, f64::INFINITY, f64::NEG_INFINITY].map(|order| Array::scalar(p_norm(order, &x[0].data))).to_vec())
            .adversarial("zeros", [Array::new(&[3], vec![0.0, -0.0, 0.0])])
            .adversarial("one zero", [Array::new(&[3], vec![0.0, 2.0, -3.0])])
            .rejects("linalg.vector_norm: input is i64, expected a floating dtype", |device| {
                linalg::vector_norm(&Tensor::zeros([2], I64, device)?, 2.0, &Default::default())
            })
            .rejects("linalg.vector_norm: dtype f32 for an input of f64, expected one that holds its numbers", |device| {
                let options = VectorNormOptions { dtype: Some(F32), ..Default::default() };
                linalg::vector_norm(&Tensor::zeros([2], F64, device)?, 2.0, &options)
            })
            .rejects("linalg.vector_norm: axis 2 on shape [2]", |device| {
                linalg::vector_norm(&zeros(&[2], device)?, 2.0, &along(&[2], false))
            })
            .rejects("linalg.vector_norm: no elements along axes [0] of shape [0] for order inf", |device| {
                linalg::vector_norm(&zeros(&[0], device)?, f64::INFINITY, &Default::default())
            }),
        // Squares overflow and underflow; the norms do not.
        row("linalg.vector_norm", "extreme values")
            .input(AwayFrom(0.25))
            .shapes([&[3]])
            .run(|x| linalg::vector_norm(&x[0], 2.0, &Default::default()))
            .oracle(|x| Array::scalar(x[0].data.iter().fold(0.0, |norm: f64, x| norm.hypot(*x))))
            .adversarial("large", [Array::new(&[3], vec![3e30, -4e30, 0.0])])
            .adversarial("small", [Array::new(&[3], vec![3e-30, -4e-30, 0.0])])
            .adversarial("infinite", [Array::new(&[3], vec![f64::INFINITY, 1.0, 0.0])])
            .adversarial("nan", [Array::new(&[3], vec![f64::NAN, 1.0, 0.0])]),
    ]
}

const NORMS: [MatrixNorm; 8] = [
    MatrixNorm::Fro,
    MatrixNorm::Nuc,
    MatrixNorm::Order(1.0),
    MatrixNorm::Order(-1.0),
    MatrixNorm::Order(2.0),
    MatrixNorm::Order(-2.0),
    MatrixNorm::Order(f64::INFINITY),
    MatrixNorm::Order(f64::NEG_INFINITY),
];

fn norm_of(norm: MatrixNorm, matrix: &Matrix) -> f64 {
    let columns = matrix[0].len();
    let extreme = |values: Vec<f64>, order: f64| {
        values.into_iter().reduce(|x, y| if order > 0.0 { x.max(y) } else { x.min(y) }).unwrap_or(f64::NAN)
    };
    let sum = |values: Vec<f64>| values.iter().map(|x| x.abs()).sum::<f64>();
    match norm {
        MatrixNorm::Fro => p_norm(2.0, &matrix.concat()),
        MatrixNorm::Nuc => svd(matrix, columns).1.iter().sum(),
        MatrixNorm::Order(order) if order.abs() == 2.0 => extreme(svd(matrix, columns).1, order),
        MatrixNorm::Order(order) if order.abs() == 1.0 => {
            let column = |j: usize| matrix.iter().map(|row| row[j]).collect();
            extreme((0..columns).map(|j| sum(column(j))).collect(), order)
        }
        MatrixNorm::Order(order) => extreme(matrix.iter().map(|row| sum(row.clone())).collect(), order),
    }
}

/// Norms that are a maximum or a sum, and so exist for matrices without elements.
const LARGEST: [MatrixNorm; 5] =
    [MatrixNorm::Fro, MatrixNorm::Nuc, MatrixNorm::Order(1.0), MatrixNorm::Order(2.0), MatrixNorm::Order(f64::INFINITY)];
/// Norms that are a minimum.
const SMALLEST: [MatrixNorm; 3] =
    [MatrixNorm::Order(-1.0), MatrixNorm::Order(-2.0), MatrixNorm::Order(f64::NEG_INFINITY)];

fn norms_of(x: &Tensor, norms: &[MatrixNorm]) -> Result<Vec<Tensor>> {
    norms.iter().map(|&norm| linalg::matrix_norm(x, norm, &NormOptions::default())).collect()
}

fn of_matrices() -> Vec<OpCase> {
    let case = |name: &str, norms: &'static [MatrixNorm]| {
        row("linalg.matrix_norm", name)
            .input(spread())
            .shapes([&[1, 1], &[4, 4], &[4, 3], &[2, 2, 3], &[0, 2, 2]])
            .run(|x| norms_of(&x[0], norms))
            .oracle(|x| {
                let norm_of_each = |&norm: &MatrixNorm| each(&x[0], &[], |matrix| vec![norm_of(norm, matrix)]);
                norms.iter().map(norm_of_each).collect::<Vec<_>>()
            })
    };
    vec![
        case("largest", &LARGEST),
        case("smallest", &SMALLEST),
        row("linalg.matrix_norm", "no elements")
            .input(spread())
            .shapes([&[0, 3], &[3, 0], &[2, 0, 1]])
            .run(|x| norms_of(&x[0], &LARGEST))
            .oracle(|x| vec![Array::zeros(&x[0].shape[..x[0].rank() - 2]); 5]),
        row("linalg.matrix_norm", "dim=(2, 0) keepdim")
            .input(spread())
            .shapes([&[3, 2, 4]])
            .run(|x| {
                let options = NormOptions { dim: [2, 0], keepdim: true, dtype: None };
                NORMS.iter().map(|&norm| linalg::matrix_norm(&x[0], norm, &options)).collect::<Result<Vec<_>>>()
            })
            .oracle(|x| {
                let moved = x[0].permute(&[1, 2, 0]);
                let norm_of_each = |norm| each(&moved, &[], |matrix| vec![norm_of(norm, matrix)]).reshape(&[1, 2, 1]);
                NORMS.map(norm_of_each).to_vec()
            })
            .rejects("linalg.matrix_norm: order 3, expected fro, nuc, 1, -1, 2, -2, inf or -inf", |device| {
                linalg::matrix_norm(&zeros(&[2, 2], device)?, MatrixNorm::Order(3.0), &Default::default())
            })
            .rejects("linalg.matrix_norm: axes [0, -2] of shape [2, 2] are the same", |device| {
                let options = NormOptions { dim: [0, -2], ..Default::default() };
                linalg::matrix_norm(&zeros(&[2, 2], device)?, MatrixNorm::Fro, &options)
            })
            .rejects("linalg.matrix_norm: expected at least 2 axes, got shape [2]", |device| {
                linalg::matrix_norm(&zeros(&[2], device)?, MatrixNorm::Fro, &Default::default())
            })
            .rejects(
                "linalg.matrix_norm: nothing to take the norm of order -2 of in matrices of 0 x 2",
                |device| linalg::matrix_norm(&zeros(&[0, 2], device)?, MatrixNorm::Order(-2.0), &Default::default()),
            ),
        row("linalg.norm", "")
            .input(spread())
            .shapes([&[3, 4]])
            .run(|x| {
                let one = MatrixNorm::Order(1.0);
                Ok(vec![
                    linalg::norm(&x[0], None, &Default::default())?,
                    linalg::norm(&x[0], Some(one), &Default::default())?,
                    linalg::norm(&x[0], Some(one), &along(&[0], false))?,
                    linalg::norm(&x[0], None, &along(&[1], true))?,
                ])
            })
            .oracle(|x| {
                let matrix = &matrices(&x[0])[0];
                vec![
                    Array::scalar(p_norm(2.0, &x[0].data)),
                    Array::scalar(norm_of(MatrixNorm::Order(1.0), matrix)),
                    x[0].reduce(&[0], Keep::No, |slice| p_norm(1.0, slice)),
                    x[0].reduce(&[1], Keep::Yes, |slice| p_norm(2.0, slice)),
                ]
            })
            .rejects("linalg.norm: norm over 3 axes, expected one axis of vectors or two of matrices", |device| {
                linalg::norm(&zeros(&[2, 2, 2], device)?, None, &along(&[0, 1, 2], false))
            })
            .rejects(
                "linalg.norm: norm Fro over 3 axes, expected one axis of vectors or two of matrices",
                |device| linalg::norm(&zeros(&[2, 2, 2], device)?, Some(MatrixNorm::Fro), &Default::default()),
            ),
    ]
}

fn conditions() -> Vec<OpCase> {
    vec![
        row("linalg.cond", "")
            .input(spread())
            .shapes([&[1, 1], &[3, 3], &[2, 2, 2]])
            .run(|x| NORMS.iter().map(|&norm| linalg::cond(&x[0], Some(norm))).collect::<Result<Vec<_>>>())
            .oracle(|x| {
                let condition = |norm| {
                    each(&x[0], &[], |matrix| vec![norm_of(norm, matrix) * norm_of(norm, &inverse(matrix))])
                };
                NORMS.map(condition).to_vec()
            }),
        row("linalg.cond", "no elements")
            .input(spread())
            .shapes([&[0, 0], &[2, 0, 0]])
            .forward_only("it depends on nothing")
            .run(|x| Ok((linalg::cond(&x[0], None)?, linalg::cond(&x[0], Some(MatrixNorm::Fro))?)))
            .oracle(|x| {
                let zeros = Array::zeros(&x[0].shape[..x[0].rank() - 2]);
                (zeros.clone(), zeros)
            }),
        row("linalg.cond", "singular")
            .input(Fixed(vec![1.0, 2.0, 2.0, 4.0]))
            .shapes([&[2, 2]])
            .forward_only("it is infinite")
            .run(|x| linalg::cond(&x[0], Some(MatrixNorm::Order(1.0))))
            .oracle(|_| Array::scalar(f64::INFINITY))
            .rejects("linalg.cond: matrices of 2 x 3, expected square ones", |device| {
                linalg::cond(&zeros(&[2, 3], device)?, Some(MatrixNorm::Fro))
            })
            .rejects("linalg.cond: the matrix has a NaN or an infinity", |device| {
                linalg::cond(&tensor(&[1, 1], &[f64::NAN], device)?, None)
            }),
    ]
}

/// Vectors along axis 1 divided by their norms, which are not close to `eps`.
fn normalized() -> Vec<OpCase> {
    // NaN is preserved.
    let at_least = |eps: f64, norm: f64| if norm < eps { eps } else { norm };
    let divided = move |x: &Array, order: f64, eps: f64| {
        let norms = x.reduce(&[1], Keep::Yes, |slice| at_least(eps, p_norm(order, slice)));
        x.zip(&norms, |x, norm| x / norm)
    };
    let row = |order: f64, eps: f64| {
        OpCase::new("normalize", format!("order={order} eps={eps}"))
            .input(AwayFrom(0.25))
            .shapes([&[3, 5], &[2, 3, 2], &[0, 3], &[1, 1]])
            .run(move |x| linalg::normalize(&x[0], order, 1, eps))
            .oracle(move |x| divided(&x[0], order, eps))
    };
    vec![
        row(2.0, 1e-12)
            .double_backward()
            .adversarial("not finite, zero, small and large", [Array::new(
                &[4, 2],
                vec![f64::NAN, 1.0, 0.0, 0.0, 1e-30, 1e-30, 60000.0, 60000.0],
            )])
            .rejects("normalize: axis 2 on shape [2, 2]", |device| linalg::normalize(&zeros(&[2, 2], device)?, 2.0, 2, 0.0))
            .rejects("normalize: input is i32, expected a floating dtype", |device| {
                linalg::normalize(&Tensor::zeros([2], I32, device)?, 2.0, 0, 0.0)
            }),
        row(3.0, 1e-12),
        // Larger than any norm.
        row(1.0, 64.0),
    ]
}
