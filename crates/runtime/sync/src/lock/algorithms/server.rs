//! Server-queue lock: the agent of the home's node keeps the queue, and grants the lock by a signal
//! to the waiter's own word.
//!
//! Paper:     [ARMCI03] section 3.2.1, the server-based half of the existing lock.
//! Differs:   the answer to a request says whether it was granted or queued, so that an uncontended
//!            request waits for one message only; a waiter can ask to be taken off the queue again;
//!            a release waits for the agent's answer, and that of `server-posted` does not, as in
//!            the paper.
//! State:     the holder and the queue (`server_queue`) in words of the home, which any process of
//!            its node finds there; 1 word on every rank.
//! Invariant: the lock has a holder as long as any rank is queued; entry in the order in which the
//!            agent served the requests.
//! Ordering:  release flushes first (lock/server-without-flush).
//! Cost:      acquire 1 call, +1 signal by the agent if queued; release 1 call.
//! Checked:   `farside check 'lock/server*'`: all schedules of small jobs; 8 and 16
//!            ranks on three levels, some with time limits, PCT depth 3. Requests from before a
//!            recovery: `a_request_from_before_a_recovery_is_dropped`.

use std::time::Duration;

use farside_fabric::{Atomic, Rank, Result};
use farside_rma::{Context, or_free};

use super::Kind;
use crate::lock::agent::{self, Answer, Ask, Client, Release, Request, Service};
use crate::lock::frame::{Algorithm, Handle, LockWords, TimeLimit};
use crate::lock::registry::{Entry, Made, Maker};
use crate::lock::server_queue::{Entry as Waiter, ServerQueue, name, whose};

/// The number of the last request that was granted after it was queued.
const GRANTED: usize = 0;
/// At the home: the rank that has the lock, as `server_queue` names ranks.
const HOLDER: usize = 1;
const QUEUE: usize = 2;

struct Server {
    client: Client,
    release: Release,
}

const SERVICE: Service = Service { queue: QUEUE, granted: GRANTED, request_bits: 40, serve };

pub(super) fn make(maker: &Maker<'_>) -> Result<Made<dyn Algorithm>> {
    build(maker, Release::Awaited)
}

pub(super) fn make_posted(maker: &Maker<'_>) -> Result<Made<dyn Algorithm>> {
    build(maker, Release::Posted)
}

fn build(maker: &Maker<'_>, release: Release) -> Result<Made<dyn Algorithm>> {
    let world = maker.world()?;
    let (words, client) = or_free(
        maker.words(agent::words(QUEUE, world.size()))?,
        |words| words.into_words().free(maker.team),
        |_| Client::new(world, SERVICE),
    )?;
    Ok(Made { words, algorithm: Box::new(Server { client, release }) })
}

/// Answers a request, as the agent. [ARMCI03 section 3.2.1]
fn serve(queue: &ServerQueue<'_>, Request { from, ask, number }: Request) -> Result<Answer> {
    let holder = whose(queue.atomic(HOLDER, Atomic::Load)?);
    let hold = |rank: Option<Rank>| {
        queue.atomic(HOLDER, Atomic::Store(rank.map_or(0, name).into())).map(drop)
    };
    match ask {
        Ask::Acquire | Ask::Attempt if holder.is_none() => {
            hold(Some(from))?;
            Ok(Answer::YES)
        }
        Ask::Acquire => {
            let length = queue.push(Waiter { rank: from, request: number, ticket: 0 })?;
            Ok(Answer { number: Some(length), ..Answer::NO })
        }
        Ask::Cancel if queue.remove(from)? => Ok(Answer::YES),
        Ask::Release if holder == Some(from) => {
            let next = queue.pop()?;
            hold(next.map(|next| next.rank))?;
            if let Some(Waiter { rank, request, .. }) = next {
                queue.grant(rank, GRANTED, request);
            }
            Ok(Answer { number: next.map(|next| next.rank.0.into()), ..Answer::YES })
        }
        Ask::Attempt | Ask::Cancel | Ask::Release => Ok(Answer::NO),
    }
}

impl Algorithm for Server {
    fn attempt(&self, lock: &LockWords, context: &Context) -> Result<bool> {
        self.client.acquire(lock, context, TimeLimit::DoNotWait)
    }

    fn acquire(&self, lock: &LockWords, context: &Context) -> Result<()> {
        self.client.acquire(lock, context, TimeLimit::Unlimited).map(drop)
    }

    fn acquire_within(&self, lock: &LockWords, context: &Context, time: Duration) -> Result<bool> {
        self.client.acquire(lock, context, TimeLimit::AtMost(time))
    }

    fn release(&self, lock: &LockWords, context: &Context) -> Result<()> {
        let published = lock.publish(context);
        if self.release == Release::Posted {
            self.client.post_release(lock, context)?;
        } else if !self.client.release(lock, context)? {
            return Err(Handle::not_held(context.rank()));
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
    name: "server",
    about: "the agent of the home's node keeps a queue",
    kind: || Kind::Server,
    needs_agent: true,
}];
