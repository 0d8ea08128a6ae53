//! The memory pool. Each block is a separate wgpu buffer: a buffer may not be both read and written
//! in one launch, so blocks cannot be parts of a larger one. A freed block can be reused at once,
//! because its earlier uses are submitted before its later ones.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use ternion_core::backend::MemoryStats;

/// Minimum size of a block, in bytes.
const MIN_BLOCK_BYTES: usize = 64;

/// The cached blocks and the memory statistics.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    state: Mutex<State>,
}

/// A block of device memory. Its id is unique while it exists.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) buffer: wgpu::Buffer,
    pub(crate) id: u64,
}

#[derive(Debug, Default)]
struct State {
    /// By size. The block that was freed last is reused first.
    free: BTreeMap<usize, Vec<Block>>,
    stats: MemoryStats,
}

/// Returns the size of the block for a request: eight sizes for each power of two, so that requests
/// of similar size share blocks.
pub(crate) fn block_size(bytes: usize) -> usize {
    let bytes = bytes.max(MIN_BLOCK_BYTES);
    let step = (bytes.next_power_of_two() / 16).max(MIN_BLOCK_BYTES);
    bytes.next_multiple_of(step)
}

impl Pool {
    /// Takes a cached block for a request, and counts it as in use.
    pub(crate) fn take(&self, size: usize) -> Option<Block> {
        let mut state = self.state.lock();
        let blocks = state.free.get_mut(&size)?;
        let block = blocks.pop()?;
        if blocks.is_empty() {
            state.free.remove(&size);
        }
        state.stats.cached -= size;
        state.count(size);
        Some(block)
    }

    /// Counts a block that is about to be created for a request as in use. Returns `None` if the
    /// total would exceed `max_bytes`.
    pub(crate) fn reserve(&self, size: usize, max_bytes: u64) -> Option<()> {
        let mut state = self.state.lock();
        let total = state.stats.in_use + state.stats.cached;
        ((total + size) as u64 <= max_bytes).then(|| state.stats.in_use += size)
    }

    /// Updates the peak after the block was created.
    pub(crate) fn update_peak(&self) {
        self.state.lock().count(0);
    }

    /// Undoes [`Pool::reserve`] for a block that could not be created.
    pub(crate) fn cancel_reservation(&self, size: usize) {
        self.state.lock().stats.in_use -= size;
    }

    /// Returns a block to the pool.
    pub(crate) fn free(&self, block: Block) {
        let size = block.buffer.size() as usize;
        let mut state = self.state.lock();
        state.stats.in_use -= size;
        state.stats.cached += size;
        state.free.entry(size).or_default().push(block);
    }

    /// Removes every cached block from the pool and returns them, to be dropped.
    pub(crate) fn take_cached(&self) -> Vec<Block> {
        let mut state = self.state.lock();
        state.stats.cached = 0;
        std::mem::take(&mut state.free).into_values().flatten().collect()
    }

    pub(crate) fn stats(&self) -> MemoryStats {
        self.state.lock().stats
    }

    pub(crate) fn restart_peak(&self, floor: usize) {
        let stats = &mut self.state.lock().stats;
        stats.peak = floor.max(stats.in_use);
    }
}

impl State {
    fn count(&mut self, size: usize) {
        self.stats.in_use += size;
        self.stats.peak = self.stats.peak.max(self.stats.in_use);
    }
}

#[cfg(test)]
mod tests {
    use super::block_size;

    #[test]
    fn blocks_are_little_larger_than_requests() {
        for bytes in [0, 1, 63, 64, 65, 1000, 1025, 4097, 1_000_000, 123_456_789] {
            let size = block_size(bytes);
            assert!(
                size >= bytes && size.is_multiple_of(4) && size <= (bytes + bytes / 8).max(64 + bytes),
                "{bytes}: {size}"
            );
        }
    }
}
