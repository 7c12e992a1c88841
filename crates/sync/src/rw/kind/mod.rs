//! Which algorithm a reader-writer lock uses.

use farside_fabric::{Rank, Result};
use farside_rma::Team;

use super::counters::Limits;
use super::fompi_rw::{self, FompiRw};
use super::frame::Algorithm;
use super::rma_rw::{self, RmaRw, Thresholds};
use super::slots::{self, Bounds, Slots};
use crate::lock::frame::{Right, Site};
use crate::lock::site;

/// Which algorithm a reader-writer lock uses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Kind {
    /// The fastest that is known here, chosen by how the members are arranged: [`Kind::Slots`] on
    /// one node, [`Kind::RmaRw`] on several.
    #[default]
    Default,
    /// The default, with other parameters.
    Slots {
        /// How many neighbours share a counter of readers. Without it, each rank has one where all
        /// members are on one node, else each node.
        t_dc: Option<u32>,
        /// How many writers may follow each other while readers wait; usually 32.
        t_w: u32,
        /// How often a reader lets writers pass before its turn is certain; usually 64.
        yields: u32,
    },
    /// One word that counts readers and has a mark for a writer (foMPI-RW of \[RMALOCK16\]).
    FompiRw {
        /// Whether pauses between attempts grow.
        backoff: bool,
    },
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
    },
}

impl Kind {
    /// RMA-RW with its usual parameters: a counter on each node, 1000 writers or readers in a row.
    pub fn rma_rw() -> Kind {
        Kind::RmaRw { t_dc: None, t_l: USUAL_T_L.to_vec(), t_r: USUAL_T_R }
    }

    /// Every kind, each once, with its usual parameters.
    pub fn all() -> Vec<Kind> {
        vec![
            Kind::Default,
            Kind::FompiRw { backoff: false },
            Kind::FompiRw { backoff: true },
            Kind::rma_rw(),
        ]
    }

    /// Its name, as benchmarks and tables spell it.
    pub fn name(&self) -> &'static str {
        match self {
            Kind::Default => "default-rw",
            Kind::Slots { .. } => "slots",
            Kind::FompiRw { backoff: false } => "fompi-rw",
            Kind::FompiRw { backoff: true } => "fompi-rw-backoff",
            Kind::RmaRw { .. } => "rma-rw",
        }
    }

    /// The kind of that name, with its usual parameters.
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

    pub(super) fn build(&self, team: &Team<'_>, home: Rank) -> Result<Box<dyn Algorithm>> {
        let site = |words: usize| site(team, home, words, &format!("{self:?}"));
        Ok(match self {
            Kind::Default if !is_one_node(team) => {
                Box::new(rma_rw(team, site, ("default-rw", None, &USUAL_T_L, USUAL_T_R))?)
            }
            Kind::Default => {
                let bounds = Bounds { t_dc: None, t_w: slots::T_W, yields: slots::YIELDS };
                Box::new(Slots::<Right>::new(site(slots::WORDS)?, team, bounds)?)
            }
            Kind::Slots { t_dc, t_w, yields } => {
                let bounds = Bounds { t_dc: *t_dc, t_w: *t_w, yields: *yields };
                bounds.check()?;
                Box::new(Slots::<Right>::new(site(slots::WORDS)?, team, bounds)?)
            }
            Kind::FompiRw { backoff } => {
                Box::new(FompiRw::<Right>::new(site(fompi_rw::WORDS)?, *backoff))
            }
            Kind::RmaRw { t_dc, t_l, t_r } => {
                Box::new(rma_rw(team, site, ("rma-rw", *t_dc, t_l, *t_r))?)
            }
        })
    }
}

/// The usual thresholds of RMA-RW: 1000 writers or readers in a row.
const USUAL_T_L: [u32; 3] = [20, 50, 1];
const USUAL_T_R: u32 = 1000;

fn rma_rw(
    team: &Team<'_>,
    site: impl Fn(usize) -> Result<Site>,
    (name, t_dc, t_l, t_r): (&'static str, Option<u32>, &[u32], u32),
) -> Result<RmaRw<Right>> {
    Limits::check_t_r(t_r)?;
    let thresholds = Thresholds { name, t_dc, t_l: t_l.to_vec(), t_r };
    RmaRw::new(site(rma_rw::words(team))?, team.context(), thresholds)
}

fn is_one_node(team: &Team<'_>) -> bool {
    let members = team.members();
    members.iter().all(|&rank| team.context().topology().same_node(rank, members[0]))
}
