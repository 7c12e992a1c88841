//! Ticket lock: who comes takes the next number and waits until it is called.
//!
//! Paper:     [ARMCI03] section 3.2.1, the ticket-based half of the existing lock.
//! Differs:   a request with a time limit takes no number until it would be called at once, because
//!            a number cannot be given back. Where ranks outnumber processors, who is far back
//!            sleeps for a time between two looks that grows with the numbers before its own.
//! State:     2 words (next ticket, now serving) at the home rank, and 1 on every rank that nobody
//!            writes.
//! Invariant: serving <= ticket; the holder is the one whose number is being served.
//! Ordering:  release flushes first (`a_ticket_without_flush_is_caught`); a number is taken in one
//!            step (`a_ticket_that_is_taken_in_two_steps_is_caught`).
//! Cost:      acquire 1 atomic and, for each look at what is being served, 1 load; release 1
//!            atomic.
//! Checked:   `farside check 'lock/ticket*'`: 3 ranks x 1 round exhaustively, on one node and on
//!            three, with time limits, and with a death; 8 and 16 ranks on three levels, some with
//!            time limits, PCT depth 3.

use std::marker::PhantomData;
use std::time::Duration;

use farside_fabric::{Rank, Result};
use farside_rma::{Context, Words};

use super::frame::{Algorithm, Patience, Site, Standing, Variant};

pub(super) const WORDS: usize = 3;
pub(super) const TICKET: usize = 0;
pub(super) const SERVING: usize = 1;
/// Nobody writes it: a wait for it is a pause.
const PAUSE: usize = 2;

/// How many look for their number all the time where ranks outnumber processors. Those behind them
/// sleep for about as long as their turn is away: if all looked, whose turn it is would have to
/// wait for a processor until all others have had theirs.
const LOOKING: u64 = 8;
const TURN: Duration = Duration::from_micros(5);
const TURNS_MAX: u32 = 200;

pub(super) struct Ticket<V> {
    site: Site,
    variant: PhantomData<V>,
}

impl<V: Variant> Ticket<V> {
    pub(super) fn new(site: Site) -> Ticket<V> {
        Ticket { site, variant: PhantomData }
    }
}

impl<V: Variant> Algorithm for Ticket<V> {
    fn name(&self) -> &'static str {
        "ticket"
    }

    fn site(&self) -> &Site {
        &self.site
    }

    fn acquire(&self, context: &Context, patience: Patience) -> Result<bool> {
        take_turn::<V>(&self.site, context, PAUSE, patience)
    }

    fn release(&self, context: &Context) -> Result<()> {
        let published = self.site.publish::<V>(context);
        context.fetch_add(self.site.shared(SERVING), 1)?;
        published
    }

    fn reset(&mut self, _context: &Context, home: Rank, members: &[Rank]) -> Result<()> {
        self.site.change(home, members);
        Ok(())
    }

    fn into_words(self: Box<Self>) -> Words {
        self.site.into_words()
    }
}

/// Takes a number and waits until it is called, or tries until time is up.
pub(super) fn take_turn<V: Variant>(
    site: &Site,
    context: &Context,
    pause: usize,
    patience: Patience,
) -> Result<bool> {
    let (tickets, serving) = (site.shared(TICKET), site.shared(SERVING));
    if patience != Patience::Forever {
        let attempt = || {
            let now = context.load(serving)?;
            // Nobody is served beyond the tickets taken: if the next ticket is this one, it is
            // being served.
            Ok(context.load(tickets)? == now
                && context.compare_swap(tickets, now, now.wrapping_add(1))? == now)
        };
        return site.poll(context, pause, patience, attempt);
    }
    let mine = if V::TAKES_AT_ONCE {
        context.fetch_add(tickets, 1)?
    } else {
        let mine = context.load(tickets)?;
        context.store(tickets, mine.wrapping_add(1))?;
        mine
    };
    V::waits(context, Standing::Queued(0))?;
    let mut is_queued = false;
    site.poll(context, pause, Patience::Forever, || {
        let mut ahead = mine.wrapping_sub(context.load(serving)?);
        if ahead > LOOKING && context.is_crowded(site.members()) {
            let time = TURN * u32::try_from(ahead - LOOKING).unwrap_or(u32::MAX).min(TURNS_MAX);
            let slept =
                site.wait_patiently(context, pause, |_| false, (Patience::AtMost(time), false));
            // What happened before a departure counts: who left may have done its part.
            ahead = mine.wrapping_sub(context.load(serving)?);
            if ahead != 0 {
                slept?;
            }
        }
        if ahead != 0 && !is_queued {
            is_queued = true;
            site.tally.queued(ahead);
        }
        Ok(ahead == 0)
    })
}
