//! Shared pages: ordinary loads and stores on memory that ranks share across nodes, under lazy
//! release consistency.
//!
//! - [`Dsm`]: the shared memory of a job; [`Shared`] slices in it, and [`View`]s of them;
//! - [`SharedVec`]: a vector that any rank appends to and takes from; [`SharedHeap`]: memory that
//!   one rank allocates and all use;
//! - [`Lent`]: shared memory that several threads of a rank touch at the same time;
//! - [`Config`]: which barrier, what pages hold at the start, how accesses are noticed;
//! - [`Statistics`]: what was done; [`Race`]s: what should not have been.
//!
//! The ranks of a node share one copy of the memory, and diffs travel between nodes when they are
//! asked for. All protocols stand under two front ends. With the *pager*, a view
//! is ordinary memory, and a page fault brings a page up to date; with *explicit* accesses, making
//! a view does, which needs no operating system, and is what the simulator runs. This crate knows
//! no fabric, no thread, no socket and no clock; what it knows of page faults is in
//! `farside-pager`.
//!
//! The rules of the memory are in `docs/dsm.md`.

mod accesses;
mod barrier;
mod coherence;
mod config;
mod copies;
mod diff;
mod domain;
mod dsm;
mod eager;
mod element;
mod failure;
mod front;
mod guard;
mod heap;
mod held;
mod interval;
mod lend;
mod lock;
mod mail;
mod memory;
mod message;
mod one_copy;
mod protocol;
mod race;
mod reclaim;
mod region;
mod shared;
mod state;
mod statistics;
#[doc(hidden)]
pub mod steps;
mod time;
mod vec;

pub use config::{Access, BarrierKind, Config, Copies, Diffs, Fetch, Start};
pub use dsm::Dsm;
pub use farside_pager::{Method, has_userfault};
pub use heap::SharedHeap;
pub use lend::{Lent, Part, PartMut};
pub use race::{AccessKind, Race};
pub use region::Placement;
pub use shared::{Shared, View, ViewMut};
pub use statistics::{ArrayStatistics, BarrierTime, Statistics};
pub use vec::{LockedVec, SharedVec};
