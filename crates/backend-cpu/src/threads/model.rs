//! The protocol under loom, which runs a model in every interleaving of its threads and with every
//! value that the memory orderings allow a load to return. The protocol is the same file that
//! production code uses, compiled with loom's primitives (`model/sync.rs`).
//!
//! The tests check that each piece runs once; that `parallel_for` returns only when no piece is
//! running, and with everything that the pieces wrote visible; that a worker comes when a caller
//! counts on it; and that no more workers spin than allowed. Loom itself reports threads that wait
//! forever, and unordered accesses. Then the same models must fail with a planted fault: in the
//! primitives, or in a worker.

#[allow(clippy::duplicate_mod, reason = "the protocol is compiled a second time on purpose")]
#[path = "protocol.rs"]
mod protocol;
mod sync;

use loom::cell::UnsafeCell;
use loom::sync::Condvar;
use loom::thread::JoinHandle;
use protocol::{Job, JobQueue};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use sync::{AtomicUsize, Fault, MAX_SPINNING_WORKERS, Mutex, Ordering};

/// The function of a worker: [`JobQueue::run_then_spin`] or a faulty version of it.
type Worker = fn(&JobQueue, Arc<Job>);

/// A queue, and the threads that represent those of the pool.
struct Model {
    queue: JobQueue,
    worker: Worker,
    // A mutex of std, so that loom does not explore the order of its locking: loom switches no
    // thread while it is held.
    workers: std::sync::Mutex<Vec<JoinHandle<()>>>,
}

impl Model {
    fn new(worker: Worker) -> Arc<Model> {
        let queue = JobQueue {
            open: Mutex::new(Vec::new()),
            submitted: AtomicUsize::new(0),
            spinning: AtomicUsize::new(0),
        };
        Arc::new(Model { queue, worker, workers: std::sync::Mutex::default() })
    }

    /// Shares a job in which each piece runs `during`.
    fn parallel_for(self: &Arc<Model>, pieces: usize, workers: usize, during: impl Fn() + Sync) {
        let pieces: Vec<Piece> = (0..pieces).map(|_| Piece::default()).collect();
        let work = |index: usize| {
            pieces[index].run();
            during();
            true
        };
        self.queue.parallel_for(pieces.len(), workers, &work, |job| self.spawn(job));
        pieces.iter().for_each(Piece::check);
        assert!(self.spinning() <= MAX_SPINNING_WORKERS, "too many workers spin");
    }

    fn spawn(self: &Arc<Model>, job: Arc<Job>) {
        let model = self.clone();
        let handle = loom::thread::spawn(move || (model.worker)(&model.queue, job));
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).push(handle);
    }

    fn spinning(&self) -> usize {
        self.queue.spinning.load(Ordering::Relaxed)
    }

    /// Waits for all workers, and checks the final state.
    fn end(&self) {
        let workers = std::mem::take(&mut *self.workers.lock().unwrap_or_else(PoisonError::into_inner));
        workers.into_iter().for_each(|worker| worker.join().expect("a worker ends"));
        assert_eq!(self.spinning(), 0, "a worker has not counted itself out");
        assert!(self.queue.open.lock().expect("the open jobs").is_empty(), "a job was left open");
    }
}

/// The number of runs of a piece. Loom reports unordered accesses.
#[derive(Default)]
struct Piece(UnsafeCell<usize>);

// SAFETY: loom stops a model in which two threads access the cell at the same time.
unsafe impl Sync for Piece {}

impl Piece {
    fn run(&self) {
        // SAFETY: loom has checked that no other thread accesses the cell.
        self.0.with_mut(|runs| unsafe { *runs += 1 });
    }

    /// Called by the caller after the job. The access is mutable, as if the memory were freed: loom
    /// detects any access that is not finished.
    fn check(&self) {
        // SAFETY: loom has checked that no other thread accesses the cell.
        let runs = self.0.with_mut(|runs| unsafe { *runs });
        assert_eq!(runs, 1, "runs of a piece");
    }
}

/// A rendezvous of two threads: a piece that waits here ends only if a second thread arrives.
struct Rendezvous {
    arrived: Mutex<usize>,
    changed: Condvar,
}

impl Rendezvous {
    fn new() -> Rendezvous {
        Rendezvous { arrived: Mutex::new(0), changed: Condvar::new() }
    }

    fn wait(&self) {
        let mut arrived = self.arrived.lock().expect("the meeting");
        *arrived += 1;
        self.changed.notify_all();
        while *arrived < 2 {
            arrived = self.changed.wait(arrived).expect("the meeting");
        }
    }
}

/// One job, which a worker may join at any time or never.
fn one_job(worker: Worker) {
    let model = Model::new(worker);
    model.parallel_for(2, 1, || ());
    model.end();
}

/// A job that ends only if a worker comes, while another worker is about to spin, spins, or has
/// stopped: the caller spawns a worker or counts on that one.
fn a_job_next_to_a_spinning_worker(worker: Worker) {
    let model = Model::new(worker);
    model.spawn(Arc::new(Job::new(0, &|_| true)));
    let rendezvous = Rendezvous::new();
    model.parallel_for(2, 1, || rendezvous.wait());
    model.end();
}

/// Two jobs of one caller. The second job ends only if a worker comes.
fn two_jobs_in_turn(worker: Worker) {
    let model = Model::new(worker);
    model.parallel_for(2, 1, || ());
    let rendezvous = Rendezvous::new();
    model.parallel_for(2, 1, || rendezvous.wait());
    model.end();
}

/// Two simultaneous callers, one of which needs a worker that may have come for the other.
fn two_callers(worker: Worker) {
    let model = Model::new(worker);
    let other = model.clone();
    let caller = loom::thread::spawn(move || {
        let rendezvous = Rendezvous::new();
        other.parallel_for(2, 1, || rendezvous.wait());
    });
    model.parallel_for(1, 1, || ());
    caller.join().expect("the other caller ends");
    model.end();
}

/// More workers than are allowed to spin.
fn two_workers(worker: Worker) {
    let model = Model::new(worker);
    model.parallel_for(1, 2, || ());
    model.end();
}

/// Explores the interleavings of `scenario` with at most `preemptions` preemptions of running
/// threads.
fn explore(scenario: fn(Worker), worker: Worker, preemptions: usize) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || scenario(worker));
}

/// Asserts that some interleaving of `scenario` fails with `fault`, with a message that contains
/// `symptom`.
fn assert_found(fault: Fault, scenario: fn(Worker), worker: Worker, symptom: &str) {
    sync::plant(fault);
    let outcome = catch_unwind(AssertUnwindSafe(|| explore(scenario, worker, 2)));
    sync::plant(Fault::None);
    let panic = outcome.expect_err("a fault that no interleaving shows");
    let message = panic.downcast_ref::<String>().map(String::as_str);
    let message = message.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default();
    assert!(message.contains(symptom), "{fault:?} is found by another symptom: {message}");
}

#[test]
fn a_job_is_over_when_parallel_for_returns() {
    explore(one_job, JobQueue::run_then_spin, 3);
}

#[test]
fn a_worker_that_is_counted_on_comes() {
    explore(a_job_next_to_a_spinning_worker, JobQueue::run_then_spin, 2);
}

#[test]
fn a_worker_comes_to_the_second_of_two_jobs() {
    explore(two_jobs_in_turn, JobQueue::run_then_spin, 1);
}

#[test]
fn a_worker_comes_to_one_of_two_callers() {
    explore(two_callers, JobQueue::run_then_spin, 1);
}

#[test]
fn no_more_workers_spin_than_may() {
    explore(two_workers, JobQueue::run_then_spin, 2);
}

#[test]
fn loom_finds_each_fault_of_the_primitives() {
    for (fault, scenario, symptom) in [
        (Fault::NoFence, a_job_next_to_a_spinning_worker as fn(Worker), "deadlock"),
        (Fault::NoRelease, one_job, "Causality violation"),
        (Fault::NoAcquire, one_job, "Causality violation"),
        (Fault::NoUnpark, one_job, "deadlock"),
        (Fault::TornUpdate, two_workers, ""),
    ] {
        assert_found(fault, scenario, JobQueue::run_then_spin, symptom);
    }
}

/// [`JobQueue::run_then_spin`] without the last look after the worker has decremented `spinning`.
fn without_a_last_look(queue: &JobQueue, job: Arc<Job>) {
    job.join();
    if queue.start_spinning() {
        queue.spin();
        queue.spinning.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn loom_finds_that_a_worker_does_not_look_again() {
    assert_found(Fault::None, a_job_next_to_a_spinning_worker, without_a_last_look, "deadlock");
}
