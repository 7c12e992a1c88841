//! The clock of time-outs, and the longest sleep.

use std::time::Duration;

/// The longest that a thread sleeps before it checks again whether anything has changed.
pub(crate) const LONGEST_SLEEP: Duration = Duration::from_millis(200);

/// Returns the monotonic time in nanoseconds.
pub(crate) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
