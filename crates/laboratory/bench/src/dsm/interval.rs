//! The end of an interval while many pages are open: what it costs for each of them.
//!
//! The first rank opens pages, and the last one, on another node if there are several, fetches
//! them. From then on the first rank's node has to know, at the end of each interval, which of them
//! have changed. In the case `interval` nobody writes them any more; in `interval-written` each of
//! them has changed in every interval, and is fetched again.

use farside::dsm::{Config, Dsm, Placement, Shared};
use farside::{Rank, Result, World};

/// The pages that are open if no other number is asked for.
pub(super) const PAGES: usize = 1000;
const INTERVALS: usize = 100;
/// The words of a page.
const WORDS: usize = 1024;
/// The lock under which intervals end, and the one under which pages are fetched.
const ENDING: u32 = 0;
const FETCHING: u32 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Pages that nobody writes any more.
    Idle,
    /// Pages that are written in every interval.
    Written,
}

impl Kind {
    pub(super) fn of(case: &str) -> Option<Kind> {
        match case {
            "interval" => Some(Kind::Idle),
            "interval-written" => Some(Kind::Written),
            _ => None,
        }
    }
}

/// What the end of an interval took, on average.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cost {
    pub(super) interval_ns: f64,
    /// The part of it that is there because of the pages, for each of them.
    pub(super) page_ns: f64,
}

/// Measures on the first rank; other ranks return nothing. Collective.
pub(super) fn run(
    world: &World,
    config: Config,
    kind: Kind,
    pages: usize,
) -> Result<Option<(Cost, Config)>> {
    let bytes = (pages as u64 + 2) * WORDS as u64 * 4;
    let mut dsm = Dsm::new(world, Config { bytes, ..config })?;
    let flag = dsm.alloc_at::<u32>(1, Placement::Pages)?;
    let words = dsm.alloc_at::<u32>(pages * WORDS, Placement::Pages)?;
    let (me, last) = (world.rank(), Rank(world.size() - 1));
    let is_writer = me == Rank(0);
    dsm.barrier()?;
    let alone_ns = if is_writer { end(&mut dsm, flag, INTERVALS)? } else { 0.0 };
    world.barrier()?;
    let mut all_ns = 0.0;
    let rounds = if kind == Kind::Idle { 1 } else { INTERVALS };
    for round in 1..=rounds as u32 {
        if is_writer {
            let view = dsm.view_mut(words, 0..words.len())?;
            // The last word: a comparison looks at all of a page.
            (1..=pages).for_each(|page| view.set(page * WORDS - 1, round));
            match kind {
                Kind::Idle => dsm.locked(FETCHING, |_| Ok(()))?,
                Kind::Written => all_ns += end(&mut dsm, flag, 1)? / rounds as f64,
            }
        }
        world.barrier()?;
        if me == last {
            // The lock that was released last tells of the pages.
            let lock = if kind == Kind::Idle { FETCHING } else { ENDING };
            dsm.locked(lock, |dsm| {
                let view = dsm.view(words, 0..words.len())?;
                let seen = (1..=pages).filter(|page| view.get(page * WORDS - 1) == round).count();
                match seen == pages {
                    true => Ok(()),
                    false => Err(farside::Error::Program(format!("{seen} pages have come"))),
                }
            })?;
        }
        world.barrier()?;
    }
    if is_writer && kind == Kind::Idle {
        all_ns = end(&mut dsm, flag, INTERVALS)?;
    }
    dsm.barrier()?;
    let used = dsm.config();
    dsm.close()?;
    let page_ns = (all_ns - alone_ns).max(0.0) / pages as f64;
    Ok(is_writer.then_some((Cost { interval_ns: all_ns, page_ns }, used)))
}

/// Ends intervals, in each of which one other page is written; returns how long one end takes.
fn end(dsm: &mut Dsm<'_>, flag: Shared<u32>, times: usize) -> Result<f64> {
    let mut ns = 0;
    for _ in 0..times {
        dsm.lock(ENDING)?;
        dsm.set(flag, 0, dsm.get(flag, 0)? + 1)?;
        let begin_ns = dsm.world().now_ns();
        dsm.unlock(ENDING)?;
        ns += dsm.world().now_ns() - begin_ns;
    }
    Ok(ns as f64 / times as f64)
}
