//! The waits of paused fibers.

use std::rc::Rc;

use farside_fabric::{Condition, Event as Awaited, Wait};

use crate::body::word_access;
use crate::event::Access;

/// The wait that a paused fiber has handed to the machine. The wait itself is on the fiber's stack.
#[derive(Clone, Copy)]
pub(crate) struct ParkedWait(*const Wait<'static>);

impl ParkedWait {
    /// Parks a wait.
    ///
    /// # Safety
    ///
    /// The fiber that owns the wait must hand the result to the machine by pausing, and stay in the
    /// call that borrows the wait until it is resumed. The machine must forget the parked wait
    /// before it resumes or ends that fiber.
    pub(crate) unsafe fn new(wait: &Wait<'_>) -> ParkedWait {
        ParkedWait(std::ptr::from_ref(wait).cast())
    }

    pub(crate) fn get(&self) -> &Wait<'_> {
        // SAFETY: the fiber that owns the wait is paused in the call that borrows it, as the caller
        // of `new` has promised.
        unsafe { &*self.0 }
    }

    /// Returns the address of the wait, for prefetching alone.
    pub(crate) fn address(self) -> *const u8 {
        self.0.cast()
    }
}

/// Returns the words of these conditions, as accesses.
pub(crate) fn looks(conditions: &[Condition<'_>]) -> Rc<[Access]> {
    conditions.iter().map(|condition| word_access(condition.at, false)).collect()
}

/// Returns the index of a wait's condition that holds now, and the value that satisfies it.
pub(crate) fn holds(wait: &Wait<'_>) -> Option<(usize, u64)> {
    let Awaited::Words(conditions) = wait.event else {
        return None;
    };
    conditions.iter().enumerate().find_map(|(which, condition)| {
        let value = condition.memory.look(condition.at.offset, condition.at.width)?.load();
        (condition.until)(value).then_some((which, value))
    })
}
