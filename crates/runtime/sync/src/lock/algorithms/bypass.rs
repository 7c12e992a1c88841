//! The default lock: one word that running ranks may take ahead of the queue, a bounded number of
//! times in a row.
//!
//! Paper:     none as a whole; the queue is that of [ARMCI03] section 3.2.2. Competitive hand-over
//!            with a bound is known from operating systems.
//! Differs:   the word is left free for a rank that runs; only the head of the queue competes for
//!            it, and it is handed to the head after `bound` bypasses. See `README.md`.
//! State:     1 word (holder, head, bypasses, whether the head is awake) and the queue's tail at
//!            the home rank; 3 words on every rank.
//! Invariant: at most one holder and one head; a head is bypassed at most `bound` times once it is
//!            in the word, so a rank with k ahead of it waits for (k + 1) x (`bound` + 1) others.
//! Ordering:  release flushes first (lock/default-without-flush); a release that leaves the word
//!            free wakes a parked head (lock/default-without-waking); the bound is kept
//!            (lock/default-without-bound).
//! Cost:      alone: acquire 1 atomic, release 1 atomic. Queued: acquire 1 atomic more for each
//!            change of the word, and the queue's cost; release +1 signal if the head is parked.
//! Checked:   `farside check 'lock/default*'`: all schedules of small jobs, with several
//!            bounds; the bound itself; 8 to 256 ranks, some with time limits, PCT depth 3.

use std::cell::Cell;
use std::time::Duration;

use farside_fabric::{Error, Rank, Result};
use farside_rma::Context;

use super::Kind;
use super::d_mcs::{self, Entry, Queue};
use crate::lock::frame::{Algorithm, Crowding, LockWords, Standing, TimeLimit};
use crate::lock::registry::{Entry as Row, Made, Maker};
use crate::lock::steps;

// The shared word and the words that their owner waits on lie a cache line apart, and so do the
// locks: with the frame's word this is a multiple of a line.
const WORDS: usize = 15;
const WORD: usize = 0;
const QUEUE: usize = 8;
/// A parked head waits on it.
const WAKE: usize = QUEUE + d_mcs::WORDS;

/// What a parked head is told.
const LOOK: u64 = 1;
const GRANT: u64 = 2;

/// Passed through the queue to a head that is in the word already, as a parked one.
const REGISTERED: u64 = 1;

/// The fields of the shared word: one more than the holder's rank, one more than the head's, how
/// often the head was bypassed, whether it is awake.
const RANK_BITS: u32 = 24;
const RANK_MASK: u64 = (1 << RANK_BITS) - 1;
const HEAD: u32 = RANK_BITS;
const BYPASSES: u32 = 2 * RANK_BITS;
const BYPASSES_MASK: u64 = 0x7fff;
const AWAKE: u64 = 1 << 63;

/// How often a head is bypassed before its turn: where each rank has a processor, and where a
/// hand-over takes a switch of processes.
const BATCH: u32 = 64;
const BATCH_CROWDED: u32 = 256;
/// The usual bound on bypass: some milliseconds, after which a processor that another program has
/// is usually given back.
const BOUND: u32 = 32_000;
const BOUND_MAX: u32 = BYPASSES_MASK as u32 - 1;
/// How often a head that is near looks at the word before it parks.
const POLLS: u32 = 200;
/// How often others look at the word at the head's turn before they go ahead. The head looks as
/// often in the same time, if it runs.
const WINDOW: u32 = 8;
/// Turns at the processor between two looks, where each rank has a processor: a look takes the word
/// from its holder's cache.
const GAP: u32 = 32;

#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// How often a head is bypassed before its turn; if it is not said, what the machine suggests.
    batch: Option<u32>,
    /// How often a head is bypassed at most.
    bound: u32,
    /// How often a head that is near looks before it parks.
    polls: u32,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { batch: None, bound: BOUND, polls: POLLS }
    }
}

struct Bypass {
    queue: Queue,
    bounds: Bounds,
    batch: u64,
    bound: u64,
    polls: u32,
    gap: u32,
    /// The word as this rank left it when it took the lock.
    held: Cell<u64>,
}

pub(super) fn usual(maker: &Maker<'_>) -> Result<Made<dyn Algorithm>> {
    build(maker, Bounds::default())
}

pub(super) fn make(
    maker: &Maker<'_>,
    &batch: &u32,
    &bound: &u32,
    &polls: &u32,
) -> Result<Made<dyn Algorithm>> {
    build(maker, Bounds { batch: Some(batch), bound, polls })
}

fn build(maker: &Maker<'_>, bounds: Bounds) -> Result<Made<dyn Algorithm>> {
    let limit = RANK_MASK - 1;
    if let Some(rank) = maker.team.members().iter().find(|rank| u64::from(rank.0) > limit) {
        let value = rank.0.into();
        let what = "rank of a member of a default lock (use another kind of lock)";
        return Err(Error::TooMuch { what, value, limit });
    }
    let words = maker.words(WORDS)?;
    let mut algorithm = Box::new(Bypass {
        queue: Queue::new(QUEUE, maker.home),
        bounds,
        batch: 1,
        bound: bounds.bound.min(BOUND_MAX).into(),
        polls: 0,
        gap: 1,
        held: Cell::new(0),
    });
    algorithm.arrange(&words, maker.context());
    Ok(Made { words, algorithm })
}

impl Bypass {
    fn arrange(&mut self, lock: &LockWords, context: &Context) {
        let is_crowded = lock.crowding(context) == Crowding::Crowded;
        self.gap = if is_crowded { 1 } else { GAP };
        let usual = if is_crowded { BATCH_CROWDED } else { BATCH };
        self.batch = self.bounds.batch.unwrap_or(usual).max(1).into();
        self.queue = Queue::new(QUEUE, lock.home()).parking(is_crowded);
        let is_near = context.topology().same_node(lock.home(), context.rank());
        self.polls = if is_near { self.bounds.polls } else { 0 };
    }

    /// Changes the word if it is as expected; otherwise says how it is.
    #[inline]
    fn change(
        &self,
        lock: &LockWords,
        context: &Context,
        from: u64,
        to: u64,
    ) -> Result<Option<u64>> {
        let seen = context.compare_swap(lock.shared(WORD), from, to)?;
        Ok((seen != from).then_some(seen))
    }

    /// Takes a free word ahead of its head, unless that was done too often.
    fn bypass(
        &self,
        lock: &LockWords,
        context: &Context,
        mut word: u64,
        limit: TimeLimit,
    ) -> Result<bool> {
        while holder(word) == 0 && !self.is_bound_reached(context, word) {
            if self.is_turn(word) {
                if limit == TimeLimit::DoNotWait {
                    return Ok(false);
                }
                if let Some(seen) = self.offer(lock, context, word)? {
                    word = seen;
                    continue;
                }
            }
            // A word that has become free meanwhile may have no head: then none is bypassed.
            let is_ahead = word >> HEAD != 0;
            let count = (bypasses(word) + u64::from(is_ahead)).min(BYPASSES_MASK);
            let taken =
                word & !(BYPASSES_MASK << BYPASSES) | (count << BYPASSES) | name(context.rank());
            match self.change(lock, context, word, taken)? {
                Some(seen) => word = seen,
                None => {
                    self.held.set(taken);
                    lock.statistics.note(|counts| {
                        counts.bypasses += u64::from(is_ahead);
                        counts.longest_bypass = counts.longest_bypass.max(count);
                    });
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    #[inline]
    fn is_bound_reached(&self, context: &Context, word: u64) -> bool {
        bypasses(word) >= self.bound && !context.omits(steps::BOUND_BYPASS)
    }

    /// Whether the head has waited for a batch of others.
    fn is_turn(&self, word: u64) -> bool {
        let count = bypasses(word);
        count != 0 && count.is_multiple_of(self.batch)
    }

    /// Leaves a free word to the head, whose turn it is, for some looks. Says how it is once it has
    /// changed; if it has not, the head does not run.
    fn offer(&self, lock: &LockWords, context: &Context, word: u64) -> Result<Option<u64>> {
        for _ in 0..self.polls.min(WINDOW) {
            let (paused, seen) = self.look_later(lock, context)?;
            if seen != word {
                return Ok(Some(seen));
            }
            paused?;
        }
        Ok(None)
    }

    /// Lets some time pass, and looks at the word. What happened before a departure counts, since
    /// a rank that left may have done its part: whether a departure is an error is for the caller,
    /// when it has seen the word.
    fn look_later(&self, lock: &LockWords, context: &Context) -> Result<(Result<()>, u64)> {
        let paused = (0..self.gap).try_for_each(|_| lock.relax(context));
        Ok((paused, context.load(lock.shared(WORD))?))
    }

    /// As the head: takes the word if it is free or was handed over. Says how it is otherwise.
    fn take(&self, lock: &LockWords, context: &Context, mut word: u64) -> Result<Option<u64>> {
        let mine = name(context.rank());
        loop {
            if holder(word) == mine {
                self.held.set(word);
                return Ok(None);
            }
            if holder(word) != 0 {
                return Ok(Some(word));
            }
            match self.change(lock, context, word, mine)? {
                Some(seen) => word = seen,
                None => {
                    self.held.set(mine);
                    return Ok(None);
                }
            }
        }
    }

    /// Competes for the word as the head of the queue, until this rank has it or its time is up.
    /// `word` is a guess.
    fn compete(
        &self,
        lock: &LockWords,
        context: &Context,
        entry: Entry,
        word: u64,
        mut limit: TimeLimit,
    ) -> Result<bool> {
        let polls = if limit == TimeLimit::AtMost(Duration::ZERO) { 0 } else { self.polls };
        let mut is_awake = polls > 0 && entry != Entry::Passed(REGISTERED);
        if entry != Entry::Passed(REGISTERED) && self.register(lock, context, word, is_awake)? {
            return Ok(true);
        }
        // From now on bypasses count: the word is, so to say, the queue of heads.
        lock.waits(context, Standing::Queued(1))?;
        self.queue.tell_first_in_line(lock, context)?;
        loop {
            if is_awake && (self.poll(lock, context, polls)? || self.park(lock, context)?) {
                return Ok(true);
            }
            match lock.wait_within(context, limit, WAKE, |told| told != 0)? {
                None => return self.withdraw(lock, context),
                Some(told) => {
                    context.store(lock.at(context.rank(), WAKE), 0)?;
                    if told == GRANT {
                        self.held.set(name(context.rank()));
                        return Ok(true);
                    }
                }
            }
            is_awake = true;
            // A rank with a limit waits for half the time when it was woken in vain: the sum is at
            // most twice the limit.
            if let TimeLimit::AtMost(time) = limit {
                limit = TimeLimit::AtMost(time / 2);
            }
        }
    }

    /// Makes this rank the word's head, unless it gets the word at that moment.
    fn register(
        &self,
        lock: &LockWords,
        context: &Context,
        mut word: u64,
        is_awake: bool,
    ) -> Result<bool> {
        let head = (name(context.rank()) << HEAD) | if is_awake { AWAKE } else { 0 };
        loop {
            let Some(seen) = self.take(lock, context, word)? else {
                return Ok(true);
            };
            match self.change(lock, context, seen, seen | head)? {
                Some(seen) => word = seen,
                None => return Ok(false),
            }
        }
    }

    /// The holder leaves the queue, and makes the next in it the word's head: from now on bypasses
    /// count, even if the new head does not run for a while. No other rank changes a word that
    /// has a holder, as long as there is no other rank at the head of the queue.
    fn pass_headship(&self, lock: &LockWords, context: &Context) -> Result<()> {
        let announce = |next: Option<Rank>| {
            self.held.set(name(context.rank()) | (next.map_or(0, name) << HEAD));
            context.store(lock.shared(WORD), self.held.get()).map(|()| REGISTERED)
        };
        self.queue.release_node(lock, context, self.queue.link(), announce).map(drop)
    }

    /// Looks at the word so many times. A word that is free is taken at the head's turn, and if
    /// none took it since the last look: a running rank that takes it again and again has its
    /// batch.
    fn poll(&self, lock: &LockWords, context: &Context, polls: u32) -> Result<bool> {
        let mut before = 0;
        for _ in 0..polls {
            let (paused, word) = self.look_later(lock, context)?;
            let is_left =
                holder(word) == 0 && (word == before || self.is_turn(word) || paused.is_err());
            if (is_left || holder(word) == name(context.rank()))
                && self.take(lock, context, word)?.is_none()
            {
                return Ok(true);
            }
            paused?;
            before = word;
        }
        Ok(false)
    }

    /// Marks the head as parked, unless it gets the word at that moment.
    fn park(&self, lock: &LockWords, context: &Context) -> Result<bool> {
        let mut word = context.load(lock.shared(WORD))?;
        loop {
            let Some(seen) = self.take(lock, context, word)? else {
                return Ok(true);
            };
            match self.change(lock, context, seen, seen & !AWAKE)? {
                Some(seen) => word = seen,
                None => return Ok(false),
            }
        }
    }

    /// A head that was parked gives up, unless it gets the word at that moment.
    fn withdraw(&self, lock: &LockWords, context: &Context) -> Result<bool> {
        let mut word = context.load(lock.shared(WORD))?;
        let is_taken = loop {
            let Some(seen) = self.take(lock, context, word)? else {
                break true;
            };
            match self.change(lock, context, seen, holder(seen))? {
                Some(seen) => word = seen,
                None => {
                    word = seen;
                    break false;
                }
            }
        };
        // A word that has become free, or was handed over, or says that the head is awake: the rank
        // that did that is telling the head, and must not tell it when it waits the next time.
        if is_taken || word & AWAKE != 0 {
            lock.wait(context, WAKE, |told| told != 0)?;
            context.store(lock.at(context.rank(), WAKE), 0)?;
        }
        Ok(is_taken)
    }

    /// What a release makes of the word, and what it tells a parked head.
    fn next_word(
        &self,
        lock: &LockWords,
        context: &Context,
        word: u64,
    ) -> (u64, Option<(Rank, u64)>) {
        let Some(number) = ((word >> HEAD) & RANK_MASK).checked_sub(1) else {
            return (0, None);
        };
        let head = Rank(number as u32);
        let is_parked = word & AWAKE == 0;
        let is_far = is_parked && !context.topology().same_node(head, lock.home());
        if is_far || self.is_bound_reached(context, word) {
            return (name(head), is_parked.then_some((head, GRANT)));
        }
        ((word & !RANK_MASK) | AWAKE, is_parked.then_some((head, LOOK)))
    }
}

impl Bypass {
    #[inline]
    fn enter(&self, lock: &LockWords, context: &Context, limit: TimeLimit) -> Result<bool> {
        let mine = name(context.rank());
        let Some(seen) = self.change(lock, context, 0, mine)? else {
            self.held.set(mine);
            return Ok(true);
        };
        if self.bypass(lock, context, seen, limit)? {
            return Ok(true);
        }
        if limit == TimeLimit::DoNotWait {
            return Ok(false);
        }
        lock.statistics.queued(if seen >> HEAD == 0 { 1 } else { 2 });
        let entry = self.queue.acquire(lock, context, limit)?;
        if entry == Entry::GaveUp {
            return Ok(false);
        }
        let is_taken = self.compete(lock, context, entry, seen, limit)?;
        if is_taken {
            self.pass_headship(lock, context)?;
        } else {
            self.queue.release(lock, context, 0)?;
        }
        Ok(is_taken)
    }
}

impl Algorithm for Bypass {
    #[inline]
    fn attempt(&self, lock: &LockWords, context: &Context) -> Result<bool> {
        self.enter(lock, context, TimeLimit::DoNotWait)
    }

    #[inline]
    fn acquire(&self, lock: &LockWords, context: &Context) -> Result<()> {
        self.enter(lock, context, TimeLimit::Unlimited).map(drop)
    }

    fn acquire_within(&self, lock: &LockWords, context: &Context, time: Duration) -> Result<bool> {
        self.enter(lock, context, TimeLimit::AtMost(time))
    }

    #[inline]
    fn release(&self, lock: &LockWords, context: &Context) -> Result<()> {
        let published = lock.publish(context);
        let mut word = self.held.get();
        loop {
            let (next, told) = self.next_word(lock, context, word);
            if let Some(seen) = self.change(lock, context, word, next)? {
                word = seen;
                continue;
            }
            if holder(next) != 0 {
                lock.statistics.passed(context, Rank((holder(next) - 1) as u32));
            }
            if let Some((head, what)) = told.filter(|_| !context.omits(steps::WAKE)) {
                context.signal(lock.at(head, WAKE), what)?;
            }
            return published;
        }
    }

    fn reset(&mut self, lock: &LockWords, context: &Context) -> Result<()> {
        self.arrange(lock, context);
        Ok(())
    }
}

/// A rank as the word has it.
#[inline]
fn name(rank: Rank) -> u64 {
    u64::from(rank.0) + 1
}

#[inline]
fn holder(word: u64) -> u64 {
    word & RANK_MASK
}

#[inline]
fn bypasses(word: u64) -> u64 {
    (word >> BYPASSES) & BYPASSES_MASK
}

pub(super) const ENTRIES: &[Row] = &[Row {
    name: "default",
    about: "one word that running ranks may take ahead of the queue, with a bound",
    kind: || Kind::Default,
    needs_agent: false,
}];
