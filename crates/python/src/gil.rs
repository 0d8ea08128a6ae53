//! Runs work of Ternion from Python: with the GIL released if it takes long, never in a process
//! that was forked after Ternion was used, and with every panic converted to an exception.

use crate::error::{Outcome, RaisedError, callback_error};
use parking_lot::Mutex;
use pyo3::Python;
use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};
use ternion::autograd::{Grads, observe_backward};

/// The GIL is released for ops on at least this many elements. A smaller op takes less time than
/// releasing and reacquiring the GIL, which takes a tenth of a microsecond.
const MIN_DETACHED_ELEMENTS: usize = 1 << 12;

/// Whether an op ran in this process.
static USED: AtomicBool = AtomicBool::new(false);
/// Whether the process was forked after an op ran.
static FORKED: AtomicBool = AtomicBool::new(false);

/// Records the fork. The child process of a fork must call this.
pub fn mark_forked() {
    if USED.load(Ordering::Relaxed) {
        FORKED.store(true, Ordering::Relaxed);
    }
}

/// Runs `f`, which processes this number of elements.
pub fn run<T: Send>(
    py: Python<'_>,
    elements: usize,
    f: impl FnOnce() -> ternion::Result<T> + Send,
) -> Outcome<T> {
    if elements < MIN_DETACHED_ELEMENTS { run_guarded(f) } else { py.detach(|| run_guarded(f)) }
}

/// Runs `f`, which may wait for a device or for many ops.
pub fn wait<T: Send>(py: Python<'_>, f: impl FnOnce() -> ternion::Result<T> + Send) -> Outcome<T> {
    py.detach(|| run_guarded(f))
}

/// The time between two checks for signals.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// Runs `f`, a backward pass. If Ctrl-C, or another signal whose handler raises an exception,
/// arrives in the meantime, the backward pass ends with the exception.
pub fn interruptible<T>(f: impl FnOnce() -> ternion::Result<T>) -> ternion::Result<T> {
    let check = signal_checker();
    interruptible_parts(|| observe_backward(move |_: &'static str, _: &mut Grads| check(), f))
}

/// Same as [`interruptible`] for a replay of a recorded step, which can be interrupted between two
/// ops if the device runs them one by one, or for an op that checks between its blocks.
pub fn interruptible_parts<T>(f: impl FnOnce() -> ternion::Result<T>) -> ternion::Result<T> {
    ternion::interrupt::interruptible(signal_checker(), f)
}

/// Returns a function that checks for signals at intervals and returns the exception of a handler
/// as an error.
fn signal_checker() -> impl Fn() -> ternion::Result<()> {
    let last = Cell::new(Instant::now());
    move || {
        if last.get().elapsed() < SIGNAL_INTERVAL {
            return Ok(());
        }
        last.set(Instant::now());
        Python::attach(|py| py.check_signals().map_err(|error| callback_error("a signal", error)))
    }
}

/// Runs `f`, which may wait for a disk or a network, on a separate thread. Ctrl-C ends the wait at
/// any time. `f` then continues in the background, and its result is dropped.
pub fn wait_on_thread<T: Send + 'static>(
    py: Python<'_>,
    f: impl FnOnce() -> ternion::Result<T> + Send + 'static,
) -> Outcome<T> {
    let (sender, receiver) = sync_channel(1);
    // The receiver may no longer exist.
    let work = move || drop(sender.send(run_guarded(f)));
    let spawned = std::thread::Builder::new().name("ternion reader".into()).spawn(work);
    spawned.map_err(|error| RaisedError::runtime_error(format!("no thread to read on: {error}")))?;
    let receiver = Mutex::new(receiver);
    loop {
        match py.detach(|| receiver.lock().recv_timeout(SIGNAL_INTERVAL)) {
            Ok(outcome) => return outcome,
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(RaisedError::runtime_error("the thread that reads has ended"));
            }
        }
    }
}

fn run_guarded<T>(f: impl FnOnce() -> ternion::Result<T>) -> Outcome<T> {
    if FORKED.load(Ordering::Relaxed) {
        return Err(RaisedError::runtime_error(
            "this process was forked after ternion had been used, and devices and threads do not survive that: start processes with \
             multiprocessing's method \"spawn\", or fork before the first tensor",
        ));
    }
    USED.store(true, Ordering::Relaxed);
    // Tensors that a panic leaves incomplete are not yet accessible.
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(result) => Ok(result?),
        Err(panic) => Err(RaisedError::runtime_error(format!(
            "an error within ternion, please report it: {}",
            panic_message(&*panic)
        ))),
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words")
}
