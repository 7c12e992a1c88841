//! One-sided remote memory for parallel programs.
//!
//! A program runs as many *ranks*; each reads, writes and atomically updates the memory of the
//! others without their help:
//!
//! ```
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
//! A program is a function of a [`World`], and [`#[farside::main]`](macro@main) makes it the entry:
//!
//! ```no_run
//! use farside::World;
//!
//! #[farside::main]
//! fn main(world: &World) -> farside::Result<()> {
//!     println!("{} of {}", world.rank(), world.size());
//!     world.barrier()
//! }
//! ```
//!
//! `farside run -n 4 PROGRAM` starts it as four processes; with `--threads` as four threads of one
//! process, with `--sim PROFILE` as four ranks of a simulated machine, and with `--trace FILE` all
//! operations are recorded ([`entry`]). Without a launcher it is a job of one rank.
//!
//! Two functions do without the entry: [`join`] makes this process the rank that a launcher started
//! it as, and [`local`] runs ranks as threads, for tests and examples.
//!
//! Start with [`World`]. The memory model says what is ordered by what (`docs/memory-model.md` of
//! the repository).
//!
//! # Features
//!
//! All are on by default, add something, and change nothing else. Without any of them a program
//! runs over shared memory and, between nodes, over UDP, with windows, atomics, collectives,
//! barriers and locks.
//!
//! | feature | brings |
//! | --- | --- |
//! | `containers` | `GlobalArray`, `HashMap`, `FixedMap` |
//! | `dsm` | `dsm`: shared pages, ordinary loads and stores across nodes |
//! | `epoch` | `epoch`: windows with epochs, as in MPI |
//! | `ofi` | jobs over libfabric, which is looked for at run time |
//! | `sim` | `sim`: virtual time on described machines, and the exploration of schedules |

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod entry;
mod local;
#[cfg(feature = "sim")]
pub mod sim;

#[cfg(feature = "containers")]
pub use farside_containers::{FixedMap, GlobalArray, HashMap, array, map};
#[cfg(feature = "dsm")]
pub use farside_dsm as dsm;
#[cfg(feature = "epoch")]
pub use farside_epoch as epoch;
pub use farside_fabric::{
    Atomic, Connection, Departure, Fault, JobView, Loss, OldValue, PeerState, Region, SegmentId,
    Width, Word, counting, observed, tracing,
};
pub use farside_job::{Exchange, connect, join, join_with};
pub use farside_macros::main;
#[doc(hidden)]
pub use farside_rma::Prices;
pub use farside_rma::{
    Agent, AtomicWord, AwaitedWord, BarrierKind, Complex, Context, Counters, Detached, Error,
    ErrorClass, ExitCause, Fetch, HandlerId, Integer, Link, Node, Numeric, Own, Pair, Patch,
    PeerCounters, Pending, PendingBarrier, PendingReduce, Place, Plain, Rank, Result, Run, Scope,
    Summand, SyncKind, Team, Topology, Transfer, WaitOptions, Window, Words, World, raw,
};
pub use farside_sync::{
    Fences, Guard, Lock, Locks, Permit, ReadGuard, RwLock, Semaphore, WriteGuard, fence, lock, rw,
};
pub use local::{Local, local};

/// The book's examples, run as tests.
#[cfg(doctest)]
mod book {
    macro_rules! pages {
        ($($name:ident: $file:literal)*) => { $(
            #[doc = include_str!(concat!("../../../docs/", $file))]
            mod $name {}
        )* };
    }
    pages! {
        tutorial: "tutorial.md"
        halo: "recipes/halo.md"
        task_queue: "recipes/task-queue.md"
        histogram: "recipes/histogram.md"
        pipeline: "recipes/pipeline.md"
        table: "recipes/table.md"
    }
}
