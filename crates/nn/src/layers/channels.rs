//! Layers that reorder channels, convert channels to pixels, or normalize over neighboring
//! channels.

use crate::module::{Forward, Module, in_layer};
use ternion_core::{Result, Tensor};

/// Defines layers that move elements and have a single integer setting.
macro_rules! rearranging_layers {
    ($($(#[$doc:meta])* $name:ident, $field:ident, $(#[$field_doc:meta])* $op:ident, $shapes:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Module, Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            $(#[$field_doc])*
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

rearranging_layers! {
    /// Rearranges channels into pixels, as PyTorch's `nn.PixelShuffle`.
    PixelShuffle, factor,
    /// The factor by which height and width grow.
    pixel_shuffle, "`[.., channels * factor^2, height, width] -> [.., channels, height * factor, width * factor]`";
    /// Rearranges pixels into channels, as PyTorch's `nn.PixelUnshuffle`.
    PixelUnshuffle, factor,
    /// The factor by which height and width are divided.
    pixel_unshuffle, "`[.., channels, height * factor, width * factor] -> [.., channels * factor^2, height, width]`";
    /// Interleaves the channels of the groups, as PyTorch's `nn.ChannelShuffle`.
    ChannelShuffle, groups,
    /// The number of groups.
    channel_shuffle, "`[batch, channels, ..] -> the same`";
}

/// Divides elements by a function of the squares of neighboring channels, as PyTorch's
/// `nn.LocalResponseNorm`.
#[derive(Module, Clone, Copy, Debug, PartialEq)]
pub struct LocalResponseNorm {
    /// The number of neighboring channels.
    pub size: usize,
    /// The factor of the mean of squares.
    pub alpha: f64,
    /// The exponent of the divisor.
    pub beta: f64,
    /// The constant that is added to the scaled mean.
    pub k: f64,
}

impl LocalResponseNorm {
    /// Creates a layer over `size` channels, with PyTorch's defaults.
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
