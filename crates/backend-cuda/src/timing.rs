//! Time on the device, and plain copies to compare it with: for benchmarks.

use crate::driver::check;
use crate::gpu::Gpu;
use cudarc::driver::sys;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use ternion_core::Result;

/// Pairs of events that are used in turn. When a mark is written depends on its event, by up to 0.8 us between two
/// pairs: a median over calls is of several pairs, so that it does not differ from one process to the next.
const PAIRS: usize = 16;

/// A mark in the stream of a device before some work and one behind it, and the time between them.
#[derive(Debug)]
pub struct Timer {
    gpu: Arc<Gpu>,
    pairs: Vec<Pair>,
    /// The measurements that have begun: the latest one has the pair before this.
    begun: AtomicUsize,
}

#[derive(Debug)]
struct Pair {
    begin: sys::CUevent,
    end: sys::CUevent,
}

impl Timer {
    pub(crate) fn new(gpu: &Arc<Gpu>) -> Result<Timer> {
        gpu.context.bind()?;
        let event = || {
            let mut event = std::ptr::null_mut();
            // SAFETY: writes a handle; the context is current.
            check("timer", unsafe {
                sys::cuEventCreate(&mut event, sys::CUevent_flags::CU_EVENT_DEFAULT as u32)
            })?;
            Ok(event)
        };
        let pairs = (0..PAIRS).map(|_| Ok(Pair { begin: event()?, end: event()? })).collect::<Result<_>>()?;
        Ok(Timer { gpu: gpu.clone(), pairs, begun: AtomicUsize::new(0) })
    }

    /// That of the latest measurement.
    fn pair(&self) -> &Pair {
        &self.pairs[self.begun.load(Ordering::Relaxed).wrapping_sub(1) % PAIRS]
    }

    fn mark(&self, event: sys::CUevent) -> Result<()> {
        let _guard = self.gpu.submission_guard();
        self.gpu.refuse_while_recording("timer")?;
        self.gpu.context.bind()?;
        // SAFETY: both handles live as long as this.
        check("timer", unsafe { sys::cuEventRecord(event, self.gpu.stream()) })
    }

    /// Marks the beginning, behind everything queued so far.
    ///
    /// # Errors
    /// Faults of the device.
    pub fn begin(&self) -> Result<()> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.mark(self.pair().begin)
    }

    /// Marks the end, behind everything queued so far.
    ///
    /// # Errors
    /// Faults of the device.
    pub fn end(&self) -> Result<()> {
        self.mark(self.pair().end)
    }

    /// Waits for the end; the milliseconds between the marks.
    ///
    /// # Errors
    /// Faults of the device.
    pub fn milliseconds(&self) -> Result<f64> {
        self.gpu.context.bind()?;
        let Pair { begin, end } = *self.pair();
        // SAFETY: the handle lives as long as this.
        check("timer", unsafe { sys::cuEventSynchronize(end) })?;
        let mut milliseconds = 0.0;
        // SAFETY: writes a number; both events were recorded.
        check("timer", unsafe { sys::cuEventElapsedTime_v2(&mut milliseconds, begin, end) })?;
        Ok(f64::from(milliseconds))
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        for event in self.pairs.iter().flat_map(|pair| [pair.begin, pair.end]) {
            // SAFETY: created by `new` and destroyed once.
            let _ = unsafe { sys::cuEventDestroy_v2(event) };
        }
    }
}

// SAFETY: events are handles that the driver lets every thread use.
unsafe impl Send for Timer {}
