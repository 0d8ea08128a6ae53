//! Reductions that pass over NaN, counts, pairs of reductions, running products, and differences of neighbors.

use super::indexing::reaches;
use super::{check_floating, in_accumulator};
use crate::error::Result;
use crate::shape::Axis;
use crate::{Axes, DType, Tensor};

impl Tensor {
    /// The sum over `axes`, NaN counted as 0; of integers and bool in i64. Reduced axes are dropped, or stay with size 1 where `keep` is true.
    ///
    /// The gradient of NaN is 0.
    ///
    /// # Errors
    /// An axis that does not exist or is named twice.
    pub fn nansum(&self, axes: impl Into<Axes>, keep: bool) -> Result<Tensor> {
        if self.dtype().is_float() {
            let x = self.masked_fill(&is_nan(self)?, 0)?;
            return sum(&x, axes.into(), keep);
        }
        sum(self, axes.into(), keep)
    }

    /// The mean over `axes` of what is not NaN; NaN where all are. Reduced axes are dropped, or stay with size 1 where `keep` is true.
    ///
    /// The gradient is shared by the numbers, that of NaN is 0.
    ///
    /// # Errors
    /// A dtype that is not floating, an axis that does not exist or is named twice.
    pub fn nanmean(&self, axes: impl Into<Axes>, keep: bool) -> Result<Tensor> {
        check_floating("nanmean", self)?;
        let axes = axes.into();
        in_accumulator([self], |[x]| {
            let is_number = is_nan(x)?.logical_not()?;
            let count = sum(&is_number.to_dtype(DType::I32)?, axes.clone(), keep)?;
            x.nansum(axes, keep)?.div(&count.to_dtype(x.dtype())?)
        })
    }

    /// How many elements over `axes` are not 0 (NaN is not), in i64. Reduced axes are dropped, or stay with size 1 where `keep` is true.
    ///
    /// # Errors
    /// An axis that does not exist or is named twice.
    pub fn count_nonzero(&self, axes: impl Into<Axes>, keep: bool) -> Result<Tensor> {
        sum(&self.detach().to_dtype(DType::Bool)?, axes.into(), keep)
    }

    /// The variance and the mean over `axes`, the mean also where the sum would overflow: see [`var`](Tensor::var). Reduced axes are dropped, or stay with size 1 where `keep` is true.
    ///
    /// # Errors
    /// A dtype that is not floating, an axis that does not exist or is named twice.
    pub fn var_mean(&self, axes: impl Into<Axes>, correction: f64, keep: bool) -> Result<(Tensor, Tensor)> {
        let axes = axes.into();
        let var = match keep {
            true => self.var_keep(axes.clone(), correction),
            false => self.var(axes.clone(), correction),
        }?;
        Ok((var, self.mean_in_range(axes, keep)?))
    }

    /// The standard deviation and the mean over `axes`, also where sums would overflow: see [`std`](Tensor::std). Reduced axes are dropped, or stay with size 1 where `keep` is true.
    ///
    /// # Errors
    /// A dtype that is not floating, an axis that does not exist or is named twice.
    pub fn std_mean(&self, axes: impl Into<Axes>, correction: f64, keep: bool) -> Result<(Tensor, Tensor)> {
        let axes = axes.into();
        let std = match keep {
            true => self.std_keep(axes.clone(), correction),
            false => self.std(axes.clone(), correction),
        }?;
        Ok((std, self.mean_in_range(axes, keep)?))
    }

    /// The smallest and the largest element over `axes`; NaN if there is one. Reduced axes are dropped, or stay with size 1 where `keep` is true.
    ///
    /// Equal elements share the gradient; that of all elements with a NaN is NaN.
    ///
    /// # Errors
    /// An axis that does not exist or is named twice, no elements along them.
    pub fn aminmax(&self, axes: impl Into<Axes>, keep: bool) -> Result<(Tensor, Tensor)> {
        let axes = axes.into();
        match keep {
            true => Ok((self.min_keep(axes.clone())?, self.max_keep(axes)?)),
            false => Ok((self.min(axes.clone())?, self.max(axes)?)),
        }
    }

    /// The products of the elements up to each along `axis`; of integers and bool in i64, wrapped.
    ///
    /// The gradient of an element is the sum of the products of the others, without a division: it is right where elements are 0.
    ///
    /// # Errors
    /// An axis that does not exist.
    pub fn cumprod(&self, axis: impl Into<Axis>) -> Result<Tensor> {
        let axis = axis.into().resolve(self.shape(), "cumprod")?;
        let x = if self.dtype().is_float() { self.clone() } else { self.to_dtype(DType::I64)? };
        let y = in_accumulator([&x], |[x]| {
            let size = x.shape().dim(axis);
            let mut products = x.clone();
            // Each step multiplies by what lies as far back as the products reach already.
            for reach in reaches(size) {
                let rest = size - reach;
                let grown = products.narrow(axis, reach, rest)?.mul(&products.narrow(axis, 0, rest)?)?;
                products = Tensor::concat(&[&products.narrow(axis, 0, reach)?, &grown], axis)?;
            }
            Ok(products)
        })?;
        // One element is its own product, in memory of its own.
        if y.buffer().is(self.buffer()) { y.copy() } else { Ok(y) }
    }

    /// The differences of neighbors along `axis`, `count` times, with `prepend` before the elements and `append` behind them; of truth values whether they differ.
    /// With a `count` of 0 the elements themselves, without those, as in PyTorch.
    ///
    /// The gradients are those of the differences.
    ///
    /// # Shapes
    /// `[.., n, ..]` -> `[.., n - count, ..]`, of the size with what is put to it, or 0
    ///
    /// # Errors
    /// An axis that does not exist, dtypes that differ, other sizes along other axes.
    pub fn diff(
        &self,
        count: usize,
        axis: impl Into<Axis>,
        prepend: Option<&Tensor>,
        append: Option<&Tensor>,
    ) -> Result<Tensor> {
        let axis = axis.into().resolve(self.shape(), "diff")?;
        if count == 0 {
            return self.copy();
        }
        let parts: Vec<&Tensor> = [prepend, Some(self), append].into_iter().flatten().collect();
        let mut x = if parts.len() == 1 { self.clone() } else { Tensor::concat(&parts, axis)? };
        for _ in 0..count.min(x.shape().dim(axis)) {
            let rest = x.shape().dim(axis) - 1;
            let (later, earlier) = (x.narrow(axis, 1, rest)?, x.narrow(axis, 0, rest)?);
            x = if x.dtype() == DType::Bool { later.logical_xor(&earlier)? } else { later.sub(&earlier)? };
        }
        // Of nothing there are no differences, and what was given is not the result itself.
        if x.buffer().is(self.buffer()) { x.copy() } else { Ok(x) }
    }

    /// The elements in order along the first axis; NaN is behind everything.
    ///
    /// Gradients go to where the elements came from.
    ///
    /// # Errors
    /// A dtype that has no order.
    pub fn msort(&self) -> Result<Tensor> {
        if self.rank() == 0 { self.copy() } else { Ok(self.sort(0, false)?.0) }
    }
}

fn is_nan(x: &Tensor) -> Result<Tensor> {
    let x = x.detach();
    x.ne(&x)
}

fn sum(x: &Tensor, axes: Axes, keep: bool) -> Result<Tensor> {
    if keep { x.sum_keep(axes) } else { x.sum(axes) }
}
