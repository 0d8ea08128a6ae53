//! Reductions over axes, variance and cumulative sums, with their methods. Formulas and derivatives
//! are in `formulas`.

mod formulas;
mod methods;

pub(crate) use formulas::{in_length_units, in_square_units};

use crate::DType;
use crate::autograd::{Context, Grads};
use crate::backend::Meta;
use crate::error::{Error, Result};
use crate::op::{Differentiability, Output, Outputs, Rule, Saves, check};
use crate::shape::AxisSet;
use crate::tensor::Tensor;

op_enum! {
    /// The function that a reduction computes.
    pub enum ReduceOp: name {
        /// Sum; 0 without elements. f16 and bf16 accumulate in f32; integers wrap in their dtype
        /// ([`Tensor::sum`] widens them first); bool is rejected. Primitive.
        Sum: "sum";
        /// Product; 1 without elements. Dtypes as for the sum. Primitive.
        Prod: "prod";
        /// Largest element; NaN if there is one. bool: any. Without elements: an error (bool:
        /// false). Primitive.
        Max: "max";
        /// Smallest element; NaN if there is one. bool: all. Without elements: an error (bool:
        /// true). Primitive.
        Min: "min";
        /// Index (i32, row-major within the reduced axes) of the first largest element, or of the
        /// first NaN. Primitive.
        ArgMax: "argmax";
        /// Index (i32, row-major within the reduced axes) of the first smallest element, or of the
        /// first NaN. Primitive.
        ArgMin: "argmin";
        /// Sum divided by the number of elements; NaN without elements. Floats. Composite.
        Mean: "mean";
        /// Sum of squares. Floats. Composite.
        SumSquares: "sum_squares";
        /// Largest absolute value; an error without elements. Floats. Composite.
        MaxAbs: "max_abs";
        /// `sqrt(sum of squares)`. Gradient 0 at 0. Floats. Composite.
        Norm: "norm";
        /// `log(sum(e^x))`, shifted by the maximum. If all elements are -infinity: -infinity, with
        /// gradient 0. Without elements: -infinity. Floats. Composite.
        LogSumExp: "logsumexp";
    }
}

impl ReduceOp {
    /// Returns whether every backend must implement it.
    pub fn is_primitive(self) -> bool {
        !matches!(
            self,
            ReduceOp::Mean | ReduceOp::SumSquares | ReduceOp::MaxAbs | ReduceOp::Norm | ReduceOp::LogSumExp
        )
    }

    /// Returns whether the input may have this dtype.
    pub fn takes(self, dtype: DType) -> bool {
        match self {
            ReduceOp::Max | ReduceOp::Min => true,
            ReduceOp::Sum | ReduceOp::Prod | ReduceOp::ArgMax | ReduceOp::ArgMin => dtype != DType::Bool,
            ReduceOp::Mean
            | ReduceOp::SumSquares
            | ReduceOp::MaxAbs
            | ReduceOp::Norm
            | ReduceOp::LogSumExp => dtype.is_float(),
        }
    }

    fn check(self, meta: &Meta<'_>, axes: AxisSet) -> Result<()> {
        let name = self.name();
        if !self.takes(meta.dtype) {
            let expected = if self.is_primitive() { "a number" } else { "a floating dtype" };
            return Err(Error::dtype(name, "input", meta.dtype, expected));
        }
        let needs_elements = matches!(
            self,
            ReduceOp::Max | ReduceOp::Min | ReduceOp::ArgMax | ReduceOp::ArgMin | ReduceOp::MaxAbs
        ) && meta.dtype != DType::Bool;
        let result_count = || axes.drop_from(meta.shape()).elements();
        if needs_elements && axes.elements(meta.shape()) == 0 && result_count() > 0 {
            return Err(Error::invalid(
                name,
                format!("no elements along axes {axes:?} of shape {:?}", meta.shape()),
            ));
        }
        match self {
            ReduceOp::ArgMax | ReduceOp::ArgMin => check::positions(name, axes.elements(meta.shape())),
            _ => Ok(()),
        }
    }
}

/// `y = reduce(x)` over `axes`. Input: x. Output: reduced axes removed, or kept with size 1; dtype
/// of x (indices: i32).
///
/// With an empty set of axes, each element is reduced separately.
#[derive(Clone, Debug)]
pub struct Reduce {
    /// The reduction.
    pub op: ReduceOp,
    /// The axes to reduce.
    pub axes: AxisSet,
    /// Whether reduced axes are kept, with size 1.
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
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let input = &inputs[0];
        let with_axes = formulas::compose(self.op, &input.to_accumulator()?, self.axes)?;
        let shape = reduced(input.shape(), self.axes, self.keep);
        Ok(vec![with_axes.reshape(shape)?.to_dtype(input.dtype())?])
    }
    fn differentiability(&self) -> Differentiability {
        match self.op {
            ReduceOp::ArgMax | ReduceOp::ArgMin => Differentiability::NonDifferentiable,
            ReduceOp::MaxAbs => Differentiability::Composition,
            ReduceOp::Sum | ReduceOp::Mean => Differentiability::Stated(Saves::NOTHING),
            ReduceOp::Prod | ReduceOp::SumSquares => Differentiability::Stated(Saves::INPUTS),
            ReduceOp::Max | ReduceOp::Min | ReduceOp::Norm | ReduceOp::LogSumExp => {
                Differentiability::Stated(Saves::ALL)
            }
        }
    }
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let Some(dy) = &grad_outputs[0] else { return Ok(Grads::new()) };
        let kept_shape = self.axes.keep(context.shape(0));
        let dy = dy.reshape(kept_shape)?;
        let grad = match self.op {
            ReduceOp::Sum => dy,
            ReduceOp::Mean => dy.div_scalar(self.axes.elements(context.shape(0)) as f64)?,
            op => {
                let dy = dy.to_accumulator()?;
                let x = context.input(0)?.to_accumulator()?;
                let y = match op {
                    ReduceOp::Prod | ReduceOp::SumSquares => None,
                    // In half precision the log-sum-exp is recomputed, because exp would amplify
                    // its rounding error.
                    ReduceOp::LogSumExp if context.dtype(0).is_half() => {
                        Some(formulas::compose(op, &x, self.axes)?)
                    }
                    _ => Some(context.output(0)?.reshape(kept_shape)?.to_accumulator()?),
                };
                formulas::gradient(op, self.axes, &x, y.as_ref(), &dy)?
            }
        };
        Ok(Grads::from_elem(Some(grad.to_dtype(context.dtype(0))?.expand(*context.shape(0))?), 1))
    }
}

/// `y = sum((x - mean)^2) / (n - correction)` over `axes`, in two passes, finite if the quotient
/// is. Input: x, floating. Output as for [`Reduce`].
///
/// The divisor is clamped to at least 0: `n <= correction` gives NaN (0/0) or infinity.
#[derive(Clone, Debug)]
pub struct Variance {
    /// The axes to reduce.
    pub axes: AxisSet,
    /// Whether reduced axes are kept, with size 1.
    pub keep: bool,
    /// 1 for the unbiased estimate, 0 for the biased (population) variance.
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
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let input = &inputs[0];
        let (scaled, unit) = formulas::in_square_units(&input.to_accumulator()?, self.axes)?;
        let squares = formulas::centered(&scaled, self.axes)?.sum_squares_keep(self.axes)?;
        let variance = squares.div_scalar(self.divisor(input.shape()))?.mul(&unit)?.mul(&unit)?;
        let shape = reduced(input.shape(), self.axes, self.keep);
        Ok(vec![variance.reshape(shape)?.to_dtype(input.dtype())?])
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::Stated(Saves::INPUTS)
    }
    /// `dx = dy * 2 / (n - correction) * (x - mean)`; the gradient through the mean sums to 0.
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let Some(dy) = &grad_outputs[0] else { return Ok(Grads::new()) };
        let shape = context.shape(0);
        let factor = dy.reshape(self.axes.keep(shape))?.to_accumulator()?;
        let factor = factor.mul_scalar(2i64)?.div_scalar(self.divisor(shape))?;
        let centered = formulas::centered(&context.input(0)?.to_accumulator()?, self.axes)?;
        Ok(Grads::from_elem(Some(centered.mul(&factor)?.to_dtype(context.dtype(0))?), 1))
    }
}

impl Variance {
    fn divisor(&self, shape: &crate::Shape) -> f64 {
        (self.axes.elements(shape) as f64 - self.correction).max(0.0)
    }
}

/// `y[i] = x[0] + .. + x[i]` along `axis`. Input: x, numeric. Output: same shape and dtype;
/// integers wrap ([`Tensor::cumsum`] widens them first). Half precision accumulates in f32.
/// Primitive.
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
            return Err(Error::dtype("cumsum", "input", DType::Bool, "a number"));
        }
        Ok(Outputs::from_buf([Output::fresh(*inputs[0].shape(), inputs[0].dtype)]))
    }
    fn is_primitive(&self) -> bool {
        true
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::Stated(Saves::NOTHING)
    }
    /// Element i is part of every sum from index i, so the gradient is the cumulative sum from the
    /// end.
    fn backward(&self, _: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let Some(dy) = &grad_outputs[0] else { return Ok(Grads::new()) };
        let dx = dy.flip(self.axis)?.cumsum(self.axis)?.flip(self.axis)?;
        Ok(Grads::from_elem(Some(dx), 1))
    }
}

/// Returns `shape` after a reduction over `axes`.
pub(crate) fn reduced(shape: &crate::Shape, axes: AxisSet, keep: bool) -> crate::Shape {
    if keep { axes.keep(shape) } else { axes.drop_from(shape) }
}
