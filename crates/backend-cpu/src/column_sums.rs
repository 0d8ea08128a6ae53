//! Sums over all rows for each column, computed by several threads in an order that depends only on
//! the shape.

use crate::dense::DisjointSlices;
use crate::float::Float;
use crate::simd::vectorized;
use crate::threads::for_pieces;
use std::ops::Range;

/// The number of elements of one piece of work, if that is between [`MIN_ROWS`] and [`MAX_ROWS`]
/// rows.
const PIECE: usize = 1 << 15;
/// Keeps the total size of the accumulators small compared with the rows.
const MIN_ROWS: usize = 8;
/// Keeps the sums accurate, because accumulators are added pairwise.
const MAX_ROWS: usize = 64;

/// Calls `work` with ranges that partition `0..rows`, each with `length` accumulators that are
/// initially zero. Returns the sums of all accumulators.
pub(crate) fn column_sums<T: Float>(
    rows: usize,
    width: usize,
    length: usize,
    work: impl Fn(Range<usize>, &mut [T]) + Sync,
) -> Vec<T> {
    let piece = (PIECE / width.max(1)).clamp(MIN_ROWS, MAX_ROWS);
    let pieces = rows.div_ceil(piece).max(1);
    let range = |index: usize| index * piece..rows.min((index + 1) * piece);
    let mut sums = vec![T::ZERO; pieces * length];
    let slices = DisjointSlices::of(&mut sums);
    for_pieces(pieces, |index| {
        // SAFETY: each piece has its own accumulators.
        work(range(index), unsafe { slices.slice_mut(index * length..(index + 1) * length) });
    });
    add_pairwise(&mut sums, length);
    sums.truncate(length);
    sums
}

/// Adds groups of `length` accumulators pairwise; the sum is stored in the first group.
pub(crate) fn add_pairwise<T: Float>(sums: &mut [T], length: usize) {
    let mut step = length;
    while step > 0 && step < sums.len() {
        for pair in sums.chunks_mut(2 * step).filter(|pair| pair.len() > step) {
            let (left, right) = pair.split_at_mut(step);
            vectorized(
                #[inline(always)]
                || {
                    for (left, &right) in left[..length].iter_mut().zip(right.iter()) {
                        *left += right;
                    }
                },
            );
        }
        step *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_counts_once() {
        for rows in [0, 1, 8, 9, 63, 64, 65, 5000] {
            for width in [1, 3, 4096] {
                let sums = column_sums::<f64>(rows, width, 2, |range, sums| {
                    for row in range {
                        sums[0] += row as f64;
                        sums[1] += 1.0;
                    }
                });
                assert_eq!(
                    sums,
                    [(rows * rows.saturating_sub(1) / 2) as f64, rows as f64],
                    "{rows} rows of {width}"
                );
            }
        }
    }
}
