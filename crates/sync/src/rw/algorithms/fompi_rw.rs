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
//! Checked:   `farside check 'rw/fompi-rw*'`: all schedules of the jobs in `ENTRIES`; every branch
//!            is reached; 8 and 16 ranks on three levels, some with time limits, PCT depth 3.

use std::marker::PhantomData;

use farside_fabric::Result;
use farside_rma::Context;

use super::Kind;
use crate::lock::frame::{Right, Standing, TimeLimit, WordPoll, variants};
use crate::lock::registry::{IN_TWO_STEPS, Made, Maker, Promise, Trial};
use crate::rw::frame::{Algorithm, RwWords};
use crate::rw::registry::{Entry, Explored, Many, PAIR, READERS, TWO, WRITERS, without_flush};

const WORDS: usize = 1;
const WORD: usize = 0;
/// A writer is inside.
const WRITER: u64 = 1 << 62;

/// The steps of the lock.
trait Variant: Send + 'static {
    /// Makes what was written under the lock visible before the lock is passed on.
    const FLUSHES: bool = true;
    /// Takes the word as a writer in one atomic step.
    const TAKES_AT_ONCE: bool = true;
}

impl Variant for Right {}

variants! {
    WithoutFlush { Variant { FLUSHES: bool = false } }
    InTwoSteps { Variant { TAKES_AT_ONCE: bool = false } }
}

struct FompiRw<V> {
    backoff: bool,
    variant: PhantomData<V>,
}

pub(super) fn make(maker: &Maker<'_>, &backoff: &bool) -> Result<Made<dyn Algorithm>> {
    build::<Right>(maker, backoff)
}

fn build<V: Variant>(maker: &Maker<'_>, backoff: bool) -> Result<Made<dyn Algorithm>> {
    let algorithm = Box::new(FompiRw::<V> { backoff, variant: PhantomData });
    Ok(Made { words: maker.words(WORDS)?, algorithm })
}

impl<V: Variant> FompiRw<V> {
    fn poll(&self, limit: TimeLimit) -> WordPoll {
        WordPoll { index: WORD, limit, backoff: self.backoff }
    }

    fn release(&self, lock: &RwWords, context: &Context, value: u64) -> Result<()> {
        let published = lock.publish(context, V::FLUSHES);
        context.fetch_add(lock.shared(WORD), value.wrapping_neg())?;
        published
    }
}

impl<V: Variant> Algorithm for FompiRw<V> {
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
        if V::TAKES_AT_ONCE {
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

const PLAIN: fn() -> Kind = || Kind::FompiRw { backoff: false };
const BACKOFF: fn() -> Kind = || Kind::FompiRw { backoff: true };

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "fompi-rw",
        about: "one word that counts readers and has a mark for a writer",
        kind: PLAIN,
        explored: &[
            Explored {
                name: "readers",
                about: "one writer and two readers",
                kind: PLAIN,
                roles: READERS,
                branches: &["reads", "writes", "reads_queued"],
                ..TWO
            },
            Explored {
                name: "writers",
                about: "two writers and a reader",
                kind: PLAIN,
                roles: WRITERS,
                branches: &["reads_queued", "writes_queued"],
                ..TWO
            },
            Explored {
                name: "twice",
                about: "a writer and a reader, twice",
                kind: PLAIN,
                rounds: 2,
                branches: &["reads_queued"],
                ..TWO
            },
        ],
        limited: Some(PLAIN),
        many: Some(Many { kind: PLAIN, branches: &["reads_queued", "writes_queued", "given_up"] }),
        variants: &[
            without_flush(|maker| build::<WithoutFlush>(maker, false)),
            super::Variant {
                name: "in-two-steps",
                about: IN_TWO_STEPS,
                build: |maker| build::<InTwoSteps>(maker, false),
                trial: Some(Trial::caught(PAIR, Promise::Exclusion, "meets")),
            },
        ],
    },
    Entry {
        name: "fompi-rw-backoff",
        about: "the same with pauses that grow",
        kind: BACKOFF,
        explored: &[
            Explored {
                name: "readers",
                about: "one writer and two readers",
                kind: BACKOFF,
                roles: READERS,
                branches: &["reads_queued"],
                ..TWO
            },
            Explored {
                name: "writers",
                about: "two writers and a reader",
                kind: BACKOFF,
                roles: WRITERS,
                branches: &["writes_queued"],
                ..TWO
            },
        ],
        limited: None,
        many: None,
        variants: &[],
    },
];
