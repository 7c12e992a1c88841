//! Standard input on its way to rank 0.

use std::io::Write;
use std::process::ChildStdin;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

/// The time between two looks whether a terminal may be read.
const AGAIN: Duration = Duration::from_millis(500);

/// Rank 0's end.
pub(crate) struct Feed {
    pipe: ChildStdin,
    waiting: Vec<u8>,
}

impl Feed {
    pub(crate) fn new(pipe: ChildStdin) -> Feed {
        Feed { pipe, waiting: Vec::new() }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.waiting.extend_from_slice(bytes);
    }

    /// Returns whether all was passed on.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns what becomes ready when more can be passed on.
    pub(crate) fn polled(&self) -> PollFd<'_> {
        PollFd::new(&self.pipe, PollFlags::OUT)
    }

    /// Passes some of it on; returns false when the reader is gone.
    pub(crate) fn pump(&mut self) -> bool {
        // A pipe that is ready for writing takes at least this much without blocking.
        let part = self.waiting.len().min(4096);
        match self.pipe.write(&self.waiting[..part]) {
            Ok(count) => {
                self.waiting.drain(..count);
                true
            }
            Err(error) => error.kind() == std::io::ErrorKind::Interrupted,
        }
    }
}

/// Returns whether standard input may be read: a terminal stops processes that read it in the
/// background.
fn may_read_stdin() -> bool {
    match rustix::termios::tcgetpgrp(std::io::stdin()) {
        Ok(foreground) => foreground == rustix::process::getpgrp(),
        // It is no terminal.
        Err(_) => true,
    }
}

/// Returns when to look again whether standard input may be read, if it may not be now: nobody
/// tells a process that it was brought to the foreground.
pub(crate) fn next_look_at_stdin() -> Option<Instant> {
    (!may_read_stdin()).then(|| Instant::now() + AGAIN)
}

/// Reads what is there; `None` at the end.
pub(crate) fn read_stdin() -> Option<Vec<u8>> {
    let mut buffer = vec![0; 16 * 1024];
    match rustix::io::read(std::io::stdin(), &mut buffer) {
        Ok(0) => None,
        Ok(count) => {
            buffer.truncate(count);
            Some(buffer)
        }
        Err(Errno::INTR | Errno::AGAIN) => Some(Vec::new()),
        Err(_) => None,
    }
}
