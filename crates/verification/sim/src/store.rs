//! The state of a simulated machine, without any notion of time: memory, handlers, replies,
//! departures.

use std::collections::{BTreeMap, HashMap};
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use farside_fabric::{
    Atomic, Error, FailureCounters, Handler, HandlerId, Loss, Mapped, Node, PeerState, Piece, Rank,
    Region, Reply, Result, Roster, SegmentId, Ticket, Topology, Width, Word, first_cause,
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::body::{Body, ticket};
use crate::event::{EventId, LANDINGS};
use crate::fiber::shift;
use crate::memory::{Memory, Rooms};

/// A reply, and when it comes.
type Answer = (u64, Result<Reply>);

/// One rank's part of a segment: at hand, and for others to keep.
struct Part {
    mapped: Mapped,
    memory: Arc<Memory>,
}

struct RankState {
    /// The number of events that it has caused.
    serial: u32,
    replies: Vec<(Ticket, Option<Answer>)>,
    /// Errors of posted operations, to be told at the next flush.
    late_errors: BTreeMap<Rank, Error>,
}

/// The state of a simulated machine.
pub(crate) struct Store {
    pub(crate) topology: Arc<Topology>,
    pub(crate) failures: Arc<FailureCounters>,
    /// The number of ranks of a node that can run at the same time.
    pub(crate) processors: u32,
    rank_states: Vec<RankState>,
    /// The peer states of the ranks.
    pub(crate) roster: Roster,
    /// What each node has heard of them, where news are slow; otherwise all know at once.
    pub(crate) heard: Vec<Roster>,
    /// The parts of every segment, by rank.
    segments: FxHashMap<SegmentId, Vec<Option<Part>>>,
    rooms: Arc<Rooms>,
    /// Each rank's copies of them.
    pub(crate) handlers: HashMap<(Rank, HandlerId), Handler>,
    /// True if landings are counted on any node.
    counting: bool,
    /// The segments that are excluded from that.
    excluded: FxHashSet<SegmentId>,
}

/// The longest argument and reply of a call: a page, and what is said of it.
pub(crate) const CALL_BYTES: u64 = 4608;

impl Store {
    /// Takes its memory from `rooms`, and gives it back there.
    pub(crate) fn new(topology: Topology, root_bytes: u64, rooms: &Arc<Rooms>) -> Store {
        let rank_state =
            |_| RankState { serial: 0, replies: Vec::new(), late_errors: BTreeMap::new() };
        let ranks = topology.ranks();
        // The first segments are used at the same places by all ranks at a time.
        let root = |rank: u32| Some(Part::new(rooms, root_bytes, shift(rank as usize)));
        let root = (0..ranks).map(root).collect();
        let roster = full_roster(&topology);
        Store {
            topology: Arc::new(topology),
            failures: roster.failures().clone(),
            processors: ranks,
            rank_states: (0..ranks).map(rank_state).collect(),
            roster,
            heard: Vec::new(),
            segments: FxHashMap::from_iter([(SegmentId::ROOT, root)]),
            rooms: rooms.clone(),
            handlers: HashMap::new(),
            counting: false,
            excluded: FxHashSet::default(),
        }
    }

    pub(crate) fn peer_state(&self, rank: Rank) -> PeerState {
        self.roster.peer_state(rank)
    }

    pub(crate) fn register(&mut self, rank: Rank, segment: SegmentId, bytes: u64) -> Result<()> {
        const LIMIT: u64 = 1 << 36;
        if bytes > LIMIT {
            return Err(Error::OutOfMemory { asked: bytes, free: LIMIT, limit: LIMIT });
        }
        let ranks = self.rank_states.len();
        let parts =
            self.segments.entry(segment).or_insert_with(|| (0..ranks).map(|_| None).collect());
        parts[rank.index()] = Some(Part::new(&self.rooms, bytes, 0));
        Ok(())
    }

    pub(crate) fn deregister(&mut self, rank: Rank, segment: SegmentId) -> Result<()> {
        let unknown = Error::NoSegment { rank, segment };
        let parts = self.segments.get_mut(&segment).ok_or(unknown.clone())?;
        parts[rank.index()].take().ok_or(unknown)?;
        if parts.iter().all(Option::is_none) {
            self.segments.remove(&segment);
            self.excluded.remove(&segment);
        }
        Ok(())
    }

    pub(crate) fn memory(&self, rank: Rank, segment: SegmentId) -> Result<&Mapped> {
        self.find(rank, segment).map(|kept| &kept.mapped)
    }

    /// Returns a digest of all memory that is registered, or of all but the first segments.
    pub(crate) fn digest(&self, with_first: bool) -> u64 {
        // Most of it is zero, which is told fast.
        const PAGE: usize = 4096;
        let zeros = [0; PAGE];
        let mut hasher = rustc_hash::FxHasher::default();
        let is_meant = |segment: SegmentId| with_first || segment != SegmentId::ROOT;
        let mut segments: Vec<_> =
            self.segments.iter().filter(|(segment, _)| is_meant(**segment)).collect();
        segments.sort_unstable_by_key(|(segment, _)| **segment);
        for (segment, parts) in segments {
            for (rank, part) in parts.iter().enumerate() {
                let Some(part) = part else { continue };
                let (base, bytes) = (part.mapped.base().as_ptr(), part.mapped.bytes() as usize);
                // SAFETY: the part is that long, initialized, and nobody writes it: the only thread
                // that does is this one.
                let bytes = unsafe { std::slice::from_raw_parts(base, bytes) };
                (segment, rank, bytes.len()).hash(&mut hasher);
                for (page, bytes) in bytes.chunks(PAGE).enumerate() {
                    if *bytes != zeros[..bytes.len()] {
                        (page, bytes).hash(&mut hasher);
                    }
                }
            }
        }
        hasher.finish()
    }

    /// Returns a rank's part of a segment as a mapping to keep.
    pub(crate) fn open(&self, rank: Rank, segment: SegmentId) -> Result<Mapped> {
        self.find(rank, segment).map(|kept| kept.memory.mapped())
    }

    fn find(&self, rank: Rank, segment: SegmentId) -> Result<&Part> {
        if rank.index() >= self.rank_states.len() {
            return Err(Error::UnknownRank { rank, ranks: self.rank_states.len() as u32 });
        }
        let part = self.segments.get(&segment).and_then(|parts| parts[rank.index()].as_ref());
        part.ok_or(Error::NoSegment { rank, segment })
    }

    /// Returns the address of an atomic's word, as a hint: it may be gone by the time it is used.
    pub(crate) fn hint(&self, body: &Body) -> *const u8 {
        match body {
            Body::Atomic { at, .. } => {
                self.memory(at.rank, at.segment).map_or(std::ptr::null(), |mapped| {
                    mapped.base().as_ptr().wrapping_add(at.offset as usize).cast_const()
                })
            }
            _ => std::ptr::null(),
        }
    }

    pub(crate) fn serve(&mut self, rank: Rank, id: HandlerId, handler: Handler) {
        self.handlers.insert((rank, id), handler);
    }

    pub(crate) fn next_id(&mut self, rank: Rank) -> EventId {
        let rank_state = &mut self.rank_states[rank.index()];
        rank_state.serial += 1;
        EventId { rank, serial: rank_state.serial }
    }

    pub(crate) fn last_serial(&self, rank: Rank) -> u32 {
        self.rank_states[rank.index()].serial
    }

    /// Returns the pieces of a region, after checking that all of it exists as far as `from` knows.
    pub(crate) fn pieces(&self, from: Node, region: &Region<'_>) -> Result<Vec<Piece>> {
        self.check_peer(from, region.rank)?;
        self.pieces_on_node(region)
    }

    /// Returns the pieces of a region for a handler of its node: memory stays when its rank is
    /// lost.
    pub(crate) fn pieces_on_node(&self, region: &Region<'_>) -> Result<Vec<Piece>> {
        region.check(self.memory(region.rank, region.segment)?.bytes())?;
        let mut pieces = Vec::new();
        region.shape.for_each(|piece| pieces.push(piece));
        Ok(pieces)
    }

    pub(crate) fn check_word(&self, from: Node, at: Word, op: Atomic) -> Result<()> {
        self.check_peer(from, at.rank)?;
        self.check_word_on_node(at, op)
    }

    /// Checks a word for a handler of its node.
    pub(crate) fn check_word_on_node(&self, at: Word, op: Atomic) -> Result<()> {
        op.check(at.width)?;
        at.check(self.memory(at.rank, at.segment)?.bytes())
    }

    /// Fails if there is no such rank, or it was lost.
    #[inline]
    pub(crate) fn check_alive(&self, rank: Rank) -> Result<()> {
        self.check_state(&self.roster, rank)
    }

    /// Fails if there is no such rank, or it was lost as far as a node knows.
    #[inline]
    fn check_peer(&self, from: Node, rank: Rank) -> Result<()> {
        self.check_state(self.heard_at(from), rank)
    }

    #[inline]
    fn check_state(&self, roster: &Roster, rank: Rank) -> Result<()> {
        self.topology.check(rank)?;
        // Usually no rank is lost, and then there is nothing to look up.
        if self.failures.losses.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        match roster.peer_state(rank) {
            PeerState::Lost(how) => {
                Err(first_cause(rank, Loss { rank, how }, |rank| roster.departure(rank)).error())
            }
            _ => Ok(()),
        }
    }

    /// A rank expects the reply of an operation.
    pub(crate) fn expect(&mut self, id: EventId) {
        self.rank_states[id.rank.index()].replies.push((ticket(id), None));
    }

    /// The reply of an operation comes at `at_ns`, unless it was given up meanwhile.
    pub(crate) fn answer(&mut self, id: EventId, at_ns: u64, reply: Result<Reply>) {
        let replies = &mut self.rank_states[id.rank.index()].replies;
        if let Some((_, held)) = replies.iter_mut().find(|(known, _)| *known == ticket(id)) {
            *held = Some((at_ns, reply));
        }
    }

    pub(crate) fn forget(&mut self, rank: Rank, given_up: Ticket) {
        self.rank_states[rank.index()].replies.retain(|(known, _)| *known != given_up);
    }

    /// Returns the time at which the reply of an operation comes, as far as it is known; an unknown
    /// operation has ended long ago.
    pub(crate) fn reply_at(&self, rank: Rank, asked: Ticket) -> Option<u64> {
        let replies = &self.rank_states[rank.index()].replies;
        match replies.iter().find(|(known, _)| *known == asked) {
            None => Some(0),
            Some((_, held)) => held.as_ref().map(|(at_ns, _)| *at_ns),
        }
    }

    pub(crate) fn poll(&mut self, rank: Rank, asked: Ticket, now_ns: u64) -> Result<Option<Reply>> {
        let replies = &mut self.rank_states[rank.index()].replies;
        let Some(at) = replies.iter().position(|(known, _)| *known == asked) else {
            return Err(Error::Internal(format!(
                "{asked:?} does not name an operation in flight from {rank}"
            )));
        };
        match &replies[at].1 {
            Some((at_ns, _)) if *at_ns <= now_ns => {
                replies.swap_remove(at).1.map(|(_, reply)| reply).transpose()
            }
            _ => Ok(None),
        }
    }

    /// A posted operation failed: its rank hears of it when it flushes.
    pub(crate) fn fail_later(&mut self, origin: Rank, target: Rank, error: Error) {
        self.rank_states[origin.index()].late_errors.entry(target).or_insert(error);
    }

    pub(crate) fn late_error(&mut self, origin: Rank, target: Rank) -> Option<Error> {
        self.rank_states[origin.index()].late_errors.remove(&target)
    }

    /// Begins to count what lands on a node, unless that was done.
    pub(crate) fn count_landings(&mut self, node: Node) -> Result<Word> {
        let rank = self.topology.leader_of(node)?;
        self.counting = true;
        if self.memory(rank, LANDINGS).is_err() {
            self.register(rank, LANDINGS, Width::W64.bytes())?;
        }
        Ok(Word { rank, segment: LANDINGS, offset: 0, width: Width::W64 })
    }

    pub(crate) fn exclude(&mut self, segment: SegmentId) {
        self.excluded.insert(segment);
    }

    /// Counts the landing of a posted operation, if it is of those that count. Returns the word
    /// that holds the count.
    pub(crate) fn count_landing(
        &mut self,
        origin: Rank,
        target: Rank,
        body: &Body,
    ) -> Option<Word> {
        let at = self.landing_count(origin, target, body)?;
        let counted =
            self.memory(at.rank, at.segment).ok()?.atomic(at.offset, at.width, Atomic::Add(1));
        counted.map(|_| at)
    }

    /// The word that counts the landing of a posted operation, if it is of those that count.
    pub(crate) fn landing_count(&self, origin: Rank, target: Rank, body: &Body) -> Option<Word> {
        let segment = body.segment()?;
        if !self.counting
            || segment == SegmentId::ROOT
            || self.excluded.contains(&segment)
            || self.topology.same_node(origin, target)
        {
            return None;
        }
        let rank = self.topology.leader_of(self.topology.node_of(target)).ok()?;
        self.memory(rank, LANDINGS).ok()?;
        Some(Word { rank, segment: LANDINGS, offset: 0, width: Width::W64 })
    }

    /// Returns whether an operation is on memory that protocols send messages through, as
    /// collectives do: what is posted there does not count as landed.
    pub(crate) fn is_message(&self, body: &Body) -> bool {
        let is_of_protocol =
            |segment: SegmentId| segment == SegmentId::ROOT || self.excluded.contains(&segment);
        body.segment().is_some_and(is_of_protocol)
    }
}

impl Part {
    fn new(rooms: &Arc<Rooms>, bytes: u64, skipped: usize) -> Part {
        let memory = Memory::new(rooms, bytes, skipped);
        Part { mapped: memory.mapped(), memory }
    }
}

/// Returns the peer states of ranks that have all joined.
pub(crate) fn full_roster(topology: &Topology) -> Roster {
    let mut roster = Roster::new(topology.ranks());
    topology.all().iter().for_each(|&rank| assert!(roster.join(rank)));
    roster
}
