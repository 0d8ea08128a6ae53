//! Ranks, running extremes and the most frequent elements, each with the positions where they were found; and norms kept below a limit.

use super::indexing::reaches;
use super::{check_floating, in_accumulator};
use crate::autograd::{Context, Grads, no_grad, with_gradient};
use crate::error::{Error, Result};
use crate::op::Saves;
use crate::ops::index::index_dtype;
use crate::shape::Axis;
use crate::{Axes, DType, Tensor};

impl Tensor {
    /// The largest of the elements up to each along `axis`, and where it is (i32, i64 where that does not reach): the last of equal ones. NaN counts as
    /// larger than everything. Gradients go to the elements that were found.
    ///
    /// # Errors
    /// An axis that does not exist.
    pub fn cummax(&self, axis: impl Into<Axis>) -> Result<(Tensor, Tensor)> {
        running_extreme("cummax", self, axis.into(), Tensor::ge)
    }

    /// The smallest of the elements up to each along `axis`, and where it is (i32, i64 where that does not reach): the last of equal ones. NaN counts as
    /// smaller than everything. Gradients go to the elements that were found.
    ///
    /// # Errors
    /// An axis that does not exist.
    pub fn cummin(&self, axis: impl Into<Axis>) -> Result<(Tensor, Tensor)> {
        running_extreme("cummin", self, axis.into(), Tensor::le)
    }

    /// The most frequent element along `axis`, which is removed: the smallest of several, and the last position (i32) where it is. Each NaN differs from
    /// all else.
    ///
    /// # Errors
    /// An axis that does not exist or has no elements.
    pub fn mode(&self, axis: impl Into<Axis>) -> Result<(Tensor, Tensor)> {
        let axis = nonempty("mode", self, axis.into())?;
        let position = no_grad(|| {
            let (sorted, order) = self.sort(axis, false)?;
            let rest = self.shape().dim(axis) - 1;
            let changes = sorted.narrow(axis, 1, rest)?.ne(&sorted.narrow(axis, 0, rest)?)?;
            let one = Tensor::ones(self.shape().with_dim(axis, 1), DType::Bool, self.device())?;
            let begins = Tensor::concat(&[&one, &changes], axis)?;
            let places = places_along(self, axis)?;
            let start = places.masked_fill(&begins.logical_not()?, 0)?.cummax(axis)?.0;
            // The first of the longest runs, at its last element: sorting keeps the order of equal ones.
            order.gather(axis, &places.sub(&start)?.argmax_keep(axis)?)
        })?;
        picked(self, axis, &position)
    }

    /// The element that is number `k` (from 1) in order along `axis`, which is removed, and where it is (i32). NaN counts as larger than everything.
    ///
    /// # Errors
    /// An axis that does not exist, a `k` that is not between 1 and its size.
    pub fn kthvalue(&self, k: usize, axis: impl Into<Axis>) -> Result<(Tensor, Tensor)> {
        let axis = axis.into().resolve(self.shape(), "kthvalue")?;
        let size = self.shape().dim(axis);
        if !(1..=size).contains(&k) {
            return Err(Error::invalid("kthvalue", format!("k of {k}, expected 1 to {size}")));
        }
        picked(self, axis, &self.argsort(axis, false)?.narrow(axis, k - 1, 1)?)
    }

    /// The middle element in order along `axis`, which is removed, and where it is (i32): of two the smaller, and NaN if there is one.
    ///
    /// # Errors
    /// An axis that does not exist or has no elements.
    pub fn median(&self, axis: impl Into<Axis>) -> Result<(Tensor, Tensor)> {
        let axis = nonempty("median", self, axis.into())?;
        let x = self.detach();
        let middle = x.argsort(axis, false)?.narrow(axis, (self.shape().dim(axis) - 1) / 2, 1)?;
        if !self.dtype().is_float() {
            return picked(self, axis, &middle);
        }
        let unknown = x.ne(&x)?;
        let first = unknown.to_dtype(DType::I32)?.argmax_keep(axis)?.to_dtype(middle.dtype())?;
        picked(self, axis, &unknown.any_keep(axis)?.where_(&first, &middle)?)
    }

    /// [`median`](Tensor::median) of the elements that are not NaN; NaN where all are.
    ///
    /// # Errors
    /// An axis that does not exist or has no elements.
    pub fn nanmedian(&self, axis: impl Into<Axis>) -> Result<(Tensor, Tensor)> {
        let axis = nonempty("nanmedian", self, axis.into())?;
        let x = self.detach();
        let order = x.argsort(axis, false)?;
        let known = x.eq(&x)?.to_dtype(DType::I32)?.sum_keep(axis)?;
        // NaN is behind everything in order.
        let middle = known.sub_scalar(1)?.maximum_scalar(0)?.div_scalar(2)?.to_dtype(order.dtype())?;
        picked(self, axis, &order.gather(axis, &middle)?)
    }

    /// The middle of all elements in order: of two the smaller, and NaN if there is one, or none at all. Its gradient is shared evenly by the elements that
    /// equal it.
    ///
    /// # Errors
    /// Integers without elements.
    pub fn median_all(&self) -> Result<Tensor> {
        middle_of_all("median", self, |row| Ok(row.median(0)?.0))
    }

    /// The middle of all elements that are not NaN, in order: of two the smaller, and NaN if there is none. Its gradient is shared evenly by the elements that
    /// equal it.
    ///
    /// # Errors
    /// Integers without elements.
    pub fn nanmedian_all(&self) -> Result<Tensor> {
        middle_of_all("nanmedian", self, |row| Ok(row.nanmedian(0)?.0))
    }

    /// Each slice along `axis` whose `p`-norm is above `max_norm` scaled to that: by `max_norm / (norm + 1e-7)`, as in PyTorch.
    ///
    /// # Errors
    /// A dtype that is not floating, fewer than two axes, an axis that does not exist, `p` that is not above 0, a negative `max_norm`.
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
            // The norms of other slices must not be asked for their gradients, which are infinite at 0.
            let one = x.detach().scalar_like(1)?;
            let norms = norm(&is_above.where_(x, &one)?, p, &others)?;
            let scale = norms.add_scalar(1e-7)?.recip()?.mul_scalar(max_norm)?;
            x.mul(&is_above.where_(&scale, &one)?)
        })
    }
}

/// The `p`-norm over axes, which stay.
pub(super) fn norm(x: &Tensor, p: f64, axes: &Axes) -> Result<Tensor> {
    match p {
        1.0 => x.abs()?.sum_keep(axes.clone()),
        2.0 => x.norm_keep(axes.clone()),
        f64::INFINITY => x.max_abs_keep(axes.clone()),
        _ => {
            // Of the largest element, so that no power overflows or vanishes.
            let size = x.abs()?;
            let largest = unit(x, axes)?;
            // Powers below 1 have infinite slopes at 0, whose gradient is 0 here, as in PyTorch.
            let is_zero = size.eq_scalar(0)?;
            let powers = size.masked_fill(&is_zero, 1)?.div(&largest)?.powf(p)?.masked_fill(&is_zero, 0)?;
            powers.sum_keep(axes.clone())?.powf(1.0 / p)?.mul(&largest)
        }
    }
}

/// The largest size over axes, which stay: 1 where that is 0 or infinite. It has no gradient.
pub(super) fn unit(x: &Tensor, axes: &Axes) -> Result<Tensor> {
    no_grad(|| {
        let largest = x.max_abs_keep(axes.clone())?;
        let is_plain = largest.gt_scalar(0)?.logical_and(&largest.lt_scalar(f64::INFINITY)?)?;
        is_plain.where_(&largest, &largest.scalar_like(1)?)
    })
}

/// The axis of `x` by this name, along which there are elements.
fn nonempty(name: &'static str, x: &Tensor, axis: Axis) -> Result<usize> {
    let axis = axis.resolve(x.shape(), name)?;
    match x.shape().dim(axis) {
        0 => Err(Error::invalid(name, format!("no elements along axis {axis} of shape {:?}", x.shape()))),
        _ => Ok(axis),
    }
}

/// The elements of `x` at these positions along `axis`, which is removed, and the positions.
fn picked(x: &Tensor, axis: usize, positions: &Tensor) -> Result<(Tensor, Tensor)> {
    Ok((x.gather(axis, positions)?.squeeze(axis)?, positions.squeeze(axis)?))
}

/// The position along `axis` of each element of `x`.
fn places_along(x: &Tensor, axis: usize) -> Result<Tensor> {
    let size = x.shape().dim(axis);
    let mut dims = vec![1; x.rank()];
    dims[axis] = size;
    Tensor::iota(size, index_dtype(size), 0, 1, x.device())?.reshape(&dims[..])?.expand(*x.shape())
}

/// The running extreme: an element takes the place of an earlier one if it `wins`.
fn running_extreme(
    name: &'static str,
    x: &Tensor,
    axis: Axis,
    wins: fn(&Tensor, &Tensor) -> Result<Tensor>,
) -> Result<(Tensor, Tensor)> {
    let axis = axis.resolve(x.shape(), name)?;
    let size = x.shape().dim(axis);
    let positions = no_grad(|| {
        let (mut values, mut places) = (x.detach(), places_along(x, axis)?);
        // Each step compares with what lies as far back as the extremes reach already.
        for reach in reaches(size) {
            let rest = size - reach;
            let (before, now) = (values.narrow(axis, 0, rest)?, values.narrow(axis, reach, rest)?);
            let mut is_new = wins(&now, &before)?;
            if x.dtype().is_float() {
                is_new = is_new.logical_or(&now.ne(&now)?)?;
            }
            let put = |all: &Tensor| {
                let chosen = is_new.where_(&all.narrow(axis, reach, rest)?, &all.narrow(axis, 0, rest)?)?;
                Tensor::concat(&[&all.narrow(axis, 0, reach)?, &chosen], axis)
            };
            (values, places) = (put(&values)?, put(&places)?);
        }
        places.contiguous()
    })?;
    Ok((x.gather(axis, &positions)?, positions))
}

/// `middle` of all elements in a row.
fn middle_of_all(name: &'static str, x: &Tensor, middle: fn(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let y = match x.elements() {
        0 if x.dtype().is_float() => Tensor::full((), f64::NAN, x.dtype(), x.device())?,
        0 => return Err(Error::invalid(name, format!("no elements in shape {:?}", x.shape()))),
        count => no_grad(|| middle(&x.reshape([count])?))?,
    };
    let rule = |context: &Context<'_>, grads: &[Option<Tensor>]| {
        let Some(dy) = &grads[0] else { return Ok(Grads::new()) };
        let (x, y) = (context.input(0)?, context.output(0)?);
        let is_unknown = x.ne(x)?.logical_and(&y.ne(y)?)?;
        let is_middle = x.eq(y)?.logical_or(&is_unknown)?;
        let dtype = dy.dtype().accumulator();
        let share = dy.to_dtype(dtype)?.div(&is_middle.to_dtype(dtype)?.sum_all()?)?.to_dtype(dy.dtype())?;
        Ok(Grads::from_elem(Some(is_middle.where_(&share, &share.detach().scalar_like(0)?)?), 1))
    };
    Ok(with_gradient(name, &[x], vec![y], Saves::ALL, rule)?.swap_remove(0))
}
