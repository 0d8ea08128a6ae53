//! Scaled dot-product attention in tiles of queries and keys with an online softmax (Dao et al.
//! 2022, algorithm 1): the matrix of all scores is never stored. Tiles of keys to which no query of
//! the tile attends are skipped.
//!
//! ```text
//!                keys ->   k0        k1                 for each tile of keys:
//!            +---------+---------+---------+              s   = scale q k^T (+ mask)       [QUERIES, KEYS]
//!   queries  |   run   |   run   |  skip   |              max = larger of max, rowmax s
//!      |     +---------+---------+---------+              p   = exp(s - max)
//!      v     |   run   |   run   |   run   |              sum = sum * exp(old max - max) + rowsum p
//!            +---------+---------+---------+              y   = y * exp(old max - max) + dropout(p) v
//!                                                       then y / sum, and max + log sum
//! ```

mod grad;
mod grad_mask;
mod sequences;

use crate::access::Locked;
use crate::dense::{DenseOutput, DisjointSlices, dense, with_workspace};
use crate::float::{Float, Matrix};
use crate::kernel::Variant;
use crate::lanes;
use crate::ops::dropout::DropoutMask;
use crate::rows::{Rows, Scratch};
use crate::simd::vectorized;
use crate::temporary::Dense;
use crate::threads::for_pieces;
use sequences::Sequences;
use std::ops::Range;
use ternion_core::backend::{Meta, Plan, Unsupported};
use ternion_core::ops::attention::AttentionConfig;
use ternion_core::{DType, Error, Op, Result, Shape};

/// Rows of a tile of scores.
const QUERIES: usize = 128;
/// Columns of a tile of scores: in f32 the tile takes 128 KiB; a row of it, 1 KiB.
const KEYS: usize = 256;

/// Supports all floats, bool and additive masks, with and without dropout.
pub(crate) fn select(op: &Op, inputs: &[Meta<'_>]) -> Result<Variant, Unsupported> {
    let run = match (op, inputs[0].dtype) {
        (Op::Attention(_), DType::F64) => forward::<f64>,
        (Op::Attention(_), _) => forward::<f32>,
        (Op::AttentionGradMask(_), DType::F64) => grad_mask::gradient::<f64>,
        (Op::AttentionGradMask(_), _) => grad_mask::gradient::<f32>,
        (_, DType::F64) => grad::gradient::<f64>,
        _ => grad::gradient::<f32>,
    };
    Ok(Variant { plan: Plan::ROW_MAJOR, run })
}

/// All sizes of an attention op.
struct Sizes {
    batch: usize,
    heads: usize,
    kv_heads: usize,
    queries: usize,
    keys: usize,
    head_dim: usize,
    value_dim: usize,
    /// The ends of packed sequences of different lengths.
    sequences: Option<Sequences>,
}

impl Sizes {
    /// Returns the sizes from the views of q, k and v, and of the cumulative lengths.
    fn new(op: &'static str, inputs: &[Locked<'_>], lengths: Option<[&Locked<'_>; 2]>) -> Result<Sizes> {
        let [batch, heads, queries, head_dim] = inputs[0].layout.shape().to_array(op)?;
        let [_, kv_heads, keys, _] = inputs[1].layout.shape().to_array(op)?;
        let [_, _, _, value_dim] = inputs[2].layout.shape().to_array(op)?;
        let sequences = lengths.map(|lengths| Sequences::new(op, lengths, [queries, keys])).transpose()?;
        Ok(Sizes { batch, heads, kv_heads, queries, keys, head_dim, value_dim, sequences })
    }

    /// Returns the number of query heads that share a key head.
    fn group(&self) -> usize {
        self.heads / self.kv_heads.max(1)
    }

    /// Returns the key head of a query head; both are counted over the batch.
    fn kv_head(&self, head: usize) -> usize {
        head / self.heads * self.kv_heads + head % self.heads / self.group()
    }

    /// Returns the keys to which `query` attends if no mask tensor is applied; see
    /// [`AttentionConfig`].
    fn attended_keys(&self, config: &AttentionConfig, query: usize) -> Range<usize> {
        // The end of the queries and the range of keys that determine the alignment: of the entire
        // tensors, or of the query's packed sequence.
        let (last_query, keys) = match &self.sequences {
            None => (self.queries, 0..self.keys),
            Some(sequences) => sequences.of(query),
        };
        let position = query as isize + keys.end as isize - last_query as isize;
        let window = config.window.map(|window| isize::try_from(window).unwrap_or(isize::MAX));
        let start =
            window.map_or(keys.start as isize, |window| position.saturating_sub(window).saturating_add(1));
        let end = match (config.causal, window) {
            (true, _) => position.saturating_add(1),
            (false, Some(window)) => position.saturating_add(window),
            (false, None) => keys.end as isize,
        };
        let inside = |key: isize| key.clamp(keys.start as isize, keys.end as isize) as usize;
        inside(start).min(inside(end))..inside(end)
    }

    /// Returns the range of keys to which any of `queries` attends. The first query has the lowest
    /// start, the last query the highest end.
    fn attended_keys_of_tile(&self, config: &AttentionConfig, queries: &Range<usize>) -> Range<usize> {
        if queries.is_empty() {
            return 0..0;
        }
        self.attended_keys(config, queries.start).start..self.attended_keys(config, queries.end - 1).end
    }
}

/// Splits `range` at multiples of `step`.
fn tiles(range: Range<usize>, step: usize) -> impl Iterator<Item = Range<usize>> {
    (range.start / step..range.end.div_ceil(step))
        .map(move |tile| (tile * step).max(range.start)..((tile + 1) * step).min(range.end))
        .filter(|tile| !tile.is_empty())
}

/// The mask input: one row of keys for each query of each head.
enum Mask<T: 'static> {
    None,
    /// Not 0 where a query attends to the key.
    Bool(Rows<u8>),
    /// Added to the scores.
    Additive(Rows<T>),
}

/// Memory for a row of a mask.
struct MaskScratch<T>(Scratch<u8>, Scratch<T>);

impl<T: Float> MaskScratch<T> {
    fn new() -> MaskScratch<T> {
        MaskScratch(Scratch::new(), Scratch::new())
    }
}

impl<T: Float> Mask<T> {
    /// Creates a mask from a view that can be broadcast to the shape of the scores.
    fn new(op: &'static str, view: Option<&Locked<'_>>, sizes: &Sizes) -> Result<Mask<T>> {
        let Some(view) = view else { return Ok(Mask::None) };
        let scores = Shape::new(&[sizes.batch, sizes.heads, sizes.queries, sizes.keys])?;
        let layout = view.layout.expand(&scores)?;
        let view = view.with_layout(&layout);
        Ok(match view.dtype {
            DType::Bool => Mask::Bool(Rows::along_last_axis(op, &view)?),
            _ => Mask::Additive(Rows::along_last_axis(op, &view)?),
        })
    }

    /// Applies elements `keys` of mask row `row` to the scores of these keys; masked scores become
    /// -infinity.
    fn apply(&self, row: usize, keys: &Range<usize>, scores: &mut [T], scratch: &mut MaskScratch<T>) {
        match self {
            Mask::None => {}
            Mask::Bool(rows) => {
                // SAFETY: the mask has this row and these keys (core has checked its shape), and is
                // only read.
                let attended = unsafe { rows.read(row, keys.clone(), &mut scratch.0) };
                for (score, &attended) in scores.iter_mut().zip(attended) {
                    *score = if attended == 0 { T::NEG_INFINITY } else { *score };
                }
            }
            Mask::Additive(rows) => {
                // SAFETY: as above.
                let added = unsafe { rows.read(row, keys.clone(), &mut scratch.1) };
                for (score, &added) in scores.iter_mut().zip(added) {
                    *score += added;
                }
            }
        }
    }
}

/// Dropout of the weights. The random bits of a weight depend on its row-major index in `[batch,
/// heads, queries, keys]`.
struct AttentionDropout<T> {
    mask: DropoutMask<T>,
    keys: usize,
}

impl<T: Float> AttentionDropout<T> {
    /// Applies the dropout mask of `keys` in row `row` (`head * queries + query`) to the weights of
    /// these keys, or to their gradients.
    fn apply(&self, row: usize, keys: &Range<usize>, weights: &mut [T]) {
        self.mask.apply(row * self.keys + keys.start, weights);
    }
}

/// The inputs of forward and backward.
struct Inputs<'a, T: Float> {
    sizes: Sizes,
    config: AttentionConfig,
    q: Dense<'a, T>,
    k: Dense<'a, T>,
    v: Dense<'a, T>,
    mask: Mask<T>,
    dropout: Option<AttentionDropout<T>>,
}

impl<'a, T: Float> Inputs<'a, T> {
    fn new(
        op: &'static str,
        config: AttentionConfig,
        inputs: &'a [Locked<'a>],
        mask: usize,
    ) -> Result<Inputs<'a, T>> {
        let lengths = config.lengths_inputs(mask).map(|lengths| lengths.map(|at| &inputs[at]));
        let sizes = Sizes::new(op, inputs, lengths)?;
        let state = config.state_input(mask).map(|at| &inputs[at]);
        let dropout = config.dropout.zip(state).map(|(dropout, state)| AttentionDropout {
            mask: DropoutMask::new(&dropout, *state),
            keys: sizes.keys,
        });
        let mask_view = config.mask.then(|| &inputs[mask]);
        Ok(Inputs {
            mask: Mask::new(op, mask_view, &sizes)?,
            sizes,
            config,
            q: dense(op, &inputs[0])?,
            k: dense(op, &inputs[1])?,
            v: dense(op, &inputs[2])?,
            dropout,
        })
    }

    /// Returns rows `queries` of a head's q.
    fn q(&self, head: usize, queries: &Range<usize>) -> Matrix<*const T> {
        matrix(&self.q, head * self.sizes.queries, queries, self.sizes.head_dim)
    }

    /// Returns rows `keys` of k, of the key head that query head `head` uses.
    fn k(&self, head: usize, keys: &Range<usize>) -> Matrix<*const T> {
        matrix(&self.k, self.sizes.kv_head(head) * self.sizes.keys, keys, self.sizes.head_dim)
    }

    /// Returns rows `keys` of v, of the key head that query head `head` uses.
    fn v(&self, head: usize, keys: &Range<usize>) -> Matrix<*const T> {
        matrix(&self.v, self.sizes.kv_head(head) * self.sizes.keys, keys, self.sizes.value_dim)
    }

    /// Computes `scores = scale q k^T`, masked: a row for each of `queries`, a column for each of
    /// `keys`.
    fn score(
        &self,
        head: usize,
        queries: &Range<usize>,
        keys: &Range<usize>,
        scores: &mut [T],
        scratch: &mut MaskScratch<T>,
    ) {
        let sizes = [queries.len(), self.sizes.head_dim, keys.len()];
        assert_eq!(scores.len(), queries.len() * keys.len(), "a tile of scores");
        let target = Matrix::rows(scores.as_mut_ptr(), keys.len());
        let scale = T::real(self.config.scale);
        // SAFETY: `q` and `k` have checked that these rows exist; the scores are used only by this
        // call.
        unsafe {
            T::gemm(sizes, scale, self.q(head, queries), transposed(self.k(head, keys)), T::ZERO, target)
        };
        for (query, row) in queries.clone().zip(scores.chunks_exact_mut(keys.len())) {
            self.mask.apply(head * self.sizes.queries + query, keys, row, scratch);
            let attended = self.sizes.attended_keys(&self.config, query);
            let start = attended.start.clamp(keys.start, keys.end) - keys.start;
            let end = attended.end.clamp(keys.start, keys.end) - keys.start;
            row[..start].fill(T::NEG_INFINITY);
            row[end.max(start)..].fill(T::NEG_INFINITY);
        }
    }
}

/// Returns rows `rows`, counted from row `first`, of a contiguous matrix with `width` columns.
fn matrix<T>(values: &[T], first: usize, rows: &Range<usize>, width: usize) -> Matrix<*const T> {
    Matrix::rows(values[(first + rows.start) * width..(first + rows.end) * width].as_ptr(), width)
}

/// Returns the transposed matrix.
fn transposed<P>(matrix: Matrix<P>) -> Matrix<P> {
    Matrix { first: matrix.first, row_stride: matrix.column_stride, column_stride: matrix.row_stride }
}

fn forward<T: Float>(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let Op::Attention(attention) = op else { return Err(Error::invalid(op.name(), "is not attention")) };
    let input = Inputs::<T>::new(op.name(), attention.config, inputs, 3)?;
    let (mut y, mut lse) =
        (DenseOutput::<T>::new(op.name(), &outputs[0])?, DenseOutput::<T>::new(op.name(), &outputs[1])?);
    // The rounding errors of the log-sum-exp, which are an output only with an additive mask.
    let mut errors = outputs.get(2).map(|output| DenseOutput::<T>::new(op.name(), output)).transpose()?;
    let slices = OutputSlices {
        y: y.disjoint_slices(),
        lse: lse.disjoint_slices(),
        errors: errors.as_mut().map(DenseOutput::disjoint_slices),
    };
    let tiles = input.sizes.queries.div_ceil(QUERIES);
    for_pieces(input.sizes.batch * input.sizes.heads * tiles, |piece| {
        let head = piece / tiles;
        let queries = piece % tiles * QUERIES..input.sizes.queries.min((piece % tiles + 1) * QUERIES);
        attend(&input, head, queries, &slices);
    });
    y.finish();
    lse.finish();
    if let Some(errors) = errors {
        errors.finish();
    }
    Ok(())
}

/// The outputs of forward.
struct OutputSlices<'a, T> {
    y: DisjointSlices<'a, T>,
    lse: DisjointSlices<'a, T>,
    errors: Option<DisjointSlices<'a, T>>,
}

/// Computes the outputs of a tile of queries of a head. No other call accesses these outputs.
fn attend<T: Float>(
    input: &Inputs<'_, T>,
    head: usize,
    queries: Range<usize>,
    outputs: &OutputSlices<'_, T>,
) {
    let (first, width) = (head * input.sizes.queries, input.sizes.value_dim);
    let rows = first + queries.start..first + queries.end;
    // SAFETY: the rows are used only by this call.
    let (y, lse, mut errors) = unsafe {
        (
            outputs.y.slice_mut(rows.start * width..rows.end * width),
            outputs.lse.slice_mut(rows.clone()),
            outputs.errors.map(|errors| errors.slice_mut(rows)),
        )
    };
    let (mut max, mut sum) = ([T::NEG_INFINITY; QUERIES], [T::ZERO; QUERIES]);
    let mut scratch = MaskScratch::new();
    y.fill(T::ZERO);
    with_workspace(QUERIES * KEYS, |scores| {
        for keys in tiles(input.sizes.attended_keys_of_tile(&input.config, &queries), KEYS) {
            let scores = &mut scores[..queries.len() * keys.len()];
            input.score(head, &queries, &keys, scores, &mut scratch);
            for (row, scores) in scores.chunks_exact_mut(keys.len()).enumerate() {
                let y = &mut y[row * width..(row + 1) * width];
                update_online_softmax(scores, &mut max[row], &mut sum[row], y);
                if let Some(dropout) = &input.dropout {
                    dropout.apply(first + queries.start + row, &keys, scores);
                }
            }
            let (sizes, target) = ([queries.len(), keys.len(), width], Matrix::rows(y.as_mut_ptr(), width));
            let weights = Matrix::rows(scores.as_ptr(), keys.len());
            // SAFETY: `v` has checked that these rows exist; y is used only by this call.
            unsafe { T::gemm(sizes, T::ONE, weights, input.v(head, &keys), T::ONE, target) };
        }
    });
    for (row, row_lse) in lse.iter_mut().enumerate() {
        let (log_sum_exp, error) = finish(max[row], sum[row], &mut y[row * width..(row + 1) * width]);
        *row_lse = log_sum_exp;
        if let Some(errors) = &mut errors {
            errors[row] = error;
        }
    }
}

/// Processes a row of scores: converts them to weights relative to the new maximum, and rescales
/// the earlier results.
fn update_online_softmax<T: Float>(scores: &mut [T], max: &mut T, sum: &mut T, y: &mut [T]) {
    vectorized(
        #[inline(always)]
        || {
            let largest = lanes::max(scores);
            let new = if largest > *max { largest } else { *max };
            // A row in which all scores so far are masked: weights of 0 instead of exp(-inf + inf).
            let base = if new == T::NEG_INFINITY { T::ZERO } else { new };
            for score in scores.iter_mut() {
                *score = (*score - base).exp();
            }
            let weights = lanes::sum(scores, |weight| weight);
            if new > *max {
                let rescale = (*max - base).exp();
                *sum *= rescale;
                for y in y.iter_mut() {
                    *y *= rescale;
                }
            }
            *sum += weights;
            *max = new;
        },
    );
}

/// Divides a row by the sum of its weights. Returns the log-sum-exp of its scores and its rounding
/// error. If all scores are masked: y is 0, and the results are -infinity and 0.
fn finish<T: Float>(max: T, sum: T, y: &mut [T]) -> (T, T) {
    if sum == T::ZERO {
        y.fill(T::ZERO);
        return (T::NEG_INFINITY, T::ZERO);
    }
    vectorized(
        #[inline(always)]
        || {
            for y in y.iter_mut() {
                *y /= sum;
            }
        },
    );
    // If NaN kept the maximum at -infinity, the scores were used without a shift.
    let base = if max == T::NEG_INFINITY { T::ZERO } else { max };
    let row_lse = base + sum.log();
    (row_lse, (base - row_lse) + sum.log())
}

#[cfg(test)]
mod tests;
