//! A rank's connection, where the checker has to act without being called by it: a rank reads its
//! own memory without an operation, and something may have to be tried before it does.

use std::sync::Mutex;
use std::thread::{self, ThreadId};

use farside_fabric::Connection;

use crate::state::locked;

/// A connection that is lent.
#[derive(Default)]
pub(crate) struct Hand {
    lent: Mutex<Option<Lent>>,
}

struct Lent {
    thread: ThreadId,
    connection: *const (dyn Connection + 'static),
}

// SAFETY: the pointer is followed by the thread that has lent it alone.
unsafe impl Send for Lent {}

impl Hand {
    /// Lends a connection, for this thread.
    ///
    /// # Safety
    ///
    /// The connection must stay where it is until [`Hand::take_back`], which this thread must call.
    pub(crate) unsafe fn lend(&self, connection: &(dyn Connection + 'static)) {
        let thread = thread::current().id();
        *locked(&self.lent) = Some(Lent { thread, connection });
    }

    pub(crate) fn take_back(&self) {
        *locked(&self.lent) = None;
    }

    /// Calls `act` with the connection, if it is lent, and this is its thread.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&dyn Connection) -> R) -> Option<R> {
        let is_its_own = |lent: &&Lent| lent.thread == thread::current().id();
        let connection = locked(&self.lent).as_ref().filter(is_its_own)?.connection;
        // SAFETY: it is there until this thread, which is here, ends the loan.
        Some(act(unsafe { &*connection }))
    }
}
