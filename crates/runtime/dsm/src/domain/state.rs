//! What a rank keeps for itself of its domain, and how it joins the domain.

use std::sync::{Arc, Mutex};

use farside_fabric::{Error, HandlerId, Mapped, Rank, Result};
use farside_rma::World;

use super::pattern::Pattern;
use super::request::{self, Served};
use super::table::{self, Extents, Field, Table};
use crate::config::{Config, Start};
use crate::copies::{Domains, map};
use crate::failure::agree;
use crate::guard::Allowed;
use crate::memory::{Memory, PageWindows};
use crate::state::numbers_before;

pub(crate) struct Domain {
    pub(super) table: Arc<Table>,
    pub(super) served: Served,
    pub(super) handler: HandlerId,
    /// The accesses that this rank's mapping allows, for each page.
    pub(super) mapped: Vec<Allowed>,
    /// An epoch, and the position up to which this rank has read its list of changes.
    pub(super) cursor: (u32, usize),
    pub(super) pattern: Pattern,
    pub(super) counts: Vec<PageCounts>,
    /// Diffs that came with messages of the barrier that is being passed.
    pub(super) pushed: Vec<Pushed>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PageCounts {
    pub(super) read_faults: u32,
    pub(super) write_faults: u32,
    pub(super) twins: u32,
    pub(super) diffs_applied: u32,
}

/// The diffs of a page that came with a message of a barrier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pushed {
    pub(super) domain: u32,
    pub(super) page: u32,
    /// The number of the notice of the diff before them, and that of the last of them.
    pub(super) after: u64,
    pub(super) upto: u64,
    pub(super) diffs: Vec<PushedDiff>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PushedDiff {
    /// The number of its notice, and the order.
    pub(super) number: u64,
    pub(super) order: u64,
    pub(super) words: Vec<u32>,
}

/// Returns the number of words of a domain's state.
pub(crate) fn table_words(config: &Config, domains: &Domains) -> usize {
    extents(config, domains).words()
}

fn extents(config: &Config, domains: &Domains) -> Extents {
    Extents {
        pages: config.bytes as usize / config.page_bytes,
        page_words: config.page_bytes / 4,
        domains: domains.count(),
    }
}

impl Domain {
    /// Joins the domain of this rank. Collective.
    pub(crate) fn new(
        world: &World,
        config: &Config,
        memory: &Memory,
        windows: &PageWindows,
        domains: &Domains,
    ) -> Result<Domain> {
        let me = domains.of(world.rank());
        let home = domains.home_of(world.rank());
        let extents = extents(config, domains);
        let served = agree(world, tables(world, extents, memory, windows, domains))?;
        let mine = served.iter().find(|(rank, _)| *rank == home).map(|(_, table)| table.clone());
        let table = mine.ok_or_else(|| Error::Internal("a rank has no domain".into()))?;
        let has_copies = config.start != Start::Original || me == 0;
        if world.rank() == home {
            let pages = 0..extents.pages as u32;
            match (config.start, me) {
                (Start::Zero | Start::ZeroInvalid, _) => {}
                (Start::Original, 0) => {
                    pages.for_each(|page| table.set_field(page, Field::Kept, table::KEPT));
                }
                (Start::Original, _) => {
                    pages.for_each(|page| table.set_field(page, Field::CopyAt, 1));
                }
            }
            table.set_word(table::ORDER, numbers_before(world).1);
        }
        let served: Served = Arc::new(Mutex::new(served));
        let bytes_max = world.job().caps.call_bytes_max as usize;
        let handler = {
            let served = served.clone();
            world.serve(move |_, _, asked| request::serve(&served, bytes_max, asked))?
        };
        let allowed = if has_copies { Allowed::Reading } else { Allowed::Nothing };
        Ok(Domain {
            table,
            served,
            handler,
            mapped: vec![allowed; extents.pages],
            cursor: (0, 0),
            pattern: Pattern::new(extents.pages),
            counts: vec![PageCounts::default(); extents.pages],
            pushed: Vec::new(),
        })
    }

    /// Returns the pages that all ranks of the domain share.
    pub(crate) fn copy(&self) -> &Mapped {
        &self.table.copy
    }
}

/// Maps the state of the domains of this node, each with its home.
fn tables(
    world: &World,
    extents: Extents,
    memory: &Memory,
    windows: &PageWindows,
    domains: &Domains,
) -> Result<Vec<(Rank, Arc<Table>)>> {
    let topology = world.topology();
    let mut tables = Vec::new();
    for (number, &home) in (0..).zip(domains.homes()) {
        if topology.node_of(home) != topology.node_of(world.rank()) {
            continue;
        }
        let table = Table {
            extents,
            domain: number,
            rank: world.rank(),
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
