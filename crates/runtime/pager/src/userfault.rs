//! userfaultfd, as far as it is needed: shared memory, faults as signals; and pages whose writers
//! wait.
//!
//! A page of the second mapping is absent, present and write-protected, or present. An access that
//! is not allowed is a SIGBUS of the thread that made it: no other thread is needed. Shared pages
//! are in the page cache already, so that making one present copies nothing.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

use crate::{Allowed, Error};

/// Only accesses of programs are dealt with, which needs no privilege.
const USER_MODE_ONLY: i32 = 1;
const API: u64 = 0xAA;
const FEATURE_WP: u64 = 1;
const FEATURE_SIGBUS: u64 = 1 << 7;
const FEATURE_MINOR_SHMEM: u64 = 1 << 10;
const FEATURE_WP_SHMEM: u64 = 1 << 12;
const MODE_MISSING: u64 = 1;
const MODE_WP: u64 = 2;
const MODE_MINOR: u64 = 4;
const CONTINUE_WP: u64 = 2;
const WRITEPROTECT_WP: u64 = 1;

#[repr(C)]
#[derive(Default)]
struct Greeting {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
#[derive(Default)]
struct Register {
    start: u64,
    len: u64,
    mode: u64,
    ioctls: u64,
}

#[repr(C)]
#[derive(Default)]
struct Continue {
    start: u64,
    len: u64,
    mode: u64,
    mapped: i64,
}

#[repr(C)]
#[derive(Default)]
struct WriteProtect {
    start: u64,
    len: u64,
    mode: u64,
}

/// The number of an ioctl that reads and writes its argument.
const fn number<T>(which: u64) -> u64 {
    (3 << 30) | ((size_of::<T>() as u64) << 16) | (0xAA << 8) | which
}

const IOCTL_API: u64 = number::<Greeting>(0x3F);
const IOCTL_REGISTER: u64 = number::<Register>(0x00);
const IOCTL_CONTINUE: u64 = number::<Continue>(0x07);
const IOCTL_WRITEPROTECT: u64 = number::<WriteProtect>(0x06);

pub(crate) struct Userfault {
    fd: OwnedFd,
}

impl Userfault {
    /// Opens one that tells of faults by signals.
    pub(crate) fn open() -> Result<Userfault, Error> {
        Userfault::greet(USER_MODE_ONLY, FEATURE_SIGBUS | FEATURE_MINOR_SHMEM | FEATURE_WP_SHMEM)
    }

    /// Opens one that lets whoever writes a protected page wait, the kernel too if that is allowed.
    pub(crate) fn open_waiting() -> Result<Userfault, Error> {
        let features = FEATURE_WP | FEATURE_WP_SHMEM;
        Userfault::greet(0, features).or_else(|_| Userfault::greet(USER_MODE_ONLY, features))
    }

    fn greet(flags: i32, features: u64) -> Result<Userfault, Error> {
        // SAFETY: it takes flags and returns a new file or an error.
        let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | flags) };
        if fd < 0 {
            return Err(Error::last("userfaultfd"));
        }
        // SAFETY: it is open, and has no other owner.
        let userfault = Userfault { fd: unsafe { OwnedFd::from_raw_fd(fd as i32) } };
        userfault.ask(
            "greeting userfaultfd",
            IOCTL_API,
            &mut Greeting { api: API, features, ioctls: 0 },
        )?;
        Ok(userfault)
    }

    fn ask<T>(&self, call: &'static str, which: u64, argument: &mut T) -> Result<(), Error> {
        // SAFETY: the number says how long the argument is, and it is a structure of that length
        // that the kernel knows.
        match unsafe { libc::ioctl(self.fd.as_raw_fd(), which as _, std::ptr::from_mut(argument)) }
        {
            0 => Ok(()),
            _ => Err(Error::last(call)),
        }
    }

    pub(crate) fn register(&self, base: NonNull<u8>, bytes: usize) -> Result<(), Error> {
        self.register_for(base, bytes, MODE_MISSING | MODE_WP | MODE_MINOR)
    }

    /// Lets all writers of pages wait from now on, until this is dropped.
    pub(crate) fn hold_writes(&self, base: NonNull<u8>, bytes: usize) -> Result<(), Error> {
        self.register_for(base, bytes, MODE_WP)?;
        let (start, len) = (base.as_ptr() as u64, bytes as u64);
        self.ask(
            "protecting pages with userfaultfd",
            IOCTL_WRITEPROTECT,
            &mut WriteProtect { start, len, mode: WRITEPROTECT_WP },
        )
    }

    fn register_for(&self, base: NonNull<u8>, bytes: usize, mode: u64) -> Result<(), Error> {
        let (start, len) = (base.as_ptr() as u64, bytes as u64);
        self.ask(
            "registering with userfaultfd",
            IOCTL_REGISTER,
            &mut Register { start, len, mode, ioctls: 0 },
        )
    }

    /// Allows something for neighbouring pages, which now allow `states`. `memory` is where they
    /// are mapped first. Several pages that were absent are made present only if `is_ahead`.
    pub(crate) fn change(
        &self,
        (base, memory): (NonNull<u8>, NonNull<u8>),
        states: &mut [Allowed],
        page_bytes: usize,
        what: Allowed,
        is_ahead: bool,
    ) -> Result<(), Error> {
        let mut at = 0;
        for run in states.chunk_by_mut(|one, next| one == next) {
            let (start, bytes) = (at * page_bytes, run.len() * page_bytes);
            at += run.len();
            let was = run[0];
            if was == what {
                continue;
            }
            let len = bytes as u64;
            match (was, what) {
                (_, Allowed::Nothing) => {
                    // SAFETY: of the second mapping, which is not read now; the pages themselves
                    // stay where they are.
                    let done = unsafe {
                        libc::madvise(base.as_ptr().add(start).cast(), bytes, libc::MADV_DONTNEED)
                    };
                    if done != 0 {
                        return Err(Error::last("madvise"));
                    }
                }
                // An access to an absent page faults again; so many need not be made present ahead.
                (Allowed::Nothing, _) if run.len() > 1 && !is_ahead => continue,
                (Allowed::Nothing, _) => {
                    for page in (start..start + bytes).step_by(page_bytes) {
                        // SAFETY: inside of the first mapping. A page exists once it was read.
                        unsafe { memory.as_ptr().add(page).read_volatile() };
                    }
                    let mode = if what == Allowed::Reading { CONTINUE_WP } else { 0 };
                    let start = base.as_ptr() as u64 + start as u64;
                    self.ask(
                        "mapping a page with userfaultfd",
                        IOCTL_CONTINUE,
                        &mut Continue { start, len, mode, mapped: 0 },
                    )?;
                }
                (_, _) => {
                    let mode = if what == Allowed::Reading { WRITEPROTECT_WP } else { 0 };
                    let start = base.as_ptr() as u64 + start as u64;
                    self.ask(
                        "protecting pages with userfaultfd",
                        IOCTL_WRITEPROTECT,
                        &mut WriteProtect { start, len, mode },
                    )?;
                }
            }
            run.fill(what);
        }
        Ok(())
    }
}
