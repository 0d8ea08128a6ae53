//! Functions that are composed of products: they run on the device, and their gradients are those
//! of the composition.

use crate::checks;
use crate::record::constant;
use crate::solve::{Singular, named_inverse};
use ternion_core::{Axis, DType, Error, Result, Shape, Tensor, without_precision};

/// Returns the n-th power of square matrices, by repeated squaring; of the inverse if n is
/// negative; identity matrices if it is 0.
///
/// # Shapes
/// `[.., n, n]`, unchanged
///
/// # Errors
/// Returns an error for matrices that are not square; for a negative power, also for dtypes other
/// than f32 and f64, and for a singular matrix.
pub fn matrix_power(a: &Tensor, n: i64) -> Result<Tensor> {
    const OP: &str = "linalg.matrix_power";
    let size = checks::square_sizes(OP, a)?;
    if n == 0 {
        return constant(OP, &[a], checks::identity(size, a)?.contiguous()?);
    }
    if n == 1 {
        // A separate buffer, as for all other powers.
        return a.copy();
    }
    let mut power = if n < 0 { named_inverse(OP, a, Singular::Error)? } else { a.clone() };
    let (mut rest, mut product) = (n.unsigned_abs(), None::<Tensor>);
    loop {
        if rest % 2 == 1 {
            product = Some(match product {
                Some(product) => product.matmul(&power)?,
                None => power.clone(),
            });
        }
        rest /= 2;
        match product {
            Some(product) if rest == 0 => return Ok(product),
            _ => power = power.matmul(&power)?,
        }
    }
}

/// Returns the product of two or more matrices, in the order of products with the fewest
/// multiplications (Cormen et al., "Introduction to Algorithms", 15.2).
///
/// # Shapes
/// `[m, k] x [k, l] x .. x [.., n] -> [m, n]`; the first may be a vector `[k]`, treated as a row,
/// and the last one a vector treated as a column; their axis is dropped.
///
/// # Errors
/// Returns an error for fewer than two tensors, tensors of another rank, and sizes that do not
/// match.
pub fn multi_dot(tensors: &[&Tensor]) -> Result<Tensor> {
    const OP: &str = "linalg.multi_dot";
    let [first, .., last] = tensors else {
        return Err(Error::invalid(OP, format!("{} tensors, expected at least 2", tensors.len())));
    };
    let mut matrices: Vec<Tensor> = tensors.iter().map(|&tensor| tensor.clone()).collect();
    let count = matrices.len();
    if first.rank() == 1 {
        matrices[0] = first.unsqueeze(0)?;
    }
    if last.rank() == 1 {
        matrices[count - 1] = last.unsqueeze(-1)?;
    }
    for (matrix, tensor) in matrices.iter().zip(tensors) {
        if matrix.rank() != 2 {
            let expected = "2 (of the first and the last, 1 or 2)".to_string();
            return Err(Error::Rank { op: OP, expected, shape: Box::new(*tensor.shape()) });
        }
    }
    for pair in matrices.windows(2) {
        if pair[0].dims()[1] != pair[1].dims()[0] {
            let detail = format!("{:?} x {:?}: inner sizes differ", pair[0].shape(), pair[1].shape());
            return Err(Error::invalid(OP, detail));
        }
    }
    let mut product = chain(&matrices, &splits(&matrices), 0, count - 1)?;
    if last.rank() == 1 {
        product = product.squeeze(-1)?;
    }
    if first.rank() == 1 { product.squeeze(0) } else { Ok(product) }
}

/// Returns, at `[i][j]`, the index of the matrix after which the product of matrices i to j is
/// split first.
fn splits(matrices: &[Tensor]) -> Vec<Vec<usize>> {
    let count = matrices.len();
    let mut sizes = vec![matrices[0].dims()[0] as f64];
    sizes.extend(matrices.iter().map(|matrix| matrix.dims()[1] as f64));
    let mut costs = vec![vec![0.0; count]; count];
    let mut cuts = vec![vec![0; count]; count];
    for length in 1..count {
        for i in 0..count - length {
            let j = i + length;
            costs[i][j] = f64::INFINITY;
            for cut in i..j {
                let cost = costs[i][cut] + costs[cut + 1][j] + sizes[i] * sizes[cut + 1] * sizes[j + 1];
                if cost < costs[i][j] {
                    (costs[i][j], cuts[i][j]) = (cost, cut);
                }
            }
        }
    }
    cuts
}

fn chain(matrices: &[Tensor], cuts: &[Vec<usize>], i: usize, j: usize) -> Result<Tensor> {
    if i == j {
        return Ok(matrices[i].clone());
    }
    let split = cuts[i][j];
    chain(matrices, cuts, i, split)?.matmul(&chain(matrices, cuts, split + 1, j)?)
}

/// Applies `f` to both operands, converted to their accumulator dtype and broadcast to `shape`, and
/// rounds the result once to their dtype. The same applies to the gradients.
fn in_accumulator_dtype(
    x: &Tensor,
    y: &Tensor,
    shape: Shape,
    f: impl FnOnce(&Tensor, &Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    let wide = |tensor: &Tensor| tensor.to_dtype(tensor.dtype().accumulator())?.expand(shape);
    f(&wide(x)?, &wide(y)?)?.to_dtype(x.dtype())
}

/// Returns the cross products of vectors of three elements along an axis.
///
/// # Shapes
/// Both of the same rank, broadcast, with size 3 along `dim`
///
/// # Errors
/// Returns an error for dtypes that differ, ranks that differ, shapes that do not broadcast, and a
/// size other than 3.
pub fn cross(x: &Tensor, y: &Tensor, dim: impl Into<Axis>) -> Result<Tensor> {
    const OP: &str = "linalg.cross";
    checks::same_dtype(OP, x, y)?;
    if x.rank() != y.rank() {
        return Err(Error::invalid(
            OP,
            format!("shapes {:?} and {:?} differ in their ranks", x.shape(), y.shape()),
        ));
    }
    let axis = dim.into().resolve(x.shape(), OP)?;
    if x.dims()[axis] != 3 || y.dims()[axis] != 3 {
        let detail = format!("shapes {:?} and {:?}, expected size 3 along axis {axis}", x.shape(), y.shape());
        return Err(Error::invalid(OP, detail));
    }
    let shape = x.shape().broadcast(y.shape(), OP)?;
    in_accumulator_dtype(x, y, shape, |x, y| {
        let first = x.roll(-1, axis)?.mul(&y.roll(-2, axis)?)?;
        first.sub(&x.roll(-2, axis)?.mul(&y.roll(-1, axis)?)?)
    })
}

/// Returns the inner products of vectors along an axis of the broadcast shape.
///
/// # Shapes
/// Both broadcast; `dim` is dropped. Half precision is computed in f32 and rounded once.
///
/// # Errors
/// Returns an error for dtypes that are not floating or differ, shapes that do not broadcast, and
/// an axis that does not exist.
pub fn vecdot(x: &Tensor, y: &Tensor, dim: impl Into<Axis>) -> Result<Tensor> {
    const OP: &str = "linalg.vecdot";
    checks::floating(OP, x)?;
    checks::same_dtype(OP, x, y)?;
    let shape = x.shape().broadcast(y.shape(), OP)?;
    let axis = dim.into().resolve(&shape, OP)?;
    in_accumulator_dtype(x, y, shape, |x, y| x.mul(y)?.sum(axis as isize))
}

/// Returns Vandermonde matrices: the powers 0 to `columns - 1` of each element (by default as many
/// columns as elements).
///
/// # Shapes
/// `[.., n] -> [.., n, columns]`
///
/// # Errors
/// Returns an error for a tensor without axes, for bool, and for 0 columns.
pub fn vander(x: &Tensor, columns: Option<usize>) -> Result<Tensor> {
    const OP: &str = "linalg.vander";
    let Some(&count) = x.dims().last() else {
        return Err(Error::Rank { op: OP, expected: "at least 1".into(), shape: Box::new(*x.shape()) });
    };
    if x.dtype() == DType::Bool {
        return Err(Error::dtype(OP, "input", DType::Bool, "a number"));
    }
    if columns == Some(0) {
        return Err(Error::invalid(OP, "0 columns, expected at least 1"));
    }
    let columns = columns.unwrap_or(count);
    checks::shape(x.dims(), &[columns])?;
    let wide = x.dtype().accumulator();
    x.device().check_room(&[x.dims(), &[columns]].concat(), wide)?;
    // Powers are computed by products instead of logarithms: each iteration doubles their number by
    // multiplying them by the next power.
    let base = x.unsqueeze(-1)?.to_dtype(wide)?;
    let (mut powers, mut step) = (base.ones_like()?, base);
    loop {
        let width = powers.dims()[powers.rank() - 1];
        if width >= columns {
            break;
        }
        let more = powers.narrow(-1, 0, width.min(columns - width))?.mul(&step)?;
        powers = Tensor::concat(&[&powers, &more], -1)?;
        step = step.mul(&step)?;
    }
    powers.narrow(-1, 0, columns)?.to_dtype(x.dtype())
}

/// Returns the first n columns of the product of the reflections `1 - tau[i] v[i] v[i]^T`, where
/// `v[i]` is column i of `a` below its diagonal, 1 on it and 0 above.
///
/// # Shapes
/// `a`: `[.., m, n]` with `m >= n`; `tau`: `[.., k]` with `k <= n`, and the same axes before. The
/// result has the shape of `a`.
///
/// # Errors
/// Returns an error for dtypes other than f32 and f64 or that differ, and shapes that do not match.
pub fn householder_product(a: &Tensor, tau: &Tensor) -> Result<Tensor> {
    const OP: &str = "linalg.householder_product";
    let [m, n] = checks::matrix(OP, a)?;
    checks::same_dtype(OP, a, tau)?;
    let fits = tau.rank() + 1 == a.rank() && tau.dims()[..tau.rank() - 1] == a.dims()[..a.rank() - 2];
    let count = if fits { tau.dims()[tau.rank() - 1] } else { 0 };
    if !fits || count > n || n > m {
        let detail = format!("matrices of shape {:?} and tau of shape {:?}", a.shape(), tau.shape());
        return Err(Error::invalid(
            OP,
            format!("{detail}, expected [.., m, n] and [.., k] with m >= n >= k"),
        ));
    }
    let eye = Tensor::eye(m, a.dtype(), a.device())?.narrow(1, 0, n)?;
    let vectors = a.tril(-1)?.add(&eye)?;
    let mut product = eye.expand(Shape::new(a.dims())?)?;
    for i in (0..count).rev() {
        let v = vectors.narrow(-1, i, 1)?;
        let factor = v.mul(&tau.narrow(-1, i, 1)?.unsqueeze(-1)?)?;
        let reflected = without_precision(|| factor.matmul(&checks::transposed(&v)?.matmul(&product)?))?;
        product = product.sub(&reflected)?;
    }
    let product = product.contiguous()?;
    if count == 0 { constant(OP, &[a, tau], product) } else { Ok(product) }
}
