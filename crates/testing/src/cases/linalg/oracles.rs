//! Linear algebra in plain float64 loops: Gaussian elimination, Gram-Schmidt, and Jacobi rotations.

use crate::array::Array;

/// The rows of a matrix.
pub type Matrix = Vec<Vec<f64>>;

/// Returns the matrices of the last two axes, in order.
pub fn matrices(x: &Array) -> Vec<Matrix> {
    let [rows, columns] = [x.shape[x.rank() - 2], x.shape[x.rank() - 1]];
    let count: usize = x.shape[..x.rank() - 2].iter().product();
    (0..count)
        .map(|k| {
            let row = |i: usize| x.data[(k * rows + i) * columns..(k * rows + i + 1) * columns].to_vec();
            (0..rows).map(row).collect()
        })
        .collect()
}

/// Returns an array of the results of `f` for each matrix, which have the shape `tail`.
pub fn each(x: &Array, tail: &[usize], f: impl Fn(&Matrix) -> Vec<f64>) -> Array {
    let shape = [&x.shape[..x.rank() - 2], tail].concat();
    Array::new(&shape, matrices(x).iter().flat_map(f).collect())
}

/// Returns an array of the matrices that `f` returns for each matrix.
pub fn each_matrix(x: &Array, tail: [usize; 2], f: impl Fn(&Matrix) -> Matrix) -> Array {
    each(x, &tail, |matrix| f(matrix).concat())
}

pub fn identity(size: usize) -> Matrix {
    (0..size).map(|i| (0..size).map(|j| f64::from(i == j)).collect()).collect()
}

pub fn transposed(a: &Matrix, columns: usize) -> Matrix {
    (0..columns).map(|j| a.iter().map(|row| row[j]).collect()).collect()
}

pub fn product(a: &Matrix, b: &Matrix, columns: usize) -> Matrix {
    let dot = |row: &Vec<f64>, j: usize| row.iter().zip(b).map(|(x, other)| x * other[j]).sum();
    a.iter().map(|row| (0..columns).map(|j| dot(row, j)).collect()).collect()
}

/// Returns `a^-1 b` and the determinant, by elimination of `[a b]` with partial pivoting.
pub fn eliminated(a: &Matrix, b: &Matrix) -> (Matrix, f64) {
    let size = a.len();
    let mut rows: Matrix = a.iter().zip(b).map(|(left, right)| [left.clone(), right.clone()].concat()).collect();
    let mut determinant = 1.0;
    for k in 0..size {
        let pivot = (k..size).max_by(|&i, &j| rows[i][k].abs().total_cmp(&rows[j][k].abs())).unwrap_or(k);
        if pivot != k {
            rows.swap(k, pivot);
            determinant = -determinant;
        }
        determinant *= rows[k][k];
        if rows[k][k] == 0.0 {
            // Singular: the rest of the column is 0, and no multiple of the row is subtracted.
            continue;
        }
        for i in 0..size {
            if i == k {
                continue;
            }
            let factor = rows[i][k] / rows[k][k];
            for j in k..rows[i].len() {
                rows[i][j] -= factor * rows[k][j];
            }
        }
    }
    let x = rows.iter().enumerate().map(|(k, row)| row[size..].iter().map(|value| value / row[k]).collect());
    (x.collect(), determinant)
}

pub fn inverse(a: &Matrix) -> Matrix {
    eliminated(a, &identity(a.len())).0
}

/// Returns `x x^T + 1`.
pub fn positive(x: &Matrix) -> Matrix {
    let size = x.len();
    let mut a = product(x, &transposed(x, size), size);
    for k in 0..size {
        a[k][k] += 1.0;
    }
    a
}

/// Returns `x + x^T`.
pub fn symmetric(x: &Matrix) -> Matrix {
    (0..x.len()).map(|i| (0..x.len()).map(|j| x[i][j] + x[j][i]).collect()).collect()
}

/// Returns the lower triangular l of `a = l l^T`, element by element (Golub and Van Loan 2013,
/// 4.2.5).
pub fn cholesky(a: &Matrix) -> Matrix {
    let size = a.len();
    let mut l = vec![vec![0.0; size]; size];
    for j in 0..size {
        for i in j..size {
            let rest: f64 = a[i][j] - (0..j).map(|k| l[i][k] * l[j][k]).sum::<f64>();
            l[i][j] = if i == j { rest.sqrt() } else { rest / l[j][j] };
        }
    }
    l
}

/// Returns q and r of the first columns, at most as many as rows, by Gram-Schmidt (modified,
/// twice); r has all columns and a positive diagonal.
pub fn gram_schmidt(a: &Matrix, columns: usize) -> (Matrix, Matrix) {
    let rows = a.len();
    let size = rows.min(columns);
    let (mut q, mut r) = (Vec::<Vec<f64>>::new(), vec![vec![0.0; columns]; size]);
    for j in 0..columns {
        let mut column: Vec<f64> = a.iter().map(|row| row[j]).collect();
        for _ in 0..2 {
            for (k, base) in q.iter().enumerate() {
                let projection: f64 = base.iter().zip(&column).map(|(x, y)| x * y).sum();
                r[k][j] += projection;
                column.iter_mut().zip(base).for_each(|(x, y)| *x -= projection * y);
            }
        }
        if j < size {
            let norm = column.iter().map(|x| x * x).sum::<f64>().sqrt();
            r[j][j] = norm;
            q.push(column.iter().map(|x| x / norm).collect());
        }
    }
    (transposed(&q, rows), r)
}

/// Returns the singular values in descending order and, as columns, the left and right singular
/// vectors of a matrix with at least as many rows as columns: pairs of columns are rotated until
/// all are orthogonal (Hestenes 1958).
pub fn tall_svd(a: &Matrix, columns: usize) -> (Matrix, Vec<f64>, Matrix) {
    let (mut u, mut v) = (transposed(a, columns), identity(columns));
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    for _ in 0..60 {
        for i in 0..columns {
            for j in i + 1..columns {
                let (alpha, beta, gamma) = (dot(&u[i], &u[i]), dot(&u[j], &u[j]), dot(&u[i], &u[j]));
                if gamma == 0.0 {
                    continue;
                }
                let zeta = (beta - alpha) / (2.0 * gamma);
                let tangent = zeta.signum() / (zeta.abs() + zeta.hypot(1.0));
                let cosine = 1.0 / tangent.hypot(1.0);
                rotate(&mut u, i, j, cosine, cosine * tangent);
                rotate(&mut v, i, j, cosine, cosine * tangent);
            }
        }
    }
    let mut order: Vec<(f64, usize)> = u.iter().map(|column| dot(column, column).sqrt()).zip(0..).collect();
    order.sort_by(|x, y| y.0.total_cmp(&x.0));
    let sorted_columns = |from: &Matrix, is_normalized: bool| -> Matrix {
        let scale = |norm: f64| if is_normalized { norm } else { 1.0 };
        let column = |&(norm, k): &(f64, usize)| from[k].iter().map(|x| x / scale(norm)).collect();
        order.iter().map(column).collect()
    };
    let values = order.iter().map(|pair| pair.0).collect();
    (transposed(&sorted_columns(&u, true), a.len()), values, transposed(&sorted_columns(&v, false), columns))
}

fn rotate(columns: &mut Matrix, i: usize, j: usize, cosine: f64, sine: f64) {
    for k in 0..columns[i].len() {
        let (x, y) = (columns[i][k], columns[j][k]);
        columns[i][k] = cosine * x - sine * y;
        columns[j][k] = sine * x + cosine * y;
    }
}

/// Returns u, s and v (as columns) of any matrix.
pub fn svd(a: &Matrix, columns: usize) -> (Matrix, Vec<f64>, Matrix) {
    match a.len() >= columns {
        true => tall_svd(a, columns),
        false => {
            let (v, s, u) = tall_svd(&transposed(a, columns), a.len());
            (u, s, v)
        }
    }
}

/// Returns the eigenvalues in ascending order and the eigenvectors, as columns, of a symmetric
/// matrix, by rotations (Golub and Van Loan 2013, 8.5).
pub fn eigh(a: &Matrix) -> (Vec<f64>, Matrix) {
    let size = a.len();
    let (mut a, mut v) = (a.clone(), identity(size));
    for _ in 0..60 {
        for p in 0..size {
            for q in p + 1..size {
                if a[p][q] == 0.0 {
                    continue;
                }
                let theta = (a[q][q] - a[p][p]) / (2.0 * a[p][q]);
                let tangent = if theta >= 0.0 { 1.0 } else { -1.0 } / (theta.abs() + theta.hypot(1.0));
                let cosine = 1.0 / tangent.hypot(1.0);
                let sine = cosine * tangent;
                rotate(&mut a, p, q, cosine, sine);
                a = transposed(&a, size);
                rotate(&mut a, p, q, cosine, sine);
                rotate(&mut v, p, q, cosine, sine);
            }
        }
    }
    let mut order: Vec<usize> = (0..size).collect();
    order.sort_by(|&i, &j| a[i][i].total_cmp(&a[j][j]));
    let vectors: Matrix = order.iter().map(|&k| v[k].clone()).collect();
    (order.iter().map(|&k| a[k][k]).collect(), transposed(&vectors, size))
}

/// Returns the pseudo-inverse of a matrix of full rank: `(a^T a)^-1 a^T` or `a^T (a a^T)^-1`.
pub fn pinv(a: &Matrix, columns: usize) -> Matrix {
    let rows = a.len();
    let at = transposed(a, columns);
    match rows >= columns {
        true => eliminated(&product(&at, a, columns), &at).0,
        false => transposed(&eliminated(&product(a, &at, rows), a).0, columns),
    }
}

/// Returns `e^a` by its series in a / 256, squared eight times.
pub fn exp(a: &Matrix) -> Matrix {
    let size = a.len();
    let small: Matrix = a.iter().map(|row| row.iter().map(|x| x / 256.0).collect()).collect();
    let (mut term, mut sum) = (identity(size), identity(size));
    for k in 1..30 {
        term = product(&term, &small, size);
        for (term_row, sum_row) in term.iter_mut().zip(&mut sum) {
            for (x, y) in term_row.iter_mut().zip(sum_row) {
                *x /= f64::from(k);
                *y += *x;
            }
        }
    }
    (0..8).fold(sum, |sum, _| product(&sum, &sum, size))
}
