//! Waiting in virtual time: for words, for replies, until a deadline, or until a rank departs.

use farside_fabric::{Event as Awaited, Rank, Word};

use super::event_engine::EventEngine;
use super::flight::Entry;
use super::member::{Doing, Go, Hints, Member, Tick, Watched};
use crate::parked_wait::{ParkedWait, holds};

impl EventEngine {
    pub(super) fn wait(&mut self, rank: usize, wait: ParkedWait) {
        let clock_ns = self.members[rank].clock_ns;
        self.members[rank].doing = Doing::Waits(wait);
        self.members[rank].hints = Hints { wait: wait.address(), ..Hints::NONE };
        let wait = wait.get();
        match wait.event {
            Awaited::Done(asked) => {
                if let Some(reply_ns) = self.store.reply_at(Rank(rank as u32), asked) {
                    return self.schedule(rank, reply_ns, Go::Ready(0, 0));
                }
            }
            // A rank whose condition holds already does not come here.
            Awaited::Words(conditions) => {
                let member = &mut self.members[rank];
                for (watched, word) in member.watched.iter_mut().zip(conditions) {
                    *watched = Watched::new(word.at.segment, word.at.offset);
                }
                member.watches_more = conditions.len() > member.watched.len();
                if let Some(first) = conditions.first() {
                    member.hints.conditions = conditions.as_ptr().cast();
                    member.hints.memory = std::ptr::from_ref(first.memory).cast();
                    member.hints.word =
                        first.memory.base().as_ptr().wrapping_add(first.at.offset as usize);
                }
            }
        }
        if wait.known_departures != self.store.departures() {
            return self.schedule(rank, clock_ns, Go::Departure);
        }
        if let Some(timeout) = wait.timeout {
            let deadline_ns =
                clock_ns.saturating_add(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
            let member = &mut self.members[rank];
            member.deadline_ns = deadline_ns;
            self.set_timer(rank, deadline_ns);
        }
    }

    /// Makes sure that a timer goes off by then. One that is set already and goes off earlier sees
    /// to it that a later one is set.
    fn set_timer(&mut self, rank: usize, at_ns: u64) {
        let member = &mut self.members[rank];
        if at_ns < member.timer.end_ns() {
            member.timer = Tick::of(at_ns);
            self.push(at_ns, Entry::Timer(rank as u32));
        }
    }

    /// A timer looks whether the wait of that moment is over, and is set anew if not.
    pub(super) fn timer(&mut self, rank: u32) {
        let rank = rank as usize;
        let member = &mut self.members[rank];
        if member.timer <= Tick::of(self.now_ns) {
            member.timer = Tick::NEVER;
        }
        let deadline_ns = member.deadline_ns;
        if !matches!(member.doing, Doing::Waits(_)) || deadline_ns == u64::MAX {
            return;
        }
        if deadline_ns > self.now_ns {
            self.set_timer(rank, deadline_ns);
        } else {
            self.schedule(rank, self.now_ns, Go::TimedOut);
        }
    }

    /// Ranks that wait hear of departures that they do not know of.
    pub(super) fn tell_departures(&mut self) {
        self.telling = false;
        let departures = self.store.departures();
        for rank in 0..self.members.len() {
            if let Doing::Waits(wait) = self.members[rank].doing
                && wait.get().known_departures != departures
            {
                self.schedule(rank, self.now_ns, Go::Departure);
            }
        }
    }

    /// A rank's memory may have changed: if it waits for that, it notices.
    pub(super) fn look(&mut self, rank: usize, at_ns: u64) {
        let Doing::Waits(wait) = self.members[rank].doing else {
            return;
        };
        if let Some((which, value)) = holds(wait.get()) {
            self.schedule(rank, at_ns + self.network.notice_ns, Go::Ready(which as u32, value));
        }
    }

    pub(crate) fn deadlock_report(&self) -> String {
        const SHOWN: usize = 8;
        let waiting =
            self.members.iter().enumerate().filter_map(|(rank, member)| match member.doing {
                Doing::Over => None,
                Doing::Prepared => Some(format!("rank {rank} is prepared")),
                Doing::Scheduled => Some(format!("rank {rank} runs")),
                Doing::Flushes(target) => {
                    Some(format!("rank {rank} waits for operations it posted to {target}"))
                }
                Doing::NeedsRoom => {
                    Some(format!("rank {rank} waits for one of its posted operations to land"))
                }
                Doing::Waits(wait) => Some(crate::deadlock::waiting(rank, wait.get())),
            });
        let all: Vec<String> = waiting.collect();
        let more = all.len().saturating_sub(SHOWN);
        let shown = all[..all.len().min(SHOWN)].join("; ");
        if more > 0 { format!("{shown}; and {more} more") } else { shown }
    }
}

impl Member {
    pub(super) fn may_wait_on(&self, at: Word) -> bool {
        let waits = matches!(self.doing, Doing::Waits(_));
        waits && (self.watches_more || self.watched.contains(&Watched::new(at.segment, at.offset)))
    }
}
