//! Threads that compile kernels while the program continues.

use parking_lot::{Condvar, Mutex};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::hash::Hash;
use std::sync::Arc;

/// The maximum number of threads: each uses a few hundred MB while it compiles.
const MAX_WORKERS: usize = 16;

/// The values that are being created now, each by one thread.
#[derive(Debug)]
pub(super) struct InProgress<K> {
    latches: Mutex<FxHashMap<K, Arc<Latch>>>,
}

impl<K> Default for InProgress<K> {
    fn default() -> InProgress<K> {
        InProgress { latches: Mutex::default() }
    }
}

/// A latch that is opened once.
#[derive(Debug, Default)]
struct Latch {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Latch {
    fn wait(&self) {
        let mut is_open = self.is_open.lock();
        while !*is_open {
            self.opened.wait(&mut is_open);
        }
    }

    fn open(&self) {
        *self.is_open.lock() = true;
        self.opened.notify_all();
    }
}

/// The exclusive right to create a value. Other threads that need the value wait until the claim is
/// dropped.
#[derive(Debug)]
pub(super) struct Claim<'a, K: Copy + Eq + Hash> {
    in_progress: &'a InProgress<K>,
    key: K,
}

impl<K: Copy + Eq + Hash> Drop for Claim<'_, K> {
    fn drop(&mut self) {
        if let Some(latch) = self.in_progress.latches.lock().remove(&self.key) {
            latch.open();
        }
    }
}

/// Which thread creates a value.
#[derive(Debug)]
pub(super) enum Maker<'a, K: Copy + Eq + Hash, T> {
    /// None: the value exists already.
    Done(T),
    /// The caller.
    Caller(Claim<'a, K>),
    /// Another thread.
    Other,
}

impl<K: Copy + Eq + Hash> InProgress<K> {
    /// Returns which thread creates the value of `key`; if none does yet, the caller gets the
    /// claim. `find` returns the value if it exists.
    pub(super) fn claim<T>(&self, key: K, find: impl Fn() -> Option<T>) -> Maker<'_, K, T> {
        let mut latches = self.latches.lock();
        if let Some(found) = find() {
            return Maker::Done(found);
        }
        if latches.contains_key(&key) {
            return Maker::Other;
        }
        latches.insert(key, Arc::default());
        Maker::Caller(Claim { in_progress: self, key })
    }

    /// Waits until no thread is creating the value of `key`.
    pub(super) fn wait(&self, key: &K) {
        let latch = self.latches.lock().get(key).cloned();
        if let Some(latch) = latch {
            latch.wait();
        }
    }

    /// Gives up the claim so that another thread can take it over by [`InProgress::resume`] with
    /// the returned key.
    pub(super) fn transfer(claim: Claim<'_, K>) -> K {
        let key = claim.key;
        std::mem::forget(claim);
        key
    }

    /// Takes over the claim that another thread has given up by [`InProgress::transfer`].
    pub(super) fn resume(&self, key: K) -> Claim<'_, K> {
        Claim { in_progress: self, key }
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// Threads that run jobs. They are started when jobs arrive and end when there are none.
#[derive(Default)]
pub(super) struct Workers {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    workers: usize,
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.state.lock();
        f.debug_struct("Workers").field("jobs", &state.jobs.len()).field("workers", &state.workers).finish()
    }
}

impl Workers {
    fn max_threads() -> usize {
        std::thread::available_parallelism().map_or(1, usize::from).min(MAX_WORKERS)
    }

    /// Runs `job` on a new thread or on one that has finished another job; on this thread if no
    /// thread can be started.
    pub(super) fn run(self: &Arc<Self>, job: impl FnOnce() + Send + 'static) {
        let mut state = self.state.lock();
        state.jobs.push_back(Box::new(job));
        if state.workers >= Workers::max_threads() {
            return;
        }
        state.workers += 1;
        drop(state);
        let workers = self.clone();
        let started = std::thread::Builder::new()
            .name("ternion-compile".into())
            .spawn(move || workers.work_until_done());
        if started.is_err() {
            self.work_until_done();
        }
    }

    fn work_until_done(&self) {
        while let Some(job) = self.next() {
            // A panic has already printed its message. The thread that needs the job's result
            // compiles it again.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
        }
    }

    /// Returns the next job, or `None` to end the worker.
    fn next(&self) -> Option<Job> {
        let mut state = self.state.lock();
        let job = state.jobs.pop_front();
        if job.is_none() {
            state.workers -= 1;
        }
        job
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    #[test]
    fn one_thread_creates_a_value_and_the_others_wait_for_it() {
        let in_progress = InProgress::default();
        let (value, creations) = (Mutex::new(None), AtomicUsize::new(0));
        let find = || *value.lock();
        let number_of = || loop {
            match in_progress.claim("value", find) {
                Maker::Done(number) => break number,
                Maker::Other => in_progress.wait(&"value"),
                Maker::Caller(_claim) => {
                    std::thread::sleep(Duration::from_millis(5));
                    let number = creations.fetch_add(1, Ordering::SeqCst);
                    *value.lock() = Some(number);
                }
            }
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(number_of)).collect();
            threads.into_iter().for_each(|thread| assert_eq!(thread.join().expect("no panic"), 0));
        });
        assert_eq!(creations.into_inner(), 1, "created once");
        in_progress.wait(&"another value, which no thread creates");
    }

    #[test]
    fn after_a_failure_the_next_thread_creates_the_value() {
        let in_progress = InProgress::<u8>::default();
        let Maker::Caller(claim) = in_progress.claim(7, || None::<()>) else { panic!("no other thread") };
        assert!(matches!(in_progress.claim(7, || None::<()>), Maker::Other));
        assert!(matches!(in_progress.claim(8, || None::<()>), Maker::Caller(_)), "another key");
        drop(claim);
        assert!(matches!(in_progress.claim(7, || None::<()>), Maker::Caller(_)));
    }

    #[test]
    fn a_claim_is_transferred_to_another_thread() {
        let in_progress = Arc::new(InProgress::<u8>::default());
        let Maker::Caller(claim) = in_progress.claim(7, || None::<()>) else { panic!("no other thread") };
        let key = InProgress::transfer(claim);
        assert!(matches!(in_progress.claim(7, || None::<()>), Maker::Other), "still claimed");
        let (own, ended) = (in_progress.clone(), Arc::new(AtomicUsize::new(0)));
        let count = ended.clone();
        Arc::new(Workers::default()).run(move || {
            let _claim = own.resume(key);
            std::thread::sleep(Duration::from_millis(5));
            count.store(1, Ordering::SeqCst);
        });
        in_progress.wait(&7);
        assert_eq!(ended.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn every_job_runs_on_as_many_threads_as_there_may_be() {
        let workers = Arc::new(Workers::default());
        let [running, most, ended] = [0; 3].map(|_| Arc::new(AtomicUsize::new(0)));
        for number in 0..100 {
            let [running, most, ended] = [&running, &most, &ended].map(Arc::clone);
            workers.run(move || {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_micros(200));
                running.fetch_sub(1, Ordering::SeqCst);
                ended.fetch_add(1, Ordering::SeqCst);
                assert!(number % 10 != 3, "one job's fault is not another's");
            });
        }
        while ended.load(Ordering::SeqCst) < 100 || workers.state.lock().workers > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!((1..=Workers::max_threads()).contains(&most.load(Ordering::SeqCst)), "{most:?}");
    }
}
