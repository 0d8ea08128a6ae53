//! Multilayer perceptron.

use crate::layers::Linear;
use crate::module::{Forward, Module};
use ternion_core::{Device, Error, Result, Tensor, UnaryOp};

/// Fully connected layers with ReLU between them. Keys: `layers.0.weight`, `layers.0.bias`,
/// `layers.1.weight`, ...
#[derive(Module, Debug)]
pub struct Mlp {
    /// The layers, first to last.
    pub layers: Vec<Linear>,
}

impl Mlp {
    /// Creates a layer between each two consecutive `sizes`: `Mlp::new([784, 128, 10], &device)`
    /// has two layers.
    ///
    /// # Errors
    /// Returns an error for fewer than two sizes, or if memory is exhausted.
    pub fn new(sizes: impl AsRef<[usize]>, device: &Device) -> Result<Mlp> {
        let sizes = sizes.as_ref();
        if sizes.len() < 2 {
            return Err(Error::invalid("mlp", format!("sizes {sizes:?}, expected at least 2")));
        }
        let layers =
            sizes.windows(2).map(|pair| Linear::new(pair[0], pair[1], device)).collect::<Result<_>>()?;
        Ok(Mlp { layers })
    }
}

impl Forward for Mlp {
    /// # Shapes
    /// `[batch, a, b, ..] -> [batch, out]`, where `a * b * ..` is the first size
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let Some((&batch, rest)) = input.dims().split_first().filter(|(_, rest)| !rest.is_empty()) else {
            return Err(Error::Rank {
                op: "mlp",
                expected: "at least 2".into(),
                shape: Box::new(*input.shape()),
            });
        };
        let mut value = input.reshape([batch, rest.iter().product()])?;
        let Some((last, hidden)) = self.layers.split_last() else { return Ok(value) };
        for layer in hidden {
            value = layer.forward_activation(&value, UnaryOp::Relu)?;
        }
        last.forward(&value)
    }
}
