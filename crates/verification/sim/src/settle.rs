//! Ranks that may go on: replies have come, flushes are done, departures are known.

use farside_fabric::{Event as Awaited, Rank};

use crate::engine::Engine;
use crate::fiber::Resume;
use crate::machine::Machine;
use crate::member::Doing;

impl Machine {
    /// Lets ranks go on whose reason to pause cannot be looked at too early: replies that have
    /// come, flushes that are done, departures.
    pub(crate) fn settle(&mut self) {
        self.lost = false;
        for rank in (0..self.members.len() as u32).map(Rank) {
            self.settle_rank(rank);
        }
    }

    /// Settles the ranks after one of them has run; returns the first that may have been let go.
    /// What a rank does by itself changes nothing that another waits for, unless it is lost.
    pub(crate) fn settle_after(&mut self, rank: Rank) -> Rank {
        if self.lost {
            self.settle();
            return Rank(0);
        }
        self.settle_rank(rank);
        rank
    }

    /// Returns the first rank that runs, from one on.
    pub(crate) fn next_running(&self, from: Rank) -> Option<(Rank, Resume)> {
        let ranks = (from.0..).map(Rank).zip(&self.members[from.index()..]);
        ranks.into_iter().find_map(|(rank, member)| match member.doing {
            Doing::Runs(resume) => Some((rank, resume)),
            _ => None,
        })
    }

    fn settle_rank(&mut self, rank: Rank) {
        let resume = match self.members[rank.index()].doing {
            Doing::Waits { wait, .. } => {
                let wait = wait.get();
                match wait.event {
                    Awaited::Done(asked) if self.store.reply_at(rank, asked).is_some() => {
                        Some(Resume::Go(0, 0))
                    }
                    Awaited::Words(_) if self.members[rank.index()].sees(wait).is_some() => None,
                    _ if self.store.departures_known_to(rank) != wait.known_departures => {
                        Some(Resume::Departure)
                    }
                    _ => None,
                }
            }
            // There is no other way than to find it complete.
            Doing::Polls { asked, .. } if self.store.reply_at(rank, asked).is_some() => {
                Some(Resume::Go(0, 0))
            }
            Doing::Flushes(target) if self.is_flushed(rank, target) => Some(Resume::Go(0, 0)),
            Doing::Relaxes { departures } => {
                let departed = departures != self.store.departures_known_to(rank);
                let member = &mut self.members[rank.index()];
                let news = std::mem::replace(&mut member.stale, false) || departed;
                news.then_some(Resume::Go(0, 0))
            }
            _ => None,
        };
        if let Some(resume) = resume {
            if resume == Resume::Departure {
                let looks = self.members[rank.index()].looks();
                self.looked.extend(looks.iter().copied());
            }
            self.member(rank).doing = Doing::Runs(resume);
        }
    }
}
