//! Rows of decompositions.

use super::oracles::{Matrix, each, each_matrix, eigh, gram_schmidt, identity, svd, symmetric};
use super::{row, spread, symmetric as symmetric_tensor, tensor, zeros};
use crate::prelude::*;
use ternion_linalg as linalg;
use ternion_linalg::{QrMode, Triangle};

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    [orthogonal(), reflections(), singular_values(), eigenvalues(), lower_upper()].concat()
}

fn sizes(x: &Array) -> [usize; 2] {
    [x.shape[x.rank() - 2], x.shape[x.rank() - 1]]
}

fn eye(x: &Array, size: usize) -> Array {
    let shape = [&x.shape[..x.rank() - 2], &[size, size]].concat();
    Array::from_fn(&shape, |index| f64::from(index[index.len() - 2] == index[index.len() - 1]))
}

/// Returns `x^T x`.
fn gram(x: &Tensor) -> Result<Tensor> {
    x.transpose(-2, -1)?.matmul(x)
}

fn orthogonal() -> Vec<OpCase> {
    vec![
        row("linalg.qr", "reconstruction")
            .input(spread())
            .shapes([&[0, 3], &[3, 0], &[1, 1], &[4, 4], &[5, 3], &[3, 5], &[2, 3, 2], &[0, 2, 2]])
            .run(|x| {
                let (q, r) = linalg::qr(&x[0], QrMode::Reduced)?;
                Ok(vec![q.matmul(&r)?, gram(&q)?, r.tril(-1)?])
            })
            .oracle(|x| {
                let [rows, columns] = sizes(&x[0]);
                let size = rows.min(columns);
                let below = Array::zeros(&[&x[0].shape[..x[0].rank() - 2], &[size, columns]].concat());
                vec![x[0].clone(), eye(&x[0], size), below]
            })
            .rejects("linalg.qr: expected at least 2 axes, got shape [3]", |device| {
                linalg::qr(&zeros(&[3], device)?, QrMode::Reduced)
            })
            .rejects("linalg.qr: input is i32, expected f32 or f64", |device| {
                linalg::qr(&Tensor::zeros([2, 2], I32, device)?, QrMode::Reduced)
            }),
        // Squared, because signs are arbitrary: q = signs q' and r = signs r'.
        row("linalg.qr", "squares")
            .input(spread())
            .shapes([&[1, 1], &[4, 4], &[5, 3], &[3, 5], &[2, 3, 2]])
            .double_backward()
            .run(|x| {
                let (q, r) = linalg::qr(&x[0], QrMode::Reduced)?;
                Ok((q.square()?, r.square()?))
            })
            .oracle(|x| {
                let [rows, columns] = sizes(&x[0]);
                let size = rows.min(columns);
                let q = each_matrix(&x[0], [rows, size], |matrix| gram_schmidt(matrix, columns).0);
                let r = each_matrix(&x[0], [size, columns], |matrix| gram_schmidt(matrix, columns).1);
                (q.map(|x| x * x), r.map(|x| x * x))
            }),
        row("linalg.qr", "complete")
            .input(spread())
            .shapes([&[3, 3], &[5, 3], &[3, 5], &[3, 0], &[2, 3, 2]])
            .forward_only("columns of q beyond those of the matrix are not determined")
            .run(|x| {
                let (q, r) = linalg::qr(&x[0], QrMode::Complete)?;
                Ok(vec![q.matmul(&r)?, gram(&q)?, r.tril(-1)?])
            })
            .oracle(|x| {
                let below = Array::zeros(&x[0].shape);
                vec![x[0].clone(), eye(&x[0], sizes(&x[0])[0]), below]
            }),
        row("linalg.qr", "r")
            .input(spread())
            .shapes([&[3, 3], &[5, 3], &[3, 5]])
            .forward_only("r by itself has no gradient")
            .run(|x| {
                let (q, r) = linalg::qr(&x[0], QrMode::R)?;
                Ok((q, r.square()?))
            })
            .oracle(|x| {
                let [rows, columns] = sizes(&x[0]);
                let r = each_matrix(&x[0], [rows.min(columns), columns], |matrix| gram_schmidt(matrix, columns).1);
                (Array::zeros(&[0]), r.map(|x| x * x))
            }),
    ]
}

fn reflections() -> Vec<OpCase> {
    vec![
        row("linalg.householder_product", "")
            .input(Uniform(-1.0, 1.0))
            .input(Uniform(0.5, 1.5))
            .on([&[4, 3], &[2]])
            .on([&[2, 3, 3], &[2, 3]])
            .run(|x| linalg::householder_product(&x[0], &x[1]))
            .oracle(|x| reflected(&x[0], &x[1]))
            .rejects(
                "linalg.householder_product: matrices of shape [2, 3] and tau of shape [2], expected [.., m, n] and [.., k] with m >= n >= k",
                |device| linalg::householder_product(&zeros(&[2, 3], device)?, &zeros(&[2], device)?),
            ),
        row("linalg.householder_product", "no reflections")
            .input(Uniform(-1.0, 1.0))
            .input(Uniform(0.5, 1.5))
            .on([&[3, 2], &[0]])
            .run(|x| linalg::householder_product(&x[0], &x[1]))
            .oracle(|x| reflected(&x[0], &x[1])),
    ]
}

/// The product of reflections, each as a full matrix.
fn reflected(a: &Array, tau: &Array) -> Array {
    let ([rows, columns], count) = (sizes(a), tau.shape[tau.rank() - 1]);
    let taus: Vec<Vec<f64>> = match count {
        0 => vec![Vec::new(); 1],
        _ => tau.data.chunks(count).map(<[f64]>::to_vec).collect(),
    };
    let mut data = Vec::new();
    for (batch, matrix) in super::oracles::matrices(a).into_iter().enumerate() {
        let mut q = identity(rows);
        for k in 0..count {
            let v: Vec<f64> = (0..rows)
                .map(|i| match i.cmp(&k) {
                    std::cmp::Ordering::Less => 0.0,
                    std::cmp::Ordering::Equal => 1.0,
                    std::cmp::Ordering::Greater => matrix[i][k],
                })
                .collect();
            let mut reflection = identity(rows);
            for i in 0..rows {
                for j in 0..rows {
                    reflection[i][j] -= taus[batch][k] * v[i] * v[j];
                }
            }
            q = super::oracles::product(&q, &reflection, rows);
        }
        data.extend(q.iter().flat_map(|row| row[..columns].to_vec()));
    }
    Array::new(&a.shape, data)
}

fn singular_values() -> Vec<OpCase> {
    vec![
        row("linalg.svd", "reconstruction")
            .input(spread())
            .shapes([&[0, 3], &[3, 0], &[1, 1], &[4, 4], &[5, 3], &[3, 5], &[2, 3, 2], &[0, 2, 2]])
            .run(|x| {
                let (u, s, vt) = linalg::svd(&x[0], false)?;
                let product = u.mul(&s.unsqueeze(-2)?)?.matmul(&vt)?;
                Ok(vec![product, gram(&u)?, gram(&vt.transpose(-2, -1)?)?])
            })
            .oracle(|x| {
                let size = sizes(&x[0])[0].min(sizes(&x[0])[1]);
                vec![x[0].clone(), eye(&x[0], size), eye(&x[0], size)]
            })
            .rejects("linalg.svd: the matrix (of the batch element 1) has a NaN or an infinity", |device| {
                linalg::svd(&tensor(&[2, 1, 1], &[1.0, f64::INFINITY], device)?, false)
            })
            .rejects("linalg.svd: input is bool, expected f32 or f64", |device| {
                linalg::svd(&Tensor::zeros([2, 2], Bool, device)?, false)
            }),
        // Squared, because signs are arbitrary.
        row("linalg.svd", "squares")
            .input(spread())
            .shapes([&[1, 1], &[3, 3], &[5, 3], &[3, 5], &[2, 3, 2]])
            .double_backward()
            .run(|x| {
                let (u, s, vt) = linalg::svd(&x[0], false)?;
                Ok((u.square()?, s, vt.square()?))
            })
            .oracle(|x| {
                let [rows, columns] = sizes(&x[0]);
                let size = rows.min(columns);
                let u = each_matrix(&x[0], [rows, size], |matrix| svd(matrix, columns).0);
                let s = each(&x[0], &[size], |matrix| svd(matrix, columns).1);
                let vt = each_matrix(&x[0], [size, columns], |matrix| {
                    super::oracles::transposed(&svd(matrix, columns).2, size)
                });
                (u.map(|x| x * x), s, vt.map(|x| x * x))
            }),
        row("linalg.svd", "full_matrices")
            .input(spread())
            .shapes([&[3, 3], &[5, 3], &[3, 5], &[3, 0], &[0, 2]])
            .forward_only("vectors beyond the singular values are not determined")
            .run(|x| {
                let (u, s, vt) = linalg::svd(&x[0], true)?;
                let size = s.dims()[s.rank() - 1];
                let first = u.narrow(-1, 0, size)?.mul(&s.unsqueeze(-2)?)?;
                Ok(vec![first.matmul(&vt.narrow(-2, 0, size)?)?, gram(&u)?, gram(&vt)?])
            })
            .oracle(|x| {
                let [rows, columns] = sizes(&x[0]);
                vec![x[0].clone(), eye(&x[0], rows), eye(&x[0], columns)]
            }),
        row("linalg.svdvals", "")
            .input(spread())
            .shapes([&[0, 3], &[1, 1], &[4, 4], &[5, 3], &[3, 5], &[2, 3, 2], &[0, 2, 2]])
            .double_backward()
            .run(|x| linalg::svdvals(&x[0]))
            .oracle(|x| {
                let [rows, columns] = sizes(&x[0]);
                each(&x[0], &[rows.min(columns)], |matrix| svd(matrix, columns).1)
            })
            .adversarial("zeros", [Array::zeros(&[3, 2])])
            .adversarial("large", [Array::new(&[2, 2], vec![1e30, 0.0, 0.0, -2e30])])
            .adversarial("small", [Array::new(&[2, 2], vec![1e-30, 0.0, 0.0, -2e-30])]),
    ]
}

fn eigenvalues() -> Vec<OpCase> {
    vec![
        row("linalg.eigh", "reconstruction")
            .input(spread())
            .shapes([&[0, 0], &[1, 1], &[4, 4], &[2, 3, 3], &[0, 2, 2]])
            .run(|x| {
                let (w, v) = linalg::eigh(&symmetric_tensor(&x[0])?, Triangle::Lower)?;
                let product = v.mul(&w.unsqueeze(-2)?)?.matmul(&v.transpose(-2, -1)?)?;
                Ok((product, gram(&v)?))
            })
            .oracle(|x| (each_matrix(&x[0], sizes(&x[0]), symmetric), eye(&x[0], sizes(&x[0])[0])))
            .rejects("linalg.eigh: the matrix has a NaN or an infinity", |device| {
                linalg::eigh(&tensor(&[2, 2], &[1.0, 0.0, f64::NAN, 1.0], device)?, Triangle::Lower)
            })
            .rejects("linalg.eigh: matrices of 2 x 3, expected square ones", |device| {
                linalg::eigh(&zeros(&[2, 3], device)?, Triangle::Lower)
            }),
        // Squared, because signs are arbitrary.
        row("linalg.eigh", "squares")
            .input(spread())
            .shapes([&[1, 1], &[4, 4], &[2, 3, 3]])
            .double_backward()
            .run(|x| {
                let (w, v) = linalg::eigh(&symmetric_tensor(&x[0])?, Triangle::Lower)?;
                Ok((w, v.square()?))
            })
            .oracle(|x| {
                let [size, _] = sizes(&x[0]);
                let v = each_matrix(&x[0], [size, size], |matrix| eigh(&symmetric(matrix)).1);
                (each(&x[0], &[size], |matrix| eigh(&symmetric(matrix)).0), v.map(|x| x * x))
            }),
        row("linalg.eigvalsh", "")
            .input(spread())
            .shapes([&[1, 1], &[3, 3], &[2, 2, 2]])
            .double_backward()
            .run(|x| linalg::eigvalsh(&symmetric_tensor(&x[0])?, Triangle::Upper))
            .oracle(|x| each(&x[0], &[sizes(&x[0])[0]], |matrix| eigh(&symmetric(matrix)).0)),
        row("linalg.eigvalsh", "one triangle")
            .input(spread())
            .shapes([&[0, 0], &[1, 1], &[4, 4], &[2, 3, 3]])
            .forward_only("the gradient is that of symmetric matrices")
            .run(|x| {
                let lower = linalg::eigvalsh(&x[0], Triangle::Lower)?;
                Ok((lower, linalg::eigvalsh(&x[0], Triangle::Upper)?))
            })
            .oracle(|x| {
                let [size, _] = sizes(&x[0]);
                let eigenvalues_of = |is_upper: bool| {
                    each(&x[0], &[size], |matrix| {
                        let element = |i: usize, j: usize| if (j > i) == is_upper { matrix[i][j] } else { matrix[j][i] };
                        eigh(&(0..size).map(|i| (0..size).map(|j| element(i, j)).collect()).collect()).0
                    })
                };
                (eigenvalues_of(false), eigenvalues_of(true))
            })
            .adversarial("large", [Array::new(&[2, 2], vec![1e30, 0.0, 0.0, -2e30])]),
    ]
}

fn lower_upper() -> Vec<OpCase> {
    vec![
        row("linalg.lu", "reconstruction")
            .input(spread())
            .shapes([&[0, 3], &[3, 0], &[1, 1], &[4, 4], &[5, 3], &[3, 5], &[2, 3, 2], &[0, 2, 2]])
            .run(|x| {
                let (p, l, u) = linalg::lu(&x[0])?;
                Ok(vec![p.matmul(&l)?.matmul(&u)?, l.triu(1)?, u.tril(-1)?, gram(&p)?])
            })
            .oracle(|x| {
                let [rows, columns] = sizes(&x[0]);
                let (outer, size) = (&x[0].shape[..x[0].rank() - 2], rows.min(columns));
                let above = Array::zeros(&[outer, &[rows, size]].concat());
                let below = Array::zeros(&[outer, &[size, columns]].concat());
                vec![x[0].clone(), above, below, eye(&x[0], rows)]
            }),
        row("linalg.lu_factor", "")
            .input(spread())
            .shapes([&[1, 1], &[4, 4], &[5, 3], &[3, 5], &[2, 3, 3]])
            .double_backward()
            .run(|x| Ok(linalg::lu_factor(&x[0])?.0))
            .oracle(|x| each_matrix(&x[0], sizes(&x[0]), doolittle))
            .rejects(
                "linalg.lu_factor: the matrix has no inverse (the pivot 2 is 0): lu_factor_ex takes it",
                |device| linalg::lu_factor(&tensor(&[2, 2], &[1.0, 2.0, 2.0, 4.0], device)?),
            ),
        row("linalg.lu_factor_ex", "singular")
            .input(Fixed(vec![1.0, 2.0, 2.0, 4.0, 1.0, 2.0, 4.0, 6.0]))
            .shapes([&[2, 2, 2]])
            .forward_only("that of a singular matrix is not finite")
            .run(|x| {
                let (packed, pivots, zeros) = linalg::lu_factor_ex(&x[0])?;
                Ok(vec![packed, pivots, zeros])
            })
            .oracle(|_| {
                let packed = Array::new(&[2, 2, 2], vec![2.0, 4.0, 0.5, 0.0, 4.0, 6.0, 0.25, 0.5]);
                vec![packed, Array::full(&[2, 2], 2.0), Array::new(&[2], vec![2.0, 0.0])]
            }),
        row("lu_unpack", "")
            .input(spread())
            .shapes([&[0, 3], &[1, 1], &[4, 4], &[4, 2], &[2, 3], &[2, 3, 2]])
            .run(|x| {
                let (packed, pivots, _) = linalg::lu_factor_ex(&x[0])?;
                let (p, l, u) = linalg::lu_unpack(&packed, &pivots)?;
                Ok(vec![p.matmul(&l)?.matmul(&u)?, l.triu(1)?, u.tril(-1)?])
            })
            .oracle(|x| {
                let [rows, columns] = sizes(&x[0]);
                let (outer, size) = (&x[0].shape[..x[0].rank() - 2], rows.min(columns));
                let above = Array::zeros(&[outer, &[rows, size]].concat());
                vec![x[0].clone(), above, Array::zeros(&[outer, &[size, columns]].concat())]
            })
            .rejects("lu_unpack: pivots is i64, expected i32", |device| {
                linalg::lu_unpack(&zeros(&[2, 2], device)?, &Tensor::ones([2], I64, device)?)
            })
            .rejects("lu_unpack: pivots has shape [3], expected [2]", |device| {
                linalg::lu_unpack(&zeros(&[3, 2], device)?, &Tensor::ones([3], I32, device)?)
            })
            .rejects("lu_unpack: pivots beyond 1 to 2", |device| {
                linalg::lu_unpack(&zeros(&[2, 2], device)?, &Tensor::zeros([2], I32, device)?)
            }),
    ]
}

/// Elimination with partial pivoting, in place: l below the diagonal, u on and above it.
fn doolittle(a: &Matrix) -> Matrix {
    let mut a = a.clone();
    for k in 0..a.len().min(a[0].len()) {
        let pivot = (k..a.len()).max_by(|&i, &j| a[i][k].abs().total_cmp(&a[j][k].abs())).unwrap_or(k);
        a.swap(k, pivot);
        for i in k + 1..a.len() {
            a[i][k] /= a[k][k];
            for j in k + 1..a[i].len() {
                a[i][j] -= a[i][k] * a[k][j];
            }
        }
    }
    a
}
