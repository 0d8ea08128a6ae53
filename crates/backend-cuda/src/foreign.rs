//! Memory shared with other libraries on the same device, and the order between their streams and this one.
//!
//! What another library owns is given back to it only when every kernel here that was queued by then has ended; nobody waits for that: an event in the
//! stream tells it, and is looked at whenever memory is shared again, given back, or the device is waited for.

use crate::CudaBackend;
use crate::driver::check;
use crate::gpu::Gpu;
use crate::memory::CudaMemory;
use cudarc::driver::sys;
use std::any::Any;
use std::sync::Arc;
use ternion_core::backend::Buffer;
use ternion_core::{Error, Result};

/// What keeps memory of others alive.
pub(crate) type Owner = Box<dyn Any + Send + Sync>;

/// A place in a stream.
#[derive(Debug)]
struct Event(sys::CUevent);

// SAFETY: events are handles that the driver lets every thread use.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// Behind everything that is queued on `stream` so far. The context must be current.
    ///
    /// # Safety
    /// `stream` is a stream of this context, or one of the driver's own numbers: 1, the default stream, or 2, the thread's.
    unsafe fn behind(stream: sys::CUstream) -> Result<Event> {
        let mut event = std::ptr::null_mut();
        let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: writes a handle; the context is current.
        check("dlpack", unsafe { sys::cuEventCreate(&mut event, flags) })?;
        let event = Event(event);
        // SAFETY: the event was just made; the stream is the caller's word.
        check("dlpack", unsafe { sys::cuEventRecord(event.0, stream) })?;
        Ok(event)
    }

    /// Makes `stream` wait for it.
    ///
    /// # Safety
    /// As [`Event::behind`].
    unsafe fn hold_up(&self, stream: sys::CUstream) -> Result<()> {
        // SAFETY: the event lives; the stream is the caller's word.
        check("dlpack", unsafe { sys::cuStreamWaitEvent(stream, self.0, 0) })
    }

    /// Whether everything before it has ended, or will never end any more.
    fn has_passed(&self) -> bool {
        // SAFETY: the event lives.
        unsafe { sys::cuEventQuery(self.0) != sys::CUresult::CUDA_ERROR_NOT_READY }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: created by `behind` and destroyed once; the driver keeps it while a stream waits for it.
        let _ = unsafe { sys::cuEventDestroy_v2(self.0) };
    }
}

/// Memory of another library.
#[derive(Debug)]
pub(crate) struct Foreign {
    pub(crate) address: u64,
    pub(crate) gpu: Arc<Gpu>,
    pub(crate) keeper: Keeper,
}

/// An owner, as something that can be printed.
pub(crate) struct Keeper(Option<Owner>);

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

/// Owners of memory that kernels may still use, each with the event behind the last of them; none where it could not be recorded yet.
#[derive(Debug, Default)]
pub(crate) struct Leaving(Vec<(Option<Event>, Keeper)>);

impl Gpu {
    /// Lets `owner` go when everything queued so far has ended.
    fn give_back_foreign(&self, owner: Owner) {
        let event = self.behind_all();
        self.leaving.lock().0.push((event, Keeper(Some(owner))));
        self.let_go();
    }

    /// An event behind everything queued so far; none while a step is recorded, into which it would go.
    fn behind_all(&self) -> Option<Event> {
        // Buffers are dropped by whoever holds them last, which may hold a turn.
        let _turn = self.turn_again();
        if self.is_recording() || self.context.bind_anew().is_err() {
            return None;
        }
        // SAFETY: the stream lives as long as this.
        unsafe { Event::behind(self.stream()) }.ok()
    }

    /// Lets go the owners of memory that no kernel uses any more.
    pub(crate) fn let_go(&self) {
        let mut leaving = std::mem::take(&mut *self.leaving.lock()).0;
        for (event, _) in &mut leaving {
            if event.is_none() {
                *event = self.behind_all();
            }
        }
        let (gone, kept): (Vec<_>, Vec<_>) =
            leaving.into_iter().partition(|(event, _)| event.as_ref().is_some_and(Event::has_passed));
        self.leaving.lock().0.extend(kept);
        // With no lock held: owners may wait for locks of their own.
        drop(gone);
    }

    /// The device on which memory at `address` is.
    fn device_of(&self, address: usize) -> Result<i32> {
        let mut index = -1_i32;
        let attribute = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
        // SAFETY: writes a number; the driver looks the address up, and does not touch it.
        let code = unsafe { sys::cuPointerGetAttribute((&raw mut index).cast(), attribute, address as u64) };
        check("dlpack", code).map(|()| index)
    }
}

impl CudaBackend {
    /// The handle of the device's stream, for libraries that are to order their work against it.
    pub fn stream(&self) -> usize {
        self.gpu.stream() as usize
    }

    /// Makes `stream` wait for everything that was queued here so far.
    ///
    /// # Errors
    /// A step that is being recorded; a stream that the driver does not know.
    ///
    /// # Safety
    /// `stream` is a handle of a stream of the device's primary context, or 1, the default stream, or 2, the thread's.
    pub unsafe fn precede(&self, stream: usize) -> Result<()> {
        let _turn = self.gpu.turn();
        self.gpu.refuse_while_recording("dlpack")?;
        self.gpu.context.bind_anew()?;
        // SAFETY: the own stream lives as long as this, the other is the caller's word.
        unsafe { Event::behind(self.gpu.stream())?.hold_up(stream as sys::CUstream) }
    }

    /// Makes everything that is queued here from now on wait for what was queued on `stream`.
    ///
    /// # Errors
    /// As [`CudaBackend::precede`].
    ///
    /// # Safety
    /// As [`CudaBackend::precede`].
    pub unsafe fn follow(&self, stream: usize) -> Result<()> {
        let _turn = self.gpu.turn();
        self.gpu.refuse_while_recording("dlpack")?;
        self.gpu.context.bind_anew()?;
        // SAFETY: as above.
        unsafe { Event::behind(stream as sys::CUstream)?.hold_up(self.gpu.stream()) }
    }

    /// Waits for everything that any library has queued on the device's primary context.
    ///
    /// # Errors
    /// A step that is being recorded; faults of the device.
    pub fn synchronize_all(&self) -> Result<()> {
        let _turn = self.gpu.turn();
        self.gpu.refuse_while_recording("dlpack")?;
        self.gpu.context.bind_anew()?;
        let _ = self.gpu.stream();
        // SAFETY: the context is current.
        check("dlpack", unsafe { sys::cuCtxSynchronize() })
    }

    /// A buffer of `bytes` bytes from `address` on that `owner` keeps; it is let go when the kernels that use them have ended. What others have queued on
    /// these bytes must precede the stream: see [`CudaBackend::follow`].
    ///
    /// # Errors
    /// Memory that is not this device's; a step that is being recorded.
    ///
    /// # Safety
    /// The bytes stay readable and writable as long as `owner` lives.
    pub unsafe fn adopt(&self, address: usize, bytes: usize, owner: Owner) -> Result<Buffer> {
        self.gpu.refuse_while_recording("dlpack")?;
        self.gpu.context.bind_anew()?;
        if bytes > 0 {
            let (found, own) = (self.gpu.device_of(address)?, self.gpu.context.index);
            if found != own {
                let told = format!("expected memory of {}, got memory of cuda:{found}", self.gpu.name);
                return Err(Error::invalid("dlpack", told));
            }
        }
        self.gpu.let_go();
        let foreign = Foreign { address: address as u64, gpu: self.gpu.clone(), keeper: Keeper(Some(owner)) };
        let memory = CudaMemory::foreign(self.gpu.main_pool(), foreign, bytes);
        Ok(Buffer::new(memory))
    }
}
