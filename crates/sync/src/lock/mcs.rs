//! Queuing lock (D-MCS): each waiter waits on a word of its own memory, and one message passes the
//! lock.
//!
//! Paper:     [ARMCI03] section 3.2.2, figures 5 and 6; [RMALOCK16] listings 2 and 3 (D-MCS).
//! Differs:   see `queue`: packed links, and waiters that can give up.
//! State:     1 word at the home rank, 2 words on every rank.
//! Invariant: at most one rank between acquire and release; entry in the order of the swaps on the
//!            tail.
//! Ordering:  release flushes first (`a_queue_without_flush_is_caught`).
//! Cost:      acquire 1 atomic, +1 signal and 1 store to itself if queued; release 1 load and 1
//!            atomic alone, else 1 load, 1 store to itself and 1 signal.
//! Checked:   `farside check 'lock/d-mcs*'`: 3 ranks x 2 rounds exhaustively on one node, 3 x 1 on
//!            three; 3 x 1 with waiters that give up and come back, that give up and walk away,
//!            with attempts that do not wait, and with a death; 8 and 16 ranks on three levels,
//!            some with time limits, PCT depth 3.

use std::marker::PhantomData;

use farside_fabric::{Rank, Result};
use farside_rma::{Context, Words};

use super::frame::{Algorithm, Patience, Site, Variant};
use super::queue::{self, Entry, Queue};

pub(super) const WORDS: usize = queue::WORDS;

pub(super) struct Mcs<V> {
    site: Site,
    queue: Queue,
    variant: PhantomData<V>,
}

impl<V: Variant> Mcs<V> {
    pub(super) fn new(site: Site) -> Mcs<V> {
        let queue = Queue::new(0, site.home());
        Mcs { site, queue, variant: PhantomData }
    }
}

impl<V: Variant> Algorithm for Mcs<V> {
    fn name(&self) -> &'static str {
        "d-mcs"
    }

    fn site(&self) -> &Site {
        &self.site
    }

    fn acquire(&self, context: &Context, patience: Patience) -> Result<bool> {
        let entry = self.queue.enter::<V>(&self.site, context, patience)?;
        if matches!(entry, Entry::Passed(_)) {
            self.site.tally.queued(1);
        }
        Ok(entry != Entry::GaveUp)
    }

    fn release(&self, context: &Context) -> Result<()> {
        let published = self.site.publish::<V>(context);
        if let Some(next) = self.queue.leave::<V>(&self.site, context, 0)? {
            self.site.tally.passed(context, next);
        }
        published
    }

    fn reset(&mut self, _context: &Context, home: Rank, members: &[Rank]) -> Result<()> {
        self.site.change(home, members);
        self.queue = Queue::new(0, home);
        Ok(())
    }

    fn into_words(self: Box<Self>) -> Words {
        self.site.into_words()
    }
}
