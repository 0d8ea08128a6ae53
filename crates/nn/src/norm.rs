//! Normalisation layers.

use crate::param::Mode;
use crate::{Forward, Module, Param, StateTensor, in_layer};
use ternion_core::{DType, Device, Error, Result, Tensor, no_grad};

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

fn constant(value: f64, width: usize, dtype: DType, device: &Device) -> Result<Param> {
    Param::new(&Tensor::full([width], value, dtype, device)?)
}

impl Forward for LayerNorm {
    /// # Shapes
    /// `[.., width] -> ` same
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let [weight, bias] = [&self.weight, &self.bias].map(|param| param.as_ref().map(Param::tensor));
        in_layer(self, "LayerNorm", || input.layer_norm(weight.as_ref(), bias.as_ref(), self.eps))
    }
}

/// Each channel shifted to mean 0 and scaled to variance 1, then `* weight + bias`, as PyTorch's `nn.BatchNorm2d` (Ioffe and Szegedy 2015).
///
/// In training the statistics are the batch's, and running statistics follow them; in use they are the running ones. The running
/// variance is the unbiased one, as in PyTorch. Each forward in training moves them once; in a [`checkpoint`](ternion_core::checkpoint) the layer
/// runs a second time in backward, and moves them again.
#[derive(Module, Debug)]
pub struct BatchNorm2d {
    /// `[channels]`, ones at first.
    pub weight: Option<Param>,
    /// `[channels]`, zeros at first.
    pub bias: Option<Param>,
    /// `[channels]`, f32, zeros at first.
    pub running_mean: StateTensor,
    /// `[channels]`, f32, ones at first.
    pub running_var: StateTensor,
    /// `[]`, i64: the number of batches that entered the running statistics.
    pub num_batches_tracked: StateTensor,
    mode: Mode,
    #[module(skip)]
    config: BatchNormConfig,
}

/// How a [`BatchNorm2d`] is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchNormConfig {
    /// Added to the variance; 1e-5 by default.
    pub eps: f64,
    /// Weight of a new batch in the running statistics; 0.1 by default.
    pub momentum: f64,
    /// Whether there are weight and bias; yes by default.
    pub affine: bool,
    /// Element type of weight and bias; f32 by default.
    pub dtype: DType,
}

impl Default for BatchNormConfig {
    fn default() -> Self {
        BatchNormConfig { eps: 1e-5, momentum: 0.1, affine: true, dtype: DType::F32 }
    }
}

impl BatchNorm2d {
    /// For `channels` channels, with PyTorch's defaults.
    ///
    /// # Errors
    /// No memory.
    pub fn new(channels: usize, device: &Device) -> Result<BatchNorm2d> {
        BatchNorm2d::with_config(channels, BatchNormConfig::default(), device)
    }

    /// For `channels` channels.
    ///
    /// # Errors
    /// A dtype that is not floating, no memory.
    pub fn with_config(channels: usize, config: BatchNormConfig, device: &Device) -> Result<BatchNorm2d> {
        let affine =
            |value| config.affine.then(|| constant(value, channels, config.dtype, device)).transpose();
        let statistic = |value| Tensor::full([channels], value, DType::F32, device);
        Ok(BatchNorm2d {
            weight: affine(1.0)?,
            bias: affine(0.0)?,
            running_mean: StateTensor::new(&statistic(0.0)?),
            running_var: StateTensor::new(&statistic(1.0)?),
            num_batches_tracked: StateTensor::new(&Tensor::zeros((), DType::I64, device)?),
            mode: Mode::default(),
            config,
        })
    }

    /// Moves the running statistics towards those of a batch of `count` elements a channel, on the device.
    fn follow(&self, mean: &Tensor, var: &Tensor, count: usize) -> Result<()> {
        let momentum = self.config.momentum;
        let unbiased = count as f64 / (count as f64 - 1.0);
        no_grad(|| {
            for (running, batch, scale) in
                [(&self.running_mean, mean, 1.0), (&self.running_var, var, unbiased)]
            {
                let running = running.tensor();
                running.mul_scalar_(1.0 - momentum)?;
                running.add_(&batch.detach().mul_scalar(momentum * scale)?.to_dtype(running.dtype())?)?;
            }
            self.num_batches_tracked.tensor().add_scalar_(1i64)
        })
    }

    fn normalise(&self, input: &Tensor) -> Result<Tensor> {
        let [batch, _channels, height, width] = input.shape().to_array("batch_norm")?;
        let [weight, bias] = [&self.weight, &self.bias].map(|param| param.as_ref().map(Param::tensor));
        let (weight, bias, eps) = (weight.as_ref(), bias.as_ref(), self.config.eps);
        if !self.mode.is_training() {
            let (mean, var) = (self.running_mean.tensor(), self.running_var.tensor());
            return input.batch_norm_eval(&mean, &var, weight, bias, eps);
        }
        let count = batch * height * width;
        if count < 2 {
            let detail =
                format!("training on shape {:?}: a channel of 1 value has no variance", input.shape());
            return Err(Error::invalid("batch_norm", detail));
        }
        let (output, mean, var) = input.batch_norm_train(weight, bias, eps)?;
        self.follow(&mean, &var, count)?;
        Ok(output)
    }
}

impl Forward for BatchNorm2d {
    /// # Shapes
    /// `[batch, channels, height, width] -> ` same
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        in_layer(self, "BatchNorm2d", || self.normalise(input))
    }
}
