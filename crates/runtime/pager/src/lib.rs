//! Memory whose pages tell when they are read or written.
//!
//! A [`Watched`] memory is a second mapping of memory that is shared anyway. Each of its pages may
//! be untouchable, readable or writable; an access that is not allowed runs a handler on the thread
//! that made it, which allows it, and then the access is made. The first mapping stays as it is:
//! through it, pages are brought up to date while they cannot be touched through the second.
//!
//! There are two [`Method`]s: userfaultfd, which tells of missing and write-protected pages by a
//! signal of its own and keeps one mapping in one piece; and protections of mappings, which work
//! everywhere and cut a mapping into as many pieces as its pages differ.
//!
//! [`HeldWrites`] lets all who write pages wait, while others take their place.
//!
//! This crate is where the operating system's page faults are dealt with, and nothing else is here:
//! it knows no rank and no protocol.

mod held;
mod mapping;
mod signal;
mod userfault;

use std::fmt;

pub use held::HeldWrites;
pub use mapping::Watched;

/// The method of watching pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// By userfaultfd.
    Userfault,
    /// By protections of the mapping.
    Protect,
}

/// The accesses that a page allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Allowed {
    /// Nothing.
    Nothing,
    /// It may be read.
    Reading,
    /// It may be read and written.
    Writing,
}

/// An access that was not allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// The page, counted from the start of the memory.
    pub page: usize,
    /// True for a write, if that is known.
    pub is_write: Option<bool>,
}

/// A handler of faults.
///
/// # Safety
///
/// It is called on any thread that touches the memory, on several at the same time, and in the
/// middle of any access to it: whatever it touches must be in order at those moments. It must not
/// panic, and must not touch the watched memory itself. It must allow what was tried, or the access
/// is tried again for ever.
pub unsafe trait Handler: Sync {
    /// Deals with a fault.
    fn handle(&self, fault: Fault);
}

/// The reason why memory cannot be watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{call} failed with error {errno}")]
pub struct Error {
    /// The system call.
    pub call: &'static str,
    /// The error of the system.
    pub errno: i32,
}

impl Error {
    pub(crate) fn last(call: &'static str) -> Error {
        Error { call, errno: std::io::Error::last_os_error().raw_os_error().unwrap_or(0) }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Method::Userfault => "userfault",
            Method::Protect => "protect",
        })
    }
}

/// The size of a page of this machine.
pub fn page_bytes() -> usize {
    rustix::param::page_size()
}

/// Returns a number that no other thread has at the same time, and that is not 0. A handler may ask
/// for it.
pub fn this_thread() -> u64 {
    // SAFETY: it has no preconditions.
    unsafe { libc::pthread_self() as u64 }
}

/// Returns whether this process can watch memory by userfaultfd: see [`try_userfault`].
pub fn has_userfault() -> bool {
    try_userfault().is_ok()
}

/// Watches a page by userfaultfd, in every state that [`Watched`] needs, and returns the call that
/// fails. A system may forbid it, and a kernel may offer it and refuse a part: before Linux 6.4 a
/// page of shared memory cannot be mapped and write-protected in one step.
pub fn try_userfault() -> Result<(), Error> {
    let bytes = page_bytes();
    let page = mapping::Scratch::new(bytes)?;
    // SAFETY: the page is mapped shared, and is unmapped after the second mapping.
    let watched = unsafe { Watched::new(page.base(), bytes, Method::Userfault)? };
    use Allowed::{Nothing, Reading, Writing};
    [Reading, Writing, Reading, Nothing, Writing]
        .into_iter()
        .try_for_each(|what| watched.allow_ahead(0, 1, what))
}
