//! Attention within sequences of different lengths that are concatenated along one axis.

use super::{AttentionConfig, AttentionOptions, Causal, Inputs, check_probability};
use crate::dispatch::apply;
use crate::error::{Error, Result};
use crate::ops::matmul::Matmul;
use crate::precision::{self, without_precision};
use crate::{DType, Shape, Tensor};
use smallvec::SmallVec;

/// The ends of concatenated sequences: 0, then the end of each sequence, i32 `[sequences + 1]`, as
/// FlashAttention's `cu_seqlens`.
///
/// The ends do not decrease, and the last one is at most the number of rows. Rows after the last
/// end do not attend, are not attended to, and their output is 0. The CPU backend reports lengths
/// that violate this as errors. The other backends do not read them on the host: their results are
/// then unspecified, but they access no memory out of bounds.
#[derive(Clone, Copy)]
pub struct CumulativeLengths<'a> {
    /// `cu_seqlens_q`: the ends of the query sequences.
    pub queries: &'a Tensor,
    /// `cu_seqlens_k`: the ends of the key and value sequences, with the same number of sequences.
    pub keys: &'a Tensor,
}

/// Returns the index of the sequence to which each of `rows` rows belongs, `[rows]` i32: the number
/// of sequences that end at or before the row. For rows after the last end, this is the number of
/// sequences.
pub(super) fn sequence_of(cumulative: &Tensor, rows: usize) -> Result<Tensor> {
    let ends = cumulative.narrow(0, 1, cumulative.elements() - 1)?.unsqueeze(0)?;
    let row = Tensor::iota(rows, DType::I32, 0, 1, cumulative.device())?.unsqueeze(1)?;
    ends.le(&row)?.to_dtype(DType::I32)?.sum(1)
}

/// Returns the position of each of `rows` rows within its sequence, for concatenated sequences of
/// different lengths. `cumulative` contains their ends, as in [`CumulativeLengths`]. Rows after the
/// last end are counted from that end.
///
/// # Shapes
/// cumulative i32 `[sequences + 1] -> [rows]` i32
///
/// # Errors
/// Returns an error if the lengths are not i32, or not a vector of at least one element.
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
    /// Computes [`scaled_dot_product_attention`](Tensor::scaled_dot_product_attention) within each
    /// of several sequences of different lengths, without padding. The rows of the sequences are
    /// concatenated, and `lengths` contains the end of each (Dao 2023, `flash_attn_varlen_func`).
    ///
    /// A query attends only to keys of the same sequence. [`Causal::LowerRight`] and a window are
    /// aligned at the end of the sequence: its last query has the position of its last key. Dropout
    /// uses the same random numbers as for weights `[1, heads, queries, keys]`.
    ///
    /// # Shapes
    /// queries `[rows, heads, head_dim]`, keys `[key_rows, kv_heads, head_dim]`, values
    /// `[key_rows, kv_heads, value_dim]` -> `[rows, heads, value_dim]`. The rows are those of all
    /// sequences together.
    ///
    /// # Errors
    /// Returns an error if shapes or dtypes are incompatible, if the lengths are not i32 or have
    /// different numbers of sequences, with a mask, or with [`Causal::UpperLeft`].
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

    /// Computes
    /// [`scaled_dot_product_attention_varlen`](Tensor::scaled_dot_product_attention_varlen) and the
    /// log-sum-exp of each query's scores before dropout, which is needed to combine partial
    /// attention results. It is -infinity where all keys are masked. Gradients flow through both
    /// outputs. The gradient of the log-sum-exp is computed by composition, with all scores in
    /// memory.
    ///
    /// # Shapes
    /// queries `[rows, heads, head_dim]`, keys `[key_rows, kv_heads, head_dim]`, values
    /// `[key_rows, kv_heads, value_dim]` -> `[rows, heads, value_dim]` and `[heads, rows]`, f32 for
    /// half precision
    ///
    /// # Errors
    /// Same as
    /// [`scaled_dot_product_attention_varlen`](Tensor::scaled_dot_product_attention_varlen).
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

    /// Computes the attention with the permissions of `product`.
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
            return Err(Error::invalid(name, "a mask with sequences of different lengths, expected none"));
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
        let permitted = AttentionConfig::with_permissions_of(product);
        let config = AttentionConfig { scale, causal, window, varlen: true, ..permitted };
        let [queries, keys, values] = [self, keys, values].map(heads_first);
        let (queries, keys, values) = (queries?, keys?, values?);
        let mut inputs: Inputs<'_> = SmallVec::from_slice(&[&queries, &keys, &values]);
        inputs.extend([lengths.queries, lengths.keys]);
        let outputs = config.attend(inputs, &scores, dropout, apply)?;
        let [y, lse] = [0, 1].map(|at| outputs[at].clone());
        Ok([y.squeeze(0)?.transpose(0, 1)?, lse.squeeze(0)?])
    }
}

/// Transposes `[rows, heads, width]` to `[1, heads, rows, width]`.
fn heads_first(x: &Tensor) -> Result<Tensor> {
    x.transpose(0, 1)?.unsqueeze(0)
}
