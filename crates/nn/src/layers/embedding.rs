//! Rows of a table by index.

use crate::init::Init;
use crate::module::{Forward, Module, Param, in_layer};
use ternion_core::{BagMode, DType, Device, EmbeddingBagOptions, EmbeddingOptions, Error, Result, Tensor};

/// A row of the table for each index, as PyTorch's `nn.Embedding`: weight `[rows, width]`, standard normal at first.
///
/// Of PyTorch's settings `max_norm`, `scale_grad_by_freq` and `sparse` are not there.
#[derive(Module, Debug)]
pub struct Embedding {
    /// `[rows, width]`.
    pub weight: Param,
    #[module(skip)]
    padding_idx: Option<usize>,
}

/// How an [`Embedding`] is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EmbeddingConfig {
    /// Element type of the table; f32 by default.
    pub dtype: DType,
    /// First values; standard normal by default.
    pub weight_init: Init,
    /// The index of padding, whose row starts as zeros and gets no gradient; none by default.
    pub padding_idx: Option<usize>,
}

impl Default for EmbeddingConfig {
    fn default() -> Self {
        let weight_init = Init::Normal { mean: 0.0, std: 1.0 };
        EmbeddingConfig { dtype: DType::F32, weight_init, padding_idx: None }
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
    /// A dtype that is not floating, padding that is no row, no memory.
    pub fn with_config(
        rows: usize,
        width: usize,
        config: EmbeddingConfig,
        device: &Device,
    ) -> Result<Embedding> {
        let EmbeddingConfig { dtype, weight_init, padding_idx } = config;
        if let Some(row) = padding_idx.filter(|row| *row >= rows) {
            return Err(Error::invalid("embedding", format!("padding_idx {row} of {rows} rows")));
        }
        let weight = weight_init.tensor([rows, width], dtype, device)?;
        if let Some(row) = padding_idx {
            weight.narrow(0, row, 1)?.fill_(0.0)?;
        }
        Ok(Embedding { weight: Param::new(&weight)?, padding_idx })
    }

    fn rows(&self, indices: &Tensor) -> Result<Tensor> {
        let options = EmbeddingOptions { padding_idx: self.padding_idx, ..EmbeddingOptions::default() };
        self.weight.tensor().embedding_with(indices, options)
    }
}

impl Forward for Embedding {
    /// # Shapes
    /// indices `[..]` (i32 or i64) `-> [.., width]`
    fn forward(&self, indices: &Tensor) -> Result<Tensor> {
        in_layer(self, "Embedding", || self.rows(indices))
    }
}

/// The rows of a table for bags of indices, reduced, as PyTorch's `nn.EmbeddingBag`: [`Tensor::embedding_bag`].
#[derive(Module, Debug)]
pub struct EmbeddingBag {
    /// `[rows, width]`.
    pub weight: Param,
    #[module(skip)]
    padding_idx: Option<usize>,
    #[module(skip)]
    mode: BagMode,
}

impl EmbeddingBag {
    /// A table of `rows` rows of `width` numbers.
    ///
    /// # Errors
    /// As [`Embedding::with_config`].
    pub fn new(
        rows: usize,
        width: usize,
        mode: BagMode,
        config: EmbeddingConfig,
        device: &Device,
    ) -> Result<EmbeddingBag> {
        let Embedding { weight, padding_idx } = Embedding::with_config(rows, width, config, device)?;
        Ok(EmbeddingBag { weight, padding_idx, mode })
    }

    /// The reduced rows of bags, `[bags, width]`.
    ///
    /// # Errors
    /// As [`Tensor::embedding_bag`].
    pub fn forward(
        &self,
        indices: &Tensor,
        offsets: Option<&Tensor>,
        per_sample_weights: Option<&Tensor>,
    ) -> Result<Tensor> {
        let &EmbeddingBag { padding_idx, mode, .. } = self;
        let options = EmbeddingBagOptions {
            offsets,
            include_last_offset: false,
            mode,
            per_sample_weights,
            padding_idx,
        };
        in_layer(self, "EmbeddingBag", || self.weight.tensor().embedding_bag(indices, options))
    }
}
