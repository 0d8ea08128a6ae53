//! Events: points in the order of a stream.

use super::check;
use cudarc::driver::sys;
use ternion_core::Result;

/// A point in a stream.
#[derive(Debug)]
pub(crate) struct Event(sys::CUevent);

// SAFETY: events are handles that every thread may use.
unsafe impl Send for Event {}
// SAFETY: as for Send.
unsafe impl Sync for Event {}

impl Event {
    /// Records an event after everything that is queued on `stream` so far. The context must be
    /// current.
    ///
    /// # Safety
    /// `stream` is a stream of this context, or one of the driver's special handles: 1, the legacy
    /// default stream, or 2, the per-thread default stream.
    pub(crate) unsafe fn record(op: &'static str, stream: sys::CUstream) -> Result<Event> {
        let mut event = std::ptr::null_mut();
        let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: the call writes a handle; the context is current.
        check(op, unsafe { sys::cuEventCreate(&mut event, flags) })?;
        let event = Event(event);
        // SAFETY: the event was just created; the caller guarantees the stream.
        check(op, unsafe { sys::cuEventRecord(event.0, stream) })?;
        Ok(event)
    }

    /// Makes `stream` wait for this event.
    ///
    /// # Safety
    /// As [`Event::record`].
    pub(crate) unsafe fn wait_on(&self, op: &'static str, stream: sys::CUstream) -> Result<()> {
        // SAFETY: the event is valid; the caller guarantees the stream.
        check(op, unsafe { sys::cuStreamWaitEvent(stream, self.0, 0) })
    }

    /// Returns whether everything before the event has ended, or can never end because of a fault.
    pub(crate) fn has_passed(&self) -> bool {
        // SAFETY: the event is valid.
        unsafe { sys::cuEventQuery(self.0) != sys::CUresult::CUDA_ERROR_NOT_READY }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: created by `record` and destroyed once; the driver keeps it while a stream waits
        // for it.
        let _ = unsafe { sys::cuEventDestroy_v2(self.0) };
    }
}
