//! Convolution over images.

use crate::linear::bias_default;
use crate::{Forward, Init, Module, Param, in_layer};
use ternion_core::{Conv2dOptions, DType, Device, Error, Result, Tensor};

/// Cross-correlation over two axes, as PyTorch's `nn.Conv2d`: weight `[out, in / groups, kh, kw]`, bias `[out]`.
///
/// Both start even over `-1/sqrt(fan_in)..1/sqrt(fan_in)` with `fan_in = in / groups * kh * kw`.
#[derive(Module, Debug)]
pub struct Conv2d {
    /// `[out, in / groups, kh, kw]`.
    pub weight: Param,
    /// `[out]`.
    pub bias: Option<Param>,
    #[module(skip)]
    options: Conv2dOptions,
}

/// How a [`Conv2d`] is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conv2dConfig {
    /// Stride, padding, dilation and groups.
    pub options: Conv2dOptions,
    /// Whether there is a bias; yes by default.
    pub bias: bool,
    /// Element type of the parameters; f32 by default.
    pub dtype: DType,
    /// First values of the weight; [`Init::layer_default`] by default.
    pub weight_init: Init,
    /// First values of the bias; `None`, the default, is even over `-1/sqrt(fan_in)..1/sqrt(fan_in)`.
    pub bias_init: Option<Init>,
}

impl Default for Conv2dConfig {
    fn default() -> Self {
        Conv2dConfig {
            options: Conv2dOptions::default(),
            bias: true,
            dtype: DType::F32,
            weight_init: Init::layer_default(),
            bias_init: None,
        }
    }
}

impl Conv2dConfig {
    /// The defaults with this padding on both sides of both axes.
    pub fn padded(padding: usize) -> Conv2dConfig {
        let options = Conv2dOptions { padding: [padding; 2], ..Default::default() };
        Conv2dConfig { options, ..Default::default() }
    }
}

impl Conv2d {
    /// From `inputs` to `outputs` channels by windows of `kernel` `[height, width]`, with PyTorch's defaults.
    ///
    /// # Errors
    /// No memory.
    pub fn new(inputs: usize, outputs: usize, kernel: [usize; 2], device: &Device) -> Result<Conv2d> {
        Conv2d::with_config([inputs, outputs], kernel, Conv2dConfig::default(), device)
    }

    /// From `inputs` to `outputs` channels by windows of `kernel` `[height, width]`.
    ///
    /// # Errors
    /// Channels that are no multiple of the groups, a dtype that is not floating, no memory.
    pub fn with_config(
        [inputs, outputs]: [usize; 2],
        kernel: [usize; 2],
        config: Conv2dConfig,
        device: &Device,
    ) -> Result<Conv2d> {
        let groups = config.options.groups;
        if groups == 0 || inputs % groups != 0 || outputs % groups != 0 {
            let detail = format!("{inputs} and {outputs} channels are no multiples of {groups} groups");
            return Err(Error::invalid("conv2d", detail));
        }
        let shape = [outputs, inputs / groups, kernel[0], kernel[1]];
        let weight = config.weight_init.tensor(shape, config.dtype, device)?;
        let bias_init = config.bias_init.unwrap_or(bias_default(shape[1..].iter().product()));
        let bias = config
            .bias
            .then(|| Param::new(&bias_init.tensor([outputs], config.dtype, device)?))
            .transpose()?;
        Ok(Conv2d { weight: Param::new(&weight)?, bias, options: config.options })
    }
}

impl Forward for Conv2d {
    /// # Shapes
    /// `[batch, in, height, width] -> [batch, out, oh, ow]`
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let bias = self.bias.as_ref().map(Param::tensor);
        in_layer(self, "Conv2d", || input.conv2d(&self.weight.tensor(), bias.as_ref(), self.options))
    }
}
