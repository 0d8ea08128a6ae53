//! A module that computes in a precision of its own.

use crate::module::{Forward, Module, Walk};
use ternion_core::{Precision, Result, Tensor, with_precision};

/// A module whose forward runs in a [scope of precision](with_precision). Its parameters keep their dtype and their keys.
///
/// Inside the scope of another precision this is the exception: a layer that must stay in f32, or the only part that is computed in a half.
///
/// ```
/// use ternion_core::{DType, Precision, Result, Tensor};
/// use ternion_nn::{Forward, InPrecision, Linear, Module, ReLU, Sequential};
///
/// # fn main() -> Result<()> {
/// # let device = ternion_cpu::device();
/// let layers = Sequential::new().with(Linear::new(4, 8, &device)?).with(ReLU).with(Linear::new(8, 2, &device)?);
/// let model = InPrecision::new(Precision::Bf16, layers);
/// let output = model.forward(&Tensor::ones([3, 4], DType::F32, &device)?)?;
/// assert_eq!(output.dtype(), DType::BF16);
/// assert_eq!(model.named_parameters()[0].0, "0.weight"); // as without it
/// assert_eq!(model.parameters()[0].dtype(), DType::F32);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct InPrecision<M> {
    precision: Precision,
    module: M,
}

impl<M> InPrecision<M> {
    /// `module` in `precision`.
    pub fn new(precision: Precision, module: M) -> InPrecision<M> {
        InPrecision { precision, module }
    }

    /// The precision.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// The module itself, to which no precision is given.
    pub fn module(&self) -> &M {
        &self.module
    }

    /// The module without its precision.
    pub fn into_module(self) -> M {
        self.module
    }

    /// Runs `f` on the module in its precision: for modules that have more to run than a forward of one tensor.
    pub fn run<T>(&self, f: impl FnOnce(&M) -> T) -> T {
        with_precision(self.precision, || f(&self.module))
    }
}

impl<M: Module> Module for InPrecision<M> {
    fn visit(&self, walk: &mut Walk<'_>) {
        self.module.visit(walk);
    }
}

impl<M: Forward> Forward for InPrecision<M> {
    /// # Shapes
    /// Those of the module.
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.run(|module| module.forward(input))
    }
}
