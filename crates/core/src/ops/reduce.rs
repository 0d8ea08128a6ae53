//! Reductions over axes, variance and running sums.

use crate::DType;
use crate::backend::Meta;
use crate::error::{Error, Result};
use crate::op::{Output, Outputs, Rule, check};
use crate::shape::AxisSet;

/// What a reduction forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceOp {
    /// Sum; of nothing: 0. Halves accumulate in f32; u8 and i32 stay (wrapping); bool is rejected. Primitive.
    Sum,
    /// Product; of nothing: 1. Primitive.
    Prod,
    /// Largest element; NaN if there is one. bool: any. Of nothing: an error (bool: false). Primitive.
    Max,
    /// Smallest element; NaN if there is one. bool: all. Of nothing: an error (bool: true). Primitive.
    Min,
    /// Position (i32, row-major within the reduced axes) of the first largest element; the first NaN wins. Primitive.
    ArgMax,
    /// Position (i32, row-major within the reduced axes) of the first smallest element; the first NaN wins. Primitive.
    ArgMin,
    /// Sum divided by count; of nothing: NaN. Floats. Composite.
    Mean,
    /// Sum of squares. Floats. Composite.
    SumSquares,
    /// Largest absolute value; of nothing: an error. Floats. Composite.
    MaxAbs,
    /// `sqrt(sum of squares)`. Gradient 0 at 0. Floats. Composite.
    Norm,
    /// `log(sum(e^x))`, shifted by the maximum. All -infinity: -infinity, with gradient 0. Of nothing: -infinity. Floats. Composite.
    LogSumExp,
}

impl ReduceOp {
    /// The stem.
    pub fn name(self) -> &'static str {
        match self {
            ReduceOp::Sum => "sum",
            ReduceOp::Prod => "prod",
            ReduceOp::Max => "max",
            ReduceOp::Min => "min",
            ReduceOp::ArgMax => "argmax",
            ReduceOp::ArgMin => "argmin",
            ReduceOp::Mean => "mean",
            ReduceOp::SumSquares => "sum_squares",
            ReduceOp::MaxAbs => "max_abs",
            ReduceOp::Norm => "norm",
            ReduceOp::LogSumExp => "logsumexp",
        }
    }

    /// Whether every backend must have it.
    pub fn is_primitive(self) -> bool {
        !matches!(
            self,
            ReduceOp::Mean | ReduceOp::SumSquares | ReduceOp::MaxAbs | ReduceOp::Norm | ReduceOp::LogSumExp
        )
    }

    fn check(self, meta: &Meta<'_>, axes: AxisSet) -> Result<()> {
        let name = self.name();
        match self {
            ReduceOp::Sum | ReduceOp::Prod | ReduceOp::ArgMax | ReduceOp::ArgMin
                if meta.dtype == DType::Bool =>
            {
                return Err(Error::DType { op: name, what: "input", got: meta.dtype, expected: "a number" });
            }
            op if !op.is_primitive() => check::float(name, "input", meta)?,
            _ => {}
        }
        let needs_one = matches!(
            self,
            ReduceOp::Max | ReduceOp::Min | ReduceOp::ArgMax | ReduceOp::ArgMin | ReduceOp::MaxAbs
        ) && meta.dtype != DType::Bool;
        let outside = axes.drop_from(meta.shape()).elements();
        if needs_one && outside > 0 && axes.elements(meta.shape()) == 0 {
            return Err(Error::invalid(
                name,
                format!("no elements along axes {axes:?} of shape {:?}", meta.shape()),
            ));
        }
        Ok(())
    }
}

/// `y = reduce(x)` over `axes`. Input: x. Output: reduced axes dropped, or kept with size 1; dtype of x (positions: i32).
///
/// No axes at all: elementwise (each element reduced alone).
#[derive(Clone, Debug)]
pub struct Reduce {
    /// What is formed.
    pub op: ReduceOp,
    /// Over which axes.
    pub axes: AxisSet,
    /// Whether reduced axes stay, with size 1.
    pub keep: bool,
}

impl Rule for Reduce {
    fn name(&self) -> &'static str {
        self.op.name()
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        check::count(self.name(), inputs, 1)?;
        for axis in self.axes.iter() {
            check::axis(self.name(), axis, inputs[0].shape())?;
        }
        self.op.check(&inputs[0], self.axes)?;
        let dtype = match self.op {
            ReduceOp::ArgMax | ReduceOp::ArgMin => DType::I32,
            _ => inputs[0].dtype,
        };
        Ok(Outputs::from_buf([Output::fresh(reduced(inputs[0].shape(), self.axes, self.keep), dtype)]))
    }
    fn is_primitive(&self) -> bool {
        self.op.is_primitive()
    }
}

/// `y = sum((x - mean)^2) / (n - correction)` over `axes`, in two passes. Input: x, floating. Output as [`Reduce`].
///
/// `n <= correction` gives NaN (0/0) or infinity, as the division says.
#[derive(Clone, Debug)]
pub struct Variance {
    /// Over which axes.
    pub axes: AxisSet,
    /// Whether reduced axes stay, with size 1.
    pub keep: bool,
    /// 1 for the unbiased estimate, 0 for the population's.
    pub correction: f64,
}

impl Rule for Variance {
    fn name(&self) -> &'static str {
        "var"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        check::count("var", inputs, 1)?;
        check::float("var", "input", &inputs[0])?;
        for axis in self.axes.iter() {
            check::axis("var", axis, inputs[0].shape())?;
        }
        Ok(Outputs::from_buf([Output::fresh(
            reduced(inputs[0].shape(), self.axes, self.keep),
            inputs[0].dtype,
        )]))
    }
}

/// `y[i] = x[0] + .. + x[i]` along `axis`. Input: x, a number. Output: same shape and dtype. Halves accumulate in f32. Primitive.
#[derive(Clone, Debug)]
pub struct CumulativeSum {
    /// The axis.
    pub axis: usize,
}

impl Rule for CumulativeSum {
    fn name(&self) -> &'static str {
        "cumsum"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        check::count("cumsum", inputs, 1)?;
        check::axis("cumsum", self.axis, inputs[0].shape())?;
        if inputs[0].dtype == DType::Bool {
            return Err(Error::DType { op: "cumsum", what: "input", got: DType::Bool, expected: "a number" });
        }
        Ok(Outputs::from_buf([Output::fresh(*inputs[0].shape(), inputs[0].dtype)]))
    }
    fn is_primitive(&self) -> bool {
        true
    }
}

/// `shape` after a reduction over `axes`.
pub(crate) fn reduced(shape: &crate::Shape, axes: AxisSet, keep: bool) -> crate::Shape {
    if keep { axes.keep(shape) } else { axes.drop_from(shape) }
}

impl crate::Tensor {
    /// The sum over `axes`, which stay with size 1.
    ///
    /// # Errors
    /// An axis that does not exist, or bool.
    pub fn sum_keep(&self, axes: impl Into<crate::Axes>) -> Result<crate::Tensor> {
        let axes = axes.into().resolve(self.shape(), "sum")?;
        crate::dispatch::apply_one(Reduce { op: ReduceOp::Sum, axes, keep: true }, &[self])
    }
}
