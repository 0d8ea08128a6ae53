//! Support for other libraries on the same device: the order between their streams and this one,
//! and their memory as buffers.

use crate::backend::CudaBackend;
use crate::driver::check;
use crate::driver::event::Event;
use crate::memory::CudaMemory;
use crate::memory::foreign::{Foreign, Owner, OwnerHandle};
use cudarc::driver::sys;
use ternion_core::backend::Buffer;
use ternion_core::{Error, Result};

impl CudaBackend {
    /// Returns the handle of the device's stream, for libraries that order their work relative to
    /// it.
    pub fn stream(&self) -> usize {
        self.gpu.stream() as usize
    }

    /// Makes `stream` wait for everything that was queued here so far.
    ///
    /// # Errors
    /// A step is being recorded, or the driver does not know the stream.
    ///
    /// # Safety
    /// `stream` is a handle of a stream of the device's primary context, or 1, the legacy default
    /// stream, or 2, the per-thread default stream.
    pub unsafe fn make_stream_wait(&self, stream: usize) -> Result<()> {
        let _guard = self.gpu.submission_guard();
        self.gpu.check_not_recording("dlpack")?;
        self.gpu.context.make_current()?;
        // SAFETY: this backend's stream lives as long as this; the caller guarantees the other one.
        unsafe { Event::record("dlpack", self.gpu.stream())?.wait_on("dlpack", stream as sys::CUstream) }
    }

    /// Makes everything that is queued here from now on wait for the work that was queued on
    /// `stream` so far.
    ///
    /// # Errors
    /// As [`CudaBackend::make_stream_wait`].
    ///
    /// # Safety
    /// As [`CudaBackend::make_stream_wait`].
    pub unsafe fn wait_for_stream(&self, stream: usize) -> Result<()> {
        let _guard = self.gpu.submission_guard();
        self.gpu.check_not_recording("dlpack")?;
        self.gpu.context.make_current()?;
        // SAFETY: as in `make_stream_wait`.
        unsafe { Event::record("dlpack", stream as sys::CUstream)?.wait_on("dlpack", self.gpu.stream())? };
        // Submits the kernels that other threads have launched in the meantime: the next kernel
        // comes after the wait.
        let _ = self.gpu.stream();
        Ok(())
    }

    /// Waits for everything that any library has queued on the device's primary context.
    ///
    /// # Errors
    /// A step is being recorded, or the device has a fault.
    pub fn synchronize_all(&self) -> Result<()> {
        let _guard = self.gpu.submission_guard();
        self.gpu.check_not_recording("dlpack")?;
        self.gpu.context.make_current()?;
        let _ = self.gpu.stream();
        // SAFETY: the context is current.
        check("dlpack", unsafe { sys::cuCtxSynchronize() })
    }

    /// Returns a buffer of the `bytes` bytes at `address`. `owner` keeps this memory alive; it is
    /// dropped when the kernels that use the buffer have ended. If another library has queued work
    /// on these bytes, call [`CudaBackend::wait_for_stream`] with its stream before any op uses the
    /// buffer.
    ///
    /// # Errors
    /// The memory is not on this device, or a step is being recorded.
    ///
    /// # Safety
    /// The bytes stay readable and writable as long as `owner` lives.
    pub unsafe fn adopt(&self, address: usize, bytes: usize, owner: Owner) -> Result<Buffer> {
        self.gpu.check_not_recording("dlpack")?;
        self.gpu.context.make_current()?;
        if bytes > 0 {
            let (owner_index, this_device) = (self.gpu.device_of(address)?, self.gpu.context.index);
            if owner_index != this_device {
                let detail =
                    format!("expected memory of {}, got memory of cuda:{owner_index}", self.gpu.name);
                return Err(Error::invalid("dlpack", detail));
            }
        }
        self.gpu.release_ended();
        let foreign =
            Foreign { address: address as u64, gpu: self.gpu.clone(), owner: OwnerHandle::new(owner) };
        let memory = CudaMemory::foreign(self.gpu.main_pool(), foreign, bytes);
        let buffer = Buffer::new(memory);
        buffer.mark_externally_shared();
        Ok(buffer)
    }
}
