//! One-sided memory over any fabric.
//!
//! - [`World`]: a rank's handle on the job; [`Team`]s of ranks with barrier, broadcast, reductions
//!   and the rest;
//! - [`Window`]s: memory with a part on every member; [`Words`]: a few of them, for protocols;
//! - [`Context`]: put, get, strided and vector transfers, accumulate, atomics, fence, flush, wait;
//! - [`Scope`]: transfers that overlap with computation;
//! - [`raw`]: the same memory by rank and byte offset, for interfaces of other languages.
//!
//! `docs/memory-model.md` says what is ordered by what. This crate knows no fabric by
//! name, no thread, no socket and no clock. `target` decides, once for each operation, whether the
//! peer's memory is near; then the processor touches mapped memory, or the fabric is called.

mod accumulates;
mod activity;
mod atomics;
mod calls;
mod collective;
mod completion;
mod context;
mod counters;
mod doing;
mod failed_calls;
pub mod group;
mod landings;
mod marks;
mod meanwhile;
mod near;
mod near_word;
mod noncontiguous;
mod numbers;
mod numeric;
mod operations;
mod pending;
mod place;
mod plain;
mod poison;
mod polling;
mod prices;
mod process;
pub mod raw;
mod segment;
mod target;
mod team;
mod together;
mod transfers;
mod unfreed;
mod variants;
mod waiting;
mod window;
mod words;
mod world;

pub use activity::{PlaceFinder, Purpose};
pub use atomics::Fetch;
pub use collective::nonblocking::{PendingBarrier, PendingReduce};
pub use context::Context;
pub use counters::{Counters, PeerCounters};
pub use doing::Doing;
pub use failed_calls::FailedCall;
pub use farside_fabric::{
    Agent, Error, ErrorClass, ExitCause, HandlerId, Link, Node, Op, Rank, Result, Topology,
};
pub use group::{BarrierKind, SyncKind};
pub use near_word::NearWord;
pub use noncontiguous::{Patch, Run};
pub use numeric::Numeric;
pub use pending::{Pending, Scope, Transfer};
pub use place::Place;
pub use plain::{AtomicWord, Complex, Integer, Pair, Plain, Summand};
#[doc(hidden)]
pub use polling::Polling;
#[doc(hidden)]
pub use prices::{Prices, Processing};
pub use team::{Detached, Team};
#[doc(hidden)]
pub use together::or_free;
pub use waiting::{AwaitedWord, WaitOptions};
pub use window::{Own, Window};
pub use words::Words;
pub use world::{World, root_bytes};
