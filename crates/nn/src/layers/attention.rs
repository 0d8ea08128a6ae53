//! Multi-head attention.

use super::linear::{Linear, LinearConfig};
use super::position::Rotary;
use crate::init::Init;
use crate::module::{Forward, Mode, Module, Param, in_layer};
use std::sync::Arc;
use ternion_core::autograd::is_layer_fusion_disabled;
use ternion_core::autograd::is_recording;
use ternion_core::{
    AttentionOptions, Causal, CumulativeLengths, DType, Device, Error, Result, Tensor, no_grad,
    positions_in_sequences,
};

/// Attention with several heads, as PyTorch's `nn.MultiheadAttention` with `batch_first` (Vaswani
/// et al. 2017, section 3.2.2).
///
/// `in_proj_weight` computes queries, keys and values, in this order. With fewer heads of keys and
/// values than of queries (Ainslie et al. 2023) it has fewer rows. It is initialized with
/// [`Init::XavierUniform`], `out_proj.weight` as in a [`Linear`], and the biases with 0.
#[derive(Module, Debug)]
pub struct MultiHeadAttention {
    /// `[(heads + 2 kv_heads) head_dim, width]`.
    pub in_proj_weight: Param,
    /// `[(heads + 2 kv_heads) head_dim]`.
    pub in_proj_bias: Option<Param>,
    /// The projection from the concatenated heads to the output.
    pub out_proj: Linear,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    dropout: f64,
    mode: Mode,
    #[module(skip)]
    rotary: Option<Arc<Rotary>>,
}

/// Configuration of a [`MultiHeadAttention`].
#[derive(Clone, Debug)]
pub struct MultiHeadAttentionConfig {
    /// Number of heads of keys and values, which the query heads share in groups; as many as query
    /// heads by default.
    pub kv_heads: Option<usize>,
    /// Whether the projections have a bias; true by default.
    pub bias: bool,
    /// The probability that an attention weight is set to 0 in training mode; 0 by default.
    pub dropout: f64,
    /// Rotary embedding of queries and keys; none by default.
    pub rotary: Option<Arc<Rotary>>,
    /// Element type of the parameters; f32 by default.
    pub dtype: DType,
}

impl Default for MultiHeadAttentionConfig {
    fn default() -> Self {
        MultiHeadAttentionConfig { kv_heads: None, bias: true, dropout: 0.0, rotary: None, dtype: DType::F32 }
    }
}

/// Restricts which keys a query attends to. All fields apply together; the default masks nothing.
#[derive(Clone, Copy, Default)]
pub struct AttentionMask<'a> {
    /// Whether to attend only to keys at or before the query.
    pub causal: Causal,
    /// The size of the sliding window: a query attends to keys at positions above
    /// `position - window` and, if not causal, below `position + window`.
    pub window: Option<usize>,
    /// `[batch, keys]` bool: true for a token, false for padding (the inverse of PyTorch's
    /// `key_padding_mask`).
    pub key_mask: Option<&'a Tensor>,
    /// Broadcast to `[batch, heads, queries, keys]`: bool (true: attend), or floating (added to the
    /// scores).
    pub mask: Option<&'a Tensor>,
}

impl AttentionMask<'_> {
    /// Returns a causal mask in which the last query is aligned with the last key:
    /// [`Causal::LowerRight`].
    pub fn causal() -> AttentionMask<'static> {
        AttentionMask { causal: Causal::LowerRight, ..AttentionMask::default() }
    }

    /// Combines `key_mask` and `mask` into one mask for all heads.
    fn combined(&self) -> Result<Option<Tensor>> {
        let Some(key_mask) = self.key_mask else { return Ok(self.mask.cloned()) };
        let [batch, keys] = key_mask.shape().to_array("attention")?;
        if key_mask.dtype() != DType::Bool {
            return Err(Error::dtype("attention", "key_mask", key_mask.dtype(), DType::Bool));
        }
        let key_mask = key_mask.reshape([batch, 1, 1, keys])?;
        let combined = match self.mask {
            None => key_mask,
            Some(mask) if mask.dtype() == DType::Bool => mask.logical_and(&key_mask)?,
            Some(mask) => {
                let masked_score = Tensor::full((), f64::NEG_INFINITY, mask.dtype(), mask.device())?;
                key_mask.where_(mask, &masked_score)?
            }
        };
        Ok(Some(combined))
    }
}

/// Keys and values of earlier tokens, so that a step of generation computes only those of new
/// tokens. The first step allocates memory for `capacity` tokens, and each step appends to it.
#[derive(Debug)]
pub struct KeyValueCache {
    capacity: usize,
    length: usize,
    /// `[batch, kv_heads, capacity, head_dim]` each.
    tensors: Option<[Tensor; 2]>,
}

impl KeyValueCache {
    /// Creates an empty cache for up to `capacity` tokens.
    pub fn new(capacity: usize) -> KeyValueCache {
        KeyValueCache { capacity, length: 0, tensors: None }
    }

    /// Returns the number of cached tokens.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether no token is cached.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the maximum number of tokens.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Removes all tokens, but keeps the memory.
    pub fn clear(&mut self) {
        self.length = 0;
    }

    /// Appends `new` and returns the keys and values of all tokens.
    fn append(&mut self, new: [&Tensor; 2]) -> Result<[Tensor; 2]> {
        let op = "key_value_cache";
        let [batch, heads, count, head_dim] = new[0].shape().to_array(op)?;
        if is_recording() && new.iter().any(|tensor| tensor.needs_grad()) {
            return Err(Error::invalid(op, "no gradient flows through what is kept: generate under no_grad"));
        }
        if self.length + count > self.capacity {
            let detail =
                format!("{count} tokens behind {}, expected at most {} in all", self.length, self.capacity);
            return Err(Error::invalid(op, detail));
        }
        let shape = [batch, heads, self.capacity, head_dim];
        let cached = match &self.tensors {
            Some(cached) => cached,
            None => {
                let memory = || Tensor::zeros(shape, new[0].dtype(), new[0].device());
                self.tensors.insert([memory()?, memory()?])
            }
        };
        if cached[0].dims() != shape {
            let detail =
                format!("tokens of shape {:?} behind tokens kept in {:?}", new[0].shape(), cached[0].shape());
            return Err(Error::invalid(op, detail));
        }
        for (cached, new) in cached.iter().zip(new) {
            no_grad(|| cached.narrow(2, self.length, count)?.copy_(new))?;
        }
        self.length += count;
        Ok([cached[0].narrow(2, 0, self.length)?, cached[1].narrow(2, 0, self.length)?])
    }
}

impl MultiHeadAttention {
    /// Creates a layer with `heads` heads for rows of `width` columns, with PyTorch's defaults.
    ///
    /// # Errors
    /// Returns an error if the width is not a multiple of the heads, or if memory is exhausted.
    pub fn new(width: usize, heads: usize, device: &Device) -> Result<MultiHeadAttention> {
        MultiHeadAttention::with_config(width, heads, MultiHeadAttentionConfig::default(), device)
    }

    /// Creates a layer with `heads` heads for rows of `width` columns.
    ///
    /// # Errors
    /// Returns an error if the width is not a multiple of the heads, the heads are not a multiple
    /// of `kv_heads`, the dropout is outside `0..1`, the dtype is not floating, or memory is
    /// exhausted.
    pub fn with_config(
        width: usize,
        heads: usize,
        config: MultiHeadAttentionConfig,
        device: &Device,
    ) -> Result<MultiHeadAttention> {
        let MultiHeadAttentionConfig { kv_heads, bias, dropout, rotary, dtype } = config;
        let kv_heads = kv_heads.unwrap_or(heads);
        check_heads(width, heads, kv_heads, dropout)?;
        let head_dim = width / heads;
        let rows = (heads + 2 * kv_heads) * head_dim;
        let weight = Init::XavierUniform { gain: 1.0 }.tensor([rows, width], dtype, device)?;
        let zeros = || Param::new(&Tensor::zeros([rows], dtype, device)?);
        let output_config =
            LinearConfig { bias, dtype, bias_init: Some(Init::Constant(0.0)), ..Default::default() };
        Ok(MultiHeadAttention {
            in_proj_weight: Param::new(&weight)?,
            in_proj_bias: bias.then(zeros).transpose()?,
            out_proj: Linear::with_config(width, width, output_config, device)?,
            heads,
            kv_heads,
            head_dim,
            dropout,
            mode: Mode::default(),
            rotary,
        })
    }

    /// Returns the attention of each token to the tokens of the same sequence. With a cache, tokens
    /// also attend to the cached ones, and are then appended to the cache.
    ///
    /// # Shapes
    /// `[batch, length, width] -> ` same
    ///
    /// # Errors
    /// Returns an error if shapes or dtypes do not match, or if there are more tokens than the
    /// cache can store.
    pub fn attend_self(
        &self,
        input: &Tensor,
        mask: AttentionMask<'_>,
        cache: Option<&mut KeyValueCache>,
    ) -> Result<Tensor> {
        in_layer(self, "MultiHeadAttention", || {
            self.out_proj.forward(&self.self_attention_heads(input, mask, cache)?)
        })
    }

    /// Returns `residual + attend_self(input)`. The sum is fused into the last matrix product,
    /// unless layers are observed.
    ///
    /// # Shapes
    /// `[batch, length, width] -> ` same
    ///
    /// # Errors
    /// Same as [`attend_self`](MultiHeadAttention::attend_self); also if the residual has another
    /// shape.
    pub fn attend_self_add(
        &self,
        input: &Tensor,
        mask: AttentionMask<'_>,
        cache: Option<&mut KeyValueCache>,
        residual: &Tensor,
    ) -> Result<Tensor> {
        match is_layer_fusion_disabled() {
            true => residual.add(&self.attend_self(input, mask, cache)?),
            false => self.out_proj.forward_add(&self.self_attention_heads(input, mask, cache)?, residual),
        }
    }

    /// Returns the attention of each token to the tokens of the same sequence, for sequences of
    /// different lengths that are packed without padding. `cu_seqlens` contains the cumulative
    /// lengths (0, then the end of each sequence). Rotary positions are counted from the start of
    /// each sequence.
    ///
    /// # Shapes
    /// input `[rows, width]`, cu_seqlens i32 `[sequences + 1] -> [rows, width]`
    ///
    /// # Errors
    /// Returns an error if shapes or dtypes do not match, or if `mask.mask` or `mask.key_mask` is
    /// set, or `mask.causal` is [`UpperLeft`](Causal::UpperLeft).
    pub fn attend_self_varlen(
        &self,
        input: &Tensor,
        cu_seqlens: &Tensor,
        mask: AttentionMask<'_>,
    ) -> Result<Tensor> {
        in_layer(self, "MultiHeadAttention", || {
            let [rows, _] = input.shape().to_array("attention")?;
            let bias = self.in_proj_bias.as_ref().map(Param::tensor);
            let qkv = input.linear(&self.in_proj_weight.tensor(), bias.as_ref())?;
            let parts = qkv.split_sizes(-1, &self.qkv_sizes())?;
            let split = |part: &Tensor, heads: usize| part.reshape([rows, heads, self.head_dim]);
            let (mut q, mut k) = (split(&parts[0], self.heads)?, split(&parts[1], self.kv_heads)?);
            let v = split(&parts[2], self.kv_heads)?;
            if let Some(rotary) = &self.rotary {
                let positions = positions_in_sequences(cu_seqlens, rows)?;
                let apply_rotary =
                    |x: &Tensor| rotary.forward_at(&x.transpose(0, 1)?, &positions)?.transpose(0, 1);
                (q, k) = (apply_rotary(&q)?, apply_rotary(&k)?);
            }
            let lengths = CumulativeLengths { queries: cu_seqlens, keys: cu_seqlens };
            let combined = mask.combined()?;
            let heads = q.scaled_dot_product_attention_varlen(
                &k,
                &v,
                lengths,
                self.options(mask, combined.as_ref()),
            )?;
            self.out_proj.forward(&heads.reshape([rows, self.heads * self.head_dim])?)
        })
    }

    /// Returns the outputs of the heads for the tokens of one sequence, before the output
    /// projection: `[batch, length, width]`.
    fn self_attention_heads(
        &self,
        input: &Tensor,
        mask: AttentionMask<'_>,
        cache: Option<&mut KeyValueCache>,
    ) -> Result<Tensor> {
        let bias = self.in_proj_bias.as_ref().map(Param::tensor);
        let qkv = input.linear(&self.in_proj_weight.tensor(), bias.as_ref())?;
        let projections = qkv.split_sizes(-1, &self.qkv_sizes())?;
        let first_position = cache.as_ref().map_or(0, |cache| cache.len());
        let q = self.apply_rotary(self.split(&projections[0], self.heads)?, first_position)?;
        let k = self.apply_rotary(self.split(&projections[1], self.kv_heads)?, first_position)?;
        let v = self.split(&projections[2], self.kv_heads)?;
        let [k, v] = match cache {
            Some(cache) => cache.append([&k, &v])?,
            None => [k, v],
        };
        self.attend_heads(&q, [&k, &v], mask)
    }

    /// Returns the attention of each row of `query` to the rows of `key`, with values computed from
    /// `value`.
    ///
    /// # Shapes
    /// query `[batch, queries, width]`, key and value `[batch, keys, width] -> ` same as query
    ///
    /// # Errors
    /// Returns an error if shapes or dtypes do not match.
    pub fn attend(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        mask: AttentionMask<'_>,
    ) -> Result<Tensor> {
        in_layer(self, "MultiHeadAttention", || {
            let [q_rows, k_rows, v_rows] = self.qkv_sizes();
            let (weight, bias) =
                (self.in_proj_weight.tensor(), self.in_proj_bias.as_ref().map(Param::tensor));
            let project = |x: &Tensor, first: usize, rows: usize, heads: usize| {
                let bias = bias.as_ref().map(|bias| bias.narrow(0, first, rows)).transpose()?;
                self.split(&x.linear(&weight.narrow(0, first, rows)?, bias.as_ref())?, heads)
            };
            let q = self.apply_rotary(project(query, 0, q_rows, self.heads)?, 0)?;
            let k = self.apply_rotary(project(key, q_rows, k_rows, self.kv_heads)?, 0)?;
            let v = project(value, q_rows + k_rows, v_rows, self.kv_heads)?;
            self.out_proj.forward(&self.attend_heads(&q, [&k, &v], mask)?)
        })
    }

    /// Returns the number of rows of `in_proj_weight` for queries, keys and values.
    fn qkv_sizes(&self) -> [usize; 3] {
        [self.heads, self.kv_heads, self.kv_heads].map(|heads| heads * self.head_dim)
    }

    /// Reshapes `[batch, length, heads * head_dim]` to `[batch, heads, length, head_dim]`.
    fn split(&self, x: &Tensor, heads: usize) -> Result<Tensor> {
        let [batch, length, _] = x.shape().to_array("attention")?;
        x.reshape([batch, length, heads, self.head_dim])?.transpose(1, 2)
    }

    fn apply_rotary(&self, x: Tensor, first: usize) -> Result<Tensor> {
        self.rotary.as_ref().map_or(Ok(x.clone()), |rotary| rotary.forward(&x, first))
    }

    fn attend_heads(&self, q: &Tensor, [k, v]: [&Tensor; 2], mask: AttentionMask<'_>) -> Result<Tensor> {
        let combined = mask.combined()?;
        let heads = q.scaled_dot_product_attention(k, v, self.options(mask, combined.as_ref()))?;
        let [batch, _, length, _] = heads.shape().to_array("attention")?;
        heads.transpose(1, 2)?.reshape([batch, length, self.heads * self.head_dim])
    }

    fn options<'a>(&self, mask: AttentionMask<'_>, combined: Option<&'a Tensor>) -> AttentionOptions<'a> {
        let dropout = if self.mode.is_training() { self.dropout } else { 0.0 };
        AttentionOptions { mask: combined, causal: mask.causal, window: mask.window, scale: None, dropout }
    }
}

fn check_heads(width: usize, heads: usize, kv_heads: usize, dropout: f64) -> Result<()> {
    let error_message = if heads == 0 || !width.is_multiple_of(heads) {
        format!("width {width} does not divide into {heads} heads")
    } else if kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
        format!("{heads} heads of queries cannot share {kv_heads} heads of keys")
    } else if !(0.0..1.0).contains(&dropout) {
        format!("dropout {dropout}, expected at least 0 and below 1")
    } else {
        return Ok(());
    };
    Err(Error::invalid("multi_head_attention", error_message))
}

impl Forward for MultiHeadAttention {
    /// Returns the attention of each token to all tokens of its sequence.
    ///
    /// # Shapes
    /// `[batch, length, width] -> ` same
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.attend_self(input, AttentionMask::default(), None)
    }
}
