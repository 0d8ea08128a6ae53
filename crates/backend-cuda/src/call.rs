//! What passes between `select` and the ops.

use crate::gpu::Gpu;
use std::sync::Arc;
use ternion_core::backend::{Plan, View};
use ternion_core::{Op, Result};

/// An op on its way to the device.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) gpu: &'a Arc<Gpu>,
    pub(crate) name: &'static str,
    pub(crate) inputs: &'a [View<'a>],
    pub(crate) outputs: &'a [View<'a>],
}

/// What launches the kernels of an op.
pub(crate) type LaunchFn = fn(&Op, &Call<'_>) -> Result<()>;

/// What runs an op on its inputs.
pub(crate) struct Selected {
    /// How it prefers its first output to be laid out.
    pub(crate) plan: Plan,
    pub(crate) run: LaunchFn,
}

impl Selected {
    pub(crate) fn row_major(run: LaunchFn) -> Selected {
        Selected { plan: Plan::ROW_MAJOR, run }
    }
}
