//! Reader-writer lock on one word (foMPI-RW): readers count themselves in it, a writer marks it,
//! and all who wait poll it.
//!
//! Paper:     [RMALOCK16] section 5, the foMPI-RW that it compares with; Gerstenberger, Besta and
//!            Hoefler (SC 2013), section 2.3, the word of one target.
//! Differs:   who waits reads the word until it can succeed, and only then changes it again. With
//!            back-off, the pause doubles with each attempt that failed.
//! State:     1 word at the home rank, and 1 on every rank that nobody writes.
//! Invariant: the word is the number of readers inside or about to withdraw, and the mark while a
//!            writer is inside. Nothing bounds how often a writer is passed by readers.
//! Ordering:  release flushes first (`a_word_for_readers_without_flush_is_caught`); a writer takes
//!            the word in one step (`a_word_for_readers_that_is_taken_in_two_steps_is_caught`).
//! Cost:      read 1 atomic, write 1 atomic; for each further look 1 load and at most 2 atomics;
//!            release 1 atomic.
//! Checked:   `farside check 'rw/fompi-rw*'`: 1 writer + 2 readers and 2 writers + 1 reader x 1
//!            round, 1 writer + 1 reader x 2 rounds exhaustively, and x 1 with time limits and with
//!            a death; every branch is reached; 8 and 16 ranks on three levels, some with time
//!            limits, PCT depth 3.

use std::marker::PhantomData;

use farside_fabric::{Rank, Result};
use farside_rma::{Context, Team};

use super::frame::{Algorithm, Tally};
use crate::lock::frame::{Patience, Site, Standing, Variant};

pub(super) const WORDS: usize = 2;
const WORD: usize = 0;
/// Nobody writes it: a wait for it is a pause.
const PAUSE: usize = 1;
/// A writer is inside.
const WRITER: u64 = 1 << 62;
/// The longest pause between two attempts, in turns at the processor.
const PAUSE_MAX: u32 = 256;

pub(super) struct FompiRw<V> {
    site: Site,
    tally: Tally,
    backoff: bool,
    variant: PhantomData<V>,
}

impl<V: Variant> FompiRw<V> {
    pub(super) fn new(site: Site, backoff: bool) -> FompiRw<V> {
        FompiRw { site, tally: Tally::default(), backoff, variant: PhantomData }
    }

    fn enter(&self, context: &Context) -> Result<bool> {
        let word = self.site.shared(WORD);
        let is_open = context.fetch_add(word, 1)? & WRITER == 0;
        if !is_open {
            context.fetch_add(word, 1u64.wrapping_neg())?;
        }
        Ok(is_open)
    }

    fn take(&self, context: &Context) -> Result<bool> {
        let word = self.site.shared(WORD);
        if V::TAKES_AT_ONCE {
            return Ok(context.compare_swap(word, 0, WRITER)? == 0);
        }
        let is_free = context.load(word)? == 0;
        if is_free {
            context.fetch_add(word, WRITER)?;
        }
        Ok(is_free)
    }

    /// Looks until an attempt is worth while, and attempts.
    fn poll(
        &self,
        context: &Context,
        patience: Patience,
        is_free: impl Fn(u64) -> bool,
        attempt: impl Fn() -> Result<bool>,
    ) -> Result<bool> {
        let mut pause = 1;
        self.site.poll(context, PAUSE, patience, || {
            if !is_free(context.load(self.site.shared(WORD))?) {
                return Ok(false);
            }
            let is_taken = attempt()?;
            if self.backoff && !is_taken {
                // Whoever has gone does not matter before the next look.
                (0..pause).try_for_each(|_| self.site.relax(context)).unwrap_or_default();
                pause = (pause * 2).min(PAUSE_MAX);
            }
            Ok(is_taken)
        })
    }

    fn release(&self, context: &Context, value: u64) -> Result<()> {
        let published = self.site.publish::<V>(context);
        context.fetch_add(self.site.shared(WORD), value.wrapping_neg())?;
        published
    }
}

impl<V: Variant> Algorithm for FompiRw<V> {
    fn name(&self) -> &'static str {
        if self.backoff { "fompi-rw-backoff" } else { "fompi-rw" }
    }

    fn site(&self) -> &Site {
        &self.site
    }

    fn tally(&self) -> &Tally {
        &self.tally
    }

    fn read(&self, context: &Context, patience: Patience) -> Result<bool> {
        if self.enter(context)? {
            return Ok(true);
        }
        if patience == Patience::Never {
            return Ok(false);
        }
        self.tally.note(|tally| &tally.reads_queued);
        V::waits(context, Standing::Polling)?;
        self.poll(context, patience, |word| word & WRITER == 0, || self.enter(context))
    }

    fn end_read(&self, context: &Context) -> Result<()> {
        self.release(context, 1)
    }

    fn write(&self, context: &Context, patience: Patience) -> Result<bool> {
        if self.take(context)? {
            return Ok(true);
        }
        if patience == Patience::Never {
            return Ok(false);
        }
        self.tally.note(|tally| &tally.writes_queued);
        V::waits(context, Standing::Polling)?;
        self.poll(context, patience, |word| word == 0, || self.take(context))
    }

    fn end_write(&self, context: &Context) -> Result<()> {
        self.release(context, WRITER)
    }

    fn reset(&mut self, _context: &Context, home: Rank, members: &[Rank]) -> Result<()> {
        self.site.change(home, members);
        Ok(())
    }

    fn free(self: Box<Self>, team: &Team<'_>) -> Result<()> {
        self.site.into_words().free(team)
    }
}
