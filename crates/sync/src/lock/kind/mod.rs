//! Which algorithm a lock uses.

use farside_fabric::{Error, Rank, Result};
use farside_rma::{Team, World};

use super::frame::{Algorithm, Right, Site};
use super::{bypass, mcs, spin, ticket};

/// Which algorithm a lock uses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Kind {
    /// The fastest that is known here, chosen by how the members are arranged.
    #[default]
    Default,
    /// The default, with other parameters.
    Bypass {
        /// How often in a row a running rank may be ahead of the first that waits, up to 254; usually 64.
        bound: u32,
        /// How often the first that waits looks for itself before it sleeps until it is woken; usually 200.
        polls: u32,
    },
    /// Numbers are taken and called ([ARMCI03]).
    Ticket,
    /// A queue that each waiter links itself into, waiting on its own word ([ARMCI03], D-MCS of [RMALOCK16]).
    Mcs,
    /// One word that is changed from zero (foMPI-Spin of [RMALOCK16]).
    Spin {
        /// Whether pauses between attempts grow.
        backoff: bool,
    },
}

impl Kind {
    /// Every kind, each once, with its usual parameters.
    pub fn all() -> Vec<Kind> {
        vec![Kind::Default, Kind::Ticket, Kind::Mcs, Kind::Spin { backoff: false }, Kind::Spin { backoff: true }]
    }

    /// Its name, as benchmarks and tables spell it.
    pub fn name(&self) -> &'static str {
        match self {
            Kind::Default => "default",
            Kind::Bypass { .. } => "bypass",
            Kind::Ticket => "ticket",
            Kind::Mcs => "d-mcs",
            Kind::Spin { backoff: false } => "fompi-spin",
            Kind::Spin { backoff: true } => "fompi-spin-backoff",
        }
    }

    /// The kind of that name, with its usual parameters.
    ///
    /// ```
    /// use farside::lock::Kind;
    ///
    /// assert_eq!(Kind::named("d-mcs"), Some(Kind::Mcs));
    /// assert!(Kind::all().iter().all(|kind| Kind::named(kind.name()).as_ref() == Some(kind)));
    /// ```
    pub fn named(name: &str) -> Option<Kind> {
        Kind::all().into_iter().find(|kind| kind.name() == name)
    }

    /// How many words of every member it takes.
    fn words(&self) -> usize {
        match self {
            Kind::Ticket => ticket::WORDS,
            Kind::Default | Kind::Bypass { .. } => bypass::WORDS,
            Kind::Mcs => mcs::WORDS,
            Kind::Spin { .. } => spin::WORDS,
        }
    }

    pub(crate) fn build(&self, team: &Team<'_>, world: Option<&World>, home: Rank) -> Result<Box<dyn Algorithm>> {
        let site = site(team, home, self.words(), &format!("{self:?}"))?;
        let _ = world;
        let context = team.context();
        Ok(match self {
            Kind::Ticket => Box::new(ticket::Ticket::<Right>::new(site)),
            Kind::Default => Box::new(bypass::Bypass::<Right>::new(site, context, bypass::BOUND, bypass::POLLS)),
            Kind::Bypass { bound, polls } => Box::new(bypass::Bypass::<Right>::new(site, context, *bound, *polls)),
            Kind::Mcs => Box::new(mcs::Mcs::<Right>::new(site)),
            Kind::Spin { backoff } => Box::new(spin::Spin::<Right>::new(site, *backoff)),
        })
    }
}

/// The words of a new lock, on which all members agree.
pub(crate) fn site(team: &Team<'_>, home: Rank, words: usize, what: &str) -> Result<Site> {
    team.context().topology().check(home)?;
    if !team.members().contains(&home) {
        return Err(Error::NotAMember { rank: home, of: "team that makes the lock" });
    }
    let digest = what
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    let says = team.all_gather(&[u64::from(home.0), digest])?;
    for (theirs, &rank) in says.chunks_exact(2).zip(team.members()) {
        if theirs != [u64::from(home.0), digest] {
            return Err(Error::Disagreement {
                what: "the ranks disagree on a lock".into(),
                mine: format!("{what} at {home}"),
                rank,
                theirs: format!("another kind, at rank {}", theirs[0]),
            });
        }
    }
    Ok(Site::new(team.words(words)?, home, team.members()))
}
