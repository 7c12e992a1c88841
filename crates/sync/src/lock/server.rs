//! Server-queue lock: the agent of the home's node keeps the queue, and grants the lock by a signal to the waiter's own word.
//!
//! Paper:     [ARMCI03] section 3.2.1, the server-based half of the existing lock.
//! Differs:   the answer to a request says whether it was granted or queued, so that an uncontended request waits for one message only; a waiter
//!            can ask to be taken off the queue again. A release waits for the agent's answer.
//! State:     the queue at the agent; 1 word on every rank.
//! Invariant: the lock has a holder as long as anybody is queued; entry in the order in which the agent served the requests.
//! Ordering:  release flushes first (`a_server_without_flush_is_caught`).
//! Cost:      acquire 1 call, +1 signal by the agent if queued; release 1 call.
//! Checked:   `farside check 'lock/server*'`: 3 ranks x 1 round exhaustively, on one node and on three; 2 ranks with time limits, and with a death;
//!            8 and 16 ranks on three levels, some with time limits, PCT depth 3.

use std::cell::Cell;
use std::collections::VecDeque;
use std::marker::PhantomData;

use farside_fabric::{Agent, Atomic, Error, Fate, HandlerId, Rank, Result, Word};
use farside_rma::{Context, Words, World};

use super::frame::{Algorithm, Patience, Site, Standing, Variant};

pub(super) const WORDS: usize = 1;
/// The number of the last request that was granted after it was queued.
const GRANTED: usize = 0;

/// What is asked of the agent, in the first byte; the rest is the number of the request.
pub(super) const ASK: u8 = 0;
pub(super) const TRY: u8 = 1;
pub(super) const CANCEL: u8 = 2;
pub(super) const RELEASE: u8 = 3;
pub(super) const RESET: u8 = 4;

/// What it answers.
pub(super) const YES: u8 = 1;
pub(super) const NO: u8 = 0;
const NOT_YOURS: u8 = 2;

pub(super) struct Server<V> {
    site: Site,
    handler: HandlerId,
    /// How many requests this rank has made.
    requests: Cell<u64>,
    variant: PhantomData<V>,
}

/// What the agent keeps.
#[derive(Default)]
struct Desk {
    holder: Option<Rank>,
    queue: VecDeque<(Rank, u64)>,
}

impl Desk {
    fn serve(&mut self, agent: &dyn Agent, word: Word, from: Rank, what: u8, request: u64) -> Vec<u8> {
        let mut answer = vec![NO];
        match what {
            ASK | TRY if self.holder.is_none() => {
                self.holder = Some(from);
                answer[0] = YES;
            }
            ASK => {
                self.queue.push_back((from, request));
                answer.extend((self.queue.len() as u64).to_le_bytes());
            }
            CANCEL => {
                let at = self.queue.iter().position(|&(rank, _)| rank == from);
                if let Some(at) = at {
                    self.queue.remove(at);
                    answer[0] = YES;
                }
            }
            RELEASE if self.holder != Some(from) => answer[0] = NOT_YOURS,
            RELEASE => {
                let next = self.queue.pop_front();
                self.holder = next.map(|(rank, _)| rank);
                if let Some((rank, request)) = next {
                    // Should that fail, the rank is lost, and all who wait hear of it.
                    let _ = agent.post(Word { rank, ..word }, Atomic::Store(request.into()));
                    answer.extend(u64::from(rank.0).to_le_bytes());
                }
            }
            RESET => *self = Desk::default(),
            _ => {}
        }
        answer
    }
}

impl<V: Variant> Server<V> {
    pub(super) fn new(site: Site, world: &World) -> Result<Server<V>> {
        let word = site.shared(GRANTED).word();
        let mut desk = Desk::default();
        let handler = world.serve(move |agent, from, bytes| {
            let Some((&what, request)) = bytes.split_first() else {
                return Vec::new();
            };
            desk.serve(agent, word, from, what, number(request).unwrap_or(0))
        })?;
        Ok(Server { site, handler, requests: Cell::new(0), variant: PhantomData })
    }

    fn ask(&self, context: &Context, what: u8) -> Result<(u8, Option<u64>)> {
        let node = context.topology().node_of(self.site.home());
        call(context, node, self.handler, what, self.requests.get())
    }
}

impl<V: Variant> Algorithm for Server<V> {
    fn name(&self) -> &'static str {
        "server"
    }

    fn site(&self) -> &Site {
        &self.site
    }

    fn acquire(&self, context: &Context, patience: Patience) -> Result<bool> {
        let request = self.requests.get() + 1;
        self.requests.set(request);
        await_grant::<V>(&self.site, context, (GRANTED, request), patience, |what| self.ask(context, what))
    }

    fn release(&self, context: &Context) -> Result<()> {
        let published = self.site.publish::<V>(context);
        match self.ask(context, RELEASE)? {
            (NOT_YOURS, _) => Err(Error::Misuse(format!("{} does not have the lock that it releases", context.rank()))),
            (_, next) => {
                if let Some(next) = next {
                    self.site.tally.passed(context, Rank(next as u32));
                }
                published
            }
        }
    }

    fn reset(&mut self, context: &Context, home: Rank, members: &[Rank]) -> Result<()> {
        self.site.change(home, members);
        // The words are zero again, so the requests are numbered from the start.
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

/// Asks an agent for the lock, and waits until the word `granted` bears the number of the request if it is queued.
pub(super) fn await_grant<V: Variant>(
    site: &Site,
    context: &Context,
    (granted, request): (usize, u64),
    patience: Patience,
    ask: impl Fn(u8) -> Result<(u8, Option<u64>)>,
) -> Result<bool> {
    if patience == Patience::Never {
        return Ok(ask(TRY)?.0 == YES);
    }
    let (answer, ahead) = ask(ASK)?;
    if answer == YES {
        return Ok(true);
    }
    V::waits(context, Standing::Queued(0))?;
    site.tally.queued(ahead.unwrap_or(1));
    let in_time = site.wait_patiently(context, granted, |number| number == request, (patience, true))?;
    if in_time.is_none() && ask(CANCEL)?.0 == YES {
        return Ok(false);
    }
    // If it was too late to cancel, the grant is on its way.
    site.wait(context, granted, |number| number == request)?;
    Ok(true)
}

/// Whether the agent of a rank's node lives.
pub(super) fn has_agent(context: &Context, rank: Rank) -> bool {
    let topology = context.topology();
    let leader = topology.leader_of(topology.node_of(rank));
    leader.is_ok_and(|leader| context.fabric().fate(leader) == Fate::Alive)
        && !matches!(context.fabric().fate(rank), Fate::Lost(_))
}

/// Asks an agent; returns its answer and the number that may come with it.
pub(super) fn call(
    context: &Context,
    node: farside_fabric::Node,
    handler: HandlerId,
    what: u8,
    request: u64,
) -> Result<(u8, Option<u64>)> {
    let mut bytes = vec![what];
    bytes.extend(request.to_le_bytes());
    let answer = context.call(node, handler, &bytes)?;
    match answer.split_first() {
        Some((&first, rest)) => Ok((first, number(rest))),
        None => Err(Error::Misuse("the agent gave no answer to a request for a lock".into())),
    }
}

pub(super) fn number(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}
