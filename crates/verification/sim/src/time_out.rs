//! Time limits: when a wait that has one ends by it.
//!
//! Time passes when nothing else can happen, which is an event in conflict with all others. From
//! then on, each wait that has a time limit ends by it at any moment, unless its rank sees its word
//! before: so the ranks notice in any order, and what they do then interleaves.
//!
//! With a budget, so many waits of a run end too early besides, each at any step at which its rank
//! does not see its word: beside a grant that is in flight, say. There is a budget because a rank
//! may wait again and again.

use farside_fabric::{Event as Awaited, Rank, Wait};

use crate::event::{Event, EventId, What};
use crate::fiber::Resume;
use crate::machine::Machine;
use crate::member::{Doing, Member};

/// The number of time-outs or polls of a rank while nothing changes: a program may give up after a
/// few.
const TIME_OUTS_MAX: u32 = 16;

impl Member {
    /// Returns the name of a rank's wait, if it has a time limit, and the rank does not see its
    /// word.
    fn limited_wait(&self) -> Option<EventId> {
        let Doing::Waits { ref wait, id } = self.doing else {
            return None;
        };
        let wait = wait.get();
        let is_limited = wait.timeout.is_some() && matches!(wait.event, Awaited::Words(_));
        (is_limited && self.sees(wait).is_none()).then_some(id)
    }

    /// Returns whether it goes on when time passes, unless that was without effect too often.
    fn goes_on(&self, version: u64) -> bool {
        let (seen, times) = self.time_outs;
        let is_limited = match self.doing {
            Doing::Waits { ref wait, .. } => wait.get().timeout.is_some(),
            Doing::Relaxes { .. } => true,
            _ => false,
        };
        is_limited && (seen != version || times < TIME_OUTS_MAX)
    }
}

impl Machine {
    /// Returns whether a wait of this kind may end by its time limit while other things can happen.
    pub(crate) fn may_time_out(&self, wait: &Wait<'_>) -> bool {
        self.fault_model.time_outs > 0 && wait.timeout.is_some()
    }

    /// Adds the ends of waits by their time limits that ranks are to notice.
    pub(crate) fn add_expiries(&self, events: &mut Vec<Event>) {
        for member in self.members.iter().filter(|member| member.expired) {
            if let Some(wait) = member.limited_wait() {
                let (id, accesses) = (EventId::expiry(wait), Some(member.looks()));
                events.push(Event { id, accesses, what: What::TimeOut });
            }
        }
    }

    /// Adds the ends of waits by their time limits that come too early.
    pub(crate) fn add_time_outs(&self, events: &mut Vec<Event>) {
        if self.fault_model.time_outs == 0 {
            return;
        }
        for member in self.members.iter().filter(|member| !member.expired) {
            // Others may not end too early any more, and time need not pass: so the order of a
            // time-out and of anything else matters. It is possible also when nothing else is, or
            // else whether it is would depend on all others.
            if let Some(wait) = member.limited_wait() {
                let id = EventId::time_out(wait);
                events.push(Event { id, accesses: None, what: What::TimeOut });
            }
        }
    }

    pub(crate) fn may_time_out_now(&self, id: EventId) -> bool {
        let member = &self.members[id.rank.index()];
        let Some(wait) = member.limited_wait() else {
            return false;
        };
        match member.expired {
            true => id == EventId::expiry(wait),
            false => self.fault_model.time_outs > 0 && id == EventId::time_out(wait),
        }
    }

    pub(crate) fn time_out(&mut self, id: EventId, step: Option<usize>) {
        if id.is_time_out() {
            self.fault_model.time_outs = self.fault_model.time_outs.saturating_sub(1);
        }
        let member = self.member(id.rank);
        member.doing = Doing::Runs(Resume::TimedOut);
        member.learned.borrow_mut().extend(step);
    }

    /// Returns what happens when nothing else can: the ranks that have left are seen to have left,
    /// or else time passes; `None` if that changes nothing.
    pub(crate) fn quiet(&self) -> Option<Event> {
        let leaves = (0..self.members.len() as u32).any(|rank| self.has_left_unseen(Rank(rank)));
        let goes_on = self.members.iter().any(|member| member.goes_on(self.version));
        let what = match (leaves, goes_on) {
            // A rank that sleeps would be woken by those who leave, which no program may count on;
            // those whose time passes may wake it.
            (true, true) if self.has_missed_wakeup() => What::Time,
            (true, _) => What::Leaving,
            (false, true) => What::Time,
            (false, false) => return None,
        };
        Some(Event { id: EventId::quiet(self.quiets), accesses: None, what })
    }

    pub(crate) fn be_quiet(&mut self) {
        let is_leaving = self.quiet().is_some_and(|event| event.what == What::Leaving);
        self.quiets += 1;
        if is_leaving {
            return self.publish_departures();
        }
        let version = self.version;
        for member in self.members.iter_mut().filter(|member| member.goes_on(version)) {
            let times = if member.time_outs.0 == version { member.time_outs.1 } else { 0 };
            member.time_outs = (version, times + 1);
            match member.doing {
                Doing::Relaxes { .. } => member.doing = Doing::Runs(Resume::Go(0, 0)),
                _ => member.expired = true,
            }
        }
    }
}
