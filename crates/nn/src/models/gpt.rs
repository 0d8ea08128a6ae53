//! The transformer that predicts the next token.

use crate::init::Init;
use crate::layers::position::{Rotary, RotaryConfig, Tables, sinusoidal};
use crate::layers::{
    Dropout, Embedding, EmbeddingConfig, FeedForwardForm, KeyValueCache, Linear, LinearConfig, NormForm,
    Seen, TransformerBlock, TransformerBlockConfig,
};
use crate::module::{Forward, Module, in_layer};
use std::sync::Arc;
use ternion_core::autograd::are_layers_apart;
use ternion_core::ops::matmul::LinearParameters;
use ternion_core::{DType, Device, Error, LinearCrossEntropyOptions, Result, Tensor};

/// Standard deviation of the first weights, as of GPT-2.
const INIT_STD: f64 = 0.02;

/// How a [`GPT`] knows where a token stands.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum GPTPositions {
    /// A trained vector for each position, `wpe.weight` `[context, width]`, as in GPT-2.
    #[default]
    Learned,
    /// Sines and cosines, see [`sinusoidal`].
    Sinusoidal,
    /// Queries and keys are turned, see [`Rotary`].
    Rotary(RotaryConfig),
}

/// How a [`GPT`] is made. The default is the smallest GPT-2: 124 million parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GPTConfig {
    /// Different tokens; 50,257 by default.
    pub vocabulary: usize,
    /// The most tokens that are seen at once; 1024 by default.
    pub context: usize,
    /// Blocks; 12 by default.
    pub layers: usize,
    /// Heads of queries; 12 by default.
    pub heads: usize,
    /// Heads of keys and values; as many as of queries by default.
    pub kv_heads: Option<usize>,
    /// Numbers of a token; 768 by default.
    pub width: usize,
    /// See [`FeedForwardConfig::hidden`](crate::FeedForwardConfig::hidden).
    pub hidden: Option<usize>,
    /// GELU by a hyperbolic tangent by default.
    pub form: FeedForwardForm,
    /// [`LayerNorm`](crate::LayerNorm) by default.
    pub norm: NormForm,
    /// Learned by default.
    pub positions: GPTPositions,
    /// Whether layers and norms have a bias; yes by default.
    pub bias: bool,
    /// Whether the output layer has the weight of the embedding (Press and Wolf 2017), and none of its own; yes by default.
    pub tied: bool,
    /// In training, the probability that a number becomes 0: see [`TransformerBlockConfig::dropout`], and of the embedded tokens; 0 by default.
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
            form: FeedForwardForm::GELUTanh,
            norm: NormForm::default(),
            positions: GPTPositions::default(),
            bias: true,
            tied: true,
            dropout: 0.0,
            dtype: DType::F32,
        }
    }
}

/// A decoder-only transformer (Radford et al. 2019): embedded tokens and positions, blocks in which each token sees those before it, a norm, and a score for each
/// token that may follow.
///
/// Weights start normal with standard deviation 0.02, those that lead back to the sum of a block at `0.02 / sqrt(2 layers)`, biases at 0.
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
    /// Tokens: `[vocabulary, width]`.
    pub wte: Embedding,
    /// Learned positions: `[context, width]`.
    pub wpe: Option<Embedding>,
    dropout: Dropout,
    /// The blocks.
    pub h: Vec<TransformerBlock>,
    /// Before the output layer.
    pub ln_f: Box<dyn Forward>,
    /// The output layer, where it is not tied to the embedding.
    pub lm_head: Option<Linear>,
    #[module(skip)]
    config: GPTConfig,
    #[module(skip)]
    positions: Tables,
}

impl GPT {
    /// With first weights from the device's random numbers.
    ///
    /// # Errors
    /// A width that is no multiple of the heads, a dropout outside `0..1`, a vocabulary, context or width of 0, no memory.
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
            ln_f: config.norm.of(width, bias, 1e-5, dtype, device)?,
            lm_head: (!config.tied)
                .then(|| Linear::with_config(width, vocabulary, head, device))
                .transpose()?,
            config,
            positions: Tables::default(),
        })
    }

    /// How it was made.
    pub fn config(&self) -> &GPTConfig {
        &self.config
    }

    /// Empty memory of earlier tokens, one for each block.
    pub fn caches(&self) -> Vec<KeyValueCache> {
        self.h.iter().map(|_| KeyValueCache::new(self.config.context)).collect()
    }

    /// Scores of the tokens that may follow each of these.
    ///
    /// # Shapes
    /// tokens `[batch, length]`, i32 or i64 `-> [batch, length, vocabulary]`
    ///
    /// # Errors
    /// More tokens than the context, a token outside the vocabulary.
    pub fn logits(&self, tokens: &Tensor) -> Result<Tensor> {
        self.head(&self.hidden(tokens, None)?)
    }

    /// The cross-entropy of the tokens that follow these, without the scores of all of them at once: of a large vocabulary they take more memory than the rest of the model. A vocabulary
    /// of any size has the speed of an even one; parameters and gradients have the rows of the vocabulary ([`linear_cross_entropy`](Tensor::linear_cross_entropy)). Where layers are observed
    /// the output layer runs as one, with all scores.
    ///
    /// # Shapes
    /// tokens and targets `[batch, length]`, i32 or i64 `-> []`
    ///
    /// # Errors
    /// Those of [`logits`](GPT::logits) and of [`linear_cross_entropy`](Tensor::linear_cross_entropy).
    pub fn loss(
        &self,
        tokens: &Tensor,
        targets: &Tensor,
        options: LinearCrossEntropyOptions<'_>,
    ) -> Result<Tensor> {
        in_layer(self, "GPT", || {
            let hidden = self.hidden(tokens, None)?;
            let (weight, bias) = match &self.lm_head {
                Some(head) if are_layers_apart() => {
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

    /// As [`logits`](GPT::logits), of the last token alone, where `tokens` follow those that the caches keep, which then keep these, too.
    ///
    /// # Shapes
    /// tokens `[batch, length] -> [batch, vocabulary]`
    ///
    /// # Errors
    /// More tokens than the context, caches of another model; without [`no_grad`](ternion_core::no_grad) an error where a parameter is trained.
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
        let mut x = self.dropout.forward(&self.embedded(tokens, first)?)?;
        for block in &self.h {
            let cache = caches.as_mut().and_then(Iterator::next);
            x = block.forward_seen(&x, Seen::causal(), cache)?;
        }
        self.ln_f.forward_for_products(&x)
    }

    /// Tokens from position `first` on as vectors.
    fn embedded(&self, tokens: &Tensor, first: usize) -> Result<Tensor> {
        let length = tokens.dims()[1];
        let x = self.wte.forward(tokens)?;
        if let Some(positions) = &self.wpe {
            return x.add(&positions.weight.tensor().narrow(0, first, length)?);
        }
        if self.config.positions != GPTPositions::Sinusoidal {
            return Ok(x);
        }
        let GPTConfig { context, width, .. } = self.config;
        let all = self.positions.on(x.device(), || Ok(vec![sinusoidal(context, width, x.device())?]))?;
        x.add(&all[0].narrow(0, first, length)?.to_dtype(x.dtype())?)
    }

    fn head(&self, hidden: &Tensor) -> Result<Tensor> {
        match &self.lm_head {
            Some(head) => head.forward(hidden),
            None => hidden.linear(&self.wte.weight.tensor(), None),
        }
    }
}

/// The blocks with their first weights.
fn blocks(config: &GPTConfig, device: &Device) -> Result<Vec<TransformerBlock>> {
    let &GPTConfig { layers, heads, width, context, bias, dropout, dtype, .. } = config;
    let rotary = match config.positions {
        GPTPositions::Rotary(rotary) if heads > 0 => {
            Some(Arc::new(Rotary::new(context, width / heads, rotary)?))
        }
        _ => None,
    };
    let of_block = TransformerBlockConfig {
        kv_heads: config.kv_heads,
        hidden: config.hidden,
        form: config.form,
        norm: config.norm,
        bias,
        dropout,
        rotary,
        dtype,
        ..Default::default()
    };
    let back_std = INIT_STD / (2.0 * layers as f64).sqrt();
    let block = |_| {
        let block = TransformerBlock::new(width, heads, of_block.clone(), device)?;
        for (name, param) in block.named_parameters() {
            let std = match name.as_str() {
                "self_attn.in_proj_weight" | "linear1.weight" | "linear_gate.weight" => INIT_STD,
                "self_attn.out_proj.weight" | "linear2.weight" => back_std,
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
