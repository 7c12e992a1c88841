//! Sleep: a rank that waits for a word is woken by atomics and signals, and by nothing else.
//!
//! A waiter looks at its word before it sleeps, so a put that landed before is seen. One that lands
//! while it waits may find it still looking, or asleep: both are events, and after the second the
//! waiter looks no more until it is woken (`docs/memory-model.md`, *Waking*). The writes of a
//! handler wake all waiters that they concern.

use farside_fabric::{Event as Awaited, Rank, Wait};

use crate::event::{Access, Event, EventId, What};
use crate::flight::Flight;
use crate::machine::{Doing, Machine, Member, holds};
use crate::store::{Body, word_access};

impl Member {
    /// Returns the condition of its wait that it sees to hold, and the value. A sleeping rank sees
    /// nothing.
    pub(crate) fn sees(&self, wait: &Wait<'_>) -> Option<(usize, u64)> {
        if self.asleep { None } else { holds(wait) }
    }

    /// Returns whether it waits for a word among these bytes.
    fn waits_for(&self, accesses: &[Access]) -> bool {
        let Doing::Waits { wait, .. } = self.doing else {
            return false;
        };
        let Awaited::Words(conditions) = wait.get().event else {
            return false;
        };
        let meets = |look: Access| accesses.iter().any(|access| access.conflicts(&look));
        conditions.iter().any(|condition| meets(word_access(condition.at, false)))
    }
}

impl Flight {
    /// Returns the bytes that a plain put or an accumulate will change, which wakes no waiter.
    fn silent_accesses(&self) -> Option<Vec<Access>> {
        let is_silent = matches!(self.body, Body::Put { .. } | Body::Accumulate(_));
        if is_silent { self.body.accesses(self.target) } else { None }
    }
}

impl Machine {
    /// Adds the landings of puts that find the waiter of their word asleep.
    pub(crate) fn add_unnoticed(&self, events: &mut Vec<Event>) {
        // Puts to words that are waited for are rare.
        let is_wait =
            |member: &Member| matches!(member.doing, Doing::Waits { .. }) && !member.asleep;
        if !self.members.iter().any(is_wait) {
            return;
        }
        for flight in &self.flights {
            let Some(accesses) = flight.silent_accesses() else {
                continue;
            };
            let target = &self.members[flight.target.index()];
            if is_wait(target)
                && target.waits_for(&accesses)
                && events.iter().any(|event| event.id == flight.id)
            {
                let (id, what) = (EventId::unnoticed(flight.id), What::Unnoticed(flight.target));
                events.push(Event { id, what, ..flight.event.clone() });
            }
        }
    }

    /// The put that is about to land finds its waiter asleep.
    pub(crate) fn put_to_sleep(&mut self, at: usize) {
        let target = self.flights[at].target;
        self.member(target).asleep = true;
    }

    /// Wakes the ranks that wait for what an operation has changed, unless it was a plain put.
    pub(crate) fn wake_by(&mut self, target: Rank, body: &Body) {
        let accesses = match body {
            Body::Atomic { op, .. } if op.writes() => body.accesses(target),
            Body::Call { .. } => None,
            _ => return,
        };
        for member in self.members.iter_mut().filter(|member| member.asleep) {
            if accesses.as_ref().is_none_or(|accesses| member.waits_for(accesses)) {
                member.asleep = false;
            }
        }
    }

    /// Returns whether some rank sleeps although its word is as it should be, and has no time limit
    /// that would wake it.
    pub(crate) fn has_missed_wakeup(&self) -> bool {
        self.members.iter().filter(|member| member.asleep).any(|member| match member.doing {
            Doing::Waits { wait, .. } => {
                let wait = wait.get();
                wait.timeout.is_none() && holds(wait).is_some()
            }
            _ => false,
        })
    }
}
