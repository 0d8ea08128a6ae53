//! Time measurement on the device, for benchmarks.

use crate::driver::check;
use crate::gpu::Gpu;
use cudarc::driver::sys;
use std::sync::Arc;
use ternion_core::Result;

/// Two events in the stream of a device, and the time between them.
#[derive(Debug)]
pub struct Timer {
    gpu: Arc<Gpu>,
    begin: sys::CUevent,
    end: sys::CUevent,
}

impl Timer {
    pub(crate) fn new(gpu: &Arc<Gpu>) -> Result<Timer> {
        gpu.context.bind()?;
        let event = || {
            let mut event = std::ptr::null_mut();
            // SAFETY: the call writes a handle; the context is current.
            check("timer", unsafe {
                sys::cuEventCreate(&mut event, sys::CUevent_flags::CU_EVENT_DEFAULT as u32)
            })?;
            Ok(event)
        };
        Ok(Timer { gpu: gpu.clone(), begin: event()?, end: event()? })
    }

    fn record(&self, event: sys::CUevent) -> Result<()> {
        let _guard = self.gpu.submission_guard();
        self.gpu.check_not_recording("timer")?;
        self.gpu.context.bind()?;
        // SAFETY: both handles live as long as this.
        check("timer", unsafe { sys::cuEventRecord(event, self.gpu.stream()) })
    }

    /// Records the begin, after everything queued so far.
    ///
    /// # Errors
    /// A fault of the device.
    pub fn begin(&self) -> Result<()> {
        self.record(self.begin)
    }

    /// Records the end, after everything queued so far.
    ///
    /// # Errors
    /// A fault of the device.
    pub fn end(&self) -> Result<()> {
        self.record(self.end)
    }

    /// Waits for the end and returns the milliseconds between begin and end.
    ///
    /// # Errors
    /// A fault of the device.
    pub fn milliseconds(&self) -> Result<f64> {
        self.gpu.context.bind()?;
        // SAFETY: the handle lives as long as this.
        check("timer", unsafe { sys::cuEventSynchronize(self.end) })?;
        let mut milliseconds = 0.0;
        // SAFETY: the call writes a float; both events were recorded.
        check("timer", unsafe { sys::cuEventElapsedTime_v2(&mut milliseconds, self.begin, self.end) })?;
        Ok(f64::from(milliseconds))
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        for event in [self.begin, self.end] {
            // SAFETY: created by `new` and destroyed once.
            let _ = unsafe { sys::cuEventDestroy_v2(event) };
        }
    }
}

// SAFETY: events are handles that every thread may use.
unsafe impl Send for Timer {}
