//! Layers that normalize channels over a batch.

use super::norm::constant;
use crate::module::{Forward, Mode, Module, Param, StateTensor, in_layer};
use ternion_core::{DType, Device, Error, Result, RunningStatistics, Tensor, no_grad};

/// Configuration of a [`BatchNorm1d`] or a [`BatchNorm2d`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchNormConfig {
    /// Added to the variance; 1e-5 by default.
    pub eps: f64,
    /// Weight of a new batch in the running statistics; 0.1 by default. With `None` they are
    /// cumulative averages over all batches.
    pub momentum: Option<f64>,
    /// Whether the layer has a weight and a bias; true by default.
    pub affine: bool,
    /// Whether the layer has running statistics; true by default. Without them it uses the
    /// statistics of the batch in evaluation mode, too.
    pub track_running_stats: bool,
    /// Element type of weight and bias; f32 by default.
    pub dtype: DType,
}

impl Default for BatchNormConfig {
    fn default() -> Self {
        BatchNormConfig {
            eps: 1e-5,
            momentum: Some(0.1),
            affine: true,
            track_running_stats: true,
            dtype: DType::F32,
        }
    }
}

/// Defines a batch norm layer from its name, documented shapes and supported input ranks.
macro_rules! batch_norm {
    ($(#[$doc:meta])* $name:ident, $shapes:literal, $ranks:expr, $of_ranks:literal) => {
        $(#[$doc])*
        ///
        /// In training mode the layer normalizes with the statistics of the batch, and updates the
        /// running statistics. In evaluation mode it normalizes with the running statistics, if it
        /// has any. The running variance is unbiased, as in PyTorch. Each forward pass in training
        /// mode updates the running statistics once. In a [`checkpoint`](ternion_core::checkpoint)
        /// the layer runs again in the backward pass and updates them a second time.
        #[derive(Module, Debug)]
        pub struct $name {
            /// `[channels]`, initialized to 1.
            pub weight: Option<Param>,
            /// `[channels]`, initialized to 0.
            pub bias: Option<Param>,
            /// `[channels]`, f32, initialized to 0. Like the next two fields, `None` without
            /// [`track_running_stats`](BatchNormConfig::track_running_stats).
            pub running_mean: Option<StateTensor>,
            /// `[channels]`, f32, initialized to 1.
            pub running_var: Option<StateTensor>,
            /// `[]`, i64: the number of batches that the running statistics cover.
            pub num_batches_tracked: Option<StateTensor>,
            mode: Mode,
            #[module(skip)]
            config: BatchNormConfig,
        }

        impl $name {
            /// Creates a layer for `channels` channels, with PyTorch's defaults.
            ///
            /// # Errors
            /// Returns an error if memory is exhausted.
            pub fn new(channels: usize, device: &Device) -> Result<$name> {
                $name::with_config(channels, BatchNormConfig::default(), device)
            }

            /// Creates a layer for `channels` channels.
            ///
            /// # Errors
            /// Returns an error if the dtype is not floating, or if memory is exhausted.
            pub fn with_config(channels: usize, config: BatchNormConfig, device: &Device) -> Result<$name> {
                let affine =
                    |value| config.affine.then(|| constant(value, channels, config.dtype, device)).transpose();
                let tracked = |value: f64, shape: &[usize], dtype| {
                    let tensor = || Ok(StateTensor::new(&Tensor::full(shape, value, dtype, device)?));
                    config.track_running_stats.then(tensor).transpose()
                };
                Ok($name {
                    weight: affine(1.0)?,
                    bias: affine(0.0)?,
                    running_mean: tracked(0.0, &[channels], DType::F32)?,
                    running_var: tracked(1.0, &[channels], DType::F32)?,
                    num_batches_tracked: tracked(0.0, &[], DType::I64)?,
                    mode: Mode::default(),
                    config,
                })
            }

            fn normalize(&self, input: &Tensor) -> Result<Tensor> {
                if !$ranks.contains(&input.rank()) {
                    return Err(Error::Rank {
                        op: "batch_norm",
                        expected: $of_ranks.into(),
                        shape: Box::new(*input.shape()),
                    });
                }
                let [weight, bias] = [&self.weight, &self.bias].map(|param| param.as_ref().map(Param::tensor));
                let affine = [weight.as_ref(), bias.as_ref()];
                let state = Statistics::from_buffers([&self.running_mean, &self.running_var, &self.num_batches_tracked]);
                match &state {
                    Some(state) if !self.mode.is_training() => state.normalize(input, affine, self.config),
                    _ => normalize_with_batch(input, affine, self.config, state.as_ref()),
                }
            }
        }

        impl Forward for $name {
            /// # Shapes
            #[doc = $shapes]
            fn forward(&self, input: &Tensor) -> Result<Tensor> {
                in_layer(self, stringify!($name), || self.normalize(input))
            }
        }
    };
}

batch_norm! {
    /// Shifts each channel of rows or sequences to mean 0 and scales it to variance 1, then
    /// computes `* weight + bias`, as PyTorch's `nn.BatchNorm1d` (Ioffe and Szegedy 2015).
    BatchNorm1d, "`[batch, channels] -> ` same; `[batch, channels, length] -> ` same", [2, 3], "2 or 3"
}

batch_norm! {
    /// Shifts each channel of images to mean 0 and scales it to variance 1, then computes `* weight
    /// + bias`, as PyTorch's `nn.BatchNorm2d` (Ioffe and Szegedy 2015).
    BatchNorm2d, "`[batch, channels, height, width] -> ` same", [4], "4"
}

/// The running statistics of a layer.
struct Statistics {
    mean: Tensor,
    var: Tensor,
    batches: Tensor,
}

impl Statistics {
    fn from_buffers(state: [&Option<StateTensor>; 3]) -> Option<Statistics> {
        let [mean, var, batches] = state.map(|state| state.as_ref().map(StateTensor::tensor));
        Some(Statistics { mean: mean?, var: var?, batches: batches? })
    }

    fn normalize(
        &self,
        input: &Tensor,
        [weight, bias]: [Option<&Tensor>; 2],
        config: BatchNormConfig,
    ) -> Result<Tensor> {
        self.running(input)?;
        input.batch_norm_eval(&self.mean, &self.var, weight, bias, config.eps)
    }

    fn running(&self, input: &Tensor) -> Result<RunningStatistics<'_>> {
        RunningStatistics::new("batch_norm", input, &self.mean, &self.var)
    }

    /// Updates the running statistics on the device with the statistics of a batch of `count`
    /// elements per channel.
    fn update(
        &self,
        running: RunningStatistics<'_>,
        batch: [&Tensor; 2],
        count: usize,
        momentum: Option<f64>,
    ) -> Result<()> {
        no_grad(|| self.batches.add_scalar_(1i64))?;
        match momentum {
            Some(momentum) => running.follow(batch, count, momentum),
            None => running.follow_evenly(batch, count, &self.batches),
        }
    }
}

/// Normalizes with the statistics of the batch itself, and updates the running statistics.
fn normalize_with_batch(
    input: &Tensor,
    [weight, bias]: [Option<&Tensor>; 2],
    config: BatchNormConfig,
    state: Option<&Statistics>,
) -> Result<Tensor> {
    let running = state.map(|state| state.running(input)).transpose()?;
    let dims = input.dims();
    let count = dims[0] * dims[2..].iter().product::<usize>();
    if count < 2 {
        let mode = if running.is_some() { "training" } else { "batch statistics" };
        let detail = format!("{mode} on shape {:?}: a channel of 1 value has no variance", input.shape());
        return Err(Error::invalid("batch_norm", detail));
    }
    let (output, mean, var) = input.batch_norm_train(weight, bias, config.eps)?;
    if let Some((state, running)) = state.zip(running) {
        state.update(running, [&mean, &var], count, config.momentum)?;
    }
    Ok(output)
}
