//! Order statistics, cumulative maxima and minima, and modes, each with the indices of the selected
//! elements, and the limiting of norms.

use super::indexing::scan_steps;
use super::{check_floating, in_accumulator};
use crate::autograd::{Context, Grads, no_grad, with_gradient};
use crate::error::{Error, Result};
use crate::op::Saves;
use crate::ops::index::index_dtype;
use crate::shape::Axis;
use crate::{Axes, DType, Tensor};

impl Tensor {
    /// Returns the cumulative maximum along `axis` and its index (i32, or i64 if indices exceed its
    /// range): the last one of equal elements. NaN counts as larger than everything. Gradients go
    /// to the selected elements.
    ///
    /// # Errors
    /// Returns an error if the axis does not exist.
    pub fn cummax(&self, axis: impl Into<Axis>) -> Result<(Tensor, Tensor)> {
        running_extreme("cummax", self, axis.into(), Tensor::ge)
    }

    /// Returns the cumulative minimum along `axis` and its index (i32, or i64 if indices exceed its
    /// range): the last one of equal elements. NaN counts as smaller than everything. Gradients go
    /// to the selected elements.
    ///
    /// # Errors
    /// Returns an error if the axis does not exist.
    pub fn cummin(&self, axis: impl Into<Axis>) -> Result<(Tensor, Tensor)> {
        running_extreme("cummin", self, axis.into(), Tensor::le)
    }

    /// Returns the most frequent element along `axis`, which is removed, and its last index (i32).
    /// If several are equally frequent, returns the smallest. Each NaN counts as a different
    /// element.
    ///
    /// # Errors
    /// Returns an error if the axis does not exist or has size 0.
    pub fn mode(&self, axis: impl Into<Axis>) -> Result<(Tensor, Tensor)> {
        let axis = resolve_nonempty_axis("mode", self, axis.into())?;
        let position = no_grad(|| {
            let (sorted, order) = self.sort(axis, false)?;
            let rest = self.shape().dim(axis) - 1;
            let changes = sorted.narrow(axis, 1, rest)?.ne(&sorted.narrow(axis, 0, rest)?)?;
            let one = Tensor::ones(self.shape().with_dim(axis, 1), DType::Bool, self.device())?;
            let is_start = Tensor::concat(&[&one, &changes], axis)?;
            let indices = axis_indices(self, axis)?;
            let start = indices.masked_fill(&is_start.logical_not()?, 0)?.cummax(axis)?.0;
            // The last element of the first of the longest runs: the sort is stable.
            order.gather(axis, &indices.sub(&start)?.argmax_keep(axis)?)
        })?;
        gather_and_squeeze(self, axis, &position)
    }

    /// Returns the `k`-th smallest element (counted from 1) along `axis`, which is removed, and its
    /// index (i32). NaN counts as larger than everything.
    ///
    /// # Errors
    /// Returns an error if the axis does not exist, or if `k` is not between 1 and its size.
    pub fn kthvalue(&self, k: usize, axis: impl Into<Axis>) -> Result<(Tensor, Tensor)> {
        let axis = axis.into().resolve(self.shape(), "kthvalue")?;
        let size = self.shape().dim(axis);
        if !(1..=size).contains(&k) {
            return Err(Error::invalid("kthvalue", format!("k of {k}, expected 1 to {size}")));
        }
        gather_and_squeeze(self, axis, &self.argsort(axis, false)?.narrow(axis, k - 1, 1)?)
    }

    /// Returns the median along `axis`, which is removed, and its index (i32). Of two middle
    /// elements it is the smaller one; if there is a NaN, it is NaN.
    ///
    /// # Errors
    /// Returns an error if the axis does not exist or has size 0.
    pub fn median(&self, axis: impl Into<Axis>) -> Result<(Tensor, Tensor)> {
        let axis = resolve_nonempty_axis("median", self, axis.into())?;
        let x = self.detach();
        let middle = x.argsort(axis, false)?.narrow(axis, (self.shape().dim(axis) - 1) / 2, 1)?;
        if !self.dtype().is_float() {
            return gather_and_squeeze(self, axis, &middle);
        }
        let is_nan = x.ne(&x)?;
        let first = is_nan.to_dtype(DType::I32)?.argmax_keep(axis)?.to_dtype(middle.dtype())?;
        gather_and_squeeze(self, axis, &is_nan.any_keep(axis)?.where_(&first, &middle)?)
    }

    /// Same as [`median`](Tensor::median), but ignores NaN. The result is NaN where all elements
    /// are.
    ///
    /// # Errors
    /// Returns an error if the axis does not exist or has size 0.
    pub fn nanmedian(&self, axis: impl Into<Axis>) -> Result<(Tensor, Tensor)> {
        let axis = resolve_nonempty_axis("nanmedian", self, axis.into())?;
        let x = self.detach();
        let order = x.argsort(axis, false)?;
        let number_count = x.eq(&x)?.to_dtype(DType::I32)?.sum_keep(axis)?;
        // NaN is last in sorted order.
        let middle = number_count.sub_scalar(1)?.maximum_scalar(0)?.div_scalar(2)?.to_dtype(order.dtype())?;
        gather_and_squeeze(self, axis, &order.gather(axis, &middle)?)
    }

    /// Returns the median of all elements. Of two middle elements it is the smaller one; if there
    /// is a NaN, or no element, it is NaN. Its gradient is shared evenly by the elements that equal
    /// it.
    ///
    /// # Errors
    /// Returns an error for integers if there are no elements.
    pub fn median_all(&self) -> Result<Tensor> {
        median_of_flattened("median", self, |row| Ok(row.median(0)?.0))
    }

    /// Returns the median of all elements that are not NaN, and NaN if there are none. Of two
    /// middle elements it is the smaller one. Its gradient is shared evenly by the elements that
    /// equal it.
    ///
    /// # Errors
    /// Returns an error for integers if there are no elements.
    pub fn nanmedian_all(&self) -> Result<Tensor> {
        median_of_flattened("nanmedian", self, |row| Ok(row.nanmedian(0)?.0))
    }

    /// Scales each slice along `axis` whose `p`-norm is above `max_norm` down to that norm, by the
    /// factor `max_norm / (norm + 1e-7)`, as in PyTorch.
    ///
    /// # Errors
    /// Returns an error if the dtype is not floating-point, if there are fewer than two axes, if
    /// the axis does not exist, if `p` is not above 0, or if `max_norm` is negative.
    pub fn renorm(&self, p: f64, axis: impl Into<Axis>, max_norm: f64) -> Result<Tensor> {
        let name = "renorm";
        check_floating(name, self)?;
        if self.rank() < 2 {
            return Err(Error::Rank {
                op: name,
                expected: "at least 2".into(),
                shape: Box::new(*self.shape()),
            });
        }
        let axis = axis.into().resolve(self.shape(), name)?;
        if p.is_nan() || p <= 0.0 || max_norm.is_nan() || max_norm < 0.0 {
            return Err(Error::invalid(
                name,
                format!("p of {p} and max_norm of {max_norm}, expected above 0 and at least 0"),
            ));
        }
        in_accumulator([self], |[x]| {
            let others: Vec<usize> = (0..x.rank()).filter(|&other| other != axis).collect();
            let others = Axes::from(&others[..]);
            let is_above = no_grad(|| norm(x, p, &others)?.gt_scalar(max_norm))?;
            // The norms of other slices are excluded, because their gradients are infinite at 0.
            let one = x.detach().scalar_like(1)?;
            let norms = norm(&is_above.where_(x, &one)?, p, &others)?;
            let scale = norms.add_scalar(1e-7)?.recip()?.mul_scalar(max_norm)?;
            x.mul(&is_above.where_(&scale, &one)?)
        })
    }
}

/// Returns the `p`-norm over axes, which are kept with size 1.
pub(super) fn norm(x: &Tensor, p: f64, axes: &Axes) -> Result<Tensor> {
    match p {
        1.0 => x.abs()?.sum_keep(axes.clone()),
        2.0 => x.norm_keep(axes.clone()),
        f64::INFINITY => x.max_abs_keep(axes.clone()),
        _ => {
            // Powers of ratios to the largest magnitude neither overflow nor underflow.
            let size = x.abs()?;
            let largest = unit(x, axes)?;
            // Powers below 1 have an infinite derivative at 0. The gradient there is defined as 0,
            // as in PyTorch.
            let is_zero = size.eq_scalar(0)?;
            let powers = size.masked_fill(&is_zero, 1)?.div(&largest)?.powf(p)?.masked_fill(&is_zero, 0)?;
            powers.sum_keep(axes.clone())?.powf(1.0 / p)?.mul(&largest)
        }
    }
}

/// Returns the largest magnitude over axes, which are kept with size 1, and 1 where it is 0 or
/// infinite. It has no gradient.
pub(super) fn unit(x: &Tensor, axes: &Axes) -> Result<Tensor> {
    no_grad(|| {
        let largest = x.max_abs_keep(axes.clone())?;
        let is_positive_finite = largest.gt_scalar(0)?.logical_and(&largest.lt_scalar(f64::INFINITY)?)?;
        is_positive_finite.where_(&largest, &largest.scalar_like(1)?)
    })
}

/// Resolves the axis; errors contain `name`. An axis of size 0 is an error.
fn resolve_nonempty_axis(name: &'static str, x: &Tensor, axis: Axis) -> Result<usize> {
    let axis = axis.resolve(x.shape(), name)?;
    match x.shape().dim(axis) {
        0 => Err(Error::invalid(name, format!("no elements along axis {axis} of shape {:?}", x.shape()))),
        _ => Ok(axis),
    }
}

/// Returns the elements of `x` at these positions along `axis`, which is removed, and the
/// positions.
fn gather_and_squeeze(x: &Tensor, axis: usize, positions: &Tensor) -> Result<(Tensor, Tensor)> {
    Ok((x.gather(axis, positions)?.squeeze(axis)?, positions.squeeze(axis)?))
}

/// Returns the index along `axis` of each element of `x`.
fn axis_indices(x: &Tensor, axis: usize) -> Result<Tensor> {
    let size = x.shape().dim(axis);
    let mut dims = vec![1; x.rank()];
    dims[axis] = size;
    Tensor::iota(size, index_dtype(size), 0, 1, x.device())?.reshape(&dims[..])?.expand(*x.shape())
}

/// Computes a cumulative maximum or minimum: an element replaces an earlier one where `replaces`
/// returns true.
fn running_extreme(
    name: &'static str,
    x: &Tensor,
    axis: Axis,
    replaces: fn(&Tensor, &Tensor) -> Result<Tensor>,
) -> Result<(Tensor, Tensor)> {
    let axis = axis.resolve(x.shape(), name)?;
    let size = x.shape().dim(axis);
    let positions = no_grad(|| {
        let (mut values, mut indices) = (x.detach(), axis_indices(x, axis)?);
        // Each step compares with the result that ends `distance` elements before.
        for distance in scan_steps(size) {
            let rest = size - distance;
            let (before, now) = (values.narrow(axis, 0, rest)?, values.narrow(axis, distance, rest)?);
            let mut is_new = replaces(&now, &before)?;
            if x.dtype().is_float() {
                is_new = is_new.logical_or(&now.ne(&now)?)?;
            }
            let update = |whole: &Tensor| {
                let chosen =
                    is_new.where_(&whole.narrow(axis, distance, rest)?, &whole.narrow(axis, 0, rest)?)?;
                Tensor::concat(&[&whole.narrow(axis, 0, distance)?, &chosen], axis)
            };
            (values, indices) = (update(&values)?, update(&indices)?);
        }
        indices.contiguous()
    })?;
    Ok((x.gather(axis, &positions)?, positions))
}

/// Applies `middle` to the flattened tensor.
fn median_of_flattened(
    name: &'static str,
    x: &Tensor,
    middle: fn(&Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    let y = match x.elements() {
        0 if x.dtype().is_float() => Tensor::full((), f64::NAN, x.dtype(), x.device())?,
        0 => return Err(Error::invalid(name, format!("no elements in shape {:?}", x.shape()))),
        count => no_grad(|| middle(&x.reshape([count])?))?,
    };
    let rule = |context: &Context<'_>, grads: &[Option<Tensor>]| {
        let Some(dy) = &grads[0] else { return Ok(Grads::new()) };
        let (x, y) = (context.input(0)?, context.output(0)?);
        let are_both_nan = x.ne(x)?.logical_and(&y.ne(y)?)?;
        let is_middle = x.eq(y)?.logical_or(&are_both_nan)?;
        let dtype = dy.dtype().accumulator();
        let shared_grad =
            dy.to_dtype(dtype)?.div(&is_middle.to_dtype(dtype)?.sum_all()?)?.to_dtype(dy.dtype())?;
        Ok(Grads::from_elem(Some(is_middle.where_(&shared_grad, &shared_grad.detach().scalar_like(0)?)?), 1))
    };
    Ok(with_gradient(name, &[x], vec![y], Saves::ALL, rule)?.swap_remove(0))
}
