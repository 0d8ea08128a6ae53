//! Random zeros in training.

use crate::module::{Forward, Mode, Module, in_layer};
use ternion_core::autograd::are_layers_apart;
use ternion_core::{Error, Result, Tensor};

/// In training, each element becomes 0 with probability `p`, and the others are scaled by `1 / (1 - p)`; in use, nothing happens: as PyTorch's `nn.Dropout`
/// (Srivastava et al. 2014).
#[derive(Module, Debug)]
pub struct Dropout {
    p: f64,
    mode: Mode,
}

/// How a [`Dropout`] is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DropoutConfig {
    /// The probability of a zero; 0.5 by default.
    pub p: f64,
}

impl Default for DropoutConfig {
    fn default() -> Self {
        DropoutConfig { p: 0.5 }
    }
}

impl Dropout {
    /// With probability `p` of a zero.
    ///
    /// # Errors
    /// If `p` is not within `0..=1`.
    pub fn new(p: f64) -> Result<Dropout> {
        Dropout::with_config(DropoutConfig { p })
    }

    /// With the probability of a zero that `config` tells.
    ///
    /// # Errors
    /// If it is not within `0..=1`.
    pub fn with_config(config: DropoutConfig) -> Result<Dropout> {
        let DropoutConfig { p } = config;
        if (0.0..=1.0).contains(&p) {
            Ok(Dropout { p, mode: Mode::default() })
        } else {
            Err(Error::invalid("dropout", format!("probability {p}, expected 0 to 1")))
        }
    }
}

impl Dropout {
    fn drops(&self) -> bool {
        self.mode.is_training() && self.p > 0.0
    }

    /// Whether it may be left out: it changes nothing, and nobody looks at what layers give.
    pub(crate) fn may_be_skipped(&self) -> bool {
        !self.drops() && !are_layers_apart()
    }
}

impl Forward for Dropout {
    /// # Shapes
    /// `[..] -> ` same
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        in_layer(self, "Dropout", || if self.drops() { input.dropout(self.p) } else { Ok(input.clone()) })
    }
}

/// Dropout that keeps mean and variance: name, doc, method.
macro_rules! alpha_dropouts {
    ($($(#[$doc:meta])* $name:ident => $method:ident;)*) => {
        $($(#[$doc])*
        #[derive(Module, Debug)]
        pub struct $name {
            p: f64,
            mode: Mode,
        }

        impl $name {
            /// With probability `p` of an element, or a channel, that is left out.
            ///
            /// # Errors
            /// If `p` is not within `0..=1`.
            pub fn new(p: f64) -> Result<$name> {
                match (0.0..=1.0).contains(&p) {
                    true => Ok($name { p, mode: Mode::default() }),
                    false => Err(Error::invalid(stringify!($method), format!("probability {p}, expected 0 to 1"))),
                }
            }
        }

        impl Forward for $name {
            /// # Shapes
            /// `[..] -> ` same
            fn forward(&self, input: &Tensor) -> Result<Tensor> {
                let active = self.mode.is_training() && self.p > 0.0;
                in_layer(self, stringify!($name), || if active { input.$method(self.p) } else { Ok(input.clone()) })
            }
        })*
    };
}

alpha_dropouts! {
    /// In training [`Tensor::alpha_dropout`], for networks of `selu`; in use, nothing happens.
    AlphaDropout => alpha_dropout;
    /// In training [`Tensor::feature_alpha_dropout`], of whole channels; in use, nothing happens.
    FeatureAlphaDropout => feature_alpha_dropout;
}
