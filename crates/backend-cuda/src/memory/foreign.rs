//! Memory shared with other libraries on the same device, and the order between their streams and
//! this one.
//!
//! Memory of another library is returned to it only after all kernels that were queued here so far
//! have ended. No thread waits for them. Instead an event is recorded in the stream. It is queried
//! whenever other memory is shared or released, and when the program waits for the device.

use crate::driver::check;
use crate::driver::event::Event;
use crate::gpu::Gpu;
use cudarc::driver::sys;
use std::any::Any;
use std::sync::Arc;
use ternion_core::Result;

/// An object that keeps another library's memory alive.
pub(crate) type Owner = Box<dyn Any + Send + Sync>;

/// Memory of another library.
#[derive(Debug)]
pub(crate) struct Foreign {
    pub(crate) address: u64,
    pub(crate) gpu: Arc<Gpu>,
    pub(crate) owner: OwnerHandle,
}

/// An owner, with an implementation of `Debug`; `None` after it was taken.
pub(crate) struct OwnerHandle(Option<Owner>);

impl OwnerHandle {
    pub(crate) fn new(owner: Owner) -> OwnerHandle {
        OwnerHandle(Some(owner))
    }
}

impl std::fmt::Debug for OwnerHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OwnerHandle")
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        if let Some(owner) = self.owner.0.take() {
            self.gpu.release_foreign(owner);
        }
    }
}

/// Owners of memory that kernels may still use, each with the event recorded after the last of
/// these kernels, or `None` if it could not be recorded yet.
#[derive(Debug, Default)]
pub(crate) struct PendingReleases(Vec<(Option<Event>, OwnerHandle)>);

impl Gpu {
    /// Releases `owner` when everything queued so far has ended.
    fn release_foreign(&self, owner: Owner) {
        let event = self.record_event_after_all();
        self.pending_releases.lock().0.push((event, OwnerHandle(Some(owner))));
        self.release_ended();
    }

    /// Records an event after everything queued so far. Returns `None` while a step is recorded,
    /// because the event would become part of it.
    fn record_event_after_all(&self) -> Option<Event> {
        // The last thread that uses a buffer drops it, and that thread may hold a guard.
        let _guard = self.submission_guard_recursive();
        if self.is_recording() || self.context.make_current().is_err() {
            return None;
        }
        // SAFETY: the stream lives as long as this.
        unsafe { Event::record("dlpack", self.stream()) }.ok()
    }

    /// Releases the owners of memory that no kernel uses any more.
    pub(crate) fn release_ended(&self) {
        let mut pending = std::mem::take(&mut *self.pending_releases.lock()).0;
        for (event, _) in &mut pending {
            if event.is_none() {
                *event = self.record_event_after_all();
            }
        }
        let (ended, unfinished): (Vec<_>, Vec<_>) =
            pending.into_iter().partition(|(event, _)| event.as_ref().is_some_and(Event::has_passed));
        self.pending_releases.lock().0.extend(unfinished);
        // The owners are dropped without holding a lock, because they may wait for locks
        // themselves.
        drop(ended);
    }

    /// Returns the index of the device that owns the memory at `address`.
    pub(crate) fn device_of(&self, address: usize) -> Result<i32> {
        let mut index = -1_i32;
        let attribute = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
        // SAFETY: the call writes an integer; the driver looks the address up and does not access
        // it.
        let code = unsafe { sys::cuPointerGetAttribute((&raw mut index).cast(), attribute, address as u64) };
        check("dlpack", code).map(|()| index)
    }
}
