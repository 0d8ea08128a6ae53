//! One error type; every message names the op, what was expected and what came.

mod text;

pub use text::{Dialect, Part, Rust, Term, Text};

use crate::{DType, Shape};
use std::cell::Cell;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// A result whose error is [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a caller, a device or a file can do wrong.
#[non_exhaustive]
pub enum Error {
    /// An argument that the op cannot take.
    Invalid {
        /// The op.
        op: &'static str,
        /// What was expected and what came.
        detail: Text,
    },
    /// A matrix for which an op of linear algebra has no result: singular, not positive definite, with a NaN where an iteration would not end.
    Matrix {
        /// The op.
        op: &'static str,
        /// Which matrix, and what it is.
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
    /// A shape other than the one that the op needs.
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
    Rank {
        /// The op.
        op: &'static str,
        /// How many axes it takes, in words.
        expected: String,
        /// The shape that came.
        shape: Box<Shape>,
    },
    /// An axis that the tensor does not have.
    Axis {
        /// The op.
        op: &'static str,
        /// The axis as the caller wrote it.
        axis: isize,
        /// The shape.
        shape: Box<Shape>,
    },
    /// A dtype that the op does not take.
    DType {
        /// The op.
        op: &'static str,
        /// Which tensor.
        what: &'static str,
        /// Its dtype.
        got: DType,
        /// What fits.
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
        /// Device of the other.
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
    /// A device that was not built in or is not there.
    Device {
        /// The device as the caller named it.
        device: String,
        /// Why it cannot be had.
        detail: String,
    },
    /// No memory left on a device.
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
    Unsupported {
        /// The op.
        op: &'static str,
        /// The device.
        device: String,
        /// The backend's reason.
        why: String,
    },
    /// The backward walk met something it cannot differentiate.
    Autograd(Text),
    /// A tensor that backward needs was changed in place after it was saved.
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
    MissingGradient {
        /// The parameters.
        names: String,
    },
    /// Two devices computed different numbers.
    Mismatch {
        /// The op.
        op: &'static str,
        /// The device under test.
        left: String,
        /// The device compared with.
        right: String,
        /// First difference, counts and statistics.
        detail: Text,
    },
    /// A value that is not a number or infinite where it is watched for.
    NotFinite {
        /// The op.
        op: &'static str,
        /// Which tensor and how many elements.
        detail: Text,
    },
    /// Reading or writing a file failed.
    File {
        /// The file.
        path: String,
        /// What is wrong with it.
        detail: String,
        /// The operating system's error number, where the failure is one of the operating system.
        code: Option<i32>,
    },
    /// A function of the caller, such as a hook or a custom op's backward, failed.
    Callback {
        /// The function.
        function: String,
        /// What it reported. A binding finds its own error type here by `downcast_ref`.
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

/// The message, in the names of Rust.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, &Rust)
    }
}

/// The message: what `fn main() -> Result<()>` and `unwrap` print should be read by people.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The messages: each variant is worded once, here, with the names that a dialect gives its ops,
/// dtypes and terms.
impl Error {
    /// The message in the names of `dialect`.
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
                 in the optimiser's configuration), or the gradients are older than the last change of its \
                 dtype, device or freezing (run backward again)"
            ),
            // It names the primitive that ran, which the caller need not have called.
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

/// The variants that report in the name of the op that was called.
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
    /// The op that the message begins with; `None` for an error of no op, and for those that name the primitive that
    /// ran, which the caller need not have called.
    pub fn op(&self) -> Option<&'static str> {
        match self {
            of_call!(op) | Error::Unsupported { op, .. } => Some(op),
            _ => None,
        }
    }

    /// This error in the name of `function`, if it reports in that of the op that was called: whoever called a function
    /// need not know which ops it is made of.
    #[must_use]
    pub fn in_name_of(mut self, function: &'static str) -> Error {
        if let of_call!(op) = &mut self {
            *op = function;
        }
        self
    }

    /// No memory for so many bytes in the host's own memory, outside every device's pool.
    pub fn host_memory(requested: usize) -> Error {
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
    #[cold]
    pub fn invalid(op: &'static str, detail: impl Into<Text>) -> Error {
        Error::Invalid { op, detail: detail.into() }
    }

    /// A file or folder whose content or name is refused.
    #[cold]
    pub fn file(path: &Path, detail: impl Into<String>) -> Error {
        let path = if path.as_os_str().is_empty() { "\"\"".to_owned() } else { path.display().to_string() };
        Error::File { path, detail: detail.into(), code: None }
    }

    /// What the operating system reported of a file or folder; `what` failed, such as "cannot be read".
    #[cold]
    pub fn file_system(path: &Path, what: &str, error: &std::io::Error) -> Error {
        match Error::file(path, format!("{what}: {error}")) {
            Error::File { path, detail, .. } => Error::File { path, detail, code: error.raw_os_error() },
            other => other,
        }
    }

    /// The error of a function of the caller.
    #[cold]
    pub fn callback(
        function: impl Into<String>,
        source: impl std::error::Error + Send + Sync + 'static,
    ) -> Error {
        Error::Callback { function: function.into(), source: Arc::new(source) }
    }

    /// A matrix for which `op` has no result.
    #[cold]
    pub fn matrix(op: &'static str, detail: impl Into<Text>) -> Error {
        Error::Matrix { op, detail: detail.into() }
    }

    /// A dtype that `op` does not take for its `what`.
    #[cold]
    pub fn dtype(op: &'static str, what: &'static str, got: DType, expected: impl Into<Text>) -> Error {
        Error::DType { op, what, got, expected: expected.into() }
    }

    /// Something that the backward walk cannot differentiate.
    #[cold]
    pub fn autograd(detail: impl Into<Text>) -> Error {
        Error::Autograd(detail.into())
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
