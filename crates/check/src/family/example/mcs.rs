//! The queuing lock of [ARMCI03] figure 5, and ways to get it wrong.

use farside::{Link, Rank, Result, Words, World};

use super::{Lock, Queue};

/// A queuing lock.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Mcs {
    /// As it should be.
    Right,
    /// Releases before what was written inside has landed.
    WithoutFlush,
    /// Does not wait for a successor that is about to link itself.
    WithoutSecondLook,
}

// The words of every rank; the tail is rank 0's.
const TAIL: usize = 0;
const NEXT: usize = 1;
const LOCKED: usize = 2;

impl Lock for Mcs {
    type Handle = Words;

    fn make(&self, world: &World) -> Result<Words> {
        world.words(3)
    }

    fn acquire(&self, world: &World, words: &Words) -> Result<()> {
        let pred = self.ask(world, words)?;
        self.await_turn(world, words, pred)
    }

    fn release(&self, world: &World, words: &Words) -> Result<()> {
        let me = world.rank();
        if *self != Mcs::WithoutFlush {
            world.flush_all()?;
        }
        let mut next = world.load(words.at(me, NEXT))?;
        if next == 0 {
            let mine = Link::new(me, 0)?.bits();
            if world.compare_swap(words.at(Rank(0), TAIL), mine, 0)? == mine {
                return Ok(());
            }
            next = match self {
                Mcs::WithoutSecondLook => world.load(words.at(me, NEXT))?,
                _ => world.wait(words.at(me, NEXT), |next| next != 0)?,
            };
        }
        match Link::from_bits(next).target() {
            Some((next, _)) => world.signal(words.at(next, LOCKED), 0),
            None => Ok(()),
        }
    }
}

impl Queue for Mcs {
    /// Who comes before.
    type Turn = Option<Rank>;

    fn ask(&self, world: &World, words: &Words) -> Result<Option<Rank>> {
        let me = world.rank();
        world.store(words.at(me, NEXT), 0)?;
        world.store(words.at(me, LOCKED), 1)?;
        let before = world.swap(words.at(Rank(0), TAIL), Link::new(me, 0)?.bits())?;
        Ok(Link::from_bits(before).target().map(|(pred, _)| pred))
    }

    fn await_turn(&self, world: &World, words: &Words, pred: Option<Rank>) -> Result<()> {
        let me = world.rank();
        if let Some(pred) = pred {
            world.signal(words.at(pred, NEXT), Link::new(me, 0)?.bits())?;
            world.wait(words.at(me, LOCKED), |locked| locked == 0)?;
        }
        Ok(())
    }
}
