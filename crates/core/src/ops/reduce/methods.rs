//! Methods of [`Tensor`] that reduce or run along axes.

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
                /// Reduced axes disappear; `..` means all of them.
                ///
                /// # Errors
                /// An axis that does not exist or is named twice, a dtype that the reduction does not take (see [`ReduceOp`]).
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
    /// The sum over `axes`; of nothing: 0. Integers and bool are summed in i64, which the result has, as in NumPy and PyTorch.
    sum sum_keep => Sum;
    /// The product over `axes`; of nothing: 1. Integers and bool are multiplied in i64, which the result has and where it may wrap.
    prod prod_keep => Prod;
    /// The mean over `axes`; of nothing: NaN. Floats only: that of integers or bool is had by `to_dtype(DType::F32)` first.
    mean mean_keep => Mean;
    /// The largest element over `axes`; NaN if there is one. Its gradient is shared equally among equals; that of all elements with a NaN is NaN. Of nothing: an error.
    max max_keep => Max;
    /// The smallest element over `axes`; NaN if there is one. Its gradient is shared equally among equals; that of all elements with a NaN is NaN. Of nothing: an error.
    min min_keep => Min;
    /// The position (i32, row-major within `axes`) of the first largest element; the first NaN wins. Of nothing: an error.
    argmax argmax_keep => ArgMax;
    /// The position (i32, row-major within `axes`) of the first smallest element; the first NaN wins. Of nothing: an error.
    argmin argmin_keep => ArgMin;
    /// The sum of squares over `axes`.
    sum_squares sum_squares_keep => SumSquares;
    /// The largest absolute value over `axes`; of nothing: an error.
    max_abs max_abs_keep => MaxAbs;
    /// The square root of the sum of squares over `axes`, also where that sum would overflow or vanish. Its gradient at 0 is 0.
    norm norm_keep => Norm;
    /// `log(sum(e^x))` over `axes`, without overflow. All -infinity gives -infinity, with gradient 0.
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

    /// This tensor, or integers and bool as i64: a sum of many would not fit their dtype.
    fn widened(&self) -> Result<Tensor> {
        if self.dtype().is_float() { Ok(self.clone()) } else { self.to_dtype(DType::I64) }
    }

    /// The sum over `axes`, of integers and bool in i64, in whatever scope of precision.
    pub(crate) fn sum_widened(&self, axes: AxisSet) -> Result<Tensor> {
        self.widened()?.sum_as_is(axes)
    }

    /// The sum over `axes` in this tensor's own dtype, in which integers wrap.
    pub(crate) fn sum_as_is(&self, axes: AxisSet) -> Result<Tensor> {
        apply_one(Reduce { op: ReduceOp::Sum, axes, keep: false }, &[self])
    }

    /// The sum of all elements, as [`sum`](Tensor::sum): in i64 for integers and bool.
    ///
    /// # Errors
    /// No memory.
    pub fn sum_all(&self) -> Result<Tensor> {
        self.sum(..)
    }

    /// The mean of all elements. That of integers or bool is had by `to_dtype(DType::F32)` first.
    ///
    /// # Errors
    /// A dtype that is not floating.
    pub fn mean_all(&self) -> Result<Tensor> {
        self.mean(..)
    }

    /// The largest of all elements; NaN if there is one. Its gradient is shared equally among equals, where NaN equals NaN: unlike that of
    /// [`max`](Tensor::max) it does not reach the numbers beside a NaN.
    ///
    /// # Errors
    /// No elements.
    pub fn max_all(&self) -> Result<Tensor> {
        self.extreme_of_all(ReduceOp::Max)
    }

    /// The smallest of all elements; NaN if there is one. Its gradient is as that of [`max_all`](Tensor::max_all).
    ///
    /// # Errors
    /// No elements.
    pub fn min_all(&self) -> Result<Tensor> {
        self.extreme_of_all(ReduceOp::Min)
    }

    fn extreme_of_all(&self, op: ReduceOp) -> Result<Tensor> {
        if !self.needs_grad() {
            return self.reduce(op, Axes::All, false);
        }
        let y = no_grad(|| self.reduce(op, Axes::All, false))?;
        let rule = |context: &Context<'_>, grads: &[Option<Tensor>]| {
            let Some(dy) = &grads[0] else { return Ok(Grads::new()) };
            let (x, y) = (context.input(0)?, context.output(0)?);
            let axes = AxisSet::first(x.rank());
            let kept = axes.keep(x.shape());
            let wins = x.eq(y)?.logical_or(&x.ne(x)?)?;
            let dx = formulas::shared(&wins, axes, &dy.to_accumulator()?.reshape(kept)?)?;
            Ok(Grads::from_elem(Some(dx.to_dtype(context.dtype(0))?), 1))
        };
        Ok(with_gradient(op.name(), &[self], vec![y], Saves::ALL, rule)?.swap_remove(0))
    }

    /// Whether any element over `axes` is true (or not 0): a tensor of bool. Of nothing: false.
    ///
    /// # Errors
    /// An axis that does not exist or is named twice.
    pub fn any(&self, axes: impl Into<Axes>) -> Result<Tensor> {
        self.truth("any", ReduceOp::Max, axes.into(), false)
    }

    /// As [`any`](Tensor::any), but reduced axes stay, with size 1.
    ///
    /// # Errors
    /// As [`any`](Tensor::any).
    pub fn any_keep(&self, axes: impl Into<Axes>) -> Result<Tensor> {
        self.truth("any", ReduceOp::Max, axes.into(), true)
    }

    /// Whether all elements over `axes` are true (or not 0): a tensor of bool. Of nothing: true.
    ///
    /// # Errors
    /// An axis that does not exist or is named twice.
    pub fn all(&self, axes: impl Into<Axes>) -> Result<Tensor> {
        self.truth("all", ReduceOp::Min, axes.into(), false)
    }

    /// As [`all`](Tensor::all), but reduced axes stay, with size 1.
    ///
    /// # Errors
    /// As [`all`](Tensor::all).
    pub fn all_keep(&self, axes: impl Into<Axes>) -> Result<Tensor> {
        self.truth("all", ReduceOp::Min, axes.into(), true)
    }

    fn truth(&self, name: &'static str, op: ReduceOp, axes: Axes, keep: bool) -> Result<Tensor> {
        let axes = axes.resolve(self.shape(), name)?;
        apply_one(Reduce { op, axes, keep }, &[&self.to_dtype(DType::Bool)?])
    }

    /// The variance over `axes`: `sum((x - mean)^2) / (n - correction)`. Correction 1 gives the unbiased estimate, 0 the population's.
    ///
    /// # Errors
    /// An axis that does not exist or is named twice, a dtype that is not floating.
    pub fn var(&self, axes: impl Into<Axes>, correction: f64) -> Result<Tensor> {
        self.variance("var", axes.into(), correction, false)
    }

    /// As [`var`](Tensor::var), but reduced axes stay, with size 1.
    ///
    /// # Errors
    /// As [`var`](Tensor::var).
    pub fn var_keep(&self, axes: impl Into<Axes>, correction: f64) -> Result<Tensor> {
        self.variance("var", axes.into(), correction, true)
    }

    /// The standard deviation over `axes`: the square root of [`var`](Tensor::var), also where that would overflow or vanish. Its gradient is 0 where it is 0.
    ///
    /// # Errors
    /// An axis that does not exist or is named twice, a dtype that is not floating.
    pub fn std(&self, axes: impl Into<Axes>, correction: f64) -> Result<Tensor> {
        self.deviation(axes.into(), correction, false)
    }

    /// As [`std`](Tensor::std), but reduced axes stay, with size 1.
    ///
    /// # Errors
    /// As [`std`](Tensor::std).
    pub fn std_keep(&self, axes: impl Into<Axes>, correction: f64) -> Result<Tensor> {
        self.deviation(axes.into(), correction, true)
    }

    fn variance(&self, name: &'static str, axes: Axes, correction: f64, keep: bool) -> Result<Tensor> {
        let axes = axes.resolve(self.shape(), name)?;
        if !self.dtype().is_float() {
            return Err(Error::dtype(name, "input", self.dtype(), "a floating dtype"));
        }
        apply_one(Variance { axes, keep, correction }, &[self])
    }

    /// The length of the distances from the mean by `sqrt(n - correction)`: the variance may overflow, or vanish, where its root does not.
    fn deviation(&self, axes: Axes, correction: f64, keep: bool) -> Result<Tensor> {
        let x = &precision::full(self)?;
        let axes = axes.resolve(x.shape(), "std")?;
        if !x.dtype().is_float() {
            return Err(Error::dtype("std", "input", x.dtype(), "a floating dtype"));
        }
        let divisor = (axes.elements(x.shape()) as f64 - correction).max(0.0).sqrt();
        in_function("std", &[x], || {
            let (scaled, unit) = formulas::in_units(&x.to_accumulator()?, axes)?;
            let length = Reduce { op: ReduceOp::Norm, axes, keep: true };
            let length = apply_one(length, &[&formulas::centered(&scaled, axes)?])?;
            let deviation = length.div_scalar(divisor)?.mul(&unit)?;
            deviation.reshape(reduced(x.shape(), axes, keep))?.to_dtype(x.dtype())
        })
    }

    /// The mean over `axes`, also where the sum would overflow.
    pub(crate) fn mean_in_range(&self, axes: Axes, keep: bool) -> Result<Tensor> {
        let x = &precision::full(self)?;
        let axes = axes.resolve(x.shape(), "mean")?;
        let (scaled, unit) = formulas::in_units(&x.to_accumulator()?, axes)?;
        let mean = apply_one(Reduce { op: ReduceOp::Mean, axes, keep: true }, &[&scaled])?.mul(&unit)?;
        mean.reshape(reduced(x.shape(), axes, keep))?.to_dtype(x.dtype())
    }

    /// The running sum along `axis`: element i is `x[0] + .. + x[i]`. Integers and bool are summed in i64, which the result has.
    ///
    /// # Errors
    /// An axis that does not exist.
    pub fn cumsum(&self, axis: impl Into<Axis>) -> Result<Tensor> {
        let axis = axis.into().resolve(self.shape(), "cumsum")?;
        apply_one(CumulativeSum { axis }, &[&self.widened()?])
    }
}
