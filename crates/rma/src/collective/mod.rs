//! Collectives that move data, one file for each algorithm: [`flat`] where the members share
//! memory, [`tree`] across nodes.

pub(crate) mod flat;
pub(crate) mod tree;
