//! CPU memory: aligned blocks, a cache of large ones, and the lock that orders accesses by several
//! threads.

use bytemuck::Zeroable;
use parking_lot::RwLock;
use std::alloc::Layout as AllocLayout;
use std::any::Any;
use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use ternion_core::backend::{Memory, MemoryStats};
use ternion_core::{Error, Result};

/// The size of a cache line, and of the widest SIMD register.
const ALIGNMENT: usize = 64;

/// A buffer of at most this size stores its bytes inline, which saves an allocation for scalars,
/// which are frequent in training. The limit is low because a buffer is moved once when it is
/// created.
const INLINE_BYTES: usize = 16;

/// Blocks of at least this many bytes are cached for reuse: fresh pages from the system cost more
/// than the work on them.
pub(crate) const CACHED_FROM: usize = 1 << 16;

/// The maximum number of bytes in the cache; further blocks are released to the system.
const CACHE_LIMIT: usize = 1 << 30;

/// The byte that fills fresh memory in debug builds: NaN in every floating dtype.
const POISON: u8 = 0xff;

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

/// A block of memory that is freed when dropped.
#[derive(Debug)]
struct Block {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a block is plain memory with one owner, and is not tied to a thread.
unsafe impl Send for Block {}

impl Block {
    fn layout(bytes: usize) -> Option<AllocLayout> {
        // The allocator's default alignment is the fastest to allocate, and vector loads matter
        // only for long runs.
        let alignment = if bytes < CACHED_FROM { 16 } else { ALIGNMENT };
        AllocLayout::from_size_align(bytes.max(1), alignment).ok()
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
            // SAFETY: allocated in `new` with the same layout, and freed only here.
            unsafe { std::alloc::dealloc(self.start.as_ptr(), layout) }
        }
    }
}

/// Rounds the size of a cached block up, so that nearly equal sizes share blocks: at most an eighth
/// is wasted.
pub(crate) fn rounded(bytes: usize) -> usize {
    if bytes < CACHED_FROM {
        return bytes;
    }
    let step = bytes.checked_next_power_of_two().map_or(1, |power| power / 16);
    bytes.checked_next_multiple_of(step).unwrap_or(bytes)
}

impl Pool {
    #[inline(always)]
    pub(crate) fn alloc(pool: &Arc<Pool>, bytes: usize) -> Result<CpuMemory> {
        let size = rounded(bytes);
        let storage = if size <= INLINE_BYTES {
            Storage::Inline(UnsafeCell::new(InlineBytes(MaybeUninit::uninit())))
        } else {
            Storage::Block(pool.block(size, bytes)?)
        };
        pool.count_allocation(size);
        let memory = CpuMemory {
            lock: RwLock::new(()),
            version: AtomicU64::new(0),
            pool: pool.clone(),
            bytes,
            size,
            storage,
        };
        if cfg!(debug_assertions) {
            // SAFETY: the storage has `bytes` bytes, to which there is no other reference yet.
            unsafe { memory.start().write_bytes(POISON, bytes) };
        }
        Ok(memory)
    }

    /// Wraps `bytes` bytes that start at `start` and that `owner` keeps alive. The statistics do
    /// not count them, because they were not allocated from the pool.
    ///
    /// # Safety
    /// The bytes stay readable and writable as long as `owner` lives, and other code does not
    /// access them while an op does.
    pub(crate) unsafe fn adopt(
        pool: &Arc<Pool>,
        start: NonNull<u8>,
        bytes: usize,
        owner: Box<dyn Any + Send + Sync>,
    ) -> CpuMemory {
        CpuMemory {
            lock: RwLock::new(()),
            version: AtomicU64::new(0),
            pool: pool.clone(),
            bytes,
            size: 0,
            storage: Storage::External(ExternalMemory { start, _owner: owner }),
        }
    }

    fn block(&self, size: usize, requested: usize) -> Result<Block> {
        if let Some(block) = self.take(size).or_else(|| Block::new(size)) {
            return Ok(block);
        }
        self.release_cached();
        Block::new(size).ok_or_else(|| self.out_of_memory(requested))
    }

    /// Releases the cached blocks to the system.
    pub(crate) fn release_cached(&self) {
        // Freed after the lock is released.
        let cached = std::mem::take(&mut *self.cache());
        drop(cached);
    }

    #[inline(always)]
    fn count_allocation(&self, size: usize) {
        let in_use = self.in_use.fetch_add(size, Ordering::Relaxed) + size;
        if in_use > self.peak.load(Ordering::Relaxed) {
            self.peak.fetch_max(in_use, Ordering::Relaxed);
        }
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

    fn free(&self, block: Block) {
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
        // A poisoned lock is harmless: no code here panics between two changes that belong
        // together.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn stats(&self) -> MemoryStats {
        MemoryStats {
            in_use: self.in_use.load(Ordering::Relaxed),
            cached: self.cache().bytes,
            peak: self.peak.load(Ordering::Relaxed),
        }
    }

    /// Restarts the peak at the memory in use, or at `floor` if that is larger. Memory that another
    /// thread allocates at the same time may be counted in the old or the new peak.
    pub(crate) fn restart_peak(&self, floor: usize) {
        self.peak.store(floor.max(self.in_use.load(Ordering::Relaxed)), Ordering::Relaxed);
    }

    fn out_of_memory(&self, requested: usize) -> Error {
        let MemoryStats { in_use, cached, peak } = self.stats();
        Error::OutOfMemory { device: "cpu".into(), requested, in_use, cached, peak }
    }
}

/// Returns `length` zeros, or an error instead of aborting: a view can repeat elements, so a tensor
/// may have more of them than fit into memory.
///
/// # Errors
/// If there is no memory.
pub(crate) fn zeros<C: Zeroable>(length: usize) -> Result<Vec<C>> {
    let requested = length.saturating_mul(size_of::<C>());
    bytemuck::allocation::try_zeroed_vec(length).map_err(|()| Error::OutOfMemory {
        device: "cpu".into(),
        requested,
        in_use: 0,
        cached: 0,
        peak: 0,
    })
}

/// Bytes that are stored inline in the buffer's own allocation.
#[derive(Debug)]
#[repr(align(16))]
struct InlineBytes(#[allow(dead_code, reason = "reached by its address")] MaybeUninit<[u8; INLINE_BYTES]>);

/// Memory that other code allocated, and its owner.
struct ExternalMemory {
    start: NonNull<u8>,
    _owner: Box<dyn Any + Send + Sync>,
}

// SAFETY: as for a block; the owner is `Send`.
unsafe impl Send for ExternalMemory {}

impl std::fmt::Debug for ExternalMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ExternalMemory({:?})", self.start)
    }
}

#[derive(Debug)]
enum Storage {
    Inline(UnsafeCell<InlineBytes>),
    Block(Block),
    External(ExternalMemory),
    /// Released.
    None,
}

/// The memory of one buffer.
#[derive(Debug)]
pub(crate) struct CpuMemory {
    /// Ops that read the buffer hold it for reading, ops that write the buffer hold it for writing.
    pub(crate) lock: RwLock<()>,
    version: AtomicU64,
    pool: Arc<Pool>,
    bytes: usize,
    /// `bytes`, rounded up: the size that is counted.
    size: usize,
    storage: Storage,
}

// SAFETY: all access to the bytes goes through `lock`.
unsafe impl Sync for CpuMemory {}

impl CpuMemory {
    /// Returns the address of the first byte. The bytes may be accessed only while `lock` is held
    /// accordingly.
    ///
    /// The address is valid until this value is moved. A `Buffer` never moves it.
    #[inline]
    pub(crate) fn start(&self) -> *mut u8 {
        match &self.storage {
            Storage::Inline(cell) => cell.get().cast(),
            Storage::Block(block) => block.start.as_ptr(),
            Storage::External(external) => external.start.as_ptr(),
            Storage::None => NonNull::dangling().as_ptr(),
        }
    }

    fn check(&self, op: &'static str, offset: usize, length: usize) -> Result<()> {
        match offset.checked_add(length) {
            Some(end) if end <= self.bytes => Ok(()),
            _ => Err(Error::invalid(
                op,
                format!("{length} bytes at {offset} leave a buffer of {} bytes", self.bytes),
            )),
        }
    }

    pub(crate) fn write(&self, host: &[u8], offset: usize) -> Result<()> {
        self.check("upload", offset, host.len())?;
        let _guard = self.lock.write();
        // SAFETY: the range is inside the storage (checked), no other thread accesses it (write
        // lock), and `host` is other memory.
        unsafe { std::ptr::copy_nonoverlapping(host.as_ptr(), self.start().add(offset), host.len()) };
        Ok(())
    }

    /// Sets every byte to 0.
    pub(crate) fn clear(&self) {
        let _guard = self.lock.write();
        // SAFETY: the storage has `bytes` bytes, and no other thread accesses them (write lock).
        unsafe { self.start().write_bytes(0, self.bytes) };
    }

    pub(crate) fn read(&self, offset: usize, host: &mut [u8]) -> Result<()> {
        self.check("download", offset, host.len())?;
        let _guard = self.lock.read();
        // SAFETY: as in `write`, with a read lock.
        unsafe { std::ptr::copy_nonoverlapping(self.start().add(offset), host.as_mut_ptr(), host.len()) };
        Ok(())
    }
}

impl Drop for CpuMemory {
    #[inline]
    fn drop(&mut self) {
        self.pool.in_use.fetch_sub(self.size, Ordering::Relaxed);
        if let Storage::Block(block) = std::mem::replace(&mut self.storage, Storage::None) {
            self.pool.free(block);
        }
    }
}

impl Memory for CpuMemory {
    #[inline]
    fn bytes(&self) -> usize {
        self.bytes
    }
    #[inline]
    fn version_counter(&self) -> &AtomicU64 {
        &self.version
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_counted_and_large_blocks_are_reused() {
        let pool = Arc::new(Pool::default());
        let (small, large) =
            (Pool::alloc(&pool, 4).expect("small"), Pool::alloc(&pool, 1 << 20).expect("large"));
        assert_eq!(pool.stats(), MemoryStats { in_use: (1 << 20) + 4, cached: 0, peak: (1 << 20) + 4 });
        let address = large.start();
        drop((small, large));
        assert_eq!(pool.stats(), MemoryStats { in_use: 0, cached: 1 << 20, peak: (1 << 20) + 4 });
        // A slightly smaller size uses the same block.
        let reused = Pool::alloc(&pool, (1 << 20) - 100).expect("again");
        assert!(std::ptr::eq(reused.start(), address));
        assert_eq!(pool.stats().cached, 0);
    }

    #[test]
    fn out_of_memory_reports_the_statistics() {
        let pool = Arc::new(Pool::default());
        let allocated = Pool::alloc(&pool, 100).expect("held");
        drop(Pool::alloc(&pool, 1 << 17).expect("cached"));
        let message = Pool::alloc(&pool, isize::MAX as usize - 4096).expect_err("too much").to_string();
        assert!(message.contains("in use 100, cached 0"), "{message}");
        drop(allocated);
        assert_eq!(pool.stats().in_use, 0);
    }

    #[test]
    fn ranges_beyond_the_buffer_are_rejected() {
        let pool = Arc::new(Pool::default());
        let memory = Pool::alloc(&pool, 8).expect("memory");
        assert!(memory.write(&[1; 8], 0).is_ok());
        assert!(memory.write(&[1; 8], 1).is_err());
        assert!(memory.read(usize::MAX, &mut [0; 2]).is_err());
        let mut bytes = [0; 2];
        memory.read(6, &mut bytes).expect("inside");
        assert_eq!(bytes, [1, 1]);
    }

    #[test]
    fn external_memory_is_used_in_place_and_released_with_its_owner() {
        let pool = Arc::new(Pool::default());
        let (owner, mut bytes) = (Arc::new(()), vec![0_u8; 8]);
        let start = NonNull::new(bytes.as_mut_ptr()).expect("a vector with elements");
        // SAFETY: `bytes` outlives the memory, and is not accessed otherwise in the meantime.
        let memory = unsafe { Pool::adopt(&pool, start, 8, Box::new(owner.clone())) };
        memory.write(&[7], 3).expect("inside");
        assert!(memory.write(&[7], 8).is_err());
        assert_eq!((Arc::strong_count(&owner), pool.stats()), (2, MemoryStats::default()));
        drop(memory);
        assert_eq!((bytes[3], Arc::strong_count(&owner)), (7, 1));
    }

    #[cfg(debug_assertions)]
    #[test]
    fn fresh_memory_is_poisoned_in_debug_builds() {
        let pool = Arc::new(Pool::default());
        for bytes in [4, 400, 1 << 17] {
            drop(Pool::alloc(&pool, bytes).expect("first use"));
            let memory = Pool::alloc(&pool, bytes).expect("second use");
            let mut first = [0; 4];
            memory.read(0, &mut first).expect("inside");
            assert!(f32::from_ne_bytes(first).is_nan());
        }
    }
}
