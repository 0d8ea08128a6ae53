//! Layers that normalize each example independently.

use crate::module::{Forward, Module, Param, in_layer};
use ternion_core::autograd::{is_fusing, is_layer_fusion_disabled};
use ternion_core::{DType, Device, Error, Result, Tensor, precision};

/// Shifts each row (along the last axis) to mean 0 and scales it to variance 1, then computes `*
/// weight + bias`, as PyTorch's `nn.LayerNorm` over one axis (Ba et al. 2016).
#[derive(Module, Debug)]
pub struct LayerNorm {
    /// `[width]`, initialized to 1.
    pub weight: Option<Param>,
    /// `[width]`, initialized to 0.
    pub bias: Option<Param>,
    eps: f64,
}

/// Configuration of a [`LayerNorm`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerNormConfig {
    /// Added to the variance; 1e-5 by default.
    pub eps: f64,
    /// Whether the layer has a weight; true by default.
    pub weight: bool,
    /// Whether the layer has a bias; true by default.
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
    /// Creates a layer for rows of `width` elements, with PyTorch's defaults.
    ///
    /// # Errors
    /// Returns an error if memory is exhausted.
    pub fn new(width: usize, device: &Device) -> Result<LayerNorm> {
        LayerNorm::with_config(width, LayerNormConfig::default(), device)
    }

    /// Creates a layer for rows of `width` elements.
    ///
    /// # Errors
    /// Returns an error if the dtype is not floating, or if memory is exhausted.
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
        self.forward_as(matmul_dtype(), input)
    }
}

/// Returns the half-precision dtype of matrix products in the current scope, if norms may be fused
/// with the scope's casts and layers are not observed.
fn matmul_dtype() -> Option<DType> {
    let dtype = precision::current()?.dtype();
    (dtype.is_half() && is_fusing() && !is_layer_fusion_disabled()).then_some(dtype)
}

/// Divides each row (along the last axis) by its root mean square, then computes `* weight`, as
/// PyTorch's `nn.RMSNorm` over one axis (Zhang and Sennrich 2019).
#[derive(Module, Debug)]
pub struct RMSNorm {
    /// `[width]`, initialized to 1.
    pub weight: Option<Param>,
    eps: Option<f64>,
}

/// Configuration of an [`RMSNorm`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RMSNormConfig {
    /// Added to the mean square. `None`, the default, is the machine epsilon of the dtype of the
    /// computation, which is f32 for half precision, as in PyTorch since 2.7.
    pub eps: Option<f64>,
    /// Whether the layer has a weight; true by default.
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
    /// Creates a layer for rows of `width` elements, with PyTorch's defaults.
    ///
    /// # Errors
    /// Returns an error if memory is exhausted.
    pub fn new(width: usize, device: &Device) -> Result<RMSNorm> {
        RMSNorm::with_config(width, RMSNormConfig::default(), device)
    }

    /// Creates a layer for rows of `width` elements.
    ///
    /// # Errors
    /// Returns an error if the dtype is not floating, or if memory is exhausted.
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
        self.forward_as(matmul_dtype(), input)
    }
}

/// Shifts each group of channels of an example to mean 0 and scales it to variance 1, then computes
/// `* weight + bias` for each channel, as PyTorch's `nn.GroupNorm` (Wu and He 2018).
#[derive(Module, Debug)]
pub struct GroupNorm {
    /// `[channels]`, initialized to 1.
    pub weight: Option<Param>,
    /// `[channels]`, initialized to 0.
    pub bias: Option<Param>,
    groups: usize,
    eps: f64,
}

/// Configuration of a [`GroupNorm`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupNormConfig {
    /// Added to the variance; 1e-5 by default.
    pub eps: f64,
    /// Whether the layer has a weight and a bias; true by default.
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
    /// Creates a layer for `channels` channels in `groups` groups, with PyTorch's defaults.
    ///
    /// # Errors
    /// Returns an error if the channels are not a multiple of the groups, or if memory is
    /// exhausted.
    pub fn new(groups: usize, channels: usize, device: &Device) -> Result<GroupNorm> {
        GroupNorm::with_config(groups, channels, GroupNormConfig::default(), device)
    }

    /// Creates a layer for `channels` channels in `groups` groups.
    ///
    /// # Errors
    /// Returns an error if the channels are not a multiple of the groups, the dtype is not
    /// floating, or memory is exhausted.
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
