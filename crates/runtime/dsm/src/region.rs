//! The allocations of the shared memory. Every rank allocates the same in the same order, and so no
//! communication is needed.

use std::collections::BTreeMap;

use farside_fabric::{Error, Result};

/// The place of an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Placement {
    /// Anywhere, on a multiple of the element's alignment, and of a word.
    #[default]
    Anywhere,
    /// Anywhere, on a multiple of so many bytes, a power of two.
    Aligned(u64),
    /// From the start of a page on, with no other allocation on its last one.
    Pages,
    /// At this byte of the shared memory.
    At(u64),
}

pub(crate) struct Region {
    bytes: u64,
    page_bytes: u64,
    /// Allocations by where they start, with where they end.
    taken: BTreeMap<u64, u64>,
    digest: u32,
}

impl Region {
    pub(crate) fn new(bytes: u64, page_bytes: u64) -> Region {
        Region { bytes, page_bytes, taken: BTreeMap::new(), digest: 0 }
    }

    /// A number that stands for all that was allocated and freed so far, in order.
    pub(crate) fn digest(&self) -> u32 {
        self.digest
    }

    /// Returns the allocations: where each starts and ends.
    pub(crate) fn allocations(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.taken.iter().map(|(&start, &end)| (start, end))
    }

    pub(crate) fn allocate(&mut self, bytes: u64, align: u64, placement: Placement) -> Result<u64> {
        let (align, bytes) = match placement {
            Placement::Aligned(wanted) if !wanted.is_power_of_two() => {
                return Err(Error::InvalidArgument(format!(
                    "the alignment {wanted} is not a power of two"
                )));
            }
            Placement::Aligned(wanted) => (align.max(wanted), bytes),
            Placement::Pages => (
                self.page_bytes,
                bytes.checked_next_multiple_of(self.page_bytes).unwrap_or(u64::MAX),
            ),
            Placement::Anywhere | Placement::At(_) => (align.max(4), bytes),
        };
        // Of nothing, too, there is something to be freed.
        let bytes = bytes.max(1);
        let start = match placement {
            Placement::At(start) => self.at(start, bytes, align)?,
            _ => self.first_fit(bytes, align).ok_or_else(|| {
                Error::Exhausted(format!(
                    "{bytes} bytes of shared memory cannot be allocated: {} of {} are taken; raise \
                     `Config::bytes`",
                    self.taken.iter().map(|(start, end)| end - start).sum::<u64>(),
                    self.bytes
                ))
            })?,
        };
        self.taken.insert(start, start + bytes);
        self.note(start, bytes);
        Ok(start)
    }

    pub(crate) fn free(&mut self, start: u64) -> Result<()> {
        let Some(end) = self.taken.remove(&start) else {
            return Err(Error::InvalidArgument(format!(
                "no allocation of shared memory starts at byte {start}"
            )));
        };
        self.note(start, end);
        Ok(())
    }

    fn note(&mut self, start: u64, bytes: u64) {
        let mixed = (u64::from(self.digest) ^ start.rotate_left(20) ^ bytes)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15);
        // Short, because it goes with every message.
        self.digest = (mixed >> 43) as u32;
    }

    fn at(&self, start: u64, bytes: u64, align: u64) -> Result<u64> {
        let end = start.saturating_add(bytes);
        if !start.is_multiple_of(align) {
            return Err(Error::Misaligned { offset: start, align });
        }
        if end > self.bytes {
            return Err(Error::InvalidArgument(format!(
                "{bytes} bytes at byte {start} do not fit into the {} of shared memory",
                self.bytes
            )));
        }
        match self.taken.range(..end).next_back() {
            Some((from, to)) if *to > start => Err(Error::InvalidState(format!(
                "bytes {start} to {end} of shared memory are not free: bytes {from} to {to} are \
                 taken"
            ))),
            _ => Ok(start),
        }
    }

    fn first_fit(&self, bytes: u64, align: u64) -> Option<u64> {
        let mut start = 0u64;
        for (&from, &to) in &self.taken {
            if start.checked_add(bytes)? <= from {
                break;
            }
            start = to.checked_next_multiple_of(align)?;
        }
        (start.checked_add(bytes)? <= self.bytes).then_some(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_do_not_overlap_and_are_where_they_should_be() {
        let mut region = Region::new(1 << 16, 4096);
        let a = region.allocate(10, 1, Placement::Anywhere).unwrap();
        let b = region.allocate(100, 8, Placement::Aligned(64)).unwrap();
        let c = region.allocate(5000, 8, Placement::Pages).unwrap();
        let d = region.allocate(8, 8, Placement::At(20000)).unwrap();
        assert_eq!((a, b, c, d), (0, 64, 4096, 20000));
        let error = region.allocate(8, 8, Placement::At(4096)).unwrap_err().to_string();
        assert!(error.contains("4096 to 12288 are taken"), "{error}");
        assert!(region.allocate(8, 8, Placement::At(20004)).is_err());
        assert!(region.allocate(1, 1, Placement::Aligned(48)).is_err());
        assert!(
            region
                .allocate(1 << 16, 1, Placement::Anywhere)
                .unwrap_err()
                .to_string()
                .contains("Config::bytes")
        );
        region.free(c).unwrap();
        assert!(region.free(c).is_err());
        assert_eq!(region.allocate(4096, 8, Placement::Pages).unwrap(), 4096);
    }

    #[test]
    fn who_allocates_differently_has_another_number() {
        let digest = |sizes: &[u64]| {
            let mut region = Region::new(1 << 16, 4096);
            for &bytes in sizes {
                region.allocate(bytes, 8, Placement::Anywhere).unwrap();
            }
            region.digest()
        };
        assert_ne!(digest(&[8, 16]), digest(&[16, 8]));
        assert_ne!(digest(&[8]), digest(&[8, 8]));
    }
}
