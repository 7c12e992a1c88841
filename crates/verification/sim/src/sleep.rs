//! Sleep: a rank that waits for a word is woken by atomics and signals, and by nothing else.
//!
//! A waiter looks at its word before it sleeps, so a put that landed before is seen. One that lands
//! while it waits, and while none of its words is right, may find it still looking, or asleep: both
//! are events, and after the second the waiter looks no more until it is woken
//! (`docs/memory-model.md`, *Waking*). A word that an atomic has made right is looked at, whatever
//! is put there meanwhile.
//!
//! A call by itself wakes nobody. The atomics of its handler wake as all atomics do, and its puts
//! on its own node as puts do: what these will be is not known before it runs, so that the waiter
//! sleeps on by an event of its own, after the call and ahead of anything that wakes it.

use farside_fabric::Rank;

use crate::body::Body;
use crate::event::{Access, Event, EventId, What};
use crate::flight::Flight;
use crate::machine::Machine;
use crate::member::{Doing, Member, Sleep, wake};
use crate::parked_wait::holds;

impl Flight {
    /// Returns the bytes that a plain put or an accumulate will change, which wakes no waiter.
    fn silent_accesses(&self) -> Option<Vec<Access>> {
        let is_silent = matches!(self.body, Body::Put { .. } | Body::Accumulate(_));
        if is_silent { self.body.accesses(self.target) } else { None }
    }
}

impl Machine {
    pub(crate) fn add_unnoticed(&self, events: &mut Vec<Event>) {
        // Puts to words that are waited for are rare.
        if !self.members.iter().any(Member::looks_in_vain) {
            return;
        }
        for flight in &self.flights {
            let target = &self.members[flight.target.index()];
            if !target.looks_in_vain() {
                continue;
            }
            let Some(accesses) = flight.silent_accesses() else {
                continue;
            };
            if target.waits_for(&accesses) && events.iter().any(|event| event.id == flight.id) {
                let (id, what) = (EventId::unnoticed(flight.id), What::Unnoticed(flight.target));
                // An atomic on any word of the wait would wake it, before this or after it.
                let looks = target.looks();
                let all = flight.event.accesses.iter().flat_map(|all| all.iter().copied());
                let accesses = Some(all.chain(looks.iter().copied()).collect());
                events.push(Event { id, what, accesses });
            }
        }
    }

    /// The put that is about to land finds its waiter asleep.
    pub(crate) fn put_to_sleep(&mut self, at: usize) {
        let target = self.flights[at].target;
        self.member(target).sleep.set(Sleep::Asleep);
    }

    pub(crate) fn add_sleeps(&self, events: &mut Vec<Event>) {
        for member in self.members.iter().filter(|member| member.may_sleep_on()) {
            if let Doing::Waits { id, .. } = member.doing {
                // All that might wake the rank is on one of its words. That it writes one of them
                // puts it in conflict with the rank's own look and time limit, too.
                let looks = member.looks();
                let write = looks.first().map(|look| Access { writes: true, ..*look });
                let accesses = Some(looks.iter().copied().chain(write).collect());
                events.push(Event { id: EventId::sleep(id), accesses, what: What::Sleep });
            }
        }
    }

    /// Wakes the ranks that wait for what an operation has changed, if it was an atomic: what
    /// handlers do wakes while they run.
    pub(crate) fn wake_by(&self, target: Rank, body: &Body) {
        if let Body::Atomic { op, .. } = body
            && op.writes()
            && let Some(accesses) = body.accesses(target)
        {
            wake(&self.members, &accesses);
        }
    }

    /// Returns whether some rank sleeps although its word is as it should be, and has no time limit
    /// that would wake it.
    pub(crate) fn has_missed_wakeup(&self) -> bool {
        self.members.iter().filter(|member| member.is_asleep()).any(|member| match member.doing {
            Doing::Waits { wait, .. } => {
                let wait = wait.get();
                wait.timeout.is_none() && holds(wait).is_some()
            }
            _ => false,
        })
    }
}
