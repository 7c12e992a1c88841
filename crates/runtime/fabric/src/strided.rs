//! The walk over a strided block: any number of dimensions, and of sides with strides of their own.

use std::array;
use std::ops::{Add, Mul, Range};

/// Calls `each` with the offset of every step on each of `N` sides, in row-major order: the last
/// dimension varies fastest. Ends early, and returns false, when `each` returns false.
///
/// A side begins at its offset `from`, and has a stride for each of the `counts`; a side that lacks
/// a stride has no steps. Offsets must not overflow: transfers check their extents before.
///
/// ```
/// use farside_fabric::strided::walk;
///
/// let mut pairs = Vec::new();
/// walk([0u64, 100], &[2, 3], [&[3, 1], &[10, 1]], &mut |[near, far]| {
///     pairs.push((near, far));
///     true
/// });
/// assert_eq!(pairs, [(0, 100), (1, 101), (2, 102), (3, 110), (4, 111), (5, 112)]);
/// ```
#[inline]
pub fn walk<S, const N: usize>(
    from: [S; N],
    counts: &[S],
    strides: [&[S]; N],
    each: &mut impl FnMut([S; N]) -> bool,
) -> bool
where
    S: Copy + PartialEq + Add<Output = S> + Mul<Output = S> + From<u8>,
    Range<S>: Iterator<Item = S>,
{
    // Offsets of a block without steps may overflow.
    let is_empty =
        counts.contains(&S::from(0)) || strides.iter().any(|strides| strides.len() < counts.len());
    is_empty || walk_dimensions(from, counts, strides, each)
}

#[inline]
fn walk_dimensions<S, const N: usize>(
    from: [S; N],
    counts: &[S],
    strides: [&[S]; N],
    each: &mut impl FnMut([S; N]) -> bool,
) -> bool
where
    S: Copy + Add<Output = S> + Mul<Output = S> + From<u8>,
    Range<S>: Iterator<Item = S>,
{
    let Some((&count, inner_counts)) = counts.split_first() else {
        return each(from);
    };
    let stride = strides.map(|strides| strides[0]);
    let at = |step: S| array::from_fn(|side| from[side] + step * stride[side]);
    let mut steps = S::from(0)..count;
    // The innermost loop, where the time is spent.
    if inner_counts.is_empty() {
        return steps.all(|step| each(at(step)));
    }
    let inner_strides = strides.map(|strides| &strides[1..]);
    steps.all(|step| walk_dimensions(at(step), inner_counts, inner_strides, each))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn steps_come_in_row_major_order(
            dimensions in prop::collection::vec((0u64..4, 0u64..50, 0u64..50), 0..5),
        ) {
            let counts: Vec<u64> = dimensions.iter().map(|&(count, ..)| count).collect();
            let near: Vec<u64> = dimensions.iter().map(|&(_, near, _)| near).collect();
            let far: Vec<u64> = dimensions.iter().map(|&(.., far)| far).collect();
            let mut walked = Vec::new();
            walk([5, 7], &counts, [&near, &far], &mut |at| {
                walked.push(at);
                true
            });
            let steps: u64 = counts.iter().product();
            let expected = (0..steps).map(|step| {
                let (mut rest, mut at) = (step, [5, 7]);
                for dimension in (0..counts.len()).rev() {
                    let index = rest % counts[dimension];
                    rest /= counts[dimension];
                    at[0] += index * near[dimension];
                    at[1] += index * far[dimension];
                }
                at
            });
            prop_assert_eq!(walked, expected.collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_walk_ends_where_it_is_told_to() {
        let mut steps = 0;
        let is_complete = walk([0usize], &[3, 3], [&[3, 1]], &mut |[at]| {
            steps += 1;
            at < 4
        });
        assert_eq!((is_complete, steps), (false, 5));
    }

    #[test]
    fn a_side_without_strides_has_no_steps() {
        assert!(walk([0usize], &[3], [&[]], &mut |_| false));
    }
}
