//! Work cut into numbered pieces for several threads. How it is cut follows from shapes alone, never from the number of threads.
//!
//! The caller works off pieces itself and rayon's threads help as they come free. While it waits for them it runs nothing else: an op holds
//! the locks of its buffers, and a foreign task picked up meanwhile might want one of them.
//!
//! Ops follow each other within microseconds, and to wake a thread takes as long as a small op. So a helper whose job is done lingers: it looks for the
//! next job for a while before it goes back to rayon, and only helpers that do not linger are asked for there. Few linger: small ops have work for no more, and each that
//! looks is in the others' way.

use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Thread;

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

/// Runs `work` on ranges that together are `0..elements`.
#[inline]
pub(crate) fn for_ranges(elements: usize, piece: usize, work: impl Fn(Range<usize>) + Sync) {
    if elements <= piece {
        return work(0..elements);
    }
    let pieces = elements.div_ceil(piece);
    // Such a piece takes about as long as waking a thread: one is woken for every two.
    distribute(pieces, (pieces / 2).max(2), &|index| {
        work(index * piece..elements.min((index + 1) * piece));
    });
}

/// Runs `work` once for each number below `pieces`.
pub(crate) fn for_pieces(pieces: usize, work: impl Fn(usize) + Sync) {
    distribute(pieces, pieces, &work);
}

/// Runs `work` once for each number below `pieces`, on at most `threads` threads but for those that are awake already.
#[inline]
fn distribute(pieces: usize, threads: usize, work: &(impl Fn(usize) + Sync)) {
    let helpers = if pieces <= 1 { 0 } else { threads.min(rayon::current_num_threads()) - 1 };
    if helpers == 0 {
        (0..pieces).for_each(work);
    } else {
        share(pieces, helpers, work);
    }
}

/// Set in [`Job::helpers`] when no helper may start any more.
const CLOSED: usize = 1 << (usize::BITS - 1);
/// Rounds of waiting for a helper's last piece before the thread is put to sleep.
const SPINS: usize = 1 << 12;

/// Helpers that linger at most: with the caller as many as a small product has tiles (`ENOUGH_TILES` of matmul). Where all 15 of a machine of 16 processors did, a
/// training step of 0.5 ms took a fifth longer than on 4 threads.
const SEATS: usize = 3;
/// Looks for another job before a helper goes back to rayon: a tenth of a millisecond or so, in which Python forms the arguments of the next op.
const LOOKS: usize = 1 << 6;
/// Rounds of waiting between two looks, after which the processor is offered to whoever else is ready.
const ROUNDS: usize = 1 << 5;

/// The jobs that helpers may join.
static OPEN: Mutex<Vec<Arc<Job>>> = Mutex::new(Vec::new());
/// Grows with each job.
static OPENED: AtomicUsize = AtomicUsize::new(0);
/// Helpers that look for one.
static LINGERING: AtomicUsize = AtomicUsize::new(0);

fn open_jobs() -> std::sync::MutexGuard<'static, Vec<Arc<Job>>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a thread of rayon does for a job, and for those that follow it closely.
fn help_and_linger(job: Arc<Job>) {
    job.help();
    drop(job);
    let mut seen = OPENED.load(Ordering::Relaxed);
    let seat = |taken: usize| (taken < SEATS).then_some(taken + 1);
    if LINGERING.fetch_update(Ordering::SeqCst, Ordering::SeqCst, seat).is_err() {
        return;
    }
    let mut looks = 0;
    while looks < LOOKS {
        if help_newer(&mut seen) {
            looks = 0;
            continue;
        }
        looks += 1;
        (0..ROUNDS).for_each(|_| std::hint::spin_loop());
        std::thread::yield_now();
    }
    LINGERING.fetch_sub(1, Ordering::SeqCst);
    // Whoever opened a job meanwhile counted on this thread.
    help_newer(&mut seen);
}

/// Helps with what is open, if any job was opened since `seen`; whether there was anything left to do.
fn help_newer(seen: &mut usize) -> bool {
    fence(Ordering::SeqCst);
    let now = OPENED.load(Ordering::SeqCst);
    if now == *seen {
        return false;
    }
    *seen = now;
    let mut helped = false;
    while let Some(job) = job_with_pieces() {
        helped |= job.help();
    }
    helped
}

fn job_with_pieces() -> Option<Arc<Job>> {
    open_jobs().iter().find(|job| job.has_pieces()).cloned()
}

/// Pieces of work that several threads take from.
struct Job {
    /// Points into the caller's stack: alive until the job is closed and no helper is at work.
    work: *const (dyn Fn(usize) + Sync),
    pieces: usize,
    /// The number of the next piece.
    next: AtomicUsize,
    /// Helpers at work, and [`CLOSED`].
    helpers: AtomicUsize,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    caller: Thread,
}

// SAFETY: `work` is `Sync`; that it is alive where it is called is what `helpers` is for.
unsafe impl Send for Job {}
// SAFETY: as above.
unsafe impl Sync for Job {}

fn share(pieces: usize, helpers: usize, work: &(dyn Fn(usize) + Sync)) {
    let job = Arc::new(Job {
        // SAFETY: only the lifetime changes; `close` does not return while anyone may still use it.
        work: unsafe {
            std::mem::transmute::<*const (dyn Fn(usize) + Sync), *const (dyn Fn(usize) + Sync)>(work)
        },
        pieces,
        next: AtomicUsize::new(0),
        helpers: AtomicUsize::new(0),
        panic: Mutex::new(None),
        caller: std::thread::current(),
    });
    open_jobs().push(job.clone());
    OPENED.fetch_add(1, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    for _ in LINGERING.load(Ordering::SeqCst)..helpers {
        let job = job.clone();
        rayon::spawn(move || help_and_linger(job));
    }
    job.work_off(work);
    open_jobs().retain(|other| !Arc::ptr_eq(other, &job));
    job.close();
    let panic = job.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(panic) = panic {
        resume_unwind(panic);
    }
}

impl Job {
    fn has_pieces(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.pieces
    }

    /// Takes pieces until none is left; whether it took any. A panic ends the job and is kept for the caller.
    fn work_off(&self, work: &(dyn Fn(usize) + Sync)) -> bool {
        let mut took = false;
        let result = catch_unwind(AssertUnwindSafe(|| {
            loop {
                let piece = self.next.fetch_add(1, Ordering::Relaxed);
                if piece >= self.pieces {
                    break;
                }
                took = true;
                work(piece);
            }
        }));
        if let Err(panic) = result {
            self.next.store(self.pieces, Ordering::Relaxed);
            *self.panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic);
        }
        took
    }

    /// A helper's part: nothing, if it comes too late. Whether it took a piece.
    fn help(&self) -> bool {
        let enter = |count: usize| (count & CLOSED == 0).then_some(count + 1);
        if self.helpers.fetch_update(Ordering::Acquire, Ordering::Relaxed, enter).is_err() {
            return false;
        }
        // SAFETY: the job was open and this helper is counted, so the caller waits in `close` at the latest.
        let took = self.work_off(unsafe { &*self.work });
        if self.helpers.fetch_sub(1, Ordering::AcqRel) == CLOSED | 1 {
            self.caller.unpark();
        }
        took
    }

    /// Lets no further helper in and waits for those at work.
    fn close(&self) {
        self.helpers.fetch_or(CLOSED, Ordering::AcqRel);
        let mut spins = 0;
        while self.helpers.load(Ordering::Acquire) != CLOSED {
            spins += 1;
            if spins < SPINS { std::hint::spin_loop() } else { std::thread::park() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

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
    fn pieces_may_share_work_in_turn() {
        let total = AtomicU64::new(0);
        for_pieces(8, |_| {
            total.fetch_add(sum_of_squares(50), Ordering::Relaxed);
        });
        assert_eq!(total.into_inner(), 8 * (0..50u64).map(|piece| piece * piece).sum::<u64>());
    }

    #[test]
    fn a_panic_in_a_piece_reaches_the_caller_after_all_helpers_have_left() {
        let result = catch_unwind(|| for_pieces(64, |piece| assert!(piece != 13, "piece thirteen")));
        let message = result.expect_err("the panic is passed on");
        assert_eq!(message.downcast_ref::<&str>().copied(), Some("piece thirteen"));
        assert_eq!(sum_of_squares(10), 285);
    }
}
