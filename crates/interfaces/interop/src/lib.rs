//! What the interfaces for other languages share: [`handles`], which are numbers that C holds, and
//! memory of the job at addresses that a program has already: its static data, its heap, arrays
//! that it wants to share.
//!
//! A rank's part of a memory is mapped a second time, over the pages that were there, which it
//! takes the contents of. Both addresses then name the same bytes.

mod blocks;
mod call_site;
pub mod caller;
mod claims;
mod file;
pub mod handles;

use std::ops::Range;
use std::ptr::NonNull;

use farside::raw::{Extent, Memory};
use farside::{Error, Rank, Result, Team};
use farside_pager::HeldWrites;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MremapFlags, ProtFlags, mmap_anonymous};

pub use blocks::Blocks;
pub use call_site::{CallSite, PLACES};
use claims::{claim, unclaim};

/// Maps this rank's part a second time, at an address. Whole pages are mapped. `me` is this rank.
///
/// # Safety
///
/// Whatever was mapped at `at`, for the length of the part rounded up to pages, is gone afterwards:
/// nothing may use it. The second mapping stays when the memory is freed.
pub unsafe fn map_at(memory: &Memory, me: Rank, at: NonNull<u8>) -> Result<()> {
    let bytes = whole_pages(memory, me)?;
    check_aligned(at)?;
    // SAFETY: by the caller's promise.
    let mapped = unsafe { map_again(memory, bytes, at) };
    mapped.map_err(|error| no_second_address(at, bytes, error))
}

/// Freed blocks of at least so many bytes give their pages back.
const PAGES_BACK: u64 = 1 << 20;

/// Gives the pages of a freed block of shared memory back to the system, if the block is large. If
/// the kernel refuses, they stay.
///
/// # Safety
///
/// Nothing may use the bytes: they read as zero afterwards, or as before.
pub unsafe fn give_pages_back(block: *mut u8, bytes: u64) {
    let page = page_bytes();
    let first = block.map_addr(|address| address.next_multiple_of(page));
    let pages = (block.addr() + bytes as usize).saturating_sub(first.addr()) / page * page;
    if bytes >= PAGES_BACK && pages > 0 {
        // SAFETY: by the caller's promise.
        let _ = unsafe { rustix::mm::madvise(first.cast(), pages, Advice::LinuxRemove) };
    }
}

/// Maps the first `bytes` bytes of this rank's part a second time, without allocating memory.
///
/// # Safety
///
/// As for [`map_at`].
unsafe fn map_again(
    memory: &Memory,
    bytes: usize,
    at: NonNull<u8>,
) -> std::result::Result<(), Errno> {
    let (base, flags) = (memory.base().as_ptr().cast(), MremapFlags::MAYMOVE);
    // SAFETY: an old size of zero makes a second mapping of shared pages; what it replaces is not
    // used any more, by the caller's promise.
    let mapped = unsafe { rustix::mm::mremap_fixed(base, 0, bytes, flags, at.as_ptr().cast()) };
    match mapped {
        // Valgrind does not know this use of the call, nor what lets writers wait.
        // SAFETY: as above.
        Err(Errno::INVAL) => unsafe { file::map_at(base, bytes, at).map(drop) },
        mapped => mapped.map(drop),
    }
}

#[cold]
fn no_second_address(at: NonNull<u8>, bytes: usize, error: Errno) -> Error {
    Error::Unsupported {
        what: format!(
            "mapping {bytes} bytes of the job's memory at a second address, {at:p}: the system \
             says {error}"
        ),
    }
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
    let bytes = whole_pages(memory, me)?;
    // SAFETY: by the caller's promise.
    let mapped = unsafe { copy_and_map(memory, bytes, at) };
    mapped.map_err(|error| no_second_address(at, bytes, error))
}

/// Does what [`lay_over`] does, and lets other threads that write the pages meanwhile, as
/// neighbours on the heap do, wait until the new ones are there.
///
/// # Safety
///
/// The pages from `at` on, for the length of the part rounded up to pages, must be readable and
/// writable, and not be the stack of the calling thread. Where there is no userfaultfd, nothing may
/// write them meanwhile. The part must be fresh.
pub unsafe fn lay_over_shared(memory: &Memory, me: Rank, at: NonNull<u8>) -> Result<()> {
    check_aligned(at)?;
    let bytes = whole_pages(memory, me)?;
    // Until it is dropped, nothing here may allocate memory: that would write to the heap.
    // SAFETY: readable, and this thread only reads them.
    let held = unsafe { HeldWrites::new(at, bytes) };
    // SAFETY: by the caller's promise, and because writers wait.
    let mapped = unsafe { copy_and_map(memory, bytes, at) };
    drop(held);
    mapped.map_err(|error| no_second_address(at, bytes, error))
}

/// Memory that could not be laid over the pages of all members.
#[derive(Debug)]
pub struct NotLaidOver {
    /// Why not.
    pub error: Error,
    /// True if it still lies over the pages of this member, with their contents: the system did not
    /// give the old ones back.
    pub stays: bool,
}

/// Does what [`lay_over_shared`] does on every member that has pages, which begin at `at`. If one
/// member cannot, the others give theirs back, and the memory is freed unless one of them cannot do
/// that either. Collective.
///
/// # Safety
///
/// As for [`lay_over_shared`].
pub unsafe fn lay_over_together(
    team: &Team<'_>,
    memory: &Memory,
    pages: &Range<usize>,
    at: NonNull<u8>,
) -> std::result::Result<(), NotLaidOver> {
    let laid = match pages.is_empty() {
        true => Ok(()),
        // SAFETY: by the caller's promise.
        false => unsafe { lay_over_shared(memory, team.context().rank(), at) },
    };
    let (is_laid, agreed) = (laid.is_ok(), agree(team, laid.is_ok()));
    let Err(error) = laid.and(agreed) else { return Ok(()) };
    // SAFETY: by the caller's promise; nobody has used the part yet.
    let stays = is_laid && unsafe { give_back(pages) }.is_err();
    // What is freed becomes zeros, and another's.
    if agree(team, !stays).is_ok() {
        // After a loss it fails, and the memory stays until the job ends.
        let _ = memory.clone().free(team);
    }
    Err(NotLaidOver { error, stays })
}

/// Fails if a member says that it could not do its part. Collective: an error of one member must
/// not leave the others in the next collective.
fn agree(team: &Team<'_>, is_well: bool) -> Result<()> {
    let mut failures = [u64::from(!is_well)];
    team.all_reduce(&mut failures, |a, b| a + b)?;
    match failures {
        [0] => Ok(()),
        _ => Err(Error::InvalidState("another member could not attach or detach memory".into())),
    }
}

/// Copies pages to this rank's part, and maps that in their place, without allocating memory.
///
/// # Safety
///
/// As for [`lay_over`].
unsafe fn copy_and_map(
    memory: &Memory,
    bytes: usize,
    at: NonNull<u8>,
) -> std::result::Result<(), Errno> {
    let page = page_bytes();
    for start in (0..bytes).step_by(page) {
        let words = page / size_of::<u64>();
        // SAFETY: by the caller's promise, and they are aligned.
        let old =
            unsafe { std::slice::from_raw_parts(at.add(start).cast::<u64>().as_ptr(), words) };
        if old.iter().any(|&word| word != 0) {
            // SAFETY: the part is mapped in whole pages.
            unsafe { copy_words(old.as_ptr().cast(), memory.base().add(start).as_ptr(), page) };
        }
    }
    // SAFETY: the bytes are the same at both places, and by the caller's promise.
    unsafe { map_again(memory, bytes, at) }
}

/// Memory that the program has had before, and that all members of a team share now.
pub struct Attached {
    /// The memory: offset 0 of a rank's part is the first byte that it has attached.
    pub memory: Memory,
    pages: Range<usize>,
}

/// Shares memory that the program has: `bytes` bytes from `at` on, of this member; the others may
/// attach other lengths. Collective.
///
/// Whole pages change their place in the machine, with everything in them, and keep their
/// addresses. No two attached pieces may have a page in common, and none may be on the stack of the
/// thread that attaches it.
///
/// # Safety
///
/// The bytes must be readable and writable, and stay the program's until they are
/// [detached](detach). Where there is no userfaultfd, no other thread may write the pages that they
/// lie in during the call.
pub unsafe fn attach(team: &Team<'_>, at: NonNull<u8>, bytes: usize) -> Result<Attached> {
    let (page, address) = (page_bytes(), at.as_ptr().addr());
    let start = address / page * page;
    let end = address.checked_add(bytes.max(1)).and_then(|end| end.checked_next_multiple_of(page));
    let claimed = match end {
        Some(end) => claim(start..end),
        None => {
            Err(Error::InvalidArgument(format!("{bytes} bytes at {at:p} reach beyond all memory")))
        }
    };
    let first = NonNull::new(at.as_ptr().wrapping_sub(address - start));
    let claimed = claimed.and_then(|pages| match first {
        Some(first) => Ok((pages, first)),
        None => Err(Error::InvalidArgument("the memory begins at a null pointer".into())),
    });
    let agreed = agree(team, claimed.is_ok());
    let (pages, first) = claimed?;
    let mut stays = false;
    let attached = (|| {
        agreed?;
        let whole = Memory::allocate(team, pages.len() as u64)?;
        // SAFETY: by the caller's promise; the stack is not among the pages.
        let laid = unsafe { lay_over_together(team, &whole, &pages, first) };
        laid.map_err(|not_laid| {
            stays = not_laid.stays;
            not_laid.error
        })?;
        let extent = Extent { start: (address - start) as u64, bytes: bytes as u64 };
        whole.narrowed(team, extent).inspect_err(|_| {
            // The memory stays until the job ends, for others that may have it attached.
            // SAFETY: as above; what others put goes to the memory.
            stays = unsafe { give_back(&pages) }.is_err();
        })
    })();
    match attached {
        Ok(memory) => Ok(Attached { memory, pages }),
        Err(error) => {
            if !stays {
                unclaim(&pages);
            }
            Err(error)
        }
    }
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

/// Gives attached memory back to the program alone, with its contents. Collective.
///
/// # Safety
///
/// Where there is no userfaultfd, no other thread may write the pages during the call.
pub unsafe fn detach(team: &Team<'_>, attached: Attached) -> Result<()> {
    let Attached { memory, pages } = attached;
    // What was put to a lost rank is told when all are through.
    let flushed = team.context().flush_all();
    team.barrier()?;
    // SAFETY: by the caller's promise.
    let given_back = unsafe { give_back(&pages) };
    if given_back.is_ok() {
        unclaim(&pages);
    }
    // Memory that still lies over pages of a member's stays.
    let agreed = agree(team, given_back.is_ok());
    given_back.and(agreed)?;
    memory.free(team)?;
    flushed
}

/// Puts private memory in the place of pages that memory of the job [lies over](lay_over), with
/// their contents.
///
/// # Safety
///
/// No other rank may use the pages any more. Where there is no userfaultfd, nothing may write them
/// meanwhile.
pub unsafe fn give_back(pages: &Range<usize>) -> Result<()> {
    if pages.is_empty() {
        return Ok(());
    }
    let (bytes, flags) = (pages.len(), MapFlags::PRIVATE);
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let system = |call, error: Errno| Error::System { call, errno: error.raw_os_error() };
    let old = std::ptr::with_exposed_provenance_mut::<u8>(pages.start);
    let Some(at) = NonNull::new(old) else { return Ok(()) };
    // SAFETY: a mapping at an address of the system's choice.
    let new = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, flags) };
    let new = new.map_err(|error| system("mmap, to detach memory", error))?;
    // Until it is dropped, nothing here may allocate memory: that would write to the heap.
    // SAFETY: readable, and this thread only reads them.
    let held = unsafe { HeldWrites::new(at, bytes) };
    // SAFETY: the new pages take the place of those that they were filled from; nothing writes
    // those meanwhile, by the caller's promise and because writers wait.
    let moved = unsafe {
        copy_words(old, new.cast(), bytes);
        rustix::mm::mremap_fixed(new, bytes, bytes, MremapFlags::MAYMOVE, old.cast())
    };
    drop(held);
    moved.map(drop).map_err(|error| {
        // SAFETY: the pages that were just mapped, which nobody has seen.
        let _ = unsafe { rustix::mm::munmap(new, bytes) };
        system("mremap, to detach memory", error)
    })
}

/// Refuses pages that are not the process's alone: those of a file that is mapped, or of another
/// window, would be cut off from what they show.
pub fn check_private(pages: &Range<usize>) -> Result<()> {
    match file::shared_within(pages) {
        None => Ok(()),
        Some(path) => Err(Error::Unsupported {
            what: format!(
                "sharing memory that is shared already ({:#x} to {:#x}, of {path}): use memory of \
                 the process alone",
                pages.start, pages.end
            ),
        }),
    }
}

/// Copies whole pages, without a call of `memcpy`: in a program with AddressSanitizer, that finds
/// the red zones between the program's variables.
///
/// # Safety
///
/// Both must be valid for so many bytes, and aligned to words.
unsafe fn copy_words(from: *const u8, to: *mut u8, bytes: usize) {
    for index in 0..bytes / size_of::<u64>() {
        // SAFETY: by the caller's promise.
        unsafe { to.cast::<u64>().add(index).write_volatile(*from.cast::<u64>().add(index)) };
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

    use super::*;

    #[test]
    fn the_pages_keep_their_contents_and_others_reach_them() {
        farside::local(2, |world| {
            let (me, pages) = (world.rank(), 3);
            let (at, bytes) = (own_pages(pages), pages * page_bytes());
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
            memory.free(world)
        })
        .unwrap();
    }

    fn own_pages(count: usize) -> NonNull<u8> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a mapping at an address of the system's choice.
        let mapped = unsafe {
            mmap_anonymous(std::ptr::null_mut(), count * page_bytes(), protection, flags)
        };
        NonNull::new(mapped.unwrap().cast::<u8>()).unwrap()
    }

    #[test]
    fn stores_of_neighbours_are_not_lost() {
        // SAFETY: the page is nobody else's.
        if unsafe { HeldWrites::new(own_pages(1), page_bytes()) }.is_err() {
            eprintln!("SKIPPED: there is no userfaultfd that can let writers wait");
            return;
        }
        farside::local(2, |world| {
            let page = own_pages(1);
            // SAFETY: inside of the page, and aligned.
            let neighbour = unsafe { page.add(page_bytes() - 8).cast::<AtomicU64>().as_ref() };
            let ends = AtomicU64::new(0);
            std::thread::scope(|scope| {
                let writer = scope.spawn(|| {
                    let (mut last, mut lost) = (0, 0);
                    while ends.load(Ordering::Relaxed) == 0 {
                        lost += u64::from(neighbour.load(Ordering::Relaxed) != last);
                        last += 1;
                        neighbour.store(last, Ordering::Relaxed);
                    }
                    lost
                });
                let result = (0..100).try_for_each(|_| {
                    let team = world.team();
                    // SAFETY: the piece is this thread's own; its neighbour's writer waits.
                    unsafe { detach(&team, attach(&team, page.add(64), 100)?) }
                });
                ends.store(1, Ordering::Relaxed);
                assert_eq!(writer.join().unwrap(), 0, "stores that were lost");
                result
            })
        })
        .unwrap();
    }

    #[test]
    fn memory_that_is_shared_already_is_refused() {
        farside::local(2, |world| {
            let team = world.team();
            let memory = Memory::allocate(&team, 2 * page_bytes() as u64)?;
            // SAFETY: a window that nobody uses.
            let attached = unsafe { attach(&team, memory.base(), 100) };
            let error = attached.err().expect("it is of the job already").to_string();
            assert!(error.contains("shared already"), "{error}");
            memory.free(world)
        })
        .unwrap();
    }

    #[test]
    fn what_is_attached_is_shared_until_it_is_detached() {
        farside::local(2, |world| {
            let me = world.rank();
            // Each rank's array begins elsewhere in its page, and has another length.
            let words = 2000 + 500 * me.index();
            let mut array: Vec<u64> = (0..words as u64).map(|word| word * 10).collect();
            let at = NonNull::new(array.as_mut_ptr().wrapping_add(me.index() + 1).cast()).unwrap();
            let bytes = (words - 2) * 8;
            let team = world.team();
            // SAFETY: the array is this thread's own, and used through the pointer only.
            let attached = unsafe { attach(&team, at, bytes)? };
            // SAFETY: as above.
            let again = unsafe { attach(&team, at, 8) };
            assert!(matches!(again, Err(Error::InvalidArgument(_))), "the page is taken");
            let memory = &attached.memory;
            let peer = Rank(1 - me.0);
            assert_eq!(memory.bytes(peer)?, (2000 + 500 * peer.index() as u64 - 2) * 8);
            let first = world.load(memory.at(peer, 0).cast::<u64>())?;
            assert_eq!(first, (peer.index() as u64 + 1) * 10);
            let beyond = memory.at(peer, memory.bytes(peer)?).cast::<u64>();
            assert!(world.load(beyond).is_err(), "only what was attached is shared");
            world.barrier()?;
            world.put(&7u64.to_le_bytes(), memory.at(peer, 800))?;
            world.sync()?;
            let own = |index: usize| {
                // SAFETY: inside of the array.
                unsafe { at.as_ptr().cast::<u64>().add(index).read_volatile() }
            };
            assert_eq!(own(100), 7);
            // SAFETY: as above.
            unsafe { detach(&team, attached)? };
            assert_eq!((own(100), own(101)), (7, (101 + me.index() as u64 + 1) * 10));
            Ok(())
        })
        .unwrap();
    }

    /// Lets this thread's moves of mappings of so many bytes fail, as where memory is short, until
    /// it ends. Returns false where the system does not know how.
    fn refuse_moves(bytes: usize) -> bool {
        let call = std::mem::offset_of!(libc::seccomp_data, nr) as u32;
        let old_bytes = (std::mem::offset_of!(libc::seccomp_data, args) + 8) as u32;
        let load = |at| (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, at, 0);
        let skip_unless = |value, skip| (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value, skip);
        let answer = |value| (libc::BPF_RET | libc::BPF_K, value, 0);
        let steps = [
            load(call),
            skip_unless(libc::SYS_mremap as u32, 3),
            load(old_bytes),
            skip_unless(bytes as u32, 1),
            answer(libc::SECCOMP_RET_ERRNO | libc::ENOMEM as u32),
            answer(libc::SECCOMP_RET_ALLOW),
        ];
        let mut filter =
            steps.map(|(code, k, jf)| libc::sock_filter { code: code as u16, jt: 0, jf, k });
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        // SAFETY: the filter is copied.
        unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &program) == 0
        }
    }

    /// The number of pages that tests give back in vain: no other mapping that moves has so many.
    const ODD: usize = 37;

    #[test]
    fn memory_that_lies_over_pages_of_a_member_is_not_freed() {
        farside::local(2, |world| {
            let (team, pages) = (world.team(), own_pages(ODD));
            // SAFETY: the pages are this thread's own.
            unsafe { pages.cast::<u64>().write_volatile(7) };
            // Rank 1 cannot lay over, and rank 0 cannot give back.
            let refused = if world.rank().0 == 1 { 0 } else { ODD * page_bytes() };
            let mut missing = [u64::from(!refuse_moves(refused))];
            team.all_reduce(&mut missing, |a, b| a + b)?;
            if missing != [0] {
                eprintln!("SKIPPED: there is no seccomp");
                return Ok(());
            }
            // SAFETY: as above.
            let attached = unsafe { attach(&team, pages, ODD * page_bytes()) };
            assert!(attached.is_err());
            let next = Memory::allocate(&team, (ODD * page_bytes()) as u64)?;
            world.barrier()?;
            // SAFETY: as above.
            assert_eq!(unsafe { pages.cast::<u64>().read_volatile() }, 7);
            next.free(world)
        })
        .unwrap();
    }

    #[test]
    fn pages_that_are_given_back_can_be_attached_again() {
        farside::local(2, |world| {
            let (team, pages) = (world.team(), own_pages(ODD));
            // SAFETY: the pages are this thread's own.
            let attached = unsafe { attach(&team, pages, ODD * page_bytes())? };
            let is_short = world.rank().0 == 1;
            let mut missing = [u64::from(is_short && !refuse_moves(ODD * page_bytes()))];
            team.all_reduce(&mut missing, |a, b| a + b)?;
            if missing != [0] {
                eprintln!("SKIPPED: there is no seccomp");
                return Ok(());
            }
            // SAFETY: as above.
            assert!(unsafe { detach(&team, attached) }.is_err());
            let next = if is_short { own_pages(1) } else { pages };
            // SAFETY: as above.
            unsafe { detach(&team, attach(&team, next, 8)?) }
        })
        .unwrap();
    }
}
