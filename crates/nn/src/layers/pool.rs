//! Pooling over images.

use crate::module::{Forward, Module, in_layer};
use ternion_core::{PoolOptions, Result, Tensor};

/// The largest element of each window, as PyTorch's `nn.MaxPool2d`; positions come from [`Tensor::max_pool2d_with_positions`].
#[derive(Module, Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxPool2d {
    /// Window, stride, padding and rounding: the layer's configuration.
    #[module(skip)]
    pub options: PoolOptions,
}

impl MaxPool2d {
    /// Square windows of `kernel` rows, side by side, with PyTorch's defaults.
    pub fn new(kernel: usize) -> MaxPool2d {
        MaxPool2d::with_options(PoolOptions::new([kernel; 2]))
    }

    /// Windows of any size, stride and padding: `PoolOptions { padding: [1, 1], ..PoolOptions::new([3, 3]) }` has PyTorch's defaults but for the padding.
    pub fn with_options(options: PoolOptions) -> MaxPool2d {
        MaxPool2d { options }
    }
}

impl Forward for MaxPool2d {
    /// # Shapes
    /// `[batch, channels, height, width] -> [batch, channels, oh, ow]`
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        in_layer(self, "MaxPool2d", || input.max_pool2d(self.options))
    }
}

/// The mean of each window, as PyTorch's `nn.AvgPool2d`; its setting `divisor_override` is not there.
#[derive(Module, Clone, Copy, Debug, PartialEq, Eq)]
pub struct AvgPool2d {
    /// Window, stride, padding and rounding: the layer's configuration.
    #[module(skip)]
    pub options: PoolOptions,
}

impl AvgPool2d {
    /// Square windows of `kernel` rows, side by side, with PyTorch's defaults.
    pub fn new(kernel: usize) -> AvgPool2d {
        AvgPool2d::with_options(PoolOptions::new([kernel; 2]))
    }

    /// Windows of any size, stride and padding: `PoolOptions { padding: [1, 1], ..PoolOptions::new([3, 3]) }` has PyTorch's defaults but for the padding.
    pub fn with_options(options: PoolOptions) -> AvgPool2d {
        AvgPool2d { options }
    }
}

impl Forward for AvgPool2d {
    /// # Shapes
    /// `[batch, channels, height, width] -> [batch, channels, oh, ow]`
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        in_layer(self, "AvgPool2d", || input.avg_pool2d(self.options))
    }
}

/// Means of windows that divide the image into `size` rows and columns, whatever its size, as PyTorch's `nn.AdaptiveAvgPool2d`.
#[derive(Module, Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdaptiveAvgPool2d {
    /// Rows and columns of the output.
    pub size: [usize; 2],
}

impl AdaptiveAvgPool2d {
    /// To `size` rows and columns; `[1, 1]` is the mean of each channel.
    pub fn new(size: [usize; 2]) -> AdaptiveAvgPool2d {
        AdaptiveAvgPool2d { size }
    }
}

impl Forward for AdaptiveAvgPool2d {
    /// # Shapes
    /// `[batch, channels, height, width] -> [batch, channels, size[0], size[1]]`
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        in_layer(self, "AdaptiveAvgPool2d", || input.adaptive_avg_pool2d(self.size))
    }
}
