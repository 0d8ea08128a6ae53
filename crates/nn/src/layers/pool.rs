//! Pooling layers.

use crate::module::{Forward, Module, in_layer};
use ternion_core::{PoolOptions, Result, Tensor};

/// The largest element of each window, as PyTorch's `nn.MaxPool2d`.
/// [`Tensor::max_pool2d_with_positions`] also returns the positions.
#[derive(Module, Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxPool2d {
    /// Window, stride, padding and rounding.
    #[module(skip)]
    pub options: PoolOptions,
}

impl MaxPool2d {
    /// Creates a layer with adjacent square windows of `kernel` rows and columns, with PyTorch's
    /// defaults.
    pub fn new(kernel: usize) -> MaxPool2d {
        MaxPool2d::with_options(PoolOptions::new([kernel; 2]))
    }

    /// Creates a layer with windows of any size, stride and padding: `PoolOptions { padding: [1,
    /// 1], ..PoolOptions::new([3, 3]) }` has PyTorch's defaults except for the padding.
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

/// The mean of each window, as PyTorch's `nn.AvgPool2d`.
#[derive(Module, Clone, Copy, Debug, PartialEq, Eq)]
pub struct AvgPool2d {
    /// Window, stride, padding and rounding.
    #[module(skip)]
    pub options: PoolOptions,
}

impl AvgPool2d {
    /// Creates a layer with adjacent square windows of `kernel` rows and columns, with PyTorch's
    /// defaults.
    pub fn new(kernel: usize) -> AvgPool2d {
        AvgPool2d::with_options(PoolOptions::new([kernel; 2]))
    }

    /// Creates a layer with windows of any size, stride and padding: `PoolOptions { padding: [1,
    /// 1], ..PoolOptions::new([3, 3]) }` has PyTorch's defaults except for the padding.
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

/// The means of windows that divide an image of any size into `size` rows and columns, as PyTorch's
/// `nn.AdaptiveAvgPool2d`.
#[derive(Module, Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdaptiveAvgPool2d {
    /// Rows and columns of the output.
    pub size: [usize; 2],
}

impl AdaptiveAvgPool2d {
    /// Creates a layer with `size` output rows and columns; `[1, 1]` gives the mean of each
    /// channel.
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

/// Defines pooling layers over one and three axes from their documentation, method, number of axes
/// and shapes.
macro_rules! pools {
    ($($(#[$doc:meta])* $name:ident, $op:ident, $axes:literal, $shapes:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Module, Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            /// Window, stride, padding and rounding.
            #[module(skip)]
            pub options: PoolOptions<$axes>,
        }

        impl $name {
            /// Creates a layer with adjacent windows of `kernel` elements along each axis, with
            /// PyTorch's defaults.
            pub fn new(kernel: usize) -> $name {
                $name::with_options(PoolOptions::new([kernel; $axes]))
            }

            /// Creates a layer with windows of any size, stride and padding.
            pub fn with_options(options: PoolOptions<$axes>) -> $name {
                $name { options }
            }
        }

        impl Forward for $name {
            /// # Shapes
            #[doc = $shapes]
            fn forward(&self, input: &Tensor) -> Result<Tensor> {
                in_layer(self, stringify!($name), || input.$op(self.options))
            }
        }
    )*};
}

pools! {
    /// The largest element of each window, as PyTorch's `nn.MaxPool1d`.
    MaxPool1d, max_pool1d, 1, "`[batch, channels, length] -> [batch, channels, windows]`";
    /// The largest element of each window, as PyTorch's `nn.MaxPool3d`.
    MaxPool3d, max_pool3d, 3, "`[batch, channels, depth, height, width] -> [batch, channels, od, oh, ow]`";
    /// The mean of each window, as PyTorch's `nn.AvgPool1d`.
    AvgPool1d, avg_pool1d, 1, "`[batch, channels, length] -> [batch, channels, windows]`";
    /// The mean of each window, as PyTorch's `nn.AvgPool3d`.
    AvgPool3d, avg_pool3d, 3, "`[batch, channels, depth, height, width] -> [batch, channels, od, oh, ow]`";
}

/// Defines pooling layers whose windows follow from the size of the output.
macro_rules! adaptive {
    ($($(#[$doc:meta])* $name:ident, $axes:literal, |$input:ident, $size:ident| $compute:expr, $shapes:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Module, Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            /// The size of the output.
            pub size: [usize; $axes],
        }

        impl $name {
            /// Creates a layer with outputs of `size`.
            pub fn new(size: [usize; $axes]) -> $name {
                $name { size }
            }
        }

        impl Forward for $name {
            /// # Shapes
            #[doc = $shapes]
            fn forward(&self, $input: &Tensor) -> Result<Tensor> {
                let $size = self.size;
                in_layer(self, stringify!($name), || $compute)
            }
        }
    )*};
}

adaptive! {
    /// The means of windows that divide sequences into `size` parts, as PyTorch's
    /// `nn.AdaptiveAvgPool1d`.
    AdaptiveAvgPool1d, 1, |input, size| input.adaptive_avg_pool1d(size),
    "`[batch, channels, length] -> [batch, channels, size]`";
    /// The means of windows that divide volumes into `size` planes, rows and columns, as PyTorch's
    /// `nn.AdaptiveAvgPool3d`.
    AdaptiveAvgPool3d, 3, |input, size| input.adaptive_avg_pool3d(size),
    "`[batch, channels, depth, height, width] -> [batch, channels, *size]`";
    /// The largest elements of windows that divide sequences into `size` parts, as PyTorch's
    /// `nn.AdaptiveMaxPool1d`.
    AdaptiveMaxPool1d, 1, |input, size| Ok(input.adaptive_max_pool1d(size)?.0),
    "`[batch, channels, length] -> [batch, channels, size]`";
    /// The largest elements of windows that divide images into `size` rows and columns, as
    /// PyTorch's `nn.AdaptiveMaxPool2d`.
    AdaptiveMaxPool2d, 2, |input, size| Ok(input.adaptive_max_pool2d(size)?.0),
    "`[batch, channels, height, width] -> [batch, channels, *size]`";
    /// The largest elements of windows that divide volumes into `size` planes, rows and columns, as
    /// PyTorch's `nn.AdaptiveMaxPool3d`.
    AdaptiveMaxPool3d, 3, |input, size| Ok(input.adaptive_max_pool3d(size)?.0),
    "`[batch, channels, depth, height, width] -> [batch, channels, *size]`";
}
