//! Layers of channels: in another order, as pixels, divided by their neighbours.

use crate::module::{Forward, Module, in_layer};
use ternion_core::{Result, Tensor};

/// Layers that move elements by one number.
macro_rules! moved {
    ($($(#[$doc:meta])* $name:ident, $field:ident, $(#[$told:meta])* $op:ident, $shapes:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Module, Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            $(#[$told])*
            pub $field: usize,
        }

        impl Forward for $name {
            /// # Shapes
            #[doc = $shapes]
            fn forward(&self, input: &Tensor) -> Result<Tensor> {
                in_layer(self, stringify!($name), || input.$op(self.$field))
            }
        }
    )*};
}

moved! {
    /// Channels as pixels, as PyTorch's `nn.PixelShuffle`.
    PixelShuffle, factor,
    /// How many times as many rows and columns there are.
    pixel_shuffle, "`[.., channels * factor^2, height, width] -> [.., channels, height * factor, width * factor]`";
    /// Pixels as channels, as PyTorch's `nn.PixelUnshuffle`.
    PixelUnshuffle, factor,
    /// By what rows and columns are divided.
    pixel_unshuffle, "`[.., channels, height * factor, width * factor] -> [.., channels * factor^2, height, width]`";
    /// The channels of groups in turn, as PyTorch's `nn.ChannelShuffle`.
    ChannelShuffle, groups,
    /// How many groups there are.
    channel_shuffle, "`[batch, channels, ..] -> the same`";
}

/// Elements divided by the activity of neighbouring channels, as PyTorch's `nn.LocalResponseNorm`.
#[derive(Module, Clone, Copy, Debug, PartialEq)]
pub struct LocalResponseNorm {
    /// How many channels count.
    pub size: usize,
    /// The factor of the mean of squares.
    pub alpha: f64,
    /// The power of the divisor.
    pub beta: f64,
    /// What is added to the mean.
    pub k: f64,
}

impl LocalResponseNorm {
    /// Of `size` channels, with PyTorch's defaults.
    pub fn new(size: usize) -> LocalResponseNorm {
        LocalResponseNorm { size, alpha: 1e-4, beta: 0.75, k: 1.0 }
    }
}

impl Forward for LocalResponseNorm {
    /// # Shapes
    /// `[batch, channels, ..] -> the same`
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let LocalResponseNorm { size, alpha, beta, k } = *self;
        in_layer(self, "LocalResponseNorm", || input.local_response_norm(size, alpha, beta, k))
    }
}
