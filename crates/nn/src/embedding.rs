//! Rows of a table by index.

use crate::{Forward, Init, Module, Param, in_layer};
use ternion_core::{DType, Device, Result, Tensor};

/// A row of the table for each index, as PyTorch's `nn.Embedding`: weight `[rows, width]`, standard normal at first.
#[derive(Module, Debug)]
pub struct Embedding {
    /// `[rows, width]`.
    pub weight: Param,
}

/// How an [`Embedding`] is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EmbeddingConfig {
    /// Element type of the table; f32 by default.
    pub dtype: DType,
    /// First values; standard normal by default.
    pub weight_init: Init,
}

impl Default for EmbeddingConfig {
    fn default() -> Self {
        EmbeddingConfig { dtype: DType::F32, weight_init: Init::Normal { mean: 0.0, std: 1.0 } }
    }
}

impl Embedding {
    /// A table of `rows` rows of `width` numbers, with PyTorch's defaults.
    ///
    /// # Errors
    /// No memory.
    pub fn new(rows: usize, width: usize, device: &Device) -> Result<Embedding> {
        Embedding::with_config(rows, width, EmbeddingConfig::default(), device)
    }

    /// A table of `rows` rows of `width` numbers.
    ///
    /// # Errors
    /// A dtype that is not floating, no memory.
    pub fn with_config(
        rows: usize,
        width: usize,
        config: EmbeddingConfig,
        device: &Device,
    ) -> Result<Embedding> {
        let weight = config.weight_init.tensor([rows, width], config.dtype, device)?;
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
