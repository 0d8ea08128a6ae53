//! Copies and casts.

use crate::DType;
use crate::autograd::{Context, Grads};
use crate::backend::Meta;
use crate::error::Result;
use crate::op::{Differentiability, Output, Outputs, Rule, Saves, check};
use crate::tensor::Tensor;

/// `y = x` in `dtype`: one input, one output of the same shape, row-major unless the caller passes
/// a destination. Primitive, all pairs of dtypes.
///
/// Conversions:
/// - float to float: rounded to nearest even (overflow gives infinity)
/// - float to integer: truncated toward zero and saturated, NaN gives 0
/// - integer to integer: wraps to the low bits
/// - integer to float: rounded to nearest
/// - any dtype to bool: `x != 0` (NaN is true)
/// - bool to number: 0 or 1
#[derive(Clone, Debug)]
pub struct Copy {
    /// The element type of the output.
    pub dtype: DType,
}

impl Rule for Copy {
    fn name(&self) -> &'static str {
        "copy"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        check::count("copy", inputs, 1)?;
        Ok(Outputs::from_buf([Output::fresh(*inputs[0].shape(), self.dtype)]))
    }
    fn is_primitive(&self) -> bool {
        true
    }
    fn broadcasts(&self) -> bool {
        true
    }
    fn differentiability(&self) -> Differentiability {
        if self.dtype.is_float() {
            Differentiability::Stated(Saves::NOTHING)
        } else {
            Differentiability::NonDifferentiable
        }
    }
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        match &grad_outputs[0] {
            Some(grad) => Ok(Grads::from_elem(Some(grad.to_dtype(context.dtype(0))?), 1)),
            None => Ok(Grads::from_elem(None, 1)),
        }
    }
}

impl Tensor {
    /// Converts to the dtype in which sums and products are computed: f32 for half precision,
    /// unchanged for all others.
    ///
    /// Compositions compute in this dtype and convert back once at the end, as a fused kernel does.
    pub(crate) fn to_accumulator(&self) -> Result<Tensor> {
        self.to_dtype(self.dtype().accumulator())
    }
}
