//! Scaled dot-product attention.

use crate::backend::Meta;
use crate::error::{Error, Result};
use crate::op::{Output, Outputs, Rule, check};
use crate::{DType, Shape};

/// Which keys a query sees, and how scores are scaled. Shared by [`Attention`] and [`AttentionGrad`].
///
/// Query i of `queries` stands at position `i + keys - queries` among the keys (the last query sees the last key).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionConfig {
    /// Factor of the scores; usually `1 / sqrt(head_dim)`.
    pub scale: f64,
    /// Whether a query sees only keys at or before its position.
    pub causal: bool,
    /// How far back a query sees: keys at positions above `position - window` (and, when not causal, below `position + window`).
    pub window: Option<usize>,
    /// Whether a mask follows the values: bool (true: seen) or of the queries' dtype (added to the scaled scores).
    pub mask: bool,
}

/// `y = softmax(scale * q kT + mask) v` (Vaswani et al. 2017, eq. 1). A query that sees no key gives 0.
///
/// Inputs: q `[batch, heads, queries, head_dim]`, k `[batch, kv_heads, keys, head_dim]`, v `[batch, kv_heads, keys, value_dim]`, one floating dtype, `heads` a
/// multiple of `kv_heads` (query head h uses key head `h / (heads / kv_heads)`); then mask `[batch, heads, queries, keys]` (usually an
/// expanded view) if `config.mask`. Outputs: y `[batch, heads, queries, value_dim]`; log-sum-exp of the scores `[batch, heads, queries]` (auxiliary; -infinity where no
/// key is seen), in `accumulator()` of the dtype.
#[derive(Clone, Debug)]
pub struct Attention {
    /// Masking and scale.
    pub config: AttentionConfig,
}

/// Gradient of [`Attention`]: with `p = exp(scale * q kT + mask - lse)`: `dv = pT dy`, `ds = p * (dy vT - rowsum(dy * y))`,
/// `dq = scale * ds k`, `dk = scale * dsT q` (Dao et al. 2022, algorithm 4). Key and value heads sum over their query heads.
///
/// Inputs: q, k, v, y, lse, dy, then mask. Outputs: dq, dk, dv, as q, k, v. (An additive mask that needs a gradient takes the composition.)
#[derive(Clone, Debug)]
pub struct AttentionGrad {
    /// Masking and scale.
    pub config: AttentionConfig,
}

struct Sizes {
    output: Shape,
    rows: Shape,
    scores: Shape,
}

fn sizes(op: &'static str, inputs: &[Meta<'_>]) -> Result<Sizes> {
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
            format!("{heads} query heads are no multiple of {kv_heads} key heads"),
        ));
    }
    check::shape(op, "key", &inputs[1], Shape::unchecked(&[batch, kv_heads, keys, head_dim]))?;
    check::shape(op, "value", &inputs[2], Shape::unchecked(&[batch, kv_heads, keys, value_dim]))?;
    Ok(Sizes {
        output: Shape::unchecked(&[batch, heads, queries, value_dim]),
        rows: Shape::unchecked(&[batch, heads, queries]),
        scores: Shape::unchecked(&[batch, heads, queries, keys]),
    })
}

fn check_mask(op: &'static str, mask: &Meta<'_>, query: &Meta<'_>, scores: &Shape) -> Result<()> {
    if mask.dtype != DType::Bool && mask.dtype != query.dtype {
        return Err(Error::DType {
            op,
            what: "mask",
            got: mask.dtype,
            expected: "bool or the query's dtype",
        });
    }
    check::shape(op, "mask", mask, *scores)
}

impl Rule for Attention {
    fn name(&self) -> &'static str {
        "attention"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        let name = "attention";
        check::count(name, inputs, 3 + usize::from(self.config.mask))?;
        let sizes = sizes(name, inputs)?;
        if self.config.mask {
            check_mask(name, &inputs[3], &inputs[0], &sizes.scores)?;
        }
        let dtype = inputs[0].dtype;
        Ok([Output::fresh(sizes.output, dtype), Output::fresh(sizes.rows, dtype.accumulator())]
            .into_iter()
            .collect())
    }
}

impl Rule for AttentionGrad {
    fn name(&self) -> &'static str {
        "attention_grad"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        let name = "attention_grad";
        check::count(name, inputs, 6 + usize::from(self.config.mask))?;
        let sizes = sizes(name, inputs)?;
        for (what, meta) in [("output", &inputs[3]), ("grad_output", &inputs[5])] {
            check::same_dtype(name, &inputs[0], meta)?;
            check::shape(name, what, meta, sizes.output)?;
        }
        check::dtype(name, "log_sum_exp", &inputs[4], inputs[0].dtype.accumulator())?;
        check::shape(name, "log_sum_exp", &inputs[4], sizes.rows)?;
        if self.config.mask {
            check_mask(name, &inputs[6], &inputs[0], &sizes.scores)?;
        }
        Ok(inputs[..3].iter().map(|meta| Output::fresh(*meta.shape(), meta.dtype)).collect())
    }
}
