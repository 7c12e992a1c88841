//! The default reader-writer lock of one node: readers count themselves in memory of their own,
//! writers take an exclusive lock and close all counters. `README.md` has the argument.
//!
//! Paper:     none as a whole. The counters are those of [RMALOCK16] section 3.2.1, see `counters`;
//!            writers exclude each other by the default exclusive lock.
//! Differs:   from RMA-RW: every reader has a counter of its own; counters stay closed from one
//!            waiting writer to the next, and linger closed where hardly any rank reads, so that
//!            readers take the exclusive lock, too. A reader passed `yields` times insists.
//! State:     1 word (the *row*) at the home rank, 2 words on every rank, and those of the
//!            exclusive lock.
//! Invariant: a writer is inside only if it has the exclusive lock and all counters are closed and
//!            drained. Counters are open whenever the exclusive lock is free, no writer is
//!            announced in the row and the lock does not linger.
//! Ordering:  release flushes first (rw/default-rw-without-flush); a writer waits for the readers
//!            inside (rw/default-rw-without-drain), and they tell it
//!            (rw/default-rw-without-waking); lingering begins in one step
//!            (rw/default-rw-in-two-steps).
//! Cost:      read 1 atomic, end of read 1 atomic, +1 if a writer waits. Write alone, with C
//!            counters: that of the exclusive lock, 1 load and C atomics; its end 1 load, 1 + C
//!            atomics, and that of the exclusive lock. `README.md` has the other cases.
//! Checked:   `farside check 'rw/default-rw*'`: all schedules of small jobs, with narrow
//!            fields too; every branch is reached; 8 to 256 ranks, PCT depth 3.

use std::cell::Cell;

use farside_fabric::{Error, Rank, Result};
use farside_rma::{Context, Team, or_free};

use super::Kind;
use super::counters::fields::Fields;
use super::counters::widths::{Low, Narrow, Wide};
use super::counters::{self, Arrival, Counters, Limits, Writers};
use crate::lock;
use crate::lock::frame::{Algorithm as Exclusive, LockWords, Standing, TimeLimit};
use crate::lock::registry::{Made, Maker, Widths};
use crate::rw::frame::{Algorithm, RwWords};
use crate::rw::registry::Entry;
use crate::rw::steps;

// What the home shares lies a cache line away from its own counter.
const WORDS: usize = 9;
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
const T_W: u32 = 32;
pub(super) const YIELDS: u32 = 64;

#[derive(Debug, Clone, Copy)]
struct Bounds {
    t_dc: Option<u32>,
    t_w: u32,
    yields: u32,
}

struct Slots<F> {
    bounds: Bounds,
    counters: Counters<F>,
    writers: Made<dyn Exclusive>,
    /// How many writers were before this one in the row.
    row: Cell<u64>,
    /// Whether the lock lingered when this rank last looked.
    lingers: Cell<bool>,
    /// Whether this rank reads under the exclusive lock.
    reads_alone: Cell<bool>,
}

pub(super) fn usual(maker: &Maker<'_>) -> Result<Made<dyn Algorithm>> {
    choose(maker, Bounds { t_dc: None, t_w: T_W, yields: YIELDS })
}

pub(super) fn make(
    maker: &Maker<'_>,
    &t_dc: &Option<u32>,
    &t_w: &u32,
    &yields: &u32,
) -> Result<Made<dyn Algorithm>> {
    choose(maker, Bounds { t_dc, t_w, yields })
}

fn choose(maker: &Maker<'_>, bounds: Bounds) -> Result<Made<dyn Algorithm>> {
    if maker.context().omits(steps::COUNT_ON_TOP) {
        return build::<Low>(maker, bounds);
    }
    match maker.widths {
        Widths::Usual => build::<Wide>(maker, bounds),
        Widths::Narrow => build::<Narrow>(maker, bounds),
    }
}

fn build<F: Fields>(maker: &Maker<'_>, bounds: Bounds) -> Result<Made<dyn Algorithm>> {
    // A row that is longer than its field is refused.
    if !(1..=T_W_MAX).contains(&bounds.t_w) {
        let t_w = bounds.t_w;
        return Err(Error::InvalidArgument(format!(
            "T_W of a reader-writer lock is 1 to {T_W_MAX}, not {t_w}"
        )));
    }
    counters::check_ranks(maker.context().size())?;
    let kind = lock::Kind::Default.resolve(maker.team);
    let (words, writers) = or_free(
        maker.words(WORDS)?,
        |words| words.into_words().free(maker.team),
        |_| kind.build(Maker::new(maker.team, maker.home)),
    )?;
    let counters = counters(&words, maker.context(), bounds)?;
    let algorithm = Box::new(Slots::<F> {
        bounds,
        counters,
        writers,
        row: Cell::new(0),
        lingers: Cell::new(false),
        reads_alone: Cell::new(false),
    });
    Ok(Made { words, algorithm })
}

impl<F: Fields> Slots<F> {
    fn acquire_writers(&self, context: &Context, limit: TimeLimit) -> Result<bool> {
        self.writers.algorithm.request(&self.writers.words, context, limit)
    }

    fn release_writers(&self, context: &Context) -> Result<()> {
        self.writers.algorithm.release(&self.writers.words, context)
    }

    /// Takes the exclusive lock to write. Returns what the row says, unless the request gave up.
    fn exclude(&self, lock: &RwWords, context: &Context, limit: TimeLimit) -> Result<Option<u64>> {
        let row = lock.shared(ROW);
        if self.acquire_writers(context, TimeLimit::DoNotWait)? {
            return context.load(row).map(Some);
        }
        if limit == TimeLimit::DoNotWait {
            return Ok(None);
        }
        lock.statistics.note(|counts| &counts.writes_queued);
        // A writer that may give up must not keep the counters closed.
        if limit.may_give_up() {
            return if self.acquire_writers(context, limit)? {
                context.load(row).map(Some)
            } else {
                Ok(None)
            };
        }
        context.fetch_add(row, WAITING)?;
        lock.waits(context, Standing::Queued(0))?;
        self.acquire_writers(context, limit)?;
        context.fetch_add(row, WAITING.wrapping_neg()).map(Some)
    }

    /// As a writer that leaves: whether the counters stay closed, for a writer that waits or
    /// because hardly any rank reads.
    fn keeps_closed(&self, lock: &RwWords, context: &Context) -> Result<bool> {
        let word = lock.shared(ROW);
        let row = context.load(word)?;
        if row & WAITING_MASK != 0 {
            let goes_on = self.row.get() + 1 < self.bounds.t_w.into();
            if goes_on {
                context.fetch_add(word, LENGTH)?;
            }
            lock.statistics.note(
                |counts| {
                    if goes_on { &counts.passed_across } else { &counts.yielded }
                },
            );
            return Ok(goes_on);
        }
        let is_rarely_read =
            self.counters.reads().is_some_and(|reads| reads < self.counters.len() as u64);
        if row & READER != 0 || !(is_rarely_read || row & LINGERS != 0) {
            return Ok(false);
        }
        lock.statistics.note(|counts| &counts.lingered);
        if row == LINGERS {
            return Ok(true);
        }
        if context.omits(steps::LINGER_AT_ONCE) {
            return context.store(word, LINGERS).map(|()| true);
        }
        Ok(context.compare_swap(word, row, LINGERS)? == row)
    }

    /// With the exclusive lock: opens the counters to all readers.
    fn open(&self, lock: &RwWords, context: &Context) -> Result<()> {
        context.fetch_and(lock.shared(ROW), WAITING_MASK)?;
        self.counters.open(lock, context)
    }

    /// Reads under the exclusive lock, if the lock still lingers then. `Shut` if it does not.
    fn read_alone(&self, lock: &RwWords, context: &Context, limit: TimeLimit) -> Result<Arrival> {
        lock.waits(context, Standing::Queued(0))?;
        if !self.acquire_writers(context, limit)? {
            return Ok(Arrival::GaveUp);
        }
        let word = lock.shared(ROW);
        let row = context.load(word)?;
        let alone = (row & ALONE_MASK) / ALONE;
        let is_read_again = alone + 1 >= (self.counters.len() as u64).min(READS_ALONE_MAX);
        if row & LINGERS != 0 && !is_read_again {
            context.fetch_add(word, ALONE)?;
        } else if row & (LINGERS | LENGTH_MASK) == 0 || row & LINGERS != 0 {
            if row & LINGERS != 0 {
                self.open(lock, context)?;
            }
            self.lingers.set(false);
            self.release_writers(context)?;
            return Ok(Arrival::Shut);
        }
        lock.statistics.note(|counts| &counts.reads_alone);
        self.reads_alone.set(true);
        Ok(Arrival::Inside)
    }
}

impl<F: Fields> Algorithm for Slots<F> {
    fn attempt_read(&self, lock: &RwWords, context: &Context) -> Result<bool> {
        self.read(lock, context, TimeLimit::DoNotWait)
    }

    fn attempt_write(&self, lock: &RwWords, context: &Context) -> Result<bool> {
        self.write(lock, context, TimeLimit::DoNotWait)
    }

    #[inline]
    fn read(&self, lock: &RwWords, context: &Context, limit: TimeLimit) -> Result<bool> {
        loop {
            if self.lingers.get() {
                self.lingers.set(context.load(lock.shared(ROW))? & LINGERS != 0);
            }
            if self.lingers.get() {
                match self.read_alone(lock, context, limit)? {
                    Arrival::Shut => {}
                    arrival => return Ok(arrival == Arrival::Inside),
                }
            }
            let row = Row { lock, context };
            match self.counters.reader_acquire(lock, context, limit, &row)? {
                Arrival::Shut => self.lingers.set(true),
                arrival => return Ok(arrival == Arrival::Inside),
            }
        }
    }

    #[inline]
    fn end_read(&self, lock: &RwWords, context: &Context) -> Result<()> {
        let published = lock.publish(context);
        if self.reads_alone.replace(false) {
            self.release_writers(context)?;
        } else {
            self.counters.reader_release(lock, context)?;
        }
        published
    }

    fn write(&self, lock: &RwWords, context: &Context, limit: TimeLimit) -> Result<bool> {
        let Some(row) = self.exclude(lock, context, limit)? else {
            return Ok(false);
        };
        self.row.set((row & LENGTH_MASK) / LENGTH);
        let is_closed =
            row & (LENGTH_MASK | LINGERS) != 0 || self.counters.close(lock, context, limit)?;
        if !is_closed {
            self.release_writers(context)?;
        }
        Ok(is_closed)
    }

    fn end_write(&self, lock: &RwWords, context: &Context) -> Result<()> {
        let published = lock.publish(context);
        if self.keeps_closed(lock, context)? {
            self.counters.pass_on();
        } else {
            self.open(lock, context)?;
        }
        self.release_writers(context)?;
        published
    }

    fn writers(&mut self) -> Option<&mut LockWords> {
        Some(&mut self.writers.words)
    }

    fn reset(&mut self, lock: &RwWords, context: &Context) -> Result<()> {
        let Made { words, algorithm } = &mut self.writers;
        algorithm.reset(words, context)?;
        self.counters = counters(lock, context, self.bounds)?;
        self.reads_alone.set(false);
        Ok(())
    }

    fn can_be_home(&self, context: &Context, rank: Rank) -> bool {
        self.writers.algorithm.can_be_home(context, rank)
    }

    fn free(self: Box<Self>, team: &Team<'_>) -> Result<()> {
        self.writers.words.into_words().free(team)
    }
}

/// Makes a counter for each member where they share memory, else one for each node.
fn counters<F: Fields>(lock: &LockWords, context: &Context, bounds: Bounds) -> Result<Counters<F>> {
    let members = lock.members();
    let is_one_node = members.iter().all(|&rank| context.topology().same_node(rank, members[0]));
    let t_dc = bounds.t_dc.or(is_one_node.then_some(1));
    Counters::new(0, context, members, Limits { t_dc, t_r: None, yields: bounds.yields })
}

/// The row, as readers see it.
struct Row<'a> {
    lock: &'a RwWords,
    context: &'a Context,
}

impl Writers for Row<'_> {
    /// Writers close the counters at once, so that readers need not ask for them.
    fn are_there(&self) -> Result<bool> {
        Ok(false)
    }

    fn will_open(&self) -> Result<bool> {
        let word = self.lock.shared(ROW);
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

pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "default-rw",
    about: "readers count themselves in memory of their own, writers take an exclusive lock",
    kind: || Kind::Default,
}];
