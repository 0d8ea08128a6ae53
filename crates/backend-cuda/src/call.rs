//! Types that `select` and the ops exchange.

use crate::gpu::Gpu;
use std::sync::Arc;
use ternion_core::backend::{Plan, View};
use ternion_core::{Op, Result};

/// The call of an op on a device.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) gpu: &'a Arc<Gpu>,
    pub(crate) name: &'static str,
    pub(crate) inputs: &'a [View<'a>],
    pub(crate) outputs: &'a [View<'a>],
}

/// A function that launches the kernels of an op.
pub(crate) type LaunchFn = fn(&Op, &Call<'_>) -> Result<()>;

/// The implementation that `select` chose for an op and its inputs.
pub(crate) struct Selected {
    /// The preferred layout of the first output.
    pub(crate) plan: Plan,
    pub(crate) run: LaunchFn,
}

impl Selected {
    pub(crate) fn row_major(run: LaunchFn) -> Selected {
        Selected { plan: Plan::ROW_MAJOR, run }
    }
}
