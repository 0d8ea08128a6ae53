//! Reductions that skip NaN, counts, pairs of reductions, cumulative products, and differences of
//! neighbors.

use super::indexing::scan_steps;
use super::{check_floating, in_accumulator};
use crate::error::Result;
use crate::shape::Axis;
use crate::{Axes, DType, Tensor};

impl Tensor {
    /// Returns the sum over `axes`, where NaN counts as 0; for integers and bool in i64. Reduced
    /// axes are removed, or kept with size 1 if `keep` is true.
    ///
    /// The gradient of a NaN element is 0.
    ///
    /// # Errors
    /// Returns an error if an axis does not exist or is given twice.
    pub fn nansum(&self, axes: impl Into<Axes>, keep: bool) -> Result<Tensor> {
        if self.dtype().is_float() {
            let x = self.masked_fill(&is_nan(self)?, 0)?;
            return sum(&x, axes.into(), keep);
        }
        sum(self, axes.into(), keep)
    }

    /// Returns the mean over `axes` of the elements that are not NaN, or NaN if all are. Reduced
    /// axes are removed, or kept with size 1 if `keep` is true.
    ///
    /// The gradient is shared by the elements that are not NaN; that of a NaN element is 0.
    ///
    /// # Errors
    /// Returns an error if the dtype is not floating-point, or if an axis does not exist or is
    /// given twice.
    pub fn nanmean(&self, axes: impl Into<Axes>, keep: bool) -> Result<Tensor> {
        check_floating("nanmean", self)?;
        let axes = axes.into();
        in_accumulator([self], |[x]| {
            let is_number = is_nan(x)?.logical_not()?;
            let count = sum(&is_number.to_dtype(DType::I32)?, axes.clone(), keep)?;
            x.nansum(axes, keep)?.div(&count.to_dtype(x.dtype())?)
        })
    }

    /// Returns the number of nonzero elements over `axes`, in i64. NaN counts as nonzero. Reduced
    /// axes are removed, or kept with size 1 if `keep` is true.
    ///
    /// # Errors
    /// Returns an error if an axis does not exist or is given twice.
    pub fn count_nonzero(&self, axes: impl Into<Axes>, keep: bool) -> Result<Tensor> {
        sum(&self.detach().to_dtype(DType::Bool)?, axes.into(), keep)
    }

    /// Returns the variance and the mean over `axes`: see [`var`](Tensor::var). The mean is also
    /// correct where the sum would overflow. Reduced axes are removed, or kept with size 1 if
    /// `keep` is true.
    ///
    /// # Errors
    /// Returns an error if the dtype is not floating-point, or if an axis does not exist or is
    /// given twice.
    pub fn var_mean(&self, axes: impl Into<Axes>, correction: f64, keep: bool) -> Result<(Tensor, Tensor)> {
        let axes = axes.into();
        let var = match keep {
            true => self.var_keep(axes.clone(), correction),
            false => self.var(axes.clone(), correction),
        }?;
        Ok((var, self.mean_in_range(axes, keep)?))
    }

    /// Returns the standard deviation and the mean over `axes`: see [`std`](Tensor::std). Both are
    /// also correct where sums would overflow. Reduced axes are removed, or kept with size 1 if
    /// `keep` is true.
    ///
    /// # Errors
    /// Returns an error if the dtype is not floating-point, or if an axis does not exist or is
    /// given twice.
    pub fn std_mean(&self, axes: impl Into<Axes>, correction: f64, keep: bool) -> Result<(Tensor, Tensor)> {
        let axes = axes.into();
        let std = match keep {
            true => self.std_keep(axes.clone(), correction),
            false => self.std(axes.clone(), correction),
        }?;
        Ok((std, self.mean_in_range(axes, keep)?))
    }

    /// Returns the minimum and the maximum over `axes`, or NaN if there is one. Reduced axes are
    /// removed, or kept with size 1 if `keep` is true.
    ///
    /// Equal elements share the gradient. With a NaN, the gradient of all elements is NaN.
    ///
    /// # Errors
    /// Returns an error if an axis does not exist or is given twice, or if there are no elements
    /// along the axes.
    pub fn aminmax(&self, axes: impl Into<Axes>, keep: bool) -> Result<(Tensor, Tensor)> {
        let axes = axes.into();
        match keep {
            true => Ok((self.min_keep(axes.clone())?, self.max_keep(axes)?)),
            false => Ok((self.min(axes.clone())?, self.max(axes)?)),
        }
    }

    /// Returns the cumulative products along `axis`; for integers and bool in i64, with wrapping.
    ///
    /// The gradient of an element is the sum of the products of the others. It is computed without
    /// a division, so it is correct where elements are 0.
    ///
    /// # Errors
    /// Returns an error if the axis does not exist.
    pub fn cumprod(&self, axis: impl Into<Axis>) -> Result<Tensor> {
        let axis = axis.into().resolve(self.shape(), "cumprod")?;
        let x = if self.dtype().is_float() { self.clone() } else { self.to_dtype(DType::I64)? };
        let y = in_accumulator([&x], |[x]| {
            let size = x.shape().dim(axis);
            let mut products = x.clone();
            // Each step multiplies by the product that ends `distance` elements before.
            for distance in scan_steps(size) {
                let rest = size - distance;
                let grown = products.narrow(axis, distance, rest)?.mul(&products.narrow(axis, 0, rest)?)?;
                products = Tensor::concat(&[&products.narrow(axis, 0, distance)?, &grown], axis)?;
            }
            Ok(products)
        })?;
        // With a single element no product was computed, and `y` aliases the input.
        if y.buffer().is(self.buffer()) { y.copy() } else { Ok(y) }
    }

    /// Returns the differences of neighbors along `axis`, `count` times, after adding `prepend`
    /// before and `append` after the elements; for bool whether neighbors differ. With a `count` of
    /// 0 it returns the elements without `prepend` and `append`, as in PyTorch.
    ///
    /// The gradients are those of the differences.
    ///
    /// # Shapes
    /// `[.., n, ..]` -> `[.., n - count, ..]`, where n includes prepended and appended elements,
    /// and the size is at least 0
    ///
    /// # Errors
    /// Returns an error if the axis does not exist, if the dtypes differ, or if sizes along other
    /// axes differ.
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
        // Without elements no difference was computed, and `x` aliases the input.
        if x.buffer().is(self.buffer()) { x.copy() } else { Ok(x) }
    }

    /// Sorts the elements along the first axis; NaN comes last.
    ///
    /// Gradients go to the original positions of the elements.
    ///
    /// # Errors
    /// Returns an error if the dtype has no order.
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
