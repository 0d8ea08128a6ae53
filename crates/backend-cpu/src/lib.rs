//! The CPU backend: every primitive in every dtype, fused forms of what is slow when composed, on rayon's threads.
//!
//! Results do not depend on the number of threads: work is cut into pieces whose sizes follow from shapes alone.
//! `select` is the one list of what runs; [`Backend::plan`] and [`Backend::run`] both go through it.

mod access;
mod column_sums;
mod custom;
mod dense;
mod elementwise;
mod float;
mod lanes;
mod memory;
mod number;
mod ops;
mod rows;
mod select;
mod simd;
mod storage;
#[cfg(test)]
mod testing;
mod threads;
mod transpose;
mod walk;

pub use custom::{CpuInput, CpuKernel, CpuOutput, register_custom_kernel};

use memory::{CpuMemory, Pool};
use std::sync::Arc;
use ternion_core::backend::{Backend, Buffer, MemoryStats, Meta, Plan, Unsupported, View};
use ternion_core::{Device, Error, Op, Result};

/// A device that runs on this machine's processor.
pub fn device() -> Device {
    Device::new(CpuBackend::new())
}

/// The CPU as a [`Backend`].
#[derive(Debug)]
pub struct CpuBackend {
    pool: Arc<Pool>,
}

impl CpuBackend {
    /// A backend with a memory pool of its own.
    pub fn new() -> CpuBackend {
        CpuBackend { pool: Arc::default() }
    }
}

impl Default for CpuBackend {
    fn default() -> Self {
        CpuBackend::new()
    }
}

/// The memory behind `buffer`, which must be this backend's.
fn memory<'a>(op: &'static str, buffer: &'a Buffer) -> Result<&'a CpuMemory> {
    buffer.downcast().ok_or_else(|| Error::invalid(op, "the buffer belongs to another backend"))
}

impl Backend for CpuBackend {
    fn name(&self) -> &str {
        "cpu"
    }

    #[inline]
    fn alloc(&self, bytes: usize) -> Result<Buffer> {
        Pool::alloc(&self.pool, bytes).map(Buffer::new)
    }

    fn upload(&self, host: &[u8], to: &Buffer, offset_bytes: usize) -> Result<()> {
        memory("upload", to)?.write(host, offset_bytes)
    }

    fn download(&self, from: &Buffer, offset_bytes: usize, host: &mut [u8]) -> Result<()> {
        memory("download", from)?.read(offset_bytes, host)
    }

    #[inline]
    fn plan(&self, op: &Op, inputs: &[Meta<'_>]) -> Result<Plan, Unsupported> {
        select::plan(op, inputs)
    }

    #[inline]
    fn run(&self, op: &Op, inputs: &[View<'_>], outputs: &[View<'_>]) -> Result<()> {
        match select::kernel(op, inputs) {
            Ok(kernel) => access::with_locked(op, inputs, outputs, kernel),
            Err(unsupported) => Err(Error::Unsupported {
                op: op.name(),
                device: "cpu".into(),
                why: unsupported.why.into_owned(),
            }),
        }
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    fn memory(&self) -> MemoryStats {
        self.pool.stats()
    }

    fn release_cached(&self) -> Result<()> {
        self.pool.release_cached();
        Ok(())
    }

    fn restart_peak(&self, floor: usize) {
        self.pool.restart_peak(floor);
    }
}
