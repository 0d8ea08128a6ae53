//! The types that `select` and the ops exchange: a function that runs an op, and the layout of its
//! output. They are in a separate module, so that neither has to import the other.

use crate::access::Locked;
use ternion_core::backend::Plan;
use ternion_core::{Op, Result};

/// A function that runs an op, given the op, its locked inputs and its locked outputs.
pub(crate) type KernelFn = fn(&Op, &[Locked<'_>], &[Locked<'_>]) -> Result<()>;

/// A kernel that supports an op on its inputs.
pub(crate) struct Variant {
    /// The layout that the kernel prefers for its first output.
    pub(crate) plan: Plan,
    /// The kernel.
    pub(crate) run: KernelFn,
}
