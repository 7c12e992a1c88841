//! The default lock: one word that running ranks may take ahead of the queue, a bounded number of
//! times in a row.
//!
//! Paper:     none as a whole; the queue is that of [ARMCI03] section 3.2.2. Competitive hand-over
//!            with a bound is known from operating systems.
//! Differs:   strict hand-over leaves the lock idle until the next in line runs, which takes
//!            microseconds where ranks outnumber processors, and milliseconds where other programs
//!            have them. Here the word is left free for whoever runs, and only the first of the
//!            queue, its *head*, competes with them: near, it polls the word for a while and then
//!            sleeps until it is woken by a release; far, it sleeps until it is handed the lock.
//!            After each `batch` of bypasses it is the head's *turn*: it takes the word at its next
//!            look, and whoever else wants it watches it for a while before it goes ahead. So a
//!            head that runs is bypassed `batch` times, and nobody waits for one that does not run
//!            until it was bypassed `bound` times: then the lock is handed to it. Which of these
//!            apply follows from the topology (is the home near, are there more ranks than
//!            processors) and from the word, which tells whether anybody queues at all.
//! State:     1 word (holder, head, bypasses, whether the head is awake) and the queue's tail at
//!            the home rank; 3 words on every rank.
//! Invariant: at most one rank is the word's holder; at most one is its head; a head is bypassed at
//!            most `bound` times once its name is in the word, so one with k ahead of it in the
//!            queue waits from then on for at most (k + 1) x (`bound` + 1) others, and for (k + 1)
//!            x (`batch` + 1) if all of them run.
//! Ordering:  release flushes first (`a_word_without_flush_is_caught`); a head that sleeps is woken
//!            by the release that leaves the word free (`a_head_that_nobody_wakes_is_caught`); the
//!            bound is kept (`a_bypass_without_bound_is_caught`).
//! Cost:      alone: acquire 1 atomic, release 1 atomic. Queued: acquire 1 atomic more for each
//!            change of the word, and the queue's cost; release +1 signal if the head sleeps.
//! Checked:   `farside check 'lock/default*'`: as it is, and with a bound of 1 and a head that
//!            sleeps at once or looks once, and with batches of 1 and a bound of 2: 3 ranks x 1
//!            round exhaustively, on one node and on three; 2 x 1 with time limits (2 x 2 if it
//!            sleeps at once); 2 x 1 with a death (3 x 1 if it sleeps at once); the bound: 2 x 2
//!            and 8 ranks; 8 and 16 ranks on three levels, some with time limits, PCT depth 3.

use std::cell::Cell;
use std::marker::PhantomData;
use std::time::Duration;

use farside_fabric::{Error, Rank, Result};
use farside_rma::{Context, Words};

use super::frame::{Algorithm, Patience, Site, Standing, Variant};
use super::queue::{self, Entry, Queue};

// The shared word and the words that their owner waits on lie a cache line apart.
pub(super) const WORDS: usize = 16;
const WORD: usize = 0;
const QUEUE: usize = 8;
/// A sleeping head waits on it.
const WAKE: usize = QUEUE + queue::WORDS;

/// What a sleeping head is told.
const LOOK: u64 = 1;
const GRANT: u64 = 2;

/// Passed through the queue to a head that is in the word already, as one that sleeps.
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
/// How often a head that is near looks at the word before it sleeps.
const POLLS: u32 = 200;
/// How often others look at the word at the head's turn before they go ahead. The head looks as
/// often in the same time, if it runs.
const WINDOW: u32 = 8;
/// Turns at the processor between two looks, where each rank has a processor: a look takes the word
/// from its holder's cache.
const GAP: u32 = 32;

/// The parameters.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// How often a head is bypassed before its turn; if it is not said, what the machine suggests.
    pub(super) batch: Option<u32>,
    /// How often a head is bypassed at most.
    pub(super) bound: u32,
    /// How often a head that is near looks before it sleeps.
    pub(super) polls: u32,
}

/// What is usual.
impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { batch: None, bound: BOUND, polls: POLLS }
    }
}

pub(super) struct Bypass<V> {
    site: Site,
    queue: Queue,
    bounds: Bounds,
    batch: u64,
    bound: u64,
    polls: u32,
    gap: u32,
    /// The word as this rank left it when it took the lock.
    held: Cell<u64>,
    variant: PhantomData<V>,
}

impl<V: Variant> Bypass<V> {
    pub(super) fn new(site: Site, context: &Context, bounds: Bounds) -> Result<Bypass<V>> {
        let limit = RANK_MASK - 1;
        if let Some(rank) = site.members().iter().find(|rank| u64::from(rank.0) > limit) {
            return Err(Error::TooMuch {
                what: "rank of a default lock",
                value: rank.0.into(),
                limit,
            });
        }
        let queue = Queue::new(QUEUE, site.home());
        let mut lock = Bypass {
            site,
            queue,
            bounds,
            batch: 1,
            bound: bounds.bound.min(BOUND_MAX).into(),
            polls: 0,
            gap: 1,
            held: Cell::new(0),
            variant: PhantomData,
        };
        lock.arrange(context);
        Ok(lock)
    }

    fn arrange(&mut self, context: &Context) {
        let topology = context.topology();
        let crowded = context.is_crowded(self.site.members());
        self.gap = if crowded { 1 } else { GAP };
        self.batch =
            self.bounds.batch.unwrap_or(if crowded { BATCH_CROWDED } else { BATCH }).max(1).into();
        self.queue = Queue::new(QUEUE, self.site.home()).dozing(crowded);
        self.polls = if topology.same_node(self.site.home(), context.rank()) {
            self.bounds.polls
        } else {
            0
        };
    }

    /// Changes the word if it is as expected; otherwise says how it is.
    #[inline]
    fn change(&self, context: &Context, from: u64, to: u64) -> Result<Option<u64>> {
        let seen = context.compare_swap(self.site.shared(WORD), from, to)?;
        Ok((seen != from).then_some(seen))
    }

    /// Takes a free word ahead of its head, unless that was done too often.
    fn bypass(&self, context: &Context, mut word: u64, patience: Patience) -> Result<bool> {
        while holder(word) == 0 && (bypasses(word) < self.bound || !V::BOUNDS_BYPASS) {
            if self.is_turn(word) {
                if patience == Patience::Never {
                    return Ok(false);
                }
                if let Some(seen) = self.offer(context, word)? {
                    word = seen;
                    continue;
                }
            }
            // A word that has become free meanwhile may have no head: then nobody is bypassed.
            let is_ahead = word >> HEAD != 0;
            let count = (bypasses(word) + u64::from(is_ahead)).min(BYPASSES_MASK);
            let taken =
                word & !(BYPASSES_MASK << BYPASSES) | (count << BYPASSES) | name(context.rank());
            match self.change(context, word, taken)? {
                Some(seen) => word = seen,
                None => {
                    self.held.set(taken);
                    self.site.tally.note(|counts| {
                        counts.bypasses += u64::from(is_ahead);
                        counts.longest_bypass = counts.longest_bypass.max(count);
                    });
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Whether the head has waited for a batch of others.
    fn is_turn(&self, word: u64) -> bool {
        let count = bypasses(word);
        count != 0 && count.is_multiple_of(self.batch)
    }

    /// Leaves a free word to the head, whose turn it is, for some looks. Says how it is once it has
    /// changed; if it has not, the head does not run.
    fn offer(&self, context: &Context, word: u64) -> Result<Option<u64>> {
        for _ in 0..self.polls.min(WINDOW) {
            let (paused, seen) = self.look_later(context)?;
            if seen != word {
                return Ok(Some(seen));
            }
            paused?;
        }
        Ok(None)
    }

    /// Lets some time pass, and looks at the word. What happened before a departure counts, since
    /// who left may have done its part: so that a departure is an error is for the caller to judge,
    /// when it has seen the word.
    fn look_later(&self, context: &Context) -> Result<(Result<()>, u64)> {
        let paused = (0..self.gap).try_for_each(|_| self.site.relax(context));
        Ok((paused, context.load(self.site.shared(WORD))?))
    }

    /// As the head: takes the word if it is free or was handed over. Says how it is otherwise.
    fn take(&self, context: &Context, mut word: u64) -> Result<Option<u64>> {
        let mine = name(context.rank());
        loop {
            if holder(word) == mine {
                self.held.set(word);
                return Ok(None);
            }
            if holder(word) != 0 {
                return Ok(Some(word));
            }
            match self.change(context, word, mine)? {
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
        context: &Context,
        entry: Entry,
        word: u64,
        mut patience: Patience,
    ) -> Result<bool> {
        let polls = if patience == Patience::AtMost(Duration::ZERO) { 0 } else { self.polls };
        let mut is_awake = polls > 0 && entry != Entry::Passed(REGISTERED);
        if entry != Entry::Passed(REGISTERED) && self.register(context, word, is_awake)? {
            return Ok(true);
        }
        // From now on bypasses count: the word is, so to say, the queue of heads.
        V::waits(context, Standing::Queued(1))?;
        self.queue.rouse_next(&self.site, context)?;
        loop {
            if is_awake && (self.poll(context, polls)? || self.fall_asleep(context)?) {
                return Ok(true);
            }
            match self.site.wait_patiently(context, WAKE, |told| told != 0, (patience, true))? {
                None => return self.withdraw(context),
                Some(told) => {
                    context.store(self.site.at(context.rank(), WAKE), 0)?;
                    if told == GRANT {
                        self.held.set(name(context.rank()));
                        return Ok(true);
                    }
                }
            }
            is_awake = true;
            // Who has a limit waits for half the time when it was woken in vain: the sum is at most
            // twice the limit.
            if let Patience::AtMost(time) = patience {
                patience = Patience::AtMost(time / 2);
            }
        }
    }

    /// Makes this rank the word's head, unless it gets the word at that moment.
    fn register(&self, context: &Context, mut word: u64, is_awake: bool) -> Result<bool> {
        let head = (name(context.rank()) << HEAD) | if is_awake { AWAKE } else { 0 };
        loop {
            let Some(seen) = self.take(context, word)? else {
                return Ok(true);
            };
            match self.change(context, seen, seen | head)? {
                Some(seen) => word = seen,
                None => return Ok(false),
            }
        }
    }

    /// The holder leaves the queue, and makes the next in it the word's head: from now on bypasses
    /// count, even if the new head does not run for a while. Nobody else changes a word that has a
    /// holder, as long as there is nobody else at the head of the queue.
    fn pass_headship(&self, context: &Context) -> Result<()> {
        let announce = |next: Option<Rank>| {
            self.held.set(name(context.rank()) | (next.map_or(0, name) << HEAD));
            context.store(self.site.shared(WORD), self.held.get()).map(|()| REGISTERED)
        };
        self.queue.leave_with::<V>(&self.site, context, announce).map(drop)
    }

    /// Looks at the word so many times. A word that is free is taken at the head's turn, and if
    /// nobody took it since the last look: a running rank that takes it again and again has its
    /// batch.
    fn poll(&self, context: &Context, polls: u32) -> Result<bool> {
        let mut before = 0;
        for _ in 0..polls {
            let (paused, word) = self.look_later(context)?;
            let is_left =
                holder(word) == 0 && (word == before || self.is_turn(word) || paused.is_err());
            if (is_left || holder(word) == name(context.rank()))
                && self.take(context, word)?.is_none()
            {
                return Ok(true);
            }
            paused?;
            before = word;
        }
        Ok(false)
    }

    /// Marks the head as asleep, unless it gets the word at that moment.
    fn fall_asleep(&self, context: &Context) -> Result<bool> {
        let mut word = context.load(self.site.shared(WORD))?;
        loop {
            let Some(seen) = self.take(context, word)? else {
                return Ok(true);
            };
            match self.change(context, seen, seen & !AWAKE)? {
                Some(seen) => word = seen,
                None => return Ok(false),
            }
        }
    }

    /// A head that was asleep gives up, unless it gets the word at that moment.
    fn withdraw(&self, context: &Context) -> Result<bool> {
        let mut word = context.load(self.site.shared(WORD))?;
        let is_taken = loop {
            let Some(seen) = self.take(context, word)? else {
                break true;
            };
            match self.change(context, seen, holder(seen))? {
                Some(seen) => word = seen,
                None => {
                    word = seen;
                    break false;
                }
            }
        };
        // A word that has become free, or was handed over, or says that the head is awake: whoever
        // did that is telling the head, and must not tell it when it waits the next time.
        if is_taken || word & AWAKE != 0 {
            self.site.wait(context, WAKE, |told| told != 0)?;
            context.store(self.site.at(context.rank(), WAKE), 0)?;
        }
        Ok(is_taken)
    }

    /// What a release makes of the word, and what it tells a head that sleeps.
    fn next_word(&self, context: &Context, word: u64) -> (u64, Option<(Rank, u64)>) {
        let Some(number) = ((word >> HEAD) & RANK_MASK).checked_sub(1) else {
            return (0, None);
        };
        let head = Rank(number as u32);
        let is_asleep = word & AWAKE == 0;
        let is_far = is_asleep && !context.topology().same_node(head, self.site.home());
        if is_far || (V::BOUNDS_BYPASS && bypasses(word) >= self.bound) {
            return (name(head), is_asleep.then_some((head, GRANT)));
        }
        ((word & !RANK_MASK) | AWAKE, is_asleep.then_some((head, LOOK)))
    }
}

impl<V: Variant> Algorithm for Bypass<V> {
    fn name(&self) -> &'static str {
        "default"
    }

    fn site(&self) -> &Site {
        &self.site
    }

    #[inline]
    fn acquire(&self, context: &Context, patience: Patience) -> Result<bool> {
        let mine = name(context.rank());
        let Some(seen) = self.change(context, 0, mine)? else {
            self.held.set(mine);
            return Ok(true);
        };
        if self.bypass(context, seen, patience)? {
            return Ok(true);
        }
        if patience == Patience::Never {
            return Ok(false);
        }
        self.site.tally.queued(if seen >> HEAD == 0 { 1 } else { 2 });
        let entry = self.queue.enter::<V>(&self.site, context, patience)?;
        if entry == Entry::GaveUp {
            return Ok(false);
        }
        let is_taken = self.compete(context, entry, seen, patience)?;
        if is_taken {
            self.pass_headship(context)?;
        } else {
            self.queue.leave::<V>(&self.site, context, 0)?;
        }
        Ok(is_taken)
    }

    #[inline]
    fn release(&self, context: &Context) -> Result<()> {
        let published = self.site.publish::<V>(context);
        let mut word = self.held.get();
        loop {
            let (next, told) = self.next_word(context, word);
            if let Some(seen) = self.change(context, word, next)? {
                word = seen;
                continue;
            }
            if holder(next) != 0 {
                self.site.tally.passed(context, Rank((holder(next) - 1) as u32));
            }
            if let Some((head, what)) = told.filter(|_| V::WAKES) {
                context.signal(self.site.at(head, WAKE), what)?;
            }
            return published;
        }
    }

    fn reset(&mut self, context: &Context, home: Rank, members: &[Rank]) -> Result<()> {
        self.site.change(home, members);
        self.arrange(context);
        Ok(())
    }

    fn into_words(self: Box<Self>) -> Words {
        self.site.into_words()
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
