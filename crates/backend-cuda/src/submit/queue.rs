//! The queue between ops and the driver.
//!
//! The driver takes 3 to 4 us to queue a kernel, which is most of an op's time on its thread. So
//! ops that are called in quick succession push their kernels to this queue, and a dedicated thread
//! of the device submits them to the driver in the same order:
//!
//! ```text
//!   op -> push -> | slot | slot | slot |  ... -> the queue's thread -> driver -> device
//!                 issued ^             ^ pushed
//! ```
//!
//! Other users of the stream (copies, events, waits, recording) first wait until this queue is
//! empty, or submit its launches themselves, so the order of the stream is that of the calls. While
//! the thread sleeps, the first few launches go straight to the driver, so that a single op does
//! not wake it. While a step is recorded, all launches go straight to the driver. The first burst
//! of launches starts the thread. After each launch the thread polls for the next one for a while,
//! then it sleeps again.
//!
//! A launch whose kernel is still being compiled also waits here, and so do all later ones. The
//! program continues to its next kernels, which are compiled at the same time.

use crate::driver::launch::LaunchConfig;
use crate::driver::stream::Stream;
use crate::submit::history::LaunchHistory;
use cudarc::driver::sys;
use parking_lot::{Mutex, MutexGuard};
use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Once, OnceLock, Weak};
use std::thread::{JoinHandle, Thread, ThreadId};
use std::time::{Duration, Instant};
use ternion_core::Error;

/// The maximum number of waiting launches: as many as the driver's own queue takes before it blocks
/// the caller.
const SLOTS: usize = 1024;

/// Bytes of parameters that fit into a slot: enough for every kernel except optimizer steps and
/// concatenations, whose parameters contain many tensors. A launch of these kernels waits until all
/// earlier launches have been submitted.
const MAX_PARAMETER_BYTES: usize = 896;

/// The number of consecutive launches that go straight to the driver before the thread is woken. To
/// wake it costs as much as one launch.
const DIRECT_LAUNCHES: usize = 8;

/// How long the thread polls for the next launch before it sleeps: longer than a program takes
/// between two ops of a step.
const POLL_TIME: Duration = Duration::from_micros(200);

/// A waiting thread yields to other threads after each sequence of this many polls.
const SPIN_ROUNDS: u32 = 128;
/// The number of polls after which a waiting thread sleeps instead of yielding, because the driver
/// is then waiting for the device.
const SLEEP_ROUNDS: u32 = 64 * SPIN_ROUNDS;
/// How long a waiting thread then sleeps at a time.
const SLEEP_TIME: Duration = Duration::from_micros(20);

/// The minimum number of CPUs for which a queue has a thread, which may keep one of them busy.
const MIN_CPUS: usize = 4;

/// A receiver of kernels: the driver's stream, or a substitute in tests.
pub(crate) trait LaunchTarget: Send + Sync + 'static {
    /// Queues a kernel.
    ///
    /// # Safety
    /// `parameters` points to the struct that the kernel takes. The buffers at its addresses are
    /// reused only in the order of the stream.
    unsafe fn launch(&self, config: &LaunchConfig, parameters: *mut c_void) -> sys::CUresult;
}

impl LaunchTarget for Stream {
    #[inline]
    unsafe fn launch(&self, config: &LaunchConfig, parameters: *mut c_void) -> sys::CUresult {
        // SAFETY: the caller guarantees the parameters.
        unsafe { self.launch_kernel(config, parameters) }
    }
}

/// A kernel that is not yet compiled when it is launched.
pub(crate) trait AwaitedKernel: Send + Sync + std::fmt::Debug {
    /// Waits for the kernel. The returned function is allowed the shared memory that the launch
    /// requests.
    ///
    /// # Errors
    /// The kernel cannot be compiled, or the driver rejects it.
    fn wait(&self) -> ternion_core::Result<sys::CUfunction>;
}

/// A waiting launch.
#[repr(C, align(64))]
struct Slot {
    config: LaunchConfig,
    op: &'static str,
    thread: ThreadId,
    parameters: Parameters,
}

/// A launch that failed.
#[derive(Debug)]
pub(crate) struct LaunchError {
    thread: ThreadId,
    pub(crate) op: &'static str,
    pub(crate) reason: LaunchErrorReason,
}

/// Why a launch failed.
#[derive(Debug)]
pub(crate) enum LaunchErrorReason {
    /// The status that the driver returned.
    Driver(sys::CUresult),
    /// Its kernel could not be compiled or loaded.
    Kernel(Error),
}

/// Parameters of a kernel, aligned for all types that they may contain, including tensor maps.
#[repr(C, align(64))]
struct Parameters(MaybeUninit<[u8; MAX_PARAMETER_BYTES]>);

/// A counter that one thread writes and another reads, in its own cache line (two lines, because
/// adjacent ones are fetched together).
#[repr(align(128))]
struct CachePadded(AtomicUsize);

/// Launches that wait to be submitted to the driver.
pub(crate) struct SubmissionQueue<D> {
    pub(crate) target: D,
    slots: Box<[UnsafeCell<MaybeUninit<Slot>>]>,
    /// The number of launches that were put into slots so far: launch `n` into slot `n % SLOTS`.
    /// Written by the holder of `pushing`.
    pushed: CachePadded,
    /// The number of these launches that were submitted to the driver. Written by the holder of
    /// `issuing`.
    issued: CachePadded,
    /// Held by the thread that pushes a launch. The history is protected by the same lock, because
    /// another one would be a measurable part of a launch's time.
    pushing: Mutex<LaunchHistory>,
    issuing: Mutex<()>,
    /// The kernels of launches that are still being compiled, with the indices of the launches.
    /// They are not in the slots, so that the first fields of a slot fit into one cache line.
    awaited: Mutex<VecDeque<(usize, Box<dyn AwaitedKernel>)>>,
    /// The number of consecutive launches that went straight to the driver.
    direct_launches: AtomicUsize,
    /// Whether the last operation in the stream may be something other than a launch. Changed by
    /// the holder of `pushing`, and set by any thread that requests the stream.
    follows_other_work: AtomicBool,
    /// Whether launches may go through the thread at all.
    uses_thread: bool,
    is_asleep: AtomicBool,
    is_stopped: AtomicBool,
    /// The queue's thread, once it was started; `None` if it could not be started.
    thread: OnceLock<Option<Thread>>,
    /// The same thread, to wait for its end.
    handle: Mutex<Option<JoinHandle<()>>>,
    /// Whether `errors` is not empty. Changed by the holder of its lock.
    has_errors: AtomicBool,
    errors: Mutex<Vec<LaunchError>>,
}

// SAFETY: slots between `issued` and `pushed` are only read, by the holder of `issuing`; the others
// belong to the holder of `pushing`. Both counters advance only after the slots that they count
// were written or read. Every thread may use the handles in slots.
unsafe impl<D: Send + Sync> Sync for SubmissionQueue<D> {}
// SAFETY: as for Sync.
unsafe impl<D: Send + Sync> Send for SubmissionQueue<D> {}

impl<D> std::fmt::Debug for SubmissionQueue<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SubmissionQueue")
            .field("pushed", &self.pushed.0)
            .field("issued", &self.issued.0)
            .finish()
    }
}

impl<D: LaunchTarget> SubmissionQueue<D> {
    /// Creates a queue. It uses a thread if there are enough CPUs. `TERNION_CUDA_LAUNCHER`
    /// overrides this: 1 with a thread, 0 without.
    pub(crate) fn new(target: D) -> SubmissionQueue<D> {
        let uses_thread = match std::env::var_os("TERNION_CUDA_LAUNCHER").filter(|value| !value.is_empty()) {
            Some(value) => value != "0",
            None => std::thread::available_parallelism().map_or(1, usize::from) >= MIN_CPUS,
        };
        SubmissionQueue::with_thread(target, uses_thread)
    }

    fn with_thread(target: D, uses_thread: bool) -> SubmissionQueue<D> {
        let slots = if uses_thread { SLOTS } else { 0 };
        SubmissionQueue {
            target,
            slots: (0..slots).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect(),
            pushed: CachePadded(AtomicUsize::new(0)),
            issued: CachePadded(AtomicUsize::new(0)),
            pushing: Mutex::new(LaunchHistory::new()),
            issuing: Mutex::default(),
            awaited: Mutex::default(),
            direct_launches: AtomicUsize::new(0),
            follows_other_work: AtomicBool::new(true),
            uses_thread,
            is_asleep: AtomicBool::new(true),
            is_stopped: AtomicBool::new(false),
            thread: OnceLock::new(),
            handle: Mutex::default(),
            has_errors: AtomicBool::new(false),
            errors: Mutex::default(),
        }
    }

    /// Returns the history of launches. No launch is pushed while the guard exists.
    pub(crate) fn history(&self) -> MutexGuard<'_, LaunchHistory> {
        self.pushing.lock()
    }

    /// Launches a kernel of `op`: immediately if `at_once` is set, otherwise possibly later, on the
    /// queue's thread. `record` adds the launch to the history. The driver's error for a later
    /// launch is reported by [`SubmissionQueue::take_error_of_this_thread`].
    ///
    /// # Safety
    /// The kernel takes one struct by value, which `P` mirrors. The buffers at its addresses are
    /// reused only in the order of the stream.
    #[inline]
    pub(crate) unsafe fn push<P>(
        self: &Arc<Self>,
        op: &'static str,
        config: LaunchConfig,
        parameters: &P,
        at_once: bool,
        record: impl FnOnce(&mut LaunchHistory),
    ) -> sys::CUresult {
        const { assert!(align_of::<P>() <= align_of::<Parameters>()) };
        let mut history = self.pushing.lock();
        record(&mut history);
        let index = self.pushed.0.load(Ordering::Relaxed);
        let config = self.in_order(config);
        let is_direct = at_once || !self.uses_thread || size_of::<P>() > MAX_PARAMETER_BYTES;
        if is_direct || self.is_isolated(index) || self.is_stopped.load(Ordering::Relaxed) {
            self.issue_until(index);
            // SAFETY: the caller guarantees the parameters; everything pushed before has been
            // issued.
            return unsafe { self.target.launch(&config, std::ptr::from_ref(parameters).cast_mut().cast()) };
        }
        self.write_slot(op, config, parameters, index);
        sys::CUresult::CUDA_SUCCESS
    }

    /// Returns whether launches can wait here.
    pub(crate) fn can_wait(&self) -> bool {
        self.uses_thread && !self.is_stopped.load(Ordering::Relaxed)
    }

    /// Returns whether launches with parameters `P` can wait here.
    pub(crate) fn fits_slot<P>(&self) -> bool {
        self.can_wait() && size_of::<P>() <= MAX_PARAMETER_BYTES
    }

    /// Launches a kernel when it is compiled, like the later launches of [`SubmissionQueue::push`].
    /// Requires [`SubmissionQueue::fits_slot`] for `P`.
    ///
    /// # Safety
    /// As for [`SubmissionQueue::push`].
    #[cold]
    pub(crate) unsafe fn push_awaited<P>(
        self: &Arc<Self>,
        op: &'static str,
        config: LaunchConfig,
        awaited: Box<dyn AwaitedKernel>,
        parameters: &P,
        record: impl FnOnce(&mut LaunchHistory),
    ) {
        const { assert!(align_of::<P>() <= align_of::<Parameters>()) };
        assert!(
            self.uses_thread && size_of::<P>() <= MAX_PARAMETER_BYTES,
            "there is a slot that the launch fits into"
        );
        let mut history = self.pushing.lock();
        record(&mut history);
        let index = self.pushed.0.load(Ordering::Relaxed);
        self.awaited.lock().push_back((index, awaited));
        let config = LaunchConfig { function: std::ptr::null_mut(), ..self.in_order(config) };
        self.write_slot(op, config, parameters, index);
        if self.is_stopped.load(Ordering::SeqCst) {
            self.issue_until(index + 1);
        }
    }

    /// Clears a launch's permission to begin before the previous one has ended, unless the launch
    /// directly follows another launch of this queue. So the launch waits for copies, fills,
    /// events, waits for other streams, graphs and any other work of the stream. If another thread
    /// launches after the stream was requested and before that work is added, only the driver's own
    /// rule is left: a kernel begins early only after another kernel. The caller holds `pushing`.
    #[inline]
    fn in_order(&self, mut config: LaunchConfig) -> LaunchConfig {
        if self.follows_other_work.load(Ordering::Relaxed) {
            self.follows_other_work.store(false, Ordering::Relaxed);
            config.attributes.is_dependent = false;
        }
        config
    }

    /// Writes launch `index` to its slot. The caller holds `pushing`, and `P` fits into a slot.
    #[inline]
    fn write_slot<P>(self: &Arc<Self>, op: &'static str, config: LaunchConfig, parameters: &P, index: usize) {
        self.wait_for_slot(index);
        let slot = self.slots[index % SLOTS].get().cast::<Slot>();
        // SAFETY: the slot belongs to the holder of `pushing` until `pushed` counts it; `P` fits,
        // and its bytes may be copied, whatever their values.
        unsafe {
            (&raw mut (*slot).config).write(config);
            (&raw mut (*slot).op).write(op);
            (&raw mut (*slot).thread).write(std::thread::current().id());
            let bytes = (&raw mut (*slot).parameters).cast::<u8>();
            std::ptr::copy_nonoverlapping(std::ptr::from_ref(parameters).cast::<u8>(), bytes, size_of::<P>());
        }
        self.pushed.0.store(index + 1, Ordering::SeqCst);
        if self.is_asleep.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    /// Returns whether a launch goes straight to the driver: the thread sleeps, no launch is
    /// waiting, and fewer than `DIRECT_LAUNCHES` did so in a row.
    #[inline]
    fn is_isolated(&self, index: usize) -> bool {
        let wakes = !self.is_asleep.load(Ordering::Relaxed) || index != self.issued.0.load(Ordering::Acquire);
        !wakes && self.direct_launches.fetch_add(1, Ordering::Relaxed) < DIRECT_LAUNCHES
    }

    /// Waits until the slot of launch `index` is free. The thread that holds `issuing` submits the
    /// launches.
    #[inline]
    fn wait_for_slot(&self, index: usize) {
        if let Some(oldest) = (index + 1).checked_sub(SLOTS) {
            self.issue_until(oldest);
        }
    }

    /// Submits everything that was pushed so far. Work that the caller then adds to the stream runs
    /// after these launches and before the next one.
    #[inline]
    pub(crate) fn drain(&self) {
        self.follows_other_work.store(true, Ordering::Relaxed);
        self.direct_launches.store(0, Ordering::Relaxed);
        self.issue_until(self.pushed.0.load(Ordering::Acquire));
    }

    /// Waits until the first `target` launches have been submitted, by the thread that holds
    /// `issuing`.
    #[inline]
    fn issue_until(&self, target: usize) {
        let mut wait = Wait::default();
        while self.issued.0.load(Ordering::Acquire) < target {
            match self.issuing.try_lock() {
                Some(_guard) => self.issue(target),
                None => wait.backoff(),
            }
        }
    }

    /// Submits the launches with indices below `target`. The caller holds `issuing`.
    fn issue(&self, target: usize) {
        for index in self.issued.0.load(Ordering::Relaxed)..target {
            let slot = self.slots[index % SLOTS].get().cast::<Slot>();
            // SAFETY: the slot was filled before `pushed` counted it, and is not filled again
            // before `issued` counts it.
            if let Err(launch_error) = unsafe { self.issue_slot(index, slot) } {
                self.record_error(launch_error);
            }
            self.issued.0.store(index + 1, Ordering::Release);
        }
    }

    /// Submits launch `index`, which is in `slot`.
    ///
    /// # Safety
    /// The slot is filled, no other thread writes to it during the call, and it is issued once.
    #[inline]
    unsafe fn issue_slot(&self, index: usize, slot: *mut Slot) -> Result<(), LaunchError> {
        // SAFETY: the caller guarantees the slot.
        let (op, thread, function) = unsafe { ((*slot).op, (*slot).thread, (*slot).config.function) };
        let launch_error = |reason| LaunchError { thread, op, reason };
        if function.is_null()
            && let Some(awaited) = self.take_awaited(index)
        {
            let function = awaited.wait().map_err(|error| launch_error(LaunchErrorReason::Kernel(error)))?;
            // SAFETY: as above.
            unsafe { (&raw mut (*slot).config.function).write(function) };
        }
        // SAFETY: as above; the caller of `push` guaranteed the parameters.
        match unsafe { self.target.launch(&(*slot).config, (&raw mut (*slot).parameters).cast()) } {
            sys::CUresult::CUDA_SUCCESS => Ok(()),
            code => Err(launch_error(LaunchErrorReason::Driver(code))),
        }
    }

    #[cold]
    fn take_awaited(&self, index: usize) -> Option<Box<dyn AwaitedKernel>> {
        let mut awaited = self.awaited.lock();
        let is_next = awaited.front().is_some_and(|(awaited_index, _)| *awaited_index == index);
        if is_next { awaited.pop_front().map(|(_, kernel)| kernel) } else { None }
    }

    /// Records the first error of each thread.
    #[cold]
    fn record_error(&self, launch_error: LaunchError) {
        let mut errors = self.errors.lock();
        if errors.iter().all(|known| known.thread != launch_error.thread) {
            errors.push(launch_error);
        }
        self.has_errors.store(true, Ordering::Release);
    }

    /// Returns the first launch of this thread that failed since the last call, and why.
    #[inline]
    pub(crate) fn take_error_of_this_thread(&self) -> Option<LaunchError> {
        if self.has_errors.load(Ordering::Acquire) { self.take_error(false) } else { None }
    }

    /// As `take_error_of_this_thread`, but if this thread has none, returns that of another thread.
    /// Discards all others. Called after a wait for the device.
    #[inline]
    pub(crate) fn take_error_of_any_thread(&self) -> Option<LaunchError> {
        if self.has_errors.load(Ordering::Acquire) { self.take_error(true) } else { None }
    }

    #[cold]
    fn take_error(&self, any_thread: bool) -> Option<LaunchError> {
        let this_thread = std::thread::current().id();
        let mut errors = self.errors.lock();
        let index = errors.iter().position(|error| error.thread == this_thread);
        let taken =
            index.or((any_thread && !errors.is_empty()).then_some(0)).map(|index| errors.remove(index));
        if any_thread {
            errors.clear();
        }
        self.has_errors.store(!errors.is_empty(), Ordering::Release);
        taken
    }

    // ---- The queue's thread

    #[cold]
    fn wake(self: &Arc<Self>) {
        self.direct_launches.store(0, Ordering::Relaxed);
        match self.thread.get_or_init(|| self.start_thread()) {
            Some(thread) => {
                self.is_asleep.store(false, Ordering::SeqCst);
                thread.unpark();
            }
            // No thread could be started.
            None => self.issue_until(self.pushed.0.load(Ordering::Acquire)),
        }
    }

    fn start_thread(self: &Arc<Self>) -> Option<Thread> {
        let queue = self.clone();
        let started =
            std::thread::Builder::new().name("ternion-cuda".into()).spawn(move || queue.run_thread());
        let handle = started.ok()?;
        let thread = handle.thread().clone();
        *self.handle.lock() = Some(handle);
        Some(thread)
    }

    fn run_thread(&self) {
        while !self.is_stopped.load(Ordering::Acquire) {
            self.issue_until(self.pushed.0.load(Ordering::Acquire));
            if !self.poll() {
                self.sleep();
            }
        }
    }

    /// Polls for a launch; returns whether one came within `POLL_TIME`.
    fn poll(&self) -> bool {
        let begin = Instant::now();
        let mut rounds = 0u32;
        while !self.has_work() {
            std::hint::spin_loop();
            rounds += 1;
            if rounds.is_multiple_of(SPIN_ROUNDS) && begin.elapsed() > POLL_TIME {
                return false;
            }
        }
        true
    }

    fn has_work(&self) -> bool {
        self.pushed.0.load(Ordering::SeqCst) != self.issued.0.load(Ordering::Acquire)
            || self.is_stopped.load(Ordering::Acquire)
    }

    fn sleep(&self) {
        self.is_asleep.store(true, Ordering::SeqCst);
        // A thread that pushes checks afterward whether this thread sleeps, so at least one of the
        // two sees the other.
        while self.is_asleep.load(Ordering::SeqCst) && !self.has_work() {
            std::thread::park();
        }
        self.is_asleep.store(false, Ordering::SeqCst);
    }

    /// Ends the thread and submits the remaining launches. Later launches go straight to the
    /// driver.
    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
        if let Some(handle) = self.handle.lock().take() {
            handle.thread().unpark();
            let _ = handle.join();
        }
        self.drain();
    }
}

/// A wait for another thread that is about to finish.
#[derive(Default)]
struct Wait {
    rounds: u32,
}

impl Wait {
    #[inline]
    fn backoff(&mut self) {
        self.rounds = self.rounds.wrapping_add(1);
        match self.rounds {
            rounds if !rounds.is_multiple_of(SPIN_ROUNDS) => std::hint::spin_loop(),
            rounds if rounds < SLEEP_ROUNDS => std::thread::yield_now(),
            _ => std::thread::sleep(SLEEP_TIME),
        }
    }
}

/// The queues of this process, whose devices may live as long as it does.
static QUEUES: Mutex<Vec<Weak<SubmissionQueue<Stream>>>> = Mutex::new(Vec::new());

/// Stops the queue before the process ends: a thread must not be in the middle of a launch when the
/// driver shuts down.
pub(crate) fn stop_with_process(queue: &Arc<SubmissionQueue<Stream>>) {
    static REGISTERED: Once = Once::new();
    let mut queues = QUEUES.lock();
    queues.retain(|queue| queue.strong_count() > 0);
    queues.push(Arc::downgrade(queue));
    // Exit handlers run in reverse order of registration. The driver is already loaded and has
    // registered its own handler before this one. SAFETY: the function may be called at any time;
    // it does not unwind.
    REGISTERED.call_once(|| unsafe {
        libc::atexit(stop_all);
    });
}

extern "C" fn stop_all() {
    let queues: Vec<_> = QUEUES.lock().iter().filter_map(Weak::upgrade).collect();
    queues.iter().for_each(|queue| queue.stop());
}

#[cfg(test)]
mod tests;
