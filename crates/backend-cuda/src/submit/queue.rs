//! The queue between ops and the driver.
//!
//! The driver takes 3 to 4 us to queue a kernel, most of what an op costs its thread. So ops that
//! follow one another closely leave their kernels here, and a thread of the device's own hands them
//! to the driver, in the same order:
//!
//! ```text
//!   op -> push -> | slot | slot | slot |  ... -> the queue's thread -> driver -> device
//!                 issued ^             ^ pushed
//! ```
//!
//! Whoever uses the stream otherwise (copies, marks, waiting, recording) first waits until nothing
//! is left here, or hands it over itself: the order of the stream is that of the calls. While the
//! thread sleeps, the first few launches go straight to the driver, so that a lone op wakes nobody;
//! and so do all while a step is recorded. The thread is started by the first burst of launches,
//! looks out for a while after each, then sleeps again.
//!
//! A launch whose kernel is still being compiled waits here too, and with it all that follow: the
//! program goes on, comes to the next kernels, and those are compiled at the same time.

use crate::driver::launch::LaunchConfig;
use crate::driver::stream::Stream;
use cudarc::driver::sys;
use parking_lot::Mutex;
use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Once, OnceLock, Weak};
use std::thread::{JoinHandle, Thread, ThreadId};
use std::time::{Duration, Instant};
use ternion_core::Error;

/// Launches that may wait: as many as the driver's own queue takes before it makes the caller wait.
const SLOTS: usize = 1024;

/// Bytes of parameters that a slot takes: those of every kernel but steps of optimisers and
/// concatenations, which name many tensors in them. Those wait until what is before them has been
/// handed over.
const ROOM: usize = 896;

/// Launches in a row that go straight to the driver before the thread is woken, which costs as much
/// as one of them.
const ALONE: usize = 8;

/// How long the thread looks out for the next launch before it sleeps: longer than a program is
/// busy between two ops of a step.
const PATIENCE: Duration = Duration::from_micros(200);

/// Turns of waiting after which a thread lets others run, and after which it sleeps in between: the
/// driver waits for the device then.
const TURNS: u32 = 128;
const MANY_TURNS: u32 = 64 * TURNS;
const NAP: Duration = Duration::from_micros(20);

/// Processors from which on one may be kept busy with this.
const PROCESSORS: usize = 4;

/// Who takes kernels.
pub(crate) trait LaunchTarget: Send + Sync + 'static {
    /// Queues a kernel.
    ///
    /// # Safety
    /// `parameters` points to the struct that the kernel takes, whose addresses are of buffers that
    /// are not reused but in the stream's order.
    unsafe fn launch(&self, config: &LaunchConfig, parameters: *mut c_void) -> sys::CUresult;
}

impl LaunchTarget for Stream {
    #[inline]
    unsafe fn launch(&self, config: &LaunchConfig, parameters: *mut c_void) -> sys::CUresult {
        // SAFETY: the caller vouches for the parameters.
        unsafe { self.launch_kernel(config, parameters) }
    }
}

/// A kernel that is not there yet when it is launched.
pub(crate) trait AwaitedKernel: Send + Sync + std::fmt::Debug {
    /// Waits for it. It may be launched with as much shared memory as the launch asks for.
    ///
    /// # Errors
    /// It cannot be compiled, or the driver does not take it.
    fn wait(&self) -> ternion_core::Result<sys::CUfunction>;
}

/// A launch that waits.
#[repr(C, align(64))]
struct Slot {
    config: LaunchConfig,
    op: &'static str,
    thread: ThreadId,
    parameters: Parameters,
}

/// A launch that was not made.
#[derive(Debug)]
pub(crate) struct Refusal {
    thread: ThreadId,
    pub(crate) op: &'static str,
    pub(crate) reason: Reason,
}

/// Why a launch was not made.
#[derive(Debug)]
pub(crate) enum Reason {
    /// What the driver said to it.
    Driver(sys::CUresult),
    /// Its kernel could not be had.
    Kernel(Error),
}

/// Parameters of a kernel, at an address that suits everything that they may hold: tensor maps too.
#[repr(C, align(64))]
struct Parameters(MaybeUninit<[u8; ROOM]>);

/// A number that one thread writes and another reads, in a cache line of its own (two, as
/// neighbours are fetched together).
#[repr(align(128))]
struct CachePadded(AtomicUsize);

/// Launches on their way to the driver.
pub(crate) struct SubmissionQueue<D> {
    pub(crate) target: D,
    slots: Box<[UnsafeCell<MaybeUninit<Slot>>]>,
    /// Launches that were put into slots so far: launch `n` into slot `n % SLOTS`. Written by the
    /// holder of `pushing`.
    pushed: CachePadded,
    /// Those of them that the driver has. Written by the holder of `issuing`.
    issued: CachePadded,
    pushing: Mutex<()>,
    issuing: Mutex<()>,
    /// The numbers of launches without a function, and what they wait for. Apart from the slots, whose head is one cache line.
    awaited: Mutex<VecDeque<(usize, Box<dyn AwaitedKernel>)>>,
    /// Launches in a row that went straight to the driver.
    alone: AtomicUsize,
    /// Whether something else than a launch may be the last in the stream. Changed by the holder of `pushing`,
    /// and set by whoever asks for the stream.
    follows_other_work: AtomicBool,
    /// Whether launches may go through the thread at all.
    is_used: bool,
    is_asleep: AtomicBool,
    is_stopped: AtomicBool,
    thread: OnceLock<Option<Thread>>,
    handle: Mutex<Option<JoinHandle<()>>>,
    /// Whether `refusals` holds any: changed by the holder of that lock.
    was_refused: AtomicBool,
    refusals: Mutex<Vec<Refusal>>,
}

// SAFETY: slots between `issued` and `pushed` are only read, by the holder of `issuing`; the others
// belong to the holder of `pushing`. Both numbers advance only after what they count. The handles in
// slots may be used by every thread.
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
    /// With a thread where there are processors enough; or as `TERNION_CUDA_LAUNCHER` says, 0 or 1.
    pub(crate) fn new(target: D) -> SubmissionQueue<D> {
        let is_wanted = match std::env::var_os("TERNION_CUDA_LAUNCHER").filter(|value| !value.is_empty()) {
            Some(value) => value != "0",
            None => std::thread::available_parallelism().map_or(1, usize::from) >= PROCESSORS,
        };
        SubmissionQueue::with_thread(target, is_wanted)
    }

    fn with_thread(target: D, is_used: bool) -> SubmissionQueue<D> {
        let slots = if is_used { SLOTS } else { 0 };
        SubmissionQueue {
            target,
            slots: (0..slots).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect(),
            pushed: CachePadded(AtomicUsize::new(0)),
            issued: CachePadded(AtomicUsize::new(0)),
            pushing: Mutex::default(),
            issuing: Mutex::default(),
            awaited: Mutex::default(),
            alone: AtomicUsize::new(0),
            follows_other_work: AtomicBool::new(true),
            is_used,
            is_asleep: AtomicBool::new(true),
            is_stopped: AtomicBool::new(false),
            thread: OnceLock::new(),
            handle: Mutex::default(),
            was_refused: AtomicBool::new(false),
            refusals: Mutex::default(),
        }
    }

    /// Launches a kernel of `op`, now or a little later; `at_once`: now. What the driver says to a
    /// later one is reported by [`SubmissionQueue::refused_to_this_thread`].
    ///
    /// # Safety
    /// The kernel takes one struct by value, whose twin `P` is. Its addresses are of buffers that
    /// are not reused but in the stream's order.
    #[inline]
    pub(crate) unsafe fn push<P>(
        self: &Arc<Self>,
        op: &'static str,
        config: LaunchConfig,
        parameters: &P,
        at_once: bool,
    ) -> sys::CUresult {
        const { assert!(align_of::<P>() <= align_of::<Parameters>()) };
        let _pushing = self.pushing.lock();
        let index = self.pushed.0.load(Ordering::Relaxed);
        let config = self.in_order(config);
        let goes_straight = at_once || !self.is_used || size_of::<P>() > ROOM;
        if goes_straight || self.is_lone(index) || self.is_stopped.load(Ordering::Relaxed) {
            self.issue_until(index);
            // SAFETY: the caller vouches for the parameters; what was pushed before has been
            // issued.
            return unsafe { self.target.launch(&config, std::ptr::from_ref(parameters).cast_mut().cast()) };
        }
        self.put(op, config, parameters, index);
        sys::CUresult::CUDA_SUCCESS
    }

    /// Whether launches can wait here.
    pub(crate) fn can_wait(&self) -> bool {
        self.is_used && !self.is_stopped.load(Ordering::Relaxed)
    }

    /// Whether those with parameters `P` can.
    pub(crate) fn has_room_for<P>(&self) -> bool {
        self.can_wait() && size_of::<P>() <= ROOM
    }

    /// Launches a kernel when it is there, as [`SubmissionQueue::push`] later ones. Only where [`SubmissionQueue::has_room_for`] `P`.
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
    ) {
        const { assert!(align_of::<P>() <= align_of::<Parameters>()) };
        assert!(self.is_used && size_of::<P>() <= ROOM, "there is a slot that the launch fits into");
        let _pushing = self.pushing.lock();
        let index = self.pushed.0.load(Ordering::Relaxed);
        self.awaited.lock().push_back((index, awaited));
        let config = LaunchConfig { function: std::ptr::null_mut(), ..self.in_order(config) };
        self.put(op, config, parameters, index);
        if self.is_stopped.load(Ordering::SeqCst) {
            self.issue_until(index + 1);
        }
    }

    /// A launch that may begin before the one ahead of it has ended does so only behind another launch of
    /// this queue's: copies, fills, marks, waits for other streams, graphs and whatever else the stream was
    /// asked for end first. Where another thread launches between the asking and the work, the driver's own
    /// rule is left: a kernel begins early behind a kernel alone. For the holder of `pushing`.
    #[inline]
    fn in_order(&self, mut config: LaunchConfig) -> LaunchConfig {
        if self.follows_other_work.load(Ordering::Relaxed) {
            self.follows_other_work.store(false, Ordering::Relaxed);
            config.attributes.dependent = false;
        }
        config
    }

    /// Launch `index` into its slot. For the holder of `pushing`; `P` fits.
    #[inline]
    fn put<P>(self: &Arc<Self>, op: &'static str, config: LaunchConfig, parameters: &P, index: usize) {
        self.wait_for_room(index);
        let slot = self.slots[index % SLOTS].get().cast::<Slot>();
        // SAFETY: the slot belongs to the holder of `pushing` until `pushed` counts it; `P` fits,
        // and its bytes are copied whatever they are.
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

    /// Whether a launch is one of few, for which nobody is to be woken.
    #[inline]
    fn is_lone(&self, index: usize) -> bool {
        let wakes = !self.is_asleep.load(Ordering::Relaxed) || index != self.issued.0.load(Ordering::Acquire);
        !wakes && self.alone.fetch_add(1, Ordering::Relaxed) < ALONE
    }

    /// Until there is a slot for launch `index`: whoever has the turn hands over.
    #[inline]
    fn wait_for_room(&self, index: usize) {
        if let Some(oldest) = (index + 1).checked_sub(SLOTS) {
            self.issue_until(oldest);
        }
    }

    /// Hands over everything that was pushed so far. What follows in the stream then follows it, and the next
    /// launch follows that.
    #[inline]
    pub(crate) fn drain(&self) {
        self.follows_other_work.store(true, Ordering::Relaxed);
        self.alone.store(0, Ordering::Relaxed);
        self.issue_until(self.pushed.0.load(Ordering::Acquire));
    }

    /// Until the first `target` launches have been handed over: by whoever has the turn.
    #[inline]
    fn issue_until(&self, target: usize) {
        let mut wait = Wait::default();
        while self.issued.0.load(Ordering::Acquire) < target {
            match self.issuing.try_lock() {
                Some(_guard) => self.issue(target),
                None => wait.a_little(),
            }
        }
    }

    /// Hands launches over. For the holder of `issuing`.
    fn issue(&self, target: usize) {
        for index in self.issued.0.load(Ordering::Relaxed)..target {
            let slot = self.slots[index % SLOTS].get().cast::<Slot>();
            // SAFETY: the slot was filled before `pushed` went beyond it, and is not filled anew
            // before `issued` does.
            if let Err(refusal) = unsafe { self.issue_slot(index, slot) } {
                self.note(refusal);
            }
            self.issued.0.store(index + 1, Ordering::Release);
        }
    }

    /// Launch `index`, which is in `slot`.
    ///
    /// # Safety
    /// The slot is filled, nobody writes to it meanwhile, and it is issued once.
    #[inline]
    unsafe fn issue_slot(&self, index: usize, slot: *mut Slot) -> Result<(), Refusal> {
        // SAFETY: the caller vouches for the slot.
        let (op, thread, function) = unsafe { ((*slot).op, (*slot).thread, (*slot).config.function) };
        let refusal = |reason| Refusal { thread, op, reason };
        if function.is_null()
            && let Some(awaited) = self.awaited_by(index)
        {
            let function = awaited.wait().map_err(|error| refusal(Reason::Kernel(error)))?;
            // SAFETY: as above.
            unsafe { (&raw mut (*slot).config.function).write(function) };
        }
        // SAFETY: as above; who pushed vouched for the parameters.
        match unsafe { self.target.launch(&(*slot).config, (&raw mut (*slot).parameters).cast()) } {
            sys::CUresult::CUDA_SUCCESS => Ok(()),
            code => Err(refusal(Reason::Driver(code))),
        }
    }

    #[cold]
    fn awaited_by(&self, index: usize) -> Option<Box<dyn AwaitedKernel>> {
        let mut awaited = self.awaited.lock();
        let is_next = awaited.front().is_some_and(|(number, _)| *number == index);
        if is_next { awaited.pop_front().map(|(_, kernel)| kernel) } else { None }
    }

    /// The first refusal of each thread is kept.
    #[cold]
    fn note(&self, refusal: Refusal) {
        let mut refusals = self.refusals.lock();
        if refusals.iter().all(|known| known.thread != refusal.thread) {
            refusals.push(refusal);
        }
        self.was_refused.store(true, Ordering::Release);
    }

    /// The first launch of this thread's that was not made since this was asked last, and why.
    #[inline]
    pub(crate) fn refused_to_this_thread(&self) -> Option<Refusal> {
        if self.was_refused.load(Ordering::Acquire) { self.take_refusal(false) } else { None }
    }

    /// The same of any thread's, this one's before others': what has been waited for has come to
    /// this. The others' are forgotten.
    #[inline]
    pub(crate) fn refused(&self) -> Option<Refusal> {
        if self.was_refused.load(Ordering::Acquire) { self.take_refusal(true) } else { None }
    }

    #[cold]
    fn take_refusal(&self, of_any: bool) -> Option<Refusal> {
        let own = std::thread::current().id();
        let mut refusals = self.refusals.lock();
        let at = refusals.iter().position(|refusal| refusal.thread == own);
        let found = at.or((of_any && !refusals.is_empty()).then_some(0)).map(|at| refusals.remove(at));
        if of_any {
            refusals.clear();
        }
        self.was_refused.store(!refusals.is_empty(), Ordering::Release);
        found
    }

    // ---- the thread

    #[cold]
    fn wake(self: &Arc<Self>) {
        self.alone.store(0, Ordering::Relaxed);
        match self.thread.get_or_init(|| self.start()) {
            Some(thread) => {
                self.is_asleep.store(false, Ordering::SeqCst);
                thread.unpark();
            }
            // No thread can be had.
            None => self.issue_until(self.pushed.0.load(Ordering::Acquire)),
        }
    }

    fn start(self: &Arc<Self>) -> Option<Thread> {
        let own = self.clone();
        let started = std::thread::Builder::new().name("ternion-cuda".into()).spawn(move || own.work());
        let handle = started.ok()?;
        let thread = handle.thread().clone();
        *self.handle.lock() = Some(handle);
        Some(thread)
    }

    fn work(&self) {
        while !self.is_stopped.load(Ordering::Acquire) {
            self.issue_until(self.pushed.0.load(Ordering::Acquire));
            if !self.look_out() {
                self.sleep();
            }
        }
    }

    /// Waits for a launch; whether one came before patience ended.
    fn look_out(&self) -> bool {
        let begin = Instant::now();
        let mut turns = 0u32;
        while !self.has_work() {
            std::hint::spin_loop();
            turns += 1;
            if turns.is_multiple_of(TURNS) && begin.elapsed() > PATIENCE {
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
        // Whoever pushes looks whether this sleeps afterwards: one of the two is seen.
        while self.is_asleep.load(Ordering::SeqCst) && !self.has_work() {
            std::thread::park();
        }
        self.is_asleep.store(false, Ordering::SeqCst);
    }

    /// Ends the thread and hands over what is left. What is launched afterwards goes straight to
    /// the driver.
    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
        if let Some(handle) = self.handle.lock().take() {
            handle.thread().unpark();
            let _ = handle.join();
        }
        self.drain();
    }
}

/// Waiting for another thread that is about to be done.
#[derive(Default)]
struct Wait {
    turns: u32,
}

impl Wait {
    #[inline]
    fn a_little(&mut self) {
        self.turns = self.turns.wrapping_add(1);
        match self.turns {
            turns if !turns.is_multiple_of(TURNS) => std::hint::spin_loop(),
            turns if turns < MANY_TURNS => std::thread::yield_now(),
            _ => std::thread::sleep(NAP),
        }
    }
}

/// Those of this process, whose devices may live as long as it does.
static QUEUES: Mutex<Vec<Weak<SubmissionQueue<Stream>>>> = Mutex::new(Vec::new());

/// Stops the queue before the process ends: the driver's own end must not find a thread in the
/// midst of a launch.
pub(crate) fn stop_with_process(queue: &Arc<SubmissionQueue<Stream>>) {
    static REGISTERED: Once = Once::new();
    let mut queues = QUEUES.lock();
    queues.retain(|queue| queue.strong_count() > 0);
    queues.push(Arc::downgrade(queue));
    // What is registered last is called first: the driver, which is there already, has registered
    // its own end before.
    // SAFETY: the function may be called at any time; it does not unwind.
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
