//! Symmetric small words: the raw material of protocols.

use std::sync::Arc;

use farside_fabric::{Error, ProbeEvent, Rank, Result, SegmentId};

use crate::context::Context;
use crate::group::call::{Call, Kind};
use crate::near::NearWord;
use crate::place::Place;
use crate::segment::{Segment, Traffic};
use crate::team::Team;

const BLOCK_WORDS: usize = 4096;

/// A few 64-bit words on every member of a team, at the same index everywhere.
///
/// ```
/// # use farside::Rank;
/// # farside::local(2, |world| {
/// let words = world.words(2)?;
/// world.fetch_add(words.at(Rank(1), 0), 5)?;
/// world.barrier()?;
/// assert_eq!(world.load(words.at(Rank(1), 0))?, 10);
/// words.free(world)
/// # }).unwrap();
/// ```
#[must_use = "words that are dropped without `free` stay allocated until the job ends"]
pub struct Words {
    block: Arc<Segment>,
    start: usize,
    count: usize,
}

/// The blocks that a team's words are cut from. Members allocate in the same order, so the same
/// words are free everywhere.
#[derive(Default)]
pub(crate) struct Pool {
    blocks: Vec<Block>,
}

struct Block {
    segment: Arc<Segment>,
    used: Box<[bool]>,
}

impl Words {
    #[track_caller]
    pub(crate) fn allocate(team: &Team<'_>, count: usize) -> Result<Words> {
        if count > BLOCK_WORDS {
            return Err(Error::TooMuch {
                what: "words of one allocation (use a window)",
                value: count as u64,
                limit: BLOCK_WORDS as u64,
            });
        }
        // Checks that all members ask for the same number. It also keeps words that were just
        // freed, and zeroed by their owners, from being used before all owners have done so.
        team.meet_for(Call::new(Kind::Words, count))?;
        let mut pool = team.group().pool.borrow_mut();
        if let Some(words) = pool.take(count) {
            return Ok(words);
        }
        let segment = Arc::new(team.segment(BLOCK_WORDS as u64 * 8, 8, Traffic::Counted)?);
        pool.blocks.push(Block { segment, used: vec![false; BLOCK_WORDS].into() });
        pool.take(count).ok_or_else(|| Error::Internal("a fresh block of words has no room".into()))
    }

    /// Tells a checker of races whether they are the program's.
    pub(crate) fn tell(&self, context: &Context, is_program: bool) {
        let (offset, bytes) = (self.start as u64 * 8, self.count as u64 * 8);
        let segment = self.block.id;
        context.tell(|| ProbeEvent::Words { segment, offset, bytes, is_program });
    }

    /// Word `index` of `rank`.
    #[inline]
    pub fn at(&self, rank: Rank, index: usize) -> Place<'_, u64> {
        Place::within(&self.block, rank, self.start as u32 * 8, self.count as u64 * 8).skip(index)
    }

    /// Returns word `index` of `rank`, if this rank's processor reaches it by itself.
    pub fn near(&self, context: &Context, rank: Rank, index: usize) -> Option<NearWord> {
        let offset = (self.start + index) as u64 * 8;
        (index < self.count).then(|| NearWord::new(context, &self.block, rank, offset))?
    }

    /// How many words each member has.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Gives the words back. Every member must do so.
    #[track_caller]
    pub fn free<'t>(self, team: impl Into<Team<'t>>) -> Result<()> {
        let team = team.into();
        let mut pool = team.group().pool.borrow_mut();
        let block = pool.blocks.iter_mut().find(|block| Arc::ptr_eq(&block.segment, &self.block));
        let Some(block) = block else {
            return Err(Error::InvalidState(
                "words are freed by the team that allocated them, not by another".into(),
            ));
        };
        let call = Call::free(self.block.id, self.start as u64 * 8);
        let flushed = team.flush_and_meet(call)?;
        block.used[self.start..self.start + self.count].fill(false);
        self.tell(team.context(), false);
        team.context().put_own(&self.block, self.start as u64 * 8, &vec![0; self.count * 8])?;
        flushed
    }
}

impl Pool {
    /// How many words are allocated.
    pub(crate) fn used(&self) -> usize {
        self.blocks.iter().flat_map(|block| &block.used).filter(|&&is_used| is_used).count()
    }

    pub(crate) fn segments(&self) -> impl Iterator<Item = SegmentId> {
        self.blocks.iter().map(|block| block.segment.id)
    }

    /// The first run of free words that is long enough.
    fn take(&mut self, count: usize) -> Option<Words> {
        for block in &mut self.blocks {
            let mut run = 0;
            for at in 0..=BLOCK_WORDS {
                if run == count {
                    let start = at - count;
                    block.used[start..at].fill(true);
                    return Some(Words { block: block.segment.clone(), start, count });
                }
                run = if at < BLOCK_WORDS && !block.used[at] { run + 1 } else { 0 };
            }
        }
        None
    }
}
