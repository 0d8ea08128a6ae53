//! Dropout layers.

use crate::module::{Forward, Mode, Module, in_layer};
use ternion_core::autograd::is_layer_fusion_disabled;
use ternion_core::{Error, Result, Tensor};

/// In training mode, sets each element to 0 with probability `p` and scales the others by `1 / (1 -
/// p)`; in evaluation mode, returns the input: as PyTorch's `nn.Dropout` (Srivastava et al. 2014).
#[derive(Module, Debug)]
pub struct Dropout {
    p: f64,
    mode: Mode,
}

/// Configuration of a [`Dropout`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DropoutConfig {
    /// The probability that an element is set to 0; 0.5 by default.
    pub p: f64,
}

impl Default for DropoutConfig {
    fn default() -> Self {
        DropoutConfig { p: 0.5 }
    }
}

impl Dropout {
    /// Creates a layer that sets elements to 0 with probability `p`.
    ///
    /// # Errors
    /// Returns an error if `p` is outside `0..=1`.
    pub fn new(p: f64) -> Result<Dropout> {
        Dropout::with_config(DropoutConfig { p })
    }

    /// Creates a layer with this configuration.
    ///
    /// # Errors
    /// Returns an error if the probability is outside `0..=1`.
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
    fn is_active(&self) -> bool {
        self.mode.is_training() && self.p > 0.0
    }

    /// Whether a caller may skip this layer: it changes nothing, and layers are not observed.
    pub(crate) fn is_identity(&self) -> bool {
        !self.is_active() && !is_layer_fusion_disabled()
    }
}

impl Forward for Dropout {
    /// # Shapes
    /// `[..] -> ` same
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        in_layer(self, "Dropout", || if self.is_active() { input.dropout(self.p) } else { Ok(input.clone()) })
    }
}

/// Defines dropout layers that preserve mean and variance, from name, doc and method.
macro_rules! alpha_dropouts {
    ($($(#[$doc:meta])* $name:ident => $method:ident;)*) => {
        $($(#[$doc])*
        #[derive(Module, Debug)]
        pub struct $name {
            p: f64,
            mode: Mode,
        }

        impl $name {
            /// Creates a layer that drops an element, or a channel, with probability `p`.
            ///
            /// # Errors
            /// Returns an error if `p` is outside `0..=1`.
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
    /// In training mode [`Tensor::alpha_dropout`], for networks with `selu`; in evaluation mode,
    /// returns the input.
    AlphaDropout => alpha_dropout;
    /// In training mode [`Tensor::feature_alpha_dropout`], which drops whole channels; in
    /// evaluation mode, returns the input.
    FeatureAlphaDropout => feature_alpha_dropout;
}
