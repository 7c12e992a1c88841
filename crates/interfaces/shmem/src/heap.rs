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

use crate::context;
use crate::exit::{self, Call, OrExit};
use crate::region::{Holds, Regions};
use crate::runtime::{Runtime, runtime};
use crate::team;

/// The first chunk, if the environment says nothing.
const FIRST_CHUNK: u64 = 64 << 20;
/// Freed blocks of at least so many bytes give their pages back.
const PAGES_BACK: u64 = 1 << 20;
const PAGE: u64 = 4096;
/// The largest alignment of a block, and where the heap begins if nothing is in the way.
const ALIGN_MAX: u64 = 1 << 30;
const HEAP_START: usize = 0x5000_0000_0000;
/// What any type is aligned to, and more.
const ALIGN: usize = 64;

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
    fn grow(&mut self, all: &Team<'_>, regions: &Regions, bytes: u64) -> Result<()> {
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

    fn take_or_grow(&mut self, runtime: &Runtime, bytes: usize, align: usize) -> Option<usize> {
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
            let grown =
                runtime.world_team.with(runtime, |all| self.grow(all, &runtime.regions, bytes));
            if grown.is_ok() {
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

    fn length(&mut self, address: usize) -> Option<u64> {
        let (chunk, offset) = self.chunk_of(address)?;
        chunk.blocks.length(offset)
    }

    fn give(&mut self, address: usize) -> Option<u64> {
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

/// Completes what this PE has put, and meets all others.
fn barrier_all(runtime: &Runtime, call: Call) {
    context::quiet_default(runtime, call);
    team::barrier(runtime, &runtime.world_team, call).or_exit(call);
}

fn with_heap<R>(runtime: &Runtime, act: impl FnOnce(&mut Heap) -> R) -> R {
    act(&mut runtime.heap.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
}

fn allocate(runtime: &Runtime, bytes: usize, align: usize, call: Call) -> *mut c_void {
    if runtime.environment.debug {
        check_alike(runtime, bytes, call);
    }
    let found = with_heap(runtime, |heap| heap.take_or_grow(runtime, bytes, align));
    if let Some(start) = found {
        runtime.regions.set_block(start, bytes);
    }
    found.map_or(ptr::null_mut(), ptr::with_exposed_provenance_mut)
}

/// Ends the job if PEs ask for different amounts.
fn check_alike(runtime: &Runtime, bytes: usize, call: Call) {
    let mut ends = [[bytes as u64, bytes as u64]];
    let widen = |a: [u64; 2], b: [u64; 2]| [a[0].min(b[0]), a[1].max(b[1])];
    runtime.world_team.with(runtime, |team| team.all_reduce(&mut ends, widen)).or_exit(call);
    if ends[0][0] != ends[0][1] {
        exit::end(
            call,
            &format!("this PE asks for {bytes} bytes, others for {} to {}", ends[0][0], ends[0][1]),
        );
    }
}

fn release(runtime: &Runtime, address: usize, call: Call) {
    let Some(bytes) = with_heap(runtime, |heap| heap.give(address)) else {
        exit::end(call, &format!("no block of the symmetric heap begins at address {address:#x}"));
    };
    runtime.regions.remove_block(address);
    if bytes >= PAGES_BACK {
        let first = address.next_multiple_of(PAGE as usize);
        let pages = (address + bytes as usize - first) / PAGE as usize * PAGE as usize;
        let first = ptr::with_exposed_provenance_mut::<c_void>(first);
        // SAFETY: the block is free, so nothing uses its pages. If the kernel refuses, they stay.
        unsafe { libc::madvise(first, pages, libc::MADV_REMOVE) };
    }
}

#[unsafe(no_mangle)]
extern "C" fn farside_shmem_malloc(size: usize, call: Call) -> *mut c_void {
    farside_shmem_align(ALIGN, size, call)
}

#[unsafe(no_mangle)]
extern "C" fn farside_shmem_align(alignment: usize, size: usize, call: Call) -> *mut c_void {
    let runtime = runtime(call);
    if size == 0 || !alignment.is_power_of_two() || alignment as u64 > ALIGN_MAX {
        return ptr::null_mut();
    }
    let block = allocate(runtime, size, alignment, call);
    barrier_all(runtime, call);
    block
}

#[unsafe(no_mangle)]
extern "C" fn farside_shmem_calloc(count: usize, size: usize, call: Call) -> *mut c_void {
    let runtime = runtime(call);
    let Some(bytes @ 1..) = count.checked_mul(size) else {
        return ptr::null_mut();
    };
    let block = allocate(runtime, bytes, ALIGN, call);
    if !block.is_null() {
        // SAFETY: the block is this long, and nothing uses it yet.
        unsafe { block.cast::<u8>().write_bytes(0, bytes) };
    }
    barrier_all(runtime, call);
    block
}

#[unsafe(no_mangle)]
unsafe extern "C" fn farside_shmem_realloc(
    block: *mut c_void,
    size: usize,
    call: Call,
) -> *mut c_void {
    let runtime = runtime(call);
    if block.is_null() {
        return farside_shmem_malloc(size, call);
    }
    if size == 0 {
        farside_shmem_free(block, call);
        return ptr::null_mut();
    }
    barrier_all(runtime, call);
    let Some(old) = with_heap(runtime, |heap| heap.length(block.addr())) else {
        exit::end(call, &format!("no block of the symmetric heap begins at address {block:p}"));
    };
    if size as u64 <= old && old <= (size as u64).saturating_mul(2) {
        runtime.regions.set_block(block.addr(), size);
        barrier_all(runtime, call);
        return block;
    }
    let new = allocate(runtime, size, ALIGN, call);
    if !new.is_null() {
        // SAFETY: both blocks are at least this long, and are different blocks.
        unsafe {
            ptr::copy_nonoverlapping(block.cast::<u8>(), new.cast(), size.min(old as usize));
        }
        release(runtime, block.addr(), call);
    }
    barrier_all(runtime, call);
    new
}

#[unsafe(no_mangle)]
extern "C" fn farside_shmem_free(block: *mut c_void, call: Call) {
    let runtime = runtime(call);
    if block.is_null() {
        return;
    }
    barrier_all(runtime, call);
    release(runtime, block.addr(), call);
}
