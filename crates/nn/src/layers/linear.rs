//! The fully connected layer.

use crate::init::Init;
use crate::module::{Forward, Module, Param, in_layer};
use ternion_core::autograd::is_layer_fusion_disabled;
use ternion_core::dispatch::apply_one;
use ternion_core::ops::matmul::LinearParameters;
use ternion_core::ops::unary::Unary;
use ternion_core::{DType, Device, Result, Tensor, UnaryOp};

/// `y = x weightT + bias` over the last axis, as PyTorch's `nn.Linear`: weight `[out, in]`, bias
/// `[out]`.
///
/// Both are initialized uniformly on `-1/sqrt(in)..1/sqrt(in)`.
#[derive(Module, Debug)]
pub struct Linear {
    /// `[out, in]`.
    pub weight: Param,
    /// `[out]`.
    pub bias: Option<Param>,
}

/// Configuration of a [`Linear`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearConfig {
    /// Whether the layer has a bias; true by default.
    pub bias: bool,
    /// Element type of the parameters; f32 by default.
    pub dtype: DType,
    /// Initialization of the weight; [`Init::layer_default`] by default.
    pub weight_init: Init,
    /// Initialization of the bias; `None`, the default, is uniform on `-1/sqrt(in)..1/sqrt(in)`.
    pub bias_init: Option<Init>,
}

impl Default for LinearConfig {
    fn default() -> Self {
        LinearConfig { bias: true, dtype: DType::F32, weight_init: Init::layer_default(), bias_init: None }
    }
}

impl Linear {
    /// Creates a layer from `inputs` to `outputs` features, with PyTorch's defaults.
    ///
    /// # Errors
    /// Returns an error if memory is exhausted.
    pub fn new(inputs: usize, outputs: usize, device: &Device) -> Result<Linear> {
        Linear::with_config(inputs, outputs, LinearConfig::default(), device)
    }

    /// Creates a layer from `inputs` to `outputs` features.
    ///
    /// # Errors
    /// Returns an error if the dtype is not floating, or if memory is exhausted.
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
    /// Returns `residual + forward(input)`. The sum is fused into the matrix product, unless layers
    /// are observed: see [`Tensor::linear_add`].
    ///
    /// # Shapes
    /// input `[.., in]`, residual `[.., out] -> ` same as residual
    ///
    /// # Errors
    /// Same as [`forward`](Forward::forward); also if the residual has another shape.
    pub fn forward_add(&self, input: &Tensor, residual: &Tensor) -> Result<Tensor> {
        if is_layer_fusion_disabled() {
            return residual.add(&self.forward(input)?);
        }
        let (weight, bias) = self.tensors();
        input.linear_add(LinearParameters { weight: &weight, bias: bias.as_ref() }, residual)
    }

    /// Returns `activation(forward(input))`. The activation is fused into the matrix product,
    /// unless layers are observed: see [`Tensor::linear_activation`].
    ///
    /// # Shapes
    /// `[.., in] -> [.., out]`
    ///
    /// # Errors
    /// Same as [`forward`](Forward::forward); also if the dtype does not support the activation.
    pub fn forward_activation(&self, input: &Tensor, activation: UnaryOp) -> Result<Tensor> {
        if is_layer_fusion_disabled() {
            return apply_one(Unary { op: activation }, &[&self.forward(input)?]);
        }
        let (weight, bias) = self.tensors();
        input.linear_activation(LinearParameters { weight: &weight, bias: bias.as_ref() }, activation)
    }

    /// Returns the current weight and bias.
    pub(crate) fn tensors(&self) -> (Tensor, Option<Tensor>) {
        (self.weight.tensor(), self.bias.as_ref().map(Param::tensor))
    }
}

/// Returns the default initialization of the bias of PyTorch's linear and convolution layers.
pub(crate) fn bias_default(fan_in: usize) -> Init {
    // The bias of a layer without inputs is 0, as in PyTorch.
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
