//! The memory of a node's ranks, as far requests change it.

use std::sync::Arc;

use farside_fabric::memory::full_fence;
use farside_fabric::{
    Agent as _, Atomic, Error, HandlerId, Loss, Node, PeerState, Piece, Rank, Region, Result,
    SegmentId, Shape, Sum, Width, Word,
};
use farside_shm::{FarAnswer, Job, Reach};
use rustc_hash::FxHashMap;

use crate::directory::Directory;
use crate::line::Registrar;
use crate::seat::LANDINGS;
use crate::service::{Asked, Memory};
use crate::wire::request::{About, Rows};

/// Under which name an agent holds the locks of sums: that of no rank, so that nobody takes them
/// away when a rank is lost.
const NOBODY: Rank = Rank(u32::MAX - 1);

/// What a far call's slot is made of: an index and a count that tells its uses apart.
pub(crate) mod slot {
    /// How many bits the index has.
    const INDEX_BITS: u32 = 4;

    pub(crate) fn new(index: u32, count: u32) -> u32 {
        (count << INDEX_BITS) | index
    }

    pub(crate) fn index(slot: u32) -> u32 {
        slot & ((1 << INDEX_BITS) - 1)
    }
}

/// The memory of one node.
pub(crate) struct Target {
    job: Arc<Job>,
    node: Node,
    reach: Reach,
    directory: Directory,
    /// Which use of each caller's slots is the latest, and its answer if it needed none of the
    /// handler's.
    calls: FxHashMap<(Rank, u32), (u32, Option<FarAnswer>)>,
    /// Whether the fate of a rank was changed since somebody looked.
    pub(crate) fates_changed: bool,
    /// What makes memory reachable without us, if the network can.
    pub(crate) registrar: Option<Box<dyn Registrar>>,
}

impl Target {
    pub(crate) fn new(job: Arc<Job>, node: Node, directory: Directory) -> Target {
        let reach = Reach::new(job.clone(), node);
        Target {
            job,
            node,
            reach,
            directory,
            calls: FxHashMap::default(),
            fates_changed: false,
            registrar: None,
        }
    }

    /// Only memory of this node is here.
    fn check(&self, rank: Rank) -> Result<()> {
        let topology = self.job.topology();
        topology.check(rank)?;
        if topology.node_of(rank) == self.node {
            Ok(())
        } else {
            Err(Error::UnknownRank { rank, ranks: topology.ranks() })
        }
    }

    /// Rows as a region.
    fn with_region<R>(&self, rows: &Rows, act: impl FnOnce(&Region<'_>) -> Result<R>) -> Result<R> {
        self.check(rows.rank)?;
        let (unit, count) = (u64::from(rows.unit), u64::from(rows.count));
        let (counts, strides) = ([count], [rows.stride]);
        // Rows without bytes are none, however many there are.
        let shape = if count == 1 || unit == 0 {
            Shape::Block(Piece { offset: rows.offset, bytes: unit })
        } else {
            Shape::Strided { offset: rows.offset, unit, counts: &counts, strides: &strides }
        };
        act(&Region { rank: rows.rank, segment: rows.segment, shape })
    }
}

impl Memory for Target {
    fn put(&mut self, to: &Rows, data: &[u8]) -> Result<()> {
        self.with_region(to, |region| self.reach.put(region, data))
    }

    fn get(&mut self, from: &Rows, into: &mut Vec<u8>) -> Result<()> {
        let begin = into.len();
        into.resize(begin + from.bytes() as usize, 0);
        self.with_region(from, |region| self.reach.get(region, &mut into[begin..]))
    }

    fn accumulate(&mut self, to: &Rows, sum: &Sum, data: &[u8]) -> Result<()> {
        let mut held_up = |holder: Rank| {
            std::thread::yield_now();
            self.job.topology().check(holder).is_ok()
                && matches!(self.job.peer_state(holder), PeerState::Lost(_))
        };
        self.with_region(to, |region| {
            self.reach.accumulate(region, sum, data, NOBODY, &mut held_up)
        })
    }

    fn atomic(&mut self, at: Word, op: Atomic) -> Result<u128> {
        self.check(at.rank)?;
        self.reach.atomic(at, op)
    }

    fn wake(&mut self, at: Word) {
        // For a word that is gone by now nobody waits.
        let _ = self.check(at.rank).and_then(|()| self.reach.wake_for(at));
    }

    fn count_landings(&mut self, count: u64) {
        // What has landed is visible before its count is.
        full_fence();
        if let Ok(rank) = self.job.topology().leader_of(self.node) {
            let at = Word { rank, segment: LANDINGS, offset: 0, width: Width::W64 };
            // The leader has not joined yet: nobody counts.
            let _ = self.reach.atomic(at, Atomic::Add(count.into()));
        }
    }

    fn call(&mut self, caller: Rank, slot: u32, handler: u32, argument: &[u8]) {
        let index = slot::index(slot);
        let refused = self.job.ask(self.node, caller, index, HandlerId(handler), argument);
        self.calls.insert((caller, index), (slot, refused));
    }

    fn answer(&mut self, caller: Rank, slot: u32) -> Asked {
        let index = slot::index(slot);
        let answer = match self.calls.get(&(caller, index)) {
            Some((latest, known)) if *latest == slot => {
                known.clone().or_else(|| self.job.answer(caller, index))
            }
            _ => return Asked::Forgotten,
        };
        answer.map_or(Asked::Pending, |answer| Asked::Answered(answer.state, answer.reply))
    }

    fn note_departure(&mut self, rank: Rank, peer_state: PeerState, cause: Option<Loss>) {
        self.job.note_departure(rank, peer_state, cause);
        self.fates_changed = true;
    }

    fn locate(&mut self, rank: Rank) -> Result<u16> {
        self.check(rank)?;
        Ok(self.directory.host_port(rank))
    }

    fn segment(
        &mut self,
        rank: Rank,
        segment: SegmentId,
        about: About,
        may_end: bool,
    ) -> Result<u128> {
        self.check(rank)?;
        let Some(registrar) = &mut self.registrar else {
            return Err(Error::Unsupported {
                what: "memory access without an agent, over this network".into(),
            });
        };
        match about {
            About::Name => registrar.register(rank, segment, self.job.segment(rank, segment)?),
            About::Length => Ok(self.job.segment(rank, segment)?.bytes().into()),
            About::End => {
                if may_end {
                    registrar.forget(rank, segment);
                }
                Ok(0)
            }
        }
    }
}
