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
//!     window.free(world)
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
//! Start with [`World`], whose page begins with a table of all operations. What lies below is in
//! [`fabric`]. The memory model says what is ordered by what (`docs/memory-model.md` of the
//! repository).
//!
//! # Features
//!
//! All are on by default, add something, and change nothing else. Without any of them a program
//! runs over shared memory and, between nodes, over UDP, with windows, atomics, collectives,
//! barriers and locks.
//!
//! | feature | brings |
//! | --- | --- |
//! | `containers` | `GlobalArray`, `HashMap`, `FixedMap`, `FixedSet` |
//! | `dsm` | `dsm`: shared pages, ordinary loads and stores across nodes |
//! | `epoch` | `epoch`: windows with epochs, as in MPI |
//! | `ofi` | jobs over libfabric, which is looked for at run time |
//! | `races` | the race checker that `farside run --races` asks for |
//! | `sim` | `sim`: virtual time on described machines, and `check`: every schedule of a program |

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "sim")]
pub mod check;
pub mod entry;
pub mod fabric;
mod local;
#[cfg(feature = "sim")]
pub mod sim;

#[cfg(feature = "containers")]
pub use farside_containers::{
    Aggregator, FixedMap, FixedSet, GlobalArray, HashMap, aggregator, array, map,
};
#[cfg(feature = "dsm")]
pub use farside_dsm as dsm;
#[cfg(feature = "epoch")]
pub use farside_epoch as epoch;
pub use farside_fabric::PeerState;
pub use farside_job::{Exchange, join, join_with};
pub use farside_macros::main;
#[cfg(feature = "sim")]
pub use farside_macros::test;
/// A rank's handle on the job, from which every operation starts.
///
/// | to | call |
/// | --- | --- |
/// | allocate memory on all ranks | [`window`], [`words`] |
/// | name a place, use the own part, free it | [`Window::at`], [`Window::own`], [`Window::free`] |
/// | write | [`put`], [`put_value`], [`put_nb`] |
/// | write and signal | [`put_signal`], [`put_signal_add`] |
/// | read | [`get`], [`get_value`], [`get_nb`] |
/// | overlap transfers with work | [`scope`], [`Scope::put_nb`], [`Scope::get_nb`] |
/// | transfer patches | [`put_strided`], [`get_strided`], [`accumulate_strided`] |
/// | transfer lists of runs | [`put_vector`], [`get_vector`], [`accumulate_vector`] |
/// | add to many elements | [`accumulate`], by any operation [`accumulate_with`] |
/// | change and read many elements | [`get_accumulate`], [`get_accumulate_nb`] |
/// | update a word | [`add`], [`and`], [`or`], [`xor`], [`store`], [`signal`] |
/// | update a word, get its old value | [`fetch_add`], [`fetch_and`], [`fetch_or`], [`fetch_xor`] |
/// | | [`swap`], [`compare_swap`], [`load`] |
/// | order and complete puts | [`fence`], [`flush`], [`flush_all`]; of all ranks: [`sync`] |
/// | wait for an own word | [`wait`], [`wait_timeout`], [`wait_any_among`], [`wait_for_all`] |
/// | poll another rank's memory | [`load`] or [`get`], with [`relax`] in the loop |
/// | meet | [`barrier`], [`barrier_nb`] |
/// | move data among all ranks | [`broadcast`], [`reduce`], [`all_reduce`], [`all_sum`], [`scan`] |
/// | | [`all_gather`], [`all_to_all`], [`all_to_all_v`] |
/// | work with some ranks | [`split`], [`split_by_node`]: a [`Team`] has these collectives |
/// | exclude each other | [`Locks::lock`], [`Locks::rw_lock`], [`Semaphore::new`] |
/// | run code at another node | [`serve`], [`call`] |
/// | use several threads | [`context`] |
/// | know the job | [`rank`], [`size`], [`ranks`], [`topology`], [`peer_state`], [`counters`] |
///
/// One-sided operations are methods of [`Context`]: a world derefs to that of its first thread.
///
/// [`window`]: World::window
/// [`words`]: World::words
/// [`put`]: Context::put
/// [`put_value`]: Context::put_value
/// [`put_nb`]: Context::put_nb
/// [`put_signal`]: Context::put_signal
/// [`put_signal_add`]: Context::put_signal_add
/// [`get`]: Context::get
/// [`get_value`]: Context::get_value
/// [`get_nb`]: Context::get_nb
/// [`scope`]: Context::scope
/// [`put_strided`]: Context::put_strided
/// [`get_strided`]: Context::get_strided
/// [`accumulate_strided`]: Context::accumulate_strided
/// [`put_vector`]: Context::put_vector
/// [`get_vector`]: Context::get_vector
/// [`accumulate_vector`]: Context::accumulate_vector
/// [`accumulate`]: Context::accumulate
/// [`accumulate_with`]: Context::accumulate_with
/// [`get_accumulate`]: Context::get_accumulate
/// [`get_accumulate_nb`]: Context::get_accumulate_nb
/// [`add`]: Context::add
/// [`and`]: Context::and
/// [`or`]: Context::or
/// [`xor`]: Context::xor
/// [`store`]: Context::store
/// [`signal`]: Context::signal
/// [`fetch_add`]: Context::fetch_add
/// [`fetch_and`]: Context::fetch_and
/// [`fetch_or`]: Context::fetch_or
/// [`fetch_xor`]: Context::fetch_xor
/// [`swap`]: Context::swap
/// [`compare_swap`]: Context::compare_swap
/// [`load`]: Context::load
/// [`fence`]: Context::fence
/// [`flush`]: Context::flush
/// [`flush_all`]: Context::flush_all
/// [`sync`]: World::sync
/// [`wait`]: Context::wait
/// [`wait_timeout`]: Context::wait_timeout
/// [`wait_any_among`]: Context::wait_any_among
/// [`wait_for_all`]: Context::wait_for_all
/// [`relax`]: Context::relax
/// [`barrier`]: World::barrier
/// [`barrier_nb`]: World::barrier_nb
/// [`broadcast`]: World::broadcast
/// [`reduce`]: World::reduce
/// [`all_reduce`]: World::all_reduce
/// [`all_sum`]: World::all_sum
/// [`scan`]: World::scan
/// [`all_gather`]: World::all_gather
/// [`all_to_all`]: World::all_to_all
/// [`all_to_all_v`]: World::all_to_all_v
/// [`split`]: World::split
/// [`split_by_node`]: World::split_by_node
/// [`serve`]: World::serve
/// [`call`]: Context::call
/// [`context`]: Context::context
/// [`rank`]: Context::rank
/// [`size`]: Context::size
/// [`ranks`]: Context::ranks
/// [`topology`]: World::topology
/// [`peer_state`]: Context::peer_state
/// [`counters`]: Context::counters
pub use farside_rma::World;
pub use farside_rma::{
    Agent, AtomicWord, AwaitedWord, BarrierKind, Complex, Context, Counters, Detached, Error,
    ErrorClass, ExitCause, Fetch, HandlerId, Integer, Link, Node, Numeric, Op, Own, Pair, Patch,
    PeerCounters, Pending, PendingBarrier, PendingReduce, Place, Plain, Rank, Result, Run, Scope,
    Summand, SyncKind, Team, Topology, Transfer, WaitOptions, Window, Words, raw,
};
#[doc(hidden)]
pub use farside_rma::{Polling, Prices};
pub use farside_sync::{
    Fences, Guard, Lock, Locks, Permit, ReadGuard, RwLock, Semaphore, WriteGuard, fence, lock, rw,
};
pub use local::{Local, local};
/// What a type derives to be [`Plain`]: the traits of `zerocopy`, for programs that do not have it
/// among their own dependencies.
///
/// ```
/// use farside::zerocopy::{FromBytes, Immutable, IntoBytes};
///
/// #[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
/// #[zerocopy(crate = "farside::zerocopy")]
/// #[repr(C)]
/// struct Body {
///     place: [f64; 3],
///     mass: f64,
/// }
///
/// farside::local(2, |world| {
///     let bodies = world.window::<Body>(10)?;
///     bodies.own().set(0, Body { place: [0.0; 3], mass: 1.0 })?;
///     bodies.free(world)
/// })
/// .unwrap();
/// ```
pub use zerocopy;

/// The book's examples, run as tests.
#[cfg(doctest)]
mod book {
    macro_rules! pages {
        ($($name:ident: $file:literal)*) => { $(
            #[doc = include_str!(concat!("../../../../docs/", $file))]
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
        checking: "checking.md"
    }
}
