//! What is done to mapped memory on behalf of somebody: by a rank's own thread, by a handler, by
//! the agent that serves far ranks.

use std::sync::Arc;

use farside_fabric as fabric;
use farside_fabric::memory::full_fence;
use farside_fabric::{Atomic, Error, Mapped, Node, Piece, Rank, Region, Result, Sum, Word};

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

    /// Accumulates a message, as `me`; while somebody else has a lock that is needed, `held_up` is
    /// called with its holder and says whether that one is lost.
    pub fn accumulate(
        &self,
        to: &Region<'_>,
        sum: &Sum,
        bytes: &[u8],
        me: Rank,
        held_up: &mut dyn FnMut(Rank) -> bool,
    ) -> Result<()> {
        accumulate(&self.job, to, sum, bytes, me, held_up)
    }

    /// Wakes whoever sleeps for a word that somebody else has changed.
    pub fn wake_for(&self, at: Word) -> Result<()> {
        let mapped = self.job.segment(at.rank, at.segment)?;
        at.check(mapped.bytes())?;
        // The change is visible before it is asked who sleeps: a sleeper that is not seen here sees
        // it.
        full_fence();
        self.job.bell(at.rank).ring_if_watched(mapped.watch_bits(at.offset, at.width));
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
        write(&self.job, to, bytes)
    }

    fn put_signal(&self, to: &Region<'_>, bytes: &[u8], at: Word, op: Atomic) -> Result<()> {
        write(&self.job, to, bytes)?;
        // The atomic orders the bytes before itself.
        execute(&self.job, at, op).map(|_| ())
    }

    fn get(&self, from: &Region<'_>, into: &mut [u8]) -> Result<()> {
        read(&self.job, from, into)
    }
}

/// Reads mapped memory, packed.
fn read(job: &Arc<Job>, from: &Region<'_>, into: &mut [u8]) -> Result<()> {
    let mapped = job.segment(from.rank, from.segment)?;
    check_message(from, &mapped, into.len())?;
    let mut rest = into;
    from.shape.for_each(|piece| {
        let (part, after) = std::mem::take(&mut rest).split_at_mut(piece.bytes as usize);
        let read = mapped.get(piece.offset, part);
        debug_assert!(read);
        rest = after;
    });
    Ok(())
}

/// Writes a message into mapped memory.
pub(crate) fn write(job: &Arc<Job>, to: &Region<'_>, bytes: &[u8]) -> Result<()> {
    let mapped = job.segment(to.rank, to.segment)?;
    check_message(to, &mapped, bytes.len())?;
    for_each_packed(to, bytes, |piece, part| {
        let written = mapped.put(piece.offset, part);
        debug_assert!(written);
    });
    Ok(())
}

/// Adds a message to mapped memory.
pub(crate) fn accumulate(
    job: &Arc<Job>,
    to: &Region<'_>,
    sum: &Sum,
    bytes: &[u8],
    me: Rank,
    mut held_up: &mut dyn FnMut(Rank) -> bool,
) -> Result<()> {
    let mapped = job.segment(to.rank, to.segment)?;
    check_message(to, &mapped, bytes.len())?;
    sum.check(&to.shape)?;
    for_each_packed(to, bytes, |piece, part| {
        let done = mapped.accumulate(piece.offset, sum, part, me, &mut held_up);
        debug_assert!(done);
    });
    Ok(())
}

/// Executes an atomic on mapped memory, and wakes the owner if it sleeps.
pub(crate) fn execute(job: &Arc<Job>, at: Word, op: Atomic) -> Result<u128> {
    op.check(at.width)?;
    let mapped = job.segment(at.rank, at.segment)?;
    at.check(mapped.bytes())?;
    let held = mapped
        .atomic(at.offset, at.width, op)
        .ok_or(Error::Misaligned { offset: at.offset, align: at.width.bytes() })?;
    if op.writes() {
        job.bell(at.rank).ring_if_watched(mapped.watch_bits(at.offset, at.width));
    }
    Ok(held)
}

fn check_message(region: &Region<'_>, mapped: &Mapped, message_bytes: usize) -> Result<()> {
    region.check(mapped.bytes())?;
    region.check_length(message_bytes)
}

fn for_each_packed<'b>(
    to: &Region<'_>,
    mut bytes: &'b [u8],
    mut each: impl FnMut(Piece, &'b [u8]),
) {
    to.shape.for_each(|piece| {
        let (part, rest) = bytes.split_at(piece.bytes as usize);
        bytes = rest;
        each(piece, part);
    });
}
