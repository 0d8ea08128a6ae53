//! Methods of [`Tensor`] for reductions and cumulative ops along axes.

use super::{CumulativeSum, Reduce, ReduceOp, Variance, formulas, reduced};
use crate::anomaly::in_function;
use crate::autograd::{Context, Grads, no_grad, with_gradient};
use crate::dispatch::apply_one;
use crate::error::Result;
use crate::op::Saves;
use crate::precision;
use crate::shape::{Axes, Axis, AxisSet};
use crate::tensor::Tensor;
use crate::{DType, Error};

macro_rules! reduce_methods {
    ($($(#[$doc:meta])* $name:ident $keep_name:ident => $op:ident;)*) => {
        impl Tensor {
            $(
                $(#[$doc])*
                ///
                /// # Shapes
                /// Reduced axes are removed; `..` reduces all axes.
                ///
                /// # Errors
                /// Returns an error if an axis does not exist or occurs twice, or if the reduction
                /// does not support the dtype (see [`ReduceOp`]).
                pub fn $name(&self, axes: impl Into<Axes>) -> Result<Tensor> {
                    self.reduce(ReduceOp::$op, axes.into(), false)
                }

                #[doc = concat!("As [`", stringify!($name), "`](Tensor::", stringify!($name), "), but reduced axes stay, with size 1.")]
                ///
                /// # Errors
                #[doc = concat!("As [`", stringify!($name), "`](Tensor::", stringify!($name), ").")]
                pub fn $keep_name(&self, axes: impl Into<Axes>) -> Result<Tensor> {
                    self.reduce(ReduceOp::$op, axes.into(), true)
                }
            )*
        }
    };
}

reduce_methods! {
    /// Returns the sum over `axes`; 0 without elements. Integers and bool are summed in i64, the
    /// dtype of the result, as in NumPy and PyTorch.
    sum sum_keep => Sum;
    /// Returns the product over `axes`; 1 without elements. Integers and bool are multiplied in
    /// i64, the dtype of the result, which may wrap.
    prod prod_keep => Prod;
    /// Returns the mean over `axes`; NaN without elements. Floats only: convert integers or bool
    /// with `to_dtype(DType::F32)` first.
    mean mean_keep => Mean;
    /// Returns the largest element over `axes`; NaN if there is one. Its gradient is distributed
    /// equally over equal maxima. If there is a NaN, the gradient is NaN for all elements. Without
    /// elements: an error.
    max max_keep => Max;
    /// Returns the smallest element over `axes`; NaN if there is one. Its gradient is distributed
    /// equally over equal minima. If there is a NaN, the gradient is NaN for all elements. Without
    /// elements: an error.
    min min_keep => Min;
    /// Returns the index (i32, row-major within `axes`) of the first largest element, or of the
    /// first NaN. Without elements: an error.
    argmax argmax_keep => ArgMax;
    /// Returns the index (i32, row-major within `axes`) of the first smallest element, or of the
    /// first NaN. Without elements: an error.
    argmin argmin_keep => ArgMin;
    /// Returns the sum of squares over `axes`.
    sum_squares sum_squares_keep => SumSquares;
    /// Returns the largest absolute value over `axes`; an error without elements.
    max_abs max_abs_keep => MaxAbs;
    /// Returns the square root of the sum of squares over `axes`, also if that sum would overflow
    /// or underflow. Its gradient at 0 is 0.
    norm norm_keep => Norm;
    /// Computes `log(sum(e^x))` over `axes`, without overflow. If all elements are -infinity, the
    /// result is -infinity, with gradient 0.
    logsumexp logsumexp_keep => LogSumExp;
}

impl Tensor {
    fn reduce(&self, op: ReduceOp, axes: Axes, keep: bool) -> Result<Tensor> {
        let axes = axes.resolve(self.shape(), op.name())?;
        match op {
            ReduceOp::Sum | ReduceOp::Prod => apply_one(Reduce { op, axes, keep }, &[&self.widened()?]),
            _ => apply_one(Reduce { op, axes, keep }, &[self]),
        }
    }

    /// Returns this tensor, converted to i64 if it is integer or bool: a large sum would not fit
    /// their dtype.
    fn widened(&self) -> Result<Tensor> {
        if self.dtype().is_float() { Ok(self.clone()) } else { self.to_dtype(DType::I64) }
    }

    /// Returns the sum over `axes`, of integers and bool in i64, independent of the precision
    /// scope.
    pub(crate) fn sum_widened(&self, axes: AxisSet) -> Result<Tensor> {
        self.widened()?.sum_as_is(axes)
    }

    /// Returns the sum over `axes` in this tensor's dtype, in which integers wrap.
    pub(crate) fn sum_as_is(&self, axes: AxisSet) -> Result<Tensor> {
        apply_one(Reduce { op: ReduceOp::Sum, axes, keep: false }, &[self])
    }

    /// Returns the sum of all elements, as [`sum`](Tensor::sum): in i64 for integers and bool.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    pub fn sum_all(&self) -> Result<Tensor> {
        self.sum(..)
    }

    /// Returns the mean of all elements. Convert integers or bool with `to_dtype(DType::F32)`
    /// first.
    ///
    /// # Errors
    /// Returns an error if the dtype is not floating.
    pub fn mean_all(&self) -> Result<Tensor> {
        self.mean(..)
    }

    /// Returns the largest of all elements; NaN if there is one. Its gradient is distributed
    /// equally over equal maxima, where NaN equals NaN. Unlike the gradient of
    /// [`max`](Tensor::max), it is 0 for the other elements if there is a NaN.
    ///
    /// # Errors
    /// Returns an error if there are no elements.
    pub fn max_all(&self) -> Result<Tensor> {
        self.min_or_max_all(ReduceOp::Max)
    }

    /// Returns the smallest of all elements; NaN if there is one. Its gradient is like that of
    /// [`max_all`](Tensor::max_all).
    ///
    /// # Errors
    /// Returns an error if there are no elements.
    pub fn min_all(&self) -> Result<Tensor> {
        self.min_or_max_all(ReduceOp::Min)
    }

    fn min_or_max_all(&self, op: ReduceOp) -> Result<Tensor> {
        if !self.needs_grad() {
            return self.reduce(op, Axes::All, false);
        }
        let y = no_grad(|| self.reduce(op, Axes::All, false))?;
        let rule = |context: &Context<'_>, grads: &[Option<Tensor>]| {
            let Some(dy) = &grads[0] else { return Ok(Grads::new()) };
            let (x, y) = (context.input(0)?, context.output(0)?);
            let axes = AxisSet::first(x.rank());
            let kept_shape = axes.keep(x.shape());
            let is_selected = x.eq(y)?.logical_or(&x.ne(x)?)?;
            let dx =
                formulas::distribute_grad(&is_selected, axes, &dy.to_accumulator()?.reshape(kept_shape)?)?;
            Ok(Grads::from_elem(Some(dx.to_dtype(context.dtype(0))?), 1))
        };
        Ok(with_gradient(op.name(), &[self], vec![y], Saves::ALL, rule)?.swap_remove(0))
    }

    /// Returns whether any element over `axes` is true (or not 0), as a bool tensor. Without
    /// elements: false.
    ///
    /// # Errors
    /// Returns an error if an axis does not exist or occurs twice.
    pub fn any(&self, axes: impl Into<Axes>) -> Result<Tensor> {
        self.reduce_bool("any", ReduceOp::Max, axes.into(), false)
    }

    /// Same as [`any`](Tensor::any), but reduced axes are kept, with size 1.
    ///
    /// # Errors
    /// Same as [`any`](Tensor::any).
    pub fn any_keep(&self, axes: impl Into<Axes>) -> Result<Tensor> {
        self.reduce_bool("any", ReduceOp::Max, axes.into(), true)
    }

    /// Returns whether all elements over `axes` are true (or not 0), as a bool tensor. Without
    /// elements: true.
    ///
    /// # Errors
    /// Returns an error if an axis does not exist or occurs twice.
    pub fn all(&self, axes: impl Into<Axes>) -> Result<Tensor> {
        self.reduce_bool("all", ReduceOp::Min, axes.into(), false)
    }

    /// Same as [`all`](Tensor::all), but reduced axes are kept, with size 1.
    ///
    /// # Errors
    /// Same as [`all`](Tensor::all).
    pub fn all_keep(&self, axes: impl Into<Axes>) -> Result<Tensor> {
        self.reduce_bool("all", ReduceOp::Min, axes.into(), true)
    }

    fn reduce_bool(&self, name: &'static str, op: ReduceOp, axes: Axes, keep: bool) -> Result<Tensor> {
        let axes = axes.resolve(self.shape(), name)?;
        apply_one(Reduce { op, axes, keep }, &[&self.to_dtype(DType::Bool)?])
    }

    /// Returns the variance over `axes`: `sum((x - mean)^2) / (n - correction)`. Correction 1 gives
    /// the unbiased estimate, 0 the biased (population) variance.
    ///
    /// # Errors
    /// Returns an error if an axis does not exist or occurs twice, or if the dtype is not floating.
    pub fn var(&self, axes: impl Into<Axes>, correction: f64) -> Result<Tensor> {
        self.variance("var", axes.into(), correction, false)
    }

    /// Same as [`var`](Tensor::var), but reduced axes are kept, with size 1.
    ///
    /// # Errors
    /// Same as [`var`](Tensor::var).
    pub fn var_keep(&self, axes: impl Into<Axes>, correction: f64) -> Result<Tensor> {
        self.variance("var", axes.into(), correction, true)
    }

    /// Returns the standard deviation over `axes`: the square root of [`var`](Tensor::var), also if
    /// the variance would overflow or underflow. Where it is 0, its gradient is 0.
    ///
    /// # Errors
    /// Returns an error if an axis does not exist or occurs twice, or if the dtype is not floating.
    pub fn std(&self, axes: impl Into<Axes>, correction: f64) -> Result<Tensor> {
        self.std_over(axes.into(), correction, false)
    }

    /// Same as [`std`](Tensor::std), but reduced axes are kept, with size 1.
    ///
    /// # Errors
    /// Same as [`std`](Tensor::std).
    pub fn std_keep(&self, axes: impl Into<Axes>, correction: f64) -> Result<Tensor> {
        self.std_over(axes.into(), correction, true)
    }

    fn variance(&self, name: &'static str, axes: Axes, correction: f64, keep: bool) -> Result<Tensor> {
        let axes = axes.resolve(self.shape(), name)?;
        if !self.dtype().is_float() {
            return Err(Error::dtype(name, "input", self.dtype(), "a floating dtype"));
        }
        apply_one(Variance { axes, keep, correction }, &[self])
    }

    /// Computes the norm of the differences from the mean, divided by `sqrt(n - correction)`: the
    /// variance may overflow or underflow where its square root does not.
    fn std_over(&self, axes: Axes, correction: f64, keep: bool) -> Result<Tensor> {
        let x = &precision::cast_to_f32(self)?;
        let axes = axes.resolve(x.shape(), "std")?;
        if !x.dtype().is_float() {
            return Err(Error::dtype("std", "input", x.dtype(), "a floating dtype"));
        }
        let divisor = (axes.elements(x.shape()) as f64 - correction).max(0.0).sqrt();
        in_function("std", &[x], || {
            let (scaled, unit) = formulas::in_units(&x.to_accumulator()?, axes)?;
            let length = Reduce { op: ReduceOp::Norm, axes, keep: true };
            let length = apply_one(length, &[&formulas::centered(&scaled, axes)?])?;
            let std = length.div_scalar(divisor)?.mul(&unit)?;
            std.reshape(reduced(x.shape(), axes, keep))?.to_dtype(x.dtype())
        })
    }

    /// Returns the mean over `axes`, also if the sum would overflow.
    pub(crate) fn mean_in_range(&self, axes: Axes, keep: bool) -> Result<Tensor> {
        let x = &precision::cast_to_f32(self)?;
        let axes = axes.resolve(x.shape(), "mean")?;
        let (scaled, unit) = formulas::in_units(&x.to_accumulator()?, axes)?;
        let mean = apply_one(Reduce { op: ReduceOp::Mean, axes, keep: true }, &[&scaled])?.mul(&unit)?;
        mean.reshape(reduced(x.shape(), axes, keep))?.to_dtype(x.dtype())
    }

    /// Returns the cumulative sum along `axis`: element i is `x[0] + .. + x[i]`. Integers and bool
    /// are summed in i64, the dtype of the result.
    ///
    /// # Errors
    /// Returns an error if the axis does not exist.
    pub fn cumsum(&self, axis: impl Into<Axis>) -> Result<Tensor> {
        let axis = axis.into().resolve(self.shape(), "cumsum")?;
        apply_one(CumulativeSum { axis }, &[&self.widened()?])
    }
}
