//! Lookup of table rows by index.

use crate::init::Init;
use crate::module::{Forward, Module, Param, in_layer};
use ternion_core::{BagMode, DType, Device, EmbeddingBagOptions, EmbeddingOptions, Error, Result, Tensor};

/// Looks up a row of a table for each index, as PyTorch's `nn.Embedding`: weight `[rows, width]`,
/// initialized from the standard normal distribution.
///
/// PyTorch's settings `max_norm`, `scale_grad_by_freq` and `sparse` are not supported.
#[derive(Module, Debug)]
pub struct Embedding {
    /// `[rows, width]`.
    pub weight: Param,
    #[module(skip)]
    padding_idx: Option<usize>,
}

/// Configuration of an [`Embedding`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EmbeddingConfig {
    /// Element type of the table; f32 by default.
    pub dtype: DType,
    /// Initialization of the table; standard normal by default.
    pub weight_init: Init,
    /// The index of padding, whose row is initialized to 0 and gets no gradient; none by default.
    pub padding_idx: Option<usize>,
}

impl Default for EmbeddingConfig {
    fn default() -> Self {
        let weight_init = Init::Normal { mean: 0.0, std: 1.0 };
        EmbeddingConfig { dtype: DType::F32, weight_init, padding_idx: None }
    }
}

impl Embedding {
    /// Creates a table of `rows` rows with `width` columns, with PyTorch's defaults.
    ///
    /// # Errors
    /// Returns an error if memory is exhausted.
    pub fn new(rows: usize, width: usize, device: &Device) -> Result<Embedding> {
        Embedding::with_config(rows, width, EmbeddingConfig::default(), device)
    }

    /// Creates a table of `rows` rows with `width` columns.
    ///
    /// # Errors
    /// Returns an error if the dtype is not floating, `padding_idx` is not below `rows`, or memory
    /// is exhausted.
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

/// Looks up and reduces the rows of a table for bags of indices, as PyTorch's `nn.EmbeddingBag`:
/// [`Tensor::embedding_bag`].
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
    /// Creates a table of `rows` rows with `width` columns.
    ///
    /// # Errors
    /// Same as [`Embedding::with_config`].
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

    /// Returns the reduced rows of the bags, `[bags, width]`.
    ///
    /// # Errors
    /// Same as [`Tensor::embedding_bag`].
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
