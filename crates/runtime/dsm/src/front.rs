//! The pager as a front end: faults become reads and writes of pages.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use farside_fabric::{Error, Result};
use farside_pager::{Fault, Handler, Method, Watched, this_thread};
use farside_rma::Context;

use crate::coherence::Coherence;
use crate::guard::{Allowed, Guard, ViewPages};
use crate::memory::Memory;
use crate::protocol::Protocol;

pub(crate) struct PagerGuard(pub(crate) Arc<Watched>);

impl Guard for PagerGuard {
    fn allow(&mut self, first: u32, count: u32, what: Allowed) -> Result<()> {
        self.0.allow(first as usize, count as usize, of_pager(what)).map_err(failed)
    }

    fn allow_ahead(&mut self, first: u32, count: u32, what: Allowed) -> Result<()> {
        self.0.allow_ahead(first as usize, count as usize, of_pager(what)).map_err(failed)
    }
}

fn of_pager(what: Allowed) -> farside_pager::Allowed {
    match what {
        Allowed::Nothing => farside_pager::Allowed::Nothing,
        Allowed::Reading => farside_pager::Allowed::Reading,
        Allowed::Writing => farside_pager::Allowed::Writing,
    }
}

fn failed(error: farside_pager::Error) -> Error {
    Error::System { call: error.call, errno: error.errno }
}

/// Maps a rank's own memory a second time.
pub(crate) fn watch(own: NonNull<u8>, bytes: usize, method: Method) -> Result<Arc<Watched>> {
    if method == Method::Userfault {
        // A fault cannot fail; whoever asks for a method that this system lacks is told so now.
        farside_pager::try_userfault().map_err(failed)?;
    }
    // SAFETY: a rank's part of a window begins with a page and is mapped shared until it is freed,
    // which its owner does last; where it is not, mapping it again fails.
    unsafe { Watched::new(own, bytes, method) }.map(Arc::new).map_err(failed)
}

/// The coherence state, where the faults of all threads of the rank can find it. One thread at a
/// time works on it.
pub(crate) struct FaultHandler<'w> {
    coherence: Mutex<Coherence<'w>>,
    /// The thread that works on it, or 0.
    holder: AtomicU64,
    views: LastViews,
}

const VIEWS: usize = 4;

/// The last views that were made: a fault in one of them says that its next pages will be touched.
/// A view that a thread reads while another one is noted is a wrong guess, and no more.
#[derive(Default)]
struct LastViews {
    views: [LastView; VIEWS],
    next: AtomicUsize,
}

/// A view; without pages if there is none.
#[derive(Default)]
struct LastView {
    first: AtomicU32,
    end: AtomicU32,
    is_mut: AtomicBool,
}

impl LastViews {
    #[inline]
    fn note(&self, view: ViewPages) {
        let next = self.next.load(Ordering::Relaxed);
        self.next.store(next.wrapping_add(1), Ordering::Relaxed);
        let last = &self.views[next % VIEWS];
        last.first.store(view.first, Ordering::Relaxed);
        last.end.store(view.end, Ordering::Relaxed);
        last.is_mut.store(view.is_mut, Ordering::Relaxed);
    }

    fn forget(&self) {
        self.views.iter().for_each(|view| view.end.store(0, Ordering::Relaxed));
    }

    /// Returns the last one that a page is in; for a write, the last one that can be written.
    fn with(&self, page: u32, is_write: bool) -> Option<ViewPages> {
        let next = self.next.load(Ordering::Relaxed);
        let newest_first = (1..=VIEWS).map(|back| &self.views[next.wrapping_sub(back) % VIEWS]);
        let mut views = newest_first.map(|view| ViewPages {
            first: view.first.load(Ordering::Relaxed),
            end: view.end.load(Ordering::Relaxed),
            is_mut: view.is_mut.load(Ordering::Relaxed),
        });
        views.find(|view| view.contains(page) && (view.is_mut || !is_write))
    }
}

/// Holds the coherence state until dropped.
pub(crate) struct Held<'a, 'w> {
    coherence: MutexGuard<'a, Coherence<'w>>,
    holder: &'a AtomicU64,
}

impl<'w> Deref for Held<'_, 'w> {
    type Target = Coherence<'w>;

    fn deref(&self) -> &Coherence<'w> {
        &self.coherence
    }
}

impl<'w> DerefMut for Held<'_, 'w> {
    fn deref_mut(&mut self) -> &mut Coherence<'w> {
        &mut self.coherence
    }
}

impl Drop for Held<'_, '_> {
    fn drop(&mut self) {
        self.holder.store(0, Ordering::Relaxed);
    }
}

impl<'w> FaultHandler<'w> {
    pub(crate) fn new(coherence: Coherence<'w>) -> FaultHandler<'w> {
        FaultHandler {
            coherence: Mutex::new(coherence),
            holder: AtomicU64::new(0),
            views: LastViews::default(),
        }
    }

    /// Waits until no other thread works on the coherence state. If this one does, its code has
    /// touched watched memory, and the process ends.
    pub(crate) fn lock(&self) -> Held<'_, 'w> {
        let me = this_thread();
        // A thread reads its own number only if it stored that itself.
        if self.holder.load(Ordering::Relaxed) == me {
            std::process::abort();
        }
        let coherence = self.coherence.lock().unwrap_or_else(PoisonError::into_inner);
        self.holder.store(me, Ordering::Relaxed);
        Held { coherence, holder: &self.holder }
    }

    #[inline]
    pub(crate) fn note_view(&self, view: ViewPages) {
        self.views.note(view);
    }

    /// Forgets the views, which end with a synchronization.
    pub(crate) fn forget_views(&self) {
        self.views.forget();
    }

    pub(crate) fn into_inner(self) -> Coherence<'w> {
        self.coherence.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets it deal with the faults of its memory.
    pub(crate) fn arm(&self, watched: &Watched) -> Result<()> {
        // SAFETY: the handler stays where it is until the memory is not watched any more, or is not
        // touched any more.
        unsafe { watched.arm(self) }.map_err(failed)
    }
}

// SAFETY: where faults come, the coherence state has a context of its own, and may be worked on by
// any thread, one at a time: the assertion below is about its parts. Where accesses are explicit,
// its context is the rank's, and no thread but the rank's reaches it.
unsafe impl Sync for FaultHandler<'_> {}

const _: () = {
    const fn may_change_threads<T: Send>() {}
    may_change_threads::<(Context, Memory, Box<dyn Protocol>, PagerGuard)>();
};

// SAFETY: the coherence state touches its copy through the first mapping only. The code that holds
// it never touches views: a fault of another thread waits for it, and one of its own ends the
// process.
unsafe impl Handler for FaultHandler<'_> {
    fn handle(&self, fault: Fault) {
        // Without knowing which it is, any view will do.
        let view = self.views.with(fault.page as u32, fault.is_write == Some(true));
        self.lock().fault(fault, view);
    }
}

impl Coherence<'_> {
    /// Handles an access that was not allowed. It is allowed afterwards in any case.
    fn fault(&mut self, fault: Fault, view: Option<ViewPages>) {
        let page = fault.page as u32;
        self.view = view;
        // A fault on a readable page is a write, unless the page was never touched before.
        let is_readable = || self.protocol.allowed(page) != Allowed::Nothing;
        let is_write = fault.is_write.unwrap_or_else(is_readable);
        let done = match self.failure.clone() {
            Some(error) => Err(error),
            None if is_write => self.write(page),
            None => self.read(page),
        };
        self.view = None;
        let allowed = self.protocol.allowed(page);
        let done = done.and_then(|()| self.guard.allow(page, 1, allowed));
        if let Err(error) = done {
            // An access cannot fail. The page stays as it was seen last, and the next
            // synchronization fails.
            self.is_unreported |= self.failure.is_none();
            self.fail(error);
            if self.guard.allow(page, 1, Allowed::Writing).is_err() {
                std::process::abort();
            }
        }
    }
}
