//! Operations on the memory of all ranks of the machine: by a rank's own thread, by a handler, by
//! the agent that serves far ranks.

use std::sync::Arc;

use farside_fabric as fabric;
use farside_fabric::memory::full_fence;
use farside_fabric::{Atomic, Node, Rank, Region, Result, Word};

use crate::bell::ANYTHING;
use crate::memory::Job;

/// Reads, writes and updates the memory of the job's ranks.
#[derive(Clone)]
pub struct Reach {
    job: Arc<Job>,
    node: Node,
}

impl Reach {
    /// For an agent of `node`.
    pub fn new(job: Arc<Job>, node: Node) -> Reach {
        Reach { job, node }
    }

    /// Wakes whoever sleeps for a word that somebody else has changed.
    pub fn wake_for(&self, at: Word) -> Result<()> {
        let mapped = self.job.segment(at.rank, at.segment)?;
        at.check(mapped.bytes())?;
        // The change is visible before it is asked who sleeps: a sleeper that is not seen here sees
        // it.
        full_fence();
        let is_watched = |watched| mapped.is_among(watched, at.offset, at.width);
        self.job.bell(at.rank).ring_if(is_watched);
        Ok(())
    }

    /// Wakes whoever of `rank` sleeps, for whatever reason.
    pub fn wake(&self, rank: Rank) {
        if self.job.topology().check(rank).is_ok() {
            self.job.bell(rank).ring_if_watched(ANYTHING);
        }
    }
}

impl fabric::Agent for Reach {
    fn node(&self) -> Node {
        self.node
    }

    fn atomic(&self, at: Word, op: Atomic) -> Result<u128> {
        execute(&self.job, at, op)
    }

    fn post(&self, at: Word, op: Atomic) -> Result<()> {
        execute(&self.job, at, op).map(|_| ())
    }

    fn put(&self, to: &Region<'_>, bytes: &[u8]) -> Result<()> {
        self.job.segment(to.rank, to.segment)?.write(to, bytes)
    }

    fn put_signal(&self, to: &Region<'_>, bytes: &[u8], at: Word, op: Atomic) -> Result<()> {
        self.job.segment(to.rank, to.segment)?.write(to, bytes)?;
        // The atomic orders the bytes before itself.
        execute(&self.job, at, op).map(|_| ())
    }

    fn get(&self, from: &Region<'_>, into: &mut [u8]) -> Result<()> {
        self.job.segment(from.rank, from.segment)?.read(from, into)
    }
}

/// Executes an atomic on mapped memory, and wakes the owner if it sleeps.
pub(crate) fn execute(job: &Arc<Job>, at: Word, op: Atomic) -> Result<u128> {
    let mapped = job.segment(at.rank, at.segment)?;
    let held = mapped.execute(at, op)?;
    if op.writes() {
        job.bell(at.rank).ring_if(|watched| mapped.is_among(watched, at.offset, at.width));
    }
    Ok(held)
}
