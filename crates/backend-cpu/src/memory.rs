//! Memory of the CPU: aligned blocks, a cache of large ones, and the lock that orders their use by several threads.

use std::alloc::Layout as AllocLayout;
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use ternion_core::backend::{Memory, MemoryStats};
use ternion_core::{Error, Result};

/// A cache line, and the widest vector register.
const ALIGNMENT: usize = 64;

/// Blocks of at least this many bytes are kept for reuse: fresh pages from the system cost more than the work on them.
const CACHED_FROM: usize = 1 << 16;

/// At most this many bytes lie in the cache; more are given back to the system.
const CACHE_LIMIT: usize = 1 << 30;

/// The blocks of one backend.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    in_use: AtomicUsize,
    peak: AtomicUsize,
    cache: Mutex<Cache>,
}

/// Free blocks by size.
#[derive(Debug, Default)]
struct Cache {
    bytes: usize,
    blocks: BTreeMap<usize, Vec<Block>>,
}

/// A piece of memory that is freed when dropped.
#[derive(Debug)]
struct Block {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a block is plain memory with one owner; nothing about it belongs to a thread.
unsafe impl Send for Block {}

impl Block {
    fn layout(bytes: usize) -> Option<AllocLayout> {
        AllocLayout::from_size_align(bytes.max(1), ALIGNMENT).ok()
    }

    fn new(bytes: usize) -> Option<Block> {
        let layout = Block::layout(bytes)?;
        // SAFETY: the layout's size is at least 1.
        let start = NonNull::new(unsafe { std::alloc::alloc(layout) })?;
        Some(Block { start, bytes })
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Some(layout) = Block::layout(self.bytes) {
            // SAFETY: allocated in `new` with this very layout, and freed only here.
            unsafe { std::alloc::dealloc(self.start.as_ptr(), layout) }
        }
    }
}

/// Rounds the size of a cached block up, so that nearly equal sizes share blocks: at most an eighth is lost.
fn rounded(bytes: usize) -> usize {
    if bytes < CACHED_FROM {
        return bytes;
    }
    let step = (bytes.next_power_of_two() / 16).max(1);
    bytes.checked_next_multiple_of(step).unwrap_or(bytes)
}

impl Pool {
    pub(crate) fn alloc(pool: &Arc<Pool>, bytes: usize) -> Result<CpuMemory> {
        let size = rounded(bytes);
        let block = match pool.take(size) {
            Some(block) => block,
            None => match Block::new(size) {
                Some(block) => block,
                None => {
                    pool.cache().blocks.clear();
                    pool.cache().bytes = 0;
                    Block::new(size).ok_or_else(|| pool.exhausted(bytes))?
                }
            },
        };
        let in_use = pool.in_use.fetch_add(size, Ordering::Relaxed) + size;
        pool.peak.fetch_max(in_use, Ordering::Relaxed);
        Ok(CpuMemory { block: Some(block), bytes, lock: RwLock::new(()), version: AtomicU64::new(0), pool: pool.clone() })
    }

    fn take(&self, size: usize) -> Option<Block> {
        if size < CACHED_FROM {
            return None;
        }
        let mut cache = self.cache();
        let block = cache.blocks.get_mut(&size)?.pop()?;
        cache.bytes -= size;
        Some(block)
    }

    fn give_back(&self, block: Block) {
        self.in_use.fetch_sub(block.bytes, Ordering::Relaxed);
        if block.bytes < CACHED_FROM {
            return;
        }
        let mut cache = self.cache();
        if cache.bytes + block.bytes <= CACHE_LIMIT {
            cache.bytes += block.bytes;
            cache.blocks.entry(block.bytes).or_default().push(block);
        }
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        // Nothing in here panics between two changes that belong together.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn stats(&self) -> MemoryStats {
        MemoryStats {
            in_use: self.in_use.load(Ordering::Relaxed),
            cached: self.cache().bytes,
            peak: self.peak.load(Ordering::Relaxed),
        }
    }

    fn exhausted(&self, requested: usize) -> Error {
        let MemoryStats { in_use, cached, peak } = self.stats();
        Error::OutOfMemory { device: "cpu".into(), requested, in_use, cached, peak }
    }
}

/// The memory of one buffer.
#[derive(Debug)]
pub(crate) struct CpuMemory {
    /// Present until dropped.
    block: Option<Block>,
    bytes: usize,
    /// Held for reading by ops that read the buffer, for writing by those that write it.
    pub(crate) lock: RwLock<()>,
    version: AtomicU64,
    pool: Arc<Pool>,
}

// SAFETY: all access to the bytes goes through `lock`.
unsafe impl Sync for CpuMemory {}

impl CpuMemory {
    /// The first byte. What it points to may be touched only while `lock` is held accordingly.
    #[inline]
    pub(crate) fn start(&self) -> *mut u8 {
        self.block.as_ref().map_or(NonNull::dangling(), |block| block.start).as_ptr()
    }

    fn check(&self, op: &'static str, offset: usize, length: usize) -> Result<()> {
        match offset.checked_add(length) {
            Some(end) if end <= self.bytes => Ok(()),
            _ => Err(Error::invalid(op, format!("{length} bytes at {offset} leave a buffer of {} bytes", self.bytes))),
        }
    }

    pub(crate) fn write(&self, host: &[u8], offset: usize) -> Result<()> {
        self.check("upload", offset, host.len())?;
        let _guard = self.lock.write().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the range lies in the block (checked), nobody else touches it (write lock), and `host` is foreign memory.
        unsafe { std::ptr::copy_nonoverlapping(host.as_ptr(), self.start().add(offset), host.len()) };
        Ok(())
    }

    pub(crate) fn read(&self, offset: usize, host: &mut [u8]) -> Result<()> {
        self.check("download", offset, host.len())?;
        let _guard = self.lock.read().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: as in `write`, with a read lock.
        unsafe { std::ptr::copy_nonoverlapping(self.start().add(offset), host.as_mut_ptr(), host.len()) };
        Ok(())
    }
}

impl Drop for CpuMemory {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            self.pool.give_back(block);
        }
    }
}

impl Memory for CpuMemory {
    fn bytes(&self) -> usize {
        self.bytes
    }
    fn version_counter(&self) -> &AtomicU64 {
        &self.version
    }
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
