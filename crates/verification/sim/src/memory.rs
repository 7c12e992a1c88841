//! The memory of simulated ranks.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use farside_fabric::Mapped;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// What parts are aligned to.
const PAGE: usize = 4096;
/// From how many bytes on a part is mapped and not allocated.
const MAPPED_BYTES_MIN: usize = 16 << 10;
/// The number of mappings that are kept to be used again, and their longest. Runs of more ranks, or
/// with more memory, are long.
const KEPT_MAX: usize = 64;
const KEPT_BYTES_MAX: usize = 8 << 20;

/// One rank's part of a segment.
pub(crate) struct Memory {
    /// A page more than needed, so that the part can begin with a page.
    room: Room,
    /// How far beyond a page it begins.
    skipped: usize,
    bytes: u64,
    rooms: Arc<Rooms>,
}

impl Memory {
    /// Memory that begins `skipped` bytes after a page does.
    pub(crate) fn new(rooms: &Arc<Rooms>, bytes: u64, skipped: usize) -> Arc<Memory> {
        let room = rooms.take(bytes as usize + PAGE + skipped);
        Arc::new(Memory { room, skipped, bytes, rooms: rooms.clone() })
    }

    pub(crate) fn mapped(self: &Arc<Memory>) -> Mapped {
        let start = self.room.start();
        // SAFETY: less than a page beyond the start and what is skipped, and there is that much
        // more than needed.
        let base = unsafe { start.add(start.align_offset(PAGE) + self.skipped) };
        // SAFETY: the room lives as long as `self`, which is held, is aligned to 16 bytes at least,
        // and there are no other references to it.
        unsafe { Mapped::new(base, self.bytes, self.clone()) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Room::Mapped(mapping) = &mut self.room {
            self.rooms.give_back(mapping);
        }
    }
}

/// Mappings to be used again: an exploration needs them thousands of times a second, and making and
/// removing one takes longer than a short run.
#[derive(Default)]
pub(crate) struct Rooms {
    free: Mutex<Vec<Mapping>>,
    /// What the kernel says of the pages of this process, if it does.
    page_map: OnceLock<Option<(u32, File)>>,
}

impl Rooms {
    /// Returns memory that is all zero.
    fn take(&self, bytes: usize) -> Room {
        if bytes >= MAPPED_BYTES_MIN {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            let kept = free.iter().rposition(|mapping| mapping.bytes == bytes);
            let kept = kept.map(|at| free.swap_remove(at));
            let kept = kept.filter(|kept| self.page_map().is_some_and(|map| kept.clear(map)));
            if let Some(mapping) = kept.or_else(|| Mapping::new(bytes)) {
                return Room::Mapped(mapping);
            }
        }
        Room::Allocated(vec![0; bytes.div_ceil(16)].into())
    }

    /// Returns the map of the pages of this process. A forked child has none, and the kernel's
    /// pages must be as long as these.
    fn page_map(&self) -> Option<&File> {
        let process = std::process::id();
        let open = || {
            let is_known = rustix::param::page_size() == PAGE;
            Some((process, File::open("/proc/self/pagemap").ok().filter(|_| is_known)?))
        };
        let (opener, map) = self.page_map.get_or_init(open).as_ref()?;
        (*opener == process).then_some(map)
    }

    /// Keeps a mapping that nobody uses any more, and leaves an empty one, or lets it go.
    fn give_back(&self, mapping: &mut Mapping) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < KEPT_MAX && mapping.bytes <= KEPT_BYTES_MAX && self.page_map().is_some() {
            free.push(std::mem::replace(mapping, Mapping { base: NonNull::dangling(), bytes: 0 }));
        }
    }
}

/// Zeroed memory that costs nothing until it is touched, if it is long. An allocator promises that
/// for its first long pieces only: one that was used and freed before is zeroed by hand, and then
/// all of it is there, thousands of ranks times.
enum Room {
    Allocated(Box<[u128]>),
    Mapped(Mapping),
}

impl Room {
    fn start(&self) -> NonNull<u8> {
        match self {
            Room::Allocated(words) => NonNull::from(&**words).cast(),
            Room::Mapped(mapping) => mapping.base,
        }
    }
}

/// Anonymous memory, or none.
struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping belongs to nobody but its room, and is no matter of threads.
unsafe impl Send for Mapping {}
// SAFETY: a shared one gives away nothing but its address.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(bytes: usize) -> Option<Mapping> {
        let (protection, flags) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: a new mapping at an address of the system's choice disturbs nobody.
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, flags) };
        Some(Mapping { base: NonNull::new(base.ok()?.cast())?, bytes })
    }

    /// Zeroes the pages that were touched, of which there are few. Returns false if the page map
    /// does not say which these are.
    fn clear(&self, page_map: &File) -> bool {
        // In an entry of the page map: the page is in memory, or swapped out.
        const TOUCHED: u64 = 3 << 62;
        let pages = self.bytes.div_ceil(PAGE);
        let mut entries = vec![0; pages * size_of::<u64>()];
        let at = self.base.addr().get() / PAGE * size_of::<u64>();
        if page_map.read_exact_at(&mut entries, at as u64).is_err() {
            return false;
        }
        for (page, entry) in entries.as_chunks().0.iter().enumerate() {
            if u64::from_ne_bytes(*entry) & TOUCHED != 0 {
                let length = PAGE.min(self.bytes - page * PAGE);
                // SAFETY: within the mapping, initialized, and nobody else uses it.
                let bytes = unsafe {
                    std::slice::from_raw_parts_mut(self.base.add(page * PAGE).as_ptr(), length)
                };
                bytes.fill(0);
            }
        }
        true
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: what `new` mapped, and nobody uses it any more: whoever does holds the room.
            let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_used_again_is_zero() {
        let rooms = Arc::new(Rooms::default());
        let bytes = 40 * PAGE as u64;
        let first = Memory::new(&rooms, bytes, 0);
        let mapped = first.mapped();
        let ends = [0, 7 * PAGE as u64 + 8, bytes - 8];
        assert!(ends.iter().all(|&at| mapped.put(at, &[1; 8])));
        let base = mapped.base();
        drop((mapped, first));
        assert_eq!(rooms.free.lock().unwrap().len(), 1, "it is kept");
        let second = Memory::new(&rooms, bytes, 0);
        let mapped = second.mapped();
        assert_eq!((mapped.base(), rooms.free.lock().unwrap().len()), (base, 0));
        let mut all = vec![1; bytes as usize];
        assert!(mapped.get(0, &mut all));
        assert!(all.iter().all(|&byte| byte == 0));
    }
}
