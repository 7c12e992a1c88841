//! Hybrid lock: near ranks take a ticket themselves, for far ranks the agent of the home's node
//! takes one and keeps a queue.
//!
//! Paper:     [ARMCI03] section 3.2.1, figures 3 and 4: the lock that ARMCI had.
//! Differs:   near requests with a time limit take no ticket until it would be called at once; the
//!            ticket of a far request that is cancelled stays: its rank gets it back if it asks
//!            again, and else the agent calls the next when its turn comes. A release waits for the
//!            agent's answer.
//! State:     2 words (next ticket, now serving) and the queue of far tickets (`desk`) at the home
//!            rank, where any process of its node finds them; 2 words on every rank, of which
//!            nobody writes one.
//! Invariant: serving <= ticket, and only the agent changes what is being served; the holder is the
//!            one whose ticket that is.
//! Ordering:  release flushes first (`a_hybrid_without_flush_is_caught`); a near ticket is taken in
//!            one step (`a_hybrid_whose_ticket_is_taken_in_two_steps_is_caught`).
//! Cost:      near: acquire 1 atomic and, for each look at what is being served, 1 load. Far:
//!            acquire 1 call, +1 signal by the agent if queued. Release 1 call.
//! Checked:   `farside check 'lock/hybrid*'`: 3 ranks x 1 round exhaustively, on one node (all
//!            near) and on three (one near); 2 near ranks with time limits, and with a death; 8 and
//!            16 ranks on three levels, some with time limits, PCT depth 3.

use std::cell::Cell;
use std::marker::PhantomData;

use farside_fabric::{Agent, Atomic, HandlerId, Rank, Result, Word};
use farside_rma::{Context, Words, World};

use super::desk::{self, Desk, Entry};
use super::frame::{Algorithm, Patience, Site, Variant};
use super::server::{
    ASK, CANCEL, NO, RELEASE, RESET, TRY, YES, await_grant, call, handler, has_agent, next_request,
    with_agents,
};
use super::ticket::{SERVING, TICKET, take_turn};

/// Nobody writes it: a wait for it is a pause.
const PAUSE: usize = 2;
/// The number of the last request that was granted after it was queued.
const GRANTED: usize = 3;
const QUEUE: usize = 4;

/// How many words every rank has.
pub(super) fn words(ranks: u32) -> usize {
    QUEUE + desk::words(ranks)
}

/// The number of no request.
const CANCELLED: u64 = 0;

pub(super) struct Hybrid<V> {
    site: Site,
    handler: HandlerId,
    /// How many requests this rank has made of the agent.
    requests: Cell<u64>,
    variant: PhantomData<V>,
}

/// Answers a request, with what is kept at the home: far tickets in their order, with whom they are
/// for.
fn serve(agent: &dyn Agent, home: Word, from: Rank, what: u8, request: u64) -> Result<Vec<u8>> {
    let desk = Desk::new(agent, home, QUEUE);
    match what {
        ASK => {
            let serving = desk.atomic(SERVING, Atomic::Load)?;
            let ticket = match desk.entry_of(from)? {
                // It has cancelled a request whose turn has not come.
                Some(Entry { ticket, .. }) => {
                    desk.renumber(from, request)?;
                    ticket
                }
                None => {
                    let ticket = desk.atomic(TICKET, Atomic::Add(1))?;
                    if ticket == serving {
                        return Ok(vec![YES]);
                    }
                    desk.push(Entry { rank: from, request, ticket })?;
                    ticket
                }
            };
            let mut answer = vec![NO];
            answer.extend(ticket.wrapping_sub(serving).to_le_bytes());
            Ok(answer)
        }
        TRY => {
            let now = desk.atomic(SERVING, Atomic::Load)?;
            let op =
                Atomic::CompareSwap { expected: now.into(), desired: now.wrapping_add(1).into() };
            Ok(vec![if desk.atomic(TICKET, op)? == now { YES } else { NO }])
        }
        CANCEL => match desk.entry_of(from)? {
            Some(Entry { request, .. }) if request != CANCELLED => {
                desk.renumber(from, CANCELLED)?;
                Ok(vec![YES])
            }
            _ => Ok(vec![NO]),
        },
        RELEASE => {
            let passed = call_next(&desk)?;
            let mut answer = vec![YES];
            answer.extend(passed.map_or(vec![], |rank| u64::from(rank.0).to_le_bytes().to_vec()));
            Ok(answer)
        }
        RESET => desk.clear().map(|()| vec![YES]),
        _ => Ok(vec![NO]),
    }
}

/// Calls the next ticket, and the one after it as long as nobody wants them.
fn call_next(desk: &Desk<'_>) -> Result<Option<Rank>> {
    loop {
        let serving = desk.atomic(SERVING, Atomic::Add(1))?.wrapping_add(1);
        if desk.first()?.is_none_or(|first| first.ticket != serving) {
            return Ok(None);
        }
        if let Some(Entry { rank, request, .. }) =
            desk.pop()?.filter(|first| first.request != CANCELLED)
        {
            desk.grant(rank, GRANTED, request);
            return Ok(Some(rank));
        }
    }
}

impl<V: Variant> Hybrid<V> {
    pub(super) fn new(site: Site, world: &World) -> Result<Hybrid<V>> {
        let handler = handler::<V>(&site, world, serve)?;
        Ok(Hybrid { site, handler, requests: Cell::new(0), variant: PhantomData })
    }

    fn ask(&self, context: &Context, what: u8) -> Result<(u8, Option<u64>)> {
        call::<V>(context, self.site.home(), self.handler, what, self.requests.get())
    }

    fn ask_agent(&self, context: &Context, patience: Patience) -> Result<bool> {
        let request = next_request::<V>(&self.requests);
        await_grant::<V>(&self.site, context, (GRANTED, request), patience, |what| {
            self.ask(context, what)
        })
    }
}

impl<V: Variant> Algorithm for Hybrid<V> {
    fn name(&self) -> &'static str {
        "hybrid"
    }

    fn site(&self) -> &Site {
        &self.site
    }

    fn acquire(&self, context: &Context, patience: Patience) -> Result<bool> {
        if context.topology().same_node(context.rank(), self.site.home()) {
            take_turn::<V>(&self.site, context, PAUSE, patience)
        } else {
            self.ask_agent(context, patience)
        }
    }

    fn release(&self, context: &Context) -> Result<()> {
        let published = self.site.publish::<V>(context);
        if let (_, Some(next)) = self.ask(context, RELEASE)? {
            self.site.tally.passed(context, Rank(next as u32));
        }
        published
    }

    fn reset(&mut self, context: &Context, home: Rank, members: &[Rank]) -> Result<()> {
        self.site.change(home, &with_agents(context, home, members));
        // Requests go on being numbered: a grant of one from before the loss may still be under
        // way.
        if context.rank() == home { self.ask(context, RESET).map(drop) } else { Ok(()) }
    }

    fn can_be_home(&self, context: &Context, rank: Rank) -> bool {
        has_agent(context, rank)
    }

    fn into_words(self: Box<Self>) -> Words {
        self.site.into_words()
    }
}
