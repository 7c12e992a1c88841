//! One-sided remote memory for parallel programs.
//!
//! A program runs as many *ranks*; each reads, writes and atomically updates the memory of the
//! others without their help:
//!
//! ```
//! use farside::Rank;
//!
//! farside::local(4, |world| {
//!     let window = world.window::<u64>(4)?;
//!     for peer in world.ranks() {
//!         world.put(&[world.rank().0.into()], window.at(peer, world.rank().index()))?;
//!     }
//!     world.sync()?;
//!     assert_eq!(window.own().to_vec()?, [0, 1, 2, 3]);
//!     window.free(&world)
//! })
//! .unwrap();
//! ```
//!
//! There are three ways to be a rank, with one API:
//!
//! - [`join`]: a process that `farside run -n 4 PROGRAM` has started;
//! - [`local`]: threads of this process, for tests and examples;
//! - alone: [`join`] without the launcher gives a world of one rank.
//!
//! Start with [`World`]; what is ordered by what is written in the memory model
//! (`docs/memory-model.md`).

pub mod job;
mod local;
pub mod sim;
pub mod trace;

pub use farside_containers::{FixedMap, GlobalArray, HashMap, array, map};
pub use farside_dsm as dsm;
pub use farside_epoch as epoch;
pub use farside_fabric::{
    Atomic, Connection, Departure, JobView, Loss, OldValue, PeerState, Region, SegmentId, Width,
    Word, counting, observed, tracing,
};
#[doc(hidden)]
pub use farside_rma::Prices;
pub use farside_rma::{
    Agent, AtomicWord, AwaitedWord, Complex, Context, Counters, Error, ExitCause, Fetch, HandlerId,
    Integer, Link, Node, Own, Pair, Patch, PeerCounters, Pending, Place, Plain, Rank, Result, Run,
    Scope, Summand, Team, Topology, Transfer, WaitOptions, Window, Words, World,
};
pub use farside_sync::{
    Barrier, Combined, Fences, Guard, Lock, Locks, ReadGuard, RwLock, WriteGuard, barrier,
    combined, fence, lock, rw,
};
pub use job::join;
pub use local::{Local, local};
