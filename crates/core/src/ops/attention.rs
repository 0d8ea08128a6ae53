//! Scaled dot-product attention.

mod composed;
mod permissions;
mod varlen;

use crate::autograd::{Context, Grads};
use crate::backend::Meta;
use crate::dispatch::{apply, apply_one};
use crate::error::{Error, Result};
use crate::op::{Differentiability, Output, Outputs, Rule, Saves, check};
use crate::ops::matmul::Matmul;
use crate::ops::random::{Dropout, check_probability, check_state};
use crate::precision::{self, without_precision};
use crate::{DType, Device, Shape, Tensor, text};
use smallvec::SmallVec;

use composed::{Heads, Results, rounding_error, weights_of};
pub use varlen::{CumulativeLengths, positions_in_sequences};

/// Masking, scaling and dropout of attention. Shared by [`Attention`] and [`AttentionGrad`].
///
/// Query i of `queries` has position `i + keys - queries` among the keys: the last query has the
/// position of the last key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionConfig {
    /// Factor of the scores, usually `1 / sqrt(head_dim)`.
    pub scale: f64,
    /// Whether a query attends only to keys at or before its position.
    pub causal: bool,
    /// Size of the sliding window: a query attends to keys at positions above `position - window`
    /// (and, if not causal, below `position + window`).
    pub window: Option<usize>,
    /// Whether the input after the values is a mask: bool (true: attend), or of the queries' dtype
    /// (added to the scaled scores).
    pub mask: bool,
    /// Whether sequences of different lengths are concatenated along queries and keys, so that a
    /// query attends only to keys of the same sequence. The batch size is then 1, positions are
    /// aligned at the end of each sequence, and a mask is not allowed.
    pub varlen: bool,
    /// Dropout of the weights, indexed as a tensor `[batch, heads, queries, keys]`. The state of
    /// the random number generator is then the last input.
    pub dropout: Option<Dropout>,
    /// Whether a backend may round the f32 operands of products to TF32: queries, keys, values and
    /// weights. This is a permission, see [`Matmul::tf32`]. It also applies to the gradient.
    pub tf32: bool,
    /// Whether a backend may compute f32 products with bf16x6, see [`Matmul::bf16x6`]. It also
    /// applies to the gradient.
    pub bf16x6: bool,
}

/// `y = dropout(softmax(scale * q kT + mask)) v` (Vaswani et al. 2017, eq. 1). The output of a
/// query whose keys are all masked is 0.
///
/// Inputs, of one floating dtype: q `[batch, heads, queries, head_dim]`, k
/// `[batch, kv_heads, keys, head_dim]`, v `[batch, kv_heads, keys, value_dim]`. `heads` is a
/// multiple of `kv_heads`: query head h uses key head `h / (heads / kv_heads)`. Then, in this
/// order:
/// - if `config.mask`: the mask `[batch, heads, queries, keys]`, of which each axis may be 1
/// - if `config.varlen`: the cumulative lengths of the query sequences and of the key sequences,
///   i32 `[sequences + 1]` each: 0, then the end of each sequence. Rows after the last end neither
///   attend nor are attended to.
/// - if `config.dropout`: the state of [`Dropout`]
///
/// Outputs:
/// - y `[batch, heads, queries, value_dim]`
/// - the log-sum-exp of the scores `[batch, heads, queries]`, in the `accumulator()` dtype:
///   auxiliary, before dropout, -infinity where all keys are masked
/// - with an additive mask: the rounding error of the log-sum-exp, of the same shape and dtype
///   (auxiliary). If the mask is -1e9 for all keys of a query, the log-sum-exp loses the logarithm
///   of the number of keys by rounding.
#[derive(Clone, Debug)]
pub struct Attention {
    /// Masking, scaling and dropout.
    pub config: AttentionConfig,
}

/// Gradient of [`Attention`]: with `p = exp(scale * q kT + mask - lse)`: `dv = pT dy`,
/// `ds = p * (dy vT - rowsum(dy * y))`, `dq = scale * ds k`, `dk = scale * dsT q` (Dao et al. 2022,
/// algorithm 4). The gradients of a key or value head are summed over its query heads. With
/// dropout, which multiplies each weight by a factor f (0 or `1 / (1 - p)`): `dv = (p * f)T dy`,
/// `ds = p * (f * (dy vT) - rowsum(dy * y))`.
///
/// Inputs: q, k, v, y, lse, dy, then the mask, cumulative lengths and state as for [`Attention`].
/// Outputs: dq, dk, dv, with the shapes and dtype of q, k, v.
#[derive(Clone, Debug)]
pub struct AttentionGrad {
    /// Masking, scaling and dropout.
    pub config: AttentionConfig,
}

/// Gradient of the additive mask of [`Attention`]: ds of [`AttentionGrad`], summed over the axes
/// along which the mask is broadcast.
///
/// Inputs: those of [`AttentionGrad`], with a mask that is not bool. Output: dmask, with the mask's
/// shape and dtype.
#[derive(Clone, Debug)]
pub struct AttentionGradMask {
    /// Masking, scaling and dropout.
    pub config: AttentionConfig,
}

struct Sizes {
    output: Shape,
    rows: Shape,
    scores: Shape,
}

fn check_sizes(op: &'static str, inputs: &[Meta<'_>]) -> Result<Sizes> {
    for (what, meta) in ["query", "key", "value"].into_iter().zip(inputs) {
        check::float(op, what, meta)?;
        check::same_dtype(op, &inputs[0], meta)?;
    }
    let [batch, heads, queries, head_dim] = inputs[0].shape().to_array(op)?;
    let [_, kv_heads, keys, _] = inputs[1].shape().to_array(op)?;
    let [_, _, _, value_dim] = inputs[2].shape().to_array(op)?;
    if kv_heads == 0 || heads % kv_heads != 0 {
        return Err(Error::invalid(
            op,
            format!("{heads} query heads are not a multiple of {kv_heads} key heads"),
        ));
    }
    check::shape(op, "key", &inputs[1], Shape::unchecked(&[batch, kv_heads, keys, head_dim]))?;
    check::shape(op, "value", &inputs[2], Shape::unchecked(&[batch, kv_heads, keys, value_dim]))?;
    Ok(Sizes {
        output: Shape::new(&[batch, heads, queries, value_dim])?,
        rows: Shape::unchecked(&[batch, heads, queries]),
        scores: Shape::new(&[batch, heads, queries, keys])?,
    })
}

impl AttentionConfig {
    /// Returns whether the inputs after queries, keys and values begin with an additive mask.
    fn is_additive(&self, extras: &[Meta<'_>]) -> bool {
        self.mask && extras.first().is_some_and(|mask| mask.dtype != DType::Bool)
    }

    /// Returns the number of optional inputs.
    fn extras(&self) -> usize {
        usize::from(self.mask) + 2 * usize::from(self.varlen) + usize::from(self.dropout.is_some())
    }

    /// Returns the indices of the cumulative lengths of queries and of keys, if `first` inputs
    /// precede the optional ones.
    pub fn lengths_inputs(&self, first: usize) -> Option<[usize; 2]> {
        let at = first + usize::from(self.mask);
        self.varlen.then_some([at, at + 1])
    }

    /// Returns the index of the dropout state, if `first` inputs precede the optional ones.
    pub fn state_input(&self, first: usize) -> Option<usize> {
        self.dropout.map(|_| first + self.extras() - 1)
    }

    /// Checks the mask, lengths and state, which are the inputs from index `first` on.
    fn check(&self, op: &'static str, inputs: &[Meta<'_>], first: usize, scores: &Shape) -> Result<()> {
        if self.mask {
            check_mask(op, &inputs[first], &inputs[0], scores)?;
        }
        if let Some(lengths) = self.lengths_inputs(first) {
            self.check_lengths(op, lengths.map(|at| &inputs[at]), scores)?;
        }
        if let (Some(dropout), Some(state)) = (self.dropout, self.state_input(first)) {
            check_probability(op, dropout.p)?;
            check_state(op, &inputs[state])?;
        }
        Ok(())
    }

    fn check_lengths(&self, op: &'static str, lengths: [&Meta<'_>; 2], scores: &Shape) -> Result<()> {
        if self.mask {
            return Err(Error::invalid(op, "a mask with sequences of different lengths, expected none"));
        }
        let batch = scores.dim(0);
        if batch != 1 {
            return Err(Error::invalid(
                op,
                format!("a batch of {batch} with cumulative lengths, expected 1"),
            ));
        }
        for (what, meta) in ["cu_seqlens_q", "cu_seqlens_k"].into_iter().zip(lengths) {
            check::dtype(op, what, meta, DType::I32)?;
        }
        let [ends] = lengths[0].shape().to_array(op)?;
        if ends < 2 {
            return Err(Error::invalid(
                op,
                format!("{ends} cumulative lengths, expected 0 and the end of each sequence"),
            ));
        }
        check::shape(op, "cu_seqlens_k", lengths[1], *lengths[0].shape())
    }
}

fn check_mask(op: &'static str, mask: &Meta<'_>, query: &Meta<'_>, scores: &Shape) -> Result<()> {
    if mask.dtype != DType::Bool && mask.dtype != query.dtype {
        return Err(Error::dtype(op, "mask", mask.dtype, text![DType::Bool, " or the query's dtype"]));
    }
    if mask.shape().rank() == 4 && mask.shape().broadcasts_to(scores) {
        Ok(())
    } else {
        Err(mask_shape_error(op, mask.shape(), scores))
    }
}

fn mask_shape_error(op: &'static str, mask: &Shape, scores: &Shape) -> Error {
    Error::Shape { op, what: "mask", got: Box::new(*mask), expected: Box::new(*scores) }
}

/// Checks the inputs of a gradient op.
fn check_grad_inputs(op: &'static str, config: &AttentionConfig, inputs: &[Meta<'_>]) -> Result<()> {
    check::count(op, inputs, 6 + config.extras())?;
    let sizes = check_sizes(op, inputs)?;
    for (what, meta) in [("output", &inputs[3]), ("grad_output", &inputs[5])] {
        check::same_dtype(op, &inputs[0], meta)?;
        check::shape(op, what, meta, sizes.output)?;
    }
    check::dtype(op, "log_sum_exp", &inputs[4], inputs[0].dtype.accumulator())?;
    check::shape(op, "log_sum_exp", &inputs[4], sizes.rows)?;
    config.check(op, inputs, 6, &sizes.scores)
}

impl Rule for Attention {
    fn name(&self) -> &'static str {
        "attention"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        let name = "attention";
        check::count(name, inputs, 3 + self.config.extras())?;
        let sizes = check_sizes(name, inputs)?;
        self.config.check(name, inputs, 3, &sizes.scores)?;
        let dtype = inputs[0].dtype;
        let rows = if self.config.is_additive(&inputs[3..]) { 2 } else { 1 };
        Ok(std::iter::once(Output::fresh(sizes.output, dtype))
            .chain(std::iter::repeat_n(Output::fresh(sizes.rows, dtype.accumulator()), rows))
            .collect())
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let heads = Heads::of(inputs)?;
        let extras = self.config.split_extras(&inputs[3..]);
        let mask = extras.mask;
        let scores = self.config.scores(&heads, &extras)?;
        let (weights, lse) = weights_of(&scores)?;
        let weights = self.config.apply_dropout(weights, extras.state)?;
        let mut outputs =
            vec![heads.outputs(&self.config, &weights)?.to_dtype(inputs[0].dtype())?, lse.squeeze(-1)?];
        if mask.is_some_and(|mask| mask.dtype() != DType::Bool) {
            outputs.push(rounding_error(&scores, &lse)?.squeeze(-1)?);
        }
        Ok(outputs)
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::Stated(Saves { inputs: u16::MAX, outputs: 0b111 })
    }
    /// Uses [`AttentionGrad`] and [`AttentionGradMask`], or their compositions if there is a
    /// gradient of the log-sum-exp.
    ///
    /// With an additive mask, the rounding error of the log-sum-exp scales the recomputed weights
    /// of a row by `exp(error)`. All gradients are linear in these weights, so multiplying the
    /// gradient of the output by `exp(-error)` corrects them.
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let inputs = (0..context.inputs()).map(|at| context.input(at)).collect::<Result<Inputs<'_>>>()?;
        let (y, lse) = (context.output(0)?, context.output(1)?);
        let dy = match &grad_outputs[0] {
            Some(dy) => dy.clone(),
            None => Tensor::zeros(*y.shape(), y.dtype(), y.device())?,
        };
        let (mut dy, mut dlse) = (dy, grad_outputs[1].clone());
        let extras: SmallVec<[Meta<'_>; 2]> = inputs[3..].iter().map(|input| input.meta()).collect();
        let is_additive = self.config.is_additive(&extras);
        if is_additive {
            let factor = context.output(2)?.detach().neg()?.exp()?;
            dlse = dlse.map(|grad| grad.mul(&factor)).transpose()?;
            // In the accumulator's dtype: a factor rounded to half precision would scale the whole
            // row by the same relative error.
            dy = dy.to_dtype(factor.dtype())?.mul(&factor.unsqueeze(-1)?)?;
        }
        let of_mask = is_additive && context.needs(3);
        let input_grads = match &dlse {
            Some(dlse) => {
                let results = Results { y, lse, dy: &dy, dlse: Some(dlse) };
                self.config.composed_gradients(&inputs, results, of_mask)?
            }
            None => {
                let results = Results { y, lse, dy: &dy.to_dtype(y.dtype())?, dlse: None };
                let of_operands = (0..3).any(|at| context.needs(at));
                self.config.fused_gradients(&inputs, results, of_operands, of_mask)?
            }
        };
        let mut grads = Grads::from_elem(None, context.inputs());
        for (index, grad) in input_grads.into_iter().enumerate() {
            if let Some(grad) = grad.filter(|_| context.needs(index)) {
                grads[index] = Some(grad);
            }
        }
        Ok(grads)
    }
}

impl AttentionConfig {
    /// Computes the gradients of q, k, v and the mask by composition.
    fn composed_gradients(
        &self,
        inputs: &[&Tensor],
        results: Results<'_>,
        of_mask: bool,
    ) -> Result<[Option<Tensor>; 4]> {
        let owned: SmallVec<[Tensor; 5]> = inputs.iter().map(|&input| input.clone()).collect();
        let heads = Heads::of(&owned)?;
        let scores = self.score_gradients(&heads, &owned, results)?;
        let mask = of_mask.then(|| scores.of_mask(inputs[3])).transpose()?;
        let mut grads = self.gradients(&heads, &owned, &scores)?.into_iter();
        Ok([grads.next(), grads.next(), grads.next(), mask])
    }

    /// Computes the gradients of q, k, v and the mask with the fused gradient ops, each if
    /// requested.
    fn fused_gradients(
        &self,
        inputs: &[&Tensor],
        results: Results<'_>,
        of_operands: bool,
        of_mask: bool,
    ) -> Result<[Option<Tensor>; 4]> {
        let mut op_inputs: SmallVec<[&Tensor; 8]> = inputs[..3].into();
        op_inputs.extend([results.y, results.lse, results.dy]);
        op_inputs.extend_from_slice(&inputs[3..]);
        let mask = of_mask.then(|| apply_one(AttentionGradMask { config: *self }, &op_inputs)).transpose()?;
        if !of_operands {
            return Ok([None, None, None, mask]);
        }
        let mut grads = apply(AttentionGrad { config: *self }, &op_inputs)?.into_iter();
        Ok([grads.next(), grads.next(), grads.next(), mask])
    }
}

type Inputs<'a> = SmallVec<[&'a Tensor; 5]>;

impl Rule for AttentionGrad {
    fn name(&self) -> &'static str {
        "attention_grad"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        check_grad_inputs("attention_grad", &self.config, inputs)?;
        Ok(inputs[..3].iter().map(|meta| Output::fresh(*meta.shape(), meta.dtype)).collect())
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let mut operands: SmallVec<[Tensor; 5]> = inputs[..3].into();
        operands.extend(inputs[6..].iter().cloned());
        let heads = Heads::of(&operands)?;
        let scores = self.config.score_gradients(&heads, &operands, Results::of(inputs))?;
        self.config.gradients(&heads, &operands, &scores)
    }
}

impl Rule for AttentionGradMask {
    fn name(&self) -> &'static str {
        "attention_grad_mask"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        let name = "attention_grad_mask";
        check_grad_inputs(name, &self.config, inputs)?;
        if !self.config.is_additive(&inputs[6..]) {
            return Err(Error::invalid(name, "no mask that is added to the scores, expected one"));
        }
        Ok(Outputs::from_iter([Output::fresh(*inputs[6].shape(), inputs[6].dtype)]))
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let mut operands: SmallVec<[Tensor; 5]> = inputs[..3].into();
        operands.extend(inputs[6..].iter().cloned());
        let scores = self.config.score_gradients(&Heads::of(&operands)?, &operands, Results::of(inputs))?;
        Ok(vec![scores.of_mask(&inputs[6])?])
    }
}

/// Causal masking. If the numbers of queries and keys differ, the variant determines the corner of
/// `[queries, keys]` at which the diagonal begins. The names are those of PyTorch's
/// `torch.nn.attention.bias`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Causal {
    /// No causal mask: a query attends to all keys.
    #[default]
    Off,
    /// A query attends to keys at or before its position. The first query has the position of the
    /// first key, as with PyTorch's `is_causal`.
    UpperLeft,
    /// A query attends to keys at or before its position. The last query has the position of the
    /// last key, as a KV cache requires.
    LowerRight,
}

impl Causal {
    /// Returns [`LowerRight`](Causal::LowerRight) if `on`, otherwise [`Off`](Causal::Off).
    pub fn lower_right(on: bool) -> Causal {
        if on { Causal::LowerRight } else { Causal::Off }
    }
}

/// Masking, scaling and dropout of [`Tensor::scaled_dot_product_attention`].
#[derive(Clone, Copy, Default)]
pub struct AttentionOptions<'a> {
    /// Mask that broadcasts to `[batch, heads, queries, keys]`: bool (true: attend), or of the
    /// queries' dtype (added to the scaled scores).
    pub mask: Option<&'a Tensor>,
    /// Whether a query attends only to keys at or before its position.
    pub causal: Causal,
    /// Number of positions back (and, if not causal, ahead) that a query attends to, including its
    /// own.
    pub window: Option<usize>,
    /// Factor of the scores. Default: `1 / sqrt(head_dim)`.
    pub scale: Option<f64>,
    /// Probability with which a weight becomes 0; the others are scaled by `1 / (1 - dropout)`.
    /// Default: 0. The backward pass regenerates the dropout mask instead of saving it.
    pub dropout: f64,
}

impl Tensor {
    /// Computes scaled dot-product attention with this tensor as queries:
    /// `softmax(scale * q kT + mask) v` (Vaswani et al. 2017, eq. 1). See [`Attention`].
    ///
    /// The output of a query whose keys are all masked is 0. Several query heads may share a key
    /// head (grouped-query attention).
    ///
    /// # Shapes
    /// queries `[batch, heads, queries, head_dim]`, keys `[batch, kv_heads, keys, head_dim]`,
    /// values `[batch, kv_heads, keys, value_dim]` ->
    /// `[batch, heads, queries, value_dim]`
    ///
    /// # Errors
    /// Returns an error if shapes or dtypes are incompatible, or if [`Causal::UpperLeft`] is used
    /// with a window and different numbers of queries and keys.
    pub fn scaled_dot_product_attention(
        &self,
        keys: &Tensor,
        values: &Tensor,
        options: AttentionOptions<'_>,
    ) -> Result<Tensor> {
        self.attend_in_scope(keys, values, options, apply_one)
    }

    /// Computes [`scaled_dot_product_attention`](Tensor::scaled_dot_product_attention) and the
    /// log-sum-exp of each query's scores before dropout, which is needed to combine partial
    /// attention results. It is -infinity where all keys are masked. Gradients flow through both
    /// outputs. The gradient of the log-sum-exp is computed by composition, with all scores in
    /// memory.
    ///
    /// # Shapes
    /// queries `[batch, heads, queries, head_dim]`, keys `[batch, kv_heads, keys, head_dim]`,
    /// values `[batch, kv_heads, keys, value_dim]` ->
    /// `[batch, heads, queries, value_dim]` and `[batch, heads, queries]`, f32 (f64 for f64)
    ///
    /// # Errors
    /// Same as [`scaled_dot_product_attention`](Tensor::scaled_dot_product_attention).
    pub fn scaled_dot_product_attention_lse(
        &self,
        keys: &Tensor,
        values: &Tensor,
        options: AttentionOptions<'_>,
    ) -> Result<[Tensor; 2]> {
        let outputs = self.attend_in_scope(keys, values, options, apply)?;
        Ok([0, 1].map(|at| outputs[at].clone()))
    }

    /// Applies the op with `apply`, in the current precision scope, if there is one.
    fn attend_in_scope<R>(
        &self,
        keys: &Tensor,
        values: &Tensor,
        options: AttentionOptions<'_>,
        apply: impl FnOnce(Attention, &[&Tensor]) -> Result<R>,
    ) -> Result<R> {
        match precision::current() {
            None => self.attend(keys, values, options, Matmul::PLAIN, apply),
            Some(scope) => {
                let mask = scope.optional(options.mask)?;
                let options = AttentionOptions { mask: mask.as_ref(), ..options };
                let queries = scope.operand(self)?;
                // The composition is as accurate as the fused op.
                let (keys, values) = (scope.operand(keys)?, scope.operand(values)?);
                let product = scope.product_of(&queries);
                without_precision(|| queries.attend(&keys, &values, options, product, apply))
            }
        }
    }

    /// Applies the op with `apply`, with the permissions of `product`.
    fn attend<R>(
        &self,
        keys: &Tensor,
        values: &Tensor,
        options: AttentionOptions<'_>,
        product: Matmul,
        apply: impl FnOnce(Attention, &[&Tensor]) -> Result<R>,
    ) -> Result<R> {
        let name = "attention";
        let [batch, heads, queries, head_dim] = self.shape().to_array(name)?;
        let AttentionOptions { mask, causal, window, scale, dropout } = options;
        check_probability(name, dropout)?;
        let [_, _, key_count, _] = keys.shape().to_array(name)?;
        let scores = Shape::new(&[batch, heads, queries, key_count])?;
        let mask = mask.map(|mask| with_four_axes(name, mask, scores)).transpose()?;
        // The dropout mask is indexed over all keys, and shape errors report all keys.
        let needs_all_keys = window.is_some() || dropout != 0.0 || values.dims().get(2) != Some(&key_count);
        if causal == Causal::UpperLeft && queries < key_count && !needs_all_keys {
            let options = AttentionOptions { mask: mask.as_ref(), ..options };
            return self.attend_to_first_keys(keys, values, options, product, apply);
        }
        let (mask, causal) = match causal {
            Causal::UpperLeft if queries != key_count && window.is_some() => {
                let detail = format!(
                    "an upper-left causal window of {queries} queries and {key_count} keys, expected as many of both, or lower-right"
                );
                return Err(Error::invalid(name, detail));
            }
            Causal::UpperLeft if queries != key_count => {
                (Some(upper_left(mask, scores, self.device())?), false)
            }
            causal => (mask, causal != Causal::Off),
        };
        let scale = scale.unwrap_or(1.0 / (head_dim.max(1) as f64).sqrt());
        let permitted = AttentionConfig::with_permissions_of(product);
        let config = AttentionConfig { scale, causal, window, mask: mask.is_some(), ..permitted };
        let mut inputs: Inputs<'_> = SmallVec::from_slice(&[self, keys, values]);
        inputs.extend(&mask);
        config.attend(inputs, &scores, dropout, apply)
    }

    /// Handles an upper-left causal mask with fewer queries than keys. No query attends to a key
    /// after the last query's position. Without these keys, upper-left and lower-right are the
    /// same.
    fn attend_to_first_keys<R>(
        &self,
        keys: &Tensor,
        values: &Tensor,
        options: AttentionOptions<'_>,
        product: Matmul,
        apply: impl FnOnce(Attention, &[&Tensor]) -> Result<R>,
    ) -> Result<R> {
        let count = self.dims()[2];
        let mask = match options.mask {
            Some(mask) if mask.dims()[3] > 1 => Some(mask.narrow(3, 0, count)?),
            mask => mask.cloned(),
        };
        let options = AttentionOptions { mask: mask.as_ref(), causal: Causal::LowerRight, ..options };
        self.attend(&keys.narrow(2, 0, count)?, &values.narrow(2, 0, count)?, options, product, apply)
    }
}

impl AttentionConfig {
    /// Applies the op with `apply`. `inputs` lacks only the dropout state; `dropout` is the
    /// probability.
    fn attend<R>(
        mut self,
        inputs: Inputs<'_>,
        scores: &Shape,
        dropout: f64,
        apply: impl FnOnce(Attention, &[&Tensor]) -> Result<R>,
    ) -> Result<R> {
        if dropout == 0.0 {
            return apply(Attention { config: self }, &inputs);
        }
        // Invalid inputs must not advance the random number generator.
        let metas: SmallVec<[Meta<'_>; 5]> = inputs.iter().map(|input| input.meta()).collect();
        Attention { config: self }.infer(&metas)?;
        let (state, offset) = inputs[0].device().draw(scores.elements())?;
        self.dropout = Some(Dropout { p: dropout, offset });
        let with_state: Inputs<'_> = inputs.iter().map(|input| &**input).chain([&state]).collect();
        apply(Attention { config: self }, &with_state)
    }
}

/// Returns a mask with which query i attends to keys 0 to i, combined with another mask if there is
/// one.
fn upper_left(mask: Option<Tensor>, scores: Shape, device: &Device) -> Result<Tensor> {
    let [_, _, queries, keys] = scores.to_array("attention")?;
    let query = Tensor::iota(queries, DType::I32, 0, 1, device)?.unsqueeze(1)?;
    let is_attended = Tensor::iota(keys, DType::I32, 0, 1, device)?.le(&query)?;
    match mask {
        None => is_attended.reshape([1, 1, queries, keys]),
        Some(mask) if mask.dtype() == DType::Bool => mask.logical_and(&is_attended),
        Some(mask) => {
            let [batch, heads, _, _] = mask.sizes()?;
            mask.expand([batch, heads, queries, keys])?
                .masked_fill(&is_attended.logical_not()?, f64::NEG_INFINITY)
        }
    }
}

/// Reshapes a mask that broadcasts to the scores to rank 4, with leading axes of size 1.
fn with_four_axes(op: &'static str, mask: &Tensor, scores: Shape) -> Result<Tensor> {
    if !mask.shape().broadcasts_to(&scores) {
        return Err(mask_shape_error(op, mask.shape(), &scores));
    }
    let mut dims = [1; 4];
    dims[4 - mask.rank()..].copy_from_slice(mask.dims());
    mask.reshape(dims)
}
