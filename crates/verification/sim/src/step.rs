//! The steps of a run, and waits that might have been over sooner.

use crate::bits::Bits;
use crate::event::{Access, Event};

/// A step of a run.
#[derive(Debug, Clone)]
pub struct Step {
    /// The event.
    pub event: Event,
    /// The steps that must come before it, as far as the order matters; index into the run.
    pub before: Bits,
    /// Of those, the ones that caused it to be possible at all: they cannot come after it.
    pub causes: Bits,
    /// The words that were not right when a departure ended a wait for them, after it.
    pub(crate) looked: Vec<Access>,
    /// The value that the word held before, if the event was an atomic.
    pub(crate) held: Option<u64>,
}

/// A wait began when its word had been changed, and would have been over with what the word held
/// before.
#[derive(Debug)]
pub(crate) struct LateWait {
    /// The step that changed the word.
    pub(crate) changed: usize,
    /// The number of steps when the wait began.
    pub(crate) began: usize,
}
