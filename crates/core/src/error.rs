//! The error type. Every message names the op, what was expected, and what was passed.

mod text;

pub use text::{Dialect, Part, Rust, Term, Text};

use crate::{DType, Shape};
use std::cell::Cell;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// A result whose error is [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The errors that a caller, a device or a file can cause.
#[non_exhaustive]
pub enum Error {
    /// An argument that the op does not accept.
    Invalid {
        /// The op.
        op: &'static str,
        /// What was expected and what was passed.
        detail: Text,
    },
    /// A matrix for which a linear algebra op has no result: singular, not positive definite, or
    /// with a NaN that would prevent an iteration from ending.
    Matrix {
        /// The op.
        op: &'static str,
        /// Which matrix, and its property.
        detail: Text,
    },
    /// Two shapes that do not broadcast.
    Broadcast {
        /// The op.
        op: &'static str,
        /// Shape of the first operand.
        left: Box<Shape>,
        /// Shape of the second operand.
        right: Box<Shape>,
    },
    /// A shape that differs from the one that the op requires.
    Shape {
        /// The op.
        op: &'static str,
        /// The name of the tensor.
        what: &'static str,
        /// Its shape.
        got: Box<Shape>,
        /// The required shape.
        expected: Box<Shape>,
    },
    /// A wrong number of axes.
    Rank {
        /// The op.
        op: &'static str,
        /// The number of axes that the op accepts, in words.
        expected: String,
        /// The shape that was passed.
        shape: Box<Shape>,
    },
    /// An axis that the tensor does not have.
    Axis {
        /// The op.
        op: &'static str,
        /// The axis as the caller passed it.
        axis: isize,
        /// The shape.
        shape: Box<Shape>,
    },
    /// A dtype that the op does not support.
    DType {
        /// The op.
        op: &'static str,
        /// The name of the tensor.
        what: &'static str,
        /// Its dtype.
        got: DType,
        /// The supported dtypes.
        expected: Text,
    },
    /// Two operands of different dtypes.
    DTypeMismatch {
        /// The op.
        op: &'static str,
        /// Dtype of the first operand.
        left: DType,
        /// Dtype of the second operand.
        right: DType,
    },
    /// Tensors of different devices in one op.
    DeviceMismatch {
        /// The op.
        op: &'static str,
        /// Device of the first operand.
        left: String,
        /// Device of the second operand.
        right: String,
    },
    /// An index outside the axis that it selects from.
    IndexOutOfRange {
        /// The op.
        op: &'static str,
        /// The index.
        index: i64,
        /// The size of the axis.
        size: usize,
    },
    /// A device that is not compiled in or not available.
    Device {
        /// The device name that the caller passed.
        device: String,
        /// Why it is not available.
        detail: String,
    },
    /// A device is out of memory.
    OutOfMemory {
        /// The device.
        device: String,
        /// Number of requested bytes.
        requested: usize,
        /// Bytes in use by live tensors.
        in_use: usize,
        /// Bytes cached for reuse.
        cached: usize,
        /// Maximum bytes that were in use.
        peak: usize,
    },
    /// A primitive that a backend does not support, so that there is no fallback.
    Unsupported {
        /// The op.
        op: &'static str,
        /// The device.
        device: String,
        /// The backend's reason.
        why: String,
    },
    /// The backward pass encountered something that it cannot differentiate.
    Autograd(Text),
    /// A saved tensor was changed in place after it was saved.
    ChangedInPlace {
        /// The op that saved it.
        op: &'static str,
        /// The name of the tensor in the op.
        what: String,
        /// Its shape.
        shape: Box<Shape>,
        /// Version at the time of saving.
        saved: u64,
        /// Version now.
        now: u64,
    },
    /// A parameter that has no gradient.
    MissingGradient {
        /// The parameters.
        names: String,
    },
    /// Two devices computed different values.
    Mismatch {
        /// The op.
        op: &'static str,
        /// The device under test.
        left: String,
        /// The reference device.
        right: String,
        /// The first difference, counts and statistics.
        detail: Text,
    },
    /// A NaN or infinity where a check looks for it.
    NotFinite {
        /// The op.
        op: &'static str,
        /// Which tensor, and the number of elements.
        detail: Text,
    },
    /// Reading or writing a file failed.
    File {
        /// The file.
        path: String,
        /// What is wrong with it.
        detail: String,
        /// The operating system's error code, if it reported the failure.
        code: Option<i32>,
    },
    /// A function of the caller, such as a hook or a custom op's backward, returned an error.
    Callback {
        /// The function.
        function: String,
        /// The error that it returned. Bindings can find their own error type with `downcast_ref`.
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Callback { source, .. } => Some(&**source),
            _ => None,
        }
    }
}

/// The message, with the names of the Rust API.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, &Rust)
    }
}

/// Same as the message, because `fn main() -> Result<()>` and `unwrap` print the debug format.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The messages. The message of each variant is defined only here, with the dialect's names for
/// ops, dtypes and terms.
impl Error {
    /// Returns the message with the names of `dialect`.
    pub fn in_dialect<'a>(&'a self, dialect: &'a dyn Dialect) -> impl fmt::Display + 'a {
        fmt::from_fn(move |f| self.write(f, dialect))
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, dialect: &dyn Dialect) -> fmt::Result {
        let (op_of, dtype_of) = (|op: &'static str| dialect.op(op), |dtype: &DType| dialect.dtype(*dtype));
        match self {
            Error::Invalid { op, detail } | Error::Matrix { op, detail } => {
                write!(f, "{}: {}", op_of(op), detail.in_dialect(dialect))
            }
            Error::Broadcast { op, left, right } => {
                write!(f, "{}: shapes {left:?} and {right:?} do not broadcast", op_of(op))
            }
            Error::Shape { op, what, got, expected } => {
                write!(f, "{}: {what} has shape {got:?}, expected {expected:?}", op_of(op))
            }
            Error::Rank { op, expected, shape } => {
                write!(f, "{}: expected {expected} axes, got shape {shape:?}", op_of(op))
            }
            Error::Axis { op, axis, shape } => write!(f, "{}: axis {axis} on shape {shape:?}", op_of(op)),
            Error::DType { op, what, got, expected } => {
                let (op, got, expected) = (op_of(op), dtype_of(got), expected.in_dialect(dialect));
                write!(f, "{op}: {what} is {got}, expected {expected}")
            }
            Error::DTypeMismatch { op, left, right } => {
                let (op, left, right) = (op_of(op), dtype_of(left), dtype_of(right));
                let method = dialect.term(Term::ToDType);
                write!(f, "{op}: dtypes {left} and {right} differ; cast one of them with {method}")
            }
            Error::DeviceMismatch { op, left, right } => {
                let (op, method) = (op_of(op), dialect.term(Term::ToDevice));
                write!(f, "{op}: tensors on {left} and {right}; move one of them with {method}")
            }
            Error::IndexOutOfRange { op, index, size } => {
                write!(f, "{}: index {index} is out of range for size {size}", op_of(op))
            }
            Error::Device { device, detail } => write!(f, "device {device}: {detail}"),
            Error::OutOfMemory { device, requested, in_use, cached, peak } => write!(
                f,
                "{device}: out of memory: requested {requested} bytes, in use {in_use}, cached {cached}, peak {peak}"
            ),
            Error::Unsupported { op, device, why } => {
                write!(f, "{}: {device} does not support it: {why}", op_of(op))
            }
            Error::Autograd(detail) => write!(f, "backward: {}", detail.in_dialect(dialect)),
            Error::ChangedInPlace { op, what, shape, saved, now } => write!(
                f,
                "backward of {op}: {what} with shape {shape:?} was changed in place after it was saved \
                 (version {saved}, now {now})"
            ),
            Error::MissingGradient { names } => write!(
                f,
                "no gradient for {names}: the loss does not depend on it (freeze it, or allow missing gradients \
                 in the optimizer's configuration), or the gradients are older than the last change of its \
                 dtype, device or freezing (run backward again)"
            ),
            // The message names the primitive that ran, which the caller may not have called.
            Error::Mismatch { op, left, right, detail } => {
                write!(f, "{op}: {left} and {right} differ: {}", detail.in_dialect(dialect))
            }
            Error::NotFinite { op, detail } => {
                write!(f, "{}: {}", dialect.op(op), detail.in_dialect(dialect))
            }
            Error::File { path, detail, .. } => write!(f, "{path}: {detail}"),
            Error::Callback { function, source } => write!(f, "{function} raised {source}"),
        }
    }
}

/// The variants whose op is the one that the caller called.
macro_rules! of_call {
    ($op:ident) => {
        Error::Invalid { $op, .. }
            | Error::Matrix { $op, .. }
            | Error::Broadcast { $op, .. }
            | Error::Shape { $op, .. }
            | Error::Rank { $op, .. }
            | Error::Axis { $op, .. }
            | Error::DType { $op, .. }
            | Error::DTypeMismatch { $op, .. }
            | Error::DeviceMismatch { $op, .. }
            | Error::IndexOutOfRange { $op, .. }
    };
}

impl Error {
    /// Returns the op with which the message begins. `None` for an error without an op, and for
    /// errors that name the primitive that ran, which the caller may not have called.
    pub fn op(&self) -> Option<&'static str> {
        match self {
            of_call!(op) | Error::Unsupported { op, .. } => Some(op),
            _ => None,
        }
    }

    /// Replaces the op by `function`, if the error names the op that was called: the caller of a
    /// function does not know the ops of which it is composed.
    #[must_use]
    pub fn in_name_of(mut self, function: &'static str) -> Error {
        if let of_call!(op) = &mut self {
            *op = function;
        }
        self
    }

    /// Returns the error for a failed allocation of that many bytes of host memory, outside of
    /// every device's pool.
    pub fn host_memory(requested: usize) -> Error {
        Error::OutOfMemory { device: "host".into(), requested, in_use: 0, cached: 0, peak: 0 }
    }

    /// Replaces the op by `op`, if this is an index error: the caller of cross_entropy does not
    /// know of the gather in it.
    pub(crate) fn index_of(self, op: &'static str) -> Error {
        match self {
            Error::IndexOutOfRange { index, size, .. } => Error::IndexOutOfRange { op, index, size },
            other => other,
        }
    }

    /// Returns the error for an argument that `op` does not accept.
    #[cold]
    pub fn invalid(op: &'static str, detail: impl Into<Text>) -> Error {
        Error::Invalid { op, detail: detail.into() }
    }

    /// Returns the error for a file or folder whose contents or name are rejected.
    #[cold]
    pub fn file(path: &Path, detail: impl Into<String>) -> Error {
        let path = if path.as_os_str().is_empty() { "\"\"".to_owned() } else { path.display().to_string() };
        Error::File { path, detail: detail.into(), code: None }
    }

    /// Returns the error that the operating system reported for a file or folder. `what` is the
    /// failed operation, such as "cannot be read".
    #[cold]
    pub fn file_system(path: &Path, what: &str, error: &std::io::Error) -> Error {
        match Error::file(path, format!("{what}: {error}")) {
            Error::File { path, detail, .. } => Error::File { path, detail, code: error.raw_os_error() },
            other => other,
        }
    }

    /// Returns the error for a function of the caller that failed.
    #[cold]
    pub fn callback(
        function: impl Into<String>,
        source: impl std::error::Error + Send + Sync + 'static,
    ) -> Error {
        Error::Callback { function: function.into(), source: Arc::new(source) }
    }

    /// Returns the error for a matrix for which `op` has no result.
    #[cold]
    pub fn matrix(op: &'static str, detail: impl Into<Text>) -> Error {
        Error::Matrix { op, detail: detail.into() }
    }

    /// Returns the error for a dtype that `op` does not support for its argument `what`.
    #[cold]
    pub fn dtype(op: &'static str, what: &'static str, got: DType, expected: impl Into<Text>) -> Error {
        Error::DType { op, what, got, expected: expected.into() }
    }

    /// Returns the error for something that the backward pass cannot differentiate.
    #[cold]
    pub fn autograd(detail: impl Into<Text>) -> Error {
        Error::Autograd(detail.into())
    }
}

thread_local! {
    /// The op name that index errors of this thread contain.
    static INDEX_ERROR_OP: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Runs `f`, in which index errors contain the name `op`, also if a device detects them later.
pub(crate) fn with_index_error_op<T>(op: &'static str, f: impl FnOnce() -> Result<T>) -> Result<T> {
    struct Restore(Option<&'static str>);
    impl Drop for Restore {
        fn drop(&mut self) {
            INDEX_ERROR_OP.set(self.0);
        }
    }
    let outer = INDEX_ERROR_OP.get();
    INDEX_ERROR_OP.set(outer.or(Some(op)));
    let _restore = Restore(outer);
    f().map_err(|error| error.index_of(op))
}

/// Returns the op name for index errors that a backend detects later: that of the op that the user
/// called, if `op` runs as part of another one.
pub fn index_error_op(op: &'static str) -> &'static str {
    INDEX_ERROR_OP.get().unwrap_or(op)
}
