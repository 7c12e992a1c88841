//! How long a request may wait.

use std::time::Duration;

use farside_fabric::Error;

/// How long a request for a lock may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeLimit {
    /// Until it has the lock.
    Unlimited,
    /// At most this long. A request with a limit of zero still takes its place in a queue, and
    /// gives the place up again unless it has the lock at once.
    AtMost(Duration),
    /// Not at all: it takes the lock if the lock is free.
    DoNotWait,
}

impl TimeLimit {
    #[cold]
    pub(crate) fn exceeded(time: Duration) -> Error {
        Error::TimedOut { after_ms: u64::try_from(time.as_millis()).unwrap_or(u64::MAX) }
    }

    /// Returns whether the request may give up after it has taken a place in a queue.
    pub fn may_give_up(self) -> bool {
        matches!(self, TimeLimit::AtMost(_))
    }
}
