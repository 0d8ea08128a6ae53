//! Attention and its gradients as compositions of smaller ops, with all scores in memory. Devices
//! without an attention kernel run these.

use super::AttentionConfig;
use super::varlen::sequence_of;
use crate::autograd::sum_to;
use crate::dispatch::apply_one;
use crate::{DType, Result, Tensor};

/// Queries, keys and values in the accumulator dtype. The rows of the query heads that share a key
/// head are concatenated, as queries of one head.
pub(super) struct Heads {
    /// `[batch, kv_heads, group * queries, head_dim]`
    q: Tensor,
    /// `[batch, kv_heads, keys, head_dim]`
    k: Tensor,
    /// `[batch, kv_heads, keys, value_dim]`
    v: Tensor,
    batch: usize,
    heads: usize,
    queries: usize,
}

impl Heads {
    pub(super) fn of(inputs: &[Tensor]) -> Result<Heads> {
        let dtype = inputs[0].dtype().accumulator();
        let [batch, heads, queries, head_dim] = inputs[0].sizes()?;
        let (k, v) = (inputs[1].to_dtype(dtype)?, inputs[2].to_dtype(dtype)?);
        let rows = heads / k.dims()[1] * queries;
        let q = inputs[0].to_dtype(dtype)?.reshape([batch, k.dims()[1], rows, head_dim])?;
        Ok(Heads { q, k, v, batch, heads, queries })
    }

    /// Reshapes `[batch, heads, queries, n]` to `[batch, kv_heads, group * queries, n]`.
    fn group_heads(&self, x: &Tensor) -> Result<Tensor> {
        x.reshape(self.q.shape().with_dim(3, x.dims()[3]))
    }

    /// Reshapes `[batch, kv_heads, group * queries, n]` to `[batch, heads, queries, n]`.
    fn separate(&self, x: &Tensor) -> Result<Tensor> {
        x.reshape([self.batch, self.heads, self.queries, x.dims()[3]])
    }

    fn output_dims(&self) -> [usize; 4] {
        [self.batch, self.heads, self.queries, self.v.dims()[3]]
    }

    /// Returns the weighted sum of the values for each query, with weights
    /// `[batch, heads, queries, keys]`.
    pub(super) fn outputs(&self, config: &AttentionConfig, weights: &Tensor) -> Result<Tensor> {
        config.product(&self.group_heads(weights)?, &self.v)?.reshape(self.output_dims())
    }
}

/// Computes `exp(scores - lse)`; 0 for a query whose keys are all masked.
fn recompute_weights(scores: &Tensor, lse: &Tensor) -> Result<Tensor> {
    let fully_masked = lse.eq_scalar(f64::NEG_INFINITY)?;
    scores.sub(&lse.masked_fill(&fully_masked, 0.0)?)?.exp()
}

/// Returns the softmax of the scores, 0 for a query whose keys are all masked, and their
/// log-sum-exp `[batch, heads, queries, 1]`.
pub(super) fn weights_of(scores: &Tensor) -> Result<(Tensor, Tensor)> {
    let lse = scores.logsumexp_keep(-1)?;
    // Not computed from lse, which is rounded relative to the largest score.
    let fully_masked = lse.eq_scalar(f64::NEG_INFINITY)?;
    Ok((scores.softmax(-1)?.masked_fill(&fully_masked, 0.0)?, lse))
}

/// Returns the rounding error of the log-sum-exp of scores; 0 for a query whose keys are all
/// masked.
pub(super) fn rounding_error(scores: &Tensor, lse: &Tensor) -> Result<Tensor> {
    let fully_masked = lse.eq_scalar(f64::NEG_INFINITY)?;
    if scores.elements() == 0 {
        return Tensor::zeros(*lse.shape(), lse.dtype(), lse.device());
    }
    let largest = scores.max_keep(-1)?;
    let small = scores.sub(&largest)?.exp()?.sum_keep(-1)?.log()?;
    largest.sub(lse)?.add(&small)?.masked_fill(&fully_masked, 0.0)
}

/// The optional inputs, which follow the required ones.
pub(super) struct Extras<'a> {
    pub(super) mask: Option<&'a Tensor>,
    /// Cumulative lengths of queries and of keys.
    lengths: Option<[&'a Tensor; 2]>,
    pub(super) state: Option<&'a Tensor>,
}

impl AttentionConfig {
    pub(super) fn split_extras<'a>(&self, extras: &'a [Tensor]) -> Extras<'a> {
        Extras {
            mask: self.mask.then(|| extras.first()).flatten(),
            lengths: self.lengths_inputs(0).map(|[queries, keys]| [&extras[queries], &extras[keys]]),
            state: self.dropout.and(extras.last()),
        }
    }

    /// Applies dropout to `[batch, heads, queries, keys]`: zeros and scale.
    pub(super) fn apply_dropout(&self, weights: Tensor, state: Option<&Tensor>) -> Result<Tensor> {
        match (self.dropout, state) {
            (Some(dropout), Some(state)) => apply_one(dropout, &[&weights, state]),
            _ => Ok(weights),
        }
    }

    /// Computes `scale * q kT + mask`, -infinity for masked keys: `[batch, heads, queries, keys]`.
    pub(super) fn scores(&self, heads: &Heads, extras: &Extras<'_>) -> Result<Tensor> {
        let product = self.product(&heads.q, &heads.k.t()?)?.mul_scalar(self.scale)?;
        let mut scores = heads.separate(&product)?;
        if let Some(masked) = self.position_mask(heads.queries, &heads.k, extras.lengths)? {
            scores = scores.masked_fill(&masked, f64::NEG_INFINITY)?;
        }
        match extras.mask {
            Some(mask) if mask.dtype() == DType::Bool => {
                scores.masked_fill(&mask.logical_not()?, f64::NEG_INFINITY)
            }
            Some(mask) => scores.add(&mask.to_dtype(scores.dtype())?),
            None => Ok(scores),
        }
    }

    /// Returns the mask of keys that a query does not attend to by its position or sequence,
    /// `[queries, keys]`; `None` if no key is masked.
    fn position_mask(
        &self,
        queries: usize,
        k: &Tensor,
        lengths: Option<[&Tensor; 2]>,
    ) -> Result<Option<Tensor>> {
        let keys = k.dims()[2];
        let Some(lengths) = lengths else {
            let first = keys as i64 - queries as i64;
            let position = Tensor::iota(queries, DType::I32, first, 1, k.device())?.unsqueeze(1)?;
            return self.band_mask(&position, queries, keys);
        };
        let [ends_of_queries, ends_of_keys] = lengths;
        let sequences = ends_of_queries.elements() - 1;
        let query_sequence = sequence_of(ends_of_queries, queries)?;
        let key_sequence = sequence_of(ends_of_keys, keys)?.unsqueeze(0)?;
        // The last query of a sequence has the position of its last key.
        let shifts = ends_of_keys.sub(ends_of_queries)?.narrow(0, 1, sequences)?;
        let shift = shifts.index_select(0, &query_sequence.minimum_scalar((sequences - 1) as i64)?)?;
        let position = Tensor::iota(queries, DType::I32, 0, 1, k.device())?.add(&shift)?.unsqueeze(1)?;
        let query_sequence = query_sequence.unsqueeze(1)?;
        let other_sequence =
            query_sequence.ne(&key_sequence)?.logical_or(&query_sequence.ge_scalar(sequences as i64)?)?;
        match self.band_mask(&position, queries, keys)? {
            Some(masked) => other_sequence.logical_or(&masked).map(Some),
            None => Ok(Some(other_sequence)),
        }
    }

    /// Returns the mask of keys outside the causal range or window of queries at positions
    /// `[queries, 1]`, `[queries, keys]`; `None` if no key is masked.
    fn band_mask(&self, position: &Tensor, queries: usize, keys: usize) -> Result<Option<Tensor>> {
        let key = Tensor::iota(keys, DType::I32, 0, 1, position.device())?.unsqueeze(0)?;
        let mut masked = self.causal.then(|| key.gt(position)).transpose()?;
        if let Some(window) = self.window {
            // A window of `keys + queries` or more masks nothing, so it is clamped to prevent an
            // overflow.
            let window = window.min(keys + queries) as i64;
            let mut outside = key.le(&position.sub_scalar(window)?)?;
            if !self.causal {
                outside = outside.logical_or(&key.ge(&position.add_scalar(window)?)?)?;
            }
            masked = Some(match masked {
                Some(after_position) => after_position.logical_or(&outside)?,
                None => outside,
            });
        }
        Ok(masked)
    }

    /// Recomputes the weights, and computes the gradients of the scores from those of the outputs.
    pub(super) fn score_gradients(
        &self,
        heads: &Heads,
        inputs: &[Tensor],
        results: Results<'_>,
    ) -> Result<ScoreGradients> {
        let extras = self.split_extras(&inputs[3..]);
        let p = recompute_weights(&self.scores(heads, &extras)?, &results.lse.unsqueeze(-1)?)?;
        let (dy, y) = (results.dy.to_dtype(p.dtype())?, results.y.to_dtype(p.dtype())?);
        // The derivative of lse with respect to the scores is p, too, so the gradient of lse is
        // subtracted from the constant of its row.
        let mut constant = dy.mul(&y)?.sum_keep(-1)?;
        if let Some(grad) = results.dlse {
            constant = constant.sub(&grad.unsqueeze(-1)?)?;
        }
        let dy = heads.group_heads(&dy)?;
        let dp = self.apply_dropout(heads.separate(&self.product(&dy, &heads.v.t()?)?)?, extras.state)?;
        let ds = p.mul(&dp.sub(&constant)?)?;
        Ok(ScoreGradients { p: self.apply_dropout(p, extras.state)?, dy, ds })
    }

    /// Computes the gradients of q, k and v from those of the scores.
    pub(super) fn gradients(
        &self,
        heads: &Heads,
        inputs: &[Tensor],
        scores: &ScoreGradients,
    ) -> Result<Vec<Tensor>> {
        let dv = self.product(&heads.group_heads(&scores.p)?.t()?, &scores.dy)?;
        let grouped = heads.group_heads(&scores.ds)?.mul_scalar(self.scale)?;
        let dq = self.product(&grouped, &heads.k)?.reshape(*inputs[0].shape())?;
        let dk = self.product(&grouped.t()?, &heads.q)?;
        [dq, dk, dv].iter().zip(inputs).map(|(grad, input)| grad.to_dtype(input.dtype())).collect()
    }
}

/// The outputs of the forward pass and their gradients.
#[derive(Clone, Copy)]
pub(super) struct Results<'a> {
    pub(super) y: &'a Tensor,
    pub(super) lse: &'a Tensor,
    pub(super) dy: &'a Tensor,
    pub(super) dlse: Option<&'a Tensor>,
}

impl<'a> Results<'a> {
    /// Returns the results among the inputs of a gradient op.
    pub(super) fn of(inputs: &'a [Tensor]) -> Results<'a> {
        Results { y: &inputs[3], lse: &inputs[4], dy: &inputs[5], dlse: None }
    }
}

/// The tensors over all scores that the composed gradients need.
pub(super) struct ScoreGradients {
    /// The weights after dropout, `[batch, heads, queries, keys]`.
    p: Tensor,
    /// Gradient of y, with the rows of the query heads of a key head concatenated.
    dy: Tensor,
    /// `[batch, heads, queries, keys]`
    ds: Tensor,
}

impl ScoreGradients {
    /// Returns the gradient of an additive mask.
    pub(super) fn of_mask(&self, mask: &Tensor) -> Result<Tensor> {
        sum_to(&self.ds, mask.shape())?.to_dtype(mask.dtype())
    }
}
