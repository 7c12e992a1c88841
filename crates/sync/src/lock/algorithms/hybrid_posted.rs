//! Hybrid lock whose release is posted: the rank that had the lock goes on at once.
//!
//! Paper:     [ARMCI03] section 3.2.2 and figure 10: the process that releases a lock sends a
//!            message to the server, and need not wait for a reply.
//! Differs:   the agent answers, and the answer is dropped; to which rank the lock went is not
//!            counted. All other steps are those of `hybrid`.
//! State:     that of `hybrid`.
//! Invariant: that of `hybrid`. A rank that has heard of a release by other means may find the lock
//!            still taken. The next request of a rank may be served ahead of its release: it is
//!            queued then, waits until that release was executed, and is called in its turn.
//! Ordering:  release flushes first (lock/hybrid-posted-without-flush).
//! Cost:      that of `hybrid`; a release waits for nothing.
//! Checked:   `farside check 'lock/hybrid-posted*'`: all schedules of the jobs in `ENTRIES`; 8 and
//!            16 ranks on three levels, some with time limits, PCT depth 3.

use farside_fabric::Result;

use super::Kind;
use super::hybrid::{make_posted, make_posted_without_flush};
use super::posted::{Posted, entry};
use crate::lock::frame::Algorithm;
use crate::lock::registry::{Build, Entry, Made, Maker};

pub(super) fn make(maker: &Maker<'_>) -> Result<Made<dyn Algorithm>> {
    make_posted(maker)
}

struct HybridPosted;

impl Posted for HybridPosted {
    const NAME: &'static str = "hybrid-posted";
    const ABOUT: &'static str =
        "tickets near, a queue of the agent far, and a release waits for nothing";
    const KIND: fn() -> Kind = || Kind::HybridPosted;
    const WITHOUT_FLUSH: Build<dyn Algorithm> = make_posted_without_flush;
}

pub(super) const ENTRIES: &[Entry] = &[entry::<HybridPosted>()];
