//! Conversion of Ternion's errors to the corresponding exceptions, with the same messages.

use crate::dialect;
use pyo3::exceptions::{PyIndexError, PyMemoryError, PyOSError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::{CastError, PyErr, create_exception};
use ternion::Error;

create_exception!(
    ternion.linalg,
    LinAlgError,
    PyRuntimeError,
    "A matrix for which a function of linear algebra has no result: singular, not positive definite, with a NaN or an infinity."
);

/// The result type of the functions of this module.
pub type Outcome<T> = Result<T, RaisedError>;

/// Reports an error of an inner op under the name of the function that was called.
pub trait WithOp {
    fn with_op(self, function: &'static str) -> Self;
}

impl<T> WithOp for ternion::Result<T> {
    fn with_op(self, function: &'static str) -> Self {
        self.map_err(|error| error.in_name_of(function))
    }
}

/// An exception to be raised.
#[derive(Debug)]
pub struct RaisedError(PyErr);

impl RaisedError {
    /// An argument of an unsupported type.
    pub fn type_error(message: impl Into<String>) -> RaisedError {
        RaisedError(PyTypeError::new_err(truncated(message.into())))
    }

    /// An argument with an invalid value.
    pub fn value_error(message: impl Into<String>) -> RaisedError {
        RaisedError(PyValueError::new_err(truncated(message.into())))
    }

    /// An index or an axis out of range.
    pub fn index_error(message: impl Into<String>) -> RaisedError {
        RaisedError(PyIndexError::new_err(truncated(message.into())))
    }

    /// An operation that is not possible in the current state.
    pub fn runtime_error(message: impl Into<String>) -> RaisedError {
        RaisedError(PyRuntimeError::new_err(truncated(message.into())))
    }
}

/// Returns an error that carries an exception through Rust functions: where it reaches Python, the
/// exception itself is raised.
pub fn callback_error(function: &str, exception: PyErr) -> Error {
    Error::callback(function, exception)
}

/// Returns the exception that an error carries, if any.
fn source_exception(error: &Error) -> Option<PyErr> {
    let Error::Callback { source, .. } = error else { return None };
    let exception = source.downcast_ref::<PyErr>()?;
    Some(Python::attach(|py| exception.clone_ref(py)))
}

/// Returns a hint, in Python terms, on how to cast an argument to the expected dtype.
fn cast_hint(error: &Error) -> String {
    let Error::DType { what, expected, .. } = error else { return String::new() };
    let argument = match *what {
        "logits" => "input",
        "input" | "target" | "indices" | "index" | "weight" | "pos_weight" => what,
        // There is no argument to cast for outputs and operands.
        _ => return String::new(),
    };
    match expected.to_string().as_str() {
        "a floating dtype" => format!(": {argument}.float() makes it one"),
        "i32 or i64" => format!(": {argument}.long() makes it one"),
        _ => String::new(),
    }
}

impl From<Error> for RaisedError {
    fn from(error: Error) -> RaisedError {
        if let Some(exception) = source_exception(&error) {
            return RaisedError(exception);
        }
        let message = truncated(dialect::message(&error) + &cast_hint(&error));
        let op = dialect::op(&error);
        let exception = match error {
            Error::DType { .. } | Error::DTypeMismatch { .. } => PyTypeError::new_err(message),
            Error::IndexOutOfRange { .. } | Error::Axis { .. } => PyIndexError::new_err(message),
            Error::OutOfMemory { .. } => PyMemoryError::new_err(message),
            Error::File { path, detail, code } => os_error(code, &path, &detail, message),
            Error::Invalid { .. }
            | Error::Broadcast { .. }
            | Error::Shape { .. }
            | Error::Rank { .. }
            | Error::DeviceMismatch { .. } => PyValueError::new_err(message),
            Error::Matrix { .. } => LinAlgError::new_err(message),
            _ => PyRuntimeError::new_err(message),
        };
        if let Some(op) = op {
            // For functions of the package that are composed of others and report errors under
            // their own name. An exception that accepts no attributes is raised unchanged.
            let _ = Python::attach(|py| exception.value(py).setattr("_op", op));
        }
        RaisedError(exception)
    }
}

/// The maximum length of a message in characters: a message that shows a caller's argument would
/// otherwise be as long as the argument.
const MAX_MESSAGE_CHARS: usize = 4000;

/// Returns a message with its middle omitted if it is too long.
fn truncated(message: String) -> String {
    let count = message.chars().count();
    if count <= MAX_MESSAGE_CHARS {
        return message;
    }
    let begin: String = message.chars().take(MAX_MESSAGE_CHARS - 1000).collect();
    let end: String = message.chars().skip(count - 500).collect();
    format!("{begin} .. ({} characters) .. {end}", count - (MAX_MESSAGE_CHARS - 500))
}

/// Returns an OSError with the error number of the operating system, the subclass that Python has
/// for it, such as PermissionError, and the name of the file.
pub fn os_error(code: Option<i32>, path: &str, detail: &str, message: String) -> PyErr {
    match code {
        Some(code) => {
            let number = format!(" (os error {code})");
            PyOSError::new_err((
                code,
                truncated(detail.strip_suffix(&number).unwrap_or(detail).to_owned()),
                path.to_owned(),
            ))
        }
        None => PyOSError::new_err(message),
    }
}

impl From<PyErr> for RaisedError {
    fn from(error: PyErr) -> RaisedError {
        RaisedError(error)
    }
}

impl<'a, 'py> From<CastError<'a, 'py>> for RaisedError {
    fn from(error: CastError<'a, 'py>) -> RaisedError {
        RaisedError(error.into())
    }
}

impl From<RaisedError> for PyErr {
    fn from(raised: RaisedError) -> PyErr {
        raised.0
    }
}
