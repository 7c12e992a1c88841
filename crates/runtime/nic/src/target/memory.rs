//! The memory of a node's ranks, on which far requests are executed.
//!
//! Paper:   \[NIC02 section II\], \[NIC02 table I\]: the operations, atomic because the interface
//!          alone modifies the memory; \[NIC02 section III-B\]: any registered memory may be their
//!          target.
//! Differs: words of 32, 64 and 128 bits, more operations, and ranks may modify the memory, too:
//!          the processor's atomics exclude each other.

use std::sync::Arc;

use farside_fabric::memory::{Contender, Mapped, agent_of, full_fence};
use farside_fabric::{
    Accumulate, Agent as _, Atomic, Error, HandlerId, Loss, Node, PeerState, Piece, Rank, Region,
    Result, SegmentId, Shape, Width, Word,
};
use farside_shm::{FarAnswer, FarLoss, Job, Reach};
use rustc_hash::FxHashMap;

use crate::clock::now_ns;
use crate::settings::AtomicUnit;
use crate::target::fence::Fence;
use crate::target::service::{CallState, Memory};
use crate::transport::{MemoryRegistration, Registration};
use crate::wire::request::{About, Request, Requests, Rows};

/// The time for which a server waits for the locks of accumulates. A rank that holds one for longer
/// is stopped, or waits for a processor: others are served meanwhile.
const LOCK_WAIT_NS: u64 = 1_000_000;

/// An agent with atomics of its own pauses in the middle of one of so many: on a busy machine a
/// pause takes milliseconds.
const ATOMICS_PER_PAUSE: u32 = 16;

/// The segment of a node's first rank in whose only word landings are counted.
pub(crate) const LANDINGS: SegmentId = SegmentId(2);

/// The slot of a far call: an index, and a count that tells its uses apart.
pub(crate) mod slot {
    const INDEX_BITS: u32 = 4;

    pub(crate) fn new(index: u32, count: u32) -> u32 {
        (count << INDEX_BITS) | index
    }

    pub(crate) fn index(slot: u32) -> u32 {
        slot & ((1 << INDEX_BITS) - 1)
    }
}

/// A function that returns the port of a rank's host-based server; zero if it has none.
pub(crate) type HostPort = Box<dyn Fn(Rank) -> u16 + Send>;

#[derive(PartialEq, Eq, Hash)]
struct CallerSlot {
    caller: Rank,
    index: u32,
}

struct LatestCall {
    slot: u32,
    /// Its answer, if it was refused before a handler got it.
    refused: Option<FarAnswer>,
}

/// Locks of one rank's memory.
struct Locked {
    rank: Rank,
    memory: Mapped,
    stripes: u64,
}

pub(crate) struct NodeMemory {
    job: Arc<Job>,
    node: Node,
    reach: Reach,
    /// The number as which it holds the locks of accumulates.
    me: Rank,
    /// The locks that it holds for the request that is being executed.
    locked: Vec<Locked>,
    host_port: HostPort,
    calls: FxHashMap<CallerSlot, LatestCall>,
    /// What refuses lost ranks beside the job's table, where other servers serve this node, too.
    pub(crate) fence: Option<Box<dyn Fence>>,
    /// The losses that the ranks of this node have not been told of.
    losses: Vec<FarLoss>,
    /// Whether a departure has been noted that the waiting ranks have not been woken for.
    pub(crate) departures_changed: bool,
    /// What registers memory for direct operations, if the transport has those.
    pub(crate) registration: Option<Box<dyn MemoryRegistration>>,
    pub(crate) atomics: AtomicUnit,
    /// The number of atomics that it has executed itself.
    atomics_done: u32,
}

impl NodeMemory {
    /// Makes the memory for a server in the process of `host`, with which it ends; or in that of a
    /// launcher, which outlives all ranks.
    pub(crate) fn new(
        job: Arc<Job>,
        node: Node,
        host: Option<Rank>,
        host_port: HostPort,
    ) -> NodeMemory {
        let reach = Reach::new(job.clone(), node);
        NodeMemory {
            job,
            node,
            reach,
            me: agent_of(host),
            locked: Vec::new(),
            host_port,
            calls: FxHashMap::default(),
            fence: None,
            losses: Vec::new(),
            departures_changed: false,
            registration: None,
            atomics: AtomicUnit::default(),
            atomics_done: 0,
        }
    }

    /// Returns an error unless a rank is on this node.
    fn check(&self, rank: Rank) -> Result<()> {
        let topology = self.job.topology();
        topology.check(rank)?;
        if topology.node_of(rank) == self.node {
            Ok(())
        } else {
            Err(Error::UnknownRank { rank, ranks: topology.ranks() })
        }
    }

    fn locks_of(&self, rows: &Rows) -> Result<Locked> {
        self.with_region(rows, |region| {
            let memory = self.job.segment(region.rank, region.segment)?;
            region.check(memory.bytes())?;
            let stripes = memory.stripes_of(&region.shape);
            Ok(Locked { rank: region.rank, memory, stripes })
        })
    }

    fn has_locks_of(&self, rows: &Rows) -> bool {
        let has = |needed: Locked| {
            let holds = |held: &Locked| {
                held.rank == needed.rank && held.stripes & needed.stripes == needed.stripes
            };
            self.locked.iter().any(holds)
        };
        self.locks_of(rows).is_ok_and(has)
    }

    /// Begins the registrations that a request asks for, and returns whether it must wait: for one
    /// of them, or to end one that is under way.
    fn awaits_registration(&mut self, body: &[u8]) -> bool {
        let Some(registration) = &mut self.registration else { return false };
        let mut awaits = false;
        for request in Requests::new(body).flatten() {
            let Request::Segment { rank, segment, about, .. } = request else { continue };
            // What will be refused needs no registration.
            let Ok(memory) = self.job.segment(rank, segment) else { continue };
            awaits |= match about {
                About::Key => registration.register(rank, segment, memory).is_none(),
                About::End => registration.is_registering(rank, segment),
                About::Length => false,
            };
        }
        awaits
    }

    /// Takes all locks in `locked`, or none of them. Returns whether it did.
    fn try_lock_all(&self) -> bool {
        let mut is_lost = |holder: Rank| is_lost(&self.job, holder);
        let mut contender = Contender { me: self.me, holder_is_lost: &mut is_lost };
        let mut try_lock = |one: &Locked| one.memory.try_lock(one.stripes, &mut contender);
        let taken = self.locked.iter().take_while(|one| try_lock(one)).count();
        if taken < self.locked.len() {
            let taken = &self.locked[..taken];
            taken.iter().for_each(|one| one.memory.unlock(one.stripes, self.me));
            return false;
        }
        true
    }

    /// Tells the ranks of this node of losses, of each as soon as no server executes anything of
    /// the lost rank any more. Until then, and from then on, nothing of it is begun.
    pub(crate) fn tell_losses(&mut self) {
        let NodeMemory { job, fence, losses, departures_changed, .. } = self;
        let is_closed =
            |loss: &mut FarLoss| fence.as_ref().is_none_or(|fence| fence.close(loss.rank));
        let told: Vec<FarLoss> = losses.extract_if(.., is_closed).collect();
        *departures_changed |= !told.is_empty();
        job.note_losses(&told);
    }

    /// Tells the ranks of this node of these losses, too.
    pub(crate) fn note_losses(&mut self, losses: &[FarLoss]) {
        self.losses.extend_from_slice(losses);
        self.tell_losses();
    }

    pub(crate) fn has_losses(&self) -> bool {
        !self.losses.is_empty()
    }

    fn with_region<R>(&self, rows: &Rows, act: impl FnOnce(&Region<'_>) -> Result<R>) -> Result<R> {
        self.check(rows.rank)?;
        let (unit, count) = (u64::from(rows.unit), u64::from(rows.count));
        let (counts, strides) = ([count], [rows.stride]);
        // Rows without bytes are one empty piece, however many there are.
        let shape = if count == 1 || unit == 0 {
            Shape::Block(Piece { offset: rows.offset, bytes: unit })
        } else {
            Shape::Strided { offset: rows.offset, unit, counts: &counts, strides: &strides }
        };
        act(&Region { rank: rows.rank, segment: rows.segment, shape })
    }
}

/// Returns whether the holder of a lock is lost. Other threads run first.
fn is_lost(job: &Job, holder: Rank) -> bool {
    std::thread::yield_now();
    job.topology().check(holder).is_ok() && matches!(job.peer_state(holder), PeerState::Lost(_))
}

impl Memory for NodeMemory {
    fn begin(&mut self, of: Rank) -> bool {
        self.fence.as_ref().is_none_or(|fence| fence.begin(of))
            && !matches!(self.job.peer_state(of), PeerState::Lost(_))
    }

    fn end(&mut self) {
        if let Some(fence) = &self.fence {
            fence.end();
        }
    }

    fn put(&mut self, to: &Rows, data: &[u8]) -> Result<()> {
        self.with_region(to, |region| self.reach.put(region, data))
    }

    fn get(&mut self, from: &Rows, into: &mut [u8]) -> Result<()> {
        self.with_region(from, |region| self.reach.get(region, into))
    }

    fn accumulate(
        &mut self,
        to: &Rows,
        accumulate: &Accumulate,
        data: &[u8],
        old: Option<&mut [u8]>,
    ) -> Result<()> {
        let has_locks = self.has_locks_of(to);
        if !has_locks {
            // The segment is another one by now. Nobody waits for a lock that it holds itself.
            self.unlock();
        }
        let mut is_lost = |holder: Rank| is_lost(&self.job, holder);
        let mut contender = Contender { me: self.me, holder_is_lost: &mut is_lost };
        self.with_region(to, |region| {
            let memory = self.job.segment(region.rank, region.segment)?;
            let memory = if has_locks { memory.without_locks() } else { memory };
            memory.combine(region, accumulate, data, old, &mut contender)
        })
    }

    fn lock(&mut self, body: &[u8]) -> bool {
        if self.awaits_registration(body) {
            return false;
        }
        for request in Requests::new(body).flatten() {
            let (Request::Accumulate { to, .. } | Request::GetAccumulate { to, .. }) = request
            else {
                continue;
            };
            // What will be refused needs no locks.
            let Ok(needed) = self.locks_of(&to) else { continue };
            match self.locked.iter_mut().find(|locked| locked.rank == needed.rank) {
                Some(locked) => locked.stripes |= needed.stripes,
                None => self.locked.push(needed),
            }
        }
        if self.locked.is_empty() || self.try_lock_all() {
            return true;
        }
        let begun_ns = now_ns();
        loop {
            if self.try_lock_all() {
                return true;
            }
            if now_ns().saturating_sub(begun_ns) > LOCK_WAIT_NS {
                self.locked.clear();
                return false;
            }
        }
    }

    fn unlock(&mut self) {
        for Locked { memory, stripes, .. } in self.locked.drain(..) {
            memory.unlock(stripes, self.me);
        }
    }

    fn atomic(&mut self, at: Word, op: Atomic) -> Result<u128> {
        self.check(at.rank)?;
        let is_one_step = matches!(op, Atomic::Load | Atomic::Store(_));
        if self.atomics == AtomicUnit::Processor || at.width == Width::Pair || is_one_step {
            return self.reach.atomic(at, op);
        }
        op.check(at.width)?;
        let held = self.reach.atomic(at, Atomic::Load)?;
        // What a processor writes meanwhile is lost, as it would be to an interface.
        self.atomics_done = self.atomics_done.wrapping_add(1);
        if self.atomics_done.is_multiple_of(ATOMICS_PER_PAUSE) {
            std::thread::yield_now();
        }
        let new = op.apply(at.width, held);
        if new != held {
            self.reach.atomic(at, Atomic::Store(new))?;
        }
        Ok(held)
    }

    fn atomic_of_handler(&mut self, at: Word, op: Atomic) -> Result<u128> {
        self.check(at.rank)?;
        self.reach.atomic(at, op)
    }

    fn wake(&mut self, at: Word) {
        // No rank waits for a word whose segment is gone.
        let _ = self.check(at.rank).and_then(|()| self.reach.wake_for(at));
    }

    fn count_landings(&mut self, count: u64) {
        // What has landed becomes visible before its count.
        full_fence();
        if let Ok(rank) = self.job.topology().leader_of(self.node) {
            let at = Word { rank, segment: LANDINGS, offset: 0, width: Width::W64 };
            // If the leader has not joined yet, no rank reads the count.
            let _ = self.reach.atomic(at, Atomic::Add(count.into()));
        }
    }

    fn call(&mut self, caller: Rank, slot: u32, handler: u32, argument: &[u8]) {
        let index = slot::index(slot);
        let refused = self.job.ask(self.node, caller, index, HandlerId(handler), argument);
        self.calls.insert(CallerSlot { caller, index }, LatestCall { slot, refused });
    }

    fn answer(&mut self, caller: Rank, slot: u32) -> CallState {
        let index = slot::index(slot);
        let answer = match self.calls.get(&CallerSlot { caller, index }) {
            Some(latest) if latest.slot == slot => {
                latest.refused.clone().or_else(|| self.job.answer(caller, index))
            }
            _ => return CallState::Forgotten,
        };
        answer.map_or(CallState::Pending, |answer| CallState::Answered(answer.state, answer.reply))
    }

    fn note_departure(&mut self, rank: Rank, peer_state: PeerState, cause: Option<Loss>) {
        if let PeerState::Lost(how) = peer_state {
            return self.note_losses(&[FarLoss { rank, how, cause }]);
        }
        self.job.note_departure(rank, peer_state, cause);
        self.departures_changed = true;
    }

    fn locate(&mut self, rank: Rank) -> Result<u16> {
        self.check(rank)?;
        Ok((self.host_port)(rank))
    }

    fn segment(
        &mut self,
        rank: Rank,
        segment: SegmentId,
        about: About,
        may_end: bool,
    ) -> Result<u128> {
        self.check(rank)?;
        let Some(registration) = &mut self.registration else {
            return Err(Error::Unsupported {
                what: "direct memory access over this transport".into(),
            });
        };
        match about {
            About::Key => {
                let memory = self.job.segment(rank, segment)?;
                let done = registration.register(rank, segment, memory);
                Ok(done.unwrap_or(Registration::Refused).to_word())
            }
            About::Length => Ok(self.job.segment(rank, segment)?.bytes().into()),
            About::End => {
                if may_end {
                    registration.deregister(rank, segment);
                }
                Ok(0)
            }
        }
    }
}

#[cfg(test)]
mod tests;
