//! The families of protocols that are checked.

pub mod aggregator;
mod asking;
pub mod barrier;
pub mod collective;
pub mod death;
pub mod dsm;
pub mod epoch;
pub mod example;
pub mod limit;
pub mod litmus;
pub mod lock;
pub mod map;
pub mod memory;
pub mod object;
mod printed;
pub mod published;
pub mod recovery;
pub mod rw;
pub mod sync;
mod trial;
mod waiting;

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use farside::sim::Policy;

use crate::check::Check;

/// Jobs of many ranks: how many, on which machine, by which policy, and how many schedules.
const LARGE: [(u32, &str, Policy, u64); 4] = [
    (64, "rack:2,node:4,socket:2", Policy::Pct { depth: 3 }, 10),
    (64, "rack:2,node:4,socket:2", Policy::Random, 10),
    (256, "rack:4,node:4,socket:2", Policy::Pct { depth: 3 }, 1),
    (256, "rack:4,node:4,socket:2", Policy::Random, 1),
];

/// All checks.
pub fn checks() -> Vec<Check> {
    let families = [
        aggregator::checks(),
        barrier::checks(),
        collective::checks(),
        death::checks(),
        epoch::checks(),
        dsm::checks(),
        example::checks(),
        limit::checks(),
        litmus::checks(),
        lock::checks(),
        map::checks(),
        memory::checks(),
        object::checks(),
        published::checks(),
        recovery::checks(),
        rw::checks(),
        sync::checks(),
    ];
    let mut all: Vec<Check> = families.into_iter().flatten().collect();
    let late: Vec<Check> = all.iter().filter(|check| is_told_late(check)).map(told_late).collect();
    all.extend(late);
    all
}

/// Returns whether a check with a death is explored once more, where its news are slow.
fn is_told_late(check: &Check) -> bool {
    let families = ["dsm/", "epoch/", "lock/", "map/", "rw/", "sync/"];
    let is_meant = families.iter().any(|family| check.name.starts_with(family));
    is_meant && check.setup.deaths == 1 && !check.setup.slow_news
}

/// The same check where each rank is a node, and hears of the death at a time of its own. Where all
/// schedules are tried, these are so many more that two ranks must do.
fn told_late(check: &Check) -> Check {
    const ABOUT: &str = "the same, and nodes hear of the death at different times";
    /// They have too many schedules for all of theirs.
    const MANY: [&str; 2] = ["map/death", "epoch/two-sided-death"];
    let whole = check.clone();
    let is_sampled = !check.is_exhaustive() || MANY.contains(&check.name);
    let ranks = if check.is_exhaustive() { 2 } else { check.setup.ranks };
    let setup = whole.setup.ranks(ranks).topology(&format!("node:{ranks}")).slow_news();
    let late =
        Check { name: name(&[check.name, "-news"]), about: ABOUT, setup, small: None, ..whole };
    // The search for what is wrong ends when it is found.
    let schedules = if check.is_mutant() { 50_000 } else { 2_000 };
    match is_sampled {
        true => late.policy(Policy::Pct { depth: 3 }, schedules),
        false => late,
    }
}

/// Why a wrong variant may post stores to one word that overtake each other.
const IS_THE_FAULT: &str = "that is what is wrong with it";

/// Makes the error with which a check reports a broken promise.
pub(crate) fn wrong(what: impl Into<String>) -> farside::Error {
    farside::Error::Program(what.into())
}

/// Returns the name of a check that is made of names of a table. It is made once.
fn name(parts: &[&str]) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let name = parts.concat();
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    match names.get(name.as_str()) {
        Some(known) => known,
        None => {
            let known: &'static str = name.leak();
            names.insert(known);
            known
        }
    }
}
