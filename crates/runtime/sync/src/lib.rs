//! Synchronization over one-sided memory: one file per algorithm.
//!
//! - [`fence`]: puts have landed, by acknowledgement and by confirmation;
//! - [`lock`]: exclusive locks, from a ticket to a queue per element of the topology;
//! - [`rw`]: reader-writer locks;
//! - [`parts`]: what locks are built from, for `farside-epoch`.
//!
//! This crate knows no fabric, no thread, no socket and no clock. The source that runs in
//! production is the source that the simulator explores; known-wrong variants leave out one of its
//! steps.

#![forbid(unsafe_code)]

pub mod fence;
pub mod lock;
mod make;
pub mod parts;
pub mod rw;

pub use fence::Fences;
pub use lock::{Guard, Lock, Permit, Semaphore};
pub use make::Locks;
pub use rw::{ReadGuard, RwLock, WriteGuard};
