//! The op table and its tests: every op, forward and backward, on every backend, against an
//! independent float64 oracle.
//!
//! [`table`](mod@table) defines the row format, [`cases`] contains the rows, [`oracle`] the
//! building blocks of their oracles.

mod agreement;
pub mod array;
pub mod case;
pub mod cases;
pub mod check;
pub mod compare;
pub mod coverage;
pub mod devices;
pub mod differences;
pub mod faults;
pub mod gradcheck;
pub mod guarded;
pub mod kinds;
pub mod limits;
pub mod memory_layout;
mod model_trace;
pub mod models;
pub mod normals;
pub mod oracle;
pub mod phase;
pub mod read;
pub mod recording;
pub mod report;
pub mod rounding;
pub mod suite;
pub mod table;
pub mod tf32;
pub mod values;

pub use array::{Array, Keep};
pub use check::{Filter, Target, check_row};
pub use devices::{compare_devices, compare_tensors};
pub use gradcheck::{GradcheckReport, gradcheck, gradcheck_all};
pub use models::{compare_models, compare_models_with};
pub use recording::recording;
pub use report::{Check, Failure, Outcome};
pub use table::{Input, OpCase, Tolerance};
pub use values::{Rng, Values};

/// The items that table rows use.
pub mod prelude {
    pub use crate::array::{Array, Keep};
    pub use crate::table::{BOOL, FLOATS, INTEGERS, Input, OpCase, SIGNED, Tolerance, UNSIGNED, edges};
    pub use crate::values::Rng;
    pub use crate::values::Values::{self, AwayFrom, Bools, Distinct, Fixed, Integers, Uniform};
    pub use ternion_core::DType::{self, BF16, Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
    pub use ternion_core::{Device, Error, Result, Tensor};
}
