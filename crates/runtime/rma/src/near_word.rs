//! A word that the processor reaches by itself, by the rules of `near.rs`.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use farside_fabric::memory::Look;
use farside_fabric::{Rank, Width};

use crate::context::Context;
use crate::counters::{PeerTally, count_atomic};
use crate::segment::Segment;

/// A word that the processor reaches by itself: for the shortest way of a protocol, on a word that
/// no rank waits for. Its operations are those of [`Context`] on the same word.
pub struct NearWord {
    word: NonNull<AtomicU64>,
    /// The memory that it is in.
    block: Arc<Segment>,
    tally: PeerTally,
}

impl NearWord {
    /// Finds the word at an offset, if this rank's processor reaches it by itself.
    pub(crate) fn new(
        context: &Context,
        block: &Arc<Segment>,
        rank: Rank,
        offset: u64,
    ) -> Option<NearWord> {
        if !context.has_direct_atomics() {
            return None;
        }
        let Look::Wide(word) = block.near(rank)?.look(offset, Width::W64)? else { return None };
        let (word, tally) = (NonNull::from(word), context.tally().of(rank));
        Some(NearWord { word, block: Arc::clone(block), tally })
    }

    #[inline(always)]
    fn get(&self, context: &Context) -> Option<&AtomicU64> {
        if context.failures().any_lost() || self.block.has_ended() {
            return None;
        }
        context.changed_atomically();
        count_atomic(self.tally.counts(context.tally()));
        // SAFETY: it is in memory that is mapped for as long as the block lives.
        Some(unsafe { self.word.as_ref() })
    }

    /// As [`Context::compare_swap`]; `None`, and nothing done, if a rank was lost or the memory was
    /// freed.
    #[inline(always)]
    pub fn compare_swap(&self, context: &Context, expected: u64, desired: u64) -> Option<u64> {
        let word = self.get(context)?;
        let swapped = word.compare_exchange(expected, desired, Ordering::SeqCst, Ordering::SeqCst);
        Some(swapped.unwrap_or_else(|held| held))
    }

    /// As [`Context::fetch_add`], likewise.
    #[inline(always)]
    pub fn fetch_add(&self, context: &Context, value: u64) -> Option<u64> {
        Some(self.get(context)?.fetch_add(value, Ordering::SeqCst))
    }
}
