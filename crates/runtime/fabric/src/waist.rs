//! The [`Fabric`] trait: what the author of a fabric writes.
//!
//! `docs/memory-model.md` says what is ordered by what; in short: puts, and accumulates and atomics
//! whose old values are not wanted, are *posted*: they land in any order until [`Fabric::fence`] or
//! [`Fabric::flush`]. Fetching operations complete when their ticket does.
//!
//! `docs/adding-a-fabric.md` walks through a complete fabric of less than 300 lines.

use std::sync::Arc;
use std::time::Duration;

use crate::accumulate::Accumulate;
use crate::address::{Node, Rank, Region, SegmentId, Word};
use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::job::JobView;
use crate::memory::Mapped;
use crate::operation::{Atomic, Width};
use crate::probe::Probe;
use crate::record::Lasting;

/// One rank's (more exactly: one context's) connection to the job, as the author of a fabric
/// writes it: the required methods, and those provided ones that the fabric can do better.
///
/// Layers above use a [`Connection`], which every fabric is. A type that stands on another
/// connection (a decorator, a fabric over another fabric) implements [`Connection`] itself, where
/// no method is provided and so none can be forgotten.
///
/// Every operation makes visible what its caller wrote to its own memory before; a wait that
/// returns [`Wake::Ready`] sees what had landed before the change that made it ready. Dropping the
/// last connection of a rank leaves the job: what the rank has posted still lands, and its memory
/// stays reachable for the others until they have left, too.
///
/// A fabric is used by one thread at a time; another thread takes a [`Fabric::context`] of its own.
/// All methods take `&self` so that decorators and pending operations can share it.
pub trait Fabric: Send {
    /// Returns this rank's view of the job: rank, topology, capabilities, the state of its peers.
    fn job(&self) -> JobView<'_>;

    /// Makes `bytes` of fresh, zeroed memory of this rank reachable as `segment`, aligned to at
    /// least a page.
    fn register(&self, segment: SegmentId, bytes: u64) -> Result<()>;
    /// Takes that memory back. Later operations on it fail with [`crate::Error::NoSegment`].
    fn deregister(&self, segment: SegmentId) -> Result<()>;
    /// Maps a rank's part of a segment. This rank's own memory can always be mapped; `None` if
    /// the memory of another rank is out of reach of loads and stores.
    ///
    /// Where [`Caps::direct`] is set, loads and stores of mapped memory replace operations on it.
    fn map(&self, rank: Rank, segment: SegmentId) -> Result<Option<Mapped>>;

    /// Posts a write of the packed `bytes`, which are reusable on return.
    fn put(&self, to: &Region<'_>, bytes: &[u8]) -> Result<()>;
    /// Reads into `into`.
    ///
    /// # Safety
    ///
    /// `into` must be valid for writes of the region's bytes, and nothing else may touch it, until
    /// the operation has completed.
    unsafe fn get(&self, from: &Region<'_>, into: *mut u8, hint: Hint) -> Result<Started>;
    /// Executes an accumulate of the packed elements in `bytes` if the old ones are wanted:
    /// [`Reply::Bytes`] has them, packed. Posts it otherwise: then it returns [`Started::Done`] at
    /// once. Either way `bytes` are reusable on return.
    fn accumulate(
        &self,
        to: &Region<'_>,
        accumulate: &Accumulate,
        bytes: &[u8],
        old: OldValue,
    ) -> Result<Started>;
    /// Executes an atomic if its old value is wanted, and posts it otherwise: then it returns
    /// [`Started::Done`] at once. It wakes a waiter.
    fn atomic(&self, at: Word, op: Atomic, old: OldValue) -> Result<Started>;
    /// Orders what this connection posted before ahead of what it posts, or does atomically, to
    /// the same peer afterwards. Gets are not ordered.
    fn fence(&self) -> Result<()>;
    /// Returns when all that this connection posted to `peer` has landed.
    fn flush(&self, peer: Rank) -> Result<()>;

    /// Asks the agent of `node` to run a handler; the reply's bytes come with the completion.
    fn call(&self, node: Node, handler: HandlerId, bytes: &[u8]) -> Result<Started>;
    /// Gives the agent of this rank's node a handler. One process of a node at a time runs
    /// handlers, with its own copies of them; when its rank has left or was killed, that of the
    /// next rank of the node goes on.
    fn serve(&self, handler: HandlerId, run: Handler) -> Result<()>;

    /// Returns the reply of an operation if it has completed. A reply, or an error, uses up the
    /// ticket: the buffer is not touched any more.
    fn poll(&self, ticket: Ticket) -> Result<Option<Reply>>;
    /// Gives up on an operation: when this returns, its buffer will not be touched any more. May
    /// have to wait for that.
    fn cancel(&self, ticket: Ticket);
    /// THE ONLY WAY TO WAIT: returns when the event has happened, when a rank has departed, or when
    /// time is up.
    fn block(&self, wait: &Wait<'_>) -> Result<Wake>;
    /// Lets others run. Stands in a loop that polls *far* memory.
    fn relax(&self);
    /// Wakes the sleeping waiters of `peer` after its mapped memory was changed directly (see
    /// [`Mapped::is_watched`]).
    fn wake(&self, peer: Rank);

    /// Makes a connection of the same rank for another thread: with completions and an order of
    /// its own.
    fn context(&self) -> Result<Box<dyn Connection>>;

    /// Starts a put that need not copy: the bytes stay borrowed until completion.
    ///
    /// # Safety
    ///
    /// `from` must be valid for reads of the region's bytes, and nothing may write it, until the
    /// operation has completed.
    unsafe fn put_nb(&self, to: &Region<'_>, from: *const u8, hint: Hint) -> Result<Started> {
        let _ = hint;
        let bytes = to.shape.bytes()? as usize;
        // SAFETY: readable by the caller's promise.
        self.put(to, unsafe { std::slice::from_raw_parts(from, bytes) })?;
        Ok(Started::Done(Reply::None))
    }

    /// Posts a put and, after it at the target, an atomic on a word of the same rank.
    fn put_signal(&self, to: &Region<'_>, bytes: &[u8], at: Word, op: Atomic) -> Result<()> {
        self.put(to, bytes)?;
        self.fence()?;
        self.atomic(at, op, OldValue::Ignored).map(drop)
    }

    /// Returns the counting of landings, if this fabric offers it.
    fn landings(&self) -> Option<&dyn Landings> {
        None
    }

    /// Returns the clock, if this fabric offers one.
    fn clock(&self) -> Option<&dyn Clock> {
        None
    }

    /// Returns the probe of this connection, if it checks for races or explores schedules.
    fn probe(&self) -> Option<Arc<dyn Probe>> {
        None
    }
}

/// An extension that a fabric may offer: it counts, on each node, the posted operations of other
/// nodes that have become visible there (\[ARMCI03\] section 3.1.2).
pub trait Landings {
    /// Begins, unless that was done, to count what lands on this rank's node. Returns a word of the
    /// node's first rank, in a segment of the fabric's own, that grows by one for every put, posted
    /// accumulate and posted atomic of a rank of another node that has become visible here (a put
    /// with a signal is two). What handlers post does not count, nor what lands in
    /// [`SegmentId::ROOT`].
    fn begin(&self) -> Result<Word>;
    /// Excludes a segment of this rank from the counting: for the traffic of the protocols that do
    /// the counting. Every rank that has a part of the segment excludes it before it is used.
    fn exclude(&self, segment: SegmentId) -> Result<()>;
}

/// An extension that a fabric may offer: the time, for measuring. No protocol decides by it.
pub trait Clock {
    /// Returns the time, from some beginning that is the same for all ranks of a node.
    fn now_ns(&self) -> u64;
    /// Computes for so long: stands for a program's own work in measurements.
    fn work(&self, ns: u64) {
        let begin = self.now_ns();
        while self.now_ns().wrapping_sub(begin) < ns {
            std::hint::spin_loop();
        }
    }
}

/// Whether the caller of an atomic, or of an accumulate, wants what was there before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OldValue {
    /// The operation completes with [`Reply::Word`], an accumulate with [`Reply::Bytes`].
    Wanted,
    /// The operation is posted, as a put is.
    Ignored,
}

/// What the caller of a transfer does while it is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hint {
    /// The caller waits for it at once.
    Awaited,
    /// The caller computes: the fabric makes the transfer progress without it where it can, also
    /// where that makes each step slower.
    Overlapped,
}

/// Numbers and orderings of a fabric; never a bit per method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caps {
    /// The fabric's name, as `--fabric` spells it.
    pub name: &'static str,
    /// In which order what was posted to one peer lands, without a fence.
    pub ordering: Ordering,
    /// Whether loads and stores of mapped memory may replace operations on it. A fabric that must
    /// see every operation, as the simulator and decorators do, says no.
    pub direct: bool,
    /// Whether the processor's atomics on near memory and the fabric's exclude each other. Where
    /// they do not, all atomics of ranks go through the fabric, near ones too, and handlers, whose
    /// atomics are the processor's, change no word that ranks change.
    pub cpu_coherent: bool,
    /// The longest argument and the longest reply of a call.
    pub call_bytes_max: u64,
    /// How many fetching operations one rank may have under way; further ones wait until one is
    /// complete.
    pub outstanding_max: u32,
    /// How many ranks of this node can run at the same time.
    pub processors: u32,
    /// How many bytes [`SegmentId::ROOT`] has on every rank.
    pub root_bytes: u64,
}

/// In which order posted operations land.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ordering {
    /// In any order.
    Unordered,
    /// To one peer, in the order in which they were posted.
    PerPeer,
}

/// Names an operation that was started and has not completed. Each fabric numbers its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket(pub u64);

/// The result of starting a fetching operation.
#[derive(Debug)]
#[must_use]
pub enum Started {
    /// It has completed already.
    Done(Reply),
    /// It is under way; ask with [`Connection::poll`], wait with [`Event::Done`].
    Pending(Ticket),
}

/// The reply of a completed operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Nothing but the fact.
    None,
    /// The old value of the word.
    Word(u128),
    /// The answer of a handler, or the old elements of an accumulate.
    Bytes(Vec<u8>),
}

/// A condition on a 32- or 64-bit word of the waiter's own memory.
#[derive(Clone, Copy)]
pub struct Condition<'a> {
    /// The word.
    pub at: Word,
    /// The memory that it is in: what [`Fabric::map`] gave for the waiter's own part.
    pub memory: &'a Mapped,
    /// What it must satisfy. Must depend on nothing but its argument.
    pub until: &'a dyn Fn(u64) -> bool,
}

impl Condition<'_> {
    /// Returns whether `waiter` can wait on the word: it is the waiter's own, inside its memory,
    /// and no pair.
    pub fn check(&self, waiter: Rank) -> Result<()> {
        if self.at.rank != waiter {
            return Err(Error::NotOwn { rank: waiter, owner: self.at.rank });
        }
        self.at.check(self.memory.bytes())?;
        if self.at.width == Width::Pair {
            let what = "waiting on a pair; wait on one half of it".into();
            return Err(Error::Unsupported { what });
        }
        Ok(())
    }
}

/// The event that ends a wait.
#[derive(Clone, Copy)]
pub enum Event<'a> {
    /// Any one of these conditions holds. With no condition, the wait is for time alone, and for
    /// departures.
    Words(&'a [Condition<'a>]),
    /// The operation has completed.
    Done(Ticket),
}

/// A wait.
#[derive(Clone, Copy)]
pub struct Wait<'a> {
    /// The event that is waited for.
    pub event: Event<'a>,
    /// How many departures the caller knows of: one more, and the wait returns [`Wake::Departure`].
    pub known_departures: u32,
    /// How long to wait at most.
    pub timeout: Option<Duration>,
    /// Whether the event is expected soon. A rank that expects to wait long parks at once where
    /// ranks outnumber processors.
    pub soon: bool,
    /// Is told before each sleep that the wait lasts.
    pub lasting: Option<&'a dyn Lasting>,
}

/// Why a wait returned. If the event has happened, that is what is returned, whatever else has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// The event has happened: which of the conditions, and what its word held (both zero for an
    /// operation).
    Ready {
        /// The index of the condition.
        which: usize,
        /// What the word held when the condition was looked at.
        value: u64,
    },
    /// A rank has left or was lost that the caller did not know of.
    Departure,
    /// Time is up.
    TimedOut,
}

/// Names a handler; the same on every rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HandlerId(pub u32);

/// What an agent runs for a call: it gets the agent, the caller and the argument, and returns the
/// reply. It must not block, nor rely on what its earlier calls have left in variables of its own:
/// each rank has its copy, and another rank's may be the next to run.
pub type Handler = Box<dyn FnMut(&dyn Agent, Rank, &[u8]) -> Vec<u8> + Send>;

/// The operations that a handler may use.
pub trait Agent {
    /// Returns the node that the agent serves.
    fn node(&self) -> Node;
    /// Executes an atomic on a word of a rank of this node. It wakes a waiter. It is atomic with
    /// those of handlers, and with those of ranks only where [`Caps::cpu_coherent`].
    fn atomic(&self, at: Word, op: Atomic) -> Result<u128>;
    /// Posts an atomic to any rank of the job, likewise. It wakes a waiter.
    fn post(&self, at: Word, op: Atomic) -> Result<()>;
    /// Posts a put to any rank of the job.
    fn put(&self, to: &Region<'_>, bytes: &[u8]) -> Result<()>;
    /// Posts a put and, after it at the target, an atomic on a word of the same rank. It wakes a
    /// waiter.
    fn put_signal(&self, to: &Region<'_>, bytes: &[u8], at: Word, op: Atomic) -> Result<()>;
    /// Reads memory of a rank of this node.
    fn get(&self, from: &Region<'_>, into: &mut [u8]) -> Result<()>;
}
