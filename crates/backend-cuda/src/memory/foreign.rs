//! Memory shared with other libraries on the same device, and the order between their streams and
//! this one.
//!
//! What another library owns is given back to it only when every kernel here that was queued by
//! then has ended; nobody waits for that: an event in the stream says so, and is queried whenever
//! memory is shared again, given back, or the device is waited for.

use crate::driver::check;
use crate::driver::event::Event;
use crate::gpu::Gpu;
use cudarc::driver::sys;
use std::any::Any;
use std::sync::Arc;
use ternion_core::Result;

/// What keeps memory of others alive.
pub(crate) type Owner = Box<dyn Any + Send + Sync>;

/// Memory of another library.
#[derive(Debug)]
pub(crate) struct Foreign {
    pub(crate) address: u64,
    pub(crate) gpu: Arc<Gpu>,
    pub(crate) keeper: Keeper,
}

/// An owner, as something that can be printed.
pub(crate) struct Keeper(Option<Owner>);

impl Keeper {
    pub(crate) fn new(owner: Owner) -> Keeper {
        Keeper(Some(owner))
    }
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keeper")
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        if let Some(owner) = self.keeper.0.take() {
            self.gpu.give_back_foreign(owner);
        }
    }
}

/// Owners of memory that kernels may still use, each with the event behind the last of them; none
/// where it could not be recorded yet.
#[derive(Debug, Default)]
pub(crate) struct PendingReleases(Vec<(Option<Event>, Keeper)>);

impl Gpu {
    /// Releases `owner` when everything queued so far has ended.
    fn give_back_foreign(&self, owner: Owner) {
        let event = self.event_behind_all();
        self.pending_releases.lock().0.push((event, Keeper(Some(owner))));
        self.release_ended();
    }

    /// An event behind everything queued so far; none while a step is recorded, into which it would
    /// go.
    fn event_behind_all(&self) -> Option<Event> {
        // Buffers are dropped by whoever holds them last, which may hold a guard.
        let _guard = self.submission_guard_recursive();
        if self.is_recording() || self.context.bind_anew().is_err() {
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
                *event = self.event_behind_all();
            }
        }
        let (gone, kept): (Vec<_>, Vec<_>) =
            pending.into_iter().partition(|(event, _)| event.as_ref().is_some_and(Event::has_passed));
        self.pending_releases.lock().0.extend(kept);
        // With no lock held: owners may wait for locks of their own.
        drop(gone);
    }

    /// The device on which memory at `address` is.
    pub(crate) fn device_of(&self, address: usize) -> Result<i32> {
        let mut index = -1_i32;
        let attribute = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
        // SAFETY: writes a number; the driver looks the address up, and does not touch it.
        let code = unsafe { sys::cuPointerGetAttribute((&raw mut index).cast(), attribute, address as u64) };
        check("dlpack", code).map(|()| index)
    }
}
