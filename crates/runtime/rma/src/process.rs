//! The process of a rank: a child that it forks has copies of everything, and is not the rank.

use std::ops::Deref;

use farside_fabric::Connection;

/// A connection that the process that made it closes. In a child of `fork` it is forgotten: closing
/// it would take the rank out of the job, or wait for threads that the child does not have.
pub(crate) struct OwnConnection {
    /// Taken at the end only.
    connection: Option<Box<dyn Connection>>,
    process: u32,
}

impl OwnConnection {
    pub(crate) fn new(connection: Box<dyn Connection>) -> OwnConnection {
        OwnConnection { connection: Some(connection), process: std::process::id() }
    }

    /// Returns whether the calling process is the one that made the connection.
    pub(crate) fn is_own(&self) -> bool {
        self.process == std::process::id()
    }
}

impl Deref for OwnConnection {
    type Target = dyn Connection;

    #[inline]
    fn deref(&self) -> &(dyn Connection + 'static) {
        self.connection.as_deref().expect("a connection is taken when its context is dropped")
    }
}

impl Drop for OwnConnection {
    fn drop(&mut self) {
        if !self.is_own() {
            std::mem::forget(self.connection.take());
        }
    }
}
