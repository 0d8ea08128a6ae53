//! The gradient of attention, in tiles (Dao et al. 2022, algorithm 4): the weights are formed anew from the saved log-sum-exp, and which of them were
//! dropped, from the state of the random numbers.

use super::{Inputs, KEYS, MaskScratch, QUERIES, matrix, tiles, transposed};
use crate::access::Locked;
use crate::column_sums::add_pairwise;
use crate::dense::{DenseOutput, Parts, dense, with_workspace};
use crate::float::{Float, Matrix};
use crate::lanes;
use crate::memory::zeros;
use crate::rows::for_rows;
use crate::simd::vectorized;
use crate::threads::{Cost, for_pieces};
use std::borrow::Cow;
use std::ops::Range;
use ternion_core::{Error, Op, Result};

/// Pieces that the work is cut into where there are few key heads: over keys, with a dq for each, which meet pairwise.
const PIECES: usize = 16;

/// What backward reads.
struct Saved<'a, T: Float> {
    input: Inputs<'a, T>,
    log_sums: Cow<'a, [T]>,
    dy: Cow<'a, [T]>,
    /// `rowsum(dy * y)` of each query.
    along: Vec<T>,
}

/// Where gradients go. Each piece of work has its rows of dk and dv, and a dq of its own or rows that no other piece touches.
struct Gradients<'a, T> {
    dq: Parts<'a, T>,
    dk: Parts<'a, T>,
    dv: Parts<'a, T>,
}

pub(super) fn gradient<T: Float>(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let Op::AttentionGrad(attention) = op else {
        return Err(Error::invalid(op.name(), "is not attention_grad"));
    };
    let name = op.name();
    let input = Inputs::<T>::new(name, attention.config, inputs, 6)?;
    let (y, log_sums, dy) =
        (dense::<T>(name, &inputs[3])?, dense::<T>(name, &inputs[4])?, dense::<T>(name, &inputs[5])?);
    let along = row_dots(&dy, &y, input.sizes.value_dim, log_sums.len());
    let saved = Saved { input, log_sums, dy, along };
    let sizes = &saved.input.sizes;
    let heads = sizes.batch * sizes.kv_heads;
    let shares = PIECES.div_ceil(heads.max(1)).min(sizes.keys.div_ceil(KEYS)).max(1);
    let share = sizes.keys.div_ceil(KEYS).div_ceil(shares) * KEYS;
    let mut dk = DenseOutput::<T>::new(name, &outputs[1])?;
    let mut dv = DenseOutput::<T>::new(name, &outputs[2])?;
    let mut dqs = zeros::<T>(saved.input.q.len().saturating_mul(shares))?;
    let gradients = Gradients { dq: Parts::of(&mut dqs), dk: dk.parts(), dv: dv.parts() };
    for_pieces(heads * shares, |piece| {
        let (kv_head, share_index) = (piece / shares, piece % shares);
        let keys = sizes.keys.min(share_index * share)..sizes.keys.min((share_index + 1) * share);
        share_of_keys(&saved, kv_head, keys, share_index * saved.input.q.len(), &gradients);
    });
    dk.finish();
    dv.finish();
    add_pairwise(&mut dqs, saved.input.q.len());
    let mut dq = DenseOutput::<T>::new(name, &outputs[0])?;
    // SAFETY: nobody else writes the output.
    unsafe { dq.parts().part(0..saved.input.q.len()) }.copy_from_slice(&dqs[..saved.input.q.len()]);
    dq.finish();
    Ok(())
}

/// The sums of products of `count` rows of `width` elements.
fn row_dots<T: Float>(left: &[T], right: &[T], width: usize, count: usize) -> Vec<T> {
    let mut dots = vec![T::ZERO; count];
    let parts = Parts::of(&mut dots);
    for_rows(count, width, Cost::Light, |rows| {
        // SAFETY: the rows are this thread's.
        let dots = unsafe { parts.part(rows.clone()) };
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

/// Gradients of `keys` of a key head, and their share of the gradients of all queries that look at it, which starts at `dq_start`.
fn share_of_keys<T: Float>(
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
        // SAFETY: these keys are this piece's alone.
        let (dk, dv) = unsafe {
            (
                gradients.dk.part(rows.start * sizes.head_dim..rows.end * sizes.head_dim),
                gradients.dv.part(rows.start * sizes.value_dim..rows.end * sizes.value_dim),
            )
        };
        dk.fill(T::ZERO);
        dv.fill(T::ZERO);
        for member in 0..sizes.group() {
            let head =
                kv_head / sizes.kv_heads * sizes.heads + kv_head % sizes.kv_heads * sizes.group() + member;
            for queries in tiles(0..sizes.queries, QUERIES) {
                let seen = sizes.seen_by(&saved.input.config, &queries);
                if seen.start >= keys.end || seen.end <= keys.start {
                    continue;
                }
                let first = dq_start + (head * sizes.queries + queries.start) * sizes.head_dim;
                // SAFETY: no other piece has these queries of this share.
                let dq = unsafe { gradients.dq.part(first..first + queries.len() * sizes.head_dim) };
                tile(saved, head, [&queries, &keys], [dq, dk, dv], &mut scratch);
            }
        }
    }
}

/// Adds the gradients of a tile of scores: `[dq, dk, dv]` are the rows of these queries, keys and keys.
fn tile<T: Float>(
    saved: &Saved<'_, T>,
    head: usize,
    [queries, keys]: [&Range<usize>; 2],
    [dq, dk, dv]: [&mut [T]; 3],
    scratch: &mut MaskScratch<T>,
) {
    let Saved { input, log_sums, dy, along } = saved;
    let (sizes, scale) = (&input.sizes, T::real(input.config.scale));
    let [m, n, head_dim, value_dim] = [queries.len(), keys.len(), sizes.head_dim, sizes.value_dim];
    let rows = head * sizes.queries + queries.start..head * sizes.queries + queries.end;
    let dy = matrix(dy, head * sizes.queries, queries, value_dim);
    with_workspace(2 * m * n, |workspace| {
        let (weights, dscores) = workspace.split_at_mut(m * n);
        input.score(head, queries, keys, weights, scratch);
        for (row, weights) in rows.clone().zip(weights.chunks_exact_mut(n)) {
            weigh(weights, log_sums[row]);
        }
        let dp = Matrix::rows(dscores.as_mut_ptr(), n);
        // SAFETY: `matrix`, `q`, `k` and `v` have checked that their rows exist; the targets are this call's alone, with sizes as told.
        unsafe { T::gemm([m, value_dim, n], T::ONE, dy, transposed(input.v(head, keys)), T::ZERO, dp) };
        for ((row, weights), dscores) in
            rows.zip(weights.chunks_exact_mut(n)).zip(dscores.chunks_exact_mut(n))
        {
            match &input.dropping {
                Some(dropping) => {
                    dropping.apply(row, keys, dscores);
                    differentiate(weights, dscores, along[row]);
                    dropping.apply(row, keys, weights);
                }
                None => differentiate(weights, dscores, along[row]),
            }
        }
        let p = Matrix::rows(weights.as_ptr(), n);
        let ds = Matrix::rows(dscores.as_ptr(), n);
        // SAFETY: as above.
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

/// Scores become weights: `exp(score - log_sum)`; 0 where nothing is seen.
fn weigh<T: Float>(scores: &mut [T], log_sum: T) {
    if log_sum == T::NEG_INFINITY {
        return scores.fill(T::ZERO);
    }
    vectorized(
        #[inline(always)]
        || {
            for score in scores.iter_mut() {
                *score = (*score - log_sum).exp();
            }
        },
    );
}

/// `ds = p * (dp - along)`, in the place of dp.
fn differentiate<T: Float>(weights: &[T], dscores: &mut [T], along: T) {
    vectorized(
        #[inline(always)]
        || {
            for (ds, &p) in dscores.iter_mut().zip(weights) {
                *ds = p * (*ds - along);
            }
        },
    );
}
