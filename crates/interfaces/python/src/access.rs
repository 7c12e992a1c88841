//! One thread's way into the job: its user, and when the interpreter's lock is released.

use std::cell::UnsafeCell;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use farside::{Context, Rank, Result, World};
use pyo3::prelude::*;

use crate::error::{Raise, bad_state};

/// The longest copy to or from near memory that is made with the interpreter's lock held: it takes
/// less time than to release the lock and take it again.
pub(crate) const HELD_BYTES: usize = 4096;

/// A context of the job, used by one Python thread at a time.
pub(crate) struct Access {
    /// `None` once the job was left.
    held: UnsafeCell<Option<Held>>,
    /// True while a call uses it. It is changed only with the interpreter's lock held, except that
    /// a call which has released the lock still has it when it ends.
    busy: AtomicBool,
    pub(crate) rank: Rank,
    pub(crate) size: u32,
    /// True if all ranks share memory, so that no operation leaves the node.
    pub(crate) is_one_node: bool,
    /// True if atomics on near memory are the processor's own.
    pub(crate) has_direct_atomics: bool,
    /// True while the first thread is in a call that has released the interpreter's lock: an
    /// interrupt ends the process then, since no Python code could handle it.
    uninterruptible: Option<Arc<AtomicBool>>,
    /// The pages of the program that memory of the job lies over, by address.
    overlaid: Mutex<Vec<Range<usize>>>,
}

#[allow(clippy::large_enum_variant, reason = "there is one for each thread")]
enum Held {
    World(World),
    Thread(Context),
}

// SAFETY: `held` is used only between `enter` and the end of `Entered`, and `enter` lets one thread
// in at a time: it looks at and sets `busy` with the interpreter's lock held (the module declares
// that it needs the lock).
unsafe impl Send for Access {}
// SAFETY: as above.
unsafe impl Sync for Access {}

/// The right to use a context, until it is dropped.
pub(crate) struct Entered<'a> {
    access: &'a Access,
    held: &'a Held,
}

impl Drop for Entered<'_> {
    #[inline]
    fn drop(&mut self) {
        self.access.busy.store(false, Ordering::Release);
    }
}

impl<'a> Entered<'a> {
    #[inline]
    pub(crate) fn context(&self) -> &'a Context {
        match self.held {
            Held::World(world) => world,
            Held::Thread(context) => context,
        }
    }

    /// Returns the world, if this is the access of the first thread.
    pub(crate) fn world(&self) -> Option<&'a World> {
        match self.held {
            Held::World(world) => Some(world),
            Held::Thread(_) => None,
        }
    }
}

/// What may be given to another thread because only one uses it at a time.
pub(crate) struct Solely<T>(pub(crate) T);

// SAFETY: closures that go through here run on the thread that made them; pyo3 asks for `Send` to
// keep what belongs to the interpreter out, and none of it is used inside.
unsafe impl<T> Send for Solely<T> {}

impl<T> Solely<T> {
    pub(crate) fn into_inner(self) -> T {
        self.0
    }

    fn call<R>(self) -> Solely<R>
    where
        T: FnOnce() -> R,
    {
        Solely((self.0)())
    }
}

impl Access {
    /// Makes the access of the first thread.
    pub(crate) fn of_world(world: World, uninterruptible: Option<Arc<AtomicBool>>) -> Access {
        Access {
            busy: AtomicBool::new(false),
            rank: world.rank(),
            size: world.size(),
            is_one_node: world.topology().nodes() == 1,
            has_direct_atomics: world.job().caps.cpu_coherent,
            held: UnsafeCell::new(Some(Held::World(world))),
            uninterruptible,
            overlaid: Mutex::default(),
        }
    }

    /// Makes the access of a further thread.
    pub(crate) fn beside(&self, context: Context) -> Access {
        Access {
            busy: AtomicBool::new(false),
            rank: self.rank,
            size: self.size,
            is_one_node: self.is_one_node,
            has_direct_atomics: self.has_direct_atomics,
            held: UnsafeCell::new(Some(Held::Thread(context))),
            uninterruptible: None,
            overlaid: Mutex::default(),
        }
    }

    /// Claims pages of the program for memory of the job; false if some of them have it already.
    pub(crate) fn claim(&self, pages: &Range<usize>) -> bool {
        let mut overlaid = self.overlaid.lock().unwrap_or_else(PoisonError::into_inner);
        let overlaps = |other: &Range<usize>| other.start < pages.end && pages.start < other.end;
        let is_free = pages.is_empty() || !overlaid.iter().any(overlaps);
        if is_free {
            overlaid.push(pages.clone());
        }
        is_free
    }

    /// Gives up what [`Access::claim`] has claimed.
    pub(crate) fn unclaim(&self, pages: &Range<usize>) {
        let mut overlaid = self.overlaid.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = overlaid.iter().position(|other| other == pages) {
            overlaid.swap_remove(at);
        }
    }

    /// Begins a use of the context.
    #[inline]
    pub(crate) fn enter(&self, py: Python<'_>) -> PyResult<Entered<'_>> {
        if self.busy.load(Ordering::Acquire) {
            return Err(is_busy(py));
        }
        // SAFETY: no other use is under way, and none begins before this one ends.
        match unsafe { &*self.held.get() } {
            Some(held) => {
                self.busy.store(true, Ordering::Relaxed);
                Ok(Entered { access: self, held })
            }
            None => Err(was_left(py)),
        }
    }

    /// Runs an operation; `is_long` says whether the interpreter's lock is released meanwhile.
    #[inline]
    pub(crate) fn run<R>(
        &self,
        py: Python<'_>,
        is_long: bool,
        operation: impl FnOnce(&Context) -> Result<R>,
    ) -> PyResult<R> {
        let entered = self.enter(py)?;
        let context = entered.context();
        let result = match is_long {
            true => self.released(py, || operation(context)),
            false => operation(context),
        };
        drop(entered);
        result.raise(py)
    }

    /// Runs something without the interpreter's lock.
    pub(crate) fn released<R>(&self, py: Python<'_>, run: impl FnOnce() -> R) -> R {
        let set = |value| {
            if let Some(flag) = &self.uninterruptible {
                flag.store(value, Ordering::Relaxed);
            }
        };
        let task = Solely(run);
        set(true);
        let result = py.detach(move || task.call());
        set(false);
        result.0
    }

    /// Returns whether the job was left.
    pub(crate) fn is_left(&self) -> bool {
        // SAFETY: only whether there is something is looked at; it changes in `leave` alone, with
        // the interpreter's lock held.
        unsafe { (*self.held.get()).is_none() }
    }

    /// Gives the context up. That of the rank's last context leaves the job.
    pub(crate) fn leave(&self, py: Python<'_>) -> PyResult<()> {
        if self.is_left() {
            return Ok(());
        }
        drop(self.enter(py)?);
        // SAFETY: no use is under way.
        let held = unsafe { (*self.held.get()).take() };
        self.released(py, || drop(held));
        Ok(())
    }
}

#[cold]
fn is_busy(py: Python<'_>) -> PyErr {
    bad_state(
        py,
        "another thread is inside a call of this context: take a context for each thread with \
         `world.context()`, and use windows through it with `window.on(context)`",
    )
}

#[cold]
fn was_left(py: Python<'_>) -> PyErr {
    bad_state(py, "the job was left: its objects cannot be used any more")
}

#[cold]
pub(crate) fn not_the_world(py: Python<'_>) -> PyErr {
    bad_state(
        py,
        "this is the context of another thread: only the thread that joined calls collectives",
    )
}
