//! The gradient of an additive mask: the gradient of the scores, summed over the axes along which
//! the mask is broadcast. Only one tile of the scores' gradients is in memory at a time.
//!
//! ```text
//!                                 for each tile of scores that uses this tile of the mask: of every head and
//!               +---------+       batch index along which the mask is broadcast, and of every query or key
//!   tiles of    |  dmask  |  +=   if the mask has size 1 along that axis:
//!   the mask    +---------+       ds, summed over the queries or keys if the mask has size 1 there
//! ```

use super::grad::Saved;
use super::{KEYS, MaskScratch, QUERIES, tiles};
use crate::access::Locked;
use crate::column_sums::add_pairwise;
use crate::dense::{DenseOutput, DisjointSlices, with_workspace};
use crate::float::Float;
use crate::lanes;
use crate::simd::vectorized;
use crate::temporary::WorkBuffer;
use crate::threads::for_pieces;
use std::ops::Range;
use ternion_core::{Error, Op, Result};

/// The number of pieces of work if the mask has few row tiles: ranges of heads, each with its own
/// gradient. The gradients are added pairwise.
const PIECES: usize = 32;

/// The mask's axes, and the axes of the scores along which it is broadcast.
struct MaskBroadcast {
    /// `[batch, heads, queries, keys]`, each the size of the scores or 1.
    mask: [usize; 4],
    batch: usize,
    heads: usize,
    queries: usize,
}

impl MaskBroadcast {
    /// Returns the number of heads, counted over the batch, that share a head of the mask.
    fn members(&self) -> usize {
        self.batch / self.mask[0].max(1) * (self.heads / self.mask[1].max(1))
    }

    /// Returns the head, counted over the batch, with index `member` among those that share head
    /// `mask_head` of the mask, which is counted over the mask's batch.
    fn head(&self, mask_head: usize, member: usize) -> usize {
        let heads = self.heads / self.mask[1].max(1);
        let (batch, head) =
            (mask_head / self.mask[1] + member / heads, mask_head % self.mask[1] + member % heads);
        batch * self.heads + head
    }

    /// Returns the queries whose scores belong to tile `tile` of a head of the mask: all if the
    /// mask has one row.
    fn queries(&self, tile: usize) -> Range<usize> {
        match self.mask[2] {
            1 => 0..self.queries,
            rows => tile * QUERIES..rows.min((tile + 1) * QUERIES),
        }
    }
}

pub(super) fn gradient<T: Float>(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let Op::AttentionGradMask(attention) = op else {
        return Err(Error::invalid(op.name(), "is not attention_grad_mask"));
    };
    let name = op.name();
    let saved = Saved::<T>::new(name, attention.config, inputs)?;
    let sizes = &saved.input.sizes;
    let mask = inputs[6].layout.shape().to_array(name)?;
    let broadcast = MaskBroadcast { mask, batch: sizes.batch, heads: sizes.heads, queries: sizes.queries };
    let elements = mask.iter().product::<usize>();
    let row_tiles = mask[2].div_ceil(QUERIES);
    let (mask_tiles, members) = (mask[0] * mask[1] * row_tiles, broadcast.members());
    let splits = PIECES.div_ceil(mask_tiles.max(1)).min(members).max(1);
    let split_size = members.div_ceil(splits);
    let mut sums = WorkBuffer::<T>::zeroed(elements.saturating_mul(splits))?;
    let slices = DisjointSlices::of(&mut sums);
    for_pieces(mask_tiles * splits, |piece| {
        let (mask_tile, index) = (piece / splits, piece % splits);
        let (mask_head, tile) = (mask_tile / row_tiles, mask_tile % row_tiles);
        let rows = mask[2].min(tile * QUERIES)..mask[2].min((tile + 1) * QUERIES);
        let first = index * elements + mask_head * mask[2] * mask[3];
        // SAFETY: these rows of this split are used only by this piece.
        let dmask = unsafe { slices.slice_mut(first + rows.start * mask[3]..first + rows.end * mask[3]) };
        for member in members.min(index * split_size)..members.min((index + 1) * split_size) {
            add_head(&saved, broadcast.head(mask_head, member), broadcast.queries(tile), mask[3], dmask);
        }
    });
    add_pairwise(&mut sums, elements);
    let mut dmask = DenseOutput::<T>::new(name, &outputs[0])?;
    // SAFETY: no other thread writes the output.
    unsafe { dmask.disjoint_slices().slice_mut(0..elements) }.copy_from_slice(&sums[..elements]);
    dmask.finish();
    Ok(())
}

/// Adds the gradients of the scores of a head's `queries` to `dmask`, whose rows have `columns`
/// elements: one row for each query, or one for all.
fn add_head<T: Float>(
    saved: &Saved<'_, T>,
    head: usize,
    queries: Range<usize>,
    columns: usize,
    dmask: &mut [T],
) {
    let input = &saved.input;
    let has_rows = dmask.len() > columns;
    let mut scratch = MaskScratch::new();
    with_workspace(2 * QUERIES * KEYS, |workspace| {
        for queries in tiles(queries.clone(), QUERIES) {
            for keys in tiles(input.sizes.attended_keys_of_tile(&input.config, &queries), KEYS) {
                let (weights, dscores) = workspace.split_at_mut(QUERIES * KEYS);
                let count = queries.len() * keys.len();
                let dscores = &mut dscores[..count];
                saved.differentiate_scores(
                    head,
                    [&queries, &keys],
                    [&mut weights[..count], dscores],
                    &mut scratch,
                );
                for (row, dscores) in dscores.chunks_exact(keys.len()).enumerate() {
                    let row = if has_rows { (queries.start + row) % QUERIES } else { 0 };
                    add_row(&mut dmask[row * columns..(row + 1) * columns], &keys, dscores);
                }
            }
        }
    });
}

/// Adds the gradients of the scores of `keys` to a row of the mask's gradient: each to its element,
/// or all to the only element.
fn add_row<T: Float>(dmask: &mut [T], keys: &Range<usize>, dscores: &[T]) {
    vectorized(
        #[inline(always)]
        || match dmask {
            [sum] => *sum += lanes::sum(dscores, |score| score),
            dmask => {
                for (sum, &score) in dmask[keys.clone()].iter_mut().zip(dscores) {
                    *sum += score;
                }
            }
        },
    );
}
