//! Server-queue lock: the agent of the home's node keeps the queue, and grants the lock by a signal
//! to the waiter's own word.
//!
//! Paper:     [ARMCI03] section 3.2.1, the server-based half of the existing lock.
//! Differs:   the answer to a request says whether it was granted or queued, so that an uncontended
//!            request waits for one message only; a waiter can ask to be taken off the queue again.
//!            A release waits for the agent's answer.
//! State:     the holder and the queue (`desk`) in words of the home, which any process of its node
//!            finds there; 1 word on every rank.
//! Invariant: the lock has a holder as long as anybody is queued; entry in the order in which the
//!            agent served the requests.
//! Ordering:  release flushes first (`a_server_without_flush_is_caught`).
//! Cost:      acquire 1 call, +1 signal by the agent if queued; release 1 call.
//! Checked:   `farside check 'lock/server*'`: 3 ranks x 1 round exhaustively, on one node and on
//!            three; 2 ranks with time limits, and with a death; 8 and 16 ranks on three levels,
//!            some with time limits, PCT depth 3.

use std::cell::Cell;
use std::marker::PhantomData;

use farside_fabric::{Agent, Atomic, Error, HandlerId, PeerState, Rank, Result, Word};
use farside_rma::{Context, Words, World};

use super::desk::{self, Desk, Entry};
use super::frame::{Algorithm, Patience, Site, Standing, Variant};

/// The number of the last request that was granted after it was queued.
const GRANTED: usize = 0;
/// At the home: who has the lock, as `desk` names ranks.
const HOLDER: usize = 1;
const QUEUE: usize = 2;

/// How many words every rank has.
pub(super) fn words(ranks: u32) -> usize {
    QUEUE + desk::words(ranks)
}

/// What is asked of the agent, in the first byte; the rest says who is home, and the number of the
/// request.
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

/// Answers a request, with what is kept at the home.
fn serve(agent: &dyn Agent, home: Word, from: Rank, what: u8, request: u64) -> Result<Vec<u8>> {
    let desk = Desk::new(agent, home, QUEUE);
    let holder = desk::whose(desk.atomic(HOLDER, Atomic::Load)?);
    let hold =
        |rank: Option<Rank>| desk.atomic(HOLDER, Atomic::Store(rank.map_or(0, desk::name).into()));
    let mut answer = vec![NO];
    match what {
        ASK | TRY if holder.is_none() => {
            hold(Some(from))?;
            answer[0] = YES;
        }
        ASK => {
            let length = desk.push(Entry { rank: from, request, ticket: 0 })?;
            answer.extend(length.to_le_bytes());
        }
        CANCEL if desk.remove(from)? => answer[0] = YES,
        RELEASE if holder != Some(from) => answer[0] = NOT_YOURS,
        RELEASE => {
            let next = desk.pop()?;
            hold(next.map(|entry| entry.rank))?;
            if let Some(Entry { rank, request, .. }) = next {
                desk.grant(rank, GRANTED, request);
                answer.extend(u64::from(rank.0).to_le_bytes());
            }
        }
        RESET => {
            desk.clear()?;
            hold(None)?;
        }
        _ => {}
    }
    Ok(answer)
}

impl<V: Variant> Server<V> {
    pub(super) fn new(site: Site, world: &World) -> Result<Server<V>> {
        let handler = handler::<V>(&site, world, serve)?;
        Ok(Server { site, handler, requests: Cell::new(0), variant: PhantomData })
    }

    fn ask(&self, context: &Context, what: u8) -> Result<(u8, Option<u64>)> {
        call::<V>(context, self.site.home(), self.handler, what, self.requests.get())
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
        let request = next_request::<V>(&self.requests);
        await_grant::<V>(&self.site, context, (GRANTED, request), patience, |what| {
            self.ask(context, what)
        })
    }

    fn release(&self, context: &Context) -> Result<()> {
        let published = self.site.publish::<V>(context);
        match self.ask(context, RELEASE)? {
            (NOT_YOURS, _) => Err(Error::Misuse(format!(
                "{} does not have the lock that it releases",
                context.rank()
            ))),
            (_, next) => {
                if let Some(next) = next {
                    self.site.tally.passed(context, Rank(next as u32));
                }
                published
            }
        }
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

/// Asks an agent for the lock, and waits until the word `granted` bears the number of the request
/// if it is queued.
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
    let in_time =
        site.wait_patiently(context, granted, |number| number == request, (patience, true))?;
    if in_time.is_none() && ask(CANCEL)?.0 == YES {
        return Ok(false);
    }
    // If it was too late to cancel, the grant is on its way.
    site.wait(context, granted, |number| number == request)?;
    Ok(true)
}

/// Whether somebody of a rank's node is there to run handlers, and the rank's memory can be used.
pub(super) fn has_agent(context: &Context, rank: Rank) -> bool {
    let node = context.topology().node_of(rank);
    context.job().check_agent(node).is_ok() && !context.is_lost(rank)
}

/// The members of a lock, and the ranks in whose processes its handler may run: if one of those is
/// killed, nobody knows what the handler has left behind, so that poisons the lock, too.
pub(super) fn with_agents(context: &Context, home: Rank, members: &[Rank]) -> Vec<Rank> {
    let near = context.topology().ranks_of(context.topology().node_of(home));
    let is_there =
        |rank: &&Rank| context.peer_state(**rank) == PeerState::Alive && !members.contains(rank);
    members.iter().chain(near.iter().filter(is_there)).copied().collect()
}

/// What answers a request: gets the lock's first word at the home, who asks for what, and the
/// number of the request.
type Serve = fn(&dyn Agent, Word, Rank, u8, u64) -> Result<Vec<u8>>;

/// Requests are numbered in the lowest bits, from one on; above them stands the home's rank.
const fn request_mask<V: Variant>() -> u64 {
    (1 << V::REQUEST_BITS) - 1
}

/// The number of a rank's next request.
pub(super) fn next_request<V: Variant>(requests: &Cell<u64>) -> u64 {
    requests.set(requests.get() % request_mask::<V>() + 1);
    requests.get()
}

/// Gives the agents the handler of a lock. It keeps nothing itself: any process of the home's node
/// may be the next to run it.
pub(super) fn handler<V: Variant>(site: &Site, world: &World, serve: Serve) -> Result<HandlerId> {
    let base = site.shared(0).word();
    world.serve(move |agent, from, bytes| {
        let Some((&what, rest)) = bytes.split_first() else {
            return Vec::new();
        };
        // After the home was lost, requests name the new one.
        let packed = number(rest).unwrap_or(0);
        let home = Word { rank: Rank((packed >> V::REQUEST_BITS) as u32), ..base };
        serve(agent, home, from, what, packed & request_mask::<V>()).unwrap_or_default()
    })
}

/// Asks the agent of the home's node; returns its answer and the number that may come with it.
pub(super) fn call<V: Variant>(
    context: &Context,
    home: Rank,
    handler: HandlerId,
    what: u8,
    request: u64,
) -> Result<(u8, Option<u64>)> {
    let mut bytes = vec![what];
    bytes.extend(((u64::from(home.0) << V::REQUEST_BITS) | request).to_le_bytes());
    let answer = context.call(context.topology().node_of(home), handler, &bytes)?;
    match answer.split_first() {
        Some((&first, rest)) => Ok((first, number(rest))),
        None => Err(Error::Misuse("the agent gave no answer to a request for a lock".into())),
    }
}

fn number(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}
