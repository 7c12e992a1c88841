//! Barriers of a group, one file for each algorithm; [`BarrierKind`] chooses. `combined.rs` is the
//! fence and barrier in one.

pub(crate) mod binomial;
pub(crate) mod central;
pub(crate) mod combined;
pub(crate) mod dissemination;
pub(crate) mod hierarchical;

use farside_fabric::Result;

use super::member::Step;
use crate::team::Team;

/// The algorithm of a barrier. [`Team::barrier`] chooses by itself: [`BarrierKind::Central`] where
/// the members share a node and outnumber its processors, [`BarrierKind::Dissemination`] otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BarrierKind {
    /// One counter at the first member.
    Central,
    /// Signals around a ring in log2 N rounds.
    Dissemination,
    /// Up a binomial spanning tree, and down again.
    Binomial,
    /// A binomial tree inside every node, dissemination across the nodes.
    Hierarchical,
}

impl BarrierKind {
    /// All of them.
    pub const ALL: [BarrierKind; 4] = [
        BarrierKind::Central,
        BarrierKind::Dissemination,
        BarrierKind::Binomial,
        BarrierKind::Hierarchical,
    ];

    /// Returns its name, as benchmarks spell it.
    pub fn name(self) -> &'static str {
        match self {
            BarrierKind::Central => "central",
            BarrierKind::Dissemination => "dissemination",
            BarrierKind::Binomial => "binomial",
            BarrierKind::Hierarchical => "hierarchical",
        }
    }
}

/// How [`Team::sync_by`] makes sure that everything has landed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SyncKind {
    /// Directly for a rank that has posted to few nodes since the last sync, otherwise by counting.
    #[default]
    Auto,
    /// By waiting for the acknowledgements of what this rank posted.
    Direct,
    /// By counting, wherever the fabric counts what lands.
    Counted,
}

impl SyncKind {
    /// All of them.
    pub const ALL: [SyncKind; 3] = [SyncKind::Auto, SyncKind::Direct, SyncKind::Counted];

    /// Returns its name, as benchmarks spell it.
    pub fn name(self) -> &'static str {
        match self {
            SyncKind::Auto => "auto",
            SyncKind::Direct => "direct",
            SyncKind::Counted => "counted",
        }
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
