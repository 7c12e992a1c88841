//! Direct passive locks as published, without back-off: exclusive mode tries again until it
//! succeeds, and requests for shared mode queue at the agent of the target's node.
//!
//! Paper:     [PASSIVE08] section 3.1, figure 1.
//! Differs:   an agent runs only when it is called, so that the first of its queue asks again when
//!            the lock looks free; the paper does not say when its agent tries again. Unlocked is
//!            zero, as fresh memory is.
//! State:     on every rank, as a target: the lock and the count of readers of `backoff`, the last
//!            of the queue, and who is before each rank in it; as an origin: its grants.
//! Invariant: that of `backoff`; the queue is empty in shared mode, and if it is not, the first
//!            that came into it looks at the lock.
//! Ordering:  `an_epoch_without_flush_is_caught`, `a_target_that_is_taken_in_two_steps_is_caught`,
//!            `an_agent_that_does_not_count_is_caught`, `a_queue_that_nobody_lets_in_is_caught`.
//! Cost:      exclusive: lock 1 atomic for each attempt, unlock 1 atomic after a flush. Shared: 1
//!            call each, and 1 signal to each that was queued; the first of a queue 1 load for each
//!            look, and 1 call whenever the lock looks free.
//! Checked:   `farside check 'epoch/published*'`: 3 ranks x 1 round exhaustively; a death.

use std::cell::Cell;

use farside_fabric::{Agent, Atomic, Rank, Result, Word};
use farside_rma::{Context, Words};
use farside_sync::parts::{Handle, LockWords};

use crate::backoff::{self, AGAIN, FREE, GRANTED, LEAVE, LockAgent, QUEUE, SHARED, WORD};
use crate::mode::Mode;

/// The words of a target's queue, after those of `backoff`, and of an origin.
const LAST: usize = backoff::WORDS;
const GRANTS: usize = LAST + 1;
const BEFORE: usize = GRANTS + 1;
/// Stands before the first of a queue.
const NOBODY: u64 = u64::MAX;

/// The answers to a request that is queued: as the first, or behind others.
pub(crate) const FIRST: u8 = 3;
pub(crate) const QUEUED: u8 = 4;

pub(crate) fn words(ranks: u32) -> usize {
    BEFORE + ranks as usize
}

/// The queue of a target, as a handler uses it.
pub(crate) struct SharedQueue<'a> {
    pub(crate) agent: &'a dyn Agent,
    /// The lock.
    pub(crate) at: Word,
    /// Whether it tells those that it lets in.
    pub(crate) grants: bool,
}

impl SharedQueue<'_> {
    fn word(&self, index: usize) -> Word {
        Word { offset: self.at.offset.saturating_add(8 * index as u64), ..self.at }
    }

    fn load(&self, index: usize) -> Result<u64> {
        self.agent.atomic(self.word(index), Atomic::Load).map(|held| held as u64)
    }

    fn store(&self, index: usize, value: u64) -> Result<()> {
        self.agent.atomic(self.word(index), Atomic::Store(value.into())).map(drop)
    }

    /// Appends a rank; returns whether it is the first.
    pub(crate) fn push(&self, rank: Rank) -> Result<u8> {
        let last = self.load(LAST)?;
        self.store(BEFORE + rank.index(), if last == 0 { NOBODY } else { last })?;
        self.store(LAST, u64::from(rank.0) + 1)?;
        Ok(if last == 0 { FIRST } else { QUEUED })
    }

    pub(crate) fn has(&self, rank: Rank) -> Result<bool> {
        Ok(self.load(BEFORE + rank.index())? != 0)
    }

    /// Lets everybody in; returns how many that are.
    pub(crate) fn let_in(&self) -> Result<u64> {
        let (mut at, mut count) = (self.load(LAST)?, 0);
        while at != 0 && at != NOBODY {
            let rank = Rank((at - 1) as u32);
            at = self.load(BEFORE + rank.index())?;
            self.store(BEFORE + rank.index(), 0)?;
            count += 1;
            if self.grants {
                // Should that fail, the rank is lost, and all that wait hear of it.
                let _ = self.agent.post(Word { rank, ..self.word(GRANTS) }, Atomic::Add(1));
            }
        }
        self.store(LAST, 0)?;
        Ok(count)
    }
}

/// The locks of all targets of a window, as one rank uses them.
pub(crate) struct Published {
    site: LockWords,
    handle: Handle,
    agent: LockAgent,
    /// How often this rank was let in from a queue.
    grants: Cell<u64>,
}

impl Published {
    pub(crate) fn new(
        words: Words,
        context: &Context,
        members: &[Rank],
        agent: LockAgent,
    ) -> Published {
        Published {
            site: LockWords::new(words, members[0], members),
            handle: Handle::new(context.rank()),
            agent,
            grants: Cell::new(0),
        }
    }

    pub(crate) fn into_words(self) -> Words {
        self.site.into_words()
    }

    pub(crate) fn lock(&self, context: &Context, target: Rank, mode: Mode) -> Result<()> {
        self.handle.check_losses(context, || &self.site)?;
        match mode {
            Mode::Exclusive => self.take(context, target),
            Mode::Shared => self.enter(context, target),
        }
        .map_err(|error| Handle::explain(context, error, self.site.members()))?;
        let alive = self.handle.check_losses(context, || &self.site);
        alive.inspect_err(|_| drop(self.unlock(context, target, mode)))
    }

    pub(crate) fn unlock(&self, context: &Context, target: Rank, mode: Mode) -> Result<()> {
        let left = match mode {
            Mode::Exclusive => backoff::free(&self.agent, context, &self.site, target),
            Mode::Shared => self.agent.ask(context, &self.site, target, LEAVE).map(drop),
        };
        left.map_err(|error| Handle::explain(context, error, self.site.members()))
    }

    /// [PASSIVE08 section 3.1, figure 1(a)]
    fn take(&self, context: &Context, target: Rank) -> Result<()> {
        loop {
            if backoff::take(&self.agent, context, &self.site, target)? {
                return Ok(());
            }
            // Progress before a departure counts: the departed rank may have released the lock.
            if let Err(error) = self.site.relax(context) {
                let is_taken = backoff::take(&self.agent, context, &self.site, target)?;
                return if is_taken { Ok(()) } else { Err(error) };
            }
        }
    }

    /// [PASSIVE08 section 3.1, figure 1(b)]
    fn enter(&self, context: &Context, target: Rank) -> Result<()> {
        let standing = self.agent.ask(context, &self.site, target, QUEUE)?;
        if standing == GRANTED {
            return Ok(());
        }
        let grant = self.grants.get() + 1;
        if standing == FIRST {
            self.look(context, target, grant)?;
        }
        self.site.wait(context, GRANTS, |grants| grants == grant)?;
        self.grants.set(grant);
        Ok(())
    }

    /// The first of a queue asks again when the lock is free, until it is let in.
    fn look(&self, context: &Context, target: Rank, grant: u64) -> Result<()> {
        loop {
            let relaxed = self.site.relax(context);
            if context.load(self.site.at(context.rank(), GRANTS))? == grant {
                return Ok(());
            }
            match context.load(self.site.at(target, WORD))? {
                FREE | SHARED => {
                    if self.agent.ask(context, &self.site, target, AGAIN)? == GRANTED {
                        return Ok(());
                    }
                }
                _ => relaxed?,
            }
        }
    }
}
