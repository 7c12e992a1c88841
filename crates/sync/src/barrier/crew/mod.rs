//! What all barriers are built of: words on every rank, rounds, and waiting that ends when somebody
//! does not come.

use std::cell::Cell;

use farside_fabric::{Rank, Result};
use farside_rma::{Context, Words, World};

/// How many rounds this rank has entered: for others to look at when it has left.
const ENTERED: usize = 0;

/// The words of a barrier, and who takes part.
pub(crate) struct Crew {
    words: Words,
    ranks: u32,
    me: Rank,
    round: Cell<u64>,
}

impl Crew {
    /// Takes `words` words on every rank. Collective.
    pub(crate) fn new(world: &World, words: usize) -> Result<Crew> {
        Ok(Crew {
            words: world.words(1 + words)?,
            ranks: world.size(),
            me: world.rank(),
            round: Cell::new(0),
        })
    }

    pub(crate) fn ranks(&self) -> u32 {
        self.ranks
    }

    pub(crate) fn me(&self) -> Rank {
        self.me
    }

    /// Begins the next round; returns its number, from 1 on.
    pub(crate) fn enter(&self, context: &Context) -> Result<u64> {
        let round = self.round.get() + 1;
        self.round.set(round);
        context.store(self.words.at(self.me, ENTERED), round)?;
        Ok(round)
    }

    /// Signals a word of a rank.
    pub(crate) fn signal(
        &self,
        context: &Context,
        to: Rank,
        word: usize,
        value: u64,
    ) -> Result<()> {
        context.signal(self.words.at(to, 1 + word), value)
    }

    /// Counts up a word of a rank; returns what it held.
    pub(crate) fn count(&self, context: &Context, at: Rank, word: usize) -> Result<u64> {
        context.fetch_add(self.words.at(at, 1 + word), 1)
    }

    /// Waits until a word of this rank says `round`, or later.
    pub(crate) fn wait(&self, context: &Context, word: usize, round: u64) -> Result<()> {
        let has_entered = |rank: Rank| Ok(context.load(self.words.at(rank, ENTERED))? >= round);
        let members = context.topology().all();
        let said = self.words.at(self.me, 1 + word);
        context.wait_for_all(members, &has_entered, said, |said| said >= round).map(drop)
    }

    pub(crate) fn into_words(self) -> Words {
        self.words
    }
}
