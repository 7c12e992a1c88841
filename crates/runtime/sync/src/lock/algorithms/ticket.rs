//! Ticket lock: a rank takes the next number and waits until that number is called.
//!
//! Paper:     [ARMCI03] section 3.2.1, the ticket-based half of the existing lock.
//! Differs:   a request with a time limit takes no number until it would be called at once: a
//!            number cannot be given back. On a crowded node, far-back ranks pause between looks.
//! State:     2 words (next ticket, now serving) at the home rank.
//! Invariant: serving <= ticket; the holder is the rank whose number is being served.
//! Ordering:  release flushes first (lock/ticket-without-flush); a number is taken in one step
//!            (lock/ticket-in-two-steps).
//! Cost:      acquire 1 atomic and, for each look at what is being served, 1 load; release 1
//!            atomic.
//! Checked:   `farside check 'lock/ticket*'`: all schedules of small jobs; 8 and 16
//!            ranks on three levels, some with time limits, PCT depth 3.

use std::time::Duration;

use farside_fabric::Result;
use farside_rma::Context;

use super::Kind;
use crate::lock::frame::{Algorithm, Crowding, LockWords, Standing, TimeLimit};
use crate::lock::registry::{Entry, Made, Maker};
use crate::lock::steps;

const WORDS: usize = 2;
pub(super) const TICKET: usize = 0;
pub(super) const SERVING: usize = 1;

/// How many ranks look for their number all the time on a crowded node. Those behind them pause for
/// about as long as their turn is away: if all looked, the rank whose turn it is would have to wait
/// for a processor until all others have had theirs.
const LOOKING: u64 = 8;
const TURN: Duration = Duration::from_micros(5);
const TURNS_MAX: u32 = 200;

struct Ticket;

pub(super) fn make(maker: &Maker<'_>) -> Result<Made<dyn Algorithm>> {
    Ok(Made { words: maker.words(WORDS)?, algorithm: Box::new(Ticket) })
}

impl Algorithm for Ticket {
    fn attempt(&self, lock: &LockWords, context: &Context) -> Result<bool> {
        attempt(lock, context)
    }

    fn acquire(&self, lock: &LockWords, context: &Context) -> Result<()> {
        take_turn(lock, context)
    }

    fn release(&self, lock: &LockWords, context: &Context) -> Result<()> {
        let published = lock.publish(context);
        context.fetch_add(lock.shared(SERVING), 1)?;
        published
    }
}

/// Takes the next number if it is being served.
pub(super) fn attempt(lock: &LockWords, context: &Context) -> Result<bool> {
    let tickets = lock.shared(TICKET);
    let now = context.load(lock.shared(SERVING))?;
    // No number beyond the tickets taken is served: if the next ticket is this one, it is being
    // served.
    Ok(context.load(tickets)? == now
        && context.compare_swap(tickets, now, now.wrapping_add(1))? == now)
}

pub(super) fn take_turn(lock: &LockWords, context: &Context) -> Result<()> {
    let (tickets, serving) = (lock.shared(TICKET), lock.shared(SERVING));
    let mine = if context.omits(steps::TAKE_AT_ONCE) {
        let mine = context.load(tickets)?;
        context.store(tickets, mine.wrapping_add(1))?;
        mine
    } else {
        context.fetch_add(tickets, 1)?
    };
    lock.waits(context, Standing::Queued(0))?;
    // This rank may be behind its own release, if that was posted: then no other has to be there.
    context.finish_calls()?;
    let mut is_queued = false;
    let is_called = || {
        let mut ahead = mine.wrapping_sub(context.load(serving)?);
        if ahead > LOOKING && lock.crowding(context) == Crowding::Crowded {
            let time = TURN * u32::try_from(ahead - LOOKING).unwrap_or(u32::MAX).min(TURNS_MAX);
            let paused = lock.pause(context, time);
            // What happened before a departure counts: the rank may have done its part.
            ahead = mine.wrapping_sub(context.load(serving)?);
            if ahead != 0 {
                paused?;
            }
        }
        if ahead != 0 && !is_queued {
            is_queued = true;
            lock.statistics.queued(ahead);
        }
        Ok(ahead == 0)
    };
    lock.poll(context, TimeLimit::Unlimited, is_called).map(drop)
}

pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "ticket",
    about: "numbers are taken and called",
    kind: || Kind::Ticket,
    needs_agent: false,
}];
