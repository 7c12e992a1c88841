//! What application programmers touch: a global array, a distributed hash table, and many small
//! items in packets.
//!
//! - [`GlobalArray`]: a dense array of up to 7 dimensions, distributed over the ranks, of which
//!   anybody reads, writes and adds to any patch;
//! - [`HashMap`]: keys and values of plain data, distributed over the ranks, which grows while
//!   everybody uses it;
//! - [`Aggregator`]: items for other ranks, sent in packets and handled where they arrive;
//! - [`FixedSet`]: the hash table of a fixed size that \[RMALOCK16\] measures its locks with, and
//!   [`FixedMap`], the same with values.
//!
//! This crate knows no fabric, no thread, no socket and no clock: everything runs on every fabric,
//! and in the simulator.

pub mod aggregator;
pub mod array;
pub mod map;
mod protocol;

pub use aggregator::Aggregator;
pub use array::GlobalArray;
pub use map::{FixedMap, FixedSet, HashMap};
