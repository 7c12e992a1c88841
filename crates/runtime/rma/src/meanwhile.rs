//! What a context does while it waits: for programs with another runtime beside this one, which
//! makes progress only when it is called.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

/// A waiter calls after so long for the first time; then after twice as long each time, up to the
/// second.
const FIRST: Duration = Duration::from_micros(100);
const LAST: Duration = Duration::from_micros(500);
/// One in so many looks of a loop that polls calls.
const LOOKS: u32 = 64;

/// One in so many of these is noted in the context's record; within a purpose also one that comes
/// so long after the last, since polls take long where others have the processor.
const NOTED: u32 = 64;
const NOTED_NS: u64 = 1_000_000;

/// What is called, for how many looks it was not, and how often it was.
#[derive(Default)]
pub(crate) struct Meanwhile {
    call: RefCell<Option<Arc<dyn Fn() + Send + Sync>>>,
    looks: Cell<u32>,
    calls: Cell<u32>,
    looked_ns: Cell<u64>,
}

impl Meanwhile {
    pub(crate) fn set(&self, call: Option<Arc<dyn Fn() + Send + Sync>>) {
        *self.call.borrow_mut() = call;
    }

    /// The slices into which a wait is cut; `None` if nothing is to be called between them.
    pub(crate) fn slices(&self) -> Option<Slices> {
        let call = self.call.borrow().clone()?;
        Some(Slices { call, next: FIRST })
    }

    /// Stands in a loop that polls. Returns whether the poll is to be noted; `now_ns` gives the
    /// time if the loop has a purpose.
    #[inline]
    pub(crate) fn look(&self, now_ns: impl FnOnce() -> Option<u64>) -> bool {
        self.looks.set(self.looks.get() + 1);
        self.looks.get() >= LOOKS && self.look_closely(now_ns())
    }

    #[inline(never)]
    fn look_closely(&self, now_ns: Option<u64>) -> bool {
        self.looks.set(0);
        self.call_now();
        self.calls.set((self.calls.get() + 1) % NOTED);
        let looked_ns = self.looked_ns.replace(now_ns.unwrap_or(0));
        let lasts_ns = now_ns.filter(|_| looked_ns != 0).map(|now| now.saturating_sub(looked_ns));
        self.calls.get() == 0 || lasts_ns.is_some_and(|lasts_ns| lasts_ns > NOTED_NS)
    }

    fn call_now(&self) {
        // It may wait itself, so nothing is borrowed during the call.
        let call = self.call.borrow().clone();
        if let Some(call) = call {
            call();
        }
    }
}

pub(crate) struct Slices {
    call: Arc<dyn Fn() + Send + Sync>,
    next: Duration,
}

impl Slices {
    /// The time until the next call, and not more than `left`.
    pub(crate) fn timeout(&self, left: Option<Duration>) -> Option<Duration> {
        Some(left.map_or(self.next, |left| left.min(self.next)))
    }

    /// Calls after a slice that has run out; false if the whole wait has, of which `left` was left
    /// when the slice began.
    pub(crate) fn go_on(&mut self, left: Option<Duration>) -> bool {
        if left.is_some_and(|left| left <= self.next) {
            return false;
        }
        (self.call)();
        self.next = (self.next * 2).min(LAST);
        true
    }
}
