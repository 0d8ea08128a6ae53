//! LU decompositions with partial pivoting: on the host for solving systems, and as a function with
//! gradients.

use crate::checks;
use crate::host::{Matrices, Values};
use crate::record::with_gradient;
use crate::triangular::{TriangularOptions, solve_triangular, triangular};
use faer::{Mat, MatRef};
use ternion_core::autograd::{Context, Grads};
use ternion_core::op::Saves;
use ternion_core::{DType, Error, Result, Tensor, without_precision};

/// `P a = L U` of one matrix.
pub(crate) struct Factors {
    /// L below the diagonal (its own diagonal is 1), and U.
    packed: Mat<f64>,
    /// Row i of `P a` is row `rows[i]` of `a`.
    rows: Vec<usize>,
}

impl Factors {
    /// Factors a matrix of any size.
    pub fn of(matrix: MatRef<'_, f64>) -> Factors {
        let decomposition = matrix.partial_piv_lu();
        let (lower, upper) = (decomposition.L(), decomposition.U());
        let packed = Mat::from_fn(matrix.nrows(), matrix.ncols(), |row, column| match row > column {
            true => lower[(row, column)],
            false => upper[(row, column)],
        });
        let factors = Factors { packed, rows: decomposition.P().arrays().0.to_vec() };
        // For a pivot of 0 and for infinities, the result of a blocked algorithm depends on its
        // order of operations. Use the unblocked algorithm then.
        match factors.is_regular() {
            true => factors,
            false => Factors::by_columns(matrix),
        }
    }

    /// Returns whether all numbers are finite and no pivot is 0.
    fn is_regular(&self) -> bool {
        let packed = &self.packed;
        let is_finite = packed.col_iter().all(|column| column.iter().all(|value| value.is_finite()));
        is_finite && !self.is_singular()
    }

    /// Gaussian elimination column by column (Golub and Van Loan 2013, algorithm 3.4.1); a column
    /// with a pivot of 0 is not changed.
    fn by_columns(matrix: MatRef<'_, f64>) -> Factors {
        let mut packed = matrix.to_owned();
        let (rows, columns) = (packed.nrows(), packed.ncols());
        let mut order: Vec<usize> = (0..rows).collect();
        for k in 0..rows.min(columns) {
            let mut pivot = k;
            for row in k + 1..rows {
                if packed[(row, k)].abs() > packed[(pivot, k)].abs() {
                    pivot = row;
                }
            }
            order.swap(k, pivot);
            for column in 0..columns {
                let moved = packed[(k, column)];
                packed[(k, column)] = packed[(pivot, column)];
                packed[(pivot, column)] = moved;
            }
            if packed[(k, k)] == 0.0 {
                continue;
            }
            for row in k + 1..rows {
                packed[(row, k)] /= packed[(k, k)];
            }
            for column in k + 1..columns {
                for row in k + 1..rows {
                    packed[(row, column)] -= packed[(row, k)] * packed[(k, column)];
                }
            }
        }
        Factors { packed, rows: order }
    }

    fn pivots(&self) -> impl Iterator<Item = f64> {
        (0..self.packed.nrows().min(self.packed.ncols())).map(|k| self.packed[(k, k)])
    }

    /// Returns whether a pivot is 0.
    pub fn is_singular(&self) -> bool {
        self.first_zero() > 0
    }

    /// Returns the index of the first pivot that is 0, starting at 1; 0 if there is none.
    pub fn first_zero(&self) -> i32 {
        self.pivots().position(|pivot| pivot == 0.0).map_or(0, |at| at as i32 + 1)
    }

    /// Returns 1 if the number of row exchanges is even, else -1.
    fn parity(&self) -> f64 {
        let swaps = transpositions(&self.rows);
        let odd = swaps.iter().enumerate().filter(|(row, other)| row != *other).count() % 2;
        if odd == 1 { -1.0 } else { 1.0 }
    }

    /// Returns the product of the pivots. Powers of two are accumulated separately, so that no
    /// partial product overflows if a later factor makes it small.
    pub fn determinant(&self) -> f64 {
        const LARGE: f64 = 3.273390607896142e150; // 2^500
        let (mut product, mut powers) = (self.parity(), 0i32);
        for mut factor in self.pivots() {
            for value in [&mut factor, &mut product] {
                let size = value.abs();
                if size >= LARGE && size.is_finite() {
                    (*value, powers) = (*value / LARGE, powers + 1);
                } else if size <= 1.0 / LARGE && size > 0.0 {
                    (*value, powers) = (*value * LARGE, powers - 1);
                }
            }
            product *= factor;
        }
        for _ in 0..powers.abs().min(8) {
            product = if powers > 0 { product * LARGE } else { product / LARGE };
        }
        product
    }

    /// Returns the sign of the determinant and the logarithm of its magnitude.
    pub fn log_determinant(&self) -> (f64, f64) {
        self.pivots().fold((self.parity(), 0.0), |(sign, logarithm), pivot| {
            let pivot_sign = if pivot == 0.0 { 0.0 } else { pivot.signum() };
            (sign * pivot_sign, logarithm + pivot.abs().ln())
        })
    }

    /// Replaces `b` by `a^-1 b`. A pivot of 0 is a division by zero.
    pub fn solve_in_place(&self, b: &mut Mat<f64>) {
        let mut x = Mat::from_fn(b.nrows(), b.ncols(), |row, column| b[(self.rows[row], column)]);
        self.packed.solve_unit_lower_triangular_in_place(&mut x);
        self.packed.solve_upper_triangular_in_place(&mut x);
        *b = x;
    }
}

/// Returns the exchanges that result in the order `rows`: row i with row `result[i]`, for i in
/// ascending order.
fn transpositions(rows: &[usize]) -> Vec<usize> {
    let mut current: Vec<usize> = (0..rows.len()).collect();
    let mut position_of = current.clone();
    let mut swaps = Vec::with_capacity(rows.len());
    for (row, &source_row) in rows.iter().enumerate() {
        let at = position_of[source_row];
        position_of[current[row]] = at;
        current.swap(row, at);
        position_of[source_row] = row;
        swaps.push(at);
    }
    swaps
}

/// Returns the factors of `a = p l u`: a permutation matrix, a lower triangular matrix with 1 on
/// its diagonal, and an upper triangular one, with partial pivoting.
///
/// # Shapes
/// `[.., m, n] -> ([.., m, m], [.., m, k], [.., k, n])` with `k = min(m, n)`
///
/// # Gradient
/// For square matrices `da = p l^-T (strictly_lower(l^T dl) + upper(du u^T)) u^-T` (Walter and
/// Lehmann 2010); the rows or columns beyond the square are `l2 = a2 u^-1` and `u2 = l^-1 a2`,
/// which determines their gradients. Not finite for singular matrices.
///
/// # Errors
/// Returns an error for dtypes other than f32 and f64, and fewer than two axes.
pub fn lu(a: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
    let LuTensors { p, packed, .. } = factor("linalg.lu", a)?;
    let (l, u) = triangles("linalg.lu", &packed)?;
    Ok((p, l, u))
}

/// Returns `l` and `u` of the packed factors.
fn triangles(op: &'static str, packed: &Tensor) -> Result<(Tensor, Tensor)> {
    let [m, n] = checks::matrix_sizes(op, packed)?;
    let size = m.min(n);
    let lower = packed.narrow(-1, 0, size)?.tril(-1)?;
    let ones = Tensor::eye(m.max(1), packed.dtype(), packed.device())?.narrow(0, 0, m)?.narrow(1, 0, size)?;
    Ok((lower.add(&ones)?, packed.narrow(-2, 0, size)?.triu(0)?))
}

/// Returns the results of [`lu`] from those of [`lu_factor`].
///
/// # Shapes
/// `lu`: `[.., m, n]`; `pivots`: `[.., min(m, n)]`, i32; the results are those of [`lu`].
///
/// # Errors
/// Returns an error for dtypes and sizes that do not match, and pivots that are not i32 between 1
/// and m.
pub fn lu_unpack(lu: &Tensor, pivots: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
    const OP: &str = "lu_unpack";
    checks::matrix(OP, lu)?;
    let (l, u) = triangles(OP, lu)?;
    Ok((permutation(OP, lu, pivots)?, l, u))
}

/// Returns the factors of [`lu`] in one matrix (without the diagonal of ones), and the row
/// exchanges in LAPACK's format: row i, starting at 1, with row `pivots[i]`.
///
/// # Shapes
/// `[.., m, n] -> ([.., m, n], [.., min(m, n)])`; pivots are i32
///
/// # Gradient
/// Same as [`lu`].
///
/// # Errors
/// The errors of [`lu`], and a matrix with a pivot of 0.
pub fn lu_factor(a: &Tensor) -> Result<(Tensor, Tensor)> {
    const OP: &str = "linalg.lu_factor";
    let factors = factor(OP, a)?;
    if let Some(index) = factors.zeros.iter().position(|zero| *zero > 0) {
        let (batch_element, zero) = (checks::describe_batch_element(a, index), factors.zeros[index]);
        let detail = format!(
            "the matrix{batch_element} has no inverse (the pivot {zero} is 0): lu_factor_ex takes it"
        );
        return Err(Error::matrix(OP, detail));
    }
    Ok((factors.packed, factors.pivots))
}

/// Like [`lu_factor`], but accepts matrices with pivots of 0. The last result is, for each matrix,
/// the index of the first such pivot, starting at 1, or 0 if there is none.
///
/// # Shapes
/// `[.., m, n] -> ([.., m, n], [.., min(m, n)], [..])`; pivots and indices are i32
///
/// # Errors
/// The errors of [`lu`].
pub fn lu_factor_ex(a: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
    let factors = factor("linalg.lu_factor_ex", a)?;
    Ok((factors.packed, factors.pivots, checks::info_tensor(factors.zeros, a)?))
}

/// Solves `a x = b` for `x` if `left`, otherwise `x a = b`, given the results of [`lu_factor`] for
/// `a`. If `adjoint`, the transpose of `a` replaces `a`.
///
/// # Shapes
/// `lu`: `[.., n, n]`; `pivots`: `[.., n]`, i32; `b`: `[.., n, k]` (`[.., k, n]` unless `left`).
/// The axes before the last two are broadcast.
///
/// # Errors
/// Returns an error for dtypes and sizes that do not match, and pivots that are not i32 between 1
/// and n.
pub fn lu_solve(lu: &Tensor, pivots: &Tensor, b: &Tensor, left: bool, adjoint: bool) -> Result<Tensor> {
    const OP: &str = "linalg.lu_solve";
    checks::square(OP, lu)?;
    checks::matrix(OP, b)?;
    if !left {
        let x = lu_solve(lu, pivots, &checks::transposed(b)?, true, !adjoint)?;
        return checks::transposed(&x);
    }
    let p = permutation(OP, lu, pivots)?;
    let unit = TriangularOptions { upper: false, unitriangular: true, ..Default::default() };
    let upper = TriangularOptions { upper: true, ..Default::default() };
    if adjoint {
        let y = solve_triangular(&checks::transposed(lu)?, b, TriangularOptions { upper: false, ..upper })?;
        let z = solve_triangular(&checks::transposed(lu)?, &y, TriangularOptions { upper: true, ..unit })?;
        return without_precision(|| p.matmul(&z));
    }
    let (p, b) = checks::broadcast(OP, &checks::transposed(&p)?, b)?;
    let b = without_precision(|| p.matmul(&b))?;
    solve_triangular(lu, &solve_triangular(lu, &b, unit)?, upper)
}

/// Returns the permutation matrices `p` of the exchanges `pivots`.
fn permutation(op: &'static str, lu: &Tensor, pivots: &Tensor) -> Result<Tensor> {
    let [size, columns] = checks::matrix_sizes(op, lu)?;
    let count = size.min(columns);
    if pivots.dtype() != DType::I32 {
        return Err(Error::dtype(op, "pivots", pivots.dtype(), DType::I32));
    }
    let expected = checks::shape(checks::batch_dims(lu), &[count])?;
    if pivots.shape() != &expected {
        let (got, expected) = (Box::new(*pivots.shape()), Box::new(expected));
        return Err(Error::Shape { op, what: "pivots", got, expected });
    }
    if count == 0 {
        return checks::identity(size, lu)?.contiguous();
    }
    let mut values = Values::default();
    for swaps in pivots.to_vec::<i32>()?.chunks_exact(count) {
        let mut rows: Vec<usize> = (0..size).collect();
        for (row, &other) in swaps.iter().enumerate() {
            let other = usize::try_from(other).ok().filter(|other| (1..=size).contains(other));
            let other = other.ok_or_else(|| Error::invalid(op, format!("pivots beyond 1 to {size}")))?;
            rows.swap(row, other - 1);
        }
        push_permutation(&mut values, &rows);
    }
    values.into_tensor(lu, &[size, size])
}

/// Appends `p` of `a = p l u`: column i has its 1 in row `rows[i]`.
fn push_permutation(values: &mut Values, rows: &[usize]) {
    let size = rows.len();
    values.push_matrix(Mat::from_fn(size, size, |row, column| f64::from(rows[column] == row)).as_ref());
}

/// The results of [`factor`].
struct LuTensors {
    p: Tensor,
    /// Both factors in one matrix, which has a gradient.
    packed: Tensor,
    /// The row exchanges.
    pivots: Tensor,
    /// For each matrix the index of the first pivot that is 0.
    zeros: Vec<i32>,
}

fn factor(op: &'static str, a: &Tensor) -> Result<LuTensors> {
    let [m, n] = checks::matrix(op, a)?;
    let (mut permutations, mut packed, mut pivots) = (Values::default(), Values::default(), Vec::new());
    let mut zeros = Vec::new();
    for matrix in Matrices::read(a)?.iter() {
        let factors = Factors::of(matrix);
        zeros.push(factors.first_zero());
        push_permutation(&mut permutations, &factors.rows);
        packed.push_matrix(factors.packed.as_ref());
        let swaps = transpositions(&factors.rows);
        pivots.extend(swaps.iter().take(m.min(n)).map(|&row| row as i32 + 1));
    }
    let p = match a.elements() {
        // Without columns no rows are exchanged.
        0 => checks::identity(m, a)?.contiguous()?,
        _ => permutations.into_tensor(a, &[m, m])?,
    };
    let pivots = Tensor::from_vec(pivots, checks::shape(checks::batch_dims(a), &[m.min(n)])?, a.device())?;
    let packed = packed.into_tensor(a, &[m, n])?;
    let permutation_matrix = p.clone();
    let rule = move |context: &Context<'_>, grads: &[Option<Tensor>]| {
        let Some(dy) = &grads[0] else { return Ok(Grads::new()) };
        Ok(Grads::from_elem(Some(permutation_matrix.matmul(&gradient(op, context.output(0)?, dy)?)?), 1))
    };
    let packed = with_gradient(op, &[a], vec![packed], Saves::OUTPUTS, rule)?.swap_remove(0);
    Ok(LuTensors { p, packed, pivots, zeros })
}

/// Returns the gradient of `p^T a`, given the gradient of the packed factors.
fn gradient(op: &'static str, packed: &Tensor, dy: &Tensor) -> Result<Tensor> {
    let [m, n] = checks::matrix_sizes(op, packed)?;
    let size = m.min(n);
    let factors = packed.narrow(-2, 0, size)?.narrow(-1, 0, size)?;
    let transposed = checks::transposed(&factors)?;
    let by_lower = TriangularOptions { upper: true, unitriangular: true, left: true };
    let by_upper = TriangularOptions { upper: false, unitriangular: false, left: false };
    let mut d_square = dy.narrow(-2, 0, size)?.narrow(-1, 0, size)?;
    if m > n {
        // l2 = a2 u^-1
        let (l2, dl2) = (packed.narrow(-2, n, m - n)?, dy.narrow(-2, n, m - n)?);
        let da2 = triangular(op, &transposed, &dl2, by_upper)?;
        let du = checks::transposed(&l2)?.matmul(&da2)?.neg()?.triu(0)?;
        d_square = d_square.add(&du)?;
        let da1 = square_gradient(op, &factors, &d_square)?;
        return Tensor::concat(&[&da1, &da2], -2);
    }
    if n > m {
        // u2 = l^-1 a2
        let (u2, du2) = (packed.narrow(-1, m, n - m)?, dy.narrow(-1, m, n - m)?);
        let da2 = triangular(op, &transposed, &du2, by_lower)?;
        d_square = d_square.add(&da2.matmul(&checks::transposed(&u2)?)?.neg()?.tril(-1)?)?;
        let da1 = square_gradient(op, &factors, &d_square)?;
        return Tensor::concat(&[&da1, &da2], -1);
    }
    square_gradient(op, &factors, &d_square)
}

/// Returns `l^-T (strictly_lower(l^T dl) + upper(du u^T)) u^-T`.
fn square_gradient(op: &'static str, factors: &Tensor, dy: &Tensor) -> Result<Tensor> {
    let transposed = checks::transposed(factors)?;
    let eye = Tensor::eye(factors.dims()[factors.rank() - 1], factors.dtype(), factors.device())?;
    let (l, u) = (factors.tril(-1)?.add(&eye)?, factors.triu(0)?);
    let lower = checks::transposed(&l)?.matmul(&dy.tril(-1)?)?.tril(-1)?;
    let middle = lower.add(&dy.triu(0)?.matmul(&checks::transposed(&u)?)?.triu(0)?)?;
    let by_lower = TriangularOptions { upper: true, unitriangular: true, left: true };
    let by_upper = TriangularOptions { upper: false, unitriangular: false, left: false };
    triangular(op, &transposed, &triangular(op, &transposed, &middle, by_lower)?, by_upper)
}
