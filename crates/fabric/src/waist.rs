//! The [`Fabric`] trait: the few things that every way of reaching memory must offer.
//!
//! What is ordered by what is written in `docs/memory-model.md`; in short: puts, accumulates and
//! posted atomics are *posted*, they land in any order until [`Fabric::fence`] or
//! [`Fabric::flush`]; fetching operations complete when their ticket does.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use crate::address::{Node, Rank, Region, SegmentId, Word};
use crate::departure::{Departure, Loss};
use crate::error::{ExitCause, Result};
use crate::memory::Mapped;
use crate::operation::{Atomic, Sum};
use crate::topology::Topology;

/// One rank's (more exactly: one context's) connection to the job.
///
/// Every operation makes visible what its caller wrote to its own memory before; a wait that
/// returns [`Wake::Ready`] sees what had landed before the change that made it ready. Dropping the
/// last connection of a rank leaves the job: what the rank has posted still lands, and its memory
/// stays reachable for the others until they have left, too.
///
/// A fabric is used by one thread at a time; another thread takes a [`Fabric::context`] of its own.
/// All methods take `&self` so that decorators and pending operations can share it.
pub trait Fabric: Send {
    /// Who I am.
    fn rank(&self) -> Rank;
    /// Who is where.
    fn topology(&self) -> &Topology;
    /// Numbers and orderings of this fabric.
    fn caps(&self) -> &Caps;
    /// Counts those who have gone.
    fn failures(&self) -> &FailureCounters;
    /// What has become of `peer`, which must be a rank of the job.
    fn peer_state(&self, peer: Rank) -> PeerState;
    /// What is known of the end of `peer`, which must be a rank of the job.
    fn departure(&self, peer: Rank) -> Departure {
        Departure::of(self.peer_state(peer))
    }
    /// Leaves a loss behind as the cause of my end, should I end now; with `None`, I have got over
    /// all losses so far.
    fn note_cause(&self, cause: Option<Loss>) {
        let _ = cause;
    }

    /// Makes `bytes` of fresh, zeroed memory of mine reachable as `segment`, aligned to at least a
    /// page.
    fn register(&self, segment: SegmentId, bytes: u64) -> Result<()>;
    /// Takes that memory back. Later operations on it fail with [`crate::Error::NoSegment`].
    fn deregister(&self, segment: SegmentId) -> Result<()>;
    /// My own part of a segment as memory.
    fn own(&self, segment: SegmentId) -> Result<Mapped>;
    /// Another rank's part, if plain loads and stores reach it and need not be seen by the fabric.
    fn near(&self, peer: Rank, segment: SegmentId) -> Option<Mapped>;

    /// Posts a write of the packed `bytes`, which are reusable on return.
    fn put(&self, to: &Region<'_>, bytes: &[u8]) -> Result<()>;
    /// Reads into `into`.
    ///
    /// # Safety
    ///
    /// `into` must be valid for writes of the region's bytes, and nobody may touch it, until the
    /// operation has completed.
    unsafe fn get(&self, from: &Region<'_>, into: *mut u8) -> Result<Started>;
    /// Posts an accumulate of the packed elements in `bytes`, which are reusable on return.
    fn accumulate(&self, to: &Region<'_>, sum: &Sum, bytes: &[u8]) -> Result<()>;
    /// Executes an atomic whose old value is wanted.
    fn atomic(&self, at: Word, op: Atomic) -> Result<Started>;
    /// Posts an atomic whose old value nobody wants. It wakes a waiter.
    fn post(&self, at: Word, op: Atomic) -> Result<()>;
    /// Orders what I posted before ahead of what I post, or do atomically, to the same peer
    /// afterwards. Gets are not ordered.
    fn fence(&self) -> Result<()>;
    /// Returns when all that I posted to `peer` has landed.
    fn flush(&self, peer: Rank) -> Result<()>;

    /// Begins, unless that was done, to count what lands on my node: a word of the node's first
    /// rank, in a segment of the fabric's own, grows by one for every put, accumulate and posted
    /// atomic of a rank of another node that has become visible here (a put with a signal is two),
    /// in segments that [count](SegmentId::counts); what handlers post does not. `None` if this
    /// fabric does not count, as it need not where all ranks are on one node.
    fn landings(&self) -> Result<Option<Word>> {
        Ok(None)
    }

    /// Asks the agent of `node` to run a handler; the reply's bytes come with the completion.
    fn call(&self, node: Node, handler: HandlerId, bytes: &[u8]) -> Result<Started>;
    /// Gives the agent of my node a handler. One process of a node at a time runs handlers, with
    /// its own copies of them; when its rank has left or was killed, that of the next rank of the
    /// node goes on.
    fn serve(&self, handler: HandlerId, run: Handler) -> Result<()>;
    /// Fails if nobody of a node is left to run its handlers; names one that was lost, or the first
    /// if all have left.
    fn check_agent(&self, node: Node) -> Result<()> {
        self.topology().first_left(node, |rank| self.peer_state(rank)).map(drop)
    }

    /// The reply of an operation if it has completed. A reply, or an error, uses up the ticket: the
    /// buffer is not touched any more.
    fn poll(&self, ticket: Ticket) -> Result<Option<Reply>>;
    /// The caller has something else to do while an operation is under way: whoever can sees to it
    /// that it goes on, also where that makes each step of it slower.
    fn entrust(&self, ticket: Ticket) {
        let _ = ticket;
    }
    /// Gives up on an operation: when this returns, its buffer will not be touched any more. May
    /// have to wait for that.
    fn cancel(&self, ticket: Ticket);
    /// THE ONLY WAY TO WAIT: returns when the event has happened, when somebody has gone, or when
    /// time is up.
    fn block(&self, wait: &Wait<'_>) -> Result<Wake>;
    /// Stands in a loop that polls *far* memory: lets others run.
    fn relax(&self);
    /// Wakes the sleeping waiters of `peer` after its mapped memory was changed directly (see
    /// [`Mapped::is_watched`]).
    fn wake(&self, peer: Rank);

    /// The time, from some beginning that is the same for all ranks of a node. For measuring only:
    /// no protocol may ask.
    fn now_ns(&self) -> u64;
    /// Computes for so long: stands for a program's own work where there is none, in measurements.
    fn work(&self, ns: u64) {
        let begin = self.now_ns();
        while self.now_ns().wrapping_sub(begin) < ns {
            std::hint::spin_loop();
        }
    }

    /// A connection of the same rank for another thread: with completions and an order of its own.
    fn context(&self) -> Result<Box<dyn Fabric>>;
    /// How much waiting this connection has done.
    fn effort(&self) -> Effort {
        Effort::default()
    }

    /// Stands in a loop that waits for a short lock of `holder`: lets others run, and says whether
    /// the holder is lost.
    fn held_up(&self, holder: Rank) -> bool {
        self.relax();
        self.topology().check(holder).is_ok()
            && matches!(self.peer_state(holder), PeerState::Lost(_))
    }

    /// A put that need not copy: the bytes stay borrowed until completion.
    ///
    /// # Safety
    ///
    /// `from` must be valid for reads of the region's bytes, and nobody may write it, until the
    /// operation has completed.
    unsafe fn put_nb(&self, to: &Region<'_>, from: *const u8) -> Result<Started> {
        let bytes = to.shape.bytes()? as usize;
        // SAFETY: readable by the caller's promise.
        self.put(to, unsafe { std::slice::from_raw_parts(from, bytes) })?;
        Ok(Started::Done(Reply::None))
    }

    /// Posts a put and, after it at the target, an atomic on a word of the same rank.
    fn put_signal(&self, to: &Region<'_>, bytes: &[u8], at: Word, op: Atomic) -> Result<()> {
        self.put(to, bytes)?;
        self.fence()?;
        self.post(at, op)
    }
}

/// Numbers and orderings of a fabric; never a bit per method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caps {
    /// The fabric's name, as `--fabric` spells it.
    pub name: &'static str,
    /// In which order what was posted to one peer lands, without a fence.
    pub ordering: Ordering,
    /// Whether the processor's atomics on near memory and the fabric's exclude each other. Where
    /// they do not, all atomics on a word go through the fabric, near ones too.
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

/// Counts those who have gone, in memory that is cheap to look at before every operation.
#[derive(Debug, Default)]
#[repr(C)]
pub struct FailureCounters {
    /// How many ranks were lost.
    pub losses: AtomicU32,
    /// How many ranks were lost or have left in order.
    pub departures: AtomicU32,
}

/// What has become of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerState {
    /// It has not joined yet.
    Starting,
    /// It is a member of the job.
    Alive,
    /// It has left in order.
    Left,
    /// It ended without leaving, or failed.
    Lost(ExitCause),
}

/// Names an operation that was started and has not completed. Each fabric numbers its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket(pub u64);

/// What starting a fetching operation gave.
#[derive(Debug)]
#[must_use]
pub enum Started {
    /// It has completed already.
    Done(Reply),
    /// It is under way; ask with [`Fabric::poll`], wait with [`Event::Done`].
    Pending(Ticket),
}

/// What a completed operation brought back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Nothing but the fact.
    None,
    /// What the word held before.
    Word(u128),
    /// The answer of a handler.
    Bytes(Vec<u8>),
}

/// A condition on a 32- or 64-bit word of the waiter's own memory.
#[derive(Clone, Copy)]
pub struct Condition<'a> {
    /// The word.
    pub at: Word,
    /// The memory that it is in: what [`Fabric::own`] gave for its segment.
    pub memory: &'a Mapped,
    /// What it must satisfy. Must depend on nothing but its argument.
    pub until: &'a dyn Fn(u64) -> bool,
}

/// What a wait waits for.
#[derive(Clone, Copy)]
pub enum Event<'a> {
    /// Any one of these conditions holds.
    Words(&'a [Condition<'a>]),
    /// The operation has completed.
    Done(Ticket),
}

/// A wait.
#[derive(Clone, Copy)]
pub struct Wait<'a> {
    /// For what.
    pub event: Event<'a>,
    /// How many departures the caller knows of: one more, and the wait returns [`Wake::Departure`].
    pub known_departures: u32,
    /// For how long.
    pub timeout: Option<Duration>,
    /// Whether the event is expected soon. If it is not, because others come first, the rank had
    /// better sleep at once where ranks outnumber processors.
    pub soon: bool,
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
    /// Somebody has left or was lost that the caller did not know of.
    Departure,
    /// Time is up.
    TimedOut,
}

/// Names a handler; the same on every rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HandlerId(pub u32);

/// What an agent runs for a call: gets the agent, the caller and the argument, gives the reply. It
/// must not block, nor rely on what its earlier calls have left in variables of its own: each rank
/// has its copy, and another's may be the next to run.
pub type Handler = Box<dyn FnMut(&dyn Agent, Rank, &[u8]) -> Vec<u8> + Send>;

/// What a handler can reach.
pub trait Agent {
    /// The node that the agent serves.
    fn node(&self) -> Node;
    /// Executes an atomic on a word of a rank of this node. It wakes a waiter.
    fn atomic(&self, at: Word, op: Atomic) -> Result<u128>;
    /// Posts an atomic to any rank of the job. It wakes a waiter.
    fn post(&self, at: Word, op: Atomic) -> Result<()>;
    /// Posts a put to any rank of the job.
    fn put(&self, to: &Region<'_>, bytes: &[u8]) -> Result<()>;
    /// Posts a put and, after it at the target, an atomic on a word of the same rank. It wakes a
    /// waiter.
    fn put_signal(&self, to: &Region<'_>, bytes: &[u8], at: Word, op: Atomic) -> Result<()>;
    /// Reads memory of a rank of this node.
    fn get(&self, from: &Region<'_>, into: &mut [u8]) -> Result<()>;
}

/// How much waiting was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Effort {
    /// Waits that did not find their event at once.
    pub waits: u64,
    /// How often the processor was given to others.
    pub yields: u64,
    /// How often the rank went to sleep.
    pub parks: u64,
    /// How many messages were sent again because nobody had answered in time.
    pub repeats: u64,
    /// How often a sleeping rank looked by itself, for fear that nobody might wake it.
    pub naps: u64,
}
