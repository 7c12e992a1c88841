//! Spin lock (foMPI-Spin): whoever changes one word from zero to its own number has the lock.
//!
//! Paper:     [RMALOCK16] section 5, the foMPI-Spin that it compares with; Mellor-Crummey and
//!            Scott's test-and-set with exponential back-off.
//! Differs:   after a first attempt that failed, the word is read until it is zero, and only then
//!            changed again: a failed attempt would disturb the holder. With back-off, the pause
//!            doubles with each attempt that failed.
//! State:     1 word at the home rank, and 1 on every rank that nobody writes.
//! Invariant: the word is zero, or one more than the rank of the holder.
//! Ordering:  release flushes first (`a_spin_lock_without_flush_is_caught`); the word is changed in
//!            one step (`a_spin_lock_that_is_taken_in_two_steps_is_caught`).
//! Cost:      acquire 1 atomic, and for each further look 1 load and at most 1 atomic; release 1
//!            signal.
//! Checked:   `farside check 'lock/fompi-spin*'`: 3 ranks x 1 round exhaustively, on one node and
//!            on three; 2 x 2 with time limits; 2 x 1 with a death; 8 and 16 ranks on three levels,
//!            some with time limits, PCT depth 3.

use std::marker::PhantomData;

use farside_fabric::{Rank, Result};
use farside_rma::{Context, Words};

use super::frame::{Algorithm, Patience, Site, Standing, Variant};

pub(super) const WORDS: usize = 2;
const HOLDER: usize = 0;
/// Nobody writes it: a wait for it is a pause.
const PAUSE: usize = 1;
/// The longest pause between two attempts, in turns at the processor.
const PAUSE_MAX: u32 = 256;

pub(super) struct Spin<V> {
    site: Site,
    backoff: bool,
    variant: PhantomData<V>,
}

impl<V: Variant> Spin<V> {
    pub(super) fn new(site: Site, backoff: bool) -> Spin<V> {
        Spin { site, backoff, variant: PhantomData }
    }

    fn attempt(&self, context: &Context) -> Result<bool> {
        let (word, mine) = (self.site.shared(HOLDER), u64::from(context.rank().0) + 1);
        if V::TAKES_AT_ONCE {
            return Ok(context.compare_swap(word, 0, mine)? == 0);
        }
        let is_free = context.load(word)? == 0;
        if is_free {
            context.store(word, mine)?;
        }
        Ok(is_free)
    }
}

impl<V: Variant> Algorithm for Spin<V> {
    fn name(&self) -> &'static str {
        if self.backoff { "fompi-spin-backoff" } else { "fompi-spin" }
    }

    fn site(&self) -> &Site {
        &self.site
    }

    fn acquire(&self, context: &Context, patience: Patience) -> Result<bool> {
        // A release of this rank may still be under way, and nobody but this rank can hurry it.
        context.flush(self.site.home())?;
        if self.attempt(context)? {
            return Ok(true);
        }
        if patience == Patience::Never {
            return Ok(false);
        }
        V::waits(context, Standing::Polling)?;
        self.site.tally.queued(1);
        let mut pause = 1;
        self.site.poll(context, PAUSE, patience, || {
            if context.load(self.site.shared(HOLDER))? != 0 {
                return Ok(false);
            }
            let is_taken = self.attempt(context)?;
            if self.backoff && !is_taken {
                for _ in 0..pause {
                    self.site.relax(context)?;
                }
                pause = (pause * 2).min(PAUSE_MAX);
            }
            Ok(is_taken)
        })
    }

    fn release(&self, context: &Context) -> Result<()> {
        let published = self.site.publish::<V>(context);
        context.signal(self.site.shared(HOLDER), 0)?;
        published
    }

    fn reset(&mut self, _context: &Context, home: Rank, members: &[Rank]) -> Result<()> {
        self.site.change(home, members);
        Ok(())
    }

    fn into_words(self: Box<Self>) -> Words {
        self.site.into_words()
    }
}
