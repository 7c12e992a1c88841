//! The default reader-writer lock of one node: readers count themselves in memory of their own,
//! writers take an exclusive lock and close all counters.
//!
//! Paper:     none as a whole. The counters are those of [RMALOCK16] section 3.2.1, see `counters`;
//!            writers exclude each other by the default exclusive lock, which leaves the lock to
//!            running ranks a bounded number of times before it is handed to one that sleeps.
//! Differs:   from RMA-RW: every reader has a counter of its own, so that reading costs two atomics
//!            on memory that nobody else touches. Writers that wait are announced in a word at the
//!            home, the *row*: while there are any, the counters stay closed from one writer to the
//!            next, up to `t_w` of them, so that a burst of writers closes once. A writer that
//!            counted fewer reads than there are counters lets the lock *linger*: it leaves the
//!            counters closed although nobody waits. Then readers take the exclusive lock, too,
//!            until as many of them have come without a writer as there are counters: so the lock
//!            is an exclusive one where most requests are writes. A reader that finds its counter
//!            closed withdraws and sleeps, and writers need not wait for it to wake up; when it has
//!            been passed `yields` times, it insists, and the next opening lets it in wherever it
//!            is.
//! State:     1 word at the home rank, 3 words on every rank, and those of the exclusive lock.
//! Invariant: a writer is inside only if it has the exclusive lock and all counters are closed and
//!            drained. Counters are open whenever the exclusive lock is free, no writer is
//!            announced and the lock does not linger; it does not begin to linger once a reader has
//!            said that it waits. A writer that has the exclusive lock waits for no reader that
//!            comes later; a reader waits for at most 2 rows of `t_w` writers once it insists,
//!            which it does when it has seen `yields` openings, or as long as for the exclusive
//!            lock. Openings that it does not see, because it does not run, do not count.
//! Ordering:  release flushes first (`slots_without_flush_are_caught`); a writer waits for the
//!            readers inside (`slots_without_drain_are_caught`), and they tell it
//!            (`a_writer_that_nobody_tells_is_caught`); lingering begins in one step
//!            (`slots_that_linger_in_two_steps_are_caught`).
//! Cost:      read 1 atomic, end of read 1 atomic, +1 if a writer waits. Write alone, with C
//!            counters: that of the exclusive lock, 1 load and C atomics; its end 1 load, 1 + C
//!            atomics, and that of the exclusive lock. In a row of writers instead 3 atomics each.
//!            In a lock that lingers: write that of the exclusive lock and 2 loads; read that of
//!            the exclusive lock, 2 loads and 1 atomic.
//! Checked:   `farside check 'rw/default-rw*'`: 1 writer + 2 readers and 2 writers + 1 reader x 1
//!            round exhaustively with `yields` of 0 and rows of 1; 1 writer + 1 reader, one of them
//!            x 2 rounds, and 2 writers with `yields` of 1 and rows of 2; 1 writer + 1 reader with
//!            time limits, and with a death; every branch is reached. 8 and 16 ranks on three
//!            levels, some with time limits, PCT depth 3.

use std::cell::Cell;
use std::marker::PhantomData;

use farside_fabric::{Error, Rank, Result};
use farside_rma::{Context, Team};

use super::counters::{self, Arrival, Counters, Limits, Writers};
use super::frame::{Algorithm, Tally};
use crate::lock;
use crate::lock::frame::{Patience, Site, Standing, Variant};

// What the home shares lies a cache line away from its own counter.
pub(super) const WORDS: usize = 9;
const ROW: usize = 8;
/// The fields of the row: how many writers wait, how many have followed each other since the
/// counters were closed, how many have read alone since the last writer, whether the lock lingers,
/// and whether a reader waits for the counters to be opened.
const WAITING: u64 = 1;
const WAITING_MASK: u64 = (1 << 24) - 1;
const LENGTH: u64 = 1 << 24;
const LENGTH_MASK: u64 = ((1 << 24) - 1) << 24;
const ALONE: u64 = 1 << 48;
const ALONE_MASK: u64 = ((1 << 8) - 1) << 48;
const LINGERS: u64 = 1 << 62;
const READER: u64 = 1 << 63;
const READS_ALONE_MAX: u64 = 200;
/// The largest `t_w`: a row of so many writers fits into its field.
const T_W_MAX: u32 = (1 << 24) - 1;

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
    /// Whether the lock lingered when this rank last looked.
    lingers: Cell<bool>,
    /// Whether this rank reads under the exclusive lock.
    reads_alone: Cell<bool>,
    variant: PhantomData<V>,
}

impl Bounds {
    /// Refuses a row that is longer than its field.
    pub(super) fn check(&self) -> Result<()> {
        if (1..=T_W_MAX).contains(&self.t_w) {
            return Ok(());
        }
        let t_w = self.t_w;
        Err(Error::Misuse(format!("T_W of a reader-writer lock is 1 to {T_W_MAX}, not {t_w}")))
    }
}

impl<V: Variant> Slots<V> {
    pub(super) fn new(site: Site, team: &Team<'_>, bounds: Bounds) -> Result<Slots<V>> {
        let writers = lock::Kind::Default.build(team, None, site.home())?;
        let counters = counters(&site, team.context(), bounds)?;
        Ok(Slots {
            site,
            tally: Tally::default(),
            bounds,
            counters,
            writers,
            row: Cell::new(0),
            lingers: Cell::new(false),
            reads_alone: Cell::new(false),
            variant: PhantomData,
        })
    }

    /// Takes the exclusive lock to write. Returns what the row says, unless the request gave up.
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
            return if self.writers.acquire(context, patience)? {
                context.load(row).map(Some)
            } else {
                Ok(None)
            };
        }
        context.fetch_add(row, WAITING)?;
        V::waits(context, Standing::Queued(0))?;
        self.writers.acquire(context, patience)?;
        context.fetch_add(row, WAITING.wrapping_neg()).map(Some)
    }

    /// As a writer that leaves: whether the counters stay closed, for a writer that waits or
    /// because hardly anybody reads.
    fn keeps_closed(&self, context: &Context) -> Result<bool> {
        let word = self.site.shared(ROW);
        let row = context.load(word)?;
        if row & WAITING_MASK != 0 {
            let goes_on = self.row.get() + 1 < self.bounds.t_w.into();
            if goes_on {
                context.fetch_add(word, LENGTH)?;
            }
            self.tally.note(|tally| if goes_on { &tally.passed_across } else { &tally.yielded });
            return Ok(goes_on);
        }
        let is_rarely_read =
            self.counters.reads::<V>().is_some_and(|reads| reads < self.counters.len() as u64);
        if row & READER != 0 || !(is_rarely_read || row & LINGERS != 0) {
            return Ok(false);
        }
        self.tally.note(|tally| &tally.lingered);
        if row == LINGERS {
            return Ok(true);
        }
        if V::TAKES_AT_ONCE {
            return Ok(context.compare_swap(word, row, LINGERS)? == row);
        }
        context.store(word, LINGERS).map(|()| true)
    }

    /// With the exclusive lock: opens the counters to all readers.
    fn open(&self, context: &Context) -> Result<()> {
        context.fetch_and(self.site.shared(ROW), WAITING_MASK)?;
        self.counters.open::<V>(&self.site, context, &self.tally)
    }

    /// Reads under the exclusive lock, if the lock still lingers then. `Shut` if it does not.
    fn read_alone(&self, context: &Context, patience: Patience) -> Result<Arrival> {
        V::waits(context, Standing::Queued(0))?;
        if !self.writers.acquire(context, patience)? {
            return Ok(Arrival::GaveUp);
        }
        let word = self.site.shared(ROW);
        let row = context.load(word)?;
        let alone = (row & ALONE_MASK) / ALONE;
        let is_read_again = alone + 1 >= (self.counters.len() as u64).min(READS_ALONE_MAX);
        if row & LINGERS != 0 && !is_read_again {
            context.fetch_add(word, ALONE)?;
        } else if row & (LINGERS | LENGTH_MASK) == 0 || row & LINGERS != 0 {
            if row & LINGERS != 0 {
                self.open(context)?;
            }
            self.lingers.set(false);
            self.writers.release(context)?;
            return Ok(Arrival::Shut);
        }
        self.tally.note(|tally| &tally.reads_alone);
        self.reads_alone.set(true);
        Ok(Arrival::Inside)
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
        loop {
            if self.lingers.get() {
                self.lingers.set(context.load(self.site.shared(ROW))? & LINGERS != 0);
            }
            if self.lingers.get() {
                match self.read_alone(context, patience)? {
                    Arrival::Shut => {}
                    arrival => return Ok(arrival == Arrival::Inside),
                }
            }
            let row = Row { site: &self.site, context };
            match self.counters.arrive::<V>(&self.site, context, patience, (&self.tally, &row))? {
                Arrival::Shut => self.lingers.set(true),
                arrival => return Ok(arrival == Arrival::Inside),
            }
        }
    }

    #[inline]
    fn end_read(&self, context: &Context) -> Result<()> {
        let published = self.site.publish::<V>(context);
        if self.reads_alone.replace(false) {
            self.writers.release(context)?;
        } else {
            self.counters.depart::<V>(&self.site, context)?;
        }
        published
    }

    fn write(&self, context: &Context, patience: Patience) -> Result<bool> {
        let Some(row) = self.exclude(context, patience)? else {
            return Ok(false);
        };
        self.row.set((row & LENGTH_MASK) / LENGTH);
        let is_closed = row & (LENGTH_MASK | LINGERS) != 0
            || self.counters.close::<V>(&self.site, context, patience, &self.tally)?;
        if !is_closed {
            self.writers.release(context)?;
        }
        Ok(is_closed)
    }

    fn end_write(&self, context: &Context) -> Result<()> {
        let published = self.site.publish::<V>(context);
        if self.keeps_closed(context)? {
            self.counters.pass_on();
        } else {
            self.open(context)?;
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
        self.counters = counters(&self.site, context, self.bounds)?;
        self.reads_alone.set(false);
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
fn counters(site: &Site, context: &Context, bounds: Bounds) -> Result<Counters> {
    let members = site.members();
    let is_one_node = members.iter().all(|&rank| context.topology().same_node(rank, members[0]));
    let t_dc = bounds.t_dc.or(is_one_node.then_some(1));
    Counters::new(0, context, members, Limits { t_dc, t_r: None, yields: bounds.yields })
}

/// The row, as readers see it.
struct Row<'a> {
    site: &'a Site,
    context: &'a Context,
}

impl Writers for Row<'_> {
    /// Writers close the counters at once, so that readers need not ask for them.
    fn are_there(&self) -> Result<bool> {
        Ok(false)
    }

    fn will_open(&self) -> Result<bool> {
        let word = self.site.shared(ROW);
        let mut row = self.context.load(word)?;
        while row & (LINGERS | READER) == 0 {
            let held = self.context.compare_swap(word, row, row | READER)?;
            if held == row {
                return Ok(true);
            }
            row = held;
        }
        Ok(row & LINGERS == 0)
    }
}

const _: () = assert!(counters::WORDS <= ROW);
