//! Where everything is in the job's file.

use farside_fabric::memory::Stripes;
use farside_fabric::record::{RANK_RECORD_BYTES, Ring};

use crate::memory::{AgentLine, CALL_BYTES, CALL_SLOTS, CallSlot, Header, Member};
use crate::segments::{Entry, SEGMENTS};

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
