//! Layers that normalise each example by itself.

use crate::module::{Forward, Module, Param, in_layer};
use ternion_core::autograd::{are_layers_apart, is_fusing};
use ternion_core::{DType, Device, Error, Result, Tensor, precision};

/// Each row (the last axis) shifted to mean 0 and scaled to variance 1, then `* weight + bias`, as PyTorch's `nn.LayerNorm` over one axis (Ba et al. 2016).
#[derive(Module, Debug)]
pub struct LayerNorm {
    /// `[width]`, ones at first.
    pub weight: Option<Param>,
    /// `[width]`, zeros at first.
    pub bias: Option<Param>,
    eps: f64,
}

/// How a [`LayerNorm`] is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerNormConfig {
    /// Added to the variance; 1e-5 by default.
    pub eps: f64,
    /// Whether there is a weight; yes by default.
    pub weight: bool,
    /// Whether there is a bias; yes by default.
    pub bias: bool,
    /// Element type of the parameters; f32 by default.
    pub dtype: DType,
}

impl Default for LayerNormConfig {
    fn default() -> Self {
        LayerNormConfig { eps: 1e-5, weight: true, bias: true, dtype: DType::F32 }
    }
}

impl LayerNorm {
    /// For rows of `width` elements, with PyTorch's defaults.
    ///
    /// # Errors
    /// No memory.
    pub fn new(width: usize, device: &Device) -> Result<LayerNorm> {
        LayerNorm::with_config(width, LayerNormConfig::default(), device)
    }

    /// For rows of `width` elements.
    ///
    /// # Errors
    /// A dtype that is not floating, no memory.
    pub fn with_config(width: usize, config: LayerNormConfig, device: &Device) -> Result<LayerNorm> {
        let LayerNormConfig { eps, weight, bias, dtype } = config;
        let weight = weight.then(|| constant(1.0, width, dtype, device)).transpose()?;
        let bias = bias.then(|| constant(0.0, width, dtype, device)).transpose()?;
        Ok(LayerNorm { weight, bias, eps })
    }
}

pub(crate) fn constant(value: f64, width: usize, dtype: DType, device: &Device) -> Result<Param> {
    Param::new(&Tensor::full([width], value, dtype, device)?)
}

impl LayerNorm {
    fn forward_as(&self, out_dtype: Option<DType>, input: &Tensor) -> Result<Tensor> {
        let [weight, bias] = [&self.weight, &self.bias].map(|param| param.as_ref().map(Param::tensor));
        in_layer(self, "LayerNorm", || {
            input.layer_norm_as(out_dtype, weight.as_ref(), bias.as_ref(), self.eps)
        })
    }
}

impl Forward for LayerNorm {
    /// # Shapes
    /// `[.., width] -> ` same
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.forward_as(None, input)
    }

    fn forward_for_products(&self, input: &Tensor) -> Result<Tensor> {
        self.forward_as(dtype_of_products(), input)
    }
}

/// The half precision of the scope's products, if norms are fused with its casts and nobody looks at what layers give.
fn dtype_of_products() -> Option<DType> {
    let dtype = precision::current()?.dtype();
    (dtype.is_half() && is_fusing() && !are_layers_apart()).then_some(dtype)
}

/// Each row (the last axis) divided by its root mean square, then `* weight`, as PyTorch's `nn.RMSNorm` over one axis (Zhang and Sennrich 2019).
#[derive(Module, Debug)]
pub struct RMSNorm {
    /// `[width]`, ones at first.
    pub weight: Option<Param>,
    eps: Option<f64>,
}

/// How an [`RMSNorm`] is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RMSNormConfig {
    /// Added to the mean square; `None`, the default, is the distance from 1 to the next number of the dtype in which it is computed, f32 for halves, as in PyTorch since
    /// 2.7.
    pub eps: Option<f64>,
    /// Whether there is a weight; yes by default.
    pub weight: bool,
    /// Element type of the weight; f32 by default.
    pub dtype: DType,
}

impl Default for RMSNormConfig {
    fn default() -> Self {
        RMSNormConfig { eps: None, weight: true, dtype: DType::F32 }
    }
}

impl RMSNorm {
    /// For rows of `width` elements, with PyTorch's defaults.
    ///
    /// # Errors
    /// No memory.
    pub fn new(width: usize, device: &Device) -> Result<RMSNorm> {
        RMSNorm::with_config(width, RMSNormConfig::default(), device)
    }

    /// For rows of `width` elements.
    ///
    /// # Errors
    /// A dtype that is not floating, no memory.
    pub fn with_config(width: usize, config: RMSNormConfig, device: &Device) -> Result<RMSNorm> {
        let weight = config.weight.then(|| constant(1.0, width, config.dtype, device)).transpose()?;
        Ok(RMSNorm { weight, eps: config.eps })
    }
}

impl RMSNorm {
    fn forward_as(&self, out_dtype: Option<DType>, input: &Tensor) -> Result<Tensor> {
        let weight = self.weight.as_ref().map(Param::tensor);
        let eps = self.eps.unwrap_or(input.dtype().accumulator().epsilon());
        in_layer(self, "RMSNorm", || input.rms_norm_as(out_dtype, weight.as_ref(), eps))
    }
}

impl Forward for RMSNorm {
    /// # Shapes
    /// `[.., width] -> ` same
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.forward_as(None, input)
    }

    fn forward_for_products(&self, input: &Tensor) -> Result<Tensor> {
        self.forward_as(dtype_of_products(), input)
    }
}

/// Each group of channels of an example shifted to mean 0 and scaled to variance 1, then `* weight + bias` by channel, as PyTorch's `nn.GroupNorm` (Wu and He
/// 2018).
#[derive(Module, Debug)]
pub struct GroupNorm {
    /// `[channels]`, ones at first.
    pub weight: Option<Param>,
    /// `[channels]`, zeros at first.
    pub bias: Option<Param>,
    groups: usize,
    eps: f64,
}

/// How a [`GroupNorm`] is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupNormConfig {
    /// Added to the variance; 1e-5 by default.
    pub eps: f64,
    /// Whether there are weight and bias; yes by default.
    pub affine: bool,
    /// Element type of weight and bias; f32 by default.
    pub dtype: DType,
}

impl Default for GroupNormConfig {
    fn default() -> Self {
        GroupNormConfig { eps: 1e-5, affine: true, dtype: DType::F32 }
    }
}

impl GroupNorm {
    /// For `channels` channels in `groups` groups, with PyTorch's defaults.
    ///
    /// # Errors
    /// Channels that are no multiple of the groups, no memory.
    pub fn new(groups: usize, channels: usize, device: &Device) -> Result<GroupNorm> {
        GroupNorm::with_config(groups, channels, GroupNormConfig::default(), device)
    }

    /// For `channels` channels in `groups` groups.
    ///
    /// # Errors
    /// Channels that are no multiple of the groups, a dtype that is not floating, no memory.
    pub fn with_config(
        groups: usize,
        channels: usize,
        config: GroupNormConfig,
        device: &Device,
    ) -> Result<GroupNorm> {
        if groups == 0 || !channels.is_multiple_of(groups) {
            let detail = format!("{channels} channels do not divide into {groups} groups");
            return Err(Error::invalid("group_norm", detail));
        }
        let affine =
            |value| config.affine.then(|| constant(value, channels, config.dtype, device)).transpose();
        Ok(GroupNorm { weight: affine(1.0)?, bias: affine(0.0)?, groups, eps: config.eps })
    }
}

impl Forward for GroupNorm {
    /// # Shapes
    /// `[batch, channels, ..] -> ` same
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let [weight, bias] = [&self.weight, &self.bias].map(|param| param.as_ref().map(Param::tensor));
        in_layer(self, "GroupNorm", || {
            input.group_norm(self.groups, weight.as_ref(), bias.as_ref(), self.eps)
        })
    }
}
