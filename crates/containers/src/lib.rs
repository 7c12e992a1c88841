//! What application programmers touch: a global array and a distributed hash table.
//!
//! - [`GlobalArray`]: a dense array of up to 7 dimensions, distributed over the ranks, of which
//!   anybody reads, writes and adds to any patch;
//! - [`HashMap`]: keys and values of plain data, distributed over the ranks, which grows while
//!   everybody uses it;
//! - [`FixedMap`]: the hash table of a fixed size that \[RMALOCK16\] measures its locks with.
//!
//! This crate knows no fabric, no thread, no socket and no clock: everything runs on every fabric,
//! and in the simulator.

pub mod array;
pub mod map;
mod protocol;

pub use array::GlobalArray;
pub use map::{FixedMap, HashMap};
