//! Reader-writer lock on one word (foMPI-RW): readers count themselves in it, a writer marks it,
//! and all waiting ranks poll it.
//!
//! Paper:     [RMALOCK16] section 5, the foMPI-RW that it compares with; Gerstenberger, Besta and
//!            Hoefler (SC 2013), section 2.3, the word of one target.
//! Differs:   a waiting rank reads the word until it can succeed, and only then changes it again.
//!            With back-off, the pause doubles with each attempt that failed.
//! State:     1 word at the home rank.
//! Invariant: the word is the number of readers inside or about to withdraw, and the mark while a
//!            writer is inside. Nothing bounds how often a writer is passed by readers.
//! Ordering:  release flushes first (rw/fompi-rw-without-flush); a writer takes the word in one
//!            step (rw/fompi-rw-in-two-steps).
//! Cost:      read 1 atomic, write 1 atomic; for each further look 1 load and at most 2 atomics;
//!            release 1 atomic.
//! Checked:   `farside check 'rw/fompi-rw*'`: all schedules of small jobs; every branch
//!            is reached; 8 and 16 ranks on three levels, some with time limits, PCT depth 3.

use farside_fabric::Result;
use farside_rma::Context;

use super::Kind;
use crate::lock::frame::{Standing, TimeLimit, WordPoll};
use crate::lock::registry::{Made, Maker};
use crate::rw::frame::{Algorithm, RwWords};
use crate::rw::registry::Entry;
use crate::rw::steps;

const WORDS: usize = 1;
const WORD: usize = 0;
/// A writer is inside.
const WRITER: u64 = 1 << 62;

struct FompiRw {
    backoff: bool,
}

pub(super) fn make(maker: &Maker<'_>, &backoff: &bool) -> Result<Made<dyn Algorithm>> {
    Ok(Made { words: maker.words(WORDS)?, algorithm: Box::new(FompiRw { backoff }) })
}

impl FompiRw {
    fn poll(&self, limit: TimeLimit) -> WordPoll {
        WordPoll { index: WORD, limit, backoff: self.backoff }
    }

    fn release(&self, lock: &RwWords, context: &Context, value: u64) -> Result<()> {
        let published = lock.publish(context);
        context.fetch_add(lock.shared(WORD), value.wrapping_neg())?;
        published
    }
}

impl Algorithm for FompiRw {
    fn attempt_read(&self, lock: &RwWords, context: &Context) -> Result<bool> {
        let word = lock.shared(WORD);
        let is_open = context.fetch_add(word, 1)? & WRITER == 0;
        if !is_open {
            context.fetch_add(word, 1u64.wrapping_neg())?;
        }
        Ok(is_open)
    }

    fn read(&self, lock: &RwWords, context: &Context, limit: TimeLimit) -> Result<bool> {
        if self.attempt_read(lock, context)? {
            return Ok(true);
        }
        if limit == TimeLimit::DoNotWait {
            return Ok(false);
        }
        lock.statistics.note(|counts| &counts.reads_queued);
        lock.waits(context, Standing::Polling)?;
        let enter = || self.attempt_read(lock, context);
        lock.poll_word(context, self.poll(limit), |word| word & WRITER == 0, enter)
    }

    fn end_read(&self, lock: &RwWords, context: &Context) -> Result<()> {
        self.release(lock, context, 1)
    }

    fn attempt_write(&self, lock: &RwWords, context: &Context) -> Result<bool> {
        let word = lock.shared(WORD);
        if !context.omits(steps::TAKE_AT_ONCE) {
            return Ok(context.compare_swap(word, 0, WRITER)? == 0);
        }
        let is_free = context.load(word)? == 0;
        if is_free {
            context.fetch_add(word, WRITER)?;
        }
        Ok(is_free)
    }

    fn write(&self, lock: &RwWords, context: &Context, limit: TimeLimit) -> Result<bool> {
        if self.attempt_write(lock, context)? {
            return Ok(true);
        }
        if limit == TimeLimit::DoNotWait {
            return Ok(false);
        }
        lock.statistics.note(|counts| &counts.writes_queued);
        lock.waits(context, Standing::Polling)?;
        let take = || self.attempt_write(lock, context);
        lock.poll_word(context, self.poll(limit), |word| word == 0, take)
    }

    fn end_write(&self, lock: &RwWords, context: &Context) -> Result<()> {
        self.release(lock, context, WRITER)
    }
}

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "fompi-rw",
        about: "one word that counts readers and has a mark for a writer",
        kind: || Kind::FompiRw { backoff: false },
    },
    Entry {
        name: "fompi-rw-backoff",
        about: "the same with pauses that grow",
        kind: || Kind::FompiRw { backoff: true },
    },
];
