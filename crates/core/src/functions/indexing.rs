//! Elements reduced into places that an index names, places in ordered sequences, and different elements.

use super::in_accumulator;
use crate::autograd::{Context, Grads, no_grad, with_gradient};
use crate::error::{Error, Result, index_told_as};
use crate::op::{Saves, check};
use crate::ops::index::{index_dtype, index_fits, spread};
use crate::shape::Axis;
use crate::{DType, Shape, Tensor};

/// How elements that meet in one place are reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScatterReduction {
    /// Their sum; of truth values, whether any is true.
    Sum,
    /// Their product; of truth values, whether all are true.
    Prod,
    /// Their mean; of integers rounded down.
    Mean,
    /// The largest; NaN if there is one.
    Amax,
    /// The smallest; NaN if there is one.
    Amin,
}

impl Tensor {
    /// This tensor with the elements `source[.., i, ..]` reduced into place `[.., index[.., i, ..], ..]` along `axis`, together with what is
    /// there if `include_self`. Places that no index names stay as they are.
    ///
    /// Gradients of `Amax` and `Amin` are shared evenly by all elements that equal the result. (PyTorch counts an equal element of this tensor also
    /// where `include_self` leaves it out, whose share is lost there.) Those of `Prod` are exact at zeros.
    ///
    /// # Shapes
    /// `index` (i32 or i64) has this tensor's rank, each other axis at most as long; `source` is at least as long along each axis.
    ///
    /// # Errors
    /// Shapes or dtypes that do not fit, a mean of truth values, an index out of range.
    pub fn scatter_reduce(
        &self,
        axis: impl Into<Axis>,
        index: &Tensor,
        source: &Tensor,
        reduction: ScatterReduction,
        include_self: bool,
    ) -> Result<Tensor> {
        let name = "scatter_reduce";
        let axis = axis.into().resolve(self.shape(), name)?;
        index_fits(name, axis, &self.meta(), &index.meta())?;
        let source = part_of(name, source, index.shape())?;
        Reducer { name, axis, index, reduction, include_self }.reduce(self, &source)
    }

    /// This tensor with slice `i` of `source` reduced into slice `index[i]` along `axis`, as [`scatter_reduce`](Tensor::scatter_reduce) does
    /// with elements.
    ///
    /// # Shapes
    /// `index` is `[count]` (i32 or i64); `source` is as this tensor, with `count` slices.
    ///
    /// # Errors
    /// Shapes or dtypes that do not fit, a mean of truth values, an index out of range.
    pub fn index_reduce(
        &self,
        axis: impl Into<Axis>,
        index: &Tensor,
        source: &Tensor,
        reduction: ScatterReduction,
        include_self: bool,
    ) -> Result<Tensor> {
        let name = "index_reduce";
        let axis = axis.into().resolve(self.shape(), name)?;
        check::index(name, "index", &index.meta())?;
        let [count] = index.shape().to_array(name)?;
        check::shape(name, "source", &source.meta(), self.shape().resized(axis, count, name)?)?;
        let index = &spread(index, axis, *source.shape())?;
        Reducer { name, axis, index, reduction, include_self }.reduce(self, source)
    }

    /// Where each of `values` would be put into this sequence, which is in order along its last axis, so that it stays so: in front of equal
    /// elements, or behind them if `right`. NaN goes behind everything. `sorter` are positions that put this sequence in order. The result is i32
    /// (i64 where that does not reach).
    ///
    /// # Shapes
    /// `[n]` and values `[..]`, or `[.., n]` and values `[.., m]`; the result has the shape of the values.
    ///
    /// # Errors
    /// A sequence without axes, other shapes or dtypes, a sorter of another shape than the sequence, a position out of range.
    pub fn searchsorted(&self, values: &Tensor, right: bool, sorter: Option<&Tensor>) -> Result<Tensor> {
        let name = "searchsorted";
        check::same_dtype(name, &self.meta(), &values.meta())?;
        let Some(last) = self.rank().checked_sub(1) else {
            return Err(Error::invalid(name, "a sequence without axes"));
        };
        let is_row = last == 0;
        if !is_row && (values.rank() != self.rank() || values.dims()[..last] != self.dims()[..last]) {
            let told =
                format!("values of shape {:?} beside a sequence of {:?}", values.shape(), self.shape());
            return Err(Error::invalid(name, told));
        }
        let sequence = match sorter {
            None => self.detach(),
            Some(sorter) => {
                check::index(name, "sorter", &sorter.meta())?;
                check::shape(name, "sorter", &sorter.meta(), *self.shape())?;
                index_told_as(name, || self.detach().gather(last, sorter))?
            }
        };
        match is_row {
            true => found(&sequence, &values.detach().reshape([values.elements()])?, right)?
                .reshape(*values.shape()),
            false => found(&sequence, &values.detach(), right),
        }
    }

    /// Between which of `boundaries`, which are in order, each element lies: the number of those below it, or not above it if `right`. See
    /// [`searchsorted`](Tensor::searchsorted).
    ///
    /// # Shapes
    /// `[..]` and boundaries `[n]` give `[..]`.
    ///
    /// # Errors
    /// Boundaries with another number of axes or of another dtype.
    pub fn bucketize(&self, boundaries: &Tensor, right: bool) -> Result<Tensor> {
        check::same_dtype("bucketize", &self.meta(), &boundaries.meta())?;
        let [_] = boundaries.shape().to_array("bucketize")?;
        boundaries.searchsorted(self, right, None)
    }
}

/// The first part of `source` that has this shape.
fn part_of(name: &'static str, source: &Tensor, shape: &Shape) -> Result<Tensor> {
    let fits = source.rank() == shape.rank()
        && (0..shape.rank()).all(|axis| shape.dim(axis) <= source.shape().dim(axis));
    if !fits {
        let told = format!("a source of shape {:?} for an index of {shape:?}", source.shape());
        return Err(Error::invalid(name, told));
    }
    (0..shape.rank()).try_fold(source.clone(), |part, axis| part.narrow(axis, 0, shape.dim(axis)))
}

/// What is reduced into which places.
struct Reducer<'a> {
    name: &'static str,
    axis: usize,
    /// Of the source's shape.
    index: &'a Tensor,
    reduction: ScatterReduction,
    include_self: bool,
}

impl Reducer<'_> {
    fn reduce(&self, base: &Tensor, source: &Tensor) -> Result<Tensor> {
        check::same_dtype(self.name, &base.meta(), &source.meta())?;
        if base.dtype() == DType::Bool && self.reduction == ScatterReduction::Mean {
            return Err(Error::dtype(self.name, "base", DType::Bool, "a number"));
        }
        index_told_as(self.name, || match self.reduction {
            ScatterReduction::Sum if base.dtype() == DType::Bool => {
                self.extreme(base, source, Tensor::maximum)
            }
            ScatterReduction::Prod if base.dtype() == DType::Bool => {
                self.extreme(base, source, Tensor::minimum)
            }
            ScatterReduction::Sum => in_accumulator([base, source], |[base, source]| self.sum(base, source)),
            ScatterReduction::Mean => {
                in_accumulator([base, source], |[base, source]| self.mean(base, source))
            }
            ScatterReduction::Prod => {
                in_accumulator([base, source], |[base, source]| self.product(base, source))
            }
            ScatterReduction::Amax => self.extreme(base, source, Tensor::maximum),
            ScatterReduction::Amin => self.extreme(base, source, Tensor::minimum),
        })
    }

    /// Which places an index names.
    fn named(&self, base: &Tensor) -> Result<Tensor> {
        let none = Tensor::zeros(*base.shape(), DType::Bool, base.device())?;
        none.scatter(self.axis, self.index, &Tensor::ones(*self.index.shape(), DType::Bool, base.device())?)
    }

    fn sum(&self, base: &Tensor, source: &Tensor) -> Result<Tensor> {
        let start = if self.include_self { base.clone() } else { base.masked_fill(&self.named(base)?, 0)? };
        start.scatter_add(self.axis, self.index, source)
    }

    fn mean(&self, base: &Tensor, source: &Tensor) -> Result<Tensor> {
        let sum = self.sum(base, source)?;
        // Counts of narrow integers would not fit them.
        let dtype = if base.dtype().is_float() { base.dtype() } else { DType::I64 };
        let start = match self.include_self {
            true => Tensor::ones(*base.shape(), dtype, base.device())?,
            false => self.named(base)?.logical_not()?.to_dtype(dtype)?,
        };
        let ones = Tensor::ones(*self.index.shape(), dtype, base.device())?;
        let counts = start.scatter_add(self.axis, self.index, &ones)?;
        if base.dtype().is_float() {
            return sum.div(&counts);
        }
        let sum = sum.to_dtype(dtype)?;
        sum.sub(&sum.remainder(&counts)?)?.div(&counts)?.to_dtype(base.dtype())
    }

    /// The places of all source elements in the row of all elements of `base`, in order, and where they come from.
    fn places(&self, base: &Tensor) -> Result<(Tensor, Tensor)> {
        let count = base.elements();
        let numbers = Tensor::iota(count, index_dtype(count), 0, 1, base.device())?.reshape(*base.shape())?;
        numbers.gather(self.axis, self.index)?.reshape([self.index.elements()])?.sort(0, false)
    }

    /// Of the elements that meet in a place, in turn: the products up to each. The last of each place stays.
    fn product(&self, base: &Tensor, source: &Tensor) -> Result<Tensor> {
        let (places, order) = self.places(base)?;
        let row = base.reshape([base.elements()])?;
        let mut values = source.reshape([source.elements()])?.index_select(0, &order)?;
        let one = values.detach().scalar_like(1)?;
        for reach in reaches(places.elements()) {
            let (before, now, is_same) = neighbors(&values, &places, reach)?;
            // What is of another place must not be multiplied at all: with an infinity its gradient would be NaN.
            let grown = now.mul(&is_same.where_(&before, &one)?)?;
            values = Tensor::concat(&[&values.narrow(0, 0, reach)?, &grown], 0)?;
        }
        if self.include_self {
            values = row.index_select(0, &places)?.mul(&values)?;
        }
        row.scatter(0, &places, &values)?.reshape(*base.shape())
    }

    /// The largest or smallest: `better` of two.
    fn extreme(
        &self,
        base: &Tensor,
        source: &Tensor,
        better: fn(&Tensor, &Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let y = no_grad(|| {
            let (places, order) = self.places(base)?;
            let row = base.reshape([base.elements()])?;
            let mut values = source.reshape([source.elements()])?.index_select(0, &order)?;
            for reach in reaches(places.elements()) {
                let (before, now, is_same) = neighbors(&values, &places, reach)?;
                let grown = is_same.where_(&better(&before, &now)?, &now)?;
                values = Tensor::concat(&[&values.narrow(0, 0, reach)?, &grown], 0)?;
            }
            if self.include_self {
                values = better(&row.index_select(0, &places)?, &values)?;
            }
            row.scatter(0, &places, &values)?.reshape(*base.shape())
        })?;
        let (name, axis, include_self) = (self.name, self.axis, self.include_self);
        let reduction = self.reduction;
        let rule = move |context: &Context<'_>, grads: &[Option<Tensor>]| {
            let Some(dy) = &grads[0] else { return Ok(Grads::new()) };
            Reducer { name, axis, index: context.input(1)?, reduction, include_self }.shares(context, dy)
        };
        Ok(with_gradient(name, &[base, self.index, source], vec![y], Saves::ALL, rule)?.swap_remove(0))
    }

    /// The gradient of an extreme, shared evenly by the elements that equal it.
    fn shares(&self, context: &Context<'_>, dy: &Tensor) -> Result<Grads> {
        let (base, source, y) = (context.input(0)?, context.input(2)?, context.output(0)?);
        let is_free = self.named(base)?.logical_not()?;
        let is_own = if self.include_self { base.eq(y)?.logical_or(&is_free)? } else { is_free };
        let is_found = source.eq(&y.gather(self.axis, self.index)?)?;
        let dtype = dy.dtype().accumulator();
        let counts =
            is_own.to_dtype(dtype)?.scatter_add(self.axis, self.index, &is_found.to_dtype(dtype)?)?;
        // Where the result is NaN nothing equals it.
        let share = dy.to_dtype(dtype)?.div(&counts.maximum_scalar(1)?)?;
        let of_base = share.masked_fill(&is_own.logical_not()?, 0)?.to_dtype(dy.dtype())?;
        let of_source = share.gather(self.axis, self.index)?.masked_fill(&is_found.logical_not()?, 0)?;
        Ok([Some(of_base), None, Some(of_source.to_dtype(dy.dtype())?)].into_iter().collect())
    }
}

/// 1, 2, 4, .. below `count`: what each element has been reduced with after as many steps.
pub(super) fn reaches(count: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(1), |reach: &usize| reach.checked_mul(2))
        .take_while(move |&reach| reach < count)
}

/// The elements that have one `reach` before them, those before, and which of these are of the same place. Places are in order: all between two that
/// are the same are the same.
fn neighbors(values: &Tensor, places: &Tensor, reach: usize) -> Result<(Tensor, Tensor, Tensor)> {
    let rest = places.elements() - reach;
    let is_same = places.narrow(0, 0, rest)?.eq(&places.narrow(0, reach, rest)?)?;
    Ok((values.narrow(0, 0, rest)?, values.narrow(0, reach, rest)?, is_same))
}

/// Where `values` belong along the last axis of `sequence`, by halving what is left, all of them at once.
fn found(sequence: &Tensor, values: &Tensor, right: bool) -> Result<Tensor> {
    let axis = sequence.rank() - 1;
    let size = sequence.shape().dim(axis);
    let mut low = Tensor::zeros(*values.shape(), index_dtype(size), values.device())?;
    let mut high = low.add_scalar(size as i64)?;
    for _ in 0..usize::BITS - size.leading_zeros() {
        let middle = high.sub(&low)?.div_scalar(2)?.add(&low)?;
        let there = sequence.gather(axis, &middle.minimum_scalar(size as i64 - 1)?)?;
        let is_behind = if right { there.gt(values)? } else { there.ge(values)? };
        let is_later = is_behind.logical_not()?.logical_and(&low.lt(&high)?)?;
        low = is_later.where_(&middle.add_scalar(1)?, &low)?;
        high = is_later.where_(&high, &middle)?;
    }
    Ok(low)
}
