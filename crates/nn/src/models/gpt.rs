//! A transformer that predicts the next token.

use crate::init::Init;
use crate::layers::position::{Rotary, RotaryConfig, Tables, sinusoidal};
use crate::layers::{
    AttentionMask, Dropout, Embedding, EmbeddingConfig, FeedForwardKind, KeyValueCache, Linear, LinearConfig,
    NormKind, TransformerBlock, TransformerBlockConfig,
};
use crate::module::{Forward, Module, in_layer};
use std::sync::Arc;
use ternion_core::autograd::is_layer_fusion_disabled;
use ternion_core::ops::matmul::LinearParameters;
use ternion_core::{DType, Device, Error, LinearCrossEntropyOptions, Result, Tensor};

/// Standard deviation of the initial weights, as in GPT-2.
const INIT_STD: f64 = 0.02;

/// How a [`GPT`] encodes the positions of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum GPTPositions {
    /// A trained vector for each position, `wpe.weight` `[context, width]`, as in GPT-2.
    #[default]
    Learned,
    /// Sines and cosines, see [`sinusoidal`].
    Sinusoidal,
    /// Rotary embedding of queries and keys, see [`Rotary`].
    Rotary(RotaryConfig),
}

/// Configuration of a [`GPT`]. The default is the smallest GPT-2: 124 million parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GPTConfig {
    /// Size of the vocabulary; 50,257 by default.
    pub vocabulary: usize,
    /// Maximum number of tokens in the context; 1024 by default.
    pub context: usize,
    /// Number of blocks; 12 by default.
    pub layers: usize,
    /// Number of query heads; 12 by default.
    pub heads: usize,
    /// Number of heads of keys and values; as many as query heads by default.
    pub kv_heads: Option<usize>,
    /// Width of the token embeddings; 768 by default.
    pub width: usize,
    /// See [`FeedForwardConfig::hidden`](crate::FeedForwardConfig::hidden).
    pub hidden: Option<usize>,
    /// [`FeedForwardKind::GELUTanh`] by default.
    pub feed_forward: FeedForwardKind,
    /// [`LayerNorm`](crate::LayerNorm) by default.
    pub norm: NormKind,
    /// Learned by default.
    pub positions: GPTPositions,
    /// Whether layers and norms have a bias; true by default.
    pub bias: bool,
    /// Whether the output layer shares the weight of the embedding (Press and Wolf 2017) instead of
    /// having a separate one; true by default.
    pub tied: bool,
    /// The probability that an element is set to 0 in training mode, in the blocks (see
    /// [`TransformerBlockConfig::dropout`]) and in the embedded tokens; 0 by default.
    pub dropout: f64,
    /// Element type of the parameters; f32 by default.
    pub dtype: DType,
}

impl Default for GPTConfig {
    fn default() -> Self {
        GPTConfig {
            vocabulary: 50_257,
            context: 1024,
            layers: 12,
            heads: 12,
            kv_heads: None,
            width: 768,
            hidden: None,
            feed_forward: FeedForwardKind::GELUTanh,
            norm: NormKind::default(),
            positions: GPTPositions::default(),
            bias: true,
            tied: true,
            dropout: 0.0,
            dtype: DType::F32,
        }
    }
}

/// A decoder-only transformer (Radford et al. 2019): embedded tokens and positions, blocks in which
/// each token attends to itself and to earlier ones, a norm, and a score for each possible next
/// token.
///
/// Weights are initialized from a normal distribution with standard deviation 0.02; the weights of
/// the projections back to the residual stream have `0.02 / sqrt(2 layers)`. Biases are initialized
/// to 0.
///
/// ```
/// use ternion_core::{DType, Result, Tensor};
/// use ternion_nn::{GPT, GPTConfig, Module};
///
/// # fn main() -> Result<()> {
/// # let device = ternion_cpu::device();
/// let config = GPTConfig { vocabulary: 65, context: 16, layers: 2, heads: 2, width: 32, ..Default::default() };
/// let model = GPT::new(config, &device)?;
/// let tokens = Tensor::from_vec(vec![7i64, 8, 9, 10], [1, 4], &device)?;
/// let next = Tensor::from_vec(vec![8i64, 9, 10, 11], [4], &device)?;
/// let logits = model.logits(&tokens)?; // [1, 4, 65]
/// let loss = logits.reshape([4, 65])?.cross_entropy(&next)?;
/// assert!((loss.item::<f32>()? - 65f32.ln()).abs() < 0.5);
/// # Ok(())
/// # }
/// ```
#[derive(Module)]
pub struct GPT {
    /// Token embedding: `[vocabulary, width]`.
    pub wte: Embedding,
    /// Learned position embedding: `[context, width]`.
    pub wpe: Option<Embedding>,
    dropout: Dropout,
    /// The blocks.
    pub h: Vec<TransformerBlock>,
    /// The norm before the output layer.
    pub ln_f: Box<dyn Forward>,
    /// The output layer, if it is not tied to the embedding.
    pub lm_head: Option<Linear>,
    #[module(skip)]
    config: GPTConfig,
    #[module(skip)]
    positions: Tables,
}

impl GPT {
    /// Creates a model with initial weights from the device's random number generator.
    ///
    /// # Errors
    /// Returns an error if the width is not a multiple of the heads, the dropout is outside `0..1`,
    /// the vocabulary, context or width is 0, or memory is exhausted.
    pub fn new(config: GPTConfig, device: &Device) -> Result<GPT> {
        let GPTConfig { vocabulary, context, width, bias, dtype, .. } = config;
        if [vocabulary, context, width].contains(&0) {
            let detail =
                format!("vocabulary {vocabulary}, context {context}, width {width}: expected at least 1");
            return Err(Error::invalid("gpt", detail));
        }
        let init = Init::Normal { mean: 0.0, std: INIT_STD };
        let table = |rows| {
            let config = EmbeddingConfig { dtype, weight_init: init, ..Default::default() };
            Embedding::with_config(rows, width, config, device)
        };
        let head = LinearConfig { bias: false, dtype, weight_init: init, ..Default::default() };
        let learned = config.positions == GPTPositions::Learned;
        Ok(GPT {
            wte: table(vocabulary)?,
            wpe: learned.then(|| table(context)).transpose()?,
            dropout: Dropout::new(config.dropout)?,
            h: blocks(&config, device)?,
            ln_f: config.norm.build(width, bias, 1e-5, dtype, device)?,
            lm_head: (!config.tied)
                .then(|| Linear::with_config(width, vocabulary, head, device))
                .transpose()?,
            config,
            positions: Tables::default(),
        })
    }

    /// Returns the configuration.
    pub fn config(&self) -> &GPTConfig {
        &self.config
    }

    /// Returns empty KV caches, one for each block.
    pub fn caches(&self) -> Vec<KeyValueCache> {
        self.h.iter().map(|_| KeyValueCache::new(self.config.context)).collect()
    }

    /// Returns, for each of these tokens, the scores of the tokens that may follow it.
    ///
    /// # Shapes
    /// tokens `[batch, length]`, i32 or i64 `-> [batch, length, vocabulary]`
    ///
    /// # Errors
    /// Returns an error if there are more tokens than the context, or if a token is outside the
    /// vocabulary.
    pub fn logits(&self, tokens: &Tensor) -> Result<Tensor> {
        self.head(&self.hidden(tokens, None)?)
    }

    /// Returns the cross-entropy of `targets`, the tokens that follow `tokens`, without computing
    /// all scores at once: with a large vocabulary, the scores need more memory than the rest of
    /// the model. With 128 tokens or more, any vocabulary size is as fast as one whose rows of
    /// scores are multiples of 16 bytes, because the products use a padded copy of the weight;
    /// parameters and gradients are not padded
    /// ([`linear_cross_entropy`](Tensor::linear_cross_entropy)). If layers are observed, the output
    /// layer runs as a single layer that computes all scores.
    ///
    /// # Shapes
    /// tokens and targets `[batch, length]`, i32 or i64 `-> []`
    ///
    /// # Errors
    /// Same as [`logits`](GPT::logits) and [`linear_cross_entropy`](Tensor::linear_cross_entropy).
    pub fn loss(
        &self,
        tokens: &Tensor,
        targets: &Tensor,
        options: LinearCrossEntropyOptions<'_>,
    ) -> Result<Tensor> {
        in_layer(self, "GPT", || {
            let hidden = self.hidden(tokens, None)?;
            let (weight, bias) = match &self.lm_head {
                Some(head) if is_layer_fusion_disabled() => {
                    let scores = head.forward(&hidden)?.permute([0, 2, 1])?;
                    return scores.cross_entropy_with(targets, options.loss);
                }
                Some(head) => (head.weight.tensor(), head.bias.as_ref().map(|bias| bias.tensor())),
                None => (self.wte.weight.tensor(), None),
            };
            let layer = LinearParameters { weight: &weight, bias: bias.as_ref() };
            hidden.linear_cross_entropy(layer, targets, options)
        })
    }

    /// Returns the [`logits`](GPT::logits) of only the last token. `tokens` follow those in the
    /// caches, and are appended to them.
    ///
    /// # Shapes
    /// tokens `[batch, length] -> [batch, vocabulary]`
    ///
    /// # Errors
    /// Returns an error if there are more tokens than the context, if the caches belong to another
    /// model, or if a parameter requires a gradient and the call is not in
    /// [`no_grad`](ternion_core::no_grad).
    pub fn next_logits(&self, tokens: &Tensor, caches: &mut [KeyValueCache]) -> Result<Tensor> {
        let hidden = self.hidden(tokens, Some(caches))?;
        let [batch, length, width] = hidden.shape().to_array("gpt")?;
        if length == 0 {
            return Err(Error::invalid("gpt", "no token: expected at least 1"));
        }
        self.head(&hidden.narrow(1, length - 1, 1)?.reshape([batch, width])?)
    }

    fn hidden(&self, tokens: &Tensor, caches: Option<&mut [KeyValueCache]>) -> Result<Tensor> {
        let [_, length] = tokens.shape().to_array("gpt")?;
        let first = caches.as_ref().and_then(|caches| caches.first()).map_or(0, KeyValueCache::len);
        if first + length > self.config.context {
            let detail =
                format!("{length} tokens behind {first}, expected at most {} in all", self.config.context);
            return Err(Error::invalid("gpt", detail));
        }
        if let Some(caches) = caches.as_ref().filter(|caches| caches.len() != self.h.len()) {
            let detail = format!("{} caches, expected one for each of {} blocks", caches.len(), self.h.len());
            return Err(Error::invalid("gpt", detail));
        }
        let mut caches = caches.map(|caches| caches.iter_mut());
        let mut x = self.dropout.forward(&self.embed(tokens, first)?)?;
        for block in &self.h {
            let cache = caches.as_mut().and_then(Iterator::next);
            x = block.forward_masked(&x, AttentionMask::causal(), cache)?;
        }
        self.ln_f.forward_for_products(&x)
    }

    /// Embeds the tokens, the first of which is at position `first`.
    fn embed(&self, tokens: &Tensor, first: usize) -> Result<Tensor> {
        let length = tokens.dims()[1];
        let x = self.wte.forward(tokens)?;
        if let Some(positions) = &self.wpe {
            return x.add(&positions.weight.tensor().narrow(0, first, length)?);
        }
        if self.config.positions != GPTPositions::Sinusoidal {
            return Ok(x);
        }
        let GPTConfig { context, width, .. } = self.config;
        let tables = self.positions.on(x.device(), || Ok(vec![sinusoidal(context, width, x.device())?]))?;
        x.add(&tables[0].narrow(0, first, length)?.to_dtype(x.dtype())?)
    }

    fn head(&self, hidden: &Tensor) -> Result<Tensor> {
        match &self.lm_head {
            Some(head) => head.forward(hidden),
            None => hidden.linear(&self.wte.weight.tensor(), None),
        }
    }
}

/// Creates the blocks with their initial weights.
fn blocks(config: &GPTConfig, device: &Device) -> Result<Vec<TransformerBlock>> {
    let &GPTConfig { layers, heads, width, context, bias, dropout, dtype, .. } = config;
    let rotary = match config.positions {
        GPTPositions::Rotary(rotary) if heads > 0 => {
            Some(Arc::new(Rotary::new(context, width / heads, rotary)?))
        }
        _ => None,
    };
    let block_config = TransformerBlockConfig {
        kv_heads: config.kv_heads,
        hidden: config.hidden,
        feed_forward: config.feed_forward,
        norm: config.norm,
        bias,
        dropout,
        rotary,
        dtype,
        ..Default::default()
    };
    let residual_std = INIT_STD / (2.0 * layers as f64).sqrt();
    let block = |_| {
        let block = TransformerBlock::new(width, heads, block_config.clone(), device)?;
        for (name, param) in block.named_parameters() {
            let std = match name.as_str() {
                "self_attn.in_proj_weight" | "linear1.weight" | "linear_gate.weight" => INIT_STD,
                "self_attn.out_proj.weight" | "linear2.weight" => residual_std,
                _ if name.starts_with("norm") => continue,
                _ => 0.0,
            };
            param.set(&Init::Normal { mean: 0.0, std }.tensor(param.shape(), dtype, device)?)?;
        }
        Ok(block)
    };
    (0..layers).map(block).collect()
}

impl Forward for GPT {
    /// # Shapes
    /// tokens `[batch, length]`, i32 or i64 `-> [batch, length, vocabulary]`
    fn forward(&self, tokens: &Tensor) -> Result<Tensor> {
        in_layer(self, "GPT", || self.logits(tokens))
    }
}
