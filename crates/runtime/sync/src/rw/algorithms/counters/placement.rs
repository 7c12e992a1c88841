//! Where the counters are, and what bounds readers and writers.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;

use farside_fabric::{Error, Rank, Result, Topology};
use farside_rma::{Context, Place};

use super::fields::{CLOSER_BITS, Fields, PRESENT_BITS, mask};
use super::{COUNTER, Counters};
use crate::lock::frame::LockWords;

const T_R_MAX: u32 = 1 << 16;

#[derive(Debug, Clone, Copy)]
pub(in crate::rw::algorithms) struct Limits {
    /// How many ranks share a counter; those of a node if it is not said.
    pub(in crate::rw::algorithms) t_dc: Option<u32>,
    /// How many readers go in at a counter before they ask for writers; they never ask without it.
    pub(in crate::rw::algorithms) t_r: Option<u32>,
    /// How many openings may pass a reader before it leaves its arrival in a closed counter.
    pub(in crate::rw::algorithms) yields: u32,
}

impl Limits {
    /// Refuses a T_R that the counters cannot count to.
    pub(in crate::rw::algorithms) fn check_t_r(t_r: u32) -> Result<()> {
        if (1..=T_R_MAX).contains(&t_r) {
            return Ok(());
        }
        Err(Error::InvalidArgument(format!(
            "T_R of a reader-writer lock is 1 to {T_R_MAX}, not {t_r}"
        )))
    }
}

/// Refuses a job with more ranks than the fields can name.
pub(in crate::rw::algorithms) fn check_ranks(ranks: u32) -> Result<()> {
    if u64::from(ranks) < mask(PRESENT_BITS.min(CLOSER_BITS)) {
        return Ok(());
    }
    Err(Error::InvalidArgument(format!(
        "a reader-writer lock with counters supports jobs of fewer than {} ranks, not {ranks}; \
         use Kind::FompiRw",
        mask(PRESENT_BITS.min(CLOSER_BITS))
    )))
}

impl<F: Fields> Counters<F> {
    /// Makes counters over the words from `base` on.
    pub(in crate::rw::algorithms) fn new(
        base: usize,
        context: &Context,
        members: &[Rank],
        limits: Limits,
    ) -> Result<Counters<F>> {
        check_ranks(context.size())?;
        let groups = groups(context.topology(), members, limits.t_dc);
        let own = groups.iter().find(|group| group.contains(&context.rank()));
        Ok(Counters {
            base,
            mine: own.map_or(context.rank(), |group| group[0]),
            keepers: groups.iter().map(|group| group[0]).collect(),
            limits,
            closed: RefCell::default(),
            told: Cell::new(0),
            fields: PhantomData,
        })
    }

    pub(in crate::rw::algorithms) fn len(&self) -> usize {
        self.keepers.len()
    }

    #[inline]
    pub(super) fn word<'s>(&self, lock: &'s LockWords, keeper: Rank) -> Place<'s, u64> {
        lock.at(keeper, self.base + COUNTER)
    }

    /// Adds to all counters at the same time, and returns what they were.
    pub(super) fn add_to_all(
        &self,
        lock: &LockWords,
        context: &Context,
        value: impl Fn(usize) -> u64,
    ) -> Result<Vec<u64>> {
        let start = |(at, &keeper): (usize, &Rank)| {
            context.fetch_add_nb(self.word(lock, keeper), value(at))
        };
        let started = self.keepers.iter().enumerate().map(start).collect::<Result<Vec<_>>>()?;
        started.into_iter().map(|fetch| fetch.wait()).collect()
    }
}

/// The members that share a counter: `t_dc` neighbours of a node, or as many whole nodes as have
/// that many, or each node by itself.
fn groups(topology: &Topology, members: &[Rank], t_dc: Option<u32>) -> Vec<Vec<Rank>> {
    let mut by_node: Vec<Vec<Rank>> = Vec::new();
    let mut sorted = members.to_vec();
    let place = |rank: &Rank| -> Vec<u32> {
        topology.levels().iter().map(|level| level.element_of[rank.index()]).collect()
    };
    sorted.sort_by_cached_key(place);
    for rank in sorted {
        match by_node.last_mut() {
            Some(node) if topology.same_node(node[0], rank) => node.push(rank),
            _ => by_node.push(vec![rank]),
        }
    }
    let Some(t_dc) = t_dc.map(|t_dc| t_dc.max(1) as usize) else {
        return by_node;
    };
    let mut groups: Vec<Vec<Rank>> = Vec::new();
    let mut has_room = false;
    for node in by_node {
        if node.len() > t_dc {
            groups.extend(node.chunks(t_dc).map(<[Rank]>::to_vec));
            has_room = false;
            continue;
        }
        match groups.last_mut() {
            Some(group) if has_room => group.extend(node),
            _ => groups.push(node),
        }
        has_room = groups.last().is_some_and(|group| group.len() < t_dc);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_placed_by_the_topology() {
        let keepers = |topology: &str, ranks: u32, t_dc: Option<u32>| -> Vec<u32> {
            let topology = Topology::parse(topology, ranks).unwrap();
            let groups = groups(&topology, topology.all(), t_dc);
            assert_eq!(groups.iter().map(Vec::len).sum::<usize>(), ranks as usize);
            groups.iter().map(|group| group[0].0).collect()
        };
        assert_eq!(keepers("node:4", 16, None), [0, 4, 8, 12]);
        assert_eq!(keepers("node:4", 16, Some(2)), [0, 2, 4, 6, 8, 10, 12, 14]);
        assert_eq!(keepers("node:4", 16, Some(8)), [0, 8]);
        assert_eq!(keepers("node:4", 16, Some(3)), [0, 3, 4, 7, 8, 11, 12, 15]);
        assert_eq!(keepers("node:1", 5, Some(1)), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn too_many_ranks_are_refused() {
        assert!(check_ranks(4096).is_ok());
        let error = check_ranks(1 << 20).expect_err("there is no room").to_string();
        assert!(error.contains("1048576") && error.contains("FompiRw"), "{error}");
    }
}
