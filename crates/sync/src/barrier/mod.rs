//! Barriers: nobody goes on before all have come. One file holds one algorithm; [`Kind`] chooses.
//!
//! They are rivals of each other, and of [`World::barrier`], which chooses by itself. A barrier
//! says nothing about puts: see [`Combined`](crate::Combined).
//!
//! ```
//! use farside::barrier::{Barrier, Kind};
//!
//! farside::local(3, |world| {
//!     for kind in Kind::ALL {
//!         let barrier = Barrier::new(&world, kind)?;
//!         barrier.enter(&world)?;
//!         barrier.free(&world)?;
//!     }
//!     Ok(())
//! })
//! .unwrap();
//! ```

mod binomial;
mod central;
mod crew;
mod dissemination;
mod hierarchical;

use farside_fabric::Result;
use farside_rma::{Context, Team, World};

use crate::variant::{Right, Variant};
use crew::Crew;

/// The algorithm of a barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One counter.
    Central,
    /// Everybody signals in log2 N rounds.
    Dissemination,
    /// Up a binomial spanning tree, and down again.
    Binomial,
    /// Inside every node first, then across.
    Hierarchical,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 4] =
        [Kind::Central, Kind::Dissemination, Kind::Binomial, Kind::Hierarchical];

    /// Its name, as benchmarks spell it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Central => "central",
            Kind::Dissemination => "dissemination",
            Kind::Binomial => "binomial",
            Kind::Hierarchical => "hierarchical",
        }
    }
}

/// A barrier of all ranks.
#[must_use = "a barrier that is dropped without `free` keeps its memory until the job ends"]
pub struct Barrier {
    algorithm: Box<dyn Algorithm>,
}

/// One barrier's algorithm, as one rank executes it.
trait Algorithm: Send {
    fn crew(&self) -> &Crew;
    fn meet(&self, context: &Context, round: u64) -> Result<()>;
    fn into_crew(self: Box<Self>) -> Crew;
}

impl Barrier {
    /// Makes a barrier. Collective.
    pub fn new(world: &World, kind: Kind) -> Result<Barrier> {
        Barrier::variant::<Right>(world, kind)
    }

    #[doc(hidden)]
    pub fn variant<V: Variant>(world: &World, kind: Kind) -> Result<Barrier> {
        let algorithm: Box<dyn Algorithm> = match kind {
            Kind::Central => Box::new(central::Central::new(Crew::new(world, central::WORDS)?)),
            Kind::Dissemination => {
                let words = dissemination::words(world.size());
                Box::new(dissemination::Dissemination::<V>::new(Crew::new(world, words)?))
            }
            Kind::Binomial => Box::new(binomial::Binomial::<V>::new(Crew::new(
                world,
                binomial::words(world.size()),
            )?)),
            Kind::Hierarchical => {
                let words = hierarchical::words(world.topology());
                Box::new(hierarchical::Hierarchical::<V>::new(world, Crew::new(world, words)?)?)
            }
        };
        Ok(Barrier { algorithm })
    }

    /// Returns when all ranks have called it.
    pub fn enter(&self, context: &Context) -> Result<()> {
        let round = self.algorithm.crew().enter(context)?;
        self.algorithm.meet(context, round)
    }

    /// Gives the memory back. Collective.
    pub fn free<'t>(self, team: impl Into<Team<'t>>) -> Result<()> {
        self.algorithm.into_crew().into_words().free(team)
    }
}
