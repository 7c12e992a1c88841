//! Which algorithm a reader-writer lock uses.

use farside_fabric::{Rank, Result};
use farside_rma::Team;

use super::fompi_rw;
use super::frame::Algorithm;
use crate::lock::frame::Right;
use crate::lock::site;

/// Which algorithm a reader-writer lock uses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Kind {
    /// The fastest that is known here, chosen by how the members are arranged.
    #[default]
    Default,
    /// One word that counts readers and has a mark for a writer (foMPI-RW of [RMALOCK16]).
    FompiRw {
        /// Whether pauses between attempts grow.
        backoff: bool,
    },
}

impl Kind {
    /// Every kind, each once, with its usual parameters.
    pub fn all() -> Vec<Kind> {
        vec![Kind::Default, Kind::FompiRw { backoff: false }, Kind::FompiRw { backoff: true }]
    }

    /// Its name, as benchmarks and tables spell it.
    pub fn name(&self) -> &'static str {
        match self {
            Kind::Default => "default-rw",
            Kind::FompiRw { backoff: false } => "fompi-rw",
            Kind::FompiRw { backoff: true } => "fompi-rw-backoff",
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
            Kind::Default => Box::new(fompi_rw::FompiRw::<Right>::new(site(fompi_rw::WORDS)?, false)),
            Kind::FompiRw { backoff } => Box::new(fompi_rw::FompiRw::<Right>::new(site(fompi_rw::WORDS)?, *backoff)),
        })
    }
}
