//! Kernels by family, under the same stems as in core. Each file has a `select` for its payloads and the loops they lead to.

pub(crate) mod create;
pub(crate) mod math;
