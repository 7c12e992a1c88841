//! Server-queue lock whose release is posted: the rank that had the lock goes on at once.
//!
//! Paper:     [ARMCI03] section 3.2.2 and figure 10: the process that releases a lock sends a
//!            message to the server, and need not wait for a reply.
//! Differs:   the agent answers, and the answer is dropped; to which rank the lock went is not
//!            counted. All other steps are those of `server`.
//! State:     that of `server`.
//! Invariant: that of `server`. A rank that has heard of a release by other means may find the lock
//!            still taken. The next request of a rank may be served ahead of its release: it is
//!            queued then, waits until that release was executed, and is called in its turn.
//! Ordering:  release flushes first (lock/server-posted-without-flush).
//! Cost:      that of `server`; a release waits for nothing.
//! Checked:   `farside check 'lock/server-posted*'`: all schedules of small jobs; 8 and
//!            16 ranks on three levels, some with time limits, PCT depth 3.

use farside_fabric::Result;

use super::{Kind, server};
use crate::lock::frame::Algorithm;
use crate::lock::registry::{Entry, Made, Maker};

pub(super) fn make(maker: &Maker<'_>) -> Result<Made<dyn Algorithm>> {
    server::make_posted(maker)
}

pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "server-posted",
    about: "the agent of the home's node keeps a queue, and a release waits for nothing",
    kind: || Kind::ServerPosted,
    needs_agent: true,
}];
