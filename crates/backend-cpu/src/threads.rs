//! Work that is split into numbered pieces for several threads. The split depends only on shapes,
//! never on the number of threads.
//!
//! The caller runs pieces itself, and rayon's threads join when they become free. While the caller
//! waits for them it runs nothing else: an op holds the locks of its buffers, and other work that
//! it picked up in the meantime might need one of them.
//!
//! Ops follow each other within microseconds, and waking a thread takes as long as a small op. So a
//! worker that finishes a job spins for about 100 us looking for the next one before it returns to
//! rayon, and a job spawns only the workers that are not already spinning. At most three spin,
//! because small ops have work for no more, and spinning workers contend with each other.
//!
//! `protocol` is the protocol by which they share a job, with an argument for its correctness;
//! `model` explores it with loom.

#[cfg(test)]
mod model;
mod protocol;
mod sync;

use protocol::JobQueue;
use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::AtomicUsize;
use std::sync::{Mutex, PoisonError};

/// The cost of an element. It determines from which size on a second thread is worthwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cost {
    /// A few instructions: memory is the limit.
    Light,
    /// Tens of instructions, such as an exponential.
    Heavy,
}

impl Cost {
    /// Returns the number of elements of a piece.
    pub(crate) const fn piece(self) -> usize {
        match self {
            Cost::Light => 1 << 15,
            Cost::Heavy => 1 << 13,
        }
    }
}

/// Runs `work` on ranges that partition `0..elements`.
#[inline]
pub(crate) fn for_ranges(elements: usize, piece: usize, work: impl Fn(Range<usize>) + Sync) {
    if elements <= piece {
        return work(0..elements);
    }
    let pieces = elements.div_ceil(piece);
    // A piece takes about as long as waking a thread, so one thread is woken for every two pieces.
    distribute(pieces, (pieces / 2).max(2), &|index| {
        work(index * piece..elements.min((index + 1) * piece));
    });
}

/// Runs `work` once for each index below `pieces`.
pub(crate) fn for_pieces(pieces: usize, work: impl Fn(usize) + Sync) {
    distribute(pieces, pieces, &work);
}

/// Runs `work` once for each index below `pieces`, on at most `threads` threads, not counting those
/// that are already spinning.
#[inline]
fn distribute(pieces: usize, threads: usize, work: &(impl Fn(usize) + Sync)) {
    let workers = if pieces <= 1 { 0 } else { threads.min(rayon::current_num_threads()) - 1 };
    if workers == 0 {
        (0..pieces).for_each(work);
    } else {
        parallel_for(pieces, workers, work);
    }
}

static QUEUE: JobQueue =
    JobQueue { open: Mutex::new(Vec::new()), submitted: AtomicUsize::new(0), spinning: AtomicUsize::new(0) };

/// Runs `work` once for each index below `pieces` on this thread and `workers` others. A panic ends
/// the job, and is resumed on this thread when no piece is running any more.
fn parallel_for(pieces: usize, workers: usize, work: &(dyn Fn(usize) + Sync)) {
    let first_panic: Mutex<Option<Box<dyn Any + Send>>> = Mutex::new(None);
    let caught = |piece| {
        let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(piece))) else { return true };
        let mut first = first_panic.lock().unwrap_or_else(PoisonError::into_inner);
        match *first {
            None => *first = Some(panic),
            // Dropping it might panic as well, and the protocol's work never unwinds.
            Some(_) => std::mem::forget(panic),
        }
        false
    };
    QUEUE.parallel_for(pieces, workers, &caught, |job| rayon::spawn(move || QUEUE.run_then_spin(job)));
    if let Some(panic) = first_panic.into_inner().unwrap_or_else(PoisonError::into_inner) {
        resume_unwind(panic);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn sum_of_squares(pieces: usize) -> u64 {
        let sum = AtomicU64::new(0);
        for_pieces(pieces, |piece| {
            sum.fetch_add((piece * piece) as u64, Ordering::Relaxed);
        });
        sum.into_inner()
    }

    #[test]
    fn each_piece_runs_once_on_any_number_of_threads() {
        for threads in [1, 2, 7] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
            for pieces in [0, 1, 2, 3, 100] {
                let expected = (0..pieces as u64).map(|piece| piece * piece).sum::<u64>();
                assert_eq!(pool.install(|| sum_of_squares(pieces)), expected);
                assert_eq!(sum_of_squares(pieces), expected);
            }
        }
    }

    #[test]
    fn pieces_may_split_their_work_again() {
        let total = AtomicU64::new(0);
        for_pieces(8, |_| {
            total.fetch_add(sum_of_squares(50), Ordering::Relaxed);
        });
        assert_eq!(total.into_inner(), 8 * (0..50u64).map(|piece| piece * piece).sum::<u64>());
    }

    #[test]
    fn a_panic_in_a_piece_reaches_the_caller_after_all_workers_have_left() {
        let result = catch_unwind(|| for_pieces(64, |piece| assert!(piece != 13, "piece thirteen")));
        let message = result.expect_err("the panic is passed on");
        assert_eq!(message.downcast_ref::<&str>().copied(), Some("piece thirteen"));
        assert_eq!(sum_of_squares(10), 285);
    }
}
