//! Time limits: a wait that has one may end while other things can still happen.
//!
//! Without a budget, time passes only when nothing else can happen. With one, so many waits of a
//! run end too early, each at any step at which its rank does not see its word: beside a grant that
//! is in flight, say. There is a budget because a rank may wait again and again.

use farside_fabric::{Event as Awaited, Rank, Wait};

use crate::event::{Event, EventId, What};
use crate::fiber::Resume;
use crate::machine::{Doing, Machine, Member};

/// The number of time-outs or polls of a rank while nothing changes: a program may give up after a
/// few.
const TIME_OUTS_MAX: u32 = 16;

impl Member {
    /// Returns the name of the end of a rank's wait by its time limit, if that may happen now.
    fn limited_wait(&self, rank: Rank) -> Option<EventId> {
        let Doing::Waits { ref wait, .. } = self.doing else {
            return None;
        };
        let wait = wait.get();
        let is_limited = wait.timeout.is_some() && matches!(wait.event, Awaited::Words(_));
        let is_over = self.sees(wait).is_some();
        (is_limited && !is_over).then(|| EventId::time_out(rank, self.looks))
    }
}

impl Machine {
    /// Returns whether a wait of this kind may end by its time limit while other things can happen.
    pub(crate) fn may_time_out(&self, wait: &Wait<'_>) -> bool {
        self.fault_model.time_outs > 0 && wait.timeout.is_some()
    }

    /// Adds the ends of waits by their time limits.
    pub(crate) fn add_time_outs(&self, events: &mut Vec<Event>) {
        if self.fault_model.time_outs == 0 {
            return;
        }
        for (rank, member) in self.members.iter().enumerate() {
            // When nothing else can happen, time passes without an event: so the order of a
            // time-out and of anything else matters.
            if let Some(id) = member.limited_wait(Rank(rank as u32)) {
                events.push(Event { id, accesses: None, what: What::TimeOut });
            }
        }
    }

    /// Returns whether this wait may end by its time limit now.
    pub(crate) fn may_time_out_now(&self, id: EventId) -> bool {
        let wait = self.members[id.rank.index()].limited_wait(id.rank);
        self.fault_model.time_outs > 0 && wait == Some(id)
    }

    /// Ends the wait of a rank by its time limit.
    pub(crate) fn time_out_early(&mut self, rank: Rank, step: Option<usize>) {
        self.fault_model.time_outs = self.fault_model.time_outs.saturating_sub(1);
        let member = self.member(rank);
        member.looks += 1;
        member.doing = Doing::Runs(Resume::TimedOut);
        member.learned.borrow_mut().extend(step);
    }

    /// When nothing can happen: lets the time of some wait pass, or some rank poll once more,
    /// unless that was without effect too often. Returns the rank that goes on.
    pub(crate) fn time_out(&mut self) -> Option<usize> {
        let version = self.version;
        for (rank, member) in self.members.iter_mut().enumerate() {
            let resume = match member.doing {
                Doing::Waits { wait, .. } if wait.get().timeout.is_some() => Resume::TimedOut,
                Doing::Relaxes { .. } => Resume::Go(0, 0),
                _ => continue,
            };
            let (seen, times) = &mut member.time_outs;
            if *seen != version {
                (*seen, *times) = (version, 0);
            }
            if *times < TIME_OUTS_MAX {
                *times += 1;
                member.doing = Doing::Runs(resume);
                return Some(rank);
            }
        }
        None
    }
}
