//! Layers that run one after another.

use crate::module::{Forward, Module, Visitor, in_member};
use ternion_core::{Result, Tensor};

/// Layers that run one after another. Their keys are their indices, as in PyTorch: `0.weight`,
/// `2.bias`.
///
/// ```
/// # use ternion_nn::{Forward, Linear, Module, ReLU, Sequential};
/// # fn main() -> ternion_core::Result<()> {
/// # let device = ternion_cpu::device();
/// let model = Sequential::new().with(Linear::new(4, 8, &device)?).with(ReLU).with(Linear::new(8, 2, &device)?);
/// assert_eq!(model.named_parameters()[2].0, "2.weight");
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct Sequential {
    layers: Vec<Box<dyn Forward>>,
}

impl Sequential {
    /// Creates a sequence without layers: its output is its input.
    pub fn new() -> Sequential {
        Sequential::default()
    }

    /// Returns the sequence with `layer` appended.
    #[must_use]
    pub fn with(mut self, layer: impl Forward + 'static) -> Sequential {
        self.push(layer);
        self
    }

    /// Appends `layer`.
    pub fn push(&mut self, layer: impl Forward + 'static) {
        self.layers.push(Box::new(layer));
    }

    /// Returns the number of layers.
    pub fn len(&self) -> usize {
        self.layers.len()
    }

    /// Whether the sequence has no layers.
    pub fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// Returns an iterator over the layers in order.
    pub fn layers(&self) -> impl Iterator<Item = &dyn Forward> {
        self.layers.iter().map(AsRef::as_ref)
    }
}

impl Module for Sequential {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.layer("Sequential", self);
        self.layers.visit(visitor);
    }
}

impl Forward for Sequential {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let layers = self.layers.iter().enumerate();
        layers.into_iter().try_fold(input.clone(), |value, (position, layer)| {
            in_member(self, "Sequential", position, || layer.forward(&value))
        })
    }
}

impl From<Vec<Box<dyn Forward>>> for Sequential {
    fn from(layers: Vec<Box<dyn Forward>>) -> Self {
        Sequential { layers }
    }
}
