//! A ticket lock, and one that takes its ticket with a load and a store.

use farside::{Rank, Result, Words, World};

use super::{Lock, Queue};

/// A ticket lock.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Ticket {
    /// As it should be.
    Right,
    /// Takes its ticket without an atomic.
    Plain,
}

// The words of rank 0.
const TICKETS: usize = 0;
const SERVING: usize = 1;

impl Lock for Ticket {
    type Handle = Words;

    fn make(&self, world: &World) -> Result<Words> {
        world.words(2)
    }

    fn acquire(&self, world: &World, words: &Words) -> Result<()> {
        let mine = self.ask(world, words)?;
        self.await_turn(world, words, mine)
    }

    fn release(&self, world: &World, words: &Words) -> Result<()> {
        world.flush_all()?;
        world.fetch_add(words.at(Rank(0), SERVING), 1).map(drop)
    }
}

impl Queue for Ticket {
    /// The number.
    type Turn = u64;

    fn ask(&self, world: &World, words: &Words) -> Result<u64> {
        let tickets = words.at(Rank(0), TICKETS);
        if *self == Ticket::Right {
            return world.fetch_add(tickets, 1);
        }
        let next = world.load(tickets)?;
        world.store(tickets, next + 1)?;
        Ok(next)
    }

    fn await_turn(&self, world: &World, words: &Words, mine: u64) -> Result<()> {
        while world.load(words.at(Rank(0), SERVING))? != mine {
            world.relax()?;
        }
        Ok(())
    }
}
