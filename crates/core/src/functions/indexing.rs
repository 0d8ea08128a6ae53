//! Reductions into indexed positions, and search in sorted sequences.

use super::in_accumulator;
use crate::autograd::{Context, Grads, no_grad, with_gradient};
use crate::error::{Error, Result, with_index_error_op};
use crate::op::{Saves, check};
use crate::ops::create::exact_scalar;
use crate::ops::index::{check_index_fits, expand_index, index_dtype};
use crate::shape::Axis;
use crate::{DType, Scalar, Shape, Tensor};

/// How elements with the same target position are reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScatterReduction {
    /// The sum; for bool logical OR.
    Sum,
    /// The product; for bool logical AND.
    Prod,
    /// The mean; for integers rounded down.
    Mean,
    /// The maximum; NaN if any element is NaN.
    Amax,
    /// The minimum; NaN if any element is NaN.
    Amin,
}

impl Tensor {
    /// Returns this tensor with the elements `source[.., i, ..]` reduced into position
    /// `[.., index[.., i, ..], ..]` along `axis`, together with the existing element if
    /// `include_self`. Positions without an index are unchanged.
    ///
    /// The gradient of `Amax` and `Amin` is shared evenly by all elements that equal the result.
    /// (If `include_self` is false, PyTorch still counts an equal element of this tensor, and its
    /// share is lost.) Where the result is NaN, the gradients are NaN. The gradient of `Prod` is
    /// the product of the other elements. It is exact at zeros, and NaN for elements that are
    /// infinite or NaN.
    ///
    /// # Shapes
    /// `index` (i32 or i64) has the rank of this tensor and is no larger than it along the other
    /// axes; `source` is at least as large as `index` along each axis.
    ///
    /// # Errors
    /// Returns an error if shapes or dtypes do not match, if the reduction is a mean of a bool
    /// tensor, or if an index is out of range.
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
        check_index_fits(name, axis, &self.meta(), &index.meta())?;
        let source = leading_part(name, source, index.shape())?;
        Reducer { name, axis, index, reduction, include_self }.reduce(self, &source)
    }

    /// Returns this tensor with slice `i` of `source` reduced into slice `index[i]` along `axis`,
    /// in the same way as [`scatter_reduce`](Tensor::scatter_reduce).
    ///
    /// # Shapes
    /// `index` is `[count]` (i32 or i64); `source` has the shape of this tensor, except for `count`
    /// slices along `axis`.
    ///
    /// # Errors
    /// Returns an error if shapes or dtypes do not match, if the reduction is a mean of a bool
    /// tensor, or if an index is out of range.
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
        let index = &expand_index(index, axis, *source.shape())?;
        Reducer { name, axis, index, reduction, include_self }.reduce(self, source)
    }

    /// Adds `alpha` times slice `i` of `source` to slice `index[i]` along `axis`:
    /// [`index_add`](Tensor::index_add) of a product. Half-precision inputs are computed in f32,
    /// and the result is rounded once.
    ///
    /// # Shapes
    /// `index` is `[count]` (i32 or i64); `source` has the shape of this tensor, except for `count`
    /// slices along `axis`.
    ///
    /// # Errors
    /// Same as [`index_add`](Tensor::index_add). Also returns an error if the dtype cannot
    /// represent `alpha`.
    pub fn index_add_with(
        &self,
        axis: impl Into<Axis>,
        index: &Tensor,
        source: &Tensor,
        alpha: impl Into<Scalar>,
    ) -> Result<Tensor> {
        let alpha = alpha.into();
        if alpha.as_f64() == 1.0 {
            return self.index_add(axis, index, source);
        }
        exact_scalar("index_add", alpha, source.dtype())?;
        check::same_dtype("index_add", &self.meta(), &source.meta())?;
        in_accumulator([self, source], |[x, source]| x.index_add(axis, index, &source.mul_scalar(alpha)?))
    }

    /// Performs [`index_add_with`](Tensor::index_add_with) in place.
    ///
    /// # Errors
    /// Same as [`index_add_with`](Tensor::index_add_with) and
    /// [`apply_into`](crate::dispatch::apply_into).
    pub fn index_add_with_(
        &self,
        axis: impl Into<Axis>,
        index: &Tensor,
        source: &Tensor,
        alpha: impl Into<Scalar>,
    ) -> Result<()> {
        let alpha = alpha.into();
        if alpha.as_f64() == 1.0 {
            return self.index_add_(axis, index, source);
        }
        if self.dtype().is_half() {
            return self.copy_(&self.index_add_with(axis, index, source, alpha)?);
        }
        exact_scalar("index_add", alpha, source.dtype())?;
        self.index_add_(axis, index, &source.mul_scalar(alpha)?)
    }

    /// Returns the index at which each of `values` would have to be inserted into this sequence,
    /// which is sorted along its last axis, to keep it sorted: before equal elements, or after them
    /// if `right`. NaN goes after everything. `sorter` contains the indices that sort this
    /// sequence. The result is i32 (i64 if indices exceed its range).
    ///
    /// # Shapes
    /// `[n]` and values `[..]`, or `[.., n]` and values `[.., m]` -> the shape of the values
    ///
    /// # Errors
    /// Returns an error if the sequence has no axes, if shapes or dtypes do not match, if the
    /// sorter has another shape than the sequence, or if an index in it is out of range.
    pub fn searchsorted(&self, values: &Tensor, right: bool, sorter: Option<&Tensor>) -> Result<Tensor> {
        let name = "searchsorted";
        check::same_dtype(name, &self.meta(), &values.meta())?;
        let Some(last) = self.rank().checked_sub(1) else {
            return Err(Error::invalid(name, "a sequence without axes"));
        };
        let is_row = last == 0;
        if !is_row && (values.rank() != self.rank() || values.dims()[..last] != self.dims()[..last]) {
            let detail = format!("values of shape {:?} for a sequence of {:?}", values.shape(), self.shape());
            return Err(Error::invalid(name, detail));
        }
        let sequence = match sorter {
            None => self.detach(),
            Some(sorter) => {
                check::index(name, "sorter", &sorter.meta())?;
                check::shape(name, "sorter", &sorter.meta(), *self.shape())?;
                with_index_error_op(name, || self.detach().gather(last, sorter))?
            }
        };
        match is_row {
            true => insertion_indices(&sequence, &values.detach().reshape([values.elements()])?, right)?
                .reshape(*values.shape()),
            false => insertion_indices(&sequence, &values.detach(), right),
        }
    }

    /// Returns the index of the bucket of each element between the sorted `boundaries`: the number
    /// of boundaries below the element, or of those at or below it if `right`. See
    /// [`searchsorted`](Tensor::searchsorted).
    ///
    /// # Shapes
    /// `[..]` and boundaries `[n]` -> `[..]`
    ///
    /// # Errors
    /// Returns an error if the boundaries do not have exactly one axis, or if the dtypes differ.
    pub fn bucketize(&self, boundaries: &Tensor, right: bool) -> Result<Tensor> {
        check::same_dtype("bucketize", &self.meta(), &boundaries.meta())?;
        let [_] = boundaries.shape().to_array("bucketize")?;
        boundaries.searchsorted(self, right, None)
    }
}

/// Returns the leading part of `source` that has this shape.
fn leading_part(name: &'static str, source: &Tensor, shape: &Shape) -> Result<Tensor> {
    let fits = source.rank() == shape.rank()
        && (0..shape.rank()).all(|axis| shape.dim(axis) <= source.shape().dim(axis));
    if !fits {
        let detail = format!("a source of shape {:?} for an index of {shape:?}", source.shape());
        return Err(Error::invalid(name, detail));
    }
    (0..shape.rank()).try_fold(source.clone(), |part, axis| part.narrow(axis, 0, shape.dim(axis)))
}

/// The parameters of a reduction into indexed positions.
struct Reducer<'a> {
    name: &'static str,
    axis: usize,
    /// Has the shape of the source.
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
        with_index_error_op(self.name, || match self.reduction {
            ScatterReduction::Sum if base.dtype() == DType::Bool => {
                self.extremum(base, source, Tensor::maximum)
            }
            ScatterReduction::Prod if base.dtype() == DType::Bool => {
                self.extremum(base, source, Tensor::minimum)
            }
            ScatterReduction::Sum => in_accumulator([base, source], |[base, source]| self.sum(base, source)),
            ScatterReduction::Mean => {
                in_accumulator([base, source], |[base, source]| self.mean(base, source))
            }
            ScatterReduction::Prod => {
                in_accumulator([base, source], |[base, source]| self.product(base, source))
            }
            ScatterReduction::Amax => self.extremum(base, source, Tensor::maximum),
            ScatterReduction::Amin => self.extremum(base, source, Tensor::minimum),
        })
    }

    /// Returns a mask of the positions for which an index exists.
    fn indexed_mask(&self, base: &Tensor) -> Result<Tensor> {
        let none = Tensor::zeros(*base.shape(), DType::Bool, base.device())?;
        none.scatter(self.axis, self.index, &Tensor::ones(*self.index.shape(), DType::Bool, base.device())?)
    }

    fn sum(&self, base: &Tensor, source: &Tensor) -> Result<Tensor> {
        let start =
            if self.include_self { base.clone() } else { base.masked_fill(&self.indexed_mask(base)?, 0)? };
        start.scatter_add(self.axis, self.index, source)
    }

    fn mean(&self, base: &Tensor, source: &Tensor) -> Result<Tensor> {
        let sum = self.sum(base, source)?;
        // Counts may exceed the range of a narrow integer dtype.
        let dtype = if base.dtype().is_float() { base.dtype() } else { DType::I64 };
        let start = match self.include_self {
            true => Tensor::ones(*base.shape(), dtype, base.device())?,
            false => self.indexed_mask(base)?.logical_not()?.to_dtype(dtype)?,
        };
        let ones = Tensor::ones(*self.index.shape(), dtype, base.device())?;
        let counts = start.scatter_add(self.axis, self.index, &ones)?;
        if base.dtype().is_float() {
            return sum.div(&counts);
        }
        let sum = sum.to_dtype(dtype)?;
        sum.sub(&sum.remainder(&counts)?)?.div(&counts)?.to_dtype(base.dtype())
    }

    /// Returns the target positions of all source elements in the flattened `base`, sorted, and the
    /// indices of the elements in this order.
    fn sorted_targets(&self, base: &Tensor) -> Result<(Tensor, Tensor)> {
        let count = base.elements();
        let positions =
            Tensor::iota(count, index_dtype(count), 0, 1, base.device())?.reshape(*base.shape())?;
        positions.gather(self.axis, self.index)?.reshape([self.index.elements()])?.sort(0, false)
    }

    /// Computes the running products of the elements with the same target position. The last one of
    /// each position is stored.
    fn product(&self, base: &Tensor, source: &Tensor) -> Result<Tensor> {
        let y = no_grad(|| {
            let (targets, order) = self.sorted_targets(base)?;
            let row = base.reshape([base.elements()])?;
            let values = source.reshape([source.elements()])?.index_select(0, &order)?;
            let mut values = cumulative_products(&values, &targets)?;
            if self.include_self {
                values = row.index_select(0, &targets)?.mul(&values)?;
            }
            row.scatter(0, &targets, &values)?.reshape(*base.shape())
        })?;
        self.with_rule(base, source, y)
    }

    /// Returns the product, maximum or minimum `y` with its gradient rule.
    fn with_rule(&self, base: &Tensor, source: &Tensor, y: Tensor) -> Result<Tensor> {
        let (name, axis, include_self) = (self.name, self.axis, self.include_self);
        let reduction = self.reduction;
        let rule = move |context: &Context<'_>, grads: &[Option<Tensor>]| {
            let Some(dy) = &grads[0] else { return Ok(Grads::new()) };
            let reducer = Reducer { name, axis, index: context.input(1)?, reduction, include_self };
            match reduction {
                ScatterReduction::Prod => reducer.product_grads(context, dy),
                _ => reducer.extremum_grads(context, dy),
            }
        };
        Ok(with_gradient(name, &[base, self.index, source], vec![y], Saves::ALL, rule)?.swap_remove(0))
    }

    /// Returns the gradient of a product: for each element the product of the other elements with
    /// the same target position, without a division. It is NaN for elements that are infinite or
    /// NaN, as for [`Tensor::prod`].
    fn product_grads(&self, context: &Context<'_>, dy: &Tensor) -> Result<Grads> {
        let (base, source) = (context.input(0)?, context.input(2)?);
        let (targets, order) = self.sorted_targets(base)?;
        let count = targets.elements();
        let values = source.reshape([count])?.index_select(0, &order)?;
        let cumulative = cumulative_products(&values, &targets)?;
        let before = previous_or_one(&cumulative, &targets)?;
        let (values, backwards) = (values.flip(0)?, targets.flip(0)?);
        let after = previous_or_one(&cumulative_products(&values, &backwards)?, &backwards)?.flip(0)?;
        let others = nan_where_nonfinite(&before.mul(&after)?, &values.flip(0)?)?;
        let mut others = others.mul(&dy.reshape([dy.elements()])?.index_select(0, &targets)?)?;
        let of_base = match self.include_self {
            true => {
                others = others.mul(&base.reshape([base.elements()])?.index_select(0, &targets)?)?;
                let ones = Tensor::ones([base.elements()], dy.dtype(), dy.device())?;
                let factors = ones.scatter(0, &targets, &cumulative)?.reshape(*base.shape())?;
                let factors =
                    self.indexed_mask(base)?.where_(&nan_where_nonfinite(&factors, base)?, &factors)?;
                dy.mul(&factors)?
            }
            false => dy.masked_fill(&self.indexed_mask(base)?, 0)?,
        };
        let of_source = others.zeros_like()?.scatter(0, &order, &others)?.reshape(*source.shape())?;
        Ok([Some(of_base), None, Some(of_source)].into_iter().collect())
    }

    /// Returns the maximum or minimum; `better` returns the larger or the smaller of two elements.
    fn extremum(
        &self,
        base: &Tensor,
        source: &Tensor,
        better: fn(&Tensor, &Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let y = no_grad(|| {
            let (targets, order) = self.sorted_targets(base)?;
            let row = base.reshape([base.elements()])?;
            let mut values = source.reshape([source.elements()])?.index_select(0, &order)?;
            for distance in scan_steps(targets.elements()) {
                let (before, now, is_same) = neighbors(&values, &targets, distance)?;
                let reduced = is_same.where_(&better(&before, &now)?, &now)?;
                values = Tensor::concat(&[&values.narrow(0, 0, distance)?, &reduced], 0)?;
            }
            if self.include_self {
                values = better(&row.index_select(0, &targets)?, &values)?;
            }
            row.scatter(0, &targets, &values)?.reshape(*base.shape())
        })?;
        self.with_rule(base, source, y)
    }

    /// Returns the gradient of a maximum or minimum, which is shared evenly by the elements that
    /// equal it. NaN equals nothing, so where the result is NaN all elements get NaN.
    fn extremum_grads(&self, context: &Context<'_>, dy: &Tensor) -> Result<Grads> {
        let (base, source, y) = (context.input(0)?, context.input(2)?, context.output(0)?);
        let is_unindexed = self.indexed_mask(base)?.logical_not()?;
        let equals_in_base =
            if self.include_self { base.eq(y)?.logical_or(&is_unindexed)? } else { is_unindexed };
        let equals_in_source = source.eq(&y.gather(self.axis, self.index)?)?;
        let dtype = dy.dtype().accumulator();
        let counts = equals_in_base.to_dtype(dtype)?.scatter_add(
            self.axis,
            self.index,
            &equals_in_source.to_dtype(dtype)?,
        )?;
        let is_nan = counts.eq_scalar(0)?;
        let shared_grad = dy.to_dtype(dtype)?.div(&counts)?.masked_fill(&is_nan, f64::NAN)?;
        let equals_in_base =
            if self.include_self { equals_in_base.logical_or(&is_nan)? } else { equals_in_base };
        let equals_in_source = equals_in_source.logical_or(&is_nan.gather(self.axis, self.index)?)?;
        let of_base = shared_grad.masked_fill(&equals_in_base.logical_not()?, 0)?.to_dtype(dy.dtype())?;
        let of_source =
            shared_grad.gather(self.axis, self.index)?.masked_fill(&equals_in_source.logical_not()?, 0)?;
        Ok([Some(of_base), None, Some(of_source.to_dtype(dy.dtype())?)].into_iter().collect())
    }
}

/// Returns 1, 2, 4, .. below `count`: the distances of the steps of a scan.
pub(super) fn scan_steps(count: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(1), |distance: &usize| distance.checked_mul(2))
        .take_while(move |&distance| distance < count)
}

/// Returns the running products of the elements with the same target position.
fn cumulative_products(values: &Tensor, targets: &Tensor) -> Result<Tensor> {
    let mut values = values.clone();
    let one = values.detach().scalar_like(1)?;
    for distance in scan_steps(targets.elements()) {
        let (before, now, is_same) = neighbors(&values, targets, distance)?;
        let reduced = now.mul(&is_same.where_(&before, &one)?)?;
        values = Tensor::concat(&[&values.narrow(0, 0, distance)?, &reduced], 0)?;
    }
    Ok(values)
}

/// Returns `factors`, with NaN where `x` is infinite or NaN.
fn nan_where_nonfinite(factors: &Tensor, x: &Tensor) -> Result<Tensor> {
    factors.masked_fill(&x.abs()?.lt_scalar(f64::INFINITY)?.logical_not()?, f64::NAN)
}

/// Returns the previous element of each element if it has the same target position, otherwise 1.
fn previous_or_one(values: &Tensor, targets: &Tensor) -> Result<Tensor> {
    let Some(rest) = targets.elements().checked_sub(1) else { return Ok(values.clone()) };
    let (before, _, is_same) = neighbors(values, targets, 1)?;
    let one = Tensor::ones([1], values.dtype(), values.device())?;
    match rest {
        0 => Ok(one),
        _ => Tensor::concat(&[&one, &is_same.where_(&before, &one)?], 0),
    }
}

/// Returns the elements of all pairs that are `distance` apart (the first elements, then the
/// second), and a mask of the pairs with the same target position. Positions are sorted, so all
/// elements between such a pair have this position too.
fn neighbors(values: &Tensor, targets: &Tensor, distance: usize) -> Result<(Tensor, Tensor, Tensor)> {
    let rest = targets.elements() - distance;
    let is_same = targets.narrow(0, 0, rest)?.eq(&targets.narrow(0, distance, rest)?)?;
    Ok((values.narrow(0, 0, rest)?, values.narrow(0, distance, rest)?, is_same))
}

/// Finds the insertion indices of `values` along the last axis of `sequence`, by one binary search
/// for all values together.
fn insertion_indices(sequence: &Tensor, values: &Tensor, right: bool) -> Result<Tensor> {
    let axis = sequence.rank() - 1;
    let size = sequence.shape().dim(axis);
    let mut low = Tensor::zeros(*values.shape(), index_dtype(size), values.device())?;
    let mut high = low.add_scalar(size as i64)?;
    for _ in 0..usize::BITS - size.leading_zeros() {
        let middle = high.sub(&low)?.div_scalar(2)?.add(&low)?;
        let probe = sequence.gather(axis, &middle.minimum_scalar(size as i64 - 1)?)?;
        let is_left = if right { probe.gt(values)? } else { probe.ge(values)? };
        let is_right = is_left.logical_not()?.logical_and(&low.lt(&high)?)?;
        low = is_right.where_(&middle.add_scalar(1)?, &low)?;
        high = is_right.where_(&high, &middle)?;
    }
    Ok(low)
}
