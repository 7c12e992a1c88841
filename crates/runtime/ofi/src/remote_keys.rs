//! The remote keys of far segments, as far as a rank has asked for them and they have one.

use std::sync::Mutex;

use farside_fabric::{Rank, SegmentId};
use farside_nic::Registration;
use rustc_hash::FxHashMap;

use farside_fabric::lock::lock;

/// The remote keys that all threads of a rank know. Those of a segment are dropped when the rank
/// frees its own part of it: a segment is freed by all its members.
#[derive(Default)]
pub(crate) struct RemoteKeys {
    known: Mutex<FxHashMap<SegmentId, FxHashMap<Rank, Registration>>>,
}

impl RemoteKeys {
    pub(crate) fn get(&self, rank: Rank, segment: SegmentId) -> Option<Registration> {
        lock(&self.known).get(&segment)?.get(&rank).copied()
    }

    pub(crate) fn insert(&self, rank: Rank, segment: SegmentId, key: Registration) {
        lock(&self.known).entry(segment).or_default().insert(rank, key);
    }

    /// Drops the keys of a segment, which is freed.
    pub(crate) fn forget(&self, segment: SegmentId) {
        lock(&self.known).remove(&segment);
    }

    pub(crate) fn count(&self) -> usize {
        lock(&self.known).values().map(FxHashMap::len).sum()
    }
}
