//! One error type; every message names the op, what was expected and what came.

use crate::{DType, Shape};
use std::cell::Cell;

/// A result whose error is [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a caller, a device or a file can do wrong.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An argument that the op cannot take.
    #[error("{op}: {detail}")]
    Invalid {
        /// The op.
        op: &'static str,
        /// What was expected and what came.
        detail: String,
    },
    /// Two shapes that do not broadcast.
    #[error("{op}: shapes {left:?} and {right:?} do not broadcast")]
    Broadcast {
        /// The op.
        op: &'static str,
        /// Shape of the first operand.
        left: Box<Shape>,
        /// Shape of the second operand.
        right: Box<Shape>,
    },
    /// A shape other than the one that the op needs.
    #[error("{op}: {what} has shape {got:?}, expected {expected:?}")]
    Shape {
        /// The op.
        op: &'static str,
        /// Which tensor.
        what: &'static str,
        /// Its shape.
        got: Box<Shape>,
        /// The shape that fits.
        expected: Box<Shape>,
    },
    /// A wrong number of axes.
    #[error("{op}: expected {expected} axes, got shape {shape:?}")]
    Rank {
        /// The op.
        op: &'static str,
        /// How many axes it takes, in words.
        expected: String,
        /// The shape that came.
        shape: Box<Shape>,
    },
    /// An axis that the tensor does not have.
    #[error("{op}: axis {axis} on shape {shape:?}")]
    Axis {
        /// The op.
        op: &'static str,
        /// The axis as the caller wrote it.
        axis: isize,
        /// The shape.
        shape: Box<Shape>,
    },
    /// A dtype that the op does not take.
    #[error("{op}: {what} is {got}, expected {expected}")]
    DType {
        /// The op.
        op: &'static str,
        /// Which tensor.
        what: &'static str,
        /// Its dtype.
        got: DType,
        /// What fits, in words.
        expected: &'static str,
    },
    /// Two operands of different dtypes.
    #[error("{op}: dtypes {left} and {right} differ; cast one of them with to_dtype")]
    DTypeMismatch {
        /// The op.
        op: &'static str,
        /// Dtype of the first operand.
        left: DType,
        /// Dtype of the second operand.
        right: DType,
    },
    /// Tensors of different devices in one op.
    #[error("{op}: tensors on {left} and {right}; move one of them with to_device")]
    DeviceMismatch {
        /// The op.
        op: &'static str,
        /// Device of the first operand.
        left: String,
        /// Device of the other.
        right: String,
    },
    /// An index outside the axis that it selects from.
    #[error("{op}: index {index} is out of range for size {size}")]
    IndexOutOfRange {
        /// The op.
        op: &'static str,
        /// The index.
        index: i64,
        /// The size of the axis.
        size: usize,
    },
    /// A device that was not built in or is not there.
    #[error("device {device}: {detail}")]
    Device {
        /// The device as the caller named it.
        device: String,
        /// Why it cannot be had.
        detail: String,
    },
    /// No memory left on a device.
    #[error(
        "{device}: out of memory: requested {requested} bytes, in use {in_use}, cached {cached}, peak {peak}"
    )]
    OutOfMemory {
        /// The device.
        device: String,
        /// Bytes asked for.
        requested: usize,
        /// Bytes held by live tensors.
        in_use: usize,
        /// Bytes kept for reuse.
        cached: usize,
        /// Most bytes ever in use.
        peak: usize,
    },
    /// A primitive that a backend does not run, so that there is nothing to fall back on.
    #[error("{op}: {device} does not support it: {why}")]
    Unsupported {
        /// The op.
        op: &'static str,
        /// The device.
        device: String,
        /// The backend's reason.
        why: String,
    },
    /// The backward walk met something it cannot differentiate.
    #[error("backward: {0}")]
    Autograd(String),
    /// A tensor that backward needs was changed in place after it was saved.
    #[error(
        "backward of {op}: {what} with shape {shape:?} was changed in place after it was saved (version {saved}, now {now})"
    )]
    ChangedInPlace {
        /// The op that saved it.
        op: &'static str,
        /// Which tensor of the op.
        what: String,
        /// Its shape.
        shape: Box<Shape>,
        /// Version at the time of saving.
        saved: u64,
        /// Version now.
        now: u64,
    },
    /// A parameter that got no gradient.
    #[error(
        "no gradient for {names}: the loss does not depend on it (freeze it, or allow missing gradients in the optimiser's configuration), or the gradients are older than the last change of its dtype, device or freezing (run backward again)"
    )]
    MissingGradient {
        /// The parameters.
        names: String,
    },
    /// Two devices computed different numbers.
    #[error("{op}: {left} and {right} differ: {detail}")]
    Mismatch {
        /// The op.
        op: &'static str,
        /// The device under test.
        left: String,
        /// The device compared with.
        right: String,
        /// First difference, counts and statistics.
        detail: String,
    },
    /// A value that is not a number or infinite where it is watched for.
    #[error("{op}: {detail}")]
    NotFinite {
        /// The op.
        op: &'static str,
        /// Which tensor and how many elements.
        detail: String,
    },
    /// Reading or writing a file failed.
    #[error("{path}: {detail}")]
    File {
        /// The file.
        path: String,
        /// What is wrong with it.
        detail: String,
    },
}

/// The message: what `fn main() -> Result<()>` and `unwrap` print should be read by people.
impl std::fmt::Debug for Error {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{self}")
    }
}

impl Error {
    /// No memory for a list in the host's own memory.
    pub(crate) fn host_memory(requested: usize) -> Error {
        Error::OutOfMemory { device: "host".into(), requested, in_use: 0, cached: 0, peak: 0 }
    }

    /// This error in the name of `op`, if it tells of an index: whoever called cross_entropy has not heard of the gather inside it.
    pub(crate) fn index_of(self, op: &'static str) -> Error {
        match self {
            Error::IndexOutOfRange { index, size, .. } => Error::IndexOutOfRange { op, index, size },
            other => other,
        }
    }

    /// An argument that `op` cannot take.
    pub fn invalid(op: &'static str, detail: impl Into<String>) -> Error {
        Error::Invalid { op, detail: detail.into() }
    }
}

thread_local! {
    /// In whose name this thread's ops tell of an index out of range.
    static INDEX_TELLER: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Runs `f`, in which an index out of range is told in the name of `op`, also where a device finds it only later.
pub(crate) fn index_told_as<T>(op: &'static str, f: impl FnOnce() -> Result<T>) -> Result<T> {
    struct Restore(Option<&'static str>);
    impl Drop for Restore {
        fn drop(&mut self) {
            INDEX_TELLER.set(self.0);
        }
    }
    let outer = INDEX_TELLER.get();
    INDEX_TELLER.set(outer.or(Some(op)));
    let _restore = Restore(outer);
    f().map_err(|error| error.index_of(op))
}

/// The name under which a backend that finds an index out of range only later tells of it: that of the op that was called, if `op` runs inside another.
pub fn index_teller(op: &'static str) -> &'static str {
    INDEX_TELLER.get().unwrap_or(op)
}
