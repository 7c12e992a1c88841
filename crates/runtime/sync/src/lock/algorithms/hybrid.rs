//! Hybrid lock: near ranks take a ticket themselves, for far ranks the agent of the home's node
//! takes one and keeps a queue.
//!
//! Paper:     [ARMCI03] section 3.2.1, figures 3 and 4: the lock that ARMCI had.
//! Differs:   near requests with a time limit take no ticket until it would be called at once; the
//!            ticket of a cancelled far request is its rank's again if it asks again, else the
//!            agent calls the next in its turn; a release waits for the agent's answer, and that of
//!            `hybrid-posted` does not, as in the paper. Where the network interface has atomics of
//!            its own, which the agent's do not exclude, near ranks ask the agent like far ones.
//! State:     2 words (next ticket, now serving) and the queue of far tickets (`server_queue`) at
//!            the home rank, where any process of its node finds them; 1 word on every rank.
//! Invariant: serving <= ticket, and only the agent changes what is being served; the holder is the
//!            rank whose ticket that is.
//! Ordering:  release flushes first (lock/hybrid-without-flush); a near ticket is taken in one step
//!            (lock/hybrid-in-two-steps).
//! Cost:      near: acquire 1 atomic and, for each look at what is being served, 1 load. Far:
//!            acquire 1 call, +1 signal by the agent if queued. Release 1 call.
//! Checked:   `farside check 'lock/hybrid*'`: all schedules of small jobs, with requests
//!            of 2 bits too; 8 and 16 ranks on three levels, some with time limits, PCT depth 3.
//!            Requests from before a recovery: `a_request_from_before_a_recovery_is_dropped`.

use std::time::Duration;

use farside_fabric::{Atomic, Rank, Result};
use farside_rma::{Context, or_free};

use super::Kind;
use super::ticket::{self, SERVING, TICKET, take_turn};
use crate::lock::agent::{self, Answer, Ask, Client, Release, Request, Service};
use crate::lock::frame::{Algorithm, LockWords, TimeLimit};
use crate::lock::registry::{Entry, Made, Maker};
use crate::lock::server_queue::{Entry as Waiter, ServerQueue};

/// The number of the last request that was granted after it was queued.
const GRANTED: usize = 2;
const QUEUE: usize = 3;

/// The number of no request.
const CANCELLED: u64 = 0;

const REQUEST_BITS: u32 = 40;

struct Hybrid {
    client: Client,
    release: Release,
}

pub(super) fn make(maker: &Maker<'_>) -> Result<Made<dyn Algorithm>> {
    build(maker, Release::Awaited)
}

pub(super) fn make_posted(maker: &Maker<'_>) -> Result<Made<dyn Algorithm>> {
    build(maker, Release::Posted)
}

fn build(maker: &Maker<'_>, release: Release) -> Result<Made<dyn Algorithm>> {
    let world = maker.world()?;
    let request_bits = maker.bits(REQUEST_BITS, 2);
    let service = Service { queue: QUEUE, granted: GRANTED, request_bits, serve };
    let (words, client) = or_free(
        maker.words(agent::words(QUEUE, world.size()))?,
        |words| words.into_words().free(maker.team),
        |_| Client::new(world, service),
    )?;
    Ok(Made { words, algorithm: Box::new(Hybrid { client, release }) })
}

/// Answers a far request, as the agent, with far tickets in their order. [ARMCI03 figures 3 and 4]
fn serve(queue: &ServerQueue<'_>, Request { from, ask, number }: Request) -> Result<Answer> {
    match ask {
        Ask::Acquire => {
            let serving = queue.atomic(SERVING, Atomic::Load)?;
            let ticket = match queue.entry_of(from)? {
                // It has cancelled a request whose turn has not come.
                Some(Waiter { ticket, .. }) => {
                    queue.renumber(from, number)?;
                    ticket
                }
                None => {
                    let ticket = queue.atomic(TICKET, Atomic::Add(1))?;
                    if ticket == serving {
                        return Ok(Answer::YES);
                    }
                    queue.push(Waiter { rank: from, request: number, ticket })?;
                    ticket
                }
            };
            Ok(Answer { number: Some(ticket.wrapping_sub(serving)), ..Answer::NO })
        }
        Ask::Attempt => {
            let now = queue.atomic(SERVING, Atomic::Load)?;
            let op =
                Atomic::CompareSwap { expected: now.into(), desired: now.wrapping_add(1).into() };
            Ok(Answer { is_granted: queue.atomic(TICKET, op)? == now, number: None })
        }
        Ask::Cancel => match queue.entry_of(from)? {
            Some(Waiter { request, .. }) if request != CANCELLED => {
                queue.renumber(from, CANCELLED)?;
                Ok(Answer::YES)
            }
            _ => Ok(Answer::NO),
        },
        Ask::Release => {
            let next = call_next(queue)?;
            Ok(Answer { number: next.map(|rank| rank.0.into()), ..Answer::YES })
        }
    }
}

/// Calls the next ticket, and the one after it as long as its request was cancelled.
fn call_next(queue: &ServerQueue<'_>) -> Result<Option<Rank>> {
    loop {
        let serving = queue.atomic(SERVING, Atomic::Add(1))?.wrapping_add(1);
        if queue.first()?.is_none_or(|first| first.ticket != serving) {
            return Ok(None);
        }
        if let Some(Waiter { rank, request, .. }) =
            queue.pop()?.filter(|first| first.request != CANCELLED)
        {
            queue.grant(rank, GRANTED, request);
            return Ok(Some(rank));
        }
    }
}

/// Returns whether a rank takes tickets itself: it is near, and its atomics and those of the agent
/// exclude each other.
fn takes_tickets(lock: &LockWords, context: &Context) -> bool {
    context.job().caps.cpu_coherent && context.topology().same_node(context.rank(), lock.home())
}

impl Algorithm for Hybrid {
    fn attempt(&self, lock: &LockWords, context: &Context) -> Result<bool> {
        if takes_tickets(lock, context) {
            // A release of this rank's own may not have been executed yet.
            context.finish_calls()?;
            ticket::attempt(lock, context)
        } else {
            self.client.acquire(lock, context, TimeLimit::DoNotWait)
        }
    }

    fn acquire(&self, lock: &LockWords, context: &Context) -> Result<()> {
        if takes_tickets(lock, context) {
            take_turn(lock, context)
        } else {
            self.client.acquire(lock, context, TimeLimit::Unlimited).map(drop)
        }
    }

    fn acquire_within(&self, lock: &LockWords, context: &Context, time: Duration) -> Result<bool> {
        let limit = TimeLimit::AtMost(time);
        if takes_tickets(lock, context) {
            context.finish_calls()?;
            lock.poll(context, limit, || ticket::attempt(lock, context))
        } else {
            self.client.acquire(lock, context, limit)
        }
    }

    fn release(&self, lock: &LockWords, context: &Context) -> Result<()> {
        let published = lock.publish(context);
        match self.release {
            Release::Awaited => self.client.release(lock, context).map(drop)?,
            Release::Posted => self.client.post_release(lock, context)?,
        }
        published
    }

    fn concerned(&self, context: &Context, home: Rank, members: &[Rank]) -> Vec<Rank> {
        agent::with_agents(context, home, members)
    }

    fn can_be_home(&self, context: &Context, rank: Rank) -> bool {
        agent::has_agent(context, rank)
    }
}

pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "hybrid",
    about: "near ranks take tickets themselves, for far ranks the agent does",
    kind: || Kind::Hybrid,
    needs_agent: true,
}];
