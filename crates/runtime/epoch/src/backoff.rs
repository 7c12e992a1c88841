//! Direct passive locks with back-off: exclusive mode polls a word with growing pauses, shared mode
//! asks the agent of the target's node.
//!
//! Paper:     [PASSIVE08] section 3.1, figure 1: the 64-bit lock state of a target, exclusive by
//!            compare-swap, shared by an agent that keeps the count.
//! Differs:   the pauses between attempts double (future work in the paper); an agent, which must
//!            not wait, refuses instead of queueing (`published` queues); unlocked is zero, as
//!            fresh memory is. Where the network interface has atomics of its own, which the
//!            agent's do not exclude, the agent takes and frees targets in exclusive mode, too.
//! State:     2 words on every rank as a target: the lock, and the count of readers, which is in
//!            memory so that any process of the node can go on as its agent.
//! Invariant: the lock is zero, or one more than the rank that has the target, or the mark of
//!            shared mode, and then the count is not zero.
//! Ordering:  `an_epoch_without_flush_is_caught`, `a_target_that_is_taken_in_two_steps_is_caught`,
//!            `an_agent_that_does_not_count_is_caught`.
//! Cost:      exclusive: lock 1 atomic, unlock 1 atomic after a flush; each further look 1 load.
//!            Shared, and where the interface has atomics of its own both: 1 call each.
//! Checked:   `farside check 'epoch/backoff*'`: 3 ranks x 1 round exhaustively; a death.

use farside_fabric::{Agent, Atomic, Error, HandlerId, Rank, Result, SegmentId, Width, Word};
use farside_rma::{Context, Words, World};
use farside_sync::parts::{Handle, LockWords};

use crate::mode::Mode;
use crate::published::{FIRST, QUEUED, SharedQueue};
use crate::steps;

pub(crate) const WORDS: usize = 2;
pub(crate) const WORD: usize = 0;
/// The readers that are inside. Only agents change it, one call at a time.
const READERS: u64 = 1;
pub(crate) const FREE: u64 = 0;
pub(crate) const SHARED: u64 = u64::MAX;
/// The longest pause between two looks, in turns at the processor.
const PAUSE_MAX: u32 = 256;

/// The requests to an agent, and its answers.
const ENTER: u8 = 1;
pub(crate) const LEAVE: u8 = 2;
/// As `ENTER`, with a place in the queue instead of a refusal.
pub(crate) const QUEUE: u8 = 3;
/// The first of a queue asks again.
pub(crate) const AGAIN: u8 = 4;
/// Takes the target in exclusive mode, and gives it back.
const TAKE: u8 = 5;
const GIVE_BACK: u8 = 6;
pub(crate) const GRANTED: u8 = 1;
const REFUSED: u8 = 0;
const UNKNOWN: u8 = 2;

/// The agents that keep the counts of readers, one on every node. All windows of the designs
/// `backoff` and `published` may share it.
#[derive(Debug, Clone, Copy)]
pub struct LockAgent {
    handler: HandlerId,
}

impl LockAgent {
    /// Gives every node's agent the handler that counts readers. Collective over all ranks.
    pub fn new(world: &World) -> Result<LockAgent> {
        let taken =
            Taken { counts: !world.omits(steps::COUNT), grants: !world.omits(steps::GRANT) };
        let handler = world.serve(move |agent, from, bytes| {
            vec![answer(agent, from, bytes, taken).unwrap_or(UNKNOWN)]
        })?;
        Ok(LockAgent { handler })
    }

    pub(crate) fn ask(
        &self,
        context: &Context,
        site: &LockWords,
        target: Rank,
        what: u8,
    ) -> Result<u8> {
        let node = context.topology().node_of(target);
        let answer =
            context.call(node, self.handler, &encode(what, site.at(target, WORD).word()))?;
        match answer.first() {
            Some(&answer @ (GRANTED | REFUSED | FIRST | QUEUED)) => Ok(answer),
            _ => Err(Error::Internal(format!(
                "the agent of {node} does not know the lock of {target}"
            ))),
        }
    }
}

/// Whether an agent, which has no context to ask, takes these steps.
#[derive(Clone, Copy)]
struct Taken {
    counts: bool,
    grants: bool,
}

/// Counts a reader in or out.
fn answer(agent: &dyn Agent, from: Rank, bytes: &[u8], taken: Taken) -> Result<u8> {
    let Some((what, at)) = decode(bytes) else {
        return Ok(UNKNOWN);
    };
    let change = |expected: u64, desired: u64| {
        agent.atomic(at, Atomic::CompareSwap { expected: expected.into(), desired: desired.into() })
    };
    let readers = Word { offset: at.offset.saturating_add(8 * READERS), ..at };
    let queue = SharedQueue { agent, at, grants: taken.grants };
    match what {
        QUEUE => match change(FREE, SHARED)? as u64 {
            FREE | SHARED => {
                agent.atomic(readers, Atomic::Add(u128::from(1 + queue.let_in()?)))?;
                Ok(GRANTED)
            }
            _ => queue.push(from),
        },
        // Somebody who came later may have let it in.
        AGAIN if !queue.has(from)? => Ok(GRANTED),
        AGAIN => match change(FREE, SHARED)? as u64 {
            FREE | SHARED => {
                agent.atomic(readers, Atomic::Add(queue.let_in()?.into()))?;
                Ok(GRANTED)
            }
            _ => Ok(QUEUED),
        },
        ENTER => match change(FREE, SHARED)? as u64 {
            FREE | SHARED => {
                agent.atomic(readers, Atomic::Add(1))?;
                Ok(GRANTED)
            }
            _ => Ok(REFUSED),
        },
        LEAVE => {
            let count = (agent.atomic(readers, Atomic::Load)? as u64).saturating_sub(1);
            agent.atomic(readers, Atomic::Store(count.into()))?;
            if count == 0 || !taken.counts {
                change(SHARED, FREE)?;
            }
            Ok(GRANTED)
        }
        TAKE => Ok(if change(FREE, name(from))? as u64 == FREE { GRANTED } else { REFUSED }),
        GIVE_BACK => {
            let is_freed = change(name(from), FREE)? as u64 == name(from);
            Ok(if is_freed { GRANTED } else { REFUSED })
        }
        _ => Ok(UNKNOWN),
    }
}

fn encode(what: u8, at: Word) -> [u8; 24] {
    let mut bytes = [0; 24];
    bytes[0] = what;
    bytes[4..8].copy_from_slice(&at.rank.0.to_le_bytes());
    bytes[8..16].copy_from_slice(&at.segment.0.to_le_bytes());
    bytes[16..].copy_from_slice(&at.offset.to_le_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Option<(u8, Word)> {
    let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let rank = u32::from_le_bytes(bytes.get(4..8)?.try_into().ok()?);
    let at = Word {
        rank: Rank(rank),
        segment: SegmentId(word(8)?),
        offset: word(16)?,
        width: Width::W64,
    };
    Some((*bytes.first()?, at))
}

/// The locks of all targets of a window, as one rank uses them.
pub(crate) struct Backoff {
    site: LockWords,
    handle: Handle,
    agent: LockAgent,
}

impl Backoff {
    pub(crate) fn new(
        words: Words,
        context: &Context,
        members: &[Rank],
        agent: LockAgent,
    ) -> Backoff {
        Backoff {
            site: LockWords::new(words, members[0], members),
            handle: Handle::new(context.rank()),
            agent,
        }
    }

    pub(crate) fn into_words(self) -> Words {
        self.site.into_words()
    }

    pub(crate) fn lock(&self, context: &Context, target: Rank, mode: Mode) -> Result<()> {
        self.handle.check_losses(context, || &self.site)?;
        self.poll(context, target, mode)
            .map_err(|error| Handle::explain(context, error, self.site.members()))?;
        let alive = self.handle.check_losses(context, || &self.site);
        alive.inspect_err(|_| drop(self.unlock(context, target, mode)))
    }

    pub(crate) fn unlock(&self, context: &Context, target: Rank, mode: Mode) -> Result<()> {
        let left = match mode {
            Mode::Exclusive => free(&self.agent, context, &self.site, target),
            Mode::Shared => self.agent.ask(context, &self.site, target, LEAVE).map(drop),
        };
        left.map_err(|error| Handle::explain(context, error, self.site.members()))
    }

    fn poll(&self, context: &Context, target: Rank, mode: Mode) -> Result<()> {
        let mut pause = 1;
        loop {
            let is_inside = match mode {
                Mode::Exclusive => take(&self.agent, context, &self.site, target)?,
                Mode::Shared => self.agent.ask(context, &self.site, target, ENTER)? == GRANTED,
            };
            if is_inside {
                return Ok(());
            }
            loop {
                let paused = (0..pause).try_for_each(|_| self.site.relax(context));
                pause = (pause * 2).min(PAUSE_MAX);
                match (context.load(self.site.at(target, WORD))?, mode) {
                    (FREE, _) | (SHARED, Mode::Shared) => break,
                    // Progress before a departure counts: the departed rank may have released the
                    // lock.
                    _ => paused?,
                }
            }
        }
    }
}

/// Returns whether this rank's atomics on the lock exclude the agent's: where they do not, the
/// agent alone changes it.
fn changes_lock_itself(context: &Context) -> bool {
    context.job().caps.cpu_coherent
}

/// Takes a target in exclusive mode, if it is free.
pub(crate) fn take(
    agent: &LockAgent,
    context: &Context,
    site: &LockWords,
    target: Rank,
) -> Result<bool> {
    if !changes_lock_itself(context) {
        return Ok(agent.ask(context, site, target, TAKE)? == GRANTED);
    }
    let (word, name) = (site.at(target, WORD), name(context.rank()));
    if !context.omits(steps::TAKE_AT_ONCE) {
        // [PASSIVE08 section 3.1, figure 1]
        return Ok(context.compare_swap(word, FREE, name)? == FREE);
    }
    let is_free = context.load(word)? == FREE;
    if is_free {
        context.store(word, name)?;
    }
    Ok(is_free)
}

/// Gives a target back that this rank has in exclusive mode.
pub(crate) fn free(
    agent: &LockAgent,
    context: &Context,
    site: &LockWords,
    target: Rank,
) -> Result<()> {
    let (word, name) = (site.at(target, WORD), name(context.rank()));
    let held = if changes_lock_itself(context) {
        context.compare_swap(word, name, FREE)?
    } else if agent.ask(context, site, target, GIVE_BACK)? == GRANTED {
        name
    } else {
        context.load(word)?
    };
    if held == name { Ok(()) } else { Err(unlike(target, held)) }
}

fn name(rank: Rank) -> u64 {
    u64::from(rank.0) + 1
}

#[cold]
fn unlike(target: Rank, held: u64) -> Error {
    Error::Internal(format!(
        "the lock state of {target} is {held} where its holder's name should be"
    ))
}
