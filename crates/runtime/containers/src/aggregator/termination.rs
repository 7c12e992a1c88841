//! The end of a run: when nothing is under way any more, and nobody will push anything.
//!
//! Every rank says how many items it has pushed before any of them leaves, and how many it has
//! handled after it has said what its handler pushed. So at every moment no more items are said to
//! be handled than pushed. A rank with nothing to do reports by how much the difference of the two
//! has changed: it adds that to a word of the first member, the root, and then counts the report in
//! another, so that the root is woken even if the sum is what it was. When the sum says that all
//! differences add up to zero, which may be an accident of reports of different times, the root
//! asks all ranks how many items they have handled, and *then* how many they have pushed: if these
//! are equal, and all had closed before, nothing has been under way since the first question
//! (Mattern's four-counter method). It tells everybody.

use farside_fabric::Result;
use farside_rma::Plain;

use super::Handle;
use super::packets::{AHEAD, CLOSED, DONE, HANDLED, PUSHED, Packets, REPORTS};
use super::steps;

/// The member that finds out.
const ROOT: usize = 0;

impl<'w, T: Plain> Packets<'w, T> {
    /// Handles what arrives until all items of the run are handled.
    #[track_caller]
    pub(super) fn finish(&mut self, handle: &mut Handle<'_, 'w, T>) -> Result<()> {
        self.queue_all()?;
        self.say()?;
        let context = self.context();
        context.swap(self.own(CLOSED), self.run)?;
        let mut reported = None;
        // At least one report of this run comes, from the root itself.
        let mut reports = context.load(self.own(REPORTS))?;
        loop {
            let moved = self.receive(handle)?;
            if moved | self.queue_all()? {
                continue;
            }
            self.send_all()?;
            if self.is_empty() && reported != Some((self.pushed, self.handled)) {
                self.say()?;
                reported = Some((self.pushed, self.handled));
                self.report()?;
            }
            if self.team.index() == ROOT {
                let come = context.load(self.own(REPORTS))?;
                if come != reports {
                    reports = come;
                    if self.is_over()? {
                        return self.tell();
                    }
                }
            }
            let done = context.load(self.own(DONE))?;
            if done == self.run {
                return Ok(());
            }
            self.wait(&[(DONE, done), (REPORTS, reports)])?;
        }
    }

    /// Reports to the root how many more items this rank has pushed than handled. Reports may
    /// overtake each other, but none is counted before it is part of the sum.
    fn report(&mut self) -> Result<()> {
        let ahead = self.pushed.wrapping_sub(self.handled);
        let change = ahead.wrapping_sub(std::mem::replace(&mut self.reported, ahead));
        self.context().fetch_add(self.word(ROOT, AHEAD), change)?;
        self.context().add(self.word(ROOT, REPORTS), 1)
    }

    /// Whether the run is over, which the sum of the reports suggests or not.
    fn is_over(&self) -> Result<bool> {
        let (context, members) = (self.context(), 0..self.team.size());
        if context.load(self.own(AHEAD))? != 0 {
            return Ok(false);
        }
        let awaits_all = !context.omits(steps::AWAIT_ALL);
        for member in members.clone() {
            if awaits_all && context.load(self.word(member, CLOSED))? != self.run {
                return Ok(false);
            }
        }
        let sum = |word: usize| {
            members.clone().try_fold(0u64, |sum, member| -> Result<u64> {
                Ok(sum.wrapping_add(context.load(self.word(member, word))?))
            })
        };
        Ok(context.omits(steps::ASK_ALL) || sum(HANDLED)? == sum(PUSHED)?)
    }

    /// Tells all others that the run is over.
    fn tell(&mut self) -> Result<()> {
        let mut members = (0..self.team.size()).filter(|&member| member != ROOT);
        members.try_for_each(|member| self.context().signal(self.word(member, DONE), self.run))
    }
}
