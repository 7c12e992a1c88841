//! The ranks of an explored job: what each does, has read and has learned, and whether it looks at
//! the words that it waits for.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use farside_fabric::{Event as Awaited, Rank, Ticket, Wait};

use crate::bits::Bits;
use crate::event::{Access, EventId, What};
use crate::fiber::Resume;
use crate::parked_wait::{ParkedWait, holds, looks};

pub(crate) enum Doing {
    Runs(Resume),
    /// It waits; its look at the word is an event of this name.
    Waits {
        wait: ParkedWait,
        id: EventId,
    },
    /// It is about to read or write these bytes of its own memory, an event of this name.
    Accesses {
        access: Access,
        what: What,
        id: EventId,
    },
    /// It is about to look whether an operation is complete, which is an event of this name, unless
    /// it has looked before: then it finds it complete.
    Polls {
        asked: Ticket,
        id: EventId,
        again: bool,
    },
    Flushes(Rank),
    /// It polls, and goes on when something that it has read was changed, or a rank departs.
    Relaxes {
        departures: u32,
    },
    Prepared,
    Over,
}

impl Default for Doing {
    fn default() -> Doing {
        Doing::Runs(Resume::Go(0, 0))
    }
}

#[derive(Default)]
pub(crate) struct Member {
    pub(crate) doing: Doing,
    pub(crate) waits: u32,
    /// True if the time limit of its wait has ended: it notices that at any moment from now on,
    /// unless it sees its word before.
    pub(crate) expired: bool,
    pub(crate) sleep: Cell<Sleep>,
    /// The steps that it knew of when it began the wait that it is in.
    pub(crate) known: Bits,
    /// Its operations that have landed, and whose replies it has not taken: the steps.
    pub(crate) replied: Vec<(Ticket, usize)>,
    pub(crate) epoch: u32,
    /// The operations that it has found under way.
    pub(crate) polled: Vec<Ticket>,
    /// The version of memory at its last time-out, and the number of time-outs since then.
    pub(crate) time_outs: (u64, u32),
    /// The accesses that it has read since it last relaxed, and before that; and whether another
    /// rank has changed them since.
    pub(crate) reads: Vec<(Access, u64)>,
    pub(crate) reads_before: Vec<(Access, u64)>,
    pub(crate) stale: bool,
    /// What operations have read that have landed, and whose replies it has not taken.
    pub(crate) untaken: Vec<Untaken>,
    /// The number of times in a row that it has relaxed without reading anything.
    pub(crate) pauses: u32,
    /// Posted operations of this rank that have landed: the target, the number of fences before,
    /// and the step.
    pub(crate) landed: Vec<(Rank, u32, usize)>,
    /// Steps that it learned of through the last event.
    pub(crate) learned: RefCell<Vec<usize>>,
}

/// An access of an operation whose reply its rank has not taken: until then it knows nothing of it.
pub(crate) struct Untaken {
    pub(crate) ticket: Ticket,
    pub(crate) read: (Access, u64),
    /// True if another rank has changed it since.
    pub(crate) stale: bool,
}

/// Whether a waiting rank notices that its word is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Sleep {
    /// It looks, or is woken to look.
    #[default]
    Awake,
    /// It looks, or sleeps since a handler put to its word: which of the two is not decided.
    Unsettled,
    /// A plain put has changed its word since it began to wait, and nothing has woken it.
    Asleep,
}

impl Member {
    pub(crate) fn is_asleep(&self) -> bool {
        self.sleep.get() == Sleep::Asleep
    }

    /// Returns whether the last put of a handler may have found it asleep, and has made a word of
    /// its wait right.
    pub(crate) fn may_sleep_on(&self) -> bool {
        self.sleep.get() == Sleep::Unsettled && self.waits_and(|wait| holds(wait).is_some())
    }

    /// Returns whether it waits, looks, and finds none of its words right.
    pub(crate) fn looks_in_vain(&self) -> bool {
        !self.is_asleep() && self.waits_and(|wait| holds(wait).is_none())
    }

    fn waits_and(&self, is: impl Fn(&Wait<'_>) -> bool) -> bool {
        matches!(self.doing, Doing::Waits { wait, .. } if is(wait.get()))
    }

    /// Returns the condition of its wait that it sees to hold, and the value. A sleeping rank sees
    /// nothing.
    pub(crate) fn sees(&self, wait: &Wait<'_>) -> Option<(usize, u64)> {
        if self.is_asleep() { None } else { holds(wait) }
    }

    /// Returns the words that it waits for.
    pub(crate) fn looks(&self) -> Rc<[Access]> {
        match self.doing {
            Doing::Waits { wait, .. } => match wait.get().event {
                Awaited::Words(conditions) => looks(conditions),
                _ => Rc::from([]),
            },
            _ => Rc::from([]),
        }
    }

    pub(crate) fn waits_for(&self, accesses: &[Access]) -> bool {
        let looks = self.looks();
        accesses.iter().any(|access| looks.iter().any(|look| access.conflicts(look)))
    }
}

pub(crate) fn wake(members: &[Member], accesses: &[Access]) {
    // A rank that looks has nothing to be woken from, and needs no comparison.
    for member in members.iter().filter(|member| member.sleep.get() != Sleep::Awake) {
        if member.waits_for(accesses) {
            member.sleep.set(Sleep::Awake);
        }
    }
}

/// A handler is about to put these bytes on its own node: who waits for a word among them, and
/// finds none right, may sleep already.
pub(crate) fn put_by_handler(members: &[Member], accesses: &[Access]) {
    for member in members.iter().filter(|member| member.looks_in_vain()) {
        if member.waits_for(accesses) {
            member.sleep.set(Sleep::Unsettled);
        }
    }
}
