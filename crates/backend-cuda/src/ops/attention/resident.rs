//! The number of blocks of attention's persistent kernels: as many as the device has
//! multiprocessors, or fewer if a test sets a limit.

use crate::gpu::Gpu;
use std::cell::Cell;
use std::num::NonZeroU32;

thread_local! {
    static LIMIT: Cell<Option<NonZeroU32>> = const { Cell::new(None) };
}

/// Runs `f` with at most `limit` blocks in each persistent attention kernel that this thread
/// launches: forward by TMA, and the gradient in one pass. For tests: results are bit-identical
/// with any number of blocks, and a single block must not wait for a work tile that it has not yet
/// begun.
pub fn with_resident_blocks<R>(limit: NonZeroU32, f: impl FnOnce() -> R) -> R {
    struct Restore(Option<NonZeroU32>);
    impl Drop for Restore {
        fn drop(&mut self) {
            LIMIT.set(self.0);
        }
    }
    let _restore = Restore(LIMIT.replace(Some(limit)));
    f()
}

/// Returns the blocks of a launch with `work_tiles` work tiles.
pub(super) fn blocks_of(gpu: &Gpu, work_tiles: u32) -> u32 {
    limited(work_tiles.min(gpu.multiprocessors() as u32))
}

fn limited(blocks: u32) -> u32 {
    LIMIT.get().map_or(blocks, |limit| blocks.min(limit.get()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_applies_only_during_its_call() {
        let [one, seven] = [1, 7].map(|blocks| NonZeroU32::new(blocks).expect("not 0"));
        let inner = || [5, 132].map(limited);
        assert_eq!(with_resident_blocks(seven, inner), [5, 7]);
        let nested = || [with_resident_blocks(one, inner), inner()];
        assert_eq!(with_resident_blocks(seven, nested), [[1, 1], [5, 7]]);
        let panicked =
            std::panic::catch_unwind(|| with_resident_blocks(one, || panic!("a fault of the caller")));
        assert!(panicked.is_err());
        assert_eq!(inner(), [5, 132]);
    }
}
