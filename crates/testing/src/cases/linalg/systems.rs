//! Rows of determinants, inverses and linear systems.

use super::oracles::{Matrix, cholesky, each, each_matrix, eliminated, identity, inverse, matrices, pinv, positive};
use super::{positive as positive_tensor, row, spread, tensor, zeros};
use crate::prelude::*;
use ternion_linalg as linalg;
use ternion_linalg::TriangularOptions;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    [determinants(), inverses(), systems(), of_tensors(), triangular(), positive_definite(), least_squares()].concat()
}

fn size(x: &Array) -> usize {
    x.shape[x.rank() - 1]
}

fn determinant(matrix: &Matrix) -> f64 {
    eliminated(matrix, &identity(matrix.len())).1
}

fn determinants() -> Vec<OpCase> {
    vec![
        row("linalg.det", "")
            .input(Uniform(-1.0, 1.0))
            .shapes([&[1, 1], &[2, 2], &[4, 4], &[2, 3, 3], &[0, 3, 3]])
            .double_backward()
            .run(|x| linalg::det(&x[0]))
            .oracle(|x| each(&x[0], &[], |matrix| vec![determinant(matrix)]))
            .adversarial("nan", [Array::full(&[2, 2], f64::NAN)])
            .adversarial("rank 0", [Array::zeros(&[3, 3])])
            .rejects("linalg.det: matrices of 2 x 3, expected square ones", |device| {
                linalg::det(&zeros(&[2, 3], device)?)
            })
            .rejects("linalg.det: expected at least 2 axes, got shape [3]", |device| {
                linalg::det(&zeros(&[3], device)?)
            })
            .rejects("linalg.det: input is i64, expected f32 or f64", |device| {
                linalg::det(&Tensor::zeros([2, 2], I64, device)?)
            })
            .rejects("linalg.det: input is bf16, expected f32 or f64", |device| {
                linalg::det(&Tensor::zeros([2, 2], BF16, device)?)
            }),
        row("linalg.det", "no elements")
            .input(Uniform(-1.0, 1.0))
            .shapes([&[0, 0], &[2, 0, 0]])
            .run(|x| linalg::det(&x[0]))
            .oracle(|x| Array::full(&x[0].shape[..x[0].rank() - 2], 1.0)),
        // Matrices of rank 2, 1 and 0, which are eliminated without rounding: the gradient is that
        // of the cofactors.
        row("linalg.det", "singular")
            .input(Fixed(
                [[1, 2, 3, 0, 1, 4, 1, 3, 7], [1, 2, -1, 2, 4, -2, 4, 8, -4], [0; 9]].concat().into_iter().map(f64::from).collect(),
            ))
            .shapes([&[3, 3, 3]])
            .run(|x| linalg::det(&x[0]))
            .oracle(|x| each(&x[0], &[], |matrix| vec![determinant(matrix)])),
        row("linalg.slogdet", "")
            .input(spread())
            .shapes([&[0, 0], &[1, 1], &[5, 5], &[3, 4, 4], &[0, 3, 3]])
            .run(|x| linalg::slogdet(&x[0]))
            .oracle(|x| {
                let sign = each(&x[0], &[], |matrix| vec![determinant(matrix).signum()]);
                (sign, each(&x[0], &[], |matrix| vec![determinant(matrix).abs().ln()]))
            })
            .rejects("linalg.slogdet: matrices of 2 x 3, expected square ones", |device| {
                linalg::slogdet(&zeros(&[2, 3], device)?)
            }),
        row("linalg.slogdet", "logabsdet")
            .input(spread())
            .shapes([&[1, 1], &[5, 5], &[3, 4, 4]])
            .double_backward()
            .run(|x| Ok(linalg::slogdet(&x[0])?.1))
            .oracle(|x| each(&x[0], &[], |matrix| vec![determinant(matrix).abs().ln()])),
        row("logdet", "")
            .input(spread())
            .shapes([&[1, 1], &[5, 5], &[3, 4, 4]])
            .double_backward()
            .run(|x| linalg::logdet(&x[0]))
            .oracle(|x| each(&x[0], &[], |matrix| vec![determinant(matrix).ln()]))
            .adversarial("negative", [Array::new(&[2, 2], vec![0.0, 1.0, 1.0, 0.0])])
            .adversarial("singular", [Array::new(&[2, 2], vec![1.0, 2.0, 2.0, 4.0])]),
    ]
}

fn inverses() -> Vec<OpCase> {
    vec![
        row("linalg.inv", "")
            .input(spread())
            .shapes([&[0, 0], &[1, 1], &[2, 2], &[5, 5], &[2, 3, 4, 4], &[0, 3, 3]])
            .double_backward()
            .run(|x| linalg::inv(&x[0]))
            .oracle(|x| each_matrix(&x[0], [size(&x[0]); 2], inverse))
            .rejects("linalg.inv: the matrix is singular", |device| {
                linalg::inv(&tensor(&[2, 2], &[1.0, 2.0, 2.0, 4.0], device)?)
            })
            .rejects("linalg.inv: the matrix (of the batch element 1) is singular", |device| {
                linalg::inv(&tensor(&[2, 1, 1], &[1.0, 0.0], device)?)
            })
            .rejects("linalg.inv: matrices of 3 x 2, expected square ones", |device| {
                linalg::inv(&zeros(&[3, 2], device)?)
            })
            .rejects("linalg.inv: input is f16, expected f32 or f64", |device| {
                linalg::inv(&Tensor::zeros([2, 2], F16, device)?)
            }),
        row("linalg.inv_ex", "")
            .input(spread())
            .shapes([&[3, 3], &[2, 2, 2], &[2, 0, 0]])
            .differentiable_outputs(1)
            .run(|x| linalg::inv_ex(&x[0]))
            .oracle(|x| {
                let zeros = Array::zeros(&x[0].shape[..x[0].rank() - 2]);
                (each_matrix(&x[0], [size(&x[0]); 2], inverse), zeros)
            }),
        row("linalg.inv_ex", "singular")
            .input(Fixed(vec![1.0, 2.0, 2.0, 4.0, 2.0, 0.0, 0.0, 4.0]))
            .shapes([&[2, 2, 2]])
            .forward_only("that of a singular matrix is not finite")
            .run(|x| {
                let (inverse, info) = linalg::inv_ex(&x[0])?;
                Ok((inverse.select(0, 1)?, info))
            })
            .oracle(|_| (Array::new(&[2, 2], vec![0.5, 0.0, 0.0, 0.25]), Array::new(&[2], vec![2.0, 0.0]))),
    ]
}

fn systems() -> Vec<OpCase> {
    vec![
        row("linalg.solve_ex", "")
            .input(spread())
            .input(Uniform(-1.0, 1.0))
            .on([&[3, 3], &[3, 2]])
            .on([&[2, 1, 2, 2], &[3, 2, 1]])
            .on([&[2, 0, 0], &[2, 0, 3]])
            .differentiable_outputs(1)
            .run(|x| linalg::solve_ex(&x[0], &x[1], true))
            .oracle(|x| (solved(&x[0], &x[1]), Array::zeros(&x[0].shape[..x[0].rank() - 2]))),
        row("linalg.solve_ex", "singular")
            .input(Fixed(vec![1.0, 2.0, 2.0, 4.0, 2.0, 0.0, 0.0, 4.0]))
            .input(Fixed(vec![2.0, 4.0]))
            .on([&[2, 2, 2], &[2]])
            .forward_only("that of a singular matrix is not finite")
            .run(|x| {
                let (solution, info) = linalg::solve_ex(&x[0], &x[1], true)?;
                Ok((solution.select(0, 1)?, info))
            })
            .oracle(|_| (Array::new(&[2], vec![1.0, 1.0]), Array::new(&[2], vec![2.0, 0.0]))),
        solve_row("").on([&[0, 0], &[0, 2]]).on([&[5, 5], &[5, 3]]).on([&[3, 3], &[3, 0]]).double_backward(),
        solve_row("broadcast").on([&[2, 1, 3, 3], &[4, 3, 2]]).on([&[3, 3], &[2, 3, 1]]).double_backward(),
        row("linalg.solve", "vectors")
            .input(spread())
            .input(Uniform(-1.0, 1.0))
            .on([&[4, 4], &[4]])
            .on([&[3, 2, 2], &[3, 2]])
            .run(|x| linalg::solve(&x[0], &x[1], true))
            .oracle(|x| {
                let columns = x[1].reshape(&[x[1].shape.clone(), vec![1]].concat());
                solved(&x[0], &columns).reshape(&x[1].shape)
            }),
        row("linalg.solve", "left=false")
            .input(spread())
            .input(Uniform(-1.0, 1.0))
            .on([&[4, 4], &[3, 4]])
            .on([&[2, 3, 3], &[2, 1, 3]])
            .run(|x| linalg::solve(&x[0], &x[1], false))
            .oracle(|x| last_two_swapped(&solved(&last_two_swapped(&x[0]), &last_two_swapped(&x[1])))),
        row("linalg.lu_solve", "")
            .input(spread())
            .input(Uniform(-1.0, 1.0))
            .on([&[4, 4], &[4, 3]])
            .on([&[2, 3, 3], &[2, 3, 1]])
            .run(|x| {
                let (lu, pivots) = linalg::lu_factor(&x[0])?;
                let left = linalg::lu_solve(&lu, &pivots, &x[1], true, false)?;
                Ok((left, linalg::lu_solve(&lu, &pivots, &x[1], true, true)?))
            })
            .oracle(|x| (solved(&x[0], &x[1]), solved(&last_two_swapped(&x[0]), &x[1]))),
    ]
}

fn of_tensors() -> Vec<OpCase> {
    vec![
        row("linalg.tensorinv", "ind=2")
            .input(Values::custom(|_, _, rng| {
                (0..36).map(|at| rng.uniform(-1.0, 1.0) + if at % 7 == 0 { 4.0 } else { 0.0 }).collect()
            }))
            .shapes([&[2, 3, 6]])
            .run(|x| linalg::tensorinv(&x[0], 2))
            .oracle(|x| each_matrix(&x[0].reshape(&[6, 6]), [6, 6], inverse).reshape(&[6, 2, 3]))
            .rejects("linalg.tensorinv: ind 0 for shape [2, 2]", |device| {
                linalg::tensorinv(&zeros(&[2, 2], device)?, 0)
            }),
        row("linalg.tensorsolve", "")
            .input(Values::custom(|_, _, rng| {
                (0..36).map(|at| rng.uniform(-1.0, 1.0) + if at % 7 == 0 { 4.0 } else { 0.0 }).collect()
            }))
            .input(Uniform(-1.0, 1.0))
            .on([&[2, 3, 6], &[2, 3]])
            .run(|x| linalg::tensorsolve(&x[0], &x[1], None))
            .oracle(|x| solved(&x[0].reshape(&[6, 6]), &x[1].reshape(&[6, 1])).reshape(&[6]))
            .rejects(
                "linalg.tensorsolve: shapes [2, 3] and [2], expected as many equations as unknowns",
                |device| linalg::tensorsolve(&zeros(&[2, 3], device)?, &zeros(&[2], device)?, None),
            ),
    ]
}

fn last_two_swapped(x: &Array) -> Array {
    let mut order: Vec<usize> = (0..x.rank()).collect();
    order.swap(x.rank() - 2, x.rank() - 1);
    x.permute(&order)
}

/// Returns `a^-1 b`, with leading axes broadcast.
fn solved(a: &Array, b: &Array) -> Array {
    let outer = crate::array::broadcast_shape(&a.shape[..a.rank() - 2], &b.shape[..b.rank() - 2]);
    let expand = |x: &Array| x.expand(&[&outer, &x.shape[x.rank() - 2..]].concat());
    let (a, b) = (expand(a), expand(b));
    let x = matrices(&a).iter().zip(&matrices(&b)).flat_map(|(a, b)| eliminated(a, b).0.concat()).collect();
    Array::new(&b.shape, x)
}

fn solve_row(parameters: &str) -> OpCase {
    row("linalg.solve", parameters)
        .input(spread())
        .input(Uniform(-1.0, 1.0))
        .run(|x| linalg::solve(&x[0], &x[1], true))
        .oracle(|x| solved(&x[0], &x[1]))
        .rejects("linalg.solve: right sides of shape [3, 1] for matrices of 2 x 2", |device| {
            linalg::solve(&zeros(&[2, 2], device)?, &zeros(&[3, 1], device)?, true)
        })
        .rejects("linalg.solve: shapes [2] and [3] do not broadcast", |device| {
            linalg::solve(&zeros(&[2, 2, 2], device)?, &zeros(&[3, 2, 1], device)?, true)
        })
        .rejects("linalg.solve: dtypes f32 and f64 differ; cast one of them with to_dtype", |device| {
            linalg::solve(&zeros(&[2, 2], device)?, &Tensor::zeros([2, 1], F64, device)?, true)
        })
        .rejects("linalg.solve: the matrix is singular", |device| {
            linalg::solve(&zeros(&[2, 2], device)?, &zeros(&[2, 1], device)?, true)
        })
}

/// Returns one triangle of the matrices, with ones on the diagonal if `unit`.
fn triangle(x: &Array, options: TriangularOptions) -> Array {
    Array::from_fn(&x.shape, |index| {
        let [row, column] = [index[index.len() - 2], index[index.len() - 1]];
        match row == column {
            true if options.unitriangular => 1.0,
            true => x.at(index),
            false if (column > row) == options.upper => x.at(index),
            false => 0.0,
        }
    })
}

fn triangular() -> Vec<OpCase> {
    let mut rows = Vec::new();
    for [upper, left, unitriangular] in
        [[false, true, false], [true, true, false], [false, true, true], [true, false, false], [false, false, true]]
    {
        let options = TriangularOptions { upper, left, unitriangular };
        let shapes: [&[usize]; 2] = if left { [&[4, 4], &[4, 3]] } else { [&[4, 4], &[3, 4]] };
        let batched: [&[usize]; 2] = if left { [&[2, 3, 3], &[3, 2]] } else { [&[2, 3, 3], &[2, 3]] };
        rows.push(
            row("linalg.solve_triangular", &format!("upper={upper} left={left} unitriangular={unitriangular}"))
                .input(spread())
                .input(Uniform(-1.0, 1.0))
                .on(shapes)
                .on(batched)
                .on([&[0, 0], &[0, 0]])
                .double_backward()
                .run(move |x| linalg::solve_triangular(&x[0], &x[1], options))
                .oracle(move |x| {
                    let a = triangle(&x[0], options);
                    match left {
                        true => solved(&a, &x[1]),
                        false => last_two_swapped(&solved(&last_two_swapped(&a), &last_two_swapped(&x[1]))),
                    }
                })
                .rejects("linalg.solve_triangular: matrices of 2 x 3, expected square ones", move |device| {
                    linalg::solve_triangular(&zeros(&[2, 3], device)?, &zeros(&[2, 2], device)?, options)
                }),
        );
    }
    rows
}

fn positive_definite() -> Vec<OpCase> {
    vec![
        row("cholesky_solve", "")
            .input(Uniform(-1.0, 1.0))
            .input(spread())
            .on([&[4, 3], &[4, 4]])
            .run(|x| {
                let upper = x[1].transpose(-2, -1)?;
                Ok((linalg::cholesky_solve(&x[0], &x[1], false)?, linalg::cholesky_solve(&x[0], &upper, true)?))
            })
            .oracle(|x| {
                let lower = triangle(&x[1], TriangularOptions::default());
                let y = solved(&last_two_swapped(&lower), &solved(&lower, &x[0]));
                (y.clone(), y)
            }),
        row("cholesky_inverse", "")
            .input(Uniform(-1.0, 1.0))
            .shapes([&[0, 0], &[1, 1], &[4, 4], &[2, 3, 3]])
            .run(|x| linalg::cholesky_inverse(&linalg::cholesky(&positive_tensor(&x[0])?, false)?, false))
            .oracle(|x| each_matrix(&x[0], [size(&x[0]); 2], |matrix| inverse(&positive(matrix)))),
        row("linalg.cholesky", "")
            .input(Uniform(-1.0, 1.0))
            .shapes([&[0, 0], &[1, 1], &[5, 5], &[2, 3, 3], &[0, 2, 2]])
            .double_backward()
            .run(|x| linalg::cholesky(&positive_tensor(&x[0])?, false))
            .oracle(|x| each_matrix(&x[0], [size(&x[0]); 2], |matrix| cholesky(&positive(matrix))))
            .rejects(
                "linalg.cholesky: the matrix is not positive definite (the leading minor of order 2 is not)",
                |device| linalg::cholesky(&tensor(&[2, 2], &[1.0, 2.0, 2.0, 1.0], device)?, false),
            )
            .rejects(
                "linalg.cholesky: the matrix (of the batch element 1) is not positive definite (the leading minor of order 1 is not)",
                |device| linalg::cholesky(&tensor(&[2, 1, 1], &[1.0, f64::NAN], device)?, true),
            )
            .rejects("linalg.cholesky: matrices of 2 x 3, expected square ones", |device| {
                linalg::cholesky(&zeros(&[2, 3], device)?, false)
            }),
        row("linalg.cholesky_ex", "")
            .input(Fixed(vec![1.0, 2.0, 2.0, 1.0, 4.0, 2.0, 2.0, 10.0]))
            .shapes([&[2, 2, 2]])
            .forward_only("that of a matrix that is not positive definite is not finite")
            .run(|x| {
                let (lower, minors) = linalg::cholesky_ex(&x[0], false)?;
                let (upper, upper_minors) = linalg::cholesky_ex(&x[0], true)?;
                Ok(vec![lower, minors, upper, upper_minors])
            })
            .oracle(|_| {
                let nan = f64::NAN;
                let minors = Array::new(&[2], vec![2.0, 0.0]);
                let lower = Array::new(&[2, 2, 2], vec![nan, 0.0, nan, nan, 2.0, 0.0, 1.0, 3.0]);
                let upper = Array::new(&[2, 2, 2], vec![nan, nan, 0.0, nan, 2.0, 1.0, 0.0, 3.0]);
                vec![lower, minors.clone(), upper, minors]
            })
            .rejects("linalg.cholesky_ex: matrices of 2 x 3, expected square ones", |device| {
                linalg::cholesky_ex(&zeros(&[2, 3], device)?, false)
            }),
        row("linalg.cholesky", "upper")
            .input(Uniform(-1.0, 1.0))
            .shapes([&[4, 4], &[2, 3, 3]])
            .run(|x| linalg::cholesky(&positive_tensor(&x[0])?, true))
            .oracle(|x| {
                let lower = each_matrix(&x[0], [size(&x[0]); 2], |matrix| cholesky(&positive(matrix)));
                last_two_swapped(&lower)
            }),
    ]
}

fn least_squares() -> Vec<OpCase> {
    let pseudo_inverse = |x: &Array| {
        let [rows, columns] = [x.shape[x.rank() - 2], x.shape[x.rank() - 1]];
        each_matrix(x, [columns, rows], |matrix| pinv(matrix, columns))
    };
    vec![
        row("linalg.pinv", "")
            .input(spread())
            .shapes([&[4, 4], &[5, 3], &[3, 5], &[2, 3, 2], &[0, 3], &[3, 0]])
            .double_backward()
            .run(|x| linalg::pinv(&x[0], Default::default(), false))
            .oracle(move |x| match x[0].elements() {
                0 => Array::zeros(&[x[0].shape[1], x[0].shape[0]]),
                _ => pseudo_inverse(&x[0]),
            })
            .rejects("linalg.pinv: the matrix has a NaN or an infinity", |device| {
                linalg::pinv(&tensor(&[1, 2], &[1.0, f64::NAN], device)?, Default::default(), false)
            }),
        row("linalg.pinv", "hermitian")
            .input(Uniform(-1.0, 1.0))
            .shapes([&[4, 4], &[2, 3, 3]])
            .run(|x| linalg::pinv(&positive_tensor(&x[0])?, Default::default(), true))
            .oracle(|x| each_matrix(&x[0], [size(&x[0]); 2], |matrix| inverse(&positive(matrix)))),
        // The upper triangle is not read.
        row("linalg.pinv", "hermitian, lower triangle")
            .input(Uniform(-1.0, 1.0))
            .shapes([&[3, 3]])
            .run(|x| {
                let above = x[0].detach().full_like(7.0)?.triu(1)?;
                linalg::pinv(&positive_tensor(&x[0])?.add(&above)?, Default::default(), true)
            })
            .oracle(|x| each_matrix(&x[0], [size(&x[0]); 2], |matrix| inverse(&positive(matrix)))),
        // Rank 2: perturbed matrices have the same rank along the directions of the differences.
        row("linalg.pinv", "rank 2")
            .input(spread())
            .shapes([&[4, 2]])
            .run(|x| linalg::pinv(&x[0].matmul(&x[0].transpose(-2, -1)?)?, Default::default(), false))
            .oracle(move |x| {
                let p = pseudo_inverse(&x[0]);
                let rows = matrices(&p)[0].clone();
                Array::from_fn(&[4, 4], |index| (0..2).map(|k| rows[k][index[0]] * rows[k][index[1]]).sum())
            }),
        row("linalg.lstsq", "")
            .input(spread())
            .input(Uniform(-1.0, 1.0))
            .on([&[5, 3], &[5, 2]])
            .on([&[3, 5], &[3, 2]])
            .on([&[2, 4, 3], &[4, 1]])
            .on([&[2, 4, 3], &[2, 4]])
            .run(|x| Ok(linalg::lstsq(&x[0], &x[1], None)?.solution))
            .oracle(move |x| least_squares_solution(&x[0], &x[1]))
            .rejects("linalg.lstsq: right sides of shape [3, 1] for matrices of 2 x 2", |device| {
                linalg::lstsq(&zeros(&[2, 2], device)?, &zeros(&[3, 1], device)?, None).map(|found| found.solution)
            }),
        row("linalg.matrix_rank", "")
            .input(Integers(-3, 3))
            .shapes([&[1, 1], &[4, 4], &[2, 5, 3], &[0, 3]])
            .forward_only("numbers of singular values are whole")
            .run(|x| linalg::matrix_rank(&x[0], Default::default(), false))
            .oracle(|x| each(&x[0], &[], |matrix| vec![rank(matrix)])),
    ]
}

/// Returns the solution of least norm, by the pseudo-inverse.
fn least_squares_solution(a: &Array, b: &Array) -> Array {
    let is_vector = b.shape == a.shape[..a.rank() - 1];
    let columns = if is_vector { b.reshape(&[b.shape.clone(), vec![1]].concat()) } else { b.clone() };
    let outer = crate::array::broadcast_shape(&a.shape[..a.rank() - 2], &columns.shape[..columns.rank() - 2]);
    let expand = |x: &Array| x.expand(&[&outer, &x.shape[x.rank() - 2..]].concat());
    let (wide, right) = (expand(a), expand(&columns));
    let [n, k] = [size(&wide), size(&right)];
    let (lefts, rights) = (matrices(&wide), matrices(&right));
    let x = lefts.iter().zip(&rights).flat_map(|(a, b)| super::oracles::product(&pinv(a, n), b, k).concat()).collect();
    let tail: &[usize] = if is_vector { &[n] } else { &[n, k] };
    Array::new(&[&outer, tail].concat(), x)
}

/// Returns the rank of a matrix of integers: elimination with full pivoting.
fn rank(matrix: &Matrix) -> f64 {
    let mut rows = matrix.clone();
    let mut rank = 0;
    while rank < rows.len() {
        let indices = (rank..rows.len()).flat_map(|i| (0..rows[i].len()).map(move |j| (i, j)));
        let largest = indices.max_by(|&(i, j), &(k, l)| rows[i][j].abs().total_cmp(&rows[k][l].abs()));
        let Some((row, column)) = largest.filter(|&(i, j)| rows[i][j].abs() > 1e-9) else { break };
        rows.swap(rank, row);
        for i in rank + 1..rows.len() {
            let factor = rows[i][column] / rows[rank][column];
            for j in 0..rows[i].len() {
                rows[i][j] -= factor * rows[rank][j];
            }
        }
        rank += 1;
    }
    rank as f64
}
