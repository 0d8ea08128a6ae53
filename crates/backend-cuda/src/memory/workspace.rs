//! The workspace of one op.

use super::DeviceMemory;
use super::pool::{Allocation, Pool};
use std::sync::Arc;

/// An allocation and its pool; `None` for 0 bytes. The op drops it, which frees the allocation,
/// after its kernels have been queued.
pub(crate) struct Workspace(Option<(Allocation, Arc<Pool<DeviceMemory>>)>);

impl Workspace {
    /// A workspace of 0 bytes.
    pub(crate) const EMPTY: Workspace = Workspace(None);

    #[inline]
    pub(crate) fn new(allocation: Option<Allocation>, pool: Arc<Pool<DeviceMemory>>) -> Workspace {
        Workspace(allocation.map(|allocation| (allocation, pool)))
    }

    #[inline]
    pub(crate) fn address(&self) -> u64 {
        self.0.as_ref().map_or(0, |(allocation, _)| allocation.address)
    }
}

impl Drop for Workspace {
    #[inline]
    fn drop(&mut self) {
        if let Some((allocation, pool)) = self.0.take() {
            pool.free(allocation);
        }
    }
}
