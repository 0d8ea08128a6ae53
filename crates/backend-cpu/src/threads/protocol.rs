#![doc = include_str!("README.md")]

use super::sync::{
    AtomicUsize, MAX_SPINNING_WORKERS, Mutex, MutexGuard, Ordering, PAUSES_BEFORE_PARK, PAUSES_PER_ROUND,
    SPIN_ROUNDS, Thread, current, fence, park, spin_loop, yield_now,
};
use std::sync::{Arc, PoisonError};

/// The jobs of a process and the workers that look for them.
pub(super) struct JobQueue {
    /// The jobs that workers may join.
    pub(super) open: Mutex<Vec<Arc<Job>>>,
    /// The number of jobs that have been submitted (it may wrap around).
    pub(super) submitted: AtomicUsize,
    /// The number of workers that will look at the open jobs again before they return to the pool:
    /// workers that spin, and workers that run a job that they found while spinning.
    pub(super) spinning: AtomicUsize,
}

/// Runs a piece of work, given its index. `false` ends the job: no further piece is started. Never
/// unwinds.
pub(super) type Work<'a> = &'a (dyn Fn(usize) -> bool + Sync);

/// Numbered pieces that the caller and the workers take one after another.
pub(super) struct Job {
    /// Borrowed from the caller's stack: valid until the job is closed and every worker has left.
    work: *const (dyn Fn(usize) -> bool + Sync),
    pieces: usize,
    /// The index of the next piece.
    next: AtomicUsize,
    /// The number of workers that have joined and not left, and the flag [`CLOSED`].
    workers: AtomicUsize,
    caller: Thread,
}

/// Set in [`Job::workers`] when no worker may join any more.
const CLOSED: usize = 1 << (usize::BITS - 1);

// SAFETY: `work` is the only field that is not `Send`. It points to a `Sync` closure, which any
// thread may call, and only a worker that has joined dereferences it, while the caller keeps it
// alive.
unsafe impl Send for Job {}
// SAFETY: the other fields are `Sync`; `work` is never written, and may be called from several
// threads at the same time because the closure is `Sync`.
unsafe impl Sync for Job {}

impl JobQueue {
    /// Runs all pieces of a job on this thread and on the workers that come in time. Returns when
    /// no piece is running any more. `spawn` makes the pool run [`run_then_spin`] on the job at
    /// some time; it must not unwind.
    ///
    /// [`run_then_spin`]: JobQueue::run_then_spin
    pub(super) fn parallel_for(
        &self,
        pieces: usize,
        workers: usize,
        work: Work<'_>,
        spawn: impl Fn(Arc<Job>),
    ) {
        let job = Arc::new(Job::new(pieces, work));
        self.open_jobs().push(job.clone());
        self.submitted.fetch_add(1, Ordering::Relaxed);
        // (F1) Between submitting and reading the count: together with (F2), a counted worker sees
        // the job.
        fence(Ordering::SeqCst);
        for _ in self.spinning.load(Ordering::Relaxed)..workers {
            spawn(job.clone());
        }
        job.run_pieces(work);
        self.open_jobs().retain(|other| !Arc::ptr_eq(other, &job));
        job.close();
    }

    /// Runs a worker: it takes pieces of `job`, and then of the jobs that are submitted shortly
    /// after it.
    pub(super) fn run_then_spin(&self, job: Arc<Job>) {
        job.join();
        // The job's memory is not kept alive while the worker spins.
        drop(job);
        if self.start_spinning() {
            let seen = self.spin();
            self.stop_spinning(seen);
        }
    }

    /// Counts this worker as spinning, unless enough workers are spinning. Returns whether it was
    /// counted.
    pub(super) fn start_spinning(&self) -> bool {
        let one_more = |count: usize| (count < MAX_SPINNING_WORKERS).then_some(count + 1);
        self.spinning.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }

    /// Joins jobs as they are submitted, until it has found none for [`SPIN_ROUNDS`] rounds.
    /// Returns the number of submitted jobs that this worker has seen.
    pub(super) fn spin(&self) -> usize {
        let mut seen = self.submitted.load(Ordering::Relaxed);
        // The callers that submitted these jobs may count on this worker already, so it looks at
        // them first.
        self.join_open_jobs();
        let mut rounds = 0;
        while rounds < SPIN_ROUNDS {
            if self.join_newer_jobs(&mut seen) {
                rounds = 0;
                continue;
            }
            rounds += 1;
            (0..PAUSES_PER_ROUND).for_each(|_| spin_loop());
            yield_now();
        }
        seen
    }

    /// Removes this worker from the count, and looks once more.
    pub(super) fn stop_spinning(&self, mut seen: usize) {
        self.spinning.fetch_sub(1, Ordering::Relaxed);
        // (F2) Between leaving the count and looking: this worker sees the job of each caller that
        // still counted it.
        fence(Ordering::SeqCst);
        self.join_newer_jobs(&mut seen);
    }

    /// Joins the open jobs if any was submitted since `seen`. Returns whether this worker ran any
    /// piece of them.
    fn join_newer_jobs(&self, seen: &mut usize) -> bool {
        let submitted = self.submitted.load(Ordering::Relaxed);
        if submitted == *seen {
            return false;
        }
        *seen = submitted;
        self.join_open_jobs()
    }

    /// Joins open jobs until none of them has pieces left. Returns whether this worker ran any.
    fn join_open_jobs(&self) -> bool {
        let mut ran = false;
        while let Some(job) = self.job_with_pieces() {
            ran |= job.join();
        }
        ran
    }

    fn job_with_pieces(&self) -> Option<Arc<Job>> {
        self.open_jobs().iter().find(|job| job.has_pieces()).cloned()
    }

    fn open_jobs(&self) -> MutexGuard<'_, Vec<Arc<Job>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Job {
    pub(super) fn new(pieces: usize, work: Work<'_>) -> Job {
        Job {
            // SAFETY: only the lifetime changes. `parallel_for` does not return, and `work` stays
            // borrowed, until `close` has seen every worker leave; after that no thread
            // dereferences it.
            work: unsafe {
                std::mem::transmute::<Work<'_>, *const (dyn Fn(usize) -> bool + Sync + 'static)>(work)
            },
            pieces,
            next: AtomicUsize::new(0),
            workers: AtomicUsize::new(0),
            caller: current(),
        }
    }

    fn has_pieces(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.pieces
    }

    /// Takes and runs pieces until none is left. Returns whether it ran any.
    fn run_pieces(&self, work: Work<'_>) -> bool {
        let mut ran = false;
        loop {
            let piece = self.next.fetch_add(1, Ordering::Relaxed);
            if piece >= self.pieces {
                return ran;
            }
            ran = true;
            if !work(piece) {
                self.next.store(self.pieces, Ordering::Relaxed);
            }
        }
    }

    /// Runs pieces of the job on this worker, unless the job is closed. Returns whether it ran any
    /// piece.
    pub(super) fn join(&self) -> bool {
        let unless_closed = |workers: usize| (workers & CLOSED == 0).then_some(workers + 1);
        if self.workers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, unless_closed).is_err() {
            return false;
        }
        // SAFETY: the job was not closed when this worker was counted, so the caller does not
        // return from `close` before the `fetch_sub` below, and `work` is alive until then.
        let ran = self.run_pieces(unsafe { &*self.work });
        if self.workers.fetch_sub(1, Ordering::Release) == CLOSED | 1 {
            self.caller.unpark();
        }
        ran
    }

    /// Prevents further workers from joining, and waits until those that have joined have left.
    fn close(&self) {
        self.workers.fetch_or(CLOSED, Ordering::Relaxed);
        let mut pauses = 0;
        while self.workers.load(Ordering::Acquire) != CLOSED {
            pauses += 1;
            if pauses < PAUSES_BEFORE_PARK { spin_loop() } else { park() }
        }
    }
}
