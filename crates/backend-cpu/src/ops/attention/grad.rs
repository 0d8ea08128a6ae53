//! The gradient of attention, in tiles (Dao et al. 2022, algorithm 4): the weights are recomputed
//! from the saved log-sum-exp, and the dropout mask from the state of the random number generator.

use super::{Inputs, KEYS, MaskScratch, QUERIES, matrix, tiles, transposed};
use crate::access::Locked;
use crate::column_sums::add_pairwise;
use crate::dense::{DenseOutput, DisjointSlices, dense, with_workspace};
use crate::float::{Float, Matrix};
use crate::lanes;
use crate::rows::for_rows;
use crate::simd::vectorized;
use crate::temporary::{Dense, WorkBuffer};
use crate::threads::{Cost, for_pieces};
use std::ops::Range;
use ternion_core::ops::attention::AttentionConfig;
use ternion_core::{Error, Op, Result};

/// The number of pieces of work if there are few key heads: ranges of keys, each with its own dq.
/// The dqs are added pairwise.
const PIECES: usize = 16;

/// The inputs of backward.
pub(super) struct Saved<'a, T: Float> {
    pub(super) input: Inputs<'a, T>,
    lse: Dense<'a, T>,
    dy: Dense<'a, T>,
    /// `rowsum(dy * y)` of each query.
    delta: Vec<T>,
}

/// The outputs of backward. Each piece of work accesses rows of dq, dk and dv that no other piece
/// accesses.
struct Gradients<'a, T> {
    dq: DisjointSlices<'a, T>,
    dk: DisjointSlices<'a, T>,
    dv: DisjointSlices<'a, T>,
}

impl<'a, T: Float> Saved<'a, T> {
    pub(super) fn new(
        op: &'static str,
        config: AttentionConfig,
        inputs: &'a [Locked<'a>],
    ) -> Result<Saved<'a, T>> {
        let input = Inputs::<T>::new(op, config, inputs, 6)?;
        let [y, lse, dy] = [3, 4, 5].map(|at| dense::<T>(op, &inputs[at]));
        let (lse, dy) = (lse?, dy?);
        let delta = row_dots(&dy, &y?, input.sizes.value_dim, lse.len());
        Ok(Saved { input, lse, dy, delta })
    }

    /// Returns rows `queries` of a head's dy.
    fn dy(&self, head: usize, queries: &Range<usize>) -> Matrix<*const T> {
        matrix(&self.dy, head * self.input.sizes.queries, queries, self.input.sizes.value_dim)
    }

    /// Computes the weights of a tile of scores, and the gradients of these scores.
    pub(super) fn differentiate_scores(
        &self,
        head: usize,
        [queries, keys]: [&Range<usize>; 2],
        [weights, dscores]: [&mut [T]; 2],
        scratch: &mut MaskScratch<T>,
    ) {
        let Saved { input, lse, delta, .. } = self;
        let [m, n, value_dim] = [queries.len(), keys.len(), input.sizes.value_dim];
        let rows = head * input.sizes.queries + queries.start..head * input.sizes.queries + queries.end;
        input.score(head, queries, keys, weights, scratch);
        for (row, weights) in rows.clone().zip(weights.chunks_exact_mut(n)) {
            softmax_weights(weights, lse[row]);
        }
        assert_eq!(dscores.len(), m * n, "a tile of scores");
        let (dy, dp) = (self.dy(head, queries), Matrix::rows(dscores.as_mut_ptr(), n));
        // SAFETY: `dy` and `v` have checked that these rows exist; the target is used only by this
        // call, and is as large as the product.
        unsafe { T::gemm([m, value_dim, n], T::ONE, dy, transposed(input.v(head, keys)), T::ZERO, dp) };
        for ((row, weights), dscores) in rows.zip(weights.chunks_exact(n)).zip(dscores.chunks_exact_mut(n)) {
            if let Some(dropout) = &input.dropout {
                dropout.apply(row, keys, dscores);
            }
            differentiate(weights, dscores, delta[row]);
        }
    }
}

pub(super) fn gradient<T: Float>(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let Op::AttentionGrad(attention) = op else {
        return Err(Error::invalid(op.name(), "is not attention_grad"));
    };
    let name = op.name();
    let saved = Saved::<T>::new(name, attention.config, inputs)?;
    let sizes = &saved.input.sizes;
    let heads = sizes.batch * sizes.kv_heads;
    let splits = PIECES.div_ceil(heads.max(1)).min(sizes.keys.div_ceil(KEYS)).max(1);
    let split_size = sizes.keys.div_ceil(KEYS).div_ceil(splits) * KEYS;
    let mut dk = DenseOutput::<T>::new(name, &outputs[1])?;
    let mut dv = DenseOutput::<T>::new(name, &outputs[2])?;
    let mut dqs = WorkBuffer::<T>::zeroed(saved.input.q.len().saturating_mul(splits))?;
    let gradients =
        Gradients { dq: DisjointSlices::of(&mut dqs), dk: dk.disjoint_slices(), dv: dv.disjoint_slices() };
    for_pieces(heads * splits, |piece| {
        let (kv_head, split) = (piece / splits, piece % splits);
        let keys = sizes.keys.min(split * split_size)..sizes.keys.min((split + 1) * split_size);
        grad_of_key_range(&saved, kv_head, keys, split * saved.input.q.len(), &gradients);
    });
    dk.finish();
    dv.finish();
    add_pairwise(&mut dqs, saved.input.q.len());
    let mut dq = DenseOutput::<T>::new(name, &outputs[0])?;
    // SAFETY: no other thread writes the output.
    unsafe { dq.disjoint_slices().slice_mut(0..saved.input.q.len()) }
        .copy_from_slice(&dqs[..saved.input.q.len()]);
    dq.finish();
    Ok(())
}

/// Returns the dot products of `count` rows of `width` elements.
fn row_dots<T: Float>(left: &[T], right: &[T], width: usize, count: usize) -> Vec<T> {
    let mut dots = vec![T::ZERO; count];
    let slices = DisjointSlices::of(&mut dots);
    for_rows(count, width, Cost::Light, |rows| {
        // SAFETY: the rows are used only by this thread.
        let dots = unsafe { slices.slice_mut(rows.clone()) };
        for (dot, row) in dots.iter_mut().zip(rows) {
            let (left, right) =
                (&left[row * width..(row + 1) * width], &right[row * width..(row + 1) * width]);
            *dot = vectorized(
                #[inline(always)]
                || lanes::dot(left, right),
            );
        }
    });
    dots
}

/// Computes dk and dv of `keys` of a key head, and adds the terms of these keys to dq of all query
/// heads that share the key head. `dq_start` is the offset of this split's dq.
fn grad_of_key_range<T: Float>(
    saved: &Saved<'_, T>,
    kv_head: usize,
    keys: Range<usize>,
    dq_start: usize,
    gradients: &Gradients<'_, T>,
) {
    let sizes = &saved.input.sizes;
    let mut scratch = MaskScratch::new();
    for keys in tiles(keys, KEYS) {
        let rows = kv_head * sizes.keys + keys.start..kv_head * sizes.keys + keys.end;
        // SAFETY: these keys are used only by this piece.
        let (dk, dv) = unsafe {
            (
                gradients.dk.slice_mut(rows.start * sizes.head_dim..rows.end * sizes.head_dim),
                gradients.dv.slice_mut(rows.start * sizes.value_dim..rows.end * sizes.value_dim),
            )
        };
        dk.fill(T::ZERO);
        dv.fill(T::ZERO);
        for member in 0..sizes.group() {
            let head =
                kv_head / sizes.kv_heads * sizes.heads + kv_head % sizes.kv_heads * sizes.group() + member;
            for queries in tiles(0..sizes.queries, QUERIES) {
                let attended = sizes.attended_keys_of_tile(&saved.input.config, &queries);
                if attended.start >= keys.end || attended.end <= keys.start {
                    continue;
                }
                let first = dq_start + (head * sizes.queries + queries.start) * sizes.head_dim;
                // SAFETY: no other piece has these queries of this split.
                let dq = unsafe { gradients.dq.slice_mut(first..first + queries.len() * sizes.head_dim) };
                tile(saved, head, [&queries, &keys], [dq, dk, dv], &mut scratch);
            }
        }
    }
}

/// Adds the gradients of a tile of scores to the rows of its queries in dq, and of its keys in dk
/// and dv.
fn tile<T: Float>(
    saved: &Saved<'_, T>,
    head: usize,
    [queries, keys]: [&Range<usize>; 2],
    [dq, dk, dv]: [&mut [T]; 3],
    scratch: &mut MaskScratch<T>,
) {
    let (input, scale) = (&saved.input, T::real(saved.input.config.scale));
    let [m, n, head_dim, value_dim] =
        [queries.len(), keys.len(), input.sizes.head_dim, input.sizes.value_dim];
    let dy = saved.dy(head, queries);
    with_workspace(2 * m * n, |workspace| {
        let (weights, dscores) = workspace.split_at_mut(m * n);
        saved.differentiate_scores(head, [queries, keys], [weights, dscores], scratch);
        if let Some(dropout) = &input.dropout {
            for (query, weights) in queries.clone().zip(weights.chunks_exact_mut(n)) {
                dropout.apply(head * input.sizes.queries + query, keys, weights);
            }
        }
        let p = Matrix::rows(weights.as_ptr(), n);
        let ds = Matrix::rows(dscores.as_ptr(), n);
        // SAFETY: `dy`, `q` and `k` have checked that their rows exist; the targets are used only
        // by this call, and have the given sizes.
        unsafe {
            T::gemm(
                [n, m, value_dim],
                T::ONE,
                transposed(p),
                dy,
                T::ONE,
                Matrix::rows(dv.as_mut_ptr(), value_dim),
            );
            T::gemm(
                [m, n, head_dim],
                scale,
                ds,
                input.k(head, keys),
                T::ONE,
                Matrix::rows(dq.as_mut_ptr(), head_dim),
            );
            let dk = Matrix::rows(dk.as_mut_ptr(), head_dim);
            T::gemm([n, m, head_dim], scale, transposed(ds), input.q(head, queries), T::ONE, dk);
        }
    });
}

/// Converts scores to weights: `exp(score - row_lse)`, or 0 if all scores are masked.
fn softmax_weights<T: Float>(scores: &mut [T], row_lse: T) {
    if row_lse == T::NEG_INFINITY {
        return scores.fill(T::ZERO);
    }
    vectorized(
        #[inline(always)]
        || {
            for score in scores.iter_mut() {
                *score = (*score - row_lse).exp();
            }
        },
    );
}

/// Computes `ds = p * (dp - delta)` in place: `dscores` contains dp and becomes ds.
fn differentiate<T: Float>(weights: &[T], dscores: &mut [T], delta: T) {
    vectorized(
        #[inline(always)]
        || {
            for (ds, &p) in dscores.iter_mut().zip(weights) {
                *ds = p * (*ds - delta);
            }
        },
    );
}
