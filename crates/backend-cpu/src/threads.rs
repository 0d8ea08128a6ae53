//! Work cut into numbered pieces for several threads. How it is cut follows from shapes alone, never from the number of threads.

use rayon::prelude::*;
use std::ops::Range;

/// How much an element costs: decides from which size on a second thread pays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cost {
    /// A few instructions: memory is the limit.
    Light,
    /// Tens of instructions, such as an exponential.
    Heavy,
}

impl Cost {
    /// Elements of a piece.
    pub(crate) const fn piece(self) -> usize {
        match self {
            Cost::Light => 1 << 15,
            Cost::Heavy => 1 << 13,
        }
    }
}

/// Runs `work` once for each number below `pieces`.
pub(crate) fn for_pieces(pieces: usize, work: impl Fn(usize) + Sync) {
    if pieces <= 1 {
        (0..pieces).for_each(work);
    } else {
        (0..pieces).into_par_iter().for_each(&work);
    }
}

/// Runs `work` on ranges that together are `0..elements`.
#[inline]
pub(crate) fn for_ranges(elements: usize, piece: usize, work: impl Fn(Range<usize>) + Sync) {
    if elements <= piece {
        return work(0..elements);
    }
    for_pieces(elements.div_ceil(piece), |index| {
        work(index * piece..elements.min((index + 1) * piece));
    });
}
