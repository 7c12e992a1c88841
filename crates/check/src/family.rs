//! The families of protocols that are checked.

mod asking;
pub mod barrier;
pub mod collective;
pub mod death;
pub mod dsm;
pub mod epoch;
pub mod example;
pub mod litmus;
pub mod lock;
pub mod map;
pub mod object;
pub mod rw;
pub mod sync;
mod waiting;

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
        barrier::checks(),
        collective::checks(),
        death::checks(),
        epoch::checks(),
        dsm::checks(),
        example::checks(),
        litmus::checks(),
        lock::checks(),
        map::checks(),
        object::checks(),
        rw::checks(),
        sync::checks(),
    ];
    families.into_iter().flatten().collect()
}

/// Makes the error with which a check reports a broken promise.
pub(crate) fn wrong(what: impl Into<String>) -> farside::Error {
    farside::Error::Misuse(what.into())
}
