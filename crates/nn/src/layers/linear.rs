//! The fully connected layer.

use crate::init::Init;
use crate::module::{Forward, Module, Param, in_layer};
use ternion_core::autograd::are_layers_apart;
use ternion_core::dispatch::apply_one;
use ternion_core::ops::matmul::LinearParameters;
use ternion_core::ops::unary::Unary;
use ternion_core::{DType, Device, Result, Tensor, UnaryOp};

/// `y = x weightT + bias` over the last axis, as PyTorch's `nn.Linear`: weight `[out, in]`, bias `[out]`.
///
/// Both start even over `-1/sqrt(in)..1/sqrt(in)`.
#[derive(Module, Debug)]
pub struct Linear {
    /// `[out, in]`.
    pub weight: Param,
    /// `[out]`.
    pub bias: Option<Param>,
}

/// How a [`Linear`] is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearConfig {
    /// Whether there is a bias; yes by default.
    pub bias: bool,
    /// Element type of the parameters; f32 by default.
    pub dtype: DType,
    /// First values of the weight; [`Init::layer_default`] by default.
    pub weight_init: Init,
    /// First values of the bias; `None`, the default, is even over `-1/sqrt(in)..1/sqrt(in)`.
    pub bias_init: Option<Init>,
}

impl Default for LinearConfig {
    fn default() -> Self {
        LinearConfig { bias: true, dtype: DType::F32, weight_init: Init::layer_default(), bias_init: None }
    }
}

impl Linear {
    /// From `inputs` to `outputs` features, with PyTorch's defaults.
    ///
    /// # Errors
    /// No memory.
    pub fn new(inputs: usize, outputs: usize, device: &Device) -> Result<Linear> {
        Linear::with_config(inputs, outputs, LinearConfig::default(), device)
    }

    /// From `inputs` to `outputs` features.
    ///
    /// # Errors
    /// A dtype that is not floating, no memory.
    pub fn with_config(
        inputs: usize,
        outputs: usize,
        config: LinearConfig,
        device: &Device,
    ) -> Result<Linear> {
        let weight = config.weight_init.tensor([outputs, inputs], config.dtype, device)?;
        let bias_init = config.bias_init.unwrap_or(bias_default(inputs));
        let bias = config
            .bias
            .then(|| Param::new(&bias_init.tensor([outputs], config.dtype, device)?))
            .transpose()?;
        Ok(Linear { weight: Param::new(&weight)?, bias })
    }
}

impl Linear {
    /// `residual + forward(input)`, by one product where nobody looks at what layers give: see [`Tensor::linear_add`].
    ///
    /// # Shapes
    /// input `[.., in]`, residual `[.., out] -> ` as residual
    ///
    /// # Errors
    /// As [`forward`](Forward::forward); a residual of another shape.
    pub fn forward_add(&self, input: &Tensor, residual: &Tensor) -> Result<Tensor> {
        if are_layers_apart() {
            return residual.add(&self.forward(input)?);
        }
        let (weight, bias) = self.tensors();
        input.linear_add(LinearParameters { weight: &weight, bias: bias.as_ref() }, residual)
    }

    /// `activation(forward(input))`, by one product where nobody looks at what layers give: see [`Tensor::linear_activation`].
    ///
    /// # Shapes
    /// `[.., in] -> [.., out]`
    ///
    /// # Errors
    /// As [`forward`](Forward::forward); an activation that the dtype does not have.
    pub fn forward_activation(&self, input: &Tensor, activation: UnaryOp) -> Result<Tensor> {
        if are_layers_apart() {
            return apply_one(Unary { op: activation }, &[&self.forward(input)?]);
        }
        let (weight, bias) = self.tensors();
        input.linear_activation(LinearParameters { weight: &weight, bias: bias.as_ref() }, activation)
    }

    /// Weight and bias as they are now.
    pub(crate) fn tensors(&self) -> (Tensor, Option<Tensor>) {
        (self.weight.tensor(), self.bias.as_ref().map(Param::tensor))
    }
}

/// What PyTorch's linear and convolution layers start their bias from.
pub(crate) fn bias_default(fan_in: usize) -> Init {
    // A layer without inputs has a bias of 0, as in PyTorch.
    let bound = if fan_in == 0 { 0.0 } else { 1.0 / (fan_in as f64).sqrt() };
    Init::Uniform { low: -bound, high: bound }
}

impl Forward for Linear {
    /// # Shapes
    /// `[.., in] -> [.., out]`
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let bias = self.bias.as_ref().map(Param::tensor);
        in_layer(self, "Linear", || input.linear(&self.weight.tensor(), bias.as_ref()))
    }
}
