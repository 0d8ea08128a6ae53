//! A module that computes in a separate precision.

use crate::module::{Forward, Module, Visitor};
use ternion_core::{Precision, Result, Tensor, with_precision};

/// A module whose forward runs in a [precision scope](with_precision). Its parameters keep their
/// dtype and their keys.
///
/// It overrides the precision of an enclosing scope: for a layer that must stay in f32, or to
/// compute only one part of a model in half precision.
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
/// assert_eq!(model.named_parameters()[0].0, "0.weight"); // same key as without the wrapper
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
    /// Wraps `module` so that it runs in `precision`.
    pub fn new(precision: Precision, module: M) -> InPrecision<M> {
        InPrecision { precision, module }
    }

    /// Returns the precision.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Returns the wrapped module. Calling it directly does not open the scope.
    pub fn module(&self) -> &M {
        &self.module
    }

    /// Returns the module without the wrapper.
    pub fn into_module(self) -> M {
        self.module
    }

    /// Runs `f` on the module in its precision, for modules with other methods than a forward of
    /// one tensor.
    pub fn run<T>(&self, f: impl FnOnce(&M) -> T) -> T {
        with_precision(self.precision, || f(&self.module))
    }
}

impl<M: Module> Module for InPrecision<M> {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        self.module.visit(visitor);
    }
}

impl<M: Forward> Forward for InPrecision<M> {
    /// # Shapes
    /// Same as the module.
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.run(|module| module.forward(input))
    }
}
