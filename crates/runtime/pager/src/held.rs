//! Pages that nobody writes for a moment, while others take their place.

use std::ptr::NonNull;

use crate::userfault::Userfault;
use crate::{Error, page_bytes};

/// Pages whose writers wait until this is dropped. If the pages have made room for others by then,
/// the writers write those.
pub struct HeldWrites {
    _userfault: Userfault,
}

impl HeldWrites {
    /// Lets all threads that write these whole pages wait. Fails where there is no userfaultfd that
    /// knows how.
    ///
    /// # Safety
    ///
    /// The pages must be readable. The calling thread must not write them before it drops this: it
    /// would wait for itself.
    pub unsafe fn new(at: NonNull<u8>, bytes: usize) -> Result<HeldWrites, Error> {
        let userfault = Userfault::open_waiting()?;
        for page in (0..bytes).step_by(page_bytes()) {
            // Only a page that exists can be protected, and one exists once it was read.
            // SAFETY: by the caller's promise.
            unsafe { at.add(page).read_volatile() };
        }
        userfault.hold_writes(at, bytes)?;
        Ok(HeldWrites { _userfault: userfault })
    }
}
