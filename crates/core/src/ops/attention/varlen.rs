//! Attention within sequences of different lengths that are stored one after another.

use super::{AttentionConfig, AttentionOptions, Causal, Inputs, check_probability};
use crate::dispatch::apply;
use crate::error::{Error, Result};
use crate::ops::matmul::Matmul;
use crate::precision::{self, without_precision};
use crate::{DType, Shape, Tensor};
use smallvec::SmallVec;

/// Where sequences end that are stored one after another: 0, then the end of each sequence, i32 `[sequences + 1]`, as FlashAttention's `cu_seqlens`.
///
/// Ends do not fall, and the last one is the number of rows, or less: rows behind it see nothing, are not seen, and give 0. The CPU backend
/// reports other lengths as errors; the other backends do not read them on the host: there results are unspecified, and no other memory is accessed.
#[derive(Clone, Copy)]
pub struct CumulativeLengths<'a> {
    /// `cu_seqlens_q`: of the queries.
    pub queries: &'a Tensor,
    /// `cu_seqlens_k`: of the keys and values, of as many sequences.
    pub keys: &'a Tensor,
}

/// The index of the sequence that each of `rows` rows belongs to, `[rows]` i32: how many sequences end at it or before. That of rows behind the last end is
/// the number of sequences.
pub(super) fn sequence_of(cumulative: &Tensor, rows: usize) -> Result<Tensor> {
    let ends = cumulative.narrow(0, 1, cumulative.elements() - 1)?.unsqueeze(0)?;
    let row = Tensor::iota(rows, DType::I32, 0, 1, cumulative.device())?.unsqueeze(1)?;
    ends.le(&row)?.to_dtype(DType::I32)?.sum(1)
}

/// How many rows of its own sequence are before each of `rows` rows, of sequences of different lengths that are stored one after another. `cumulative` says
/// where they end, as in [`CumulativeLengths`]; rows behind the last end count from there.
///
/// # Shapes
/// cumulative i32 `[sequences + 1] -> [rows]` i32
///
/// # Errors
/// Lengths that are not i32, or no vector of at least one.
pub fn positions_in_sequences(cumulative: &Tensor, rows: usize) -> Result<Tensor> {
    let name = "positions_in_sequences";
    if cumulative.dtype() != DType::I32 {
        return Err(Error::dtype(name, "cumulative lengths", cumulative.dtype(), DType::I32));
    }
    let [ends] = cumulative.shape().to_array(name)?;
    if ends == 0 {
        return Err(Error::invalid(name, "0 cumulative lengths, expected 0 and the end of each sequence"));
    }
    let first = cumulative.index_select(0, &sequence_of(cumulative, rows)?)?;
    Tensor::iota(rows, DType::I32, 0, 1, cumulative.device())?.sub(&first)
}

impl Tensor {
    /// [`scaled_dot_product_attention`](Tensor::scaled_dot_product_attention) within each of several sequences of different lengths, which need no padding:
    /// their rows are stored one after another, and `lengths` says where each ends (Dao 2023, `flash_attn_varlen_func`).
    ///
    /// A query sees keys of its own sequence alone. [`Causal::LowerRight`] and a window count from the ends of the sequence: its last query is at the position
    /// of its last key. Dropout draws as it does for weights `[1, heads, queries, keys]`.
    ///
    /// # Shapes
    /// queries `[rows, heads, head_dim]`, keys `[key_rows, kv_heads, head_dim]`, values `[key_rows, kv_heads, value_dim]` -> `[rows, heads, value_dim]`, rows
    /// of all sequences together
    ///
    /// # Errors
    /// Shapes or dtypes that do not fit; lengths that are not i32, or of another number of sequences; a mask; [`Causal::UpperLeft`].
    pub fn scaled_dot_product_attention_varlen(
        &self,
        keys: &Tensor,
        values: &Tensor,
        lengths: CumulativeLengths<'_>,
        options: AttentionOptions<'_>,
    ) -> Result<Tensor> {
        let [y, _] = self.scaled_dot_product_attention_varlen_lse(keys, values, lengths, options)?;
        Ok(y)
    }

    /// The same, and the log-sum-exp of each query's scores before dropout, by which parts of an attention are put together: -infinity where no key is seen.
    /// Gradients flow through both; those of the log-sum-exp are composed, with all scores in memory.
    ///
    /// # Shapes
    /// queries `[rows, heads, head_dim]`, keys `[key_rows, kv_heads, head_dim]`, values `[key_rows, kv_heads, value_dim]` -> `[rows, heads, value_dim]` and
    /// `[heads, rows]`, f32 of half precision
    ///
    /// # Errors
    /// As [`scaled_dot_product_attention_varlen`](Tensor::scaled_dot_product_attention_varlen).
    pub fn scaled_dot_product_attention_varlen_lse(
        &self,
        keys: &Tensor,
        values: &Tensor,
        lengths: CumulativeLengths<'_>,
        options: AttentionOptions<'_>,
    ) -> Result<[Tensor; 2]> {
        match precision::current() {
            None => self.attend_varlen(keys, values, lengths, options, Matmul::PLAIN),
            Some(scope) => {
                let (queries, keys, values) =
                    (scope.operand(self)?, scope.operand(keys)?, scope.operand(values)?);
                let product = scope.product_of(&queries);
                without_precision(|| queries.attend_varlen(&keys, &values, lengths, options, product))
            }
        }
    }

    /// With the permissions of `product`.
    fn attend_varlen(
        &self,
        keys: &Tensor,
        values: &Tensor,
        lengths: CumulativeLengths<'_>,
        options: AttentionOptions<'_>,
        product: Matmul,
    ) -> Result<[Tensor; 2]> {
        let name = "attention";
        let AttentionOptions { mask, causal, window, scale, dropout } = options;
        check_probability(name, dropout)?;
        if mask.is_some() {
            return Err(Error::invalid(name, "a mask beside sequences of different lengths, expected none"));
        }
        if causal == Causal::UpperLeft {
            return Err(Error::invalid(
                name,
                "upper-left causal sequences of different lengths, expected lower-right",
            ));
        }
        let [rows, heads, head_dim] = self.shape().to_array(name)?;
        let [key_rows, ..] = keys.shape().to_array::<3>(name)?;
        let scores = Shape::new(&[1, heads, rows, key_rows])?;
        let scale = scale.unwrap_or(1.0 / (head_dim.max(1) as f64).sqrt());
        let causal = causal == Causal::LowerRight;
        let permitted = AttentionConfig::permitted_as(product);
        let config = AttentionConfig { scale, causal, window, varlen: true, ..permitted };
        let [queries, keys, values] = [self, keys, values].map(heads_first);
        let (queries, keys, values) = (queries?, keys?, values?);
        let mut inputs: Inputs<'_> = SmallVec::from_slice(&[&queries, &keys, &values]);
        inputs.extend([lengths.queries, lengths.keys]);
        let outputs = config.attend(inputs, &scores, dropout, apply)?;
        let [y, log_sum] = [0, 1].map(|at| outputs[at].clone());
        Ok([y.squeeze(0)?.transpose(0, 1)?, log_sum.squeeze(0)?])
    }
}

/// `[rows, heads, width]` as `[1, heads, rows, width]`.
fn heads_first(x: &Tensor) -> Result<Tensor> {
    x.transpose(0, 1)?.unsqueeze(0)
}
