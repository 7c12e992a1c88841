//! Regions: the memory in which symmetric objects lie, and the way from an address to them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use farside::raw::Memory;

/// A run of addresses of this PE that are symmetric objects.
pub(crate) struct Region {
    start: usize,
    bytes: usize,
    /// The same objects on all PEs; the offset of an address here is its offset there.
    pub(crate) memory: Memory,
}

/// All regions. They are added and never taken away, so that looking one up takes no lock.
pub(crate) struct Regions {
    count: AtomicUsize,
    slots: [OnceLock<Region>; REGIONS],
}

/// Chunks of the heap double in size, and few libraries have data of their own.
const REGIONS: usize = 128;

// SAFETY: a memory is a handle on mapped pages and numbers that never change.
unsafe impl Sync for Region {}
// SAFETY: as above.
unsafe impl Send for Region {}

impl Regions {
    pub(crate) fn new() -> Regions {
        Regions { count: AtomicUsize::new(0), slots: [const { OnceLock::new() }; REGIONS] }
    }

    /// Adds a region of `bytes` addresses from `start` on; false if there are too many.
    pub(crate) fn add(&self, start: usize, bytes: usize, memory: Memory) -> bool {
        let at = self.count.load(Ordering::Relaxed);
        let added = self
            .slots
            .get(at)
            .is_some_and(|slot| slot.set(Region { start, bytes, memory }).is_ok());
        if added {
            self.count.store(at + 1, Ordering::Release);
        }
        added
    }

    /// Returns the first region, which is part of the heap.
    pub(crate) fn first(&self) -> &Region {
        self.slots[0].get().expect("the heap is made before the program can ask")
    }

    /// Returns the region in which `bytes` bytes from an address on lie, and the offset of the
    /// first.
    #[inline]
    pub(crate) fn find(&self, address: usize, bytes: usize) -> Option<(&Region, u64)> {
        let count = self.count.load(Ordering::Acquire);
        self.slots[..count].iter().find_map(|slot| {
            let region = slot.get()?;
            let offset = address.wrapping_sub(region.start);
            let is_inside = offset < region.bytes && bytes <= region.bytes - offset;
            is_inside.then_some((region, offset as u64))
        })
    }
}
