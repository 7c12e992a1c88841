//! A lock that is swapped for until it was free. It keeps others out, and promises nothing about
//! who is next.

use farside::{Rank, Result, Words, World};

use super::{Lock, Queue};

/// A spin lock.
#[derive(Clone, Copy)]
pub(super) struct Spin;

impl Lock for Spin {
    type Handle = Words;

    fn make(&self, world: &World) -> Result<Words> {
        world.words(1)
    }

    fn acquire(&self, world: &World, words: &Words) -> Result<()> {
        self.await_turn(world, words, false)
    }

    fn release(&self, world: &World, words: &Words) -> Result<()> {
        world.flush_all()?;
        world.store(words.at(Rank(0), 0), 0)
    }
}

impl Queue for Spin {
    /// Whether it was free at once.
    type Turn = bool;

    fn ask(&self, world: &World, words: &Words) -> Result<bool> {
        Ok(world.swap(words.at(Rank(0), 0), 1)? == 0)
    }

    fn await_turn(&self, world: &World, words: &Words, was_free: bool) -> Result<()> {
        let mut was_free = was_free;
        while !was_free {
            was_free = world.swap(words.at(Rank(0), 0), 1)? == 0;
            if !was_free {
                world.relax()?;
            }
        }
        Ok(())
    }
}
