//! The checker's memory: one run of 32-bit numbers that all ranks of a host share, and its lock.
//!
//! It is a file without a name that the launcher holds open, and that its ranks map through
//! `/proc`; or, for ranks that are threads of one process, memory of that process. Pages that are
//! not touched take no memory.

use std::fs::{File, OpenOptions};
use std::os::fd::AsFd;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use farside_fabric::{Error, Result};
use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, ProtFlags};

use crate::layout::{HEAD, Layout};

/// What a file of the checker begins with, behind the lock.
const MAGIC: u32 = 0x5ACE_0005;
/// A rank that was killed inside the lock keeps it; the others then go on unchecked.
const LOCK_TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) struct Arena {
    base: NonNull<u32>,
    numbers: usize,
    layout: Layout,
    /// Whether the lock was given up on.
    broken: AtomicBool,
}

// SAFETY: all but the lock, which is an atomic, is touched under the lock alone.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// Makes memory for a job that all ranks of this process use.
    pub(crate) fn private(layout: Layout) -> Result<Arena> {
        Arena::map(&memory_file()?, layout, true)
    }

    pub(crate) fn create(layout: Layout) -> Result<(Arena, File)> {
        let file = memory_file()?;
        let arena = Arena::map(&file, layout, true)?;
        Ok((arena, file))
    }

    pub(crate) fn open(path: &Path) -> Result<Arena> {
        let cannot = |what: String| {
            Error::Join(format!(
                "the memory of the race checker, {}, {what}; `farside run --races` makes it, and \
                 all ranks must be on its host",
                path.display()
            ))
        };
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.map_err(|error| cannot(format!("cannot be opened ({error})")))?;
        let mut head = [0u8; HEAD * 4];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut head, 0)
            .map_err(|error| cannot(format!("cannot be read ({error})")))?;
        let number = |at: usize| {
            u32::from_ne_bytes([head[4 * at], head[4 * at + 1], head[4 * at + 2], head[4 * at + 3]])
        };
        if number(1) != MAGIC {
            return Err(cannot("is of another version of farside".into()));
        }
        Arena::map(&file, Layout::new(number(2), number(3))?, false)
    }

    fn map(file: &File, layout: Layout, is_new: bool) -> Result<Arena> {
        let numbers = layout.numbers();
        let bytes = (HEAD + numbers) * 4;
        let failed = |call: &'static str| {
            move |errno: rustix::io::Errno| Error::System { call, errno: errno.raw_os_error() }
        };
        if is_new {
            rustix::fs::ftruncate(file, bytes as u64).map_err(failed("ftruncate"))?;
        }
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, which replaces none.
        let base = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), bytes, protection, flags, file.as_fd(), 0)
        };
        let base = base.map_err(failed("mapping the memory of the race checker"))?;
        let base = NonNull::new(base.cast::<u32>())
            .ok_or_else(|| Error::Internal("a mapping at address 0".into()))?;
        let arena = Arena { base, numbers, layout, broken: AtomicBool::new(false) };
        if is_new {
            for (at, number) in [(1, MAGIC), (2, layout.ranks), (3, layout.page_bits)] {
                // SAFETY: within the mapping, which no other thread has yet.
                unsafe { arena.base.add(at).write(number) };
            }
        }
        Ok(arena)
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Calls `act` with the checker's numbers under the lock; `None`, and nothing done, if the lock
    /// cannot be had.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut [u32]) -> R) -> Option<R> {
        if !self.lock() {
            return None;
        }
        // SAFETY: the mapping is this long, and the lock excludes all others.
        let numbers =
            unsafe { std::slice::from_raw_parts_mut(self.base.add(HEAD).as_ptr(), self.numbers) };
        let result = act(numbers);
        self.word().store(0, Ordering::Release);
        Some(result)
    }

    /// Has the processor fetch a number that is about to be used under the lock, so that the lock
    /// is not held while it comes.
    #[inline]
    pub(crate) fn prefetch(&self, number: usize) {
        #[cfg(target_arch = "x86_64")]
        if number < self.numbers {
            use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
            // SAFETY: an address within the mapping, which is not accessed by this.
            unsafe { _mm_prefetch::<_MM_HINT_ET0>(self.base.add(HEAD + number).as_ptr().cast()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = number;
    }

    fn word(&self) -> &AtomicU32 {
        // SAFETY: the first number is the lock, used as an atomic by all.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr()) }
    }

    fn lock(&self) -> bool {
        let mut tries = 0u32;
        let mut begin = None;
        loop {
            if self.broken.load(Ordering::Relaxed) {
                return false;
            }
            let word = self.word();
            // Looking first leaves the line with its holder, who has to write it.
            if word.load(Ordering::Relaxed) == 0
                && word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return true;
            }
            tries += 1;
            if tries < 64 {
                std::hint::spin_loop();
                continue;
            }
            std::thread::yield_now();
            let begin = *begin.get_or_insert_with(Instant::now);
            if tries.is_multiple_of(256) && begin.elapsed() > LOCK_TIMEOUT {
                self.broken.store(true, Ordering::Relaxed);
            }
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping of this length was made by `map`, and nothing refers to it any more.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), (HEAD + self.numbers) * 4) };
    }
}

fn memory_file() -> Result<File> {
    let file = rustix::fs::memfd_create("farside-races", MemfdFlags::CLOEXEC)
        .map_err(|errno| Error::System { call: "memfd_create", errno: errno.raw_os_error() })?;
    Ok(file.into())
}
