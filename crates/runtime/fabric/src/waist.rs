//! The [`Fabric`] trait: what the author of a fabric writes.
//!
//! `docs/memory-model.md` says what is ordered by what; in short: puts, and accumulates and atomics
//! whose old values are not wanted, are *posted*: they land in any order until [`Fabric::fence`] or
//! [`Fabric::flush`]. Fetching operations complete when their ticket does.
//!
//! `docs/adding-a-fabric.md` walks through a complete fabric of less than 300 lines.

use std::sync::Arc;

use crate::accumulate::Accumulate;
use crate::address::{Region, Word};
use crate::connection::{Clock, Connection, Handler, HandlerId, Landings, Wait, Wake};
use crate::error::Result;
use crate::forward;
use crate::job::JobView;
use crate::memory::Mapped;
use crate::names::{Node, Rank, SegmentId};
use crate::operation::{Atomic, Hint, OldValue, Reply, Started, Ticket};
use crate::probe::Probe;

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
    /// Where [`Caps::direct`](crate::Caps::direct) is set, loads and stores of mapped memory
    /// replace operations on it.
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

// A bound of a type parameter comes before all traits in scope: these are the methods of `Fabric`.
impl<F: Fabric> Connection for F {
    forward! {
        to: job register deregister map put put_nb put_signal get accumulate atomic fence flush call
        serve poll cancel block relax wake context landings clock probe
    }
}
