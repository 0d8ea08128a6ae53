//! The transformer block.

use super::attention::{AttentionMask, KeyValueCache, MultiHeadAttention, MultiHeadAttentionConfig};
use super::dropout::Dropout;
use super::feed_forward::{FeedForward, FeedForwardConfig, FeedForwardKind};
use super::norm::{LayerNorm, LayerNormConfig, RMSNorm, RMSNormConfig};
use super::position::Rotary;
use crate::module::{Forward, Module, in_layer};
use std::sync::Arc;
use ternion_core::{DType, Device, Result, Tensor};

/// The kind of norm in a transformer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NormKind {
    /// [`LayerNorm`].
    #[default]
    LayerNorm,
    /// [`RMSNorm`].
    RMSNorm,
}

impl NormKind {
    /// Creates a norm for rows of `width` columns.
    pub(crate) fn build(
        self,
        width: usize,
        bias: bool,
        eps: f64,
        dtype: DType,
        device: &Device,
    ) -> Result<Box<dyn Forward>> {
        Ok(match self {
            NormKind::LayerNorm => {
                let config = LayerNormConfig { eps, bias, dtype, ..Default::default() };
                Box::new(LayerNorm::with_config(width, config, device)?)
            }
            NormKind::RMSNorm => {
                let config = RMSNormConfig { eps: Some(eps), dtype, ..Default::default() };
                Box::new(RMSNorm::with_config(width, config, device)?)
            }
        })
    }
}

/// `x + attention(norm1(x))`, then `x + feed_forward(norm2(x))`: PyTorch's
/// `nn.TransformerEncoderLayer` with `norm_first` and `batch_first`, with the same keys (Vaswani et
/// al. 2017; pre-norm, Xiong et al. 2020). PyTorch's post-norm variant is not available.
#[derive(Module)]
pub struct TransformerBlock {
    /// Self-attention of the tokens.
    pub self_attn: MultiHeadAttention,
    /// `linear1`, `linear2`.
    #[module(flatten)]
    pub feed_forward: FeedForward,
    /// The norm before attention.
    pub norm1: Box<dyn Forward>,
    /// The norm before the feed-forward part.
    pub norm2: Box<dyn Forward>,
    dropout1: Dropout,
    dropout2: Dropout,
}

/// Configuration of a [`TransformerBlock`].
#[derive(Clone, Debug)]
pub struct TransformerBlockConfig {
    /// Number of heads of keys and values; as many as query heads by default.
    pub kv_heads: Option<usize>,
    /// Hidden width of the feed-forward part; by default four times the width, or for SwiGLU 8/3 of
    /// the width, rounded up to a multiple of 8. (PyTorch's default is 2048 for any width.)
    pub hidden: Option<usize>,
    /// The kind of feed-forward part; GELU by default. (PyTorch's default is ReLU.)
    pub feed_forward: FeedForwardKind,
    /// [`LayerNorm`] by default.
    pub norm: NormKind,
    /// Added to the variance, or to the mean square; 1e-5 by default.
    pub eps: f64,
    /// Whether layers and norms have a bias; true by default.
    pub bias: bool,
    /// The probability that an element is set to 0 in training mode; applies to the attention
    /// weights, the hidden activations, and the outputs of attention and feed-forward layers; 0 by
    /// default. (PyTorch's default is 0.1.)
    pub dropout: f64,
    /// Rotary embedding of queries and keys; none by default.
    pub rotary: Option<Arc<Rotary>>,
    /// Element type of the parameters; f32 by default.
    pub dtype: DType,
}

impl Default for TransformerBlockConfig {
    fn default() -> Self {
        TransformerBlockConfig {
            kv_heads: None,
            hidden: None,
            feed_forward: FeedForwardKind::default(),
            norm: NormKind::default(),
            eps: 1e-5,
            bias: true,
            dropout: 0.0,
            rotary: None,
            dtype: DType::F32,
        }
    }
}

impl TransformerBlock {
    /// Creates a block with `heads` heads for rows of `width` columns.
    ///
    /// # Errors
    /// Same as [`MultiHeadAttention::with_config`].
    pub fn new(
        width: usize,
        heads: usize,
        config: TransformerBlockConfig,
        device: &Device,
    ) -> Result<TransformerBlock> {
        let TransformerBlockConfig {
            kv_heads,
            hidden,
            feed_forward,
            norm,
            eps,
            bias,
            dropout,
            rotary,
            dtype,
        } = config;
        let attention_config = MultiHeadAttentionConfig { kv_heads, bias, dropout, rotary, dtype };
        let feed_forward_config = FeedForwardConfig { kind: feed_forward, hidden, bias, dropout, dtype };
        let norm = || norm.build(width, bias, eps, dtype, device);
        Ok(TransformerBlock {
            self_attn: MultiHeadAttention::with_config(width, heads, attention_config, device)?,
            feed_forward: FeedForward::new(width, feed_forward_config, device)?,
            norm1: norm()?,
            norm2: norm()?,
            dropout1: Dropout::new(dropout)?,
            dropout2: Dropout::new(dropout)?,
        })
    }

    /// Returns the output with a mask, and with a cache of earlier tokens.
    ///
    /// # Shapes
    /// `[batch, length, width] -> ` same
    ///
    /// # Errors
    /// Same as [`MultiHeadAttention::attend_self`].
    pub fn forward_masked(
        &self,
        input: &Tensor,
        mask: AttentionMask<'_>,
        cache: Option<&mut KeyValueCache>,
    ) -> Result<Tensor> {
        in_layer(self, "TransformerBlock", || {
            let normed = self.norm1.forward_for_products(input)?;
            let x = match self.dropout1.is_identity() {
                true => self.self_attn.attend_self_add(&normed, mask, cache, input)?,
                false => {
                    let attended = self.self_attn.attend_self(&normed, mask, cache)?;
                    input.add(&self.dropout1.forward(&attended)?)?
                }
            };
            self.add_feed_forward(&x)
        })
    }

    /// Returns the output for sequences of different lengths that are packed without padding.
    /// `cu_seqlens` contains the cumulative lengths (0, then the end of each sequence). A token
    /// attends only to tokens of the same sequence.
    ///
    /// # Shapes
    /// input `[rows, width]`, cu_seqlens i32 `[sequences + 1] -> [rows, width]`
    ///
    /// # Errors
    /// Same as [`MultiHeadAttention::attend_self_varlen`].
    pub fn forward_varlen(
        &self,
        input: &Tensor,
        cu_seqlens: &Tensor,
        mask: AttentionMask<'_>,
    ) -> Result<Tensor> {
        in_layer(self, "TransformerBlock", || {
            let normed = self.norm1.forward_for_products(input)?;
            let attended = self.self_attn.attend_self_varlen(&normed, cu_seqlens, mask)?;
            self.add_feed_forward(&input.add(&self.dropout1.forward(&attended)?)?)
        })
    }

    /// Returns `x + dropout2(feed_forward(norm2(x)))`.
    fn add_feed_forward(&self, x: &Tensor) -> Result<Tensor> {
        let normed = self.norm2.forward_for_products(x)?;
        match self.dropout2.is_identity() {
            true => self.feed_forward.forward_add(&normed, x),
            false => x.add(&self.dropout2.forward(&self.feed_forward.forward(&normed)?)?),
        }
    }
}

impl Forward for TransformerBlock {
    /// # Shapes
    /// `[batch, length, width] -> ` same; each token attends to all of its sequence
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.forward_masked(input, AttentionMask::default(), None)
    }
}
