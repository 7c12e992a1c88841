//! The choices that a program has: algorithms of barriers, and ways to synchronize.

/// The algorithm of a barrier. [`Team::barrier`](crate::Team::barrier) chooses by itself:
/// [`BarrierKind::Central`] where the members share a node and outnumber its processors,
/// [`BarrierKind::Dissemination`] otherwise.
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

/// How [`Team::sync_by`](crate::Team::sync_by) makes sure that everything has landed.
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
