//! Errors as exceptions: one class of `farside.errors` for each error class, with the same text.

use farside::{Error, Result};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

/// Makes an error an exception of its class.
#[cold]
pub(crate) fn raise(py: Python<'_>, error: &Error) -> PyErr {
    let make = || -> PyResult<PyErr> {
        let classes = py.import("farside.errors")?.getattr("BY_NAME")?;
        let exception = classes.get_item(error.class().name())?.call1((error.to_string(),))?;
        if let Error::RankLost { rank, how } | Error::Poisoned { rank, how } = error {
            exception.setattr("rank", rank.0)?;
            exception.setattr("how", how.to_string())?;
        }
        Ok(PyErr::from_value(exception))
    };
    make().unwrap_or_else(|failure| failure)
}

/// A result whose error becomes an exception.
pub(crate) trait Raise<T> {
    /// Returns the value, or the exception of the error.
    fn raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> Raise<T> for Result<T> {
    #[inline]
    fn raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| raise(py, &error))
    }
}

/// Returns an exception for an argument that makes no sense.
#[cold]
pub(crate) fn bad_argument(py: Python<'_>, text: impl Into<String>) -> PyErr {
    raise(py, &Error::InvalidArgument(text.into()))
}

/// Returns an exception for a call that is not allowed at this moment.
#[cold]
pub(crate) fn bad_state(py: Python<'_>, text: impl Into<String>) -> PyErr {
    raise(py, &Error::InvalidState(text.into()))
}

/// Returns an exception for something that cannot be done.
#[cold]
pub(crate) fn unsupported(py: Python<'_>, what: impl Into<String>) -> PyErr {
    raise(py, &Error::Unsupported { what: what.into() })
}

/// Returns an exception for an index of a wrong type.
#[cold]
pub(crate) fn bad_index_type(text: impl Into<String>) -> PyErr {
    PyTypeError::new_err(text.into())
}

/// Returns an exception for an index outside of what is indexed.
#[cold]
pub(crate) fn bad_index(py: Python<'_>, text: impl Into<String>) -> PyErr {
    let text = text.into();
    let make = || py.import("farside.errors")?.getattr("OutOfBounds")?.call1((text,));
    make().map_or_else(|failure| failure, PyErr::from_value)
}
