//! The memory of simulated ranks.

use std::ptr::NonNull;
use std::sync::Arc;

use farside_fabric::Mapped;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// What parts are aligned to.
const PAGE: usize = 4096;
/// From how many bytes on a part is mapped and not allocated.
const MAPPED_BYTES_MIN: usize = 16 << 10;

/// One rank's part of a segment.
pub(crate) struct Memory {
    /// A page more than needed, so that the part can begin with a page.
    room: Room,
    /// How far beyond a page it begins.
    skipped: usize,
    bytes: u64,
}

impl Memory {
    /// Memory that begins `skipped` bytes after a page does.
    pub(crate) fn new(bytes: u64, skipped: usize) -> Arc<Memory> {
        let room = Room::new(bytes as usize + PAGE + skipped);
        Arc::new(Memory { room, skipped, bytes })
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

/// Zeroed memory that costs nothing until it is touched, if it is long. An allocator promises that
/// for its first long pieces only: one that was used and freed before is zeroed by hand, and then
/// all of it is there, thousands of ranks times.
enum Room {
    Allocated(Box<[u128]>),
    Mapped { base: NonNull<u8>, bytes: usize },
}

// SAFETY: a mapping belongs to nobody but its room, and is no matter of threads.
unsafe impl Send for Room {}
// SAFETY: a shared room gives away nothing but its address.
unsafe impl Sync for Room {}

impl Room {
    fn new(bytes: usize) -> Room {
        let mapped = if bytes < MAPPED_BYTES_MIN { None } else { map(bytes) };
        match mapped {
            Some(base) => Room::Mapped { base, bytes },
            None => Room::Allocated(vec![0; bytes.div_ceil(16)].into()),
        }
    }

    fn start(&self) -> NonNull<u8> {
        match self {
            Room::Allocated(words) => NonNull::from(&**words).cast(),
            Room::Mapped { base, .. } => *base,
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Room::Mapped { base, bytes } = *self {
            // SAFETY: what `map` returned, and nobody uses it any more: whoever does holds the
            // room.
            let _ = unsafe { munmap(base.as_ptr().cast(), bytes) };
        }
    }
}

fn map(bytes: usize) -> Option<NonNull<u8>> {
    let (protection, flags) =
        (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
    // SAFETY: a new mapping at an address of the system's choice disturbs nobody.
    let base = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, flags) };
    base.ok().and_then(|base| NonNull::new(base.cast()))
}
