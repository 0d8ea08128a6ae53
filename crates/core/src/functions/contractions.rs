//! Sums of products over axes of two tensors, by one matrix product.

use super::check_number;
use crate::error::{Error, Result};
use crate::op::check;
use crate::ops::einsum::einsum;
use crate::shape::{Axis, Shape};
use crate::{Axes, Tensor};

impl Tensor {
    /// The sums of products along the last axis of both; of a tensor without axes the products.
    ///
    /// The gradients are those of the matrix product.
    ///
    /// # Shapes
    /// `[.., k]` and `[*others, k]` -> `[.., *others]`
    ///
    /// # Errors
    /// Last sizes that differ, dtypes that differ, bool.
    pub fn inner(&self, other: &Tensor) -> Result<Tensor> {
        let name = "inner";
        check::same_dtype(name, &self.meta(), &other.meta())?;
        let (Some(&own), Some(&others)) = (self.dims().last(), other.dims().last()) else {
            return self.mul(other);
        };
        if own != others {
            let detail = format!("shapes {} and {}: the last sizes differ", self.shape(), other.shape());
            return Err(Error::invalid(name, detail));
        }
        let rows = |x: &Tensor| x.dims()[..x.rank() - 1].to_vec();
        let matrix = |x: &Tensor| x.reshape([rows(x).iter().product(), own]);
        let y = matrix(self)?.matmul(&matrix(other)?.t()?)?;
        y.reshape(&[rows(self), rows(other)].concat()[..])
    }

    /// `self @ weight[o] @ other + bias[o]` of the last axes, for each output `o`. Half precision is computed in f32 and rounded once.
    ///
    /// # Shapes
    /// `[.., n]`, `[.., m]`, weight `[outputs, n, m]`, bias `[outputs]` -> `[.., outputs]`
    ///
    /// # Errors
    /// Shapes or dtypes that do not fit, truth values.
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
                format!("inputs of shapes {left} and {right} beside a weight of shape {}", weight.shape());
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

    /// The sums of products over `axes` of this tensor and `other_axes` of the other one, in pairs. An axis of size 1 meets each element of its partner, as in
    /// PyTorch.
    ///
    /// The gradients are those of the matrix product.
    ///
    /// # Shapes
    /// The other axes of this tensor, then the other axes of `other`
    ///
    /// # Errors
    /// Axes that do not exist or are named twice, as many as not on the other side, sizes that differ, dtypes that differ, bool.
    pub fn tensordot(&self, other: &Tensor, axes: &[isize], other_axes: &[isize]) -> Result<Tensor> {
        let name = "tensordot";
        check::same_dtype(name, &self.meta(), &other.meta())?;
        let (own, others) = (resolved(self, axes)?, resolved(other, other_axes)?);
        if own.len() != others.len() {
            let detail = format!("{} axes and {} of the other tensor", own.len(), others.len());
            return Err(Error::invalid(name, detail));
        }
        let (mut a, mut b) = (self.clone(), other.clone());
        for (&axis, &its) in own.iter().zip(&others) {
            let (size, its_size) = (self.dims()[axis], other.dims()[its]);
            match (size, its_size) {
                _ if size == its_size => {}
                (_, 1) => a = sum_of(&a, axis)?,
                (1, _) => b = sum_of(&b, its)?,
                _ => {
                    let detail = format!(
                        "axes {own:?} of shape {} and {others:?} of shape {}: sizes differ",
                        self.shape(),
                        other.shape()
                    );
                    return Err(Error::invalid(name, detail));
                }
            }
        }
        let (left, rows) = matrix(&a, &own, false)?;
        let (right, columns) = matrix(&b, &others, true)?;
        left.matmul(&right)?.reshape(&[rows, columns].concat()[..])
    }
}

/// Axes counted from the first one.
fn resolved(x: &Tensor, axes: &[isize]) -> Result<Vec<usize>> {
    // The set of axes reports those that are named twice.
    Axes::from(axes).resolve(x.shape(), "tensordot")?;
    axes.iter().map(|&axis| Axis(axis).resolve(x.shape(), "tensordot")).collect()
}

/// The sum over an axis that stays, in this dtype.
fn sum_of(x: &Tensor, axis: usize) -> Result<Tensor> {
    x.sum_keep(axis)?.to_dtype(x.dtype())
}

/// A matrix whose columns (or rows) are numbered by the `summed` axes, and the sizes of the others.
fn matrix(x: &Tensor, summed: &[usize], is_right: bool) -> Result<(Tensor, Vec<usize>)> {
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
