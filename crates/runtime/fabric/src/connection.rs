//! The [`Connection`] trait: what `rma` and all layers above use of a fabric; the one way to wait,
//! handlers and the agents that run them, and the extensions [`Landings`] and [`Clock`].
//!
//! A connection has the methods of [`Fabric`](crate::Fabric), and the trait provides none: a type
//! that stands on another connection implements it directly, so that a method which is added and
//! not forwarded does not compile. The [`forward!`](crate::forward) macro writes the methods that
//! such a type passes on unchanged.

use std::sync::Arc;
use std::time::Duration;

use crate::accumulate::Accumulate;
use crate::address::{Region, Word};
use crate::error::{Error, Result};
use crate::job::JobView;
use crate::memory::Mapped;
use crate::names::{Node, Rank, SegmentId};
use crate::operation::{Atomic, Hint, OldValue, Reply, Started, Ticket, Width};
use crate::probe::Probe;
use crate::record::Lasting;

/// One rank's (more exactly: one context's) connection to the job. [`Fabric`](crate::Fabric) says
/// what each method means; every fabric is a connection.
///
/// Every method is required:
///
/// ```compile_fail,E0046
/// use farside_fabric::{Connection, forward};
/// struct Wrapper(Box<dyn Connection>);
/// impl Connection for Wrapper {
///     // `put_nb` and the others that are not named here are missing.
///     forward! { to .0: job register deregister map put get accumulate atomic fence flush }
/// }
/// ```
#[expect(missing_docs, reason = "each method is documented at `Fabric`")]
#[expect(clippy::missing_safety_doc, reason = "each method is documented at `Fabric`")]
pub trait Connection: Send {
    fn job(&self) -> JobView<'_>;
    fn register(&self, segment: SegmentId, bytes: u64) -> Result<()>;
    fn deregister(&self, segment: SegmentId) -> Result<()>;
    fn map(&self, rank: Rank, segment: SegmentId) -> Result<Option<Mapped>>;
    fn put(&self, to: &Region<'_>, bytes: &[u8]) -> Result<()>;
    unsafe fn put_nb(&self, to: &Region<'_>, from: *const u8, hint: Hint) -> Result<Started>;
    fn put_signal(&self, to: &Region<'_>, bytes: &[u8], at: Word, op: Atomic) -> Result<()>;
    unsafe fn get(&self, from: &Region<'_>, into: *mut u8, hint: Hint) -> Result<Started>;
    fn accumulate(
        &self,
        to: &Region<'_>,
        accumulate: &Accumulate,
        bytes: &[u8],
        old: OldValue,
    ) -> Result<Started>;
    fn atomic(&self, at: Word, op: Atomic, old: OldValue) -> Result<Started>;
    fn fence(&self) -> Result<()>;
    fn flush(&self, peer: Rank) -> Result<()>;
    fn call(&self, node: Node, handler: HandlerId, bytes: &[u8]) -> Result<Started>;
    fn serve(&self, handler: HandlerId, run: Handler) -> Result<()>;
    fn poll(&self, ticket: Ticket) -> Result<Option<Reply>>;
    fn cancel(&self, ticket: Ticket);
    fn block(&self, wait: &Wait<'_>) -> Result<Wake>;
    fn relax(&self);
    fn wake(&self, peer: Rank);
    fn context(&self) -> Result<Box<dyn Connection>>;
    fn landings(&self) -> Option<&dyn Landings>;
    fn clock(&self) -> Option<&dyn Clock>;
    fn probe(&self) -> Option<Arc<dyn Probe>>;
}

/// Writes methods of a [`Connection`] that pass everything on to a field, the methods named after
/// the colon: `forward! { to .inner: register deregister map }`. The list of all methods with their
/// signatures stands here once more, and nowhere else.
#[macro_export]
macro_rules! forward {
    (to $(. $field:tt)*: $($method:ident)*) => {
        $crate::forward!(@each [$(. $field)*] $($method)*);
    };
    (@each $to:tt $($method:ident)*) => {
        $($crate::forward!(@$method $to);)*
    };
    (@job [$($to:tt)*]) => {
        fn job(&self) -> $crate::JobView<'_> { self $($to)* .job() }
    };
    (@register [$($to:tt)*]) => {
        fn register(&self, segment: $crate::SegmentId, bytes: u64) -> $crate::Result<()> {
            self $($to)* .register(segment, bytes)
        }
    };
    (@deregister [$($to:tt)*]) => {
        fn deregister(&self, segment: $crate::SegmentId) -> $crate::Result<()> {
            self $($to)* .deregister(segment)
        }
    };
    (@map [$($to:tt)*]) => {
        fn map(
            &self,
            rank: $crate::Rank,
            segment: $crate::SegmentId,
        ) -> $crate::Result<Option<$crate::Mapped>> {
            self $($to)* .map(rank, segment)
        }
    };
    (@put [$($to:tt)*]) => {
        fn put(&self, to: &$crate::Region<'_>, bytes: &[u8]) -> $crate::Result<()> {
            self $($to)* .put(to, bytes)
        }
    };
    (@put_nb [$($to:tt)*]) => {
        unsafe fn put_nb(
            &self,
            to: &$crate::Region<'_>,
            from: *const u8,
            hint: $crate::Hint,
        ) -> $crate::Result<$crate::Started> {
            // SAFETY: the caller's promise is passed on.
            unsafe { self $($to)* .put_nb(to, from, hint) }
        }
    };
    (@put_signal [$($to:tt)*]) => {
        fn put_signal(
            &self,
            to: &$crate::Region<'_>,
            bytes: &[u8],
            at: $crate::Word,
            op: $crate::Atomic,
        ) -> $crate::Result<()> {
            self $($to)* .put_signal(to, bytes, at, op)
        }
    };
    (@get [$($to:tt)*]) => {
        unsafe fn get(
            &self,
            from: &$crate::Region<'_>,
            into: *mut u8,
            hint: $crate::Hint,
        ) -> $crate::Result<$crate::Started> {
            // SAFETY: the caller's promise is passed on.
            unsafe { self $($to)* .get(from, into, hint) }
        }
    };
    (@accumulate [$($to:tt)*]) => {
        fn accumulate(
            &self,
            to: &$crate::Region<'_>,
            accumulate: &$crate::Accumulate,
            bytes: &[u8],
            old: $crate::OldValue,
        ) -> $crate::Result<$crate::Started> {
            self $($to)* .accumulate(to, accumulate, bytes, old)
        }
    };
    (@atomic [$($to:tt)*]) => {
        fn atomic(
            &self,
            at: $crate::Word,
            op: $crate::Atomic,
            old: $crate::OldValue,
        ) -> $crate::Result<$crate::Started> {
            self $($to)* .atomic(at, op, old)
        }
    };
    (@fence [$($to:tt)*]) => {
        fn fence(&self) -> $crate::Result<()> { self $($to)* .fence() }
    };
    (@flush [$($to:tt)*]) => {
        fn flush(&self, peer: $crate::Rank) -> $crate::Result<()> { self $($to)* .flush(peer) }
    };
    (@call [$($to:tt)*]) => {
        fn call(
            &self,
            node: $crate::Node,
            handler: $crate::HandlerId,
            bytes: &[u8],
        ) -> $crate::Result<$crate::Started> {
            self $($to)* .call(node, handler, bytes)
        }
    };
    (@serve [$($to:tt)*]) => {
        fn serve(&self, handler: $crate::HandlerId, run: $crate::Handler) -> $crate::Result<()> {
            self $($to)* .serve(handler, run)
        }
    };
    (@poll [$($to:tt)*]) => {
        fn poll(&self, ticket: $crate::Ticket) -> $crate::Result<Option<$crate::Reply>> {
            self $($to)* .poll(ticket)
        }
    };
    (@cancel [$($to:tt)*]) => {
        fn cancel(&self, ticket: $crate::Ticket) { self $($to)* .cancel(ticket); }
    };
    (@block [$($to:tt)*]) => {
        fn block(&self, wait: &$crate::Wait<'_>) -> $crate::Result<$crate::Wake> {
            self $($to)* .block(wait)
        }
    };
    (@relax [$($to:tt)*]) => {
        fn relax(&self) { self $($to)* .relax(); }
    };
    (@wake [$($to:tt)*]) => {
        fn wake(&self, peer: $crate::Rank) { self $($to)* .wake(peer); }
    };
    (@context [$($to:tt)*]) => {
        fn context(&self) -> $crate::Result<Box<dyn $crate::Connection>> {
            self $($to)* .context()
        }
    };
    (@landings [$($to:tt)*]) => {
        fn landings(&self) -> Option<&dyn $crate::Landings> { self $($to)* .landings() }
    };
    (@clock [$($to:tt)*]) => {
        fn clock(&self) -> Option<&dyn $crate::Clock> { self $($to)* .clock() }
    };
    (@probe [$($to:tt)*]) => {
        fn probe(&self) -> Option<std::sync::Arc<dyn $crate::Probe>> { self $($to)* .probe() }
    };
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

/// A condition on a 32- or 64-bit word of the waiter's own memory.
#[derive(Clone, Copy)]
pub struct Condition<'a> {
    /// The word.
    pub at: Word,
    /// The memory that it is in: what [`Connection::map`] gave for the waiter's own part.
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
    /// those of handlers, and with those of ranks only where
    /// [`Caps::cpu_coherent`](crate::Caps::cpu_coherent).
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
