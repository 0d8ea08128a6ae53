//! The CUDA backend: own kernels, compiled at run time by NVRTC and kept on disk; no toolkit to
//! build, none to run but NVRTC itself.
//!
//! The path of an op: [`Backend::run`](ternion_core::backend::Backend::run) goes through `select`,
//! the one list of what runs, to a function of `ops`, which chooses a [`Variant`] of its kernels
//! and the grid by shapes and strides and queues it on the device's one stream.
//!
//! | module | what it holds |
//! |---|---|
//! | `ops` | one file per op family: shapes to a variant, its parameters and its grid |
//! | `variant` | what kernels are compiled for: types, tiles and their costs, architectures |
//! | `source` | a variant's root file in `kernels/`, its macros, and the kernels that come out |
//! | `modules`, `nvrtc`, `cache` | variants compiled, kept on disk, and loaded |
//! | `submit` | launches on their way to the driver, what was launched last, errors, recorded steps |
//! | `memory` | the pool, copies between host and device, memory of other libraries |
//! | `kernel_trace` | what the device did when, as CUPTI measures it |
//! | `ladder` | matrix products for study, from the naive one on, outside the path above |
//! | `attention_ladder` | the same of attention forward |
//! | `attention_study` | attention with tiles, and its gradient with an order of sums, of the caller's choice, outside the path above |
//! | `tiles` | products by a tile of the caller's choice, for measurements |
//! | `driver` | handles and calls of the CUDA driver |

pub mod attention_ladder;
pub mod attention_study;
mod backend;
mod cache;
mod call;
mod driver;
mod env_config;
pub mod files;
mod gpu;
mod interop;
mod kernel_trace;
pub mod ladder;
mod launch;
mod launch_overhead;
mod memory;
mod modules;
pub mod nvrtc;
mod nvtx;
mod operands;
mod ops;
#[doc(hidden)]
pub mod probe;
mod rows;
mod select;
mod source;
mod space;
mod submit;
#[doc(hidden)]
pub mod tiles;
mod timing;
mod variant;

pub use backend::{CudaBackend, descriptions, device, has_kernels};
pub use kernel_trace::{Activity, ActivityKind, KernelTrace};
pub use modules::{keep, options};
pub use nvtx::Nvtx;
#[doc(hidden)]
pub use ops::attention::f32_products::with_attention_by_parts;
pub use source::Source;
pub use submit::history::LaunchNote;
pub use timing::Timer;
pub use variant::{Architecture, ListedFunction, Variant, variants, variants_beside_ops};
