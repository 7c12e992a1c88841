//! Memory of the job at addresses that a program has already: its static data, its heap, arrays
//! that it wants to share.
//!
//! A rank's part of a memory is mapped a second time, over the pages that were there, which it
//! takes the contents of. Both addresses then name the same bytes.

mod file;

use std::ptr::NonNull;

use farside::raw::Memory;
use farside::{Error, Rank, Result};
use rustix::mm::MremapFlags;

/// Maps this rank's part a second time, at an address. Whole pages are mapped. `me` is this rank.
///
/// # Safety
///
/// Whatever was mapped at `at`, for the length of the part rounded up to pages, is gone afterwards:
/// nothing may use it. The second mapping stays when the memory is freed.
pub unsafe fn map_at(memory: &Memory, me: Rank, at: NonNull<u8>) -> Result<()> {
    let bytes = whole_pages(memory, me)?;
    check_aligned(at)?;
    let (base, flags) = (memory.base().as_ptr().cast(), MremapFlags::MAYMOVE);
    // SAFETY: an old size of zero makes a second mapping of shared pages; what it replaces is not
    // used any more, by the caller's promise.
    let mapped = unsafe { rustix::mm::mremap_fixed(base, 0, bytes, flags, at.as_ptr().cast()) };
    let mapped = match mapped {
        // Valgrind does not know this use of the call.
        // SAFETY: as above.
        Err(rustix::io::Errno::INVAL) => unsafe { file::map_at(base, bytes, at) },
        mapped => mapped,
    };
    mapped.map(drop).map_err(|error| Error::Unsupported {
        what: format!(
            "a second address ({at:p}, {bytes} bytes) for memory of the job: the system says \
             {error}"
        ),
    })
}

/// Puts this rank's part in the place of pages that the process has already, with their contents.
/// Pages that are all zero are not touched, so that sparse memory stays sparse.
///
/// # Safety
///
/// The pages from `at` on, for the length of the part rounded up to pages, must be readable and
/// writable, and nothing may write them meanwhile, neither another thread nor the kernel. The part
/// must be fresh.
pub unsafe fn lay_over(memory: &Memory, me: Rank, at: NonNull<u8>) -> Result<()> {
    check_aligned(at)?;
    let page = page_bytes();
    for start in (0..whole_pages(memory, me)?).step_by(page) {
        let words = page / size_of::<u64>();
        // SAFETY: by the caller's promise, and they are aligned.
        let old =
            unsafe { std::slice::from_raw_parts(at.add(start).cast::<u64>().as_ptr(), words) };
        if old.iter().any(|&word| word != 0) {
            // SAFETY: the part is mapped in whole pages.
            let new = unsafe { memory.base().add(start) }.cast::<u64>();
            for (index, &word) in old.iter().enumerate() {
                // Volatile, so that it does not become a call of `memcpy`: in a program with
                // AddressSanitizer, that finds the red zones between the program's variables.
                // SAFETY: the part is mapped in whole pages.
                unsafe { new.add(index).write_volatile(word) };
            }
        }
    }
    // SAFETY: the bytes are the same at both places, and by the caller's promise.
    unsafe { map_at(memory, me, at) }
}

fn check_aligned(at: NonNull<u8>) -> Result<()> {
    match at.as_ptr().addr().is_multiple_of(page_bytes()) {
        true => Ok(()),
        false => {
            let (offset, align) = (at.as_ptr().addr() as u64, page_bytes() as u64);
            Err(Error::Misaligned { offset, align })
        }
    }
}

/// Returns how many bytes a page has.
pub fn page_bytes() -> usize {
    rustix::param::page_size()
}

fn whole_pages(memory: &Memory, me: Rank) -> Result<usize> {
    Ok((memory.bytes(me)? as usize).next_multiple_of(page_bytes()))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

    use super::*;

    #[test]
    fn the_pages_keep_their_contents_and_others_reach_them() {
        farside::local(2, |world| {
            let (me, pages) = (world.rank(), 3);
            let bytes = pages * page_bytes();
            let flags = MapFlags::PRIVATE;
            // SAFETY: a mapping at an address of the system's choice.
            let mapped = unsafe {
                mmap_anonymous(
                    std::ptr::null_mut(),
                    bytes,
                    ProtFlags::READ | ProtFlags::WRITE,
                    flags,
                )
            };
            let at = NonNull::new(mapped.unwrap().cast::<u8>()).unwrap();
            let word = |index: usize| {
                // SAFETY: inside of the mapping, and aligned.
                unsafe { &*at.as_ptr().cast::<AtomicU64>().add(index) }
            };
            let last = bytes / 8 - 1;
            word(0).store(u64::from(me.0) + 7, Ordering::SeqCst);
            word(last).store(u64::from(me.0) + 70, Ordering::SeqCst);
            let memory = Memory::allocate(&world.team(), bytes as u64)?;
            // SAFETY: the pages are this thread's own.
            unsafe { lay_over(&memory, me, at)? };
            world.barrier()?;
            let peer = Rank(1 - me.0);
            let place = |index: usize| memory.at(peer, index as u64 * 8).cast::<u64>();
            assert_eq!(world.load(place(0))?, u64::from(peer.0) + 7);
            assert_eq!(world.load(place(last))?, u64::from(peer.0) + 70);
            world.fetch_add(place(last), 1000)?;
            world.sync()?;
            assert_eq!(word(last).load(Ordering::SeqCst), u64::from(me.0) + 1070);
            // SAFETY: an address inside of a page is refused before anything is mapped.
            let odd = unsafe { map_at(&memory, me, at.add(8)) };
            assert!(matches!(odd, Err(Error::Misaligned { .. })), "{odd:?}");
            memory.free(&world)
        })
        .unwrap();
    }
}
