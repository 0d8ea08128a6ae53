//! Activation functions as layers.

use crate::module::{Forward, Module, in_layer};
use ternion_core::{Result, Tensor};

/// Defines one struct for each activation without settings, from name, doc and method.
macro_rules! activations {
    ($($(#[$doc:meta])* $name:ident => $method:ident;)*) => {
        $($(#[$doc])*
        #[derive(Module, Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name;

        impl Forward for $name {
            fn forward(&self, input: &Tensor) -> Result<Tensor> {
                in_layer(self, stringify!($name), || input.$method())
            }
        })*
    };
}

activations! {
    /// `max(x, 0)`.
    ReLU => relu;
    /// `x * sigmoid(x)`.
    SiLU => silu;
    /// The hyperbolic tangent.
    Tanh => tanh;
    /// `1 / (1 + e^-x)`.
    Sigmoid => sigmoid;
}

/// `x` if `x > 0`, else `slope * x`.
#[derive(Module, Clone, Copy, Debug, PartialEq)]
pub struct LeakyReLU {
    /// Slope for negative x; 0.01 by default.
    pub slope: f64,
}

impl Default for LeakyReLU {
    fn default() -> Self {
        LeakyReLU { slope: 0.01 }
    }
}

impl Forward for LeakyReLU {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        in_layer(self, "LeakyReLU", || input.leaky_relu(self.slope))
    }
}

/// `log(1 + e^(beta x)) / beta`.
#[derive(Module, Clone, Copy, Debug, PartialEq)]
pub struct Softplus {
    /// The larger, the closer the function is to `max(x, 0)`; 1 by default.
    pub beta: f64,
}

impl Default for Softplus {
    fn default() -> Self {
        Softplus { beta: 1.0 }
    }
}

impl Forward for Softplus {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        // `softplus` is a single op.
        in_layer(self, "Softplus", || match self.beta {
            1.0 => input.softplus(),
            beta => input.softplus_with(beta, f64::INFINITY),
        })
    }
}

/// `x` if `x > 0`, else `alpha * (e^x - 1)`.
#[derive(Module, Clone, Copy, Debug, PartialEq)]
pub struct ELU {
    /// Scale for negative x; 1 by default.
    pub alpha: f64,
}

impl Default for ELU {
    fn default() -> Self {
        ELU { alpha: 1.0 }
    }
}

impl Forward for ELU {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        in_layer(self, "ELU", || input.elu(self.alpha))
    }
}

/// How [`GELU`] computes the CDF of the standard normal distribution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GeluApproximation {
    /// Exactly, with the error function; PyTorch's `approximate="none"`.
    #[default]
    Erf,
    /// Approximately, with a hyperbolic tangent; PyTorch's `approximate="tanh"`.
    Tanh,
}

/// `x * Phi(x)`, where `Phi` is the CDF of the standard normal distribution (Hendrycks and Gimpel
/// 2016).
#[derive(Module, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GELU {
    /// Exact by default.
    #[module(skip)]
    pub approximate: GeluApproximation,
}

impl Forward for GELU {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        in_layer(self, "GELU", || match self.approximate {
            GeluApproximation::Erf => input.gelu(),
            GeluApproximation::Tanh => input.gelu_tanh(),
        })
    }
}

/// Positive weights that sum to 1 along an axis.
#[derive(Module, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Softmax {
    /// The axis; negative numbers count from the end.
    pub axis: isize,
}

impl Forward for Softmax {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        in_layer(self, "Softmax", || input.softmax(self.axis))
    }
}

/// The logarithm of [`Softmax`].
#[derive(Module, Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSoftmax {
    /// The axis; negative numbers count from the end.
    pub axis: isize,
}

impl Forward for LogSoftmax {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        in_layer(self, "LogSoftmax", || input.log_softmax(self.axis))
    }
}
