//! The memory pool: large segments from the driver, split into blocks that are reused in stream
//! order.
//!
//! A device has only one ordered stream, so a block that the host frees may be allocated again at
//! once: every reader of the old contents was submitted before any writer of the new ones. The pool
//! requests memory from the driver only if no free block fits. If the driver has none left, the
//! pool releases its unused segments and tries once more.
//!
//! ```text
//! segment   [ block in use | free | block in use | free            ]
//! free()    merges a block with its free neighbors; alloc() takes the smallest free block that fits, and splits off the rest
//! ```
//!
//! The few small blocks that were freed last are not merged at once, because most requests are for
//! a size that was freed a moment ago. (Large ones are merged at once: unmerged, they would leave
//! too much memory unused.)

use parking_lot::Mutex;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use ternion_core::backend::MemoryStats;

/// Blocks begin at multiples of this, as the widest vector access, a TMA descriptor and a full
/// memory sector need.
const ALIGNMENT: usize = 512;

/// Requests of up to this many bytes share small segments, so that they do not keep large ones in
/// use.
const MAX_SMALL: usize = 1 << 20;

/// Bytes of a segment for small requests: a page of the device.
const SMALL_SEGMENT: usize = 2 << 20;

/// Requests of up to this size share segments of [`LARGE_SEGMENT`] bytes; larger ones get their own
/// segment.
const MAX_SHARED: usize = 10 << 20;

/// Bytes of a segment that several large requests share.
const LARGE_SEGMENT: usize = 20 << 20;

/// The number of small free blocks that are kept unmerged: a chain of ops has about this many sizes
/// in use.
const MAX_RECENT: usize = 8;

/// The source of segments.
pub(crate) trait SegmentSource: Send + Sync {
    /// Allocates `bytes` bytes of device memory, or returns `None` if the device has no more.
    fn allocate(&self, bytes: usize) -> Option<u64>;
    /// Waits until nothing uses these segments, then releases them.
    fn release(&self, segments: &[u64]);
}

/// The two classes of segments. Small requests never get a block of a large segment, and large
/// requests never one of a small segment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum SizeClass {
    Small,
    Large,
}

impl SizeClass {
    fn of(bytes: usize) -> SizeClass {
        if bytes <= MAX_SMALL { SizeClass::Small } else { SizeClass::Large }
    }

    /// Returns the minimum bytes of a remainder: with fewer left over, a block is not split.
    fn min_remainder(self) -> usize {
        match self {
            SizeClass::Small => ALIGNMENT,
            SizeClass::Large => MAX_SMALL,
        }
    }

    fn segment_bytes(self, bytes: usize) -> usize {
        match self {
            SizeClass::Small => SMALL_SEGMENT,
            SizeClass::Large if bytes <= MAX_SHARED => LARGE_SEGMENT,
            SizeClass::Large => bytes.next_multiple_of(SMALL_SEGMENT),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Block {
    bytes: usize,
    is_free: bool,
    class: SizeClass,
    /// The start address of its segment.
    segment: u64,
}

#[derive(Default, Debug)]
struct State {
    /// Every block by its address: adjacent blocks in memory are adjacent here.
    blocks: BTreeMap<u64, Block>,
    /// Free blocks by class, size and address.
    free: BTreeSet<(SizeClass, usize, u64)>,
    /// Small blocks that were freed last, oldest first. They are not yet merged; their neighbors
    /// treat them as used.
    recent: SmallVec<[Allocation; MAX_RECENT]>,
    /// Bytes of each segment, by its address.
    segments: BTreeMap<u64, usize>,
    /// Bytes of the blocks in use.
    in_use: usize,
    /// The maximum of `in_use` so far.
    peak: usize,
    /// Bytes of all segments.
    reserved: usize,
}

/// A pool with a source of segments.
#[derive(Debug)]
pub(crate) struct Pool<S: SegmentSource> {
    source: S,
    state: Mutex<State>,
    policy: CachePolicy,
}

/// What a pool does with unused memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CachePolicy {
    /// Keeps it for the next request, and releases whole segments if the device has no more memory.
    Reclaimable,
    /// Never releases it, because captured steps replay with these addresses even if no tensor uses
    /// them.
    Retained,
    /// Keeps nothing: each request gets a segment of exactly its size, which is released as soon as
    /// it is freed, so that memory checkers detect every access outside of it.
    Disabled,
}

/// An allocated block: its address and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allocation {
    pub(crate) address: u64,
    pub(crate) bytes: usize,
}

impl<S: SegmentSource> Pool<S> {
    pub(crate) fn new(source: S) -> Pool<S> {
        Pool { source, state: Mutex::default(), policy: CachePolicy::Reclaimable }
    }

    /// Creates a pool that releases nothing before it is dropped.
    pub(crate) fn arena(source: S) -> Pool<S> {
        Pool { source, state: Mutex::default(), policy: CachePolicy::Retained }
    }

    /// Creates a pool that caches nothing.
    pub(crate) fn without_cache(source: S) -> Pool<S> {
        Pool { source, state: Mutex::default(), policy: CachePolicy::Disabled }
    }

    /// Allocates at least `bytes` bytes (more than 0). Returns `None` if the device has no more
    /// memory even after all unused segments were released.
    pub(crate) fn alloc(&self, bytes: usize) -> Option<Allocation> {
        if self.policy == CachePolicy::Disabled {
            let address = self.source.allocate(bytes)?;
            self.state.lock().add_segment(address, bytes);
            return Some(Allocation { address, bytes });
        }
        let bytes = bytes.checked_next_multiple_of(ALIGNMENT)?;
        let mut state = self.state.lock();
        let class = SizeClass::of(bytes);
        if let Some(allocation) = state.take_recent(bytes) {
            return Some(allocation);
        }
        let address = match state.best_fit(class, bytes) {
            Some(address) => address,
            None => self.new_segment(&mut state, class, bytes)?,
        };
        Some(state.split_block(address, bytes))
    }

    fn new_segment(&self, state: &mut State, class: SizeClass, bytes: usize) -> Option<u64> {
        let size = class.segment_bytes(bytes);
        let mut retry = || {
            self.release_unused(state);
            self.source.allocate(size)
        };
        let address = match self.source.allocate(size) {
            None if self.policy == CachePolicy::Reclaimable => retry()?,
            allocated => allocated?,
        };
        state.segments.insert(address, size);
        state.reserved += size;
        state.blocks.insert(address, Block { bytes: size, is_free: true, class, segment: address });
        state.free.insert((class, size, address));
        Some(address)
    }

    /// Frees a block. Work that was submitted before may still use it.
    pub(crate) fn free(&self, allocation: Allocation) {
        if self.policy != CachePolicy::Disabled {
            return self.state.lock().free_block(allocation);
        }
        self.state.lock().remove_segment(allocation);
        self.source.release(&[allocation.address]);
    }

    /// Releases unused segments to the device.
    pub(crate) fn flush(&self) {
        self.release_unused(&mut self.state.lock());
    }

    fn release_unused(&self, state: &mut State) {
        state.coalesce_recent();
        let unused: Vec<u64> = state
            .segments
            .iter()
            .filter(|&(address, bytes)| {
                state.blocks.get(address).is_some_and(|block| block.is_free && block.bytes == *bytes)
            })
            .map(|(&address, _)| address)
            .collect();
        for address in &unused {
            if let (Some(bytes), Some(block)) = (state.segments.remove(address), state.blocks.remove(address))
            {
                state.reserved -= bytes;
                state.free.remove(&(block.class, block.bytes, *address));
            }
        }
        if !unused.is_empty() {
            self.source.release(&unused);
        }
    }

    pub(crate) fn stats(&self) -> MemoryStats {
        let state = self.state.lock();
        MemoryStats { in_use: state.in_use, cached: state.reserved - state.in_use, peak: state.peak }
    }

    /// Resets the peak to the memory in use now, or to `at_least` if that is larger.
    pub(crate) fn reset_peak(&self, at_least: usize) {
        let mut state = self.state.lock();
        state.peak = at_least.max(state.in_use);
    }
}

impl<S: SegmentSource> Drop for Pool<S> {
    /// No block is in use, because the owner of each block holds a reference to the pool.
    fn drop(&mut self) {
        let segments: Vec<u64> = self.state.get_mut().segments.keys().copied().collect();
        self.source.release(&segments);
    }
}

impl State {
    /// Counts an uncached allocation, which is a separate segment.
    fn add_segment(&mut self, address: u64, bytes: usize) {
        self.segments.insert(address, bytes);
        self.reserved += bytes;
        self.in_use += bytes;
        self.peak = self.peak.max(self.in_use);
    }

    fn remove_segment(&mut self, allocation: Allocation) {
        self.segments.remove(&allocation.address);
        self.reserved -= allocation.bytes;
        self.in_use -= allocation.bytes;
    }

    /// Takes a block of this size from the recently freed ones, if there is one.
    fn take_recent(&mut self, bytes: usize) -> Option<Allocation> {
        let index = self.recent.iter().rposition(|allocation| allocation.bytes == bytes)?;
        let allocation = self.recent.remove(index);
        self.count_allocated(allocation.bytes);
        Some(allocation)
    }

    /// Returns the smallest free block of this class with at least `bytes` bytes.
    fn best_fit(&mut self, class: SizeClass, bytes: usize) -> Option<u64> {
        let find_fit = |free: &BTreeSet<(SizeClass, usize, u64)>| {
            let &(found_class, _, address) = free.range((class, bytes, 0)..).next()?;
            (found_class == class).then_some(address)
        };
        find_fit(&self.free).or_else(|| {
            self.coalesce_recent();
            find_fit(&self.free)
        })
    }

    fn count_allocated(&mut self, bytes: usize) {
        self.in_use += bytes;
        self.peak = self.peak.max(self.in_use);
    }

    /// Splits `bytes` bytes off the free block at `address`.
    fn split_block(&mut self, address: u64, bytes: usize) -> Allocation {
        let Some(block) = self.blocks.get_mut(&address) else { return Allocation { address, bytes: 0 } };
        let block_bytes = block.bytes;
        let (class, segment) = (block.class, block.segment);
        let rest = block_bytes - bytes;
        let is_split = rest >= class.min_remainder();
        block.is_free = false;
        block.bytes = if is_split { bytes } else { block_bytes };
        let allocated = block.bytes;
        self.free.remove(&(class, block_bytes, address));
        if is_split {
            let end = address + bytes as u64;
            self.blocks.insert(end, Block { bytes: rest, is_free: true, class, segment });
            self.free.insert((class, rest, end));
        }
        self.count_allocated(allocated);
        Allocation { address, bytes: allocated }
    }

    /// Frees a block. A small block is not merged yet, so that the next request of its size can
    /// take it.
    fn free_block(&mut self, allocation: Allocation) {
        self.in_use -= allocation.bytes;
        if allocation.bytes > MAX_SMALL {
            return self.coalesce(allocation);
        }
        if self.recent.len() == MAX_RECENT {
            let oldest = self.recent.remove(0);
            self.coalesce(oldest);
        }
        self.recent.push(allocation);
    }

    fn coalesce_recent(&mut self) {
        for allocation in std::mem::take(&mut self.recent) {
            self.coalesce(allocation);
        }
    }

    /// Marks the block of `allocation` as free and merges it with its free neighbors.
    fn coalesce(&mut self, allocation: Allocation) {
        let Some(&block) = self.blocks.get(&allocation.address) else { return };
        let (mut address, mut merged) = (allocation.address, Block { is_free: true, ..block });
        let before = self.blocks.range(..address).next_back().map(|(&start, &block)| (start, block));
        if let Some((start, left)) = before.filter(|(_, left)| left.is_free && left.segment == merged.segment)
        {
            self.blocks.remove(&address);
            self.free.remove(&(left.class, left.bytes, start));
            merged.bytes += left.bytes;
            address = start;
        }
        let end = address + merged.bytes as u64;
        let after = self.blocks.get(&end).copied();
        if let Some(right) = after.filter(|right| right.is_free && right.segment == merged.segment) {
            self.blocks.remove(&end);
            self.free.remove(&(right.class, right.bytes, end));
            merged.bytes += right.bytes;
        }
        self.blocks.insert(address, merged);
        self.free.insert((merged.class, merged.bytes, address));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

    /// A device with a limited number of bytes that never returns the same address twice.
    struct Device {
        /// Bytes that are not allocated.
        available: AtomicUsize,
        /// The address of the next allocation.
        next_address: AtomicU64,
        allocated: Mutex<BTreeMap<u64, usize>>,
    }

    impl Device {
        fn of(bytes: usize) -> Device {
            Device {
                available: AtomicUsize::new(bytes),
                next_address: AtomicU64::new(1 << 30),
                allocated: Mutex::default(),
            }
        }
    }

    impl SegmentSource for &Device {
        fn allocate(&self, bytes: usize) -> Option<u64> {
            let enough = |available: usize| available.checked_sub(bytes);
            self.available.fetch_update(Ordering::Relaxed, Ordering::Relaxed, enough).ok()?;
            let address = self.next_address.fetch_add(bytes as u64, Ordering::Relaxed);
            self.allocated.lock().insert(address, bytes);
            Some(address)
        }
        fn release(&self, segments: &[u64]) {
            for segment in segments {
                let bytes = self.allocated.lock().remove(segment).expect("a segment that was allocated");
                self.available.fetch_add(bytes, Ordering::Relaxed);
            }
        }
    }

    #[test]
    fn an_arena_releases_nothing_before_it_is_dropped() {
        let device = Device::of(64 << 20);
        let arena = Pool::arena(&device);
        arena.free(arena.alloc(40 << 20).expect("there is room"));
        assert_eq!(arena.alloc(50 << 20), None, "what recorded kernels use is not released for more");
        assert_eq!(device.available.load(Ordering::Relaxed), 24 << 20);
        drop(arena);
        assert_eq!(device.available.load(Ordering::Relaxed), 64 << 20);
    }

    #[test]
    fn without_a_cache_blocks_are_exact_and_released_when_freed() {
        let device = Device::of(1000);
        let pool = Pool::without_cache(&device);
        let allocation = pool.alloc(999).expect("there is room");
        assert_eq!(allocation.bytes, 999);
        assert_eq!(pool.stats(), MemoryStats { in_use: 999, cached: 0, peak: 999 });
        assert_eq!(pool.alloc(2), None);
        pool.free(allocation);
        assert_eq!(device.available.load(Ordering::Relaxed), 1000);
        assert_eq!(pool.stats(), MemoryStats { in_use: 0, cached: 0, peak: 999 });
        let allocation = pool.alloc(10).expect("there is room");
        for (at_least, peak) in [(0, 10), (7, 10), (700, 700)] {
            pool.reset_peak(at_least);
            assert_eq!(pool.stats().peak, peak);
        }
        pool.free(allocation);
    }

    #[test]
    fn blocks_never_overlap_and_are_coalesced_when_freed() {
        let device = Device::of(1 << 32);
        let pool = Pool::new(&device);
        let mut live: Vec<Allocation> = Vec::new();
        let mut random = 1u64;
        for _ in 0..20_000 {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let pick = (random >> 33) as usize;
            if live.len() > 200 || (pick.is_multiple_of(3) && !live.is_empty()) {
                pool.free(live.swap_remove(pick % live.len()));
                continue;
            }
            let bytes = 1 + pick % [100, 5_000, 700_000, 3_000_000, 30_000_000][pick % 5];
            let allocation = pool.alloc(bytes).expect("memory");
            assert!(allocation.bytes >= bytes && allocation.address.is_multiple_of(ALIGNMENT as u64));
            let end = |allocation: &Allocation| allocation.address + allocation.bytes as u64;
            assert!(
                live.iter()
                    .all(|other| end(other) <= allocation.address || end(&allocation) <= other.address)
            );
            live.push(allocation);
        }
        assert_eq!(pool.stats().in_use, live.iter().map(|allocation| allocation.bytes).sum::<usize>());
        live.drain(..).for_each(|allocation| pool.free(allocation));
        let stats = pool.stats();
        assert_eq!((stats.in_use, stats.cached), (0, device.allocated.lock().values().sum()));
        pool.flush();
        assert_eq!(pool.stats().cached, 0);
        assert!(device.allocated.lock().is_empty(), "every segment was joined to one block again");
    }

    #[test]
    fn a_freed_block_is_allocated_again() {
        let device = Device::of(1 << 30);
        let pool = Pool::new(&device);
        let first = pool.alloc(3_000_000).expect("memory");
        pool.free(first);
        assert_eq!(pool.alloc(3_000_000).expect("memory"), first);
    }

    #[test]
    fn recent_small_blocks_are_coalesced_before_more_is_requested() {
        let device = Device::of(SMALL_SEGMENT);
        let pool = Pool::new(&device);
        let eighths: Vec<Allocation> =
            (0..8).map(|_| pool.alloc(SMALL_SEGMENT / 8).expect("memory")).collect();
        assert_eq!(pool.alloc(1), None, "all is in use");
        eighths.iter().for_each(|&allocation| pool.free(allocation));
        assert_eq!(pool.stats().in_use, 0);
        assert_eq!(
            pool.alloc(SMALL_SEGMENT / 8),
            eighths.last().copied(),
            "the latest, which caches may hold"
        );
        assert!(pool.alloc(SMALL_SEGMENT / 2).is_some(), "four of the others, joined");
    }

    #[test]
    fn a_full_device_is_flushed_before_it_is_given_up() {
        let device = Device::of(100 << 20);
        let pool = Pool::new(&device);
        let small: Vec<Allocation> = (0..3).map(|_| pool.alloc(30 << 20).expect("memory")).collect();
        assert_eq!(pool.alloc(30 << 20), None, "90 of 100 MiB are in use");
        small.into_iter().for_each(|allocation| pool.free(allocation));
        assert!(pool.alloc(90 << 20).is_some(), "three segments of 30 MiB hold no 90, but were released");
        assert_eq!(pool.alloc(usize::MAX), None);
    }
}
