//! The second mapping, and what its pages allow.

use std::ptr::NonNull;
use std::sync::Mutex;

use crate::signal::Armed;
use crate::userfault::Userfault;
use crate::{Allowed, Error, Handler, Method, page_bytes};

/// A second mapping of shared memory, whose pages tell of accesses that are not allowed.
pub struct Watched {
    base: NonNull<u8>,
    bytes: usize,
    page_bytes: usize,
    watch: Watch,
    armed: Mutex<Option<Armed>>,
}

pub(crate) struct Scratch {
    base: NonNull<u8>,
    bytes: usize,
}

impl Scratch {
    pub(crate) fn new(bytes: usize) -> Result<Scratch, Error> {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, wherever there is room.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        match NonNull::new(base.cast::<u8>()) {
            Some(base) if base.as_ptr().cast() != libc::MAP_FAILED => Ok(Scratch { base, bytes }),
            _ => Err(Error::last("mmap")),
        }
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: it was mapped by `new`, and whoever knows of it uses it no longer.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

enum Watch {
    Protect,
    Userfault {
        fd: Userfault,
        /// The accesses that each page of the mapping allows now.
        states: Mutex<Vec<Allowed>>,
        /// The first mapping, through which a page is made to exist.
        first: NonNull<u8>,
    },
}

// SAFETY: the mapping belongs to the process, and all methods that change it are system calls.
unsafe impl Send for Watched {}
// SAFETY: as above; what is kept beside it is behind locks.
unsafe impl Sync for Watched {}

impl Watched {
    /// Maps memory a second time. Nothing is allowed at first.
    ///
    /// # Safety
    ///
    /// `first` must be the start of a shared mapping of `bytes` bytes, which lives at least as long
    /// as what is returned. Both must be multiples of a page.
    pub unsafe fn new(first: NonNull<u8>, bytes: usize, method: Method) -> Result<Watched, Error> {
        let page_bytes = page_bytes();
        if !(first.as_ptr() as usize).is_multiple_of(page_bytes)
            || !bytes.is_multiple_of(page_bytes)
            || bytes == 0
        {
            return Err(Error { call: "mapping what is not made of pages", errno: libc::EINVAL });
        }
        // SAFETY: an old size of zero leaves a shared mapping where it is and maps the same pages
        // again.
        let base = unsafe { libc::mremap(first.as_ptr().cast(), 0, bytes, libc::MREMAP_MAYMOVE) };
        let base = match NonNull::new(base.cast::<u8>()) {
            Some(base) if base.as_ptr().cast() != libc::MAP_FAILED => base,
            _ => return Err(Error::last("mremap")),
        };
        let unmapped = |error: Error| {
            // SAFETY: it was mapped just now, and no other code knows of it.
            unsafe { libc::munmap(base.as_ptr().cast(), bytes) };
            error
        };
        let watch = match method {
            Method::Protect => Watch::Protect,
            Method::Userfault => {
                let fd = Userfault::open()
                    .and_then(|fd| fd.register(base, bytes).map(|()| fd))
                    .map_err(unmapped)?;
                Watch::Userfault {
                    fd,
                    states: Mutex::new(vec![Allowed::Nothing; bytes / page_bytes]),
                    first,
                }
            }
        };
        let watched = Watched { base, bytes, page_bytes, watch, armed: Mutex::new(None) };
        if method == Method::Protect {
            watched.protect(0, bytes, libc::PROT_NONE)?;
        }
        Ok(watched)
    }

    /// Lets a handler deal with the faults of all threads in this memory, until this is dropped or
    /// armed again.
    ///
    /// # Safety
    ///
    /// The handler must live until then, and no thread may touch the memory at that moment.
    pub unsafe fn arm(&self, handler: &(dyn Handler + '_)) -> Result<(), Error> {
        let mut armed = self.armed.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *armed = None;
        // SAFETY: passed on to the caller.
        *armed = Some(unsafe {
            Armed::new(self.base.as_ptr() as usize, self.bytes, self.page_bytes, handler)?
        });
        Ok(())
    }

    /// Returns the first address.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Returns the method of watching pages.
    pub fn method(&self) -> Method {
        match self.watch {
            Watch::Protect => Method::Protect,
            Watch::Userfault { .. } => Method::Userfault,
        }
    }

    /// Sets the accesses that `count` pages from `first` on allow. By userfaultfd, pages that were
    /// never touched may have to be allowed again when they are.
    pub fn allow(&self, first: usize, count: usize, what: Allowed) -> Result<(), Error> {
        self.change(first, count, what, false)
    }

    /// Like [`Watched::allow`], for pages that are about to be touched: none of them has to be
    /// allowed again.
    pub fn allow_ahead(&self, first: usize, count: usize, what: Allowed) -> Result<(), Error> {
        self.change(first, count, what, true)
    }

    fn change(
        &self,
        first: usize,
        count: usize,
        what: Allowed,
        is_ahead: bool,
    ) -> Result<(), Error> {
        let (start, bytes) = (first * self.page_bytes, count * self.page_bytes);
        if start + bytes > self.bytes {
            return Err(Error { call: "allowing what is not there", errno: libc::EINVAL });
        }
        match &self.watch {
            Watch::Protect => {
                let protection = match what {
                    Allowed::Nothing => libc::PROT_NONE,
                    Allowed::Reading => libc::PROT_READ,
                    Allowed::Writing => libc::PROT_READ | libc::PROT_WRITE,
                };
                self.protect(start, bytes, protection)
            }
            Watch::Userfault { fd, states, first: memory } => {
                let mut states = states.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                let states = &mut states[first..first + count];
                // SAFETY: inside of both mappings, as was checked.
                let places = unsafe { (self.base.add(start), memory.add(start)) };
                fd.change(places, states, self.page_bytes, what, is_ahead)
            }
        }
    }

    fn protect(&self, start: usize, bytes: usize, protection: i32) -> Result<(), Error> {
        // SAFETY: inside of this mapping, which is not relied on to allow anything.
        match unsafe { libc::mprotect(self.base.as_ptr().add(start).cast(), bytes, protection) } {
            0 => Ok(()),
            _ => Err(Error::last("mprotect")),
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        *self.armed.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = None;
        // SAFETY: the mapping belongs to this, and all pointers into it borrow this.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
