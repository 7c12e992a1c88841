//! Collectives that move data, one file for each algorithm: [`flat`] where the members share
//! memory, [`tree`] across nodes and [`exposed`] where that is long, [`unequal`] and
//! [`nonblocking`] in either case.

pub(crate) mod exposed;
pub(crate) mod flat;
pub(crate) mod nonblocking;
pub(crate) mod tree;
pub(crate) mod unequal;

use std::ops::Range;

/// Returns the bytes of the slice that one of `size` members folds, of `bytes` bytes of elements.
fn slice(bytes: usize, element: usize, size: usize, member: usize) -> Range<usize> {
    let start = |member: usize| member * (bytes / element) / size * element;
    start(member)..start(member + 1)
}
