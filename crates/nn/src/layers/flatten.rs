//! Layers that change no values.

use crate::module::{Forward, Module, in_layer};
use ternion_core::{Result, Tensor};

/// Merges the axes `start..=end` into one, by default all but the first, as PyTorch's `nn.Flatten`.
#[derive(Module, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flatten {
    /// First axis; negative numbers count from the end.
    pub start: isize,
    /// Last axis, inclusive.
    pub end: isize,
}

impl Default for Flatten {
    fn default() -> Self {
        Flatten { start: 1, end: -1 }
    }
}

impl Forward for Flatten {
    /// # Shapes
    /// `[batch, a, b, ..] -> [batch, a * b * ..]` by default
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        in_layer(self, "Flatten", || input.flatten(self.start, self.end))
    }
}

/// Returns its input: a placeholder for a layer.
#[derive(Module, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity;

impl Forward for Identity {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        in_layer(self, "Identity", || Ok(input.clone()))
    }
}
