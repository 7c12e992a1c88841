//! The properties that protocols promise, one file each.
//!
//! A property watches the ranks of one simulated job: it is prepared for a run, and told what
//! happens. The exploration tries every order of operations on *memory* that matters, and knows
//! nothing of Rust variables; so each property also touches words that all ranks reach, and the
//! orders that would break it are among those that are tried. Freedom from deadlock is no property
//! here: the explorer itself finds deadlocks.

mod bounded_bypass;
mod in_a_row;
mod linearizability;
mod mutual_exclusion;
mod promise;
mod readers_writers;
mod separation;

pub use bounded_bypass::BoundedBypass;
pub use in_a_row::{Counted, InARow};
pub use linearizability::{History, Specification};
pub use mutual_exclusion::{MutualExclusion, Room};
pub use promise::Promise;
pub(crate) use readers_writers::Inside;
pub use readers_writers::{Library, ReadersWriters};
pub use separation::{Gate, Separation};
