//! Convolutions over sequences, images and volumes, and transposed convolutions.

use super::linear::bias_default;
use crate::init::Init;
use crate::module::{Forward, Module, Param, in_layer};
use ternion_core::{
    Conv1dOptions, Conv2dOptions, Conv3dOptions, ConvTranspose1dOptions, ConvTranspose2dOptions,
    ConvTranspose3dOptions, DType, Device, Error, Result, Tensor,
};

/// Defines a layer and its configuration from names, options, shape of the weight and fan-in.
macro_rules! convolution {
    ($(#[$doc:meta])* $name:ident, $config:ident, $options:ident, $weight:literal, $fan:literal) => {
        $(#[$doc])*
        #[doc = ""]
        #[doc = concat!("Both start even over `-1/sqrt(fan_in)..1/sqrt(fan_in)` with `fan_in = ", $fan, "`.")]
        #[derive(Module, Debug)]
        pub struct $name {
            #[doc = concat!("`", $weight, "`.")]
            pub weight: Param,
            /// `[out]`.
            pub bias: Option<Param>,
            #[module(skip)]
            options: $options,
        }

        #[doc = concat!("How a [`", stringify!($name), "`] is made.")]
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $config {
            /// Stride, padding, dilation and groups.
            pub options: $options,
            /// Whether the layer has a bias; true by default.
            pub bias: bool,
            /// Element type of the parameters; f32 by default.
            pub dtype: DType,
            /// Initialization of the weight; [`Init::layer_default`] by default.
            pub weight_init: Init,
            /// Initialization of the bias; `None`, the default, is uniform on
            /// `-1/sqrt(fan_in)..1/sqrt(fan_in)`.
            pub bias_init: Option<Init>,
        }

        impl Default for $config {
            fn default() -> Self {
                $config {
                    options: $options::default(),
                    bias: true,
                    dtype: DType::F32,
                    weight_init: Init::layer_default(),
                    bias_init: None,
                }
            }
        }
    };
}

convolution! {
    /// Cross-correlation over two axes, as PyTorch's `nn.Conv2d`: weight `[out, in / groups, kh,
    /// kw]`, bias `[out]`.
    Conv2d, Conv2dConfig, Conv2dOptions, "[out, in / groups, kh, kw]", "in / groups * kh * kw"
}

convolution! {
    /// Cross-correlation over one axis, as PyTorch's `nn.Conv1d`: weight `[out, in / groups,
    /// kernel]`, bias `[out]`.
    Conv1d, Conv1dConfig, Conv1dOptions, "[out, in / groups, kernel]", "in / groups * kernel"
}

convolution! {
    /// Transposed convolution over two axes, as PyTorch's `nn.ConvTranspose2d`: weight `[in, out /
    /// groups, kh, kw]`, bias `[out]`.
    ConvTranspose2d, ConvTranspose2dConfig, ConvTranspose2dOptions, "[in, out / groups, kh, kw]", "out / groups * kh * kw"
}

convolution! {
    /// Cross-correlation over three axes, as PyTorch's `nn.Conv3d`: weight `[out, in / groups, kd,
    /// kh, kw]`, bias `[out]`.
    Conv3d, Conv3dConfig, Conv3dOptions, "[out, in / groups, kd, kh, kw]", "in / groups * kd * kh * kw"
}

convolution! {
    /// Transposed convolution over one axis, as PyTorch's `nn.ConvTranspose1d`: weight `[in, out /
    /// groups, kernel]`, bias `[out]`.
    ConvTranspose1d, ConvTranspose1dConfig, ConvTranspose1dOptions, "[in, out / groups, kernel]", "out / groups * kernel"
}

convolution! {
    /// Transposed convolution over three axes, as PyTorch's `nn.ConvTranspose3d`: weight `[in, out
    /// / groups, kd, kh, kw]`, bias `[out]`.
    ConvTranspose3d, ConvTranspose3dConfig, ConvTranspose3dOptions, "[in, out / groups, kd, kh, kw]", "out / groups * kd * kh * kw"
}

/// Implements constructors and forward of `Conv3d`, `ConvTranspose1d` and `ConvTranspose3d`, from
/// kernel type, channels of the weight and shapes.
macro_rules! layer {
    ($name:ident, $config:ident, $op:ident, $kernel:ty, $windows:literal, |$inputs:ident, $outputs:ident, $groups:ident| $channels:expr, $shapes:literal) => {
        impl $name {
            #[doc = concat!("From `inputs` to `outputs` channels by windows of `kernel` ", $windows, ", with PyTorch's defaults.")]
            ///
            /// # Errors
            /// Returns an error if memory is exhausted.
            pub fn new(inputs: usize, outputs: usize, kernel: $kernel, device: &Device) -> Result<$name> {
                $name::with_config([inputs, outputs], kernel, $config::default(), device)
            }

            #[doc = concat!("From `inputs` to `outputs` channels by windows of `kernel` ", $windows, ".")]
            ///
            /// # Errors
            /// Returns an error if the channels are not multiples of the groups, the dtype is not
            /// floating, or memory is exhausted.
            pub fn with_config(
                [$inputs, $outputs]: [usize; 2],
                kernel: $kernel,
                config: $config,
                device: &Device,
            ) -> Result<$name> {
                let $config { options, bias, dtype, weight_init, bias_init } = config;
                let $groups = options.groups;
                check_groups(stringify!($op), [$inputs, $outputs], $groups)?;
                let channels: [usize; 2] = $channels;
                let shape = [&channels[..], &kernel[..]].concat();
                let inits = (weight_init, bias_init);
                let (weight, bias) = parameters(&shape, bias.then_some($outputs), inits, dtype, device)?;
                Ok($name { weight, bias, options })
            }
        }

        impl Forward for $name {
            /// # Shapes
            #[doc = $shapes]
            fn forward(&self, input: &Tensor) -> Result<Tensor> {
                let bias = self.bias.as_ref().map(Param::tensor);
                let compute = || input.$op(&self.weight.tensor(), bias.as_ref(), self.options);
                in_layer(self, stringify!($name), compute)
            }
        }
    };
}

layer! {
    Conv3d, Conv3dConfig, conv3d, [usize; 3], "`[depth, height, width]`",
    |inputs, outputs, groups| [outputs, inputs / groups],
    "`[batch, in, depth, height, width] -> [batch, out, od, oh, ow]`"
}

layer! {
    ConvTranspose1d, ConvTranspose1dConfig, conv_transpose1d, [usize; 1], "elements",
    |inputs, outputs, groups| [inputs, outputs / groups],
    "`[batch, in, length] -> [batch, out, out_length]`"
}

layer! {
    ConvTranspose3d, ConvTranspose3dConfig, conv_transpose3d, [usize; 3], "`[depth, height, width]`",
    |inputs, outputs, groups| [inputs, outputs / groups],
    "`[batch, in, depth, height, width] -> [batch, out, od, oh, ow]`"
}

/// Returns weight and bias of a convolution. `shape` is the shape of the weight; the product of its
/// sizes except the first is the fan-in.
fn parameters(
    shape: &[usize],
    outputs: Option<usize>,
    (weight_init, bias_init): (Init, Option<Init>),
    dtype: DType,
    device: &Device,
) -> Result<(Param, Option<Param>)> {
    let weight = weight_init.tensor(shape, dtype, device)?;
    let bias_init = bias_init.unwrap_or(bias_default(shape[1..].iter().product()));
    let bias = outputs.map(|outputs| Param::new(&bias_init.tensor([outputs], dtype, device)?)).transpose()?;
    Ok((Param::new(&weight)?, bias))
}

/// Checks that input and output channels are multiples of the groups.
fn check_groups(op: &'static str, [inputs, outputs]: [usize; 2], groups: usize) -> Result<()> {
    if groups == 0 || inputs % groups != 0 || outputs % groups != 0 {
        let detail = format!("{inputs} and {outputs} channels are not multiples of {groups} groups");
        return Err(Error::invalid(op, detail));
    }
    Ok(())
}

impl Conv2dConfig {
    /// Returns the defaults with this padding on both sides of both axes.
    pub fn padded(padding: usize) -> Conv2dConfig {
        let options = Conv2dOptions { padding: [padding; 2], ..Default::default() };
        Conv2dConfig { options, ..Default::default() }
    }
}

impl Conv2d {
    /// Creates a layer from `inputs` to `outputs` channels with windows of `kernel` `[height,
    /// width]`, with PyTorch's defaults.
    ///
    /// # Errors
    /// Returns an error if memory is exhausted.
    pub fn new(inputs: usize, outputs: usize, kernel: [usize; 2], device: &Device) -> Result<Conv2d> {
        Conv2d::with_config([inputs, outputs], kernel, Conv2dConfig::default(), device)
    }

    /// Creates a layer from `inputs` to `outputs` channels with windows of `kernel` `[height,
    /// width]`.
    ///
    /// # Errors
    /// Returns an error if the channels are not multiples of the groups, the dtype is not floating,
    /// or memory is exhausted.
    pub fn with_config(
        [inputs, outputs]: [usize; 2],
        kernel: [usize; 2],
        config: Conv2dConfig,
        device: &Device,
    ) -> Result<Conv2d> {
        let groups = config.options.groups;
        check_groups("conv2d", [inputs, outputs], groups)?;
        let shape = [outputs, inputs / groups, kernel[0], kernel[1]];
        let Conv2dConfig { options, bias, dtype, weight_init, bias_init } = config;
        let inits = (weight_init, bias_init);
        let (weight, bias) = parameters(&shape, bias.then_some(outputs), inits, dtype, device)?;
        Ok(Conv2d { weight, bias, options })
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

impl Conv1d {
    /// Creates a layer from `inputs` to `outputs` channels with windows of `kernel` elements, with
    /// PyTorch's defaults.
    ///
    /// # Errors
    /// Returns an error if memory is exhausted.
    pub fn new(inputs: usize, outputs: usize, kernel: usize, device: &Device) -> Result<Conv1d> {
        Conv1d::with_config([inputs, outputs], kernel, Conv1dConfig::default(), device)
    }

    /// Creates a layer from `inputs` to `outputs` channels with windows of `kernel` elements.
    ///
    /// # Errors
    /// Returns an error if the channels are not multiples of the groups, the dtype is not floating,
    /// or memory is exhausted.
    pub fn with_config(
        [inputs, outputs]: [usize; 2],
        kernel: usize,
        config: Conv1dConfig,
        device: &Device,
    ) -> Result<Conv1d> {
        let Conv1dConfig { options, bias, dtype, weight_init, bias_init } = config;
        check_groups("conv1d", [inputs, outputs], options.groups)?;
        let (shape, inits) = ([outputs, inputs / options.groups, kernel], (weight_init, bias_init));
        let (weight, bias) = parameters(&shape, bias.then_some(outputs), inits, dtype, device)?;
        Ok(Conv1d { weight, bias, options })
    }
}

impl Forward for Conv1d {
    /// # Shapes
    /// `[batch, in, length] -> [batch, out, out_length]`
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let bias = self.bias.as_ref().map(Param::tensor);
        in_layer(self, "Conv1d", || input.conv1d(&self.weight.tensor(), bias.as_ref(), self.options))
    }
}

impl ConvTranspose2d {
    /// Creates a layer from `inputs` to `outputs` channels with windows of `kernel` `[height,
    /// width]`, with PyTorch's defaults.
    ///
    /// # Errors
    /// Returns an error if memory is exhausted.
    pub fn new(
        inputs: usize,
        outputs: usize,
        kernel: [usize; 2],
        device: &Device,
    ) -> Result<ConvTranspose2d> {
        ConvTranspose2d::with_config([inputs, outputs], kernel, ConvTranspose2dConfig::default(), device)
    }

    /// Creates a layer from `inputs` to `outputs` channels with windows of `kernel` `[height,
    /// width]`.
    ///
    /// # Errors
    /// Returns an error if the channels are not multiples of the groups, the dtype is not floating,
    /// or memory is exhausted.
    pub fn with_config(
        [inputs, outputs]: [usize; 2],
        kernel: [usize; 2],
        config: ConvTranspose2dConfig,
        device: &Device,
    ) -> Result<ConvTranspose2d> {
        let ConvTranspose2dConfig { options, bias, dtype, weight_init, bias_init } = config;
        check_groups("conv_transpose2d", [inputs, outputs], options.groups)?;
        let shape = [inputs, outputs / options.groups, kernel[0], kernel[1]];
        let inits = (weight_init, bias_init);
        let (weight, bias) = parameters(&shape, bias.then_some(outputs), inits, dtype, device)?;
        Ok(ConvTranspose2d { weight, bias, options })
    }
}

impl Forward for ConvTranspose2d {
    /// # Shapes
    /// `[batch, in, height, width] -> [batch, out, oh, ow]` with `oh = (height - 1) stride - 2
    /// padding + dilation (kh - 1) + output_padding + 1`
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let bias = self.bias.as_ref().map(Param::tensor);
        let compute = || input.conv_transpose2d(&self.weight.tensor(), bias.as_ref(), self.options);
        in_layer(self, "ConvTranspose2d", compute)
    }
}
