//! The blocks of a chunk of memory: which bytes are free.
//!
//! Nothing here depends on addresses, time or contents: ranks that make the same calls in the same
//! order come to the same offsets.

use std::collections::BTreeMap;

/// Blocks begin at multiples of this and are multiples of it long, so that no two share a line of
/// the processor's cache.
const GRAIN: u64 = 64;

/// The free and the used blocks of a chunk, by offset.
#[derive(Debug)]
pub struct Blocks {
    free: BTreeMap<u64, u64>,
    used: BTreeMap<u64, u64>,
}

impl Blocks {
    /// A chunk of `bytes` bytes, all free.
    pub fn new(bytes: u64) -> Blocks {
        Blocks { free: BTreeMap::from([(0, bytes / GRAIN * GRAIN)]), used: BTreeMap::new() }
    }

    /// Takes the first block of at least `bytes` bytes whose offset is a multiple of `align`, a
    /// power of two.
    pub fn take(&mut self, bytes: u64, align: u64) -> Option<u64> {
        let bytes = bytes.max(1).checked_next_multiple_of(GRAIN)?;
        let align = align.max(GRAIN);
        let fits = |(&start, &len): (&u64, &u64)| {
            let begin = start.checked_next_multiple_of(align)?;
            (begin.checked_add(bytes)? <= start + len).then_some((start, begin))
        };
        let (start, begin) = self.free.iter().find_map(fits)?;
        let len = self.free.remove(&start)?;
        if begin > start {
            self.free.insert(start, begin - start);
        }
        let (end, last) = (begin + bytes, start + len);
        if last > end {
            self.free.insert(end, last - end);
        }
        self.used.insert(begin, bytes);
        Some(begin)
    }

    /// Gives a block back, and returns how long it was; `None` if no block begins there.
    pub fn give(&mut self, offset: u64) -> Option<u64> {
        let bytes = self.used.remove(&offset)?;
        let (mut start, mut len) = (offset, bytes);
        if let Some(after) = self.free.remove(&(start + len)) {
            len += after;
        }
        if let Some((&before, &run)) = self.free.range(..start).next_back()
            && before + run == start
        {
            self.free.remove(&before);
            (start, len) = (before, len + run);
        }
        self.free.insert(start, len);
        Some(bytes)
    }

    /// Returns the length of the block that begins at `offset`.
    pub fn length(&self, offset: u64) -> Option<u64> {
        self.used.get(&offset).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CHUNK: u64 = 1 << 16;

    proptest! {
        #[test]
        fn blocks_are_apart_aligned_and_come_back(
            steps in prop::collection::vec(
                (0u64..5000, 0u32..9, any::<bool>(), any::<u16>()), 1..200
            )
        ) {
            let mut blocks = Blocks::new(CHUNK);
            let mut held: Vec<(u64, u64)> = Vec::new();
            for (bytes, align, frees, which) in steps {
                if frees && !held.is_empty() {
                    let (offset, _) = held.swap_remove(usize::from(which) % held.len());
                    prop_assert!(blocks.give(offset).is_some());
                    prop_assert_eq!(blocks.give(offset), None);
                } else if let Some(offset) = blocks.take(bytes, 1 << align) {
                    prop_assert!(offset.is_multiple_of(1 << align));
                    let len = blocks.length(offset).unwrap();
                    prop_assert!(len >= bytes && offset + len <= CHUNK);
                    let apart = |&(other, size): &(u64, u64)| {
                        offset + len <= other || other + size <= offset
                    };
                    prop_assert!(held.iter().all(apart));
                    held.push((offset, len));
                }
            }
            for (offset, _) in held {
                blocks.give(offset);
            }
            prop_assert_eq!(blocks.take(CHUNK, 1), Some(0), "all is free and in one piece again");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut blocks = Blocks::new(CHUNK);
        assert_eq!(blocks.take(u64::MAX, 64), None);
        assert_eq!(blocks.take(1, 1 << 63), Some(0));
        assert_eq!(blocks.take(1, 1 << 63), None);
        assert_eq!(blocks.take(CHUNK, 64), None);
        assert_eq!(blocks.give(64), None, "nothing begins there");
    }
}
