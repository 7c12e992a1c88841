//! Looks at jobs: finds those that run, reads what their ranks do, and says who is stuck and why;
//! and writes recordings down for people to look at ([`trace`]).
//!
//! - [`mod@find`]: the jobs of this user on this machine, found by the memory that their processes
//!   map;
//! - [`read`]: a [`Snapshot`] of a job, read from that memory without disturbing the job;
//! - [`snapshot`]: what was read, as plain data;
//! - [`doctor`]: from two snapshots to a [`Diagnosis`], without looking at anything else;
//! - [`page`]: the diagnosis as a page of text;
//! - [`watch`]: looks at a job now and then, and tells when ranks have waited for too long;
//! - [`process`]: what the system says of a process.
//!
//! The doctor computes which ranks can still go on: a rank that runs can; a rank that waits
//! can if whoever it waits for can: the holder of its lock, *all* members that its collective
//! misses, *any* rank that may write its word. What is left is *stuck*: nothing that the ranks do
//! can change it. Waits that last while somebody can go on are *slow*.

#![forbid(unsafe_code)]

pub mod doctor;
pub mod find;
mod lines;
pub mod page;
pub mod process;
pub mod read;
pub mod snapshot;
pub mod trace;
pub mod watch;

pub use doctor::{Diagnosis, Finding, Verdict, diagnose};
pub use find::{Error, FoundJob, find, jobs};
pub use lines::line_of;
pub use read::Reader;
pub use snapshot::Snapshot;
