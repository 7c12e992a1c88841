//! RMA-RW as it is printed, for one level of the machine: two words for each counter, a bias of the
//! arrivals that shuts readers out, and readers that back off.
//!
//! Paper:     [RMALOCK16] listings 6 to 10, with N = 1, T_DC = 1.
//! Differs:   listing 9 never sets `done`; it is set where the text says that a reader enters.
//!            Ranks begin at 0, so that a queue holds rank + 1.
//! State:     ARRIVE, DEPART, NEXT, STATUS on every rank, TAIL on rank 0.
//! Invariant: that of readers and writers, which does not hold: a writer shuts readers out and goes
//!            in without waiting for those that are inside (`example/rma-rw-printed`).
//! Ordering:  a flush after every operation, as printed.
//! Cost:      a writer 2 P operations on counters, a reader 2.
//! Checked:   2 ranks, a writer and a reader, exhaustively.

use farside::sim::program;
use farside::{Place, Rank, Result, Words, World};

use crate::check::{Setup, Subject};
use crate::property::ReadersWriters;

const ARRIVE: usize = 0;
const DEPART: usize = 1;
const NEXT: usize = 2;
const STATUS: usize = 3;
const TAIL: usize = 4;
const WORDS: usize = 5;

/// What a status says, beside the number of acquisitions in a row.
const WAIT: u64 = u64::MAX;
const MODE_CHANGE: u64 = u64::MAX - 1;
const ACQUIRE_START: u64 = 0;

/// The bias of the arrivals while a writer has the lock.
const WRITE: i64 = i64::MAX / 2;

/// A rank's side of the lock.
struct Printed<'a> {
    world: &'a World,
    words: &'a Words,
    /// T_R and T_W.
    t_r: i64,
    t_w: u64,
}

impl Printed<'_> {
    fn at(&self, rank: Rank, word: usize) -> Place<'_, u64> {
        self.words.at(rank, word)
    }

    fn own(&self, word: usize) -> Place<'_, u64> {
        self.at(self.world.rank(), word)
    }

    fn put(&self, value: u64, rank: Rank, word: usize) -> Result<()> {
        self.world.signal(self.at(rank, word), value)?;
        self.world.flush(rank)
    }

    fn accumulate(&self, value: i64, rank: Rank, word: usize) -> Result<()> {
        self.world.fetch_add(self.at(rank, word), value as u64).map(drop)
    }

    /// This rank in a queue, where 0 is none.
    fn mark(&self) -> u64 {
        u64::from(self.world.rank().0) + 1
    }

    fn rank_of(mark: u64) -> Rank {
        Rank(mark as u32 - 1)
    }

    /// [RMALOCK16 listing 6, lines 1 to 7]
    fn set_counters_to_write(&self) -> Result<()> {
        self.world.ranks().try_for_each(|rank| self.accumulate(WRITE, rank, ARRIVE))
    }

    /// [RMALOCK16 listing 6, lines 9 to 24]
    fn reset_counter(&self, rank: Rank) -> Result<()> {
        let arrived = self.world.load(self.at(rank, ARRIVE))? as i64;
        let departed = self.world.load(self.at(rank, DEPART))? as i64;
        let bias = if arrived >= WRITE { WRITE } else { 0 };
        self.accumulate(-departed - bias, rank, ARRIVE)?;
        self.accumulate(-departed, rank, DEPART)
    }

    /// [RMALOCK16 listing 7]
    fn acquire_to_write(&self) -> Result<()> {
        let me = self.world.rank();
        self.put(0, me, NEXT)?;
        self.put(WAIT, me, STATUS)?;
        let pred = self.world.swap(self.at(Rank(0), TAIL), self.mark())?;
        if pred != 0 {
            self.put(self.mark(), Self::rank_of(pred), NEXT)?;
            let status = self.world.wait(self.own(STATUS), |status| status != WAIT)?;
            if status != MODE_CHANGE {
                return Ok(());
            }
        }
        self.set_counters_to_write()?;
        self.put(ACQUIRE_START, me, STATUS)
    }

    /// [RMALOCK16 listing 8]
    fn release_by_writer(&self) -> Result<()> {
        let reset_counters = || self.world.ranks().try_for_each(|rank| self.reset_counter(rank));
        let mut is_reset = false;
        let mut next_status = self.world.load(self.own(STATUS))? + 1;
        if next_status == self.t_w {
            reset_counters()?;
            (next_status, is_reset) = (MODE_CHANGE, true);
        }
        let mut succ = self.world.load(self.own(NEXT))?;
        if succ == 0 {
            if !is_reset {
                reset_counters()?;
                next_status = MODE_CHANGE;
            }
            let tail = self.at(Rank(0), TAIL);
            if self.world.compare_swap(tail, self.mark(), 0)? == self.mark() {
                return Ok(());
            }
            succ = self.world.wait(self.own(NEXT), |succ| succ != 0)?;
        }
        self.put(next_status, Self::rank_of(succ), STATUS)
    }

    /// [RMALOCK16 listing 9]
    fn acquire_to_read(&self) -> Result<()> {
        let (me, mut barrier) = (self.world.rank(), false);
        loop {
            if barrier {
                self.world.wait(self.own(ARRIVE), |arrived: u64| (arrived as i64) < self.t_r)?;
            }
            let status = self.world.fetch_add(self.own(ARRIVE), 1)? as i64;
            if status < self.t_r {
                return Ok(());
            }
            barrier = true;
            if status == self.t_r && self.world.load(self.at(Rank(0), TAIL))? == 0 {
                self.reset_counter(me)?;
                barrier = false;
            }
            self.accumulate(-1, me, ARRIVE)?;
        }
    }

    /// [RMALOCK16 listing 10]
    fn release_by_reader(&self) -> Result<()> {
        self.accumulate(1, self.world.rank(), DEPART)
    }
}

/// The first rank writes and the others read, under the lock as it is printed.
pub(super) fn visits(setup: &Setup) -> Subject {
    let (rounds, library) = (setup.rounds, ReadersWriters::new(1));
    let program = program(
        move |world| Ok((world.words(WORDS)?, library.prepare(world)?)),
        move |world, (words, library)| {
            let lock = Printed { world, words: &words, t_r: 2, t_w: 2 };
            for _ in 0..rounds {
                if world.rank() == Rank(0) {
                    lock.acquire_to_write()?;
                    library.write(world)?;
                    world.flush_all()?;
                    lock.release_by_writer()?;
                } else {
                    lock.acquire_to_read()?;
                    library.read(world)?;
                    lock.release_by_reader()?;
                }
            }
            Ok(())
        },
    );
    Subject { program, in_the_end: Box::new(|| Ok(())) }
}
