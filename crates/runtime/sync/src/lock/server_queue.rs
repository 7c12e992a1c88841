//! The queue that an agent keeps for a lock, in words of the home: any process of the home's node
//! that runs the handlers finds it there.
//!
//! At the home there are 3 words (the first in the queue, the last, how many), and 3 for each rank
//! of the job (the next in the queue, the number of its request, its ticket); the same words of
//! other ranks are spare, should they become home.
//!
//! A rank is in the queue once at most. Handlers run one at a time and are killed with a member of
//! the lock only, which poisons it: so these words are changed one by one, and a recovery takes new
//! ones.

use farside_fabric::{Agent, Atomic, Rank, Result, Word};

/// The words of the queue, after those of the lock.
const FIRST: u64 = 0;
const LAST: u64 = 1;
const LENGTH: u64 = 2;
const ENTRIES: u64 = 3;
/// The words of an entry.
const NEXT: u64 = 0;
const REQUEST: u64 = 1;
const TICKET: u64 = 2;
const ENTRY_WORDS: u64 = 3;

pub(super) fn words(ranks: u32) -> usize {
    (ENTRIES + ENTRY_WORDS * u64::from(ranks)) as usize
}

/// The queue, as a handler uses it. Ranks are kept as one more than their number: zero is none, as
/// in fresh memory.
pub(super) struct ServerQueue<'a> {
    agent: &'a dyn Agent,
    /// The lock's first word at the home.
    home: Word,
    /// How many words of the lock come before the queue.
    after: usize,
}

/// What is kept of a request that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) rank: Rank,
    /// Its number; zero if it was cancelled, and its place stays.
    pub(super) request: u64,
    pub(super) ticket: u64,
}

impl<'a> ServerQueue<'a> {
    pub(super) fn new(agent: &'a dyn Agent, home: Word, after: usize) -> ServerQueue<'a> {
        ServerQueue { agent, home, after }
    }

    /// Does an atomic on a word of the lock at the home.
    pub(super) fn atomic(&self, index: usize, op: Atomic) -> Result<u64> {
        let at = Word { offset: self.home.offset.saturating_add(8 * index as u64), ..self.home };
        self.agent.atomic(at, op).map(|held| held as u64)
    }

    /// Writes a word of the lock at `rank`, and wakes it. Should that fail, the rank is lost, and
    /// all waiting ranks hear of it.
    pub(super) fn grant(&self, rank: Rank, index: usize, request: u64) {
        let at =
            Word { rank, offset: self.home.offset.saturating_add(8 * index as u64), ..self.home };
        let _ = self.agent.post(at, Atomic::Store(request.into()));
    }

    fn load(&self, word: u64) -> Result<u64> {
        self.atomic(self.after + word as usize, Atomic::Load)
    }

    fn store(&self, word: u64, value: u64) -> Result<()> {
        self.atomic(self.after + word as usize, Atomic::Store(value.into())).map(drop)
    }

    pub(super) fn first(&self) -> Result<Option<Entry>> {
        whose(self.load(FIRST)?).map(|rank| self.entry(rank)).transpose()
    }

    fn entry(&self, rank: Rank) -> Result<Entry> {
        Ok(Entry {
            rank,
            request: self.load(of(rank, REQUEST))?,
            ticket: self.load(of(rank, TICKET))?,
        })
    }

    /// Appends an entry, and returns how many there are then.
    pub(super) fn push(&self, Entry { rank, request, ticket }: Entry) -> Result<u64> {
        self.store(of(rank, NEXT), 0)?;
        self.store(of(rank, REQUEST), request)?;
        self.store(of(rank, TICKET), ticket)?;
        match whose(self.load(LAST)?) {
            Some(last) => self.store(of(last, NEXT), name(rank))?,
            None => self.store(FIRST, name(rank))?,
        }
        self.store(LAST, name(rank))?;
        let length = self.load(LENGTH)? + 1;
        self.store(LENGTH, length)?;
        Ok(length)
    }

    pub(super) fn pop(&self) -> Result<Option<Entry>> {
        let first = self.first()?;
        if let Some(Entry { rank, .. }) = first {
            self.unlink(None, rank)?;
        }
        Ok(first)
    }

    /// Takes a rank out of the queue; false if it is not in it.
    pub(super) fn remove(&self, rank: Rank) -> Result<bool> {
        let place = self.find(rank)?;
        place.map(|before| self.unlink(before, rank)).transpose().map(|removed| removed.is_some())
    }

    pub(super) fn entry_of(&self, rank: Rank) -> Result<Option<Entry>> {
        self.find(rank)?.map(|_| self.entry(rank)).transpose()
    }

    pub(super) fn renumber(&self, rank: Rank, request: u64) -> Result<()> {
        self.store(of(rank, REQUEST), request)
    }

    /// Returns the rank before another in the queue, if that is in it.
    fn find(&self, rank: Rank) -> Result<Option<Option<Rank>>> {
        let (mut before, mut at) = (None, whose(self.load(FIRST)?));
        for _ in 0..self.load(LENGTH)? {
            let Some(here) = at else { break };
            if here == rank {
                return Ok(Some(before));
            }
            (before, at) = (at, whose(self.load(of(here, NEXT))?));
        }
        Ok(None)
    }

    fn unlink(&self, before: Option<Rank>, rank: Rank) -> Result<()> {
        let next = self.load(of(rank, NEXT))?;
        self.store(before.map_or(FIRST, |before| of(before, NEXT)), next)?;
        if next == 0 {
            self.store(LAST, before.map_or(0, name))?;
        }
        self.store(LENGTH, self.load(LENGTH)?.saturating_sub(1))
    }
}

/// Returns the index of a word of a rank's entry.
fn of(rank: Rank, word: u64) -> u64 {
    ENTRIES + ENTRY_WORDS * u64::from(rank.0) + word
}

/// Returns a rank as a word.
pub(super) fn name(rank: Rank) -> u64 {
    u64::from(rank.0) + 1
}

pub(super) fn whose(word: u64) -> Option<Rank> {
    word.checked_sub(1).map(|rank| Rank(rank as u32))
}
