//! Device memory: the memory of tensors, and the source of the pool's segments.

pub(crate) mod foreign;
pub(crate) mod pool;
pub(crate) mod staging;
pub(crate) mod workspace;

use crate::driver::stream::Stream;
use crate::submit::queue::SubmissionQueue;
use cudarc::driver::sys;
use foreign::Foreign;
use pool::{Allocation, Pool, SegmentSource};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use ternion_core::backend::{Buffer, Memory};

/// Memory of a tensor, returned to the pool when dropped.
#[derive(Debug)]
pub(crate) struct CudaMemory {
    pub(crate) pool: Arc<Pool<DeviceMemory>>,
    /// The pool's block; `None` for buffers of 0 bytes and for memory of other libraries.
    pub(crate) allocation: Option<Allocation>,
    /// Memory that another library owns.
    pub(crate) foreign: Option<Box<Foreign>>,
    pub(crate) bytes: usize,
    /// The version counter with which core detects changes in place.
    pub(crate) version: AtomicU64,
}

impl CudaMemory {
    /// Returns the memory of `buffer`, if it belongs to this backend. (Every op does this for every
    /// tensor, and [`Buffer::downcast`] takes longer.)
    #[inline]
    pub(crate) fn of(buffer: &Buffer) -> Option<&CudaMemory> {
        // SAFETY: the memory has this type, and `buffer`, a handle to it, is borrowed as long.
        buffer.as_ptr::<CudaMemory>().map(|memory| unsafe { &*memory })
    }

    /// Wraps `bytes` bytes of another library.
    pub(crate) fn foreign(pool: Arc<Pool<DeviceMemory>>, foreign: Foreign, bytes: usize) -> CudaMemory {
        CudaMemory {
            pool,
            allocation: None,
            foreign: Some(Box::new(foreign)),
            bytes,
            version: AtomicU64::new(0),
        }
    }

    /// Returns the address of its first byte on the device.
    #[inline]
    pub(crate) fn address(&self) -> u64 {
        match (&self.allocation, &self.foreign) {
            (Some(allocation), _) => allocation.address,
            (None, Some(foreign)) => foreign.address,
            (None, None) => 0,
        }
    }
}

impl Memory for CudaMemory {
    fn bytes(&self) -> usize {
        self.bytes
    }
    fn version_counter(&self) -> &AtomicU64 {
        &self.version
    }
}

impl Drop for CudaMemory {
    fn drop(&mut self) {
        if let Some(allocation) = self.allocation.take() {
            self.pool.free(allocation);
        }
    }
}

/// The driver's own allocator.
#[derive(Debug)]
pub(crate) struct DeviceMemory {
    pub(crate) queue: Arc<SubmissionQueue<Stream>>,
}

impl SegmentSource for DeviceMemory {
    fn allocate(&self, bytes: usize) -> Option<u64> {
        // The context is made current again, because another library may have made its own device
        // the thread's current one.
        self.queue.target.context.make_current().ok()?;
        let mut address = 0;
        // SAFETY: the call writes an address; the context is current.
        let code = unsafe { sys::cuMemAlloc_v2(&mut address, bytes) };
        (code == sys::CUresult::CUDA_SUCCESS).then_some(address)
    }

    fn release(&self, segments: &[u64]) {
        if self.queue.target.context.bind().is_err() {
            return;
        }
        // The driver waits for submitted work that uses the memory, so everything in the queue is
        // submitted first.
        self.queue.drain();
        for &segment in segments {
            // SAFETY: allocated by `allocate`, and freed once.
            let _ = unsafe { sys::cuMemFree_v2(segment) };
        }
    }
}
