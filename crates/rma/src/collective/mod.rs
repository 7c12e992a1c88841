//! Collectives that move data, one file for each algorithm: [`flat`] where the members share
//! memory, [`tree`] across nodes, [`unequal`] and [`nonblocking`] in either case.

pub(crate) mod flat;
pub(crate) mod nonblocking;
pub(crate) mod tree;
pub(crate) mod unequal;
