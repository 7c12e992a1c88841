//! Which algorithm a lock uses.

use farside_fabric::{Error, Rank, Result};
use farside_rma::{Team, World};

use super::frame::{Algorithm, Right, Site};
use super::{bypass, hybrid, mcs, server, spin, ticket, token, tree};

/// Which algorithm a lock uses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Kind {
    /// The fastest that is known here, chosen by how the members are arranged: on one node, bounded
    /// bypass; across nodes, the tree of queues.
    #[default]
    Default,
    /// The default, with other parameters.
    Bypass {
        /// How often running ranks may be ahead of the first that waits before it is its turn, if
        /// it runs; usually 64, or 256 where ranks outnumber processors.
        batch: u32,
        /// How often in a row they may be ahead of it, whether it runs or not, up to 32,766;
        /// usually 32,000.
        bound: u32,
        /// How often the first that waits looks for itself before it sleeps until it is woken;
        /// usually 200.
        polls: u32,
    },
    /// Numbers are taken and called (\[ARMCI03\]).
    Ticket,
    /// The agent of the home's node keeps a queue (\[ARMCI03\]).
    Server,
    /// Near ranks take tickets themselves, for far ranks the agent does (\[ARMCI03\]).
    Hybrid,
    /// A queue that each waiter links itself into, waiting on its own word (\[ARMCI03\], D-MCS of
    /// \[RMALOCK16\]).
    Mcs,
    /// The same with a release that sends nothing as long as nobody waits.
    Token,
    /// One word that is changed from zero (foMPI-Spin of \[RMALOCK16\]).
    Spin {
        /// Whether pauses between attempts grow.
        backoff: bool,
    },
    /// A queue for each element of the topology (RMA-MCS of \[RMALOCK16\]).
    Tree {
        /// How often in a row the lock is passed inside an element before it leaves it: for the
        /// levels below the widest, the widest first; the last one also for all levels that follow.
        /// Without any, 32.
        thresholds: Vec<u32>,
    },
}

impl Kind {
    /// Every kind, each once, with its usual parameters.
    pub fn all() -> Vec<Kind> {
        vec![
            Kind::Default,
            Kind::Ticket,
            Kind::Server,
            Kind::Hybrid,
            Kind::Mcs,
            Kind::Token,
            Kind::Tree { thresholds: Vec::new() },
            Kind::Spin { backoff: false },
            Kind::Spin { backoff: true },
        ]
    }

    /// Its name, as benchmarks and tables spell it.
    pub fn name(&self) -> &'static str {
        match self {
            Kind::Default => "default",
            Kind::Bypass { .. } => "bypass",
            Kind::Ticket => "ticket",
            Kind::Server => "server",
            Kind::Hybrid => "hybrid",
            Kind::Tree { .. } => "rma-mcs",
            Kind::Mcs => "d-mcs",
            Kind::Token => "d-mcs-token",
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
    fn words(&self, team: &Team<'_>) -> usize {
        match self {
            Kind::Default | Kind::Bypass { .. } => bypass::WORDS,
            Kind::Ticket => ticket::WORDS,
            Kind::Server => server::words(team.context().size()),
            Kind::Hybrid => hybrid::words(team.context().size()),
            Kind::Mcs => mcs::WORDS,
            Kind::Token => token::WORDS,
            Kind::Spin { .. } => spin::WORDS,
            Kind::Tree { .. } => tree::words(team.context(), team.members()),
        }
    }

    /// Makes a lock. A world is needed to reach agents.
    pub(crate) fn build(
        &self,
        team: &Team<'_>,
        world: Option<&World>,
        home: Rank,
    ) -> Result<Box<dyn Algorithm>> {
        // Between nodes it is messages that cost, so the lock stays on a node for a while; on a
        // node it is sleeping ranks, which are passed.
        let topology = team.context().topology();
        if *self == Kind::Default
            && !team.members().iter().all(|&rank| topology.same_node(rank, team.members()[0]))
        {
            return Kind::Tree { thresholds: Vec::new() }.build(team, world, home);
        }
        let needs_agent = matches!(self, Kind::Server | Kind::Hybrid);
        if needs_agent && world.is_none() {
            let what = format!(
                "a lock of kind {:?} for a team: its agent may not be a member's",
                self.name()
            );
            return Err(Error::Unsupported { what });
        }
        let site = site(team, home, self.words(team), &format!("{self:?}"))?;
        let context = team.context();
        Ok(match (self, world) {
            (Kind::Server, Some(world)) => Box::new(server::Server::<Right>::new(site, world)?),
            (Kind::Hybrid, Some(world)) => Box::new(hybrid::Hybrid::<Right>::new(site, world)?),
            (Kind::Ticket, _) => Box::new(ticket::Ticket::<Right>::new(site)),
            (Kind::Token, _) => Box::new(token::Token::<Right>::new(site)),
            (Kind::Mcs, _) => Box::new(mcs::Mcs::<Right>::new(site)),
            (Kind::Spin { backoff }, _) => Box::new(spin::Spin::<Right>::new(site, *backoff)),
            (Kind::Tree { thresholds }, _) => {
                Box::new(tree::Tree::<Right>::new(site, context, thresholds))
            }
            (&Kind::Bypass { batch, bound, polls }, _) => {
                let bounds = bypass::Bounds { batch: Some(batch), bound, polls };
                Box::new(bypass::Bypass::<Right>::new(site, context, bounds)?)
            }
            (Kind::Default | Kind::Server | Kind::Hybrid, _) => {
                Box::new(bypass::Bypass::<Right>::new(site, context, bypass::Bounds::default())?)
            }
        })
    }
}

/// The words of a new lock, on which all members agree.
pub(crate) fn site(team: &Team<'_>, home: Rank, words: usize, what: &str) -> Result<Site> {
    team.context().topology().check(home)?;
    if !team.members().contains(&home) {
        return Err(Error::NotAMember { rank: home, of: "team that makes the lock" });
    }
    let digest = farside_fabric::digest::of(what.as_bytes());
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
