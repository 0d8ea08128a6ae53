//! Attention and its gradients by smaller ops: with all scores in memory, and what devices without kernels run.

use super::AttentionConfig;
use super::varlen::sequence_of;
use crate::autograd::sum_to;
use crate::dispatch::apply_one;
use crate::{DType, Result, Tensor};

/// Queries, keys and values in the accumulator dtype. The query heads that share a key head stand below one another, as queries of one head.
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

    /// `[batch, heads, queries, n]` as `[batch, kv_heads, group * queries, n]`.
    fn grouped(&self, x: &Tensor) -> Result<Tensor> {
        x.reshape(self.q.shape().with_dim(3, x.dims()[3]))
    }

    /// `[batch, kv_heads, group * queries, n]` as `[batch, heads, queries, n]`.
    fn separate(&self, x: &Tensor) -> Result<Tensor> {
        x.reshape([self.batch, self.heads, self.queries, x.dims()[3]])
    }

    fn output(&self) -> [usize; 4] {
        [self.batch, self.heads, self.queries, self.v.dims()[3]]
    }

    /// Each query's mean of the values, by weights `[batch, heads, queries, keys]`.
    pub(super) fn outputs(&self, config: &AttentionConfig, weights: &Tensor) -> Result<Tensor> {
        config.product(&self.grouped(weights)?, &self.v)?.reshape(self.output())
    }
}

/// `exp(scores - lse)`; 0 for a query that sees no key.
fn weights(scores: &Tensor, log_sum: &Tensor) -> Result<Tensor> {
    let blind = log_sum.eq_scalar(f64::NEG_INFINITY)?;
    scores.sub(&log_sum.masked_fill(&blind, 0.0)?)?.exp()
}

/// The softmax of the scores, 0 for a query that sees no key, and their log-sum-exp `[batch, heads, queries, 1]`.
pub(super) fn weights_of(scores: &Tensor) -> Result<(Tensor, Tensor)> {
    let log_sum = scores.logsumexp_keep(-1)?;
    // Not by log_sum, whose rounding is that of the largest score.
    let blind = log_sum.eq_scalar(f64::NEG_INFINITY)?;
    Ok((scores.softmax(-1)?.masked_fill(&blind, 0.0)?, log_sum))
}

/// What rounding took from the log-sum-exp of scores; 0 for a query that sees no key.
pub(super) fn rounding_error(scores: &Tensor, log_sum: &Tensor) -> Result<Tensor> {
    let blind = log_sum.eq_scalar(f64::NEG_INFINITY)?;
    if scores.elements() == 0 {
        return Tensor::zeros(*log_sum.shape(), log_sum.dtype(), log_sum.device());
    }
    let largest = scores.max_keep(-1)?;
    let small = scores.sub(&largest)?.exp()?.sum_keep(-1)?.log()?;
    largest.sub(log_sum)?.add(&small)?.masked_fill(&blind, 0.0)
}

/// What follows the inputs that there always are.
pub(super) struct Extras<'a> {
    pub(super) mask: Option<&'a Tensor>,
    /// Cumulative lengths of queries and of keys.
    lengths: Option<[&'a Tensor; 2]>,
    pub(super) state: Option<&'a Tensor>,
}

impl AttentionConfig {
    pub(super) fn split<'a>(&self, extras: &'a [Tensor]) -> Extras<'a> {
        Extras {
            mask: self.mask.then(|| extras.first()).flatten(),
            lengths: self.lengths_inputs(0).map(|[queries, keys]| [&extras[queries], &extras[keys]]),
            state: self.dropout.and(extras.last()),
        }
    }

    /// `[batch, heads, queries, keys]` with dropout's zeros and scale.
    pub(super) fn dropped(&self, weights: Tensor, state: Option<&Tensor>) -> Result<Tensor> {
        match (self.dropout, state) {
            (Some(dropout), Some(state)) => apply_one(dropout, &[&weights, state]),
            _ => Ok(weights),
        }
    }

    /// `scale * q kT + mask`, -infinity where a key is not seen: `[batch, heads, queries, keys]`.
    pub(super) fn scores(&self, heads: &Heads, extras: &Extras<'_>) -> Result<Tensor> {
        let product = self.product(&heads.q, &heads.k.t()?)?.mul_scalar(self.scale)?;
        let mut scores = heads.separate(&product)?;
        if let Some(hidden) = self.hidden(heads.queries, &heads.k, extras.lengths)? {
            scores = scores.masked_fill(&hidden, f64::NEG_INFINITY)?;
        }
        match extras.mask {
            Some(mask) if mask.dtype() == DType::Bool => {
                scores.masked_fill(&mask.logical_not()?, f64::NEG_INFINITY)
            }
            Some(mask) => scores.add(&mask.to_dtype(scores.dtype())?),
            None => Ok(scores),
        }
    }

    /// Which keys lie outside a query's reach, `[queries, keys]`; none if all are within.
    fn hidden(&self, queries: usize, k: &Tensor, lengths: Option<[&Tensor; 2]>) -> Result<Option<Tensor>> {
        let keys = k.dims()[2];
        let Some(lengths) = lengths else {
            let first = keys as i64 - queries as i64;
            let position = Tensor::iota(queries, DType::I32, first, 1, k.device())?.unsqueeze(1)?;
            return self.out_of_reach(&position, queries, keys);
        };
        let [ends_of_queries, ends_of_keys] = lengths;
        let sequences = ends_of_queries.elements() - 1;
        let of_query = sequence_of(ends_of_queries, queries)?;
        let of_key = sequence_of(ends_of_keys, keys)?.unsqueeze(0)?;
        // The last query of a sequence is at the position of its last key.
        let shifts = ends_of_keys.sub(ends_of_queries)?.narrow(0, 1, sequences)?;
        let shift = shifts.index_select(0, &of_query.minimum_scalar((sequences - 1) as i64)?)?;
        let position = Tensor::iota(queries, DType::I32, 0, 1, k.device())?.add(&shift)?.unsqueeze(1)?;
        let of_query = of_query.unsqueeze(1)?;
        let other = of_query.ne(&of_key)?.logical_or(&of_query.ge_scalar(sequences as i64)?)?;
        match self.out_of_reach(&position, queries, keys)? {
            Some(hidden) => other.logical_or(&hidden).map(Some),
            None => Ok(Some(other)),
        }
    }

    /// Which keys are too far from the positions `[queries, 1]` of the queries, `[queries, keys]`; none if no distance is.
    fn out_of_reach(&self, position: &Tensor, queries: usize, keys: usize) -> Result<Option<Tensor>> {
        let key = Tensor::iota(keys, DType::I32, 0, 1, position.device())?.unsqueeze(0)?;
        let mut hidden = self.causal.then(|| key.gt(position)).transpose()?;
        if let Some(window) = self.window {
            // A window that is wider than everything hides nothing: the smaller number cannot overflow.
            let window = window.min(keys + queries) as i64;
            let mut outside = key.le(&position.sub_scalar(window)?)?;
            if !self.causal {
                outside = outside.logical_or(&key.ge(&position.add_scalar(window)?)?)?;
            }
            hidden = Some(match hidden {
                Some(later) => later.logical_or(&outside)?,
                None => outside,
            });
        }
        Ok(hidden)
    }

    /// The weights, formed anew, and the gradients of the scores, given those of the outputs.
    pub(super) fn score_gradients(
        &self,
        heads: &Heads,
        inputs: &[Tensor],
        results: Results<'_>,
    ) -> Result<ScoreGradients> {
        let extras = self.split(&inputs[3..]);
        let p = weights(&self.scores(heads, &extras)?, &results.log_sum.unsqueeze(-1)?)?;
        let (dy, y) = (results.dy.to_dtype(p.dtype())?, results.y.to_dtype(p.dtype())?);
        // d lse / d scores is p too: it joins the row's constant.
        let mut constant = dy.mul(&y)?.sum_keep(-1)?;
        if let Some(grad) = results.dlog_sum {
            constant = constant.sub(&grad.unsqueeze(-1)?)?;
        }
        let dy = heads.grouped(&dy)?;
        let dp = self.dropped(heads.separate(&self.product(&dy, &heads.v.t()?)?)?, extras.state)?;
        let ds = p.mul(&dp.sub(&constant)?)?;
        Ok(ScoreGradients { p: self.dropped(p, extras.state)?, dy, ds })
    }

    /// The gradients of q, k and v, given those of the scores.
    pub(super) fn gradients(
        &self,
        heads: &Heads,
        inputs: &[Tensor],
        scores: &ScoreGradients,
    ) -> Result<Vec<Tensor>> {
        let dv = self.product(&heads.grouped(&scores.p)?.t()?, &scores.dy)?;
        let grouped = heads.grouped(&scores.ds)?.mul_scalar(self.scale)?;
        let dq = self.product(&grouped, &heads.k)?.reshape(*inputs[0].shape())?;
        let dk = self.product(&grouped.t()?, &heads.q)?;
        [dq, dk, dv].iter().zip(inputs).map(|(grad, input)| grad.to_dtype(input.dtype())).collect()
    }
}

/// What forward gave, and the gradients of it.
#[derive(Clone, Copy)]
pub(super) struct Results<'a> {
    pub(super) y: &'a Tensor,
    pub(super) log_sum: &'a Tensor,
    pub(super) dy: &'a Tensor,
    pub(super) dlog_sum: Option<&'a Tensor>,
}

impl<'a> Results<'a> {
    /// Of the inputs of a gradient.
    pub(super) fn of(inputs: &'a [Tensor]) -> Results<'a> {
        Results { y: &inputs[3], log_sum: &inputs[4], dy: &inputs[5], dlog_sum: None }
    }
}

/// What the composed gradients form of all scores.
pub(super) struct ScoreGradients {
    /// What is left of the weights after dropout, `[batch, heads, queries, keys]`.
    p: Tensor,
    /// Gradient of y, the query heads of a key head below one another.
    dy: Tensor,
    /// `[batch, heads, queries, keys]`
    ds: Tensor,
}

impl ScoreGradients {
    /// The gradient of a mask that was added to the scores.
    pub(super) fn of_mask(&self, mask: &Tensor) -> Result<Tensor> {
        sum_to(&self.ds, mask.shape())?.to_dtype(mask.dtype())
    }
}
