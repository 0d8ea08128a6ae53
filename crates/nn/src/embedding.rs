//! Rows of a table by index.

use crate::{Forward, Init, Module, Param, in_layer};
use ternion_core::{DType, Device, Result, Tensor};

/// A row of the table for each index, as PyTorch's `nn.Embedding`: weight `[rows, width]`, standard normal at first.
#[derive(Module, Debug)]
pub struct Embedding {
    /// `[rows, width]`.
    pub weight: Param,
}

impl Embedding {
    /// A table of `rows` rows of `width` numbers.
    ///
    /// # Errors
    /// No memory.
    pub fn new(rows: usize, width: usize, device: &Device) -> Result<Embedding> {
        let weight = Init::Normal { mean: 0.0, std: 1.0 }.tensor([rows, width], DType::F32, device)?;
        Ok(Embedding { weight: Param::new(&weight)? })
    }
}

impl Forward for Embedding {
    /// # Shapes
    /// indices `[..]` (i32 or i64) `-> [.., width]`
    fn forward(&self, indices: &Tensor) -> Result<Tensor> {
        in_layer(self, "Embedding", || self.weight.tensor().embedding(indices))
    }
}
