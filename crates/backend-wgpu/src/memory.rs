//! The memory of a tensor: a block of the pool, which is returned to the pool when the memory is
//! dropped.

use crate::pool::{Block, Pool};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};
use ternion_core::backend::{Buffer, Memory};
use ternion_core::{Error, Result};

/// The memory of a buffer: a block of the pool, or a buffer that belongs to no pool.
#[derive(Debug)]
pub(crate) struct WgpuMemory {
    /// `None` only while the memory is dropped.
    block: Option<Block>,
    /// The requested size. The block may be larger.
    bytes: usize,
    /// The value of [`Memory::version_counter`].
    version: AtomicU64,
    /// The pool to which the block returns, if it still exists.
    pool: Weak<Pool>,
}

impl WgpuMemory {
    /// Wraps the first `bytes` bytes of a block of `pool`.
    pub(crate) fn new(block: Block, bytes: usize, pool: &Arc<Pool>) -> WgpuMemory {
        let (version, pool) = (AtomicU64::new(0), Arc::downgrade(pool));
        WgpuMemory { block: Some(block), bytes, version, pool }
    }

    /// Wraps a buffer that belongs to no pool.
    pub(crate) fn of_buffer(buffer: wgpu::Buffer) -> WgpuMemory {
        let bytes = buffer.size() as usize;
        let block = Some(Block { buffer, id: 0 });
        WgpuMemory { block, bytes, version: AtomicU64::new(0), pool: Weak::new() }
    }

    pub(crate) fn size_bytes(&self) -> usize {
        self.bytes
    }

    fn block(&self) -> &Block {
        self.block.as_ref().expect("there until it is dropped")
    }

    pub(crate) fn buffer(&self) -> &wgpu::Buffer {
        &self.block().buffer
    }

    pub(crate) fn id(&self) -> u64 {
        self.block().id
    }
}

impl Memory for WgpuMemory {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn version_counter(&self) -> &AtomicU64 {
        &self.version
    }
}

impl Drop for WgpuMemory {
    fn drop(&mut self) {
        if let (Some(block), Some(pool)) = (self.block.take(), self.pool.upgrade()) {
            pool.free(block);
        }
    }
}

/// Returns the memory behind `buffer`.
pub(crate) fn memory_of<'a>(op: &'static str, buffer: &'a Buffer) -> Result<&'a WgpuMemory> {
    buffer.downcast().ok_or_else(|| Error::invalid(op, "the buffer belongs to another backend"))
}
