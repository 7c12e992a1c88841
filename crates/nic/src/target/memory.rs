//! The memory of a node's ranks, on which far requests are executed.
//!
//! Paper:   \[NIC02 section II\], \[NIC02 table I\]: the operations, atomic because the interface
//!          alone modifies the memory; \[NIC02 section III-B\]: any registered memory may be their
//!          target.
//! Differs: words of 32, 64 and 128 bits, more operations, and ranks may modify the memory, too:
//!          the processor's atomics exclude each other.

use std::sync::Arc;

use farside_fabric::memory::{Contender, full_fence};
use farside_fabric::{
    Accumulate, Agent as _, Atomic, Error, ExitCause, HandlerId, Loss, Node, PeerState, Piece,
    Rank, Region, Result, SegmentId, Shape, Width, Word,
};
use farside_shm::{FarAnswer, Job, Reach};
use rustc_hash::FxHashMap;

use crate::target::fence::Fence;
use crate::target::service::{CallState, Memory};
use crate::transport::{MemoryRegistration, RemoteKey};
use crate::wire::request::{About, Rows};

/// The rank as which an agent holds the locks of accumulates: none, so that the locks are not taken
/// away when a rank is lost.
const NO_RANK: Rank = Rank(u32::MAX - 1);

/// The segment of a node's first rank in whose only word landings are counted.
pub(crate) const LANDINGS: SegmentId = SegmentId(2);

/// The slot of a far call: an index, and a count that tells its uses apart.
pub(crate) mod slot {
    /// The width of the index.
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

/// A slot for calls of a rank.
#[derive(PartialEq, Eq, Hash)]
struct CallerSlot {
    caller: Rank,
    index: u32,
}

/// The latest call in a slot.
struct LatestCall {
    slot: u32,
    /// Its answer, if it was refused before a handler got it.
    refused: Option<FarAnswer>,
}

/// A loss that the ranks of this node have not been told of.
struct UntoldLoss {
    rank: Rank,
    how: ExitCause,
    cause: Option<Loss>,
}

/// The memory of one node.
pub(crate) struct NodeMemory {
    job: Arc<Job>,
    node: Node,
    reach: Reach,
    /// Returns the port of a rank's host-based server.
    host_port: HostPort,
    /// The latest call in each slot of each caller.
    calls: FxHashMap<CallerSlot, LatestCall>,
    /// What refuses lost ranks beside the job's table, where other servers serve this node, too.
    pub(crate) fence: Option<Box<dyn Fence>>,
    /// The losses that the ranks of this node have not been told of.
    losses: Vec<UntoldLoss>,
    /// Whether a departure has been noted that the waiting ranks have not been woken for.
    pub(crate) departures_changed: bool,
    /// What registers memory for direct operations, if the transport has those.
    pub(crate) registration: Option<Box<dyn MemoryRegistration>>,
}

impl NodeMemory {
    pub(crate) fn new(job: Arc<Job>, node: Node, host_port: HostPort) -> NodeMemory {
        let reach = Reach::new(job.clone(), node);
        NodeMemory {
            job,
            node,
            reach,
            host_port,
            calls: FxHashMap::default(),
            fence: None,
            losses: Vec::new(),
            departures_changed: false,
            registration: None,
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

    /// Tells the ranks of this node of losses, of each as soon as no server executes anything of
    /// the lost rank any more. Until then, and from then on, nothing of it is begun.
    pub(crate) fn tell_losses(&mut self) {
        let NodeMemory { job, fence, losses, departures_changed, .. } = self;
        losses.retain(|&UntoldLoss { rank, how, cause }| {
            if fence.as_ref().is_some_and(|fence| !fence.close(rank)) {
                return true;
            }
            job.note_departure(rank, PeerState::Lost(how), cause);
            *departures_changed = true;
            false
        });
    }

    /// Returns whether the ranks of this node are still to be told of a loss.
    pub(crate) fn has_losses(&self) -> bool {
        !self.losses.is_empty()
    }

    /// Calls `act` with rows as a region.
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
        let mut holder_is_lost = |holder: Rank| {
            std::thread::yield_now();
            self.job.topology().check(holder).is_ok()
                && matches!(self.job.peer_state(holder), PeerState::Lost(_))
        };
        let mut contender = Contender { me: NO_RANK, holder_is_lost: &mut holder_is_lost };
        self.with_region(to, |region| {
            self.reach.accumulate(region, accumulate, data, old, &mut contender)
        })
    }

    fn atomic(&mut self, at: Word, op: Atomic) -> Result<u128> {
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
            self.losses.push(UntoldLoss { rank, how, cause });
            return self.tell_losses();
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
                registration.register(rank, segment, memory).map(RemoteKey::to_word)
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
