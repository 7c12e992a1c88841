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

use farside_fabric::{Rank, Result};
use farside_rma::{Context, Words};

use crate::backoff::Backoff;
use crate::lock_agent::{AGAIN, FIRST, FREE, GRANTED, GRANTS, QUEUE, SHARED, WORD};
use crate::mode::Mode;

/// The locks of all targets of a window, as one rank uses them.
pub(crate) struct Published {
    /// The lock of each target, and its count of readers.
    locks: Backoff,
    /// How often this rank was let in from a queue.
    grants: Cell<u64>,
}

impl Published {
    pub(crate) fn new(locks: Backoff) -> Published {
        Published { locks, grants: Cell::new(0) }
    }

    pub(crate) fn into_words(self) -> Words {
        self.locks.into_words()
    }

    pub(crate) fn lock(&self, context: &Context, target: Rank, mode: Mode) -> Result<()> {
        self.locks.lock_by(context, target, mode, || match mode {
            Mode::Exclusive => self.take(context, target),
            Mode::Shared => self.enter(context, target),
        })
    }

    pub(crate) fn unlock(&self, context: &Context, target: Rank, mode: Mode) -> Result<()> {
        self.locks.unlock(context, target, mode)
    }

    /// [PASSIVE08 section 3.1, figure 1(a)]
    fn take(&self, context: &Context, target: Rank) -> Result<()> {
        loop {
            if self.locks.take(context, target)? {
                return Ok(());
            }
            // Progress before a departure counts: the departed rank may have released the lock.
            if let Err(error) = self.locks.site.relax(context) {
                let is_taken = self.locks.take(context, target)?;
                return if is_taken { Ok(()) } else { Err(error) };
            }
        }
    }

    /// [PASSIVE08 section 3.1, figure 1(b)]
    fn enter(&self, context: &Context, target: Rank) -> Result<()> {
        let standing = self.locks.ask(context, target, QUEUE)?;
        if standing == GRANTED {
            return Ok(());
        }
        let grant = self.grants.get() + 1;
        if standing == FIRST {
            self.look(context, target, grant)?;
        }
        self.locks.site.wait(context, GRANTS, |grants| grants == grant)?;
        self.grants.set(grant);
        Ok(())
    }

    /// The first of a queue asks again when the lock is free, until it is let in.
    fn look(&self, context: &Context, target: Rank, grant: u64) -> Result<()> {
        loop {
            let relaxed = self.locks.site.relax(context);
            if context.load(self.locks.site.at(context.rank(), GRANTS))? == grant {
                return Ok(());
            }
            match context.load(self.locks.site.at(target, WORD))? {
                FREE | SHARED => {
                    if self.locks.ask(context, target, AGAIN)? == GRANTED {
                        return Ok(());
                    }
                }
                _ => relaxed?,
            }
        }
    }
}
