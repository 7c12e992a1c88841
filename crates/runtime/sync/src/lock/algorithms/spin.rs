//! Spin lock (foMPI-Spin): a rank that changes one word from zero to its own number has the lock.
//!
//! Paper:     [RMALOCK16] section 5, the foMPI-Spin that it compares with; Mellor-Crummey and
//!            Scott's test-and-set with exponential back-off.
//! Differs:   after a failed attempt the word is read until it is zero, and only then changed: a
//!            failed attempt disturbs the holder. With back-off, failed attempts double the pause.
//! State:     1 word at the home rank.
//! Invariant: the word is zero, or one more than the rank of the holder.
//! Ordering:  release flushes first (lock/fompi-spin-without-flush); the word is changed in one
//!            step (lock/fompi-spin-in-two-steps).
//! Cost:      acquire 1 atomic, and for each further look 1 load and at most 1 atomic; release 1
//!            signal.
//! Checked:   `farside check 'lock/fompi-spin*'`: all schedules of small jobs; 8 and 16
//!            ranks on three levels, some with time limits, PCT depth 3.

use std::time::Duration;

use farside_fabric::Result;
use farside_rma::Context;

use super::Kind;
use crate::lock::frame::{Algorithm, LockWords, Standing, TimeLimit, WordPoll};
use crate::lock::registry::{Entry, Made, Maker};
use crate::lock::steps;

const WORDS: usize = 1;
const HOLDER: usize = 0;

struct Spin {
    backoff: bool,
}

pub(super) fn make(maker: &Maker<'_>, &backoff: &bool) -> Result<Made<dyn Algorithm>> {
    Ok(Made { words: maker.words(WORDS)?, algorithm: Box::new(Spin { backoff }) })
}

impl Spin {
    fn take(&self, lock: &LockWords, context: &Context) -> Result<bool> {
        let (word, mine) = (lock.shared(HOLDER), u64::from(context.rank().0) + 1);
        if !context.omits(steps::TAKE_AT_ONCE) {
            return Ok(context.compare_swap(word, 0, mine)? == 0);
        }
        let is_free = context.load(word)? == 0;
        if is_free {
            context.store(word, mine)?;
        }
        Ok(is_free)
    }

    fn spin(&self, lock: &LockWords, context: &Context, limit: TimeLimit) -> Result<bool> {
        if self.attempt(lock, context)? {
            return Ok(true);
        }
        lock.waits(context, Standing::Polling)?;
        lock.statistics.queued(1);
        let poll = WordPoll { index: HOLDER, limit, backoff: self.backoff };
        lock.poll_word(context, poll, |word| word == 0, || self.take(lock, context))
    }
}

impl Algorithm for Spin {
    fn attempt(&self, lock: &LockWords, context: &Context) -> Result<bool> {
        // A release of this rank may still be under way, and only this rank can hurry it.
        context.flush(lock.home())?;
        self.take(lock, context)
    }

    fn acquire(&self, lock: &LockWords, context: &Context) -> Result<()> {
        self.spin(lock, context, TimeLimit::Unlimited).map(drop)
    }

    fn acquire_within(&self, lock: &LockWords, context: &Context, time: Duration) -> Result<bool> {
        self.spin(lock, context, TimeLimit::AtMost(time))
    }

    fn release(&self, lock: &LockWords, context: &Context) -> Result<()> {
        let published = lock.publish(context);
        context.signal(lock.shared(HOLDER), 0)?;
        published
    }
}

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "fompi-spin",
        about: "one word that is changed from zero",
        kind: || Kind::Spin { backoff: false },
        needs_agent: false,
    },
    Entry {
        name: "fompi-spin-backoff",
        about: "the same with pauses that grow",
        kind: || Kind::Spin { backoff: true },
        needs_agent: false,
    },
];
