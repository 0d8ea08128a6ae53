//! Sums of products over axes of two tensors, computed by one matrix product.

use super::check_number;
use crate::error::{Error, Result};
use crate::op::check;
use crate::ops::einsum::einsum;
use crate::shape::{Axis, Shape};
use crate::{Axes, Tensor};

impl Tensor {
    /// Returns the sums of products along the last axis of both. If one tensor has no axes, returns
    /// the elementwise product.
    ///
    /// The gradients are those of the matrix product.
    ///
    /// # Shapes
    /// `[.., k]` and `[*others, k]` -> `[.., *others]`
    ///
    /// # Errors
    /// Returns an error if the last sizes differ, or if the dtypes differ or are bool.
    pub fn inner(&self, other: &Tensor) -> Result<Tensor> {
        let name = "inner";
        check::same_dtype(name, &self.meta(), &other.meta())?;
        let (Some(&inner), Some(&other_inner)) = (self.dims().last(), other.dims().last()) else {
            return self.mul(other);
        };
        if inner != other_inner {
            let detail = format!("shapes {} and {}: the last sizes differ", self.shape(), other.shape());
            return Err(Error::invalid(name, detail));
        }
        let rows = |x: &Tensor| x.dims()[..x.rank() - 1].to_vec();
        let matrix = |x: &Tensor| x.reshape([rows(x).iter().product(), inner]);
        let y = matrix(self)?.matmul(&matrix(other)?.t()?)?;
        y.reshape(&[rows(self), rows(other)].concat()[..])
    }

    /// Returns `self @ weight[o] @ other + bias[o]` over the last axes, for each output `o`.
    /// Half-precision inputs are computed in f32, and the result is rounded once.
    ///
    /// # Shapes
    /// `[.., n]`, `[.., m]`, weight `[outputs, n, m]`, bias `[outputs]` -> `[.., outputs]`
    ///
    /// # Errors
    /// Returns an error if shapes or dtypes do not match, or if the dtype is bool.
    pub fn bilinear(&self, other: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        let name = "bilinear";
        for operand in [Some(other), Some(weight), bias].into_iter().flatten() {
            check_number(name, self, operand)?;
        }
        let [outputs, n, m] = weight.shape().to_array(name)?;
        let fits = |x: &Tensor, size: usize| x.dims().last() == Some(&size);
        let outer = |x: &Tensor| x.dims()[..x.rank().saturating_sub(1)].to_vec();
        if !fits(self, n) || !fits(other, m) || outer(self) != outer(other) {
            let (left, right) = (self.shape(), other.shape());
            let detail =
                format!("inputs of shapes {left} and {right} for a weight of shape {}", weight.shape());
            return Err(Error::invalid(name, detail));
        }
        if let Some(bias) = bias {
            check::shape(name, "bias", &bias.meta(), Shape::new(&[outputs])?)?;
        }
        let rows = outer(self).iter().product::<usize>();
        let wide = |x: &Tensor| x.to_dtype(x.dtype().accumulator());
        let (x, other) = (wide(self)?.reshape([rows, n])?, wide(other)?.reshape([rows, m])?);
        let mut y = einsum("bi,oij,bj->bo", &[&x, &wide(weight)?, &other])?;
        if let Some(bias) = bias {
            y = y.add(&wide(bias)?)?;
        }
        y.reshape(&[outer(self), vec![outputs]].concat()[..])?.to_dtype(self.dtype())
    }

    /// Sums the products over `axes` of this tensor and `other_axes` of the other one, taken in
    /// pairs. An axis of size 1 is broadcast to the size of its partner, as in PyTorch.
    ///
    /// The gradients are those of the matrix product.
    ///
    /// # Shapes
    /// The remaining axes of this tensor, then the remaining axes of `other`
    ///
    /// # Errors
    /// Returns an error if an axis does not exist or is given twice, if the numbers of axes differ,
    /// if the sizes of a pair differ, or if the dtypes differ or are bool.
    pub fn tensordot(&self, other: &Tensor, axes: &[isize], other_axes: &[isize]) -> Result<Tensor> {
        let name = "tensordot";
        check::same_dtype(name, &self.meta(), &other.meta())?;
        let (axes, other_axes) = (resolve_axes(self, axes)?, resolve_axes(other, other_axes)?);
        if axes.len() != other_axes.len() {
            let detail = format!("{} axes and {} of the other tensor", axes.len(), other_axes.len());
            return Err(Error::invalid(name, detail));
        }
        let (mut a, mut b) = (self.clone(), other.clone());
        for (&axis, &other_axis) in axes.iter().zip(&other_axes) {
            let (size, other_size) = (self.dims()[axis], other.dims()[other_axis]);
            match (size, other_size) {
                _ if size == other_size => {}
                (_, 1) => a = sum_keep_dtype(&a, axis)?,
                (1, _) => b = sum_keep_dtype(&b, other_axis)?,
                _ => {
                    let detail = format!(
                        "axes {axes:?} of shape {} and {other_axes:?} of shape {}: sizes differ",
                        self.shape(),
                        other.shape()
                    );
                    return Err(Error::invalid(name, detail));
                }
            }
        }
        let (left, rows) = flatten_to_matrix(&a, &axes, false)?;
        let (right, columns) = flatten_to_matrix(&b, &other_axes, true)?;
        left.matmul(&right)?.reshape(&[rows, columns].concat()[..])
    }
}

/// Returns the axes counted from the first one.
fn resolve_axes(x: &Tensor, axes: &[isize]) -> Result<Vec<usize>> {
    // `Axes` reports axes that are given twice.
    Axes::from(axes).resolve(x.shape(), "tensordot")?;
    axes.iter().map(|&axis| Axis(axis).resolve(x.shape(), "tensordot")).collect()
}

/// Returns the sum over an axis, which is kept with size 1, in the dtype of `x`.
fn sum_keep_dtype(x: &Tensor, axis: usize) -> Result<Tensor> {
    x.sum_keep(axis)?.to_dtype(x.dtype())
}

/// Flattens `x` to a matrix whose columns (rows if `is_right`) are the `summed` axes, and returns
/// it with the sizes of the other axes.
fn flatten_to_matrix(x: &Tensor, summed: &[usize], is_right: bool) -> Result<(Tensor, Vec<usize>)> {
    let rest: Vec<usize> = (0..x.rank()).filter(|axis| !summed.contains(axis)).collect();
    let sizes = |axes: &[usize]| axes.iter().map(|&axis| x.dims()[axis]).collect::<Vec<_>>();
    let (inner, outer) = (sizes(summed).iter().product(), sizes(&rest).iter().product());
    let (order, shape): (Vec<usize>, [usize; 2]) = match is_right {
        true => ([summed, &rest].concat(), [inner, outer]),
        false => ([&rest, summed].concat(), [outer, inner]),
    };
    let order: Vec<isize> = order.into_iter().map(|axis| axis as isize).collect();
    Ok((x.permute(&order[..])?.reshape(shape)?, sizes(&rest)))
}
