//! Barriers of a group, one file for each algorithm; `BarrierKind` chooses. `combined.rs` is the
//! fence and barrier in one.

pub(crate) mod binomial;
pub(crate) mod central;
pub(crate) mod combined;
pub(crate) mod dissemination;
pub(crate) mod hierarchical;

use farside_fabric::Result;

use super::call::{Call, Step};
use super::kinds::BarrierKind;
use crate::team::Team;

impl Team<'_> {
    /// Takes part in a collective that is a meeting.
    #[track_caller]
    pub(crate) fn meet_for(&self, call: Call) -> Result<()> {
        let step = self.enter(call)?;
        self.told(self.meet(&step))
    }

    /// Meets all members, by the barrier that suits them: where they outnumber the processors, each
    /// should be woken once; otherwise, few messages should follow each other.
    pub(crate) fn meet(&self, step: &Step) -> Result<()> {
        let kind = if self.group().one_node && self.group().crowded {
            BarrierKind::Central
        } else {
            BarrierKind::Dissemination
        };
        meet(self, step, kind)
    }
}

pub(crate) fn meet(team: &Team<'_>, step: &Step, kind: BarrierKind) -> Result<()> {
    team.group().meetings.set(step.meeting);
    match kind {
        BarrierKind::Central => central::meet(team, step),
        BarrierKind::Dissemination => dissemination::meet(team, step),
        BarrierKind::Binomial => binomial::meet(team, step),
        BarrierKind::Hierarchical => hierarchical::meet(team, step),
    }
}
