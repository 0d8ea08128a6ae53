//! The parameters of a launch.

use crate::driver::launch::{LaunchAttributes, LaunchConfig};
use crate::modules::Function;
use crate::variant::Variant;
use cudarc::driver::sys;
use ternion_core::Result;

/// A kernel, its grid and its blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Launch {
    pub(crate) variant: Variant,
    /// The index of the kernel among those of the variant.
    pub(crate) kernel: usize,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub(crate) shared_bytes: u32,
    /// Blocks of a cluster along each axis. Each axis of the grid must be a multiple of it.
    pub(crate) cluster: [u8; 3],
}

impl Launch {
    /// Returns a launch with a one-dimensional grid of blocks of `threads` threads.
    #[inline]
    pub(crate) fn new(variant: impl Into<Variant>, kernel: usize, blocks: u32, threads: u32) -> Launch {
        Launch {
            variant: variant.into(),
            kernel,
            grid: [blocks, 1, 1],
            block: [threads, 1, 1],
            shared_bytes: 0,
            cluster: LaunchAttributes::NONE.cluster,
        }
    }

    /// Returns this launch's kernel among those of the variant, after raising its dynamic shared
    /// memory limit to that of the launch.
    #[inline]
    pub(crate) fn function(&self, op: &'static str, functions: &[Function]) -> Result<sys::CUfunction> {
        let function = &functions[self.kernel];
        function.allow_shared_bytes(op, self.shared_bytes)?;
        Ok(function.handle)
    }

    /// Converts to the driver's launch configuration. `overlaps`: whether the device supports
    /// programmatic dependent launch; which kernels use it depends on the variant only.
    #[inline]
    pub(crate) fn config(&self, function: sys::CUfunction, overlaps: bool) -> LaunchConfig {
        let Launch { grid, block, shared_bytes, cluster, .. } = *self;
        let attributes = LaunchAttributes { cluster, is_dependent: overlaps && self.variant.is_dependent() };
        LaunchConfig { function, grid, block, shared_bytes, attributes }
    }
}
