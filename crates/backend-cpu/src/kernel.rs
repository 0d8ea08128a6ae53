//! What passes between `select` and the ops: a function that runs an op, and how its output should
//! be laid out. Below both, so that neither has to import the other for it.

use crate::access::Locked;
use ternion_core::backend::Plan;
use ternion_core::{Op, Result};

/// A function that runs an op: the op, its locked inputs, its locked outputs.
pub(crate) type KernelFn = fn(&Op, &[Locked<'_>], &[Locked<'_>]) -> Result<()>;

/// A kernel that supports an op on its inputs.
pub(crate) struct Variant {
    /// The layout that the kernel prefers for its first output.
    pub(crate) plan: Plan,
    /// The kernel.
    pub(crate) run: KernelFn,
}
