//! Hybrid lock: near ranks take a ticket themselves, for far ranks the agent of the home's node takes one and keeps a queue.
//!
//! Paper:     [ARMCI03] section 3.2.1, figures 3 and 4: the lock that ARMCI had.
//! Differs:   near requests with a time limit take no ticket until it would be called at once; the ticket of a far request that is cancelled stays,
//!            and the agent calls the next when its turn comes. A release waits for the agent's answer.
//! State:     2 words (next ticket, now serving) at the home rank, the queue of far tickets at the agent; 2 words on every rank, of which
//!            nobody writes one.
//! Invariant: serving <= ticket, and only the agent changes what is being served; the holder is the one whose ticket that is.
//! Ordering:  release flushes first (`a_hybrid_without_flush_is_caught`); a near ticket is taken in one step
//!            (`a_hybrid_whose_ticket_is_taken_in_two_steps_is_caught`).
//! Cost:      near: acquire 1 atomic and, for each look at what is being served, 1 load. Far: acquire 1 call, +1 signal by the agent if queued.
//!            Release 1 call.
//! Checked:   `farside check 'lock/hybrid*'`: 3 ranks x 1 round exhaustively, on one node (all near) and on three (one near); 2 near ranks with time
//!            limits, and with a death; 8 and 16 ranks on three levels, some with time limits, PCT depth 3.

use std::cell::Cell;
use std::collections::VecDeque;
use std::marker::PhantomData;

use farside_fabric::{Agent, Atomic, HandlerId, Rank, Result, Word};
use farside_rma::{Context, Words, World};

use super::frame::{Algorithm, Patience, Site, Variant};
use super::server::{ASK, CANCEL, NO, RELEASE, RESET, TRY, YES, await_grant, call, has_agent, number};
use super::ticket::{SERVING, TICKET, take_turn};

pub(super) const WORDS: usize = 4;
/// Nobody writes it: a wait for it is a pause.
const PAUSE: usize = 2;
/// The number of the last request that was granted after it was queued.
const GRANTED: usize = 3;

pub(super) struct Hybrid<V> {
    site: Site,
    handler: HandlerId,
    /// How many requests this rank has made of the agent.
    requests: Cell<u64>,
    variant: PhantomData<V>,
}

/// What the agent keeps: far tickets in their order, with whom they are for; those that were cancelled are for nobody.
#[derive(Default)]
struct Desk {
    queue: VecDeque<(u64, Option<(Rank, u64)>)>,
}

impl Desk {
    fn serve(&mut self, agent: &dyn Agent, word: Word, from: Rank, what: u8, request: u64) -> Result<Vec<u8>> {
        let at = |index: usize| Word { offset: word.offset + 8 * index as u64, ..word };
        let atomic = |index: usize, op| agent.atomic(at(index), op).map(|held| held as u64);
        match what {
            ASK => {
                let ticket = atomic(TICKET, Atomic::Add(1))?;
                let ahead = ticket.wrapping_sub(atomic(SERVING, Atomic::Load)?);
                if ahead == 0 {
                    return Ok(vec![YES]);
                }
                self.queue.push_back((ticket, Some((from, request))));
                let mut answer = vec![NO];
                answer.extend(ahead.to_le_bytes());
                Ok(answer)
            }
            TRY => {
                let now = atomic(SERVING, Atomic::Load)?;
                let op = Atomic::CompareSwap { expected: now.into(), desired: now.wrapping_add(1).into() };
                Ok(vec![if atomic(TICKET, op)? == now { YES } else { NO }])
            }
            CANCEL => {
                let place = self.queue.iter_mut().find(|(_, whose)| whose.is_some_and(|(rank, _)| rank == from));
                Ok(vec![place.map_or(NO, |(_, whose)| {
                    *whose = None;
                    YES
                })])
            }
            RELEASE => {
                let passed = self.call_next(agent, &at)?;
                let mut answer = vec![YES];
                answer.extend(passed.map_or(vec![], |rank| u64::from(rank.0).to_le_bytes().to_vec()));
                Ok(answer)
            }
            RESET => {
                self.queue.clear();
                Ok(vec![YES])
            }
            _ => Ok(vec![NO]),
        }
    }

    /// Calls the next ticket, and the one after it as long as nobody wants them.
    fn call_next(&mut self, agent: &dyn Agent, at: &dyn Fn(usize) -> Word) -> Result<Option<Rank>> {
        loop {
            let serving = (agent.atomic(at(SERVING), Atomic::Add(1))? as u64).wrapping_add(1);
            if self.queue.front().is_none_or(|&(ticket, _)| ticket != serving) {
                return Ok(None);
            }
            if let Some((_, Some((rank, request)))) = self.queue.pop_front() {
                // Should that fail, the rank is lost, and all who wait hear of it.
                let _ = agent.post(Word { rank, ..at(GRANTED) }, Atomic::Store(request.into()));
                return Ok(Some(rank));
            }
        }
    }
}

impl<V: Variant> Hybrid<V> {
    pub(super) fn new(site: Site, world: &World) -> Result<Hybrid<V>> {
        let base = site.shared(0).word();
        let mut desk = Desk::default();
        // After the home was lost, requests name the new one.
        let handler = world.serve(move |agent, from, bytes| {
            let Some((&what, rest)) = bytes.split_first() else {
                return Vec::new();
            };
            let packed = number(rest).unwrap_or(0);
            let word = Word { rank: Rank((packed >> REQUEST_BITS) as u32), ..base };
            desk.serve(agent, word, from, what, packed & ((1 << REQUEST_BITS) - 1)).unwrap_or_default()
        })?;
        Ok(Hybrid { site, handler, requests: Cell::new(0), variant: PhantomData })
    }

    fn ask(&self, context: &Context, what: u8) -> Result<(u8, Option<u64>)> {
        let home = self.site.home();
        let packed = (u64::from(home.0) << REQUEST_BITS) | self.requests.get();
        call(context, context.topology().node_of(home), self.handler, what, packed)
    }

    fn ask_agent(&self, context: &Context, patience: Patience) -> Result<bool> {
        let request = (self.requests.get() + 1) & ((1 << REQUEST_BITS) - 1);
        self.requests.set(request);
        await_grant::<V>(&self.site, context, (GRANTED, request), patience, |what| self.ask(context, what))
    }
}

/// Requests are numbered in so many bits; above them stands the home's rank.
const REQUEST_BITS: u32 = 40;

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
        self.site.change(home, members);
        self.requests.set(0);
        if context.rank() == home { self.ask(context, RESET).map(drop) } else { Ok(()) }
    }

    fn can_be_home(&self, context: &Context, rank: Rank) -> bool {
        has_agent(context, rank)
    }

    fn into_words(self: Box<Self>) -> Words {
        self.site.into_words()
    }
}
