//! The CUDA backend: its own kernels, compiled at run time by NVRTC and cached on disk. It builds
//! without a CUDA toolkit, and needs only NVRTC to run.
//!
//! The path of an op: [`Backend::run`](ternion_core::backend::Backend::run) calls `select`, the
//! only list of supported ops, which returns a function of `ops`. That function chooses a
//! [`Variant`] of its kernels and the grid from shapes and strides, and queues the kernel on the
//! device's only stream.
//!
//! | module | contents |
//! |---|---|
//! | `ops` | one file per op family: shapes to a variant, its parameters and its grid |
//! | `variant` | what kernels are compiled for: dtypes, tiles and their costs, architectures |
//! | `source` | a variant's root file in `kernels/`, its macros, and the names of its kernels |
//! | `modules`, `nvrtc`, `cache` | variants are compiled, cached on disk, and loaded |
//! | `submit` | the submission queue, the history of launches, errors, recorded steps |
//! | `memory` | the pool, copies between host and device, memory of other libraries |
//! | `kernel_trace` | start and end of each kernel on the device, measured by CUPTI |
//! | `ladder` | matrix products for study, beginning with a naive kernel, outside the path above |
//! | `attention_ladder` | the same for attention forward |
//! | `attention_study` | attention with chosen tiles, its gradient with a chosen order of sums |
//! | `tiles` | matrix products with a tile chosen by the caller, for measurements |
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
pub use modules::{options, store_kernel};
pub use nvtx::Nvtx;
#[doc(hidden)]
pub use ops::attention::f32_engine::with_attention_bf16x6;
#[doc(hidden)]
pub use ops::attention::half_engine::with_attention_mma;
pub use source::Source;
pub use submit::history::LaunchRecord;
pub use timing::Timer;
pub use variant::{Architecture, ListedFunction, Variant, study_variants, variants};
