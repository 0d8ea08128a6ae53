//! How work of Ternion runs from Python: with the interpreter let go where it takes long, never in a process that was forked behind its back, and
//! with every panic turned into an exception.

use crate::error::{Failure, Outcome, carried};
use parking_lot::Mutex;
use pyo3::Python;
use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};
use ternion::autograd::{Grads, observe_backward};

/// Elements from which on an op takes longer than letting go of the interpreter and getting it back, a tenth of a microsecond.
const LARGE: usize = 1 << 12;

/// Whether an op ran in this process; whether that was before it was forked.
static USED: AtomicBool = AtomicBool::new(false);
static FORKED: AtomicBool = AtomicBool::new(false);

/// To be called in the child of a fork.
pub fn forked() {
    if USED.load(Ordering::Relaxed) {
        FORKED.store(true, Ordering::Relaxed);
    }
}

/// Runs `f`, which works on so many elements.
pub fn run<T: Send>(
    py: Python<'_>,
    elements: usize,
    f: impl FnOnce() -> ternion::Result<T> + Send,
) -> Outcome<T> {
    if elements < LARGE { guarded(f) } else { py.detach(|| guarded(f)) }
}

/// Runs `f`, which may wait for a device or for many ops.
pub fn wait<T: Send>(py: Python<'_>, f: impl FnOnce() -> ternion::Result<T> + Send) -> Outcome<T> {
    py.detach(|| guarded(f))
}

/// Time between two looks whether the program is to be interrupted.
const PATIENCE: Duration = Duration::from_millis(50);

/// Runs `f`, a backward pass, which ends with the exception if Ctrl-C (or another signal with a handler that raises one) comes meanwhile.
pub fn interruptible<T>(f: impl FnOnce() -> ternion::Result<T>) -> ternion::Result<T> {
    let look = look_for_signals();
    interruptible_parts(|| observe_backward(move |_: &'static str, _: &mut Grads| look(), f))
}

/// As [`interruptible`], of a replay of a recorded step, which ends between two of its ops where the device runs them one by one, or of an op that looks between its blocks.
pub fn interruptible_parts<T>(f: impl FnOnce() -> ternion::Result<T>) -> ternion::Result<T> {
    ternion::interrupt::interruptible(look_for_signals(), f)
}

/// What looks for signals, now and then, and gives the exception of a handler as an error.
fn look_for_signals() -> impl Fn() -> ternion::Result<()> {
    let last = Cell::new(Instant::now());
    move || {
        if last.get().elapsed() < PATIENCE {
            return Ok(());
        }
        last.set(Instant::now());
        Python::attach(|py| py.check_signals().map_err(|error| carried("a signal", error)))
    }
}

/// Runs `f`, which may wait for a disk or a network, on a thread of its own: Ctrl-C ends the waiting, whatever `f` is at. It goes on for itself then, and nobody hears of it.
pub fn wait_apart<T: Send + 'static>(
    py: Python<'_>,
    f: impl FnOnce() -> ternion::Result<T> + Send + 'static,
) -> Outcome<T> {
    let (done, arrived) = sync_channel(1);
    // Nobody may be there any more to hear of it.
    let work = move || drop(done.send(guarded(f)));
    let spawned = std::thread::Builder::new().name("ternion reader".into()).spawn(work);
    spawned.map_err(|error| Failure::state(format!("no thread to read on: {error}")))?;
    let arrived = Mutex::new(arrived);
    loop {
        match py.detach(|| arrived.lock().recv_timeout(PATIENCE)) {
            Ok(outcome) => return outcome,
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::state("the thread that reads has ended"));
            }
        }
    }
}

fn guarded<T>(f: impl FnOnce() -> ternion::Result<T>) -> Outcome<T> {
    if FORKED.load(Ordering::Relaxed) {
        return Err(Failure::state(
            "this process was forked after ternion had been used, and devices and threads do not survive that: start processes with \
             multiprocessing's method \"spawn\", or fork before the first tensor",
        ));
    }
    USED.store(true, Ordering::Relaxed);
    // What a panic leaves half done is in tensors that nobody has yet.
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(result) => Ok(result?),
        Err(panic) => {
            Err(Failure::state(format!("an error within ternion, please report it: {}", said(&*panic))))
        }
    }
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words")
}
