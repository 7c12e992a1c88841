//! How far segments are named on the network, as far as a rank has asked.

use std::sync::{Mutex, MutexGuard};

use farside_fabric::{Rank, SegmentId};
use rustc_hash::FxHashMap;

use crate::device::Place;

/// The names that all threads of a rank know. Those of a segment go when the rank takes its own
/// part of it back: a segment is freed by all its members.
#[derive(Default)]
pub(crate) struct Places {
    known: Mutex<FxHashMap<SegmentId, FxHashMap<Rank, Place>>>,
}

impl Places {
    fn known(&self) -> MutexGuard<'_, FxHashMap<SegmentId, FxHashMap<Rank, Place>>> {
        // Nothing that is done under this lock can panic half-way.
        self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(crate) fn get(&self, rank: Rank, segment: SegmentId) -> Option<Place> {
        self.known().get(&segment)?.get(&rank).copied()
    }

    pub(crate) fn insert(&self, rank: Rank, segment: SegmentId, place: Place) {
        self.known().entry(segment).or_default().insert(rank, place);
    }

    /// A segment is freed.
    pub(crate) fn forget(&self, segment: SegmentId) {
        self.known().remove(&segment);
    }

    /// How many are known.
    pub(crate) fn count(&self) -> usize {
        self.known().values().map(FxHashMap::len).sum()
    }
}
