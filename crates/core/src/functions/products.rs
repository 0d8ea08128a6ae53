//! Matrix products that are added to a tensor, under PyTorch's names. All use the epilogue of the
//! matrix product: half precision is rounded once, integers stay exact, and with `beta` 0 the
//! values of the summand are ignored.

use crate::error::{Error, Result};
use crate::op::check;
use crate::ops::matmul::{add_scaled, check_integer_factor, check_same_numeric_dtype};
use crate::precision;
use crate::{Shape, Tensor};

impl Tensor {
    /// Returns `beta * self + alpha * matrix vector`, like PyTorch's `addmv`.
    ///
    /// # Shapes
    /// self `[m]` or a shape that broadcasts to it, matrix `[m, k]`, vector `[k]` -> `[m]`
    ///
    /// # Errors
    /// Returns an error if the shapes do not match, if the dtypes differ or are bool, or if the
    /// dtype is an integer dtype and a factor is not an integer.
    pub fn addmv(&self, matrix: &Tensor, vector: &Tensor, beta: f64, alpha: f64) -> Result<Tensor> {
        let ([rows, inner], [length]) =
            (matrix.shape().to_array::<2>("addmv")?, vector.shape().to_array::<1>("addmv")?);
        check_same_inner("addmv", [matrix, vector], [inner, length])?;
        add_product("addmv", self, [matrix, vector], &[rows], [beta, alpha])
    }

    /// Returns `beta * self + alpha * (a[0] b[0] + a[1] b[1] + ..)`, summed over the batch, like
    /// PyTorch's `addbmm`.
    ///
    /// # Shapes
    /// self `[m, n]` or a shape that broadcasts to it, a `[batch, m, k]`, b `[batch, k, n]` ->
    /// `[m, n]`
    ///
    /// # Errors
    /// Same as [`addmv`](Tensor::addmv).
    pub fn addbmm(&self, a: &Tensor, b: &Tensor, beta: f64, alpha: f64) -> Result<Tensor> {
        let [_, rows, columns] = batched_sizes("addbmm", a, b)?;
        // One product whose inner axis combines the batch and the inner axis of each matrix.
        let inner = a.dims()[0] * a.dims()[2];
        let left = a.permute([1, 0, 2])?.reshape([rows, inner])?;
        let right = b.reshape([inner, columns])?;
        add_product("addbmm", self, [&left, &right], &[rows, columns], [beta, alpha])
    }

    /// Returns `beta * self + alpha * a b` for each pair of matrices, like PyTorch's `baddbmm`.
    ///
    /// # Shapes
    /// self `[batch, m, n]` or a shape that broadcasts to it, a `[batch, m, k]`, b `[batch, k, n]`
    /// -> `[batch, m, n]`
    ///
    /// # Errors
    /// Same as [`addmv`](Tensor::addmv).
    pub fn baddbmm(&self, a: &Tensor, b: &Tensor, beta: f64, alpha: f64) -> Result<Tensor> {
        let sizes = batched_sizes("baddbmm", a, b)?;
        add_product("baddbmm", self, [a, b], &sizes, [beta, alpha])
    }

    /// Returns `beta * self + alpha * left[i] * right[j]`, like PyTorch's `addr`.
    ///
    /// # Shapes
    /// self `[m, n]` or a shape that broadcasts to it, left `[m]`, right `[n]` -> `[m, n]`
    ///
    /// # Errors
    /// Same as [`addmv`](Tensor::addmv).
    pub fn addr(&self, left: &Tensor, right: &Tensor, beta: f64, alpha: f64) -> Result<Tensor> {
        let ([rows], [columns]) = (left.shape().to_array::<1>("addr")?, right.shape().to_array::<1>("addr")?);
        check_same_numeric_dtype("addr", &[left, right])?;
        Shape::unchecked(&[rows, 1]).resized(1, columns, "addr")?;
        let operands = [&left.unsqueeze(1)?, &right.unsqueeze(0)?];
        add_product("addr", self, operands, &[rows, columns], [beta, alpha])
    }
}

/// Returns `[batch, m, n]` for products of pairs of matrices.
fn batched_sizes(name: &'static str, a: &Tensor, b: &Tensor) -> Result<[usize; 3]> {
    let ([batch, rows, inner], [other_batch, other_inner, columns]) =
        (a.shape().to_array::<3>(name)?, b.shape().to_array::<3>(name)?);
    if batch != other_batch {
        let expected = Shape::unchecked(&[batch, inner, columns]);
        return check::shape(name, "right operand", &b.meta(), expected).map(|()| [0; 3]);
    }
    check_same_inner(name, [a, b], [inner, other_inner])?;
    Ok([batch, rows, columns])
}

fn check_same_inner(name: &'static str, [a, b]: [&Tensor; 2], [left, right]: [usize; 2]) -> Result<()> {
    match left == right {
        true => Ok(()),
        false => Err(Error::invalid(
            name,
            format!("{} x {}: inner sizes {left} and {right} differ", a.shape(), b.shape()),
        )),
    }
}

/// Returns `factors[0] * summand + factors[1] * operands[0] operands[1]`. In a precision scope the
/// operands are cast first.
fn add_product(
    name: &'static str,
    summand: &Tensor,
    [a, b]: [&Tensor; 2],
    sizes: &[usize],
    factors: [f64; 2],
) -> Result<Tensor> {
    match precision::current() {
        None => add_product_uncast(name, summand, [a, b], sizes, factors),
        Some(scope) => {
            let [summand, a, b] = [scope.operand(summand)?, scope.operand(a)?, scope.operand(b)?];
            add_product_uncast(name, &summand, [&a, &b], sizes, factors)
        }
    }
}

fn add_product_uncast(
    name: &'static str,
    summand: &Tensor,
    [a, b]: [&Tensor; 2],
    sizes: &[usize],
    [beta, alpha]: [f64; 2],
) -> Result<Tensor> {
    let dtype = summand.dtype();
    check_same_numeric_dtype(name, &[a, b, summand])?;
    check_integer_factor(name, "beta", beta, dtype)?;
    check_integer_factor(name, "alpha", alpha, dtype)?;
    let shape = Shape::new(sizes)?;
    if !summand.shape().broadcasts_to(&shape) {
        let got = Box::new(*summand.shape());
        return Err(Error::Shape { op: name, what: "summand", got, expected: Box::new(shape) });
    }
    if sizes.len() > 1 {
        return add_scaled(summand, a, b, [beta, alpha]);
    }
    // Treats a result with one axis as a column.
    let column = summand.expand(shape)?.unsqueeze(1)?;
    add_scaled(&column, a, &b.unsqueeze(1)?, [beta, alpha])?.squeeze(1)
}
