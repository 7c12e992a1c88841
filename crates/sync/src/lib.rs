//! Synchronization over one-sided memory: one file per algorithm.
//!
//! - [`fence`]: when puts have landed, by acknowledgement and by confirmation;
//! - [`barrier`]: a central counter, dissemination, a binomial tree, a hierarchy of both;
//! - [`combined`]: fence and barrier of all ranks in one, in 2 log2 N message times;
//! - [`lock`]: exclusive locks, from a ticket to a queue per element of the topology;
//! - [`rw`]: reader-writer locks.
//!
//! This crate knows no fabric, no thread, no socket and no clock. The source that runs in
//! production is the source that the simulator explores; known-wrong variants of it are compiled
//! from the same lines.

pub mod barrier;
pub mod combined;
pub mod fence;
pub mod lock;
mod make;
pub mod rw;
#[doc(hidden)]
pub mod variant;

pub use barrier::Barrier;
pub use combined::Combined;
pub use fence::Fences;
pub use lock::{Guard, Lock, Permit, Semaphore};
pub use make::Locks;
pub use rw::{ReadGuard, RwLock, WriteGuard};
