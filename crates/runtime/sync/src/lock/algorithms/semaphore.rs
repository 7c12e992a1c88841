//! Counting lock: as many ranks at a time as it has permits, in the order in which they came.
//!
//! Paper:     none; the ticket of [ARMCI03] section 3.2.1 with `permits` holders instead of one.
//! Differs:   from the ticket lock: what is served is a count of entries and one of holders in one
//!            word; the rank whose ticket is next enters once fewer than `permits` are inside.
//! State:     2 words (tickets; entries and holders) at the home rank.
//! Invariant: inside <= permits. Entry in the order of the tickets: a rank with k before it is
//!            overtaken by none that comes later, and waits for at most k entries and k releases.
//! Ordering:  release flushes first (lock/semaphore-without-flush); the ticket is taken in one step
//!            (lock/semaphore-in-two-steps); a rank enters only with a permit
//!            (lock/semaphore-without-permits) and in its turn (lock/semaphore-without-turns).
//! Cost:      acquire 2 atomics and, for each look, 1 load; release 1 atomic.
//! Checked:   `farside check 'lock/semaphore*'`: all schedules of small jobs, with 1 and
//!            2 permits; the order; tickets of 2 bits, random; 8 and 16 ranks on three levels, some
//!            with time limits, PCT depth 3.

use std::time::Duration;

use farside_fabric::{Error, Rank, Result};
use farside_rma::{Context, Team, World};

use super::Kind;
use crate::lock::frame::{Algorithm, LockWords, Standing, TimeLimit};
use crate::lock::registry::{Entry, Made, Maker, Widths};
use crate::lock::steps;
use crate::lock::{Guard, Lock, Statistics};

const WORDS: usize = 2;
const TICKETS: usize = 0;
const STATE: usize = 1;

/// The fields of the state, from the lowest bit on: how many are inside, and how many have entered;
/// the carry of the last leaves the word.
const INSIDE_BITS: u32 = 24;
const INSIDE_MASK: u64 = (1 << INSIDE_BITS) - 1;
const PERMITS_MAX: u32 = INSIDE_MASK as u32;

/// Bits of a ticket's number: ranks that wait must have different ones, nothing else.
const TICKET_BITS: u32 = 64 - INSIDE_BITS;

/// The lock, with so many bits of a ticket's number.
struct Counting<const BITS: u32> {
    permits: u64,
}

pub(super) fn make(maker: &Maker<'_>, &permits: &u32) -> Result<Made<dyn Algorithm>> {
    if !(1..=PERMITS_MAX).contains(&permits) {
        return Err(Error::InvalidArgument(format!(
            "a semaphore has 1 to {PERMITS_MAX} permits, not {permits}"
        )));
    }
    let permits = permits.into();
    let algorithm: Box<dyn Algorithm> = match maker.widths {
        Widths::Usual => Box::new(Counting::<TICKET_BITS> { permits }),
        Widths::Narrow => Box::new(Counting::<2> { permits }),
    };
    Ok(Made { words: maker.words(WORDS)?, algorithm })
}

impl<const BITS: u32> Counting<BITS> {
    /// One more has entered, and is inside.
    const ENTRY: u64 = (1 << (64 - BITS)) + 1;

    fn number(ticket: u64) -> u64 {
        ticket & (u64::MAX >> (64 - BITS))
    }

    /// The number of the next ticket to enter.
    fn next(state: u64) -> u64 {
        state >> (64 - BITS)
    }

    fn inside(state: u64) -> u64 {
        state & INSIDE_MASK
    }

    fn take_ticket(&self, lock: &LockWords, context: &Context) -> Result<u64> {
        let tickets = lock.shared(TICKETS);
        if !context.omits(steps::TAKE_AT_ONCE) {
            return context.fetch_add(tickets, 1);
        }
        let mine = context.load(tickets)?;
        context.store(tickets, mine.wrapping_add(1))?;
        Ok(mine)
    }

    fn has_permit(&self, context: &Context, state: u64) -> bool {
        Self::inside(state) < self.permits || context.omits(steps::AWAIT_PERMIT)
    }

    /// Enters with a ticket. Only the rank whose turn it is does so, and others only leave
    /// meanwhile: what it has seen of the state holds.
    fn enter(&self, lock: &LockWords, context: &Context) -> Result<()> {
        context.fetch_add(lock.shared(STATE), Self::ENTRY).map(drop)
    }
}

impl<const BITS: u32> Algorithm for Counting<BITS> {
    /// Takes a ticket only if it enters at once: a ticket cannot be given back.
    fn attempt(&self, lock: &LockWords, context: &Context) -> Result<bool> {
        let (tickets, state) = (lock.shared(TICKETS), context.load(lock.shared(STATE))?);
        let next = context.load(tickets)?;
        let is_next = Self::number(next) == Self::next(state);
        if !is_next || !self.has_permit(context, state) {
            return Ok(false);
        }
        if context.compare_swap(tickets, next, next.wrapping_add(1))? != next {
            return Ok(false);
        }
        self.enter(lock, context).map(|()| true)
    }

    fn acquire(&self, lock: &LockWords, context: &Context) -> Result<()> {
        let mine = Self::number(self.take_ticket(lock, context)?);
        lock.waits(context, Standing::Queued(0))?;
        let mut is_queued = false;
        let is_turn = || {
            let state = context.load(lock.shared(STATE))?;
            let ahead = Self::number(mine.wrapping_sub(Self::next(state)));
            let is_turn =
                (ahead == 0 || context.omits(steps::AWAIT_TURN)) && self.has_permit(context, state);
            if !is_turn && !is_queued {
                is_queued = true;
                lock.statistics.queued(ahead.max(1));
            }
            Ok(is_turn)
        };
        lock.poll(context, TimeLimit::Unlimited, is_turn)?;
        self.enter(lock, context)
    }

    fn release(&self, lock: &LockWords, context: &Context) -> Result<()> {
        let published = lock.publish(context);
        context.fetch_add(lock.shared(STATE), 1u64.wrapping_neg())?;
        published
    }
}

/// A counting lock: at most `permits` ranks hold it at a time, in the order in which they asked.
///
/// A rank holds one permit of a semaphore at most. The loss of a member poisons it
/// ([`Error::Poisoned`]) as it does every lock, until [`Semaphore::recover`].
///
/// ```
/// use farside::{Rank, Semaphore};
///
/// farside::local(4, |world| {
///     let semaphore = Semaphore::new(world, Rank(0), 2)?;
///     let inside = world.words(1)?;
///     for _ in 0..50 {
///         let permit = semaphore.acquire(world)?;
///         assert!(world.fetch_add(inside.at(Rank(0), 0), 1)? < 2);
///         world.fetch_add(inside.at(Rank(0), 0), u64::MAX)?;
///         permit.release()?;
///     }
///     world.barrier()?;
///     inside.free(world)?;
///     semaphore.free(world)
/// })
/// .unwrap();
/// ```
#[must_use = "a semaphore that is dropped without `free` keeps its memory until the job ends"]
pub struct Semaphore {
    lock: Lock,
    permits: u32,
}

impl Semaphore {
    /// Makes a semaphore for all ranks, in the memory of `home`. Collective.
    pub fn new(world: &World, home: Rank, permits: u32) -> Result<Semaphore> {
        Semaphore::for_team(&world.team(), home, permits)
    }

    /// Makes a semaphore for the members of a team. Collective over the team.
    pub fn for_team(team: &Team<'_>, home: Rank, permits: u32) -> Result<Semaphore> {
        let lock = Lock::for_team(team, home, &Kind::Semaphore { permits })?;
        Ok(Semaphore { lock, permits })
    }

    /// Returns how many ranks may hold it at a time.
    pub fn permits(&self) -> u32 {
        self.permits
    }

    /// Returns what this rank has done with it so far.
    pub fn statistics(&self) -> Statistics {
        self.lock.statistics()
    }

    /// Waits until this rank has a permit.
    pub fn acquire<'a>(&'a self, context: &'a Context) -> Result<Permit<'a>> {
        self.lock.lock(context).map(|guard| Permit { guard })
    }

    /// Takes a permit if one is left and no rank waits for it.
    ///
    /// ```
    /// # use farside::{Rank, Semaphore};
    /// # farside::local(2, |world| {
    /// let semaphore = Semaphore::new(world, Rank(0), 1)?;
    /// if world.rank() == Rank(0) {
    ///     let permit = semaphore.acquire(world)?;
    ///     world.barrier()?;
    ///     world.barrier()?;
    ///     permit.release()?;
    /// } else {
    ///     world.barrier()?;
    ///     assert!(semaphore.try_acquire(world)?.is_none());
    ///     world.barrier()?;
    /// }
    /// # semaphore.free(world) }).unwrap();
    /// ```
    pub fn try_acquire<'a>(&'a self, context: &'a Context) -> Result<Option<Permit<'a>>> {
        Ok(self.lock.try_lock(context)?.map(|guard| Permit { guard }))
    }

    /// Waits for a permit for at most `time`; then [`Error::TimedOut`]. Requests without a limit go
    /// first.
    pub fn acquire_timeout<'a>(
        &'a self,
        context: &'a Context,
        time: Duration,
    ) -> Result<Permit<'a>> {
        self.lock.lock_timeout(context, time).map(|guard| Permit { guard })
    }

    /// Makes a poisoned semaphore usable again, with all permits. Collective over `survivors`; see
    /// [`Lock::recover`].
    pub fn recover<'t>(&mut self, survivors: impl Into<Team<'t>>) -> Result<()> {
        self.lock.recover(survivors)
    }

    /// Gives its memory back. Collective over the members. It is an error if one of them still has
    /// a permit.
    pub fn free<'t>(self, team: impl Into<Team<'t>>) -> Result<()> {
        self.lock.free(team)
    }
}

/// Holds a permit until dropped.
#[must_use = "the permit is given back as soon as it is dropped"]
pub struct Permit<'a> {
    guard: Guard<'a>,
}

impl Permit<'_> {
    /// Gives the permit back, and tells what dropping it could not: that something written under it
    /// was lost, or that the semaphore is poisoned.
    pub fn release(self) -> Result<()> {
        self.guard.unlock()
    }
}

pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "semaphore",
    about: "as many holders as it has permits, in turn",
    kind: || Kind::Semaphore { permits: 1 },
    needs_agent: false,
}];

#[cfg(test)]
mod tests {
    use super::*;

    /// Enters and leaves again and again, past the end of every field.
    fn past_every_end<const BITS: u32>(from: u64, rounds: u64) {
        let mut state = from << (64 - BITS);
        for ticket in from..from + rounds {
            assert_eq!(
                Counting::<BITS>::next(state),
                Counting::<BITS>::number(ticket),
                "ticket {ticket}"
            );
            state = state.wrapping_add(Counting::<BITS>::ENTRY);
            assert_eq!(Counting::<BITS>::inside(state), 1, "ticket {ticket}");
            state -= 1;
        }
    }

    #[test]
    fn no_field_of_a_semaphore_runs_into_another() {
        past_every_end::<2>(0, 100);
        past_every_end::<TICKET_BITS>((1 << TICKET_BITS) - 3, 10);
    }
}
