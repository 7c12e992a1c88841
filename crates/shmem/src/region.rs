//! Regions: the memory in which symmetric objects lie, and the way from an address to them.

use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use farside::fabric::{Mapped, watch_bits};
use farside::raw::Memory;

/// A run of addresses of this PE that are symmetric objects.
pub(crate) struct Region {
    start: usize,
    bytes: usize,
    /// The same objects on all PEs; the offset of an address here is its offset there.
    pub(crate) memory: Memory,
    /// The parts of all PEs, by PE.
    near: Box<[Near]>,
}

/// A PE's part, if loads and stores reach it. All pointers belong to the region's memory.
#[derive(Clone, Copy)]
pub(crate) struct Near {
    /// Where it begins; null if it is out of reach.
    base: *mut u8,
    /// Zero while the PE waits for no word.
    watched: *const AtomicU64,
    /// What is added to an offset before its watch bits are computed.
    salt: u64,
    mapped: *const Mapped,
}

/// What no PE watches.
static UNWATCHED: AtomicU64 = AtomicU64::new(0);

impl Near {
    fn new(mapped: Option<&Mapped>) -> Near {
        let Some(mapped) = mapped else {
            return Near {
                base: ptr::null_mut(),
                watched: &UNWATCHED,
                salt: 0,
                mapped: ptr::null(),
            };
        };
        let watched = mapped.watched().map_or(&raw const UNWATCHED, |word| word.as_ptr());
        Near { base: mapped.base().as_ptr(), watched, salt: mapped.salt(), mapped }
    }

    /// Returns the address of an offset, which must be inside.
    #[inline]
    pub(crate) fn at(&self, offset: u64) -> *mut u8 {
        self.base.wrapping_add(offset as usize)
    }

    /// Returns whether the PE may be asleep in a wait for the aligned word of 64 bits at `offset`.
    /// One that falls asleep at this moment may be missed.
    #[inline]
    pub(crate) fn is_word_watched(&self, offset: u64) -> bool {
        // SAFETY: it belongs to the region's memory, which is held.
        let watched = unsafe { &*self.watched }.load(Ordering::Relaxed);
        let bits = watch_bits(self.salt.wrapping_add(offset));
        watched & bits == bits
    }

    /// Returns the part.
    #[inline]
    pub(crate) fn mapped(&self) -> &'static Mapped {
        // SAFETY: it is not null where there is a base, and belongs to the region's memory, which
        // is held until the job is over.
        unsafe { &*self.mapped }
    }
}

impl Region {
    fn new(start: usize, bytes: usize, memory: Memory) -> Region {
        let near = memory.members().iter().map(|&rank| Near::new(memory.mapped(rank))).collect();
        Region { start, bytes, memory, near }
    }

    /// Returns the part of a PE of the world, if loads and stores reach it.
    #[inline]
    pub(crate) fn near(&self, pe: usize) -> Option<Near> {
        self.near.get(pe).copied().filter(|near| !near.base.is_null())
    }
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
            .is_some_and(|slot| slot.set(Region::new(start, bytes, memory)).is_ok());
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
