//! What is in the job's file, and where.

use std::sync::atomic::{AtomicU32, AtomicU64};

use farside_fabric::FailureCounters;
use farside_fabric::memory::Stripes;
use farside_fabric::record::{RANK_RECORD_BYTES, Ring};

use crate::bell::Bell;

/// How many calls a rank may have under way.
pub(crate) const CALL_SLOTS: u32 = 16;
/// The longest argument or reply of a call: a page, and what is said of it.
pub(crate) const CALL_BYTES: u64 = 4608;
/// How many segments a rank may have at a time.
pub(crate) const SEGMENTS: u64 = 16 * 1024;
pub(crate) const SLOT_BYTES: u64 = size_of::<CallSlot>() as u64 + CALL_BYTES;

/// Where everything is; computed alike by everybody from the header's numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) members: u64,
    pub(crate) agents: u64,
    pub(crate) sums: u64,
    pub(crate) waiting_calls: u64,
    pub(crate) slots: u64,
    pub(crate) tables: u64,
    pub(crate) topology: u64,
    pub(crate) records: u64,
    pub(crate) rings: u64,
    pub(crate) beside: u64,
    pub(crate) roots: u64,
    pub(crate) arenas: u64,
    pub(crate) total: u64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// How many rings of latest operations there are.
    pub(crate) rings: u32,
    pub(crate) topology: u64,
    pub(crate) beside: u64,
    pub(crate) root: u64,
    pub(crate) arena: u64,
}

impl Layout {
    pub(crate) fn new(ranks: u32, nodes: u32, sizes: Sizes, page: u64) -> Option<Layout> {
        let (ranks, nodes) = (u64::from(ranks), u64::from(nodes));
        // What a waiting rank looks at is on one page, as far as it fits: a rank that gets a
        // processor finds all of them cold.
        let members = size_of::<Header>() as u64;
        let agents = members + ranks * size_of::<Member>() as u64;
        let mut next = (agents + nodes * size_of::<AgentLine>() as u64).next_multiple_of(page);
        let mut take = |bytes: u64| {
            let at = next;
            next = next.checked_add(bytes)?.checked_next_multiple_of(page)?;
            Some(at)
        };
        let sums = take(ranks * size_of::<Stripes>() as u64)?;
        let waiting_calls = take(nodes * (ranks * u64::from(CALL_SLOTS)).div_ceil(64) * 8)?;
        let slots = take(ranks * u64::from(CALL_SLOTS) * SLOT_BYTES)?;
        let tables = take(ranks * SEGMENTS * size_of::<Entry>() as u64)?;
        let topology = take(sizes.topology)?;
        // On pages of their own: a waiting rank does not touch them until it sleeps.
        let records = take(ranks * RANK_RECORD_BYTES)?;
        let rings = take(u64::from(sizes.rings) * size_of::<Ring>() as u64)?;
        let beside = take(sizes.beside)?;
        let roots = take(sizes.root.checked_mul(ranks)?)?;
        let arenas = take(sizes.arena.checked_mul(ranks)?)?;
        Some(Layout {
            members,
            agents,
            sums,
            waiting_calls,
            slots,
            tables,
            topology,
            records,
            rings,
            beside,
            roots,
            arenas,
            total: next,
        })
    }
}

#[repr(C, align(128))]
pub(crate) struct Header {
    pub(crate) magic: AtomicU64,
    pub(crate) ranks: AtomicU32,
    /// More than one if the topology pretends so: then each has an agent of its own.
    pub(crate) nodes: AtomicU32,
    pub(crate) cores: AtomicU32,
    /// How many rings there are: one for each rank and each thread that may serve, or none.
    pub(crate) rings: AtomicU32,
    pub(crate) arena_bytes: AtomicU64,
    pub(crate) root_bytes: AtomicU64,
    pub(crate) topology_bytes: AtomicU64,
    pub(crate) beside_bytes: AtomicU64,
    /// On a line of its own: every operation looks at it, and it hardly ever changes.
    pub(crate) failures: FailureLine,
    pub(crate) endpoints: Line<AtomicU32>,
    /// How many departures were numbered.
    pub(crate) departures: AtomicU32,
}

#[repr(C, align(128))]
pub(crate) struct FailureLine(pub(crate) FailureCounters);

#[repr(C, align(128))]
pub(crate) struct Line<T>(pub(crate) T);

/// What ranks know of a node's agent.
#[repr(C, align(128))]
pub(crate) struct AgentLine {
    pub(crate) bell: Bell,
    /// Where those sleep who would run the handlers next.
    pub(crate) standby: Bell,
    /// See `Job::executing`.
    pub(crate) executing: AtomicU32,
}

/// What others know of a rank.
#[repr(C, align(128))]
pub(crate) struct Member {
    pub(crate) bell: Bell,
    /// What has become of it. The rest of its [`Departure`](farside_fabric::Departure) is there
    /// before that: see `fate`.
    pub(crate) peer_state: AtomicU64,
    pub(crate) order: AtomicU32,
    /// How many of the departures it has got over.
    pub(crate) got_over: AtomicU32,
    pub(crate) cause: AtomicU64,
    /// Whether its program has failed by itself.
    pub(crate) failed: AtomicU32,
    /// See `succession`.
    pub(crate) serving: AtomicU32,
}

/// The control words of a call; the bytes follow it.
#[repr(C, align(64))]
pub(crate) struct CallSlot {
    /// Where the call stands: see `agent`.
    pub(crate) state: AtomicU32,
    pub(crate) handler: AtomicU32,
    pub(crate) node: AtomicU32,
    /// Whose process executes it.
    pub(crate) runner: AtomicU32,
    /// How long the argument, then the reply, is.
    pub(crate) bytes: AtomicU64,
}

/// A segment of a rank: a piece of its arena.
#[repr(C)]
pub(crate) struct Entry {
    pub(crate) id: AtomicU64,
    pub(crate) offset: AtomicU64,
    pub(crate) bytes: AtomicU64,
    /// Not zero if traffic to it does not count as landings: see `Job::exclude`.
    pub(crate) is_excluded: AtomicU64,
}
