//! Errors of Ternion as exceptions of fitting kinds, with the same messages.

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

/// What a function of this module returns.
pub type Outcome<T> = Result<T, Failure>;

/// What fails in an op on the way is reported in the name of the function that was called.
pub trait Called {
    fn called(self, function: &'static str) -> Self;
}

impl<T> Called for ternion::Result<T> {
    fn called(self, function: &'static str) -> Self {
        self.map_err(|error| error.in_name_of(function))
    }
}

/// An exception to be raised.
#[derive(Debug)]
pub struct Failure(PyErr);

impl Failure {
    /// An argument of a kind that is not taken.
    pub fn kind(message: impl Into<String>) -> Failure {
        Failure(PyTypeError::new_err(bounded(message.into())))
    }

    /// An argument whose value is not taken.
    pub fn value(message: impl Into<String>) -> Failure {
        Failure(PyValueError::new_err(bounded(message.into())))
    }

    /// An index, or an axis, that is not there.
    pub fn index(message: impl Into<String>) -> Failure {
        Failure(PyIndexError::new_err(bounded(message.into())))
    }

    /// What cannot be done now.
    pub fn state(message: impl Into<String>) -> Failure {
        Failure(PyRuntimeError::new_err(bounded(message.into())))
    }
}

/// The error that carries an exception through functions of Rust: where it arrives, the exception itself is
/// raised.
pub fn carried(function: &str, exception: PyErr) -> Error {
    Error::callback(function, exception)
}

/// The exception that an error carries, if it carries one.
fn exception_behind(error: &Error) -> Option<PyErr> {
    let Error::Callback { source, .. } = error else { return None };
    let exception = source.downcast_ref::<PyErr>()?;
    Some(Python::attach(|py| exception.clone_ref(py)))
}

/// What makes an argument one of the dtype that is expected, in the words of whoever writes Python.
fn cast(error: &Error) -> String {
    let Error::DType { what, expected, .. } = error else { return String::new() };
    let argument = match *what {
        "logits" => "input",
        "input" | "target" | "indices" | "index" | "weight" | "pos_weight" => what,
        // Of outputs and of operands there is no argument to be cast.
        _ => return String::new(),
    };
    match expected.to_string().as_str() {
        "a floating dtype" => format!(": {argument}.float() makes it one"),
        "i32 or i64" => format!(": {argument}.long() makes it one"),
        _ => String::new(),
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        if let Some(exception) = exception_behind(&error) {
            return Failure(exception);
        }
        let message = bounded(dialect::message(&error) + &cast(&error));
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
            // For a function of the package that is made of others, and reports in its own name. An exception
            // that takes no attribute is raised as it is.
            let _ = Python::attach(|py| exception.value(py).setattr("_op", op));
        }
        Failure(exception)
    }
}

/// Characters at which a message ends: one that shows what a caller gave is as long as that otherwise.
const LONGEST: usize = 4000;

/// A message without its middle, if it is too long to be read.
fn bounded(message: String) -> String {
    let count = message.chars().count();
    if count <= LONGEST {
        return message;
    }
    let begin: String = message.chars().take(LONGEST - 1000).collect();
    let end: String = message.chars().skip(count - 500).collect();
    format!("{begin} .. ({} characters) .. {end}", count - (LONGEST - 500))
}

/// An OSError: with the number of the operating system, that of the subclass that Python has for it, such as PermissionError, and the name of the file.
pub fn os_error(code: Option<i32>, path: &str, detail: &str, message: String) -> PyErr {
    match code {
        Some(code) => {
            let number = format!(" (os error {code})");
            PyOSError::new_err((
                code,
                bounded(detail.strip_suffix(&number).unwrap_or(detail).to_owned()),
                path.to_owned(),
            ))
        }
        None => PyOSError::new_err(message),
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Failure {
        Failure(error)
    }
}

impl<'a, 'py> From<CastError<'a, 'py>> for Failure {
    fn from(error: CastError<'a, 'py>) -> Failure {
        Failure(error.into())
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> PyErr {
        failure.0
    }
}
