//! The pager as a front end: faults become reads and writes of pages.

use std::cell::RefCell;
use std::ptr::NonNull;
use std::sync::Arc;

use farside_fabric::{Error, Result};
use farside_pager::{Fault, Handler, Method, Watched};

use crate::coherence::{Allowed, Coherence, Guard};
use crate::variant::Variant;

/// Tells the pager what its pages allow.
pub(crate) struct PagerGuard(pub(crate) Arc<Watched>);

impl Guard for PagerGuard {
    fn allow(&mut self, first: u32, count: u32, what: Allowed) -> Result<()> {
        let what = match what {
            Allowed::Nothing => farside_pager::Allowed::Nothing,
            Allowed::Reading => farside_pager::Allowed::Reading,
            Allowed::Writing => farside_pager::Allowed::Writing,
        };
        self.0.allow(first as usize, count as usize, what).map_err(failed)
    }
}

fn failed(error: farside_pager::Error) -> Error {
    Error::System { call: error.call, errno: error.errno }
}

/// Maps a rank's own memory a second time.
pub(crate) fn watch(own: NonNull<u8>, bytes: usize, method: Method) -> Result<Arc<Watched>> {
    // SAFETY: a rank's part of a window begins with a page and is mapped shared until it is freed,
    // which its owner does last; where it is not, mapping it again fails.
    unsafe { Watched::new(own, bytes, method) }.map(Arc::new).map_err(failed)
}

/// The coherence state, where a fault can find it.
pub(crate) struct FaultHandler<'w, V>(pub(crate) RefCell<Coherence<'w, V>>);

impl<V: Variant> FaultHandler<'_, V> {
    /// Lets it deal with the faults of its memory.
    pub(crate) fn arm(&self, watched: &Watched) -> Result<()> {
        // SAFETY: the handler stays where it is until the memory is not watched any more, or is not
        // touched any more.
        unsafe { watched.arm(self) }.map_err(failed)
    }
}

// SAFETY: the coherence state touches its copy through the first mapping only. The code that
// borrows it never touches views: a fault finds it free, or ends the process.
unsafe impl<V: Variant> Handler for FaultHandler<'_, V> {
    fn handle(&self, fault: Fault) {
        let Ok(mut coherence) = self.0.try_borrow_mut() else {
            std::process::abort();
        };
        coherence.fault(fault);
    }
}

impl<V: Variant> Coherence<'_, V> {
    /// Handles an access that was not allowed. It is allowed afterwards in any case.
    fn fault(&mut self, fault: Fault) {
        let page = fault.page as u32;
        // A fault on a readable page is a write, unless the page was never touched before.
        let is_write = fault.is_write.unwrap_or_else(|| self.is_readable(page));
        let done = match self.check() {
            Err(error) => Err(error),
            Ok(()) if is_write => self.write(page),
            Ok(()) => self.read(page),
        };
        let done = done.and_then(|()| self.guard.allow(page, 1, self.allowed(page)));
        if let Err(error) = done {
            // An access cannot fail. The page stays as it was seen last, and the next
            // synchronization fails.
            self.fail(error);
            if self.guard.allow(page, 1, Allowed::Writing).is_err() {
                std::process::abort();
            }
        }
    }
}
