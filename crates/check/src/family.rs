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
mod waiting;

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use farside::lock::registry::{self, Job};
use farside::sim::Policy;

use crate::check::{Check, Setup};
use crate::property::Promise;

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
    families.into_iter().flatten().collect()
}

/// Why a wrong variant may post stores to one word that overtake each other.
const IS_THE_FAULT: &str = "that is what is wrong with it";

/// Makes the error with which a check reports a broken promise.
pub(crate) fn wrong(what: impl Into<String>) -> farside::Error {
    farside::Error::Program(what.into())
}

/// Returns the name of a check that is made of the names of the registry. It is made once.
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

/// Returns a job of the registry.
fn setup(job: Job) -> Setup {
    let setup = Setup::new(job.ranks).rounds(job.rounds);
    match job.topology {
        Some(topology) => setup.topology(topology),
        None => setup,
    }
}

/// Explores a variant as the registry says.
fn tried<How>(check: Check, trial: &registry::Trial<How>) -> Check {
    let check = check.setup(setup(trial.job));
    let check = match trial.random {
        Some(schedules) => check.policy(Policy::Random, schedules),
        None => check,
    };
    match trial.breaks {
        Some((promise, saying)) => check.mutant(promised(promise), saying),
        None => check,
    }
}

fn promised(promise: registry::Promise) -> Promise {
    match promise {
        registry::Promise::Exclusion => Promise::Exclusion,
        registry::Promise::Visibility => Promise::Visibility,
        registry::Promise::Progress => Promise::Progress,
        registry::Promise::Fairness => Promise::Fairness,
    }
}
