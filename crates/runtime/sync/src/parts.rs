//! The parts of locks, for a crate that builds a lock of another shape from them.
//!
//! `farside-epoch` does: a window's passive lock has a word on every target, queues its origins
//! with [`queue::Queue`], and is poisoned by the loss of a member as every lock is. Programs use
//! [`lock`](crate::lock) and [`rw`](crate::rw) instead: the parts change whenever an algorithm
//! needs it, and only crates that are released together with this one may depend on them.

pub use crate::lock::frame::{Handle, LockWords, TimeLimit};

/// The queue of d-mcs, in which each rank waits on a word of its own.
pub mod queue {
    pub use crate::lock::queue::{Queue, WORDS};
}
