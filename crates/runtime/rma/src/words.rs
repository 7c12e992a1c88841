//! Symmetric small words: the raw material of protocols.

use std::sync::Arc;

use farside_fabric::{ProbeEvent, Rank};

use crate::context::Context;
use crate::near_word::NearWord;
use crate::place::Place;
use crate::segment::Segment;

pub(crate) const BLOCK_WORDS: usize = 4096;

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
    pub(crate) block: Arc<Segment>,
    pub(crate) start: usize,
    pub(crate) count: usize,
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
}

impl Pool {
    /// Adds a fresh block.
    pub(crate) fn add(&mut self, segment: Arc<Segment>) {
        self.blocks.push(Block { segment, used: vec![false; BLOCK_WORDS].into() });
    }

    /// Returns whether each of some words is used; `None` if they are none of the pool's.
    pub(crate) fn used_by(&mut self, words: &Words) -> Option<&mut [bool]> {
        let is_its = |block: &&mut Block| Arc::ptr_eq(&block.segment, &words.block);
        let block = self.blocks.iter_mut().find(is_its)?;
        Some(&mut block.used[words.start..words.start + words.count])
    }

    /// How many words are allocated.
    pub(crate) fn used(&self) -> usize {
        self.blocks.iter().flat_map(|block| &block.used).filter(|&&is_used| is_used).count()
    }

    pub(crate) fn segments(&self) -> impl Iterator<Item = &Arc<Segment>> {
        self.blocks.iter().map(|block| &block.segment)
    }

    /// The first run of free words that is long enough.
    pub(crate) fn take(&mut self, count: usize) -> Option<Words> {
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
