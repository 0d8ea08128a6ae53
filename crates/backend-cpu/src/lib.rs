//! The CPU backend: every primitive in every dtype, fused kernels for ops whose composition is
//! slow, on rayon's threads.
//!
//! Results do not depend on the number of threads: work is split into pieces whose sizes depend
//! only on shapes. `select` is the only list of supported ops; [`Backend::plan`] and
//! [`Backend::run`] both use it.

mod access;
mod column_sums;
mod custom;
mod dense;
mod elementwise;
mod float;
mod kernel;
mod lanes;
mod memory;
mod number;
mod ops;
mod recording;
mod rows;
mod select;
mod simd;
mod storage;
mod strided_iter;
mod temporary;
#[cfg(test)]
mod testing;
mod threads;
mod transpose;

pub use custom::{CpuInput, CpuKernel, CpuOutput, register_custom_kernel};

use memory::{CpuMemory, Pool};
use recording::Recorder;
use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;
use ternion_core::backend::{Backend, Buffer, Capture, Interop, MemoryStats, Meta, Plan, Unsupported, View};
use ternion_core::{Device, Error, Op, Result};

/// Returns a device that runs on this machine's CPU.
pub fn device() -> Device {
    Device::new(CpuBackend::new())
}

/// The CPU as a [`Backend`].
#[derive(Debug)]
pub struct CpuBackend {
    pool: Arc<Pool>,
    recorder: Recorder,
}

impl CpuBackend {
    /// Creates a backend with a separate memory pool.
    pub fn new() -> CpuBackend {
        let pool: Arc<Pool> = Arc::default();
        CpuBackend { recorder: Recorder { pool: pool.clone() }, pool }
    }

    /// Wraps memory of another library: returns a buffer of `bytes` bytes that starts at `address`
    /// and is kept alive by `owner`.
    ///
    /// # Safety
    /// The bytes must stay readable and writable as long as `owner` lives, and must be aligned for
    /// the elements of every view of the buffer. Other code must not write them while an op runs,
    /// nor read them while an op writes them.
    pub unsafe fn adopt(&self, address: usize, bytes: usize, owner: Box<dyn Any + Send + Sync>) -> Buffer {
        let start =
            NonNull::new(std::ptr::with_exposed_provenance_mut(address)).unwrap_or(NonNull::dangling());
        // SAFETY: guaranteed by the caller.
        let buffer = Buffer::new(unsafe { Pool::adopt(&self.pool, start, bytes, owner) });
        buffer.mark_externally_shared();
        buffer
    }
}

impl Default for CpuBackend {
    fn default() -> Self {
        CpuBackend::new()
    }
}

/// Returns the memory of `buffer`, which must belong to this backend.
fn memory<'a>(op: &'static str, buffer: &'a Buffer) -> Result<&'a CpuMemory> {
    buffer.downcast().ok_or_else(|| Error::invalid(op, "the buffer belongs to another backend"))
}

impl Backend for CpuBackend {
    fn name(&self) -> &str {
        "cpu"
    }

    #[inline]
    fn alloc(&self, bytes: usize) -> Result<Buffer> {
        let buffer = Pool::alloc(&self.pool, bytes).map(Buffer::new)?;
        if recording::is_recording() {
            recording::record_allocation(&self.pool, &buffer);
        }
        Ok(buffer)
    }

    fn upload(&self, host: &[u8], to: &Buffer, offset_bytes: usize) -> Result<()> {
        recording::reject_while_recording("upload")?;
        memory("upload", to)?.write(host, offset_bytes)
    }

    fn download(&self, from: &Buffer, offset_bytes: usize, host: &mut [u8]) -> Result<()> {
        recording::reject_while_recording("download")?;
        memory("download", from)?.read(offset_bytes, host)
    }

    #[inline]
    fn plan(&self, op: &Op, inputs: &[Meta<'_>]) -> Result<Plan, Unsupported> {
        select::plan(op, inputs)
    }

    #[inline]
    fn run(&self, op: &Op, inputs: &[View<'_>], outputs: &[View<'_>]) -> Result<()> {
        let kernel = select::kernel(op, inputs).map_err(|unsupported| Error::Unsupported {
            op: op.name(),
            device: "cpu".into(),
            why: unsupported.why.into_owned(),
        })?;
        if recording::is_recording()
            && recording::record_call(&self.pool, op, kernel, inputs, outputs).is_some()
        {
            return Ok(());
        }
        access::with_locked(op, inputs, outputs, kernel)
    }

    fn synchronize(&self) -> Result<()> {
        recording::reject_while_recording("synchronize")
    }

    fn memory(&self) -> MemoryStats {
        let stats = self.pool.stats();
        MemoryStats { cached: stats.cached + temporary::cached_bytes(), ..stats }
    }

    fn release_cached(&self) -> Result<()> {
        self.pool.release_cached();
        temporary::release();
        Ok(())
    }

    fn restart_peak(&self, floor: usize) {
        self.pool.restart_peak(floor);
    }

    fn capture(&self) -> Option<&dyn Capture> {
        Some(&self.recorder)
    }

    fn interop(&self) -> Option<&dyn Interop> {
        Some(self)
    }
}

impl Interop for CpuBackend {
    fn address(&self, buffer: &Buffer) -> Option<usize> {
        if recording::is_recording() {
            return None;
        }
        let memory: &CpuMemory = buffer.downcast()?;
        buffer.mark_externally_shared();
        Some(memory.start().expose_provenance())
    }
}
