//! An op on its way to the device: what `select` hands to a function of `ops`.

use crate::gpu::Gpu;
use std::sync::Arc;
use ternion_core::backend::View;
use ternion_core::{Error, Op, Result};

/// An op's tensors and the device that they are on.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) gpu: &'a Arc<Gpu>,
    pub(crate) name: &'static str,
    pub(crate) inputs: &'a [View<'a>],
    pub(crate) outputs: &'a [View<'a>],
}

/// Queues the shaders of an op.
pub(crate) type LaunchFn = fn(&Op, &Call<'_>) -> Result<()>;

impl Call<'_> {
    /// The error of an op that was selected for another op's function.
    pub(crate) fn wrong_op(&self) -> Error {
        Error::invalid(self.name, "another op's shader was chosen")
    }
}
