//! Which call of the program failed, and where: for whoever prints its error.
//!
//! An error says what went wrong and travels through layers that do not know the program; the call
//! that returns it knows its place. So the place is kept beside the error, for the last one only.

use std::panic::Location;
use std::sync::{Mutex, PoisonError};

use farside_fabric::Error;

/// A call that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedCall {
    error: Error,
    /// The name of the call, where it is known.
    pub name: Option<&'static str>,
    /// Where the program made it.
    pub place: &'static Location<'static>,
}

/// The last call of a rank that failed. All contexts and windows of the rank share it.
#[derive(Debug, Default)]
pub(crate) struct FailedCalls(Mutex<Option<FailedCall>>);

impl FailedCalls {
    /// Notes a call that fails with this error. A layer below may have noted the same call, by its
    /// name.
    #[cold]
    pub(crate) fn note(
        &self,
        error: &Error,
        name: Option<&'static str>,
        place: &'static Location<'static>,
    ) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = last.as_ref().filter(|call| call.error == *error && call.place == place);
        let name = name.or(known.and_then(|call| call.name));
        *last = Some(FailedCall { error: error.clone(), name, place });
    }

    /// Returns the last call that failed, if it was with this error, or if this is the program's
    /// own and tells of it.
    pub(crate) fn with(&self, error: &Error) -> Option<FailedCall> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let tells_of = |own: &Error| match error {
            Error::Program(text) => text.contains(&own.to_string()),
            error => error == own,
        };
        last.clone().filter(|call| tells_of(&call.error) && !is_ours(call.place))
    }
}

impl FailedCall {
    /// What it failed with.
    pub fn error(&self) -> &Error {
        &self.error
    }
}

impl std::fmt::Display for FailedCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(name) = self.name {
            write!(f, "in {name} ")?;
        }
        write!(f, "at {}", self.place)
    }
}

/// The crates whose protocols make calls of their own.
const LAYERS: [&str; 5] = ["rma", "sync", "epoch", "containers", "dsm"];

/// Whether a place is in one of the layers above: a protocol's own call says nothing of the
/// program's. Their sources lie side by side, with a version in their names if they came as
/// packages.
fn is_ours(place: &Location<'_>) -> bool {
    let own = file!().strip_suffix("/src/failed_calls.rs");
    let Some((beside, version)) = own.and_then(|own| own.rsplit_once("rma")) else { return false };
    let is_in = |layer| {
        let rest = place.file().strip_prefix(beside)?.strip_prefix(layer)?;
        rest.strip_prefix(version)?.strip_prefix("/src/")
    };
    LAYERS.iter().any(|&layer| is_in(layer).is_some())
}
