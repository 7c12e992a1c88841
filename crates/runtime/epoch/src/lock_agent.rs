//! The agent of the direct locks `backoff` and `published`: it takes and frees targets in shared
//! mode, counts their readers, and keeps the queue of `published`.

use farside_fabric::{Agent, Atomic, Error, HandlerId, Rank, Result, SegmentId, Width, Word};
use farside_rma::{Context, World};
use farside_sync::parts::LockWords;

use crate::steps;

/// The words of a target: the lock, and the count of readers.
pub(crate) const WORDS: usize = 2;
pub(crate) const WORD: usize = 0;
/// The readers that are inside. Only agents change it, one call at a time.
const READERS: u64 = 1;
pub(crate) const FREE: u64 = 0;
pub(crate) const SHARED: u64 = u64::MAX;
/// The words of a target's queue, after those of the lock, and of an origin.
const LAST: usize = WORDS;
pub(crate) const GRANTS: usize = LAST + 1;
const BEFORE: usize = GRANTS + 1;
/// Stands before the first of a queue.
const NOBODY: u64 = u64::MAX;

/// The requests to an agent, and its answers.
pub(crate) const ENTER: u8 = 1;
pub(crate) const LEAVE: u8 = 2;
/// As `ENTER`, with a place in the queue instead of a refusal.
pub(crate) const QUEUE: u8 = 3;
/// The first of a queue asks again.
pub(crate) const AGAIN: u8 = 4;
/// Takes the target in exclusive mode, and gives it back.
pub(crate) const TAKE: u8 = 5;
pub(crate) const GIVE_BACK: u8 = 6;
pub(crate) const GRANTED: u8 = 1;
const REFUSED: u8 = 0;
const UNKNOWN: u8 = 2;
/// The answers to a request that is queued: as the first, or behind others.
pub(crate) const FIRST: u8 = 3;
const QUEUED: u8 = 4;

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

/// The queue of a target, as a handler uses it.
struct SharedQueue<'a> {
    agent: &'a dyn Agent,
    /// The lock.
    at: Word,
    /// Whether it tells those that it lets in.
    grants: bool,
}

impl SharedQueue<'_> {
    fn word(&self, index: usize) -> Word {
        Word { offset: self.at.offset.saturating_add(8 * index as u64), ..self.at }
    }

    fn load(&self, index: usize) -> Result<u64> {
        self.agent.atomic(self.word(index), Atomic::Load).map(|held| held as u64)
    }

    fn store(&self, index: usize, value: u64) -> Result<()> {
        self.agent.atomic(self.word(index), Atomic::Store(value.into())).map(drop)
    }

    /// Appends a rank; returns whether it is the first.
    fn push(&self, rank: Rank) -> Result<u8> {
        let last = self.load(LAST)?;
        self.store(BEFORE + rank.index(), if last == 0 { NOBODY } else { last })?;
        self.store(LAST, u64::from(rank.0) + 1)?;
        Ok(if last == 0 { FIRST } else { QUEUED })
    }

    fn has(&self, rank: Rank) -> Result<bool> {
        Ok(self.load(BEFORE + rank.index())? != 0)
    }

    /// Lets everybody in; returns how many that are.
    fn let_in(&self) -> Result<u64> {
        let (mut at, mut count) = (self.load(LAST)?, 0);
        while at != 0 && at != NOBODY {
            let rank = Rank((at - 1) as u32);
            at = self.load(BEFORE + rank.index())?;
            self.store(BEFORE + rank.index(), 0)?;
            count += 1;
            if self.grants {
                // Should that fail, the rank is lost, and all that wait hear of it.
                let _ = self.agent.post(Word { rank, ..self.word(GRANTS) }, Atomic::Add(1));
            }
        }
        self.store(LAST, 0)?;
        Ok(count)
    }
}

/// The words that the lock and the queue of a target take on each of so many ranks.
pub(crate) fn queue_words(ranks: u32) -> usize {
    BEFORE + ranks as usize
}

/// What the lock holds while this rank has its target in exclusive mode.
pub(crate) fn name(rank: Rank) -> u64 {
    u64::from(rank.0) + 1
}
