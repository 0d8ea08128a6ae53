//! A call of an op: what `select` passes to a function of `ops`.

use crate::gpu::Gpu;
use std::sync::Arc;
use ternion_core::backend::View;
use ternion_core::{Error, Op, Result};

/// The tensors of an op and the device that stores them.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) gpu: &'a Arc<Gpu>,
    pub(crate) name: &'static str,
    pub(crate) inputs: &'a [View<'a>],
    pub(crate) outputs: &'a [View<'a>],
}

/// A function that queues the shaders of an op.
pub(crate) type LaunchFn = fn(&Op, &Call<'_>) -> Result<()>;

impl Call<'_> {
    /// Returns the error for an op for which the function of another op was selected.
    pub(crate) fn wrong_op(&self) -> Error {
        Error::invalid(self.name, "another op's shader was chosen")
    }
}
