//! Memory of the job that a process gives out by itself: for windows that MPI allocates, and for
//! `MPI_Alloc_mem`.
//!
//! Every rank has one part of one segment, as large as the machine's memory and sparse: a page
//! takes memory when it is written. So nothing has to be registered when a window is made.

use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr::NonNull;

use farside::fabric::Mapped;
use farside::raw::Memory;
use farside::{Rank, Result, World};
use farside_interop::{Blocks, give_pages_back};

const PAGE: u64 = 4096;
/// The smallest heap that is worth having.
const LEAST: u64 = 64 << 20;

pub(crate) struct Heap {
    pub(crate) memory: Memory,
    pub(crate) base: NonNull<u8>,
    pub(crate) bytes: u64,
    blocks: RefCell<Blocks>,
    /// Parts of other ranks that the program has addresses in, although nothing here is near.
    mapped: RefCell<Vec<(Rank, Mapped)>>,
}

impl Heap {
    /// Makes the heap: as large as the machine's memory, or as the system allows. Collective.
    pub(crate) fn start(world: &World) -> Result<Heap> {
        let mut bytes = machine_bytes().max(LEAST);
        loop {
            match Memory::allocate(&world.team(), bytes) {
                Ok(memory) => {
                    let bytes = memory.bytes(world.rank())?;
                    let blocks = RefCell::new(Blocks::new(bytes));
                    let base = memory.base();
                    return Ok(Heap { memory, base, bytes, blocks, mapped: RefCell::default() });
                }
                // What is refused to one is refused to all.
                Err(_) if bytes > LEAST => bytes = (bytes / 2).next_multiple_of(PAGE).max(LEAST),
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes a block; its first byte and the offset of that.
    pub(crate) fn take(&self, bytes: u64, align: u64) -> Option<(NonNull<u8>, u64)> {
        let offset = self.blocks.borrow_mut().take(bytes, align)?;
        // SAFETY: blocks are inside.
        Some((unsafe { self.base.add(offset as usize) }, offset))
    }

    /// Returns the offset of an address, if all of `bytes` bytes from there on are the heap's.
    pub(crate) fn offset_of(&self, address: *const c_void, bytes: u64) -> Option<u64> {
        let offset = address.addr().wrapping_sub(self.base.as_ptr().addr()) as u64;
        (offset < self.bytes && bytes <= self.bytes - offset).then_some(offset)
    }

    /// Gives a block back; false if none begins there.
    pub(crate) fn give(&self, address: *const c_void) -> bool {
        let Some(offset) = self.offset_of(address, 0) else { return false };
        let Some(bytes) = self.blocks.borrow_mut().give(offset) else { return false };
        // SAFETY: the block is free, so nothing uses its pages.
        unsafe { give_pages_back(address.cast_mut().cast(), bytes) };
        true
    }

    /// Returns where a rank's part begins in this process, for loads and stores of the program:
    /// also in a job whose operations somebody sees, where none of this library's are near.
    pub(crate) fn near(&self, world: &World, rank: Rank) -> Option<NonNull<u8>> {
        let is_known = |known: &&(Rank, Mapped)| known.0 == rank;
        let known = self.mapped.borrow().iter().find(is_known).map(|known| known.1.base());
        self.memory.near(rank).or(known).or_else(|| {
            let mapped = world.fabric().map(rank, self.memory.segment()).ok()??;
            let base = mapped.base();
            self.mapped.borrow_mut().push((rank, mapped));
            Some(base)
        })
    }
}

/// The memory of the machine, in whole pages.
fn machine_bytes() -> u64 {
    // SAFETY: questions without arguments.
    let (pages, page) =
        unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGE_SIZE)) };
    u64::try_from(pages).unwrap_or(0).saturating_mul(u64::try_from(page).unwrap_or(PAGE))
}
