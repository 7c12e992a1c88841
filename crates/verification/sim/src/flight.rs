//! Operations in flight: which of them holds back which.

use farside_fabric::Rank;

use crate::bits::Bits;
use crate::body::Body;
use crate::event::{Event, EventId};

/// An operation in flight, or a part of one.
pub(crate) struct Flight {
    pub(crate) id: EventId,
    /// The operation that it is a part of; itself, if it is not torn.
    pub(crate) whole: EventId,
    pub(crate) target: Rank,
    /// The number of fences that its rank had done when it was posted.
    pub(crate) epoch: u32,
    /// True if a fence before it holds it back.
    pub(crate) fenced: bool,
    /// Another operation that must land first, and the steps at which it did.
    pub(crate) after: Option<EventId>,
    pub(crate) after_steps: Vec<usize>,
    pub(crate) posted: bool,
    /// True unless a part of the same torn operation has vanished: such a one never lands.
    pub(crate) is_whole: bool,
    /// True if a handler posted it: flushes and fences of its rank do not cover it.
    pub(crate) by_agent: bool,
    /// Of a call: the rank that may have been executing it when it died.
    pub(crate) runner_died: Option<Rank>,
    pub(crate) body: Body,
    /// Its landing.
    pub(crate) event: Event,
    /// The number of steps that its rank had learned of, since it went on, when it came about.
    pub(crate) learned: usize,
    /// The steps that its rank knew of when it came about, once that was noted.
    pub(crate) known: Option<Bits>,
}

impl Flight {
    /// A whole operation that nothing holds back.
    pub(crate) fn new(id: EventId, target: Rank, body: Body, posted: bool) -> Flight {
        let accesses = body.accesses(target).map(Into::into);
        Flight {
            id,
            whole: id,
            target,
            epoch: 0,
            fenced: false,
            after: None,
            after_steps: Vec::new(),
            posted,
            is_whole: true,
            by_agent: false,
            runner_died: None,
            event: Event { id, accesses, what: body.what(target) },
            body,
            learned: 0,
            known: None,
        }
    }

    pub(crate) fn is_posted_by(&self, rank: Rank) -> bool {
        self.posted && !self.by_agent && self.id.rank == rank
    }

    pub(crate) fn is_get(&self) -> bool {
        matches!(self.body, Body::Get { .. })
    }

    pub(crate) fn holds_back(&self, later: &Flight) -> bool {
        Some(self.whole) == later.after
            || (later.fenced
                && !later.by_agent
                && self.is_posted_by(later.id.rank)
                && self.target == later.target
                && self.epoch < later.epoch)
    }
}
