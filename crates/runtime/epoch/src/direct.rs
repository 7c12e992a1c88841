//! Direct passive locks: one word for each target, changed by the origins themselves; origins that
//! cannot have it queue and sleep.
//!
//! Paper:     [PASSIVE08] section 3.1, figure 1(a), the 64-bit lock state of a target; the queue is
//!            that of [ARMCI03] section 3.2.2.
//! Differs:   readers count themselves in the word, so that shared mode needs no agent; waiting
//!            origins queue instead of polling. The argument is in `README.md`.
//! State:     the word and the queue's tail on every rank as a target; 3 words on every rank as an
//!            origin, for all targets together: one thread of it queues, others poll meanwhile.
//! Invariant: the word is the number of readers inside or about to withdraw, a mark while a writer
//!            is inside, and the name of the sleeping first of the queue, which none overtakes.
//! Ordering:  `an_epoch_without_flush_is_caught`, `a_target_that_is_taken_in_two_steps_is_caught`,
//!            `a_reader_that_stays_is_caught`, `a_queue_that_nobody_lets_in_is_caught`.
//! Cost:      alone: lock 1 atomic, unlock 1 atomic behind the data, which is its flush. Queued:
//!            also the queue's cost, 2 atomics, 1 load, 1 signal, and 1 atomic of a reader.
//! Checked:   `farside check 'epoch/direct*'`: 3 ranks x 1 round exhaustively, near and far; 2
//!            ranks x 2 rounds; a death; 8 ranks, PCT depth 3.

use std::cell::Cell;

use farside_fabric::{Rank, Result};
use farside_rma::{Context, NearWord, Purpose, Words};
use farside_sync::parts::queue::{self, Queue};
use farside_sync::parts::{Handle, LockWords, TimeLimit};

use crate::mode::Mode;
use crate::steps;

// The word and what its owner waits on lie a cache line apart.
pub(crate) const WORDS: usize = 16;
const WORD: usize = 0;
const QUEUE: usize = 8;
/// The first of a queue sleeps on it.
const WAKE: usize = QUEUE + queue::WORDS;

/// The fields of the word.
const READER: u64 = 1;
const READERS: u64 = (1 << 24) - 1;
const WRITER: u64 = 1 << 24;
const HEAD_SHIFT: u32 = 25;
const HEAD: u64 = ((1 << 25) - 1) << HEAD_SHIFT;
/// The first of the queue wants to share.
const HEAD_SHARES: u64 = 1 << 50;

/// The number of looks of the first of a queue at a near word before it sleeps.
const POLLS: u32 = 100;

/// The locks of all targets of a window, as one rank uses them.
pub(crate) struct Direct {
    site: LockWords,
    /// The words of targets that the processor reaches by itself, from this rank on.
    near: Box<[Option<NearWord>]>,
    first_near: u32,
    handle: Handle,
    polls: u32,
    /// True while a thread of this rank is in a queue. Another one, which runs while that one
    /// waits, has no words to queue with, and polls.
    is_queued: Cell<bool>,
}

impl Direct {
    pub(crate) fn new(
        words: Words,
        context: &Context,
        members: &[Rank],
        polls: Option<u32>,
    ) -> Direct {
        let (site, handle) =
            (LockWords::new(words, members[0], members), Handle::new(context.rank()));
        let words =
            members.iter().filter_map(|&rank| Some((rank, site.near(context, rank, WORD)?)));
        let mut words: Vec<(Rank, NearWord)> = words.collect();
        words.sort_unstable_by_key(|&(rank, _)| rank);
        let first_near = words.first().map_or(0, |&(rank, _)| rank.0);
        let count = words.last().map_or(0, |&(rank, _)| (rank.0 - first_near) as usize + 1);
        let mut near: Box<[Option<NearWord>]> = (0..count).map(|_| None).collect();
        for (rank, word) in words {
            near[(rank.0 - first_near) as usize] = Some(word);
        }
        let (polls, is_queued) = (polls.unwrap_or(POLLS), Cell::new(false));
        Direct { site, near, first_near, handle, polls, is_queued }
    }

    pub(crate) fn into_words(self) -> Words {
        self.site.into_words()
    }

    /// Takes the lock of a target. What it waits for, if it must, viewers are told as `purpose`.
    #[inline]
    pub(crate) fn lock(
        &self,
        context: &Context,
        target: Rank,
        mode: Mode,
        purpose: Purpose,
    ) -> Result<()> {
        if self.take(context, target, mode)? {
            return Ok(());
        }
        let _doing = context.begin(purpose);
        self.wait_for(context, target, mode)
    }

    /// The loss of a member matters to origins that find the target taken: the lost member may have
    /// it for ever.
    #[cold]
    #[inline(never)]
    fn wait_for(&self, context: &Context, target: Rank, mode: Mode) -> Result<()> {
        self.handle.check_losses(context, || &self.site)?;
        self.poll_or_queue(context, target, mode)
            .map_err(|error| Handle::explain(context, error, self.site.members()))?;
        // The lock may have been passed on after a loss, by an origin that had it before.
        let alive = self.handle.check_losses(context, || &self.site);
        alive.inspect_err(|_| drop(self.leave(context, target, mode)))
    }

    #[inline]
    pub(crate) fn unlock(&self, context: &Context, target: Rank, mode: Mode) -> Result<()> {
        self.leave(context, target, mode)
            .map_err(|error| Handle::explain(context, error, self.site.members()))
    }

    #[inline(always)]
    fn compare_swap(&self, context: &Context, target: Rank, old: u64, new: u64) -> Result<u64> {
        match self.near(target).and_then(|word| word.compare_swap(context, old, new)) {
            Some(held) => Ok(held),
            None => context.compare_swap(self.site.at(target, WORD), old, new),
        }
    }

    #[inline(always)]
    fn fetch_add(&self, context: &Context, target: Rank, value: u64) -> Result<u64> {
        match self.near(target).and_then(|word| word.fetch_add(context, value)) {
            Some(held) => Ok(held),
            None => context.fetch_add(self.site.at(target, WORD), value),
        }
    }

    #[inline(always)]
    fn near(&self, target: Rank) -> Option<&NearWord> {
        // Ranks ahead of the first come out far beyond the end.
        self.near.get(target.0.wrapping_sub(self.first_near) as usize)?.as_ref()
    }

    #[inline(always)]
    fn take(&self, context: &Context, target: Rank, mode: Mode) -> Result<bool> {
        match mode {
            // [PASSIVE08 section 3.1, figure 1(a)]
            Mode::Exclusive if !context.omits(steps::TAKE_AT_ONCE) => {
                Ok(self.compare_swap(context, target, 0, WRITER)? == 0)
            }
            Mode::Exclusive => {
                let word = self.site.at(target, WORD);
                let is_free = context.load(word)? == 0;
                if is_free {
                    context.store(word, WRITER)?;
                }
                Ok(is_free)
            }
            Mode::Shared => {
                let is_open = self.fetch_add(context, target, READER)? & (WRITER | HEAD) == 0;
                if is_open || context.omits(steps::WITHDRAW) {
                    return Ok(true);
                }
                self.leave(context, target, mode).map(|()| false)
            }
        }
    }

    /// Queues, and polls while another thread of this rank does.
    fn poll_or_queue(&self, context: &Context, target: Rank, mode: Mode) -> Result<()> {
        while self.is_queued.get() {
            // A look first: a reader that finds the target taken would count itself in and out.
            let word = context.load(self.site.at(target, WORD))?;
            if word & (WRITER | HEAD) == 0 && self.take(context, target, mode)? {
                return Ok(());
            }
            self.site.relax(context)?;
        }
        self.is_queued.set(true);
        let _queued = Queued(&self.is_queued);
        self.queue(context, target, mode)
    }

    /// Takes a place in the queue, waits until it is the first, and then until the target is free.
    #[cold]
    #[inline(never)]
    fn queue(&self, context: &Context, target: Rank, mode: Mode) -> Result<()> {
        let queue = Queue::new(QUEUE, target);
        queue.acquire(&self.site, context, TimeLimit::Unlimited)?;
        let entered = self.compete(context, target, mode);
        // The place is given to the next one even if something is wrong, so that it finds out, too.
        queue.release(&self.site, context, 0)?;
        entered
    }

    /// As the first of the queue: waits until the target is this rank's.
    fn compete(&self, context: &Context, target: Rank, mode: Mode) -> Result<()> {
        let word = self.site.at(target, WORD);
        let is_near = context.topology().same_node(target, context.rank());
        let mut seen = context.load(word)?;
        for _ in 0..if is_near { self.polls } else { 0 } {
            if let Some(inside) = admitted(seen, mode) {
                match context.compare_swap(word, seen, inside)? {
                    held if held == seen => return Ok(()),
                    held => seen = held,
                }
                continue;
            }
            let paused = self.site.relax(context);
            seen = context.load(word)?;
            // Progress before a departure counts: the departed rank may have released the lock.
            if admitted(seen, mode).is_none() {
                paused?;
            }
        }
        loop {
            let inside = admitted(seen, mode);
            let mine = ((u64::from(context.rank().0) + 1) << HEAD_SHIFT)
                | if mode == Mode::Shared { HEAD_SHARES } else { 0 };
            match context.compare_swap(word, seen, inside.unwrap_or(seen | mine))? {
                held if held != seen => seen = held,
                _ if inside.is_some() => return Ok(()),
                _ => break,
            }
        }
        self.site.wait(context, WAKE, |told| told != 0)?;
        context.store(self.site.at(context.rank(), WAKE), 0)
    }

    /// Leaves the target, and lets the first of the queue in if it may go in now.
    #[inline(always)]
    fn leave(&self, context: &Context, target: Rank, mode: Mode) -> Result<()> {
        let amount = if mode == Mode::Exclusive { WRITER } else { READER };
        let left = self.fetch_add(context, target, amount.wrapping_neg())?.wrapping_sub(amount);
        if left & HEAD == 0 || context.omits(steps::GRANT) {
            return Ok(());
        }
        self.grant(context, target, left)
    }

    #[cold]
    #[inline(never)]
    fn grant(&self, context: &Context, target: Rank, mut seen: u64) -> Result<()> {
        let word = self.site.at(target, WORD);
        while seen & HEAD != 0 {
            let mode = if seen & HEAD_SHARES != 0 { Mode::Shared } else { Mode::Exclusive };
            let head = Rank((((seen & HEAD) >> HEAD_SHIFT) - 1) as u32);
            let Some(inside) = admitted(seen & !(HEAD | HEAD_SHARES), mode) else {
                break;
            };
            match context.compare_swap(word, seen, inside)? {
                held if held == seen => return context.signal(self.site.at(head, WAKE), 1),
                held => seen = held,
            }
        }
        Ok(())
    }
}

/// Says that no thread is in a queue any more when it is dropped.
struct Queued<'a>(&'a Cell<bool>);

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// The word with one more inside, if that one may go in.
fn admitted(word: u64, mode: Mode) -> Option<u64> {
    match mode {
        Mode::Exclusive => (word & (WRITER | READERS) == 0).then_some(word | WRITER),
        Mode::Shared => (word & WRITER == 0).then_some(word + READER),
    }
}
