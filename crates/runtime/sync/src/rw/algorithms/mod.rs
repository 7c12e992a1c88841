//! The reader-writer locks: one file each, and one row of the registry.

mod counters;
mod fompi_rw;
mod rma_rw;
mod slots;

use farside_fabric::Result;

use super::frame::Algorithm;
use super::registry::Entry;
use crate::lock::registry::{Made, Maker, registry};

registry! {
    /// Which algorithm a reader-writer lock uses.
    ///
    /// ```
    /// use farside::rw::Kind;
    ///
    /// assert_eq!(Kind::named("fompi-rw"), Some(Kind::FompiRw { backoff: false }));
    /// assert!(Kind::all().iter().all(|kind| Kind::named(kind.name()).as_ref() == Some(kind)));
    /// ```
    enum Kind;
    /// The fastest that is known here, chosen by how the members are arranged:
    /// [`Kind::Slots`] on one node, [`Kind::RmaRw`] on several.
    Default => slots;
    /// The default of one node, with other parameters.
    Slots {
        /// How many neighbours share a counter of readers. Without it, each rank has one where all
        /// members are on one node, else each node.
        t_dc: Option<u32>,
        /// How many writers may follow each other while readers wait; usually 32.
        t_w: u32,
        /// How often a reader lets writers pass before its turn is certain; usually 64.
        yields: u32,
    } => slots;
    /// One word that counts readers and has a mark for a writer (foMPI-RW of \[RMALOCK16\]).
    FompiRw {
        /// Whether pauses between attempts grow.
        backoff: bool,
    } => fompi_rw;
    /// Counters of readers spread over the topology, and a tree of queues for writers (RMA-RW of
    /// \[RMALOCK16\]).
    RmaRw {
        /// T_DC: how many neighbours share a counter of readers; without it, those of a node do.
        t_dc: Option<u32>,
        /// T_L: how many writers of an element of each level may follow each other, the widest
        /// level first. The last number holds for all narrower levels. T_W, the product over all
        /// levels, is how many writers may follow each other while readers wait.
        t_l: Vec<u32>,
        /// T_R: how many readers may go in at a counter before it is asked whether writers wait.
        t_r: u32,
    } => rma_rw;
}

impl Kind {
    /// Returns RMA-RW with its usual parameters: a counter on each node, 1000 writers or readers in
    /// a row.
    pub fn rma_rw() -> Kind {
        rma_rw::usual()
    }

    /// Makes a lock. The default is RMA-RW where members are on several nodes.
    pub(super) fn build(&self, maker: Maker<'_>) -> Result<Made<dyn Algorithm>> {
        let (topology, members) = (maker.context().topology(), maker.team.members());
        let is_one_node = members.iter().all(|&rank| topology.same_node(rank, members[0]));
        let maker = Maker { what: format!("{self:?}"), ..maker };
        match self {
            Kind::Default if !is_one_node => Kind::rma_rw().make(&maker),
            other => other.make(&maker),
        }
    }
}
