//! The default reader-writer lock of one node: readers count themselves in memory of their own, writers take an exclusive lock and close all counters.
//!
//! Paper:     none as a whole. The counters are those of [RMALOCK16] section 3.2.1, see `counters`; writers exclude each other by the default exclusive
//!            lock, which leaves the lock to running ranks a bounded number of times before it is handed to one that sleeps.
//! Differs:   from RMA-RW: on one node every reader has a counter of its own, so that reading costs two atomics on memory that nobody else
//!            touches; between nodes, one counter serves a node. Writers that wait are announced in a word at the home: while there are any, the
//!            counters stay closed from one writer to the next, up to `t_w` of them in a row, so that a burst of writers closes once. A reader that
//!            finds its counter closed withdraws and sleeps, and writers need not wait for it to wake up; when it has been passed `yields` times, it
//!            insists, and the next opening lets it in wherever it is.
//! State:     1 word at the home rank, 3 words on every rank, and those of the exclusive lock.
//! Invariant: a writer is inside only if it has the exclusive lock and all counters are closed and drained. Counters are open whenever
//!            the exclusive lock is free and no writer is announced. A writer that has the exclusive lock waits for no reader that comes later; a
//!            reader waits for at most (`yields` + 2) rows of `t_w` writers.
//! Ordering:  release flushes first (`slots_without_flush_are_caught`); a writer waits for the readers inside (`slots_without_drain_are_caught`), and
//!            they tell it (`a_writer_that_nobody_tells_is_caught`).
//! Cost:      read 1 atomic, end of read 1 atomic, +1 if a writer waits. Write alone, with C counters: that of the exclusive lock, 1 load and C atomics; its end
//!            1 load and C atomics, and that of the exclusive lock. In a row of writers instead 3 atomics each.
//! Checked:   1 writer + 2 readers and 2 writers + 1 reader x 1 round, 1 writer + 1 reader x 2 rounds exhaustively, with `yields` of 0 and 1 and rows of 1 and 2;
//!            8 and 16 ranks at random.

use std::cell::Cell;
use std::marker::PhantomData;

use farside_fabric::{Rank, Result};
use farside_rma::{Context, Team};

use super::counters::{self, Counters, T_R_MAX, Writers};
use super::frame::{Algorithm, Tally};
use crate::lock;
use crate::lock::frame::{Patience, Site, Variant};

// What the home shares lies a cache line away from its own counter.
pub(super) const WORDS: usize = 9;
const ROW: usize = 8;
/// The fields of the row: how many writers wait, and how many have followed each other since the counters were closed; 0 if they are open.
const WAITING: u64 = 1;
const LENGTH: u32 = 32;

/// The usual bounds.
pub(super) const T_W: u32 = 32;
pub(super) const YIELDS: u32 = 64;

/// The parameters.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) t_dc: Option<u32>,
    pub(super) t_w: u32,
    pub(super) yields: u32,
}

pub(super) struct Slots<V> {
    site: Site,
    tally: Tally,
    bounds: Bounds,
    counters: Counters,
    writers: Box<dyn lock::frame::Algorithm>,
    /// How many writers were before this one in the row.
    row: Cell<u64>,
    variant: PhantomData<V>,
}

impl<V: Variant> Slots<V> {
    pub(super) fn new(site: Site, team: &Team<'_>, bounds: Bounds) -> Result<Slots<V>> {
        let writers = lock::Kind::Default.build(team, None, site.home())?;
        let counters = counters(&site, team.context(), bounds);
        let tally = Tally::default();
        Ok(Slots { site, tally, bounds, counters, writers, row: Cell::new(0), variant: PhantomData })
    }

    /// Takes the exclusive lock. Returns what the row says, unless the request gave up.
    fn exclude(&self, context: &Context, patience: Patience) -> Result<Option<u64>> {
        let row = self.site.shared(ROW);
        if self.writers.acquire(context, Patience::Never)? {
            return context.load(row).map(Some);
        }
        if patience == Patience::Never {
            return Ok(None);
        }
        self.tally.note(|tally| &tally.writes_queued);
        // Whoever may give up must not keep the counters closed.
        if patience.may_give_up() {
            return if self.writers.acquire(context, patience)? { context.load(row).map(Some) } else { Ok(None) };
        }
        context.fetch_add(row, WAITING)?;
        self.writers.acquire(context, patience)?;
        context.fetch_add(row, WAITING.wrapping_neg()).map(Some)
    }

    /// Leaves the counters closed for a writer that waits, if there is one and the row is not too long.
    fn keep_closed(&self, context: &Context) -> Result<bool> {
        let word = self.site.shared(ROW);
        let row = context.load(word)?;
        if row % (1 << LENGTH) != 0 && self.row.get() + 1 < self.bounds.t_w.into() {
            context.fetch_add(word, 1 << LENGTH)?;
            self.tally.note(|tally| &tally.passed_across);
            return Ok(true);
        }
        if row >> LENGTH != 0 {
            context.fetch_add(word, ((row >> LENGTH) << LENGTH).wrapping_neg())?;
        }
        if row % (1 << LENGTH) != 0 {
            self.tally.note(|tally| &tally.yielded);
        }
        Ok(false)
    }
}

impl<V: Variant> Algorithm for Slots<V> {
    fn name(&self) -> &'static str {
        "default-rw"
    }

    fn site(&self) -> &Site {
        &self.site
    }

    fn tally(&self) -> &Tally {
        &self.tally
    }

    #[inline]
    fn read(&self, context: &Context, patience: Patience) -> Result<bool> {
        self.counters.arrive::<V>(&self.site, context, patience, (&self.tally, &Nobody))
    }

    #[inline]
    fn end_read(&self, context: &Context) -> Result<()> {
        let published = self.site.publish::<V>(context);
        self.counters.depart::<V>(&self.site, context)?;
        published
    }

    fn write(&self, context: &Context, patience: Patience) -> Result<bool> {
        let Some(row) = self.exclude(context, patience)? else {
            return Ok(false);
        };
        self.row.set(row >> LENGTH);
        let is_closed = row >> LENGTH != 0 || self.counters.close::<V>(&self.site, context, patience, &self.tally)?;
        if !is_closed {
            self.writers.release(context)?;
        }
        Ok(is_closed)
    }

    fn end_write(&self, context: &Context) -> Result<()> {
        let published = self.site.publish::<V>(context);
        if self.keep_closed(context)? {
            self.counters.pass_on();
        } else {
            self.counters.open(&self.site, context, &self.tally)?;
        }
        self.writers.release(context)?;
        published
    }

    fn clear(&self, context: &Context) -> Result<()> {
        self.site.clear(context)?;
        self.writers.site().clear(context)
    }

    fn reset(&mut self, context: &Context, home: Rank, members: &[Rank]) -> Result<()> {
        self.writers.reset(context, home, members)?;
        self.site.change(home, members);
        self.counters = counters(&self.site, context, self.bounds);
        Ok(())
    }

    fn can_be_home(&self, context: &Context, rank: Rank) -> bool {
        self.writers.can_be_home(context, rank)
    }

    fn free(self: Box<Self>, team: &Team<'_>) -> Result<()> {
        self.site.into_words().free(team)?;
        self.writers.into_words().free(team)
    }
}

/// A counter for each member where they share memory, else one for each node.
fn counters(site: &Site, context: &Context, bounds: Bounds) -> Counters {
    let members = site.members();
    let is_one_node = members.iter().all(|&rank| context.topology().same_node(rank, members[0]));
    let t_dc = bounds.t_dc.or(is_one_node.then_some(1));
    Counters::yielding(0, context, members, t_dc, (T_R_MAX, bounds.yields))
}

/// Writers close the counters at once, so that readers need not ask for them: reaching T_R does no more than start the count anew.
struct Nobody;

impl Writers for Nobody {
    fn are_there(&self) -> Result<bool> {
        Ok(false)
    }
}

const _: () = assert!(counters::WORDS <= ROW);
