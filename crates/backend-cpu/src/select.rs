//! The one list of what this backend runs: op and inputs to a variant, or the reason why not.

use crate::access::Locked;
use crate::ops;
use ternion_core::backend::{Meta, Plan, Unsupported};
use ternion_core::{Op, Result};

/// A kernel that fits an op and its inputs.
pub(crate) struct Variant {
    /// How it likes its first output to be laid out.
    pub(crate) plan: Plan,
    /// The kernel: op, locked inputs, locked outputs.
    pub(crate) run: fn(&Op, &[Locked<'_>], &[Locked<'_>]) -> Result<()>,
}

/// The kernel for `op` on such inputs.
#[inline]
pub(crate) fn select(op: &Op, inputs: &[Meta<'_>]) -> Result<Variant, Unsupported> {
    match op {
        Op::Fill(fill) => ops::create::select_fill(fill, inputs),
        _ => Err(Unsupported::because("the composition is as fast here")),
    }
}
