//! Coherence domains: the ranks that share one copy of the shared memory, and the protocol between
//! domains.
//!
//! Paper:     [BST97] section 2 and TreadMarks; one copy for the processors of a node as in the
//!            two-level protocols after it (Cashmere-2L: incoming diffs are merged into page and
//!            twin).
//! Differs:   no page is protected while its diff is made, and no rank is interrupted (`chain.rs`).
//! State:     in windows of the domain's first rank: pages, twins, diffs, the log of intervals, and
//!            what is known of each page. On each rank: what its mapping allows.
//! Invariant: a rank past a synchronization cannot touch a page before all that happened before it
//!            is in the domain's copy. Ranks of one domain need no notices for that.
//! Ordering:  `a_merge_over_a_neighbours_store_is_caught`, `a_merge_beside_the_twin_is_caught`,
//!            `a_closed_page_that_is_not_told_of_is_caught`.
//! Cost:      a fault on an invalid page 1 call for each domain that has written it; an interval 1
//!            notice for each page that was opened, or was asked for and has changed.
//! Checked:   2 ranks on 2 nodes exhaustively, 3 on 1, 2 and 3 nodes at random where they have
//!            too many schedules; `farside check dsm`.

mod access;
mod chain;
mod meeting;
mod notices;
mod pattern;
mod push;
mod request;
mod table;

use std::sync::{Arc, Mutex, PoisonError};

use farside_fabric::{Error, HandlerId, Mapped, Rank, Result, SegmentId, Topology};
use farside_rma::{Team, Window, World};

use crate::coherence::Allowed;
use crate::config::{Config, Copies, Start};
use crate::failure::agree;
use crate::memory::{Memory, windows};
use crate::state::numbers_before;
use crate::statistics::ArrayStatistics;
use pattern::Pattern;
pub(crate) use push::Pushed;
use request::Served;
use table::{Extents, Field, Table};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Domains {
    /// The domain of each rank.
    of: Vec<u32>,
    /// The first rank of each domain.
    homes: Vec<Rank>,
}

impl Domains {
    pub(crate) fn new(topology: &Topology, copies: Copies) -> Domains {
        let ranks = topology.ranks() as usize;
        if copies == Copies::Rank {
            let homes = (0..ranks as u32).map(Rank).collect();
            return Domains { of: (0..ranks as u32).collect(), homes };
        }
        let mut domains = Domains { of: vec![0; ranks], homes: Vec::new() };
        let mut numbers = vec![None; topology.nodes() as usize];
        for rank in (0..ranks as u32).map(Rank) {
            let node = topology.node_of(rank).0 as usize;
            let number = *numbers[node].get_or_insert_with(|| {
                domains.homes.push(rank);
                domains.homes.len() as u32 - 1
            });
            domains.of[rank.index()] = number;
        }
        domains
    }

    pub(crate) fn count(&self) -> usize {
        self.homes.len()
    }

    pub(crate) fn of(&self, rank: Rank) -> u32 {
        self.of[rank.index()]
    }

    /// Returns the rank that has the memory of a domain.
    pub(crate) fn home(&self, domain: u32) -> Rank {
        self.homes[domain as usize]
    }
}

pub(crate) struct DomainWindows {
    pub(crate) table: Window<u64>,
    pub(crate) twins: Window<u32>,
}

impl DomainWindows {
    pub(crate) fn new(
        team: &Team<'_>,
        config: &Config,
        domains: &Domains,
    ) -> Result<DomainWindows> {
        let twins = [config.bytes as usize / 4];
        let ([table], ([twins], ())) =
            windows(team, [extents(config, domains).words()], || windows(team, twins, || Ok(())))?;
        Ok(DomainWindows { table, twins })
    }

    pub(crate) fn free(self, world: &World) -> Result<()> {
        self.table.free(world).and(self.twins.free(world))
    }
}

fn extents(config: &Config, domains: &Domains) -> Extents {
    Extents {
        pages: config.bytes as usize / config.page_bytes,
        page_words: config.page_bytes / 4,
        domains: domains.count(),
    }
}

pub(crate) struct Domain {
    pub(crate) domains: Domains,
    pub(crate) me: u32,
    /// The pages that all ranks of the domain share.
    copy: Mapped,
    /// The state of the domain; `None` if it is the only one: then there is nothing to keep.
    state: Option<State>,
}

struct State {
    table: Arc<Table>,
    served: Served,
    handler: HandlerId,
    /// The accesses that this rank's mapping allows, for each page.
    mapped: Vec<Allowed>,
    /// The position up to which this rank has read the list of changes of this epoch.
    cursor: usize,
    pattern: Pattern,
    counts: Vec<PageCounts>,
}

#[derive(Debug, Clone, Copy, Default)]
struct PageCounts {
    read_faults: u32,
    write_faults: u32,
    twins: u32,
    diffs_applied: u32,
}

/// Returns whether a rank can reach the memory of the homes that it needs by loads and stores.
pub(crate) fn is_near(world: &World, segment: SegmentId) -> bool {
    let here = world.topology().ranks_of(world.topology().node_of(world.rank()));
    here.iter().all(|&rank| matches!(world.fabric().map(rank, segment), Ok(Some(_))))
}

impl Domain {
    /// Joins the domain of this rank. Collective.
    pub(crate) fn new(
        world: &World,
        config: &Config,
        memory: &Memory,
        domains: Domains,
    ) -> Result<Domain> {
        let me = domains.of(world.rank());
        let home = domains.home(me);
        let copy = map(world, home, memory.copy.segment());
        let extents = extents(config, &domains);
        let mapped = copy.and_then(|copy| Ok((copy, tables(world, extents, memory, &domains)?)));
        let (copy, served) = agree(world, mapped)?;
        if memory.domain.is_none() {
            return Ok(Domain { domains, me, copy, state: None });
        }
        let mine = served.iter().find(|(rank, _)| *rank == home).map(|(_, table)| table.clone());
        let table = mine.ok_or_else(|| Error::Internal("a rank has no domain".into()))?;
        let has_copies = config.start == Start::Zero || me == 0;
        if !has_copies && world.rank() == home {
            (0..extents.pages as u32).for_each(|page| table.set_field(page, Field::CopyAt, 1));
        }
        if world.rank() == home {
            table.set_word(table::ORDER, numbers_before(world).1);
        }
        let served: Served = Arc::new(Mutex::new(served));
        let bytes_max = world.job().caps.call_bytes_max as usize;
        let handler = {
            let served = served.clone();
            world.serve(move |_, _, asked| request::serve(&served, bytes_max, asked))?
        };
        let allowed = if has_copies { Allowed::Reading } else { Allowed::Nothing };
        let (mapped, pattern) = (vec![allowed; extents.pages], Pattern::new(extents.pages));
        let counts = vec![PageCounts::default(); extents.pages];
        let state = State { table, served, handler, mapped, cursor: 0, pattern, counts };
        Ok(Domain { domains, me, copy, state: Some(state) })
    }

    pub(crate) fn copy(&self) -> &Mapped {
        &self.copy
    }

    pub(crate) fn is_alone(&self) -> bool {
        self.state.is_none()
    }

    /// Returns whether this domain has several ranks.
    pub(crate) fn is_shared(&self) -> bool {
        self.domains.of.iter().filter(|&&domain| domain == self.me).count() > 1
    }

    pub(crate) fn home(&self) -> Rank {
        self.domains.home(self.me)
    }

    /// Adds what is known of the pages of an allocation. What the domain knows is told by its first
    /// rank.
    pub(crate) fn add_to(&self, array: &mut ArrayStatistics, page_bytes: u64, me: Rank) {
        let Some(state) = &self.state else { return };
        let end = (array.offset + array.bytes).div_ceil(page_bytes);
        for page in array.offset / page_bytes..end {
            let counts = state.counts[page as usize];
            array.read_faults += u64::from(counts.read_faults);
            array.write_faults += u64::from(counts.write_faults);
            array.twins += u64::from(counts.twins);
            array.diffs_applied += u64::from(counts.diffs_applied);
            if me != self.home() {
                continue;
            }
            array.diffs_made += state.table.field(page as u32, Field::DiffsMade);
            array.diffs_wanted += state.table.field(page as u32, Field::DiffsWanted);
            let moves = state.table.field(page as u32, Field::Moves);
            array.moves += moves;
            if moves > 0 {
                let field = |field| state.table.field(page as u32, field);
                let writers = field(Field::Writers);
                array.moving_pages += 1;
                array.writers |= writers;
                if field(Field::OtherWords) > field(Field::SameWords) {
                    array.false_pages += 1;
                    array.false_moves += moves;
                    array.false_writers |= writers;
                } else if 2 * field(Field::LockMoves) > moves {
                    array.lock_pages += 1;
                    array.lock_moves += moves;
                    array.lock_writers |= writers;
                }
            }
        }
    }

    /// Lets the agent forget the domains of this node, when no rank asks any more.
    pub(crate) fn retire(&self) {
        if let Some(state) = &self.state {
            state.served.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
    }

    pub(crate) fn allows(&self, page: u32) -> Allowed {
        self.state.as_ref().map_or(Allowed::Writing, |state| state.mapped[page as usize])
    }
}

/// Maps the state of the domains of this node, each with its home; none if there is but one.
fn tables(
    world: &World,
    extents: Extents,
    memory: &Memory,
    domains: &Domains,
) -> Result<Vec<(Rank, Arc<Table>)>> {
    let Some(windows) = &memory.domain else { return Ok(Vec::new()) };
    let topology = world.topology();
    let mut tables = Vec::new();
    for (number, &home) in (0..).zip(&domains.homes) {
        if topology.node_of(home) != topology.node_of(world.rank()) {
            continue;
        }
        let table = Table {
            extents,
            domain: number,
            omitted: table::omitted(world),
            words: map(world, home, windows.table.segment())?,
            copy: map(world, home, memory.copy.segment())?,
            twins: map(world, home, windows.twins.segment())?,
            diffs: map(world, home, memory.diffs.segment())?,
            log: map(world, home, memory.log.segment())?,
        };
        tables.push((home, Arc::new(table)));
    }
    Ok(tables)
}

fn map(world: &World, rank: Rank, segment: SegmentId) -> Result<Mapped> {
    world.fabric().map(rank, segment)?.ok_or_else(|| {
        Error::Internal(format!("the shared memory of {rank} is out of reach on its own node"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_a_node_share_a_domain() {
        let topology = Topology::parse("node:2", 5).unwrap();
        let domains = Domains::new(&topology, Copies::Node);
        assert_eq!(domains.count(), 2);
        for rank in (0..5).map(Rank) {
            let home = domains.home(domains.of(rank));
            assert_eq!(topology.node_of(home), topology.node_of(rank));
            assert!(home <= rank);
        }
        assert_eq!(Domains::new(&topology, Copies::Rank).count(), 5);
    }
}
