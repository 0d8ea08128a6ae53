//! Temporary memory of one op.

use super::DeviceMemory;
use super::pool::{Piece, Pool};
use std::sync::Arc;

/// An allocation and its pool, to which it returns when the op's kernels have been queued; `None`
/// for 0 bytes.
pub(crate) struct Scratch(Option<(Piece, Arc<Pool<DeviceMemory>>)>);

impl Scratch {
    /// A workspace of 0 bytes.
    pub(crate) const EMPTY: Scratch = Scratch(None);

    #[inline]
    pub(crate) fn new(piece: Option<Piece>, pool: Arc<Pool<DeviceMemory>>) -> Scratch {
        Scratch(piece.map(|piece| (piece, pool)))
    }

    #[inline]
    pub(crate) fn address(&self) -> u64 {
        self.0.as_ref().map_or(0, |(piece, _)| piece.address)
    }
}

impl Drop for Scratch {
    #[inline]
    fn drop(&mut self) {
        if let Some((piece, pool)) = self.0.take() {
            pool.free(piece);
        }
    }
}
