//! Regions: the memory in which symmetric objects lie, and the way from an address to them.

use std::collections::BTreeMap;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock};

use farside::raw::{Memory, NearPart};
use farside::{Context, Rank};

/// A run of addresses of this PE that are symmetric objects.
pub(crate) struct Region {
    start: usize,
    bytes: usize,
    /// The same objects on all PEs; the offset of an address here is its offset there.
    pub(crate) memory: Memory,
    /// The parts of all PEs, by PE, if loads and stores reach them.
    near: Box<[Option<NearPart>]>,
    holds: Holds,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holds {
    /// Static data, whose objects only the compiler knew.
    Statics,
    Blocks,
}

impl Region {
    fn new(context: &Context, start: usize, bytes: usize, memory: Memory, holds: Holds) -> Region {
        let near = |&rank: &Rank| memory.near_part(context, rank);
        let near = memory.members().iter().map(near).collect();
        Region { start, bytes, memory, near, holds }
    }

    /// Returns the part of a PE of the world, if loads and stores reach it: for the default context
    /// and the only thread.
    #[inline]
    pub(crate) fn near(&self, pe: usize) -> Option<&NearPart> {
        self.near.get(pe)?.as_ref()
    }

    fn offset(&self, address: usize) -> u64 {
        address.wrapping_sub(self.start) as u64
    }
}

/// All regions, and the blocks in those of the heap. Regions are added and never taken away, so
/// that looking one up takes no lock.
pub(crate) struct Regions {
    count: AtomicUsize,
    slots: [OnceLock<Region>; REGIONS],
    /// The blocks of the heap: where each begins, and its bytes.
    blocks: RwLock<BTreeMap<usize, usize>>,
    /// What was found lately, unless several threads look at once.
    recent: [Recent; RECENT],
    /// The place of `recent` that is taken next.
    next: AtomicUsize,
    has_threads: bool,
}

/// A block, or a region of static data, that was found lately.
#[derive(Default)]
struct Recent {
    start: AtomicUsize,
    bytes: AtomicUsize,
    region: AtomicPtr<Region>,
}

/// Chunks of the heap double in size, and few libraries have data of their own.
pub(crate) const REGIONS: usize = 128;
/// Programs use few objects at a time.
const RECENT: usize = 4;

// SAFETY: a memory is a handle on mapped pages and numbers that never change. The near parts change
// as they count, and are used by programs of one thread alone.
unsafe impl Sync for Region {}
// SAFETY: as above.
unsafe impl Send for Region {}

impl Regions {
    /// `has_threads` says whether several threads look at once.
    pub(crate) fn new(has_threads: bool) -> Regions {
        Regions {
            count: AtomicUsize::new(0),
            slots: [const { OnceLock::new() }; REGIONS],
            blocks: RwLock::default(),
            recent: Default::default(),
            next: AtomicUsize::new(0),
            has_threads,
        }
    }

    /// Adds a region of `bytes` addresses from `start` on; false if there are too many.
    pub(crate) fn add(
        &self,
        context: &Context,
        start: usize,
        bytes: usize,
        memory: Memory,
        holds: Holds,
    ) -> bool {
        let at = self.count.load(Ordering::Relaxed);
        let added = self.slots.get(at).is_some_and(|slot| {
            slot.set(Region::new(context, start, bytes, memory, holds)).is_ok()
        });
        if added {
            self.count.store(at + 1, Ordering::Release);
        }
        added
    }

    /// Adds a block of the heap, or changes its length.
    pub(crate) fn set_block(&self, start: usize, bytes: usize) {
        self.blocks.write().unwrap_or_else(PoisonError::into_inner).insert(start, bytes);
        self.forget_recent();
    }

    pub(crate) fn remove_block(&self, start: usize) {
        self.blocks.write().unwrap_or_else(PoisonError::into_inner).remove(&start);
        self.forget_recent();
    }

    fn forget_recent(&self) {
        self.recent.iter().for_each(|it| it.bytes.store(0, Ordering::Relaxed));
    }

    /// Returns the first region, which is part of the heap.
    pub(crate) fn first(&self) -> &Region {
        self.slots[0].get().expect("the heap is made before the program can ask")
    }

    /// Returns the region of the symmetric object in which `bytes` bytes from an address on lie,
    /// and the offset of the first. The object is a block of the heap, or the static data of the
    /// program or of a library.
    #[inline]
    pub(crate) fn find(&self, address: usize, bytes: usize) -> Option<(&Region, u64)> {
        let is_inside = |it: &&Recent| {
            let offset = address.wrapping_sub(it.start.load(Ordering::Relaxed));
            let length = it.bytes.load(Ordering::Relaxed);
            offset < length && bytes <= length - offset
        };
        match self.recent.iter().find(is_inside) {
            // SAFETY: a region that was found stays.
            Some(it) => unsafe { it.region.load(Ordering::Relaxed).as_ref() }
                .map(|region| (region, region.offset(address))),
            None => self.search(address, bytes),
        }
    }

    #[inline(never)]
    fn search(&self, address: usize, bytes: usize) -> Option<(&Region, u64)> {
        let (region, offset) = self.within(address, bytes)?;
        let (start, length) = match region.holds {
            Holds::Statics => (region.start, region.bytes),
            Holds::Blocks => self.block_below(address)?,
        };
        let skip = address - start;
        if skip > length || bytes > length - skip {
            return None;
        }
        if !self.has_threads {
            let next = self.next.load(Ordering::Relaxed);
            self.next.store((next + 1) % RECENT, Ordering::Relaxed);
            let recent = &self.recent[next];
            recent.start.store(start, Ordering::Relaxed);
            recent.bytes.store(length, Ordering::Relaxed);
            recent.region.store(ptr::from_ref(region).cast_mut(), Ordering::Relaxed);
        }
        Some((region, offset))
    }

    /// Returns the last block of the heap that begins at an address or before it.
    fn block_below(&self, address: usize) -> Option<(usize, usize)> {
        let blocks = self.blocks.read().unwrap_or_else(PoisonError::into_inner);
        blocks.range(..=address).next_back().map(|(&start, &bytes)| (start, bytes))
    }

    /// Returns the region in which `bytes` bytes from an address on lie, in whichever objects, and
    /// the offset of the first.
    pub(crate) fn within(&self, address: usize, bytes: usize) -> Option<(&Region, u64)> {
        let count = self.count.load(Ordering::Acquire);
        self.slots[..count].iter().find_map(|slot| {
            let region = slot.get()?;
            let offset = address.wrapping_sub(region.start);
            let is_inside = offset < region.bytes && bytes <= region.bytes - offset;
            is_inside.then_some((region, offset as u64))
        })
    }

    /// Says why `bytes` bytes at an address are not a symmetric object.
    #[cold]
    pub(crate) fn explain(&self, address: usize, bytes: usize) -> String {
        let what = format!("{bytes} bytes at address {address:#x}");
        let is_heap = self.within(address, 1).is_some_and(|(it, _)| it.holds == Holds::Blocks);
        if !is_heap {
            return format!(
                "{what} are not symmetric: only global and static variables and blocks from \
                 shmem_malloc are"
            );
        }
        match self.block_below(address) {
            Some((start, length)) if address - start < length => format!(
                "{what} reach beyond the end of their block of the symmetric heap, which has \
                 {length} bytes at address {start:#x}"
            ),
            _ => format!(
                "{what} are in no block of the symmetric heap: they were freed, or lie beyond the \
                 end of a block"
            ),
        }
    }
}
