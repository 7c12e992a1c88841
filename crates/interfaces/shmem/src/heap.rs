//! The symmetric heap: chunks of memory that all PEs have, and the blocks in them.
//!
//! Without a size from the environment the heap grows: a chunk that has no room is followed by one
//! twice as long, or as long as it takes. Chunks are sparse: a page takes memory when it is
//! written.

use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull};

use farside::fabric::ProbeEvent;
use farside::raw::Memory;
use farside::{Rank, Result, Team, World};
use farside_interop::Blocks;

use crate::region::{Holds, Regions};

/// The first chunk, if the environment says nothing.
const FIRST_CHUNK: u64 = 64 << 20;
const PAGE: u64 = 4096;
/// The largest alignment of a block, and where the heap begins if nothing is in the way.
pub(crate) const ALIGN_MAX: u64 = 1 << 30;
const HEAP_START: usize = 0x5000_0000_0000;
pub(crate) struct Heap {
    chunks: Vec<Chunk>,
    grows: bool,
}

struct Chunk {
    start: usize,
    bytes: u64,
    blocks: Blocks,
}

impl Heap {
    /// Makes the heap. Collective.
    pub(crate) fn start(world: &World, regions: &Regions, limit: Option<u64>) -> Result<Heap> {
        let mut heap = Heap { chunks: Vec::new(), grows: true };
        heap.grow(&world.team(), regions, limit.unwrap_or(FIRST_CHUNK))?;
        heap.grows = limit.is_none();
        Ok(heap)
    }

    /// Adds a chunk. `all` is a team of all PEs whose context this thread may use.
    pub(crate) fn grow(&mut self, all: &Team<'_>, regions: &Regions, bytes: u64) -> Result<()> {
        let memory = Memory::allocate(all, bytes)?;
        let segment = memory.segment();
        all.context().tell(|| ProbeEvent::Name { segment, name: "symmetric heap" });
        let taken: u64 =
            self.chunks.iter().map(|chunk| chunk.bytes.next_multiple_of(ALIGN_MAX)).sum();
        let start = aligned(&memory, all.context().rank(), bytes as usize, taken as usize);
        if regions.add(all.context(), start, bytes as usize, memory, Holds::Blocks) {
            self.chunks.push(Chunk { start, bytes, blocks: Blocks::new(bytes) });
        }
        Ok(())
    }

    /// Takes a block in the chunks that there are.
    fn take(&mut self, bytes: u64, align: u64) -> Option<usize> {
        self.chunks
            .iter_mut()
            .find_map(|chunk| Some(chunk.start + chunk.blocks.take(bytes, align)? as usize))
    }

    /// Takes a block; adds a chunk by `grow`, which calls [`Heap::grow`], if none has room.
    pub(crate) fn take_or_grow(
        &mut self,
        bytes: usize,
        align: usize,
        grow: impl Fn(&mut Heap, u64) -> Result<()>,
    ) -> Option<usize> {
        let (bytes, align) = (bytes as u64, align as u64);
        if let Some(found) = self.take(bytes, align) {
            return Some(found);
        }
        let needed = bytes.checked_add(align)?.checked_next_multiple_of(PAGE)?;
        if !self.grows || needed > 1 << 56 {
            return None;
        }
        let doubled = self.chunks.last().map_or(FIRST_CHUNK, |last| last.bytes * 2);
        // Memory that there is not is asked for by all, and refused to all.
        for bytes in [doubled.max(needed), needed] {
            if grow(self, bytes).is_ok() {
                break;
            }
        }
        self.take(bytes, align)
    }

    fn chunk_of(&mut self, address: usize) -> Option<(&mut Chunk, u64)> {
        let chunk = self
            .chunks
            .iter_mut()
            .find(|chunk| address.wrapping_sub(chunk.start) < chunk.bytes as usize)?;
        let offset = (address - chunk.start) as u64;
        Some((chunk, offset))
    }

    pub(crate) fn length(&mut self, address: usize) -> Option<u64> {
        let (chunk, offset) = self.chunk_of(address)?;
        chunk.blocks.length(offset)
    }

    pub(crate) fn give(&mut self, address: usize) -> Option<u64> {
        let (chunk, offset) = self.chunk_of(address)?;
        chunk.blocks.give(offset)
    }
}

/// Maps a chunk once more, at an address that is a multiple of [`ALIGN_MAX`], and returns that: the
/// same on all PEs, if nothing is in the way there. Where the system refuses, blocks are aligned to
/// no more than a page.
fn aligned(memory: &Memory, me: Rank, bytes: usize, taken: usize) -> usize {
    let base = memory.base().as_ptr().addr();
    let wanted = ptr::without_provenance_mut::<c_void>(HEAP_START + taken);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let reserve = |at: *mut c_void, bytes: usize, flags: c_int| {
        // SAFETY: a mapping that replaces nothing.
        let found = unsafe { libc::mmap(at, bytes, libc::PROT_NONE, flags, -1, 0) };
        (found != libc::MAP_FAILED).then_some(found.addr())
    };
    let found = reserve(wanted, bytes, flags | libc::MAP_FIXED_NOREPLACE)
        .filter(|&found| found == wanted.addr())
        .or_else(|| reserve(ptr::null_mut(), bytes + ALIGN_MAX as usize, flags));
    let Some(found) = found else { return base };
    let start = found.next_multiple_of(ALIGN_MAX as usize);
    let mapped = NonNull::new(ptr::with_exposed_provenance_mut::<u8>(start))
        // SAFETY: nothing but the reservation is there.
        .is_some_and(|start| unsafe { farside_interop::map_at(memory, me, start) }.is_ok());
    if mapped { start } else { base }
}
