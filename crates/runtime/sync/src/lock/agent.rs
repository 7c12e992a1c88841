//! Requests to the agent of the home's node, for locks whose queue the agent keeps.

use std::cell::Cell;

use farside_fabric::{Agent, Error, HandlerId, PeerState, Rank, Result, SegmentId, Width, Word};
use farside_rma::{Context, World};

use super::frame::{LockWords, Standing, TimeLimit};
use super::server_queue::ServerQueue;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Ask {
    /// The lock, or a place in the queue.
    Acquire,
    /// The lock, if it is free.
    Attempt,
    /// To be taken off the queue.
    Cancel,
    Release,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub(super) from: Rank,
    pub(super) ask: Ask,
    /// Not zero, and not that of the rank's request before.
    pub(super) number: u64,
}

/// The answer to a request: whether it was granted, and a number that may come with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) is_granted: bool,
    pub(super) number: Option<u64>,
}

impl Answer {
    pub(super) const YES: Answer = Answer { is_granted: true, number: None };
    pub(super) const NO: Answer = Answer { is_granted: false, number: None };
}

/// The first byte of an answer.
const REFUSED: u8 = 0;
const GRANTED: u8 = 1;

/// Answers requests, with what is kept at the home.
pub(super) type Serve = fn(&ServerQueue<'_>, Request) -> Result<Answer>;

/// The agent's side of a lock: where its queue is, and what answers requests.
#[derive(Clone, Copy)]
pub(super) struct Service {
    /// How many words of the lock come before those of the queue.
    pub(super) queue: usize,
    /// The word that bears the number of the last request that was granted after it was queued.
    pub(super) granted: usize,
    /// Bits of a request's number: two in a row must differ, nothing else.
    pub(super) request_bits: u32,
    pub(super) serve: Serve,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Release {
    /// The agent has heard of it.
    Awaited,
    /// It is on its way.
    Posted,
}

/// A rank's side of a lock whose queue an agent keeps.
pub(super) struct Client {
    service: Service,
    handler: HandlerId,
    /// The number of the last request.
    number: Cell<u64>,
}

impl Client {
    /// Gives the agents the handler of a lock. It keeps nothing itself: any process of the home's
    /// node may be the next to run it. Collective.
    pub(super) fn new(world: &World, service: Service) -> Result<Client> {
        let handler = world.serve(move |agent, from, bytes| {
            answer(&service, agent, from, bytes).unwrap_or_default()
        })?;
        Ok(Client { service, handler, number: Cell::new(0) })
    }

    /// Asks for the lock, and waits within a limit until it is granted if the request is queued.
    pub(super) fn acquire(
        &self,
        lock: &LockWords,
        context: &Context,
        limit: TimeLimit,
    ) -> Result<bool> {
        let request = self.number.get() % mask(self.service.request_bits) + 1;
        self.number.set(request);
        if limit == TimeLimit::DoNotWait {
            // A release of this rank's own may not have been executed yet.
            context.finish_calls()?;
            return Ok(self.ask(lock, context, Ask::Attempt)?.is_granted);
        }
        let answer = self.ask(lock, context, Ask::Acquire)?;
        if answer.is_granted {
            return Ok(true);
        }
        lock.waits(context, Standing::Queued(0))?;
        // The queue may have nothing before this request but a release of this rank's own.
        context.finish_calls()?;
        lock.statistics.queued(answer.number.unwrap_or(1));
        let (granted, is_mine) = (self.service.granted, |number: u64| number == request);
        let in_time = lock.wait_within(context, limit, granted, is_mine)?;
        if in_time.is_none() && self.ask(lock, context, Ask::Cancel)?.is_granted {
            return Ok(false);
        }
        // If it was too late to cancel, the grant is on its way.
        lock.wait(context, granted, is_mine)?;
        Ok(true)
    }

    /// Gives the lock back, and counts to which rank the agent passed it. Returns whether this rank
    /// had it.
    pub(super) fn release(&self, lock: &LockWords, context: &Context) -> Result<bool> {
        let Answer { is_granted, number } = self.ask(lock, context, Ask::Release)?;
        if let Some(next) = number {
            lock.statistics.passed(context, Rank(next as u32));
        }
        Ok(is_granted)
    }

    /// Gives the lock back, and does not wait until the agent has heard of it.
    pub(super) fn post_release(&self, lock: &LockWords, context: &Context) -> Result<()> {
        let node = context.topology().node_of(lock.home());
        context.post_call(node, self.handler, &self.request(lock, Ask::Release))
    }

    /// Returns the bytes of a request, which belongs to the last one for the lock.
    fn request(&self, lock: &LockWords, ask: Ask) -> Vec<u8> {
        let Word { rank: home, segment, offset, .. } = lock.shared(0).word();
        let packed = (u64::from(home.0) << self.service.request_bits) | self.number.get();
        let mut bytes = vec![ask as u8];
        let numbers = [packed, segment.0, offset];
        bytes.extend(numbers.into_iter().flat_map(u64::to_le_bytes));
        bytes
    }

    /// Asks the agent of the home's node, for the last request.
    pub(super) fn ask(&self, lock: &LockWords, context: &Context, ask: Ask) -> Result<Answer> {
        let node = context.topology().node_of(lock.home());
        let answer = context.call(node, self.handler, &self.request(lock, ask))?;
        match answer.split_first() {
            Some((&first, rest)) => {
                Ok(Answer { is_granted: first == GRANTED, number: number_at(rest, 0) })
            }
            None => Err(Error::Internal("the agent gave no answer to a request for a lock".into())),
        }
    }
}

/// Returns how many words every rank has of a lock with so many words before its queue.
pub(super) fn words(queue: usize, ranks: u32) -> usize {
    queue + super::server_queue::words(ranks)
}

/// Returns whether a process of a rank's node is there to run handlers, and the rank's memory can
/// be used.
pub(super) fn has_agent(context: &Context, rank: Rank) -> bool {
    let node = context.topology().node_of(rank);
    context.job().check_agent(node).is_ok() && !context.is_lost(rank)
}

/// Returns the members of a lock, and the ranks in whose processes its handler may run: a process
/// that is killed may leave a handler's work half done, so that poisons the lock, too.
pub(super) fn with_agents(context: &Context, home: Rank, members: &[Rank]) -> Vec<Rank> {
    let near = context.topology().ranks_of(context.topology().node_of(home));
    let is_there =
        |rank: &&Rank| context.peer_state(**rank) == PeerState::Alive && !members.contains(rank);
    members.iter().chain(near.iter().filter(is_there)).copied().collect()
}

/// Answers the bytes of a request, which name the home and the lock's words there: both change when
/// the lock is recovered.
fn answer(service: &Service, agent: &dyn Agent, from: Rank, bytes: &[u8]) -> Result<Vec<u8>> {
    let Some((&code, rest)) = bytes.split_first() else {
        return Ok(Vec::new());
    };
    let all = [Ask::Acquire, Ask::Attempt, Ask::Cancel, Ask::Release];
    let ask = all.into_iter().find(|&ask| ask as u8 == code);
    let numbers = [0, 8, 16].map(|at| number_at(rest, at));
    let (Some(ask), [Some(packed), Some(segment), Some(offset)]) = (ask, numbers) else {
        return Ok(Vec::new());
    };
    let (rank, segment) = (Rank((packed >> service.request_bits) as u32), SegmentId(segment));
    let home = Word { rank, segment, offset, width: Width::W64 };
    let queue = ServerQueue::new(agent, home, service.queue);
    let number = packed & mask(service.request_bits);
    let Answer { is_granted, number } = (service.serve)(&queue, Request { from, ask, number })?;
    let mut answer = vec![if is_granted { GRANTED } else { REFUSED }];
    answer.extend(number.into_iter().flat_map(u64::to_le_bytes));
    Ok(answer)
}

/// Returns the lowest bits.
fn mask(bits: u32) -> u64 {
    (1 << bits) - 1
}

fn number_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}
