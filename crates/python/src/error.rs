//! Errors of Ternion as exceptions of fitting kinds, with the same messages.

use pyo3::exceptions::{PyIndexError, PyMemoryError, PyOSError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::{CastError, PyErr};
use ternion::Error;

/// What a function of this module returns.
pub type Outcome<T> = Result<T, Failure>;

/// An exception to be raised.
#[derive(Debug)]
pub struct Failure(PyErr);

impl Failure {
    /// An argument of a kind that is not taken.
    pub fn kind(message: impl Into<String>) -> Failure {
        Failure(PyTypeError::new_err(message.into()))
    }

    /// An argument whose value is not taken.
    pub fn value(message: impl Into<String>) -> Failure {
        Failure(PyValueError::new_err(message.into()))
    }

    /// What cannot be done now.
    pub fn state(message: impl Into<String>) -> Failure {
        Failure(PyRuntimeError::new_err(message.into()))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let message = error.to_string();
        Failure(match error {
            Error::DType { .. } | Error::DTypeMismatch { .. } => PyTypeError::new_err(message),
            Error::IndexOutOfRange { .. } | Error::Axis { .. } => PyIndexError::new_err(message),
            Error::OutOfMemory { .. } => PyMemoryError::new_err(message),
            Error::File { .. } => PyOSError::new_err(message),
            Error::Invalid { .. }
            | Error::Broadcast { .. }
            | Error::Shape { .. }
            | Error::Rank { .. }
            | Error::DeviceMismatch { .. } => PyValueError::new_err(message),
            _ => PyRuntimeError::new_err(message),
        })
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
