//! Direct passive locks with back-off: exclusive mode polls a word with growing pauses, shared mode
//! asks the agent of the target's node.
//!
//! Paper:     [PASSIVE08] section 3.1, figure 1: the 64-bit lock state of a target, exclusive by
//!            compare-swap, shared by an agent that keeps the count.
//! Differs:   the pauses between attempts double (future work in the paper); an agent, which must
//!            not wait, refuses instead of queueing (`published` queues); unlocked is zero, as
//!            fresh memory is. Where the network interface has atomics of its own, which the
//!            agent's do not exclude, the agent takes and frees targets in exclusive mode, too.
//! State:     2 words on every rank as a target: the lock, and the count of readers, which is in
//!            memory so that any process of the node can go on as its agent.
//! Invariant: the lock is zero, or one more than the rank that has the target, or the mark of
//!            shared mode, and then the count is not zero.
//! Ordering:  `an_epoch_without_flush_is_caught`, `a_target_that_is_taken_in_two_steps_is_caught`,
//!            `an_agent_that_does_not_count_is_caught`.
//! Cost:      exclusive: lock 1 atomic, unlock 1 atomic after a flush; each further look 1 load.
//!            Shared, and where the interface has atomics of its own both: 1 call each.
//! Checked:   `farside check 'epoch/backoff*'`: 3 ranks x 1 round exhaustively; a death.

use farside_fabric::{Error, Rank, Result};
use farside_rma::{Context, Team, Words};
use farside_sync::parts::{Handle, LockWords};

use crate::lock_agent::{
    ENTER, FREE, GIVE_BACK, GRANTED, LEAVE, LockAgent, SHARED, TAKE, WORD, name,
};
use crate::mode::Mode;
use crate::steps;

/// The longest pause between two looks, in turns at the processor.
const PAUSE_MAX: u32 = 256;

/// The locks of all targets of a window, as one rank uses them.
pub(crate) struct Backoff {
    pub(crate) site: LockWords,
    handle: Handle,
    agent: LockAgent,
}

impl Backoff {
    /// Locks that take so many words on each rank.
    pub(crate) fn new(team: &Team<'_>, words: usize, agent: LockAgent) -> Result<Backoff> {
        let (words, members) = (team.protocol_words(words)?, team.members());
        let site = LockWords::new(words, members[0], members);
        Ok(Backoff { site, handle: Handle::new(team.context().rank()), agent })
    }

    pub(crate) fn into_words(self) -> Words {
        self.site.into_words()
    }

    pub(crate) fn lock(&self, context: &Context, target: Rank, mode: Mode) -> Result<()> {
        self.lock_by(context, target, mode, || self.poll(context, target, mode))
    }

    /// Takes a target by these steps. If a loss has come meanwhile, gives it back.
    pub(crate) fn lock_by(
        &self,
        context: &Context,
        target: Rank,
        mode: Mode,
        steps: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        self.handle.check_losses(context, || &self.site)?;
        steps().map_err(|error| Handle::explain(context, error, self.site.members()))?;
        let alive = self.handle.check_losses(context, || &self.site);
        alive.inspect_err(|_| drop(self.unlock(context, target, mode)))
    }

    pub(crate) fn unlock(&self, context: &Context, target: Rank, mode: Mode) -> Result<()> {
        let left = match mode {
            Mode::Exclusive => self.free(context, target),
            Mode::Shared => self.ask(context, target, LEAVE).map(drop),
        };
        left.map_err(|error| Handle::explain(context, error, self.site.members()))
    }

    fn poll(&self, context: &Context, target: Rank, mode: Mode) -> Result<()> {
        let mut pause = 1;
        loop {
            let is_inside = match mode {
                Mode::Exclusive => self.take(context, target)?,
                Mode::Shared => self.ask(context, target, ENTER)? == GRANTED,
            };
            if is_inside {
                return Ok(());
            }
            loop {
                let paused = (0..pause).try_for_each(|_| self.site.relax(context));
                pause = (pause * 2).min(PAUSE_MAX);
                match (context.load(self.site.at(target, WORD))?, mode) {
                    (FREE, _) | (SHARED, Mode::Shared) => break,
                    // Progress before a departure counts: the departed rank may have released the
                    // lock.
                    _ => paused?,
                }
            }
        }
    }

    /// Asks the agent of a target for something.
    pub(crate) fn ask(&self, context: &Context, target: Rank, what: u8) -> Result<u8> {
        self.agent.ask(context, &self.site, target, what)
    }

    /// Takes a target in exclusive mode, if it is free.
    pub(crate) fn take(&self, context: &Context, target: Rank) -> Result<bool> {
        if !changes_lock_itself(context) {
            return Ok(self.ask(context, target, TAKE)? == GRANTED);
        }
        let (word, name) = (self.site.at(target, WORD), name(context.rank()));
        if !context.omits(steps::TAKE_AT_ONCE) {
            // [PASSIVE08 section 3.1, figure 1]
            return Ok(context.compare_swap(word, FREE, name)? == FREE);
        }
        let is_free = context.load(word)? == FREE;
        if is_free {
            context.store(word, name)?;
        }
        Ok(is_free)
    }

    /// Gives a target back that this rank has in exclusive mode.
    fn free(&self, context: &Context, target: Rank) -> Result<()> {
        let (word, name) = (self.site.at(target, WORD), name(context.rank()));
        let held = if changes_lock_itself(context) {
            context.compare_swap(word, name, FREE)?
        } else if self.ask(context, target, GIVE_BACK)? == GRANTED {
            name
        } else {
            context.load(word)?
        };
        if held == name { Ok(()) } else { Err(unlike(target, held)) }
    }
}

/// Returns whether this rank's atomics on the lock exclude the agent's: where they do not, the
/// agent alone changes it.
fn changes_lock_itself(context: &Context) -> bool {
    context.job().caps.cpu_coherent
}

#[cold]
fn unlike(target: Rank, held: u64) -> Error {
    Error::Internal(format!(
        "the lock state of {target} is {held} where its holder's name should be"
    ))
}
