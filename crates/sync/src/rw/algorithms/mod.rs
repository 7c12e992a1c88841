//! The reader-writer locks: one file each, and one row of the registry.

mod counters;
mod fompi_rw;
mod rma_rw;
mod slots;

use farside_fabric::{Rank, Result};
use farside_rma::Team;

use super::frame::Algorithm;
use super::registry::{Entry, Roles};
use crate::lock::frame::Observer;
use crate::lock::registry::{self, Made, Maker};

/// A row for each lock: its kind, its parameters, and its file. The file has `make`, which is given
/// the parameters, and `ENTRIES`, one for each name that the lock has in tables.
macro_rules! registry {
    ($($(#[$doc:meta])*
       $kind:ident {
           $($(#[$field_doc:meta])* $field:ident: $type:ty),+ $(,)?
       } => $file:ident;)+) => {
        /// Which algorithm a reader-writer lock uses.
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        #[non_exhaustive]
        pub enum Kind {
            /// The fastest that is known here, chosen by how the members are arranged:
            /// [`Kind::Slots`] on one node, [`Kind::RmaRw`] on several.
            #[default]
            Default,
            $($(#[$doc])* $kind { $($(#[$field_doc])* $field: $type),+ },)+
        }

        const FILES: &[&[Entry]] = &[$($file::ENTRIES),+];

        impl Kind {
            fn file(&self) -> &'static [Entry] {
                match self {
                    Kind::Default => slots::ENTRIES,
                    $(Kind::$kind { .. } => $file::ENTRIES,)+
                }
            }

            fn make(&self, maker: &Maker<'_>) -> Result<Made<dyn Algorithm>> {
                match self {
                    Kind::Default => slots::usual(maker),
                    $(Kind::$kind { $($field),+ } => $file::make(maker, $($field),+),)+
                }
            }
        }
    };
}

registry! {
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

/// A variant of a reader-writer lock.
type Variant = registry::Variant<dyn Algorithm, Roles>;

/// Returns all reader-writer locks.
pub fn entries() -> impl Iterator<Item = &'static Entry> {
    FILES.iter().copied().flatten()
}

impl Kind {
    /// Returns RMA-RW with its usual parameters: a counter on each node, 1000 writers or readers in
    /// a row.
    pub fn rma_rw() -> Kind {
        rma_rw::usual()
    }

    /// Returns every kind, each once, with its usual parameters.
    pub fn all() -> Vec<Kind> {
        entries().map(|entry| (entry.kind)()).collect()
    }

    /// Returns its name, as benchmarks and tables spell it.
    pub fn name(&self) -> &'static str {
        self.entry().name
    }

    /// Returns what it is, in a line.
    pub fn about(&self) -> &'static str {
        self.entry().about
    }

    /// Returns its row of the registry.
    pub(super) fn entry(&self) -> &'static Entry {
        let file = self.file();
        file.iter().find(|entry| (entry.kind)() == *self).unwrap_or(&file[0])
    }

    /// Returns the kind of that name, with its usual parameters.
    ///
    /// ```
    /// use farside::rw::Kind;
    ///
    /// assert_eq!(Kind::named("fompi-rw"), Some(Kind::FompiRw { backoff: false }));
    /// assert!(Kind::all().iter().all(|kind| Kind::named(kind.name()).as_ref() == Some(kind)));
    /// ```
    pub fn named(name: &str) -> Option<Kind> {
        Kind::all().into_iter().find(|kind| kind.name() == name)
    }

    /// Makes a lock. The default is RMA-RW where members are on several nodes.
    pub(super) fn build(
        &self,
        team: &Team<'_>,
        home: Rank,
        observer: Option<Observer>,
    ) -> Result<Made<dyn Algorithm>> {
        let (topology, members) = (team.context().topology(), team.members());
        let is_one_node = members.iter().all(|&rank| topology.same_node(rank, members[0]));
        let maker = Maker { team, world: None, home, what: format!("{self:?}"), observer };
        match self {
            Kind::Default if !is_one_node => Kind::rma_rw().make(&maker),
            other => other.make(&maker),
        }
    }
}
