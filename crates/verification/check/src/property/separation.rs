//! Separation: no rank leaves a barrier before all have come to it.

use farside::{Error, Rank, Result, Words, World};

/// A gate between rounds.
#[derive(Clone, Copy, Default)]
pub struct Separation;

/// The state of one rank at the gate: a word of its own that says which round it is in.
pub struct Gate {
    rounds: Words,
}

impl Separation {
    /// Makes a gate that no rank has passed. Collective.
    pub fn prepare(&self, world: &World) -> Result<Gate> {
        Ok(Gate { rounds: world.words(1)? })
    }
}

impl Gate {
    /// Says, for all to see, that this rank has come to the barrier of a round; rounds begin with
    /// 1.
    pub fn comes(&self, world: &World, round: u64) -> Result<()> {
        world.store(self.rounds.at(world.rank(), 0), round)
    }

    /// This rank has left the barrier of a round: all must have come to it, and none can have come
    /// to more than the next.
    pub fn leaves(&self, world: &World, round: u64) -> Result<()> {
        let me = world.rank();
        for other in world.ranks().filter(|&other| other != me) {
            self.look(world, me, other, round)?;
        }
        Ok(())
    }

    fn look(&self, world: &World, me: Rank, other: Rank, round: u64) -> Result<()> {
        let seen = world.load(self.rounds.at(other, 0))?;
        if seen < round {
            return Err(Error::Program(format!(
                "{me} has left barrier {round} before {other} has come to it"
            )));
        }
        if seen > round + 1 {
            return Err(Error::Program(format!(
                "{other} is at barrier {seen} before {me} has come to {}",
                round + 1
            )));
        }
        Ok(())
    }
}
