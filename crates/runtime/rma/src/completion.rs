//! Order and completion: what a fence separates, when a flush returns, and the end of an operation.

use std::panic::Location;
use std::sync::atomic::{Ordering, fence};

use farside_fabric::record::{ActivityKind, Lasting};
use farside_fabric::{Error, Event, Rank, Reply, Result, Started, Ticket};

use crate::activity::Purpose;
use crate::context::{ATOMICS_ARE_FENCES, Context};
use crate::doing::{FailureScope, Waiting};

impl Context {
    /// Orders puts: what this context put before comes ahead of what it puts, signals, accumulates
    /// or does atomically at the same rank afterwards. Gets are not ordered: [`Context::flush`]
    /// orders them.
    #[inline]
    #[track_caller]
    pub fn fence(&self) -> Result<()> {
        // Near, what is written later is seen later. That is all there is to do.
        fence(Ordering::Release);
        if self.posted().is_empty() {
            return Ok(());
        }
        self.note_place();
        self.fabric().fence()
    }

    /// Returns when all that this context put to `peer` has landed there, ahead of anything that it
    /// does or reads afterwards.
    #[inline]
    #[track_caller]
    pub fn flush(&self, peer: Rank) -> Result<()> {
        if peer.0 >= self.size() {
            return Err(self.failed(Error::UnknownRank { rank: peer, ranks: self.size() }));
        }
        self.fence_near();
        self.check_lost(peer)?;
        if self.has_posted_to(peer) {
            self.flush_far(peer)?;
            self.posted().remove(peer);
        }
        Ok(())
    }

    /// Flushes through the fabric, which waits for messages of the peer's node.
    #[track_caller]
    fn flush_far(&self, peer: Rank) -> Result<()> {
        let place = Location::caller();
        let purpose = || Purpose::at(ActivityKind::Flush, "flush", place);
        let scope = FailureScope::Peer(peer);
        let waiting = Waiting::new(self, &purpose, Event::Words(&[]), &scope);
        waiting.lasts();
        self.fabric().flush(peer)
    }

    /// Returns whether an atomic on a word of `peer`, done next, makes visible all that this
    /// context put to it before: then a protocol need not flush ahead of it.
    #[inline]
    pub fn flushes_by_atomic(&self, peer: Rank) -> bool {
        ATOMICS_ARE_FENCES
            && self.has_direct_atomics()
            && peer.0 < self.size()
            && !self.has_posted_to(peer)
    }

    /// Returns when all that this context put to any rank has landed. Fails if a far rank that
    /// something was put to was lost.
    #[inline]
    #[track_caller]
    pub fn flush_all(&self) -> Result<()> {
        self.fence_near();
        if self.posted().is_empty() { Ok(()) } else { self.flush_posted() }
    }

    #[track_caller]
    fn flush_posted(&self) -> Result<()> {
        let mut first_error = Ok(());
        for rank in self.posted().iter() {
            let flushed = self.flush(rank);
            // What was posted to a lost rank is lost, and told once; the others are flushed all
            // the same.
            if matches!(flushed, Err(Error::RankLost { .. })) {
                self.posted().remove(rank);
            }
            first_error = first_error.and(flushed);
        }
        first_error
    }

    #[track_caller]
    pub(crate) fn finish(&self, started: Started, peer: Rank) -> Result<Reply> {
        match started {
            Started::Done(reply) => Ok(reply),
            Started::Pending(ticket) => self.complete(ticket, peer),
        }
    }

    /// Waits for an operation on `peer`; whatever happens, its buffer is free afterwards.
    #[track_caller]
    pub(crate) fn complete(&self, ticket: Ticket, peer: Rank) -> Result<Reply> {
        let place = Location::caller();
        let purpose = || Purpose::at(ActivityKind::Transfer, "transfer", place);
        self.complete_as(ticket, &FailureScope::Peer(peer), &purpose)
    }

    pub(crate) fn complete_as(
        &self,
        ticket: Ticket,
        scope: &FailureScope<'_>,
        purpose: &dyn Fn() -> Purpose,
    ) -> Result<Reply> {
        let under_way = UnderWay { context: self, ticket };
        let waiting = Waiting::new(self, purpose, Event::Done(ticket), scope);
        let done = loop {
            match self.fabric().poll(ticket).transpose() {
                Some(done) => break done,
                None => drop(self.wait_event(&waiting, None)?),
            }
        };
        std::mem::forget(under_way);
        done
    }
}

/// An operation that somebody waits for. If the wait ends before it, by an error or because what
/// is called meanwhile panics, the operation is given up: nothing touches its buffer any more.
struct UnderWay<'c> {
    context: &'c Context,
    ticket: Ticket,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.context.fabric().cancel(self.ticket);
    }
}
