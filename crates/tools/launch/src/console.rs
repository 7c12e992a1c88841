//! Standard output and error of the launcher itself. Their reader may be slow (a pager, a terminal
//! that was stopped), and those who have something to say must not be.

use std::io::Write;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use crate::Error;
use crate::channel::Outbox;
use crate::signals::{self, ENDING, STOPPING, Signals};

/// The time between two looks whether all was written.
const LOOK: Duration = Duration::from_millis(100);
/// A reader that takes nothing for so long has stalled.
const STALLED: Duration = Duration::from_secs(1);

/// What is said when output is not waited for any longer.
pub(crate) const UNREAD: &str = "nothing reads the ranks' output; the rest is lost";

/// The launcher's output. A thread writes what goes to standard error, in order.
#[derive(Clone)]
pub(crate) struct Console {
    errors: Outbox,
    /// The number of bytes that were written, to either.
    written: Arc<AtomicU64>,
}

impl Console {
    pub(crate) fn open() -> Result<Console, Error> {
        let written = Arc::new(AtomicU64::new(0));
        let errors = Outbox::start(Stderr { written: Arc::clone(&written) });
        let what = "starting the thread for standard error";
        Ok(Console { errors: errors.map_err(|error| Error::System { what, error })?, written })
    }

    /// Says something on standard error; never waits.
    pub(crate) fn say(&self, what: &str) {
        self.errors.push_bytes(format!("farside: {what}\n").as_bytes());
    }

    /// Writes to standard output, behind what was to go to standard error before: both may be one
    /// terminal. Fails if either has lost lines of ranks.
    pub(crate) fn print(&self, bytes: &[u8]) -> std::io::Result<()> {
        let errors = self.errors.flush();
        write_patiently(&std::io::stdout(), bytes, &self.written).and(errors)
    }

    /// Writes a line of a rank to standard error, unless too much waits there already: then this
    /// waits, too.
    pub(crate) fn print_error(&self, bytes: &[u8]) -> std::io::Result<()> {
        self.errors.push_line(bytes)
    }

    /// Writes what a host says to standard error, and waits like [`Console::print_error`].
    pub(crate) fn pass_on(&self, bytes: &[u8]) {
        // If standard error has no reader, there is nothing else to try.
        let _ = self.errors.push_bytes_patiently(bytes);
    }

    /// Waits until all that was to go to standard error is written; fails if lines of ranks are
    /// lost there.
    pub(crate) fn flush(&self) -> std::io::Result<()> {
        self.errors.flush()
    }

    /// Waits until all is written, or a signal asks for the end; for a job that was cut short, no
    /// longer than the reader makes progress.
    pub(crate) fn finish(&self, signals: &mut Option<Signals>, is_cut_short: bool) {
        let mut patience = Patience::new(self, is_cut_short);
        while !self.errors.wait_until_written(Instant::now() + LOOK)
            && !patience.is_over()
            && !is_told_to_end(signals, &mut patience)
        {}
    }

    /// Ends the thread when all is written.
    pub(crate) fn close(&self) {
        self.errors.close();
    }
}

/// Takes the signals that come while the last output is written, when there are no ranks any more;
/// returns whether one of them asks for the end. One that asks for a stop is obeyed.
pub(crate) fn is_told_to_end(signals: &mut Option<Signals>, patience: &mut Patience) -> bool {
    let signals = signals.as_mut().map(Signals::take).unwrap_or_default();
    if signals.contains(&STOPPING) {
        patience.since += signals::stop();
    }
    signals.iter().any(|signal| ENDING.contains(signal))
}

/// The patience with a reader, which has no end unless the job was cut short.
pub(crate) struct Patience {
    written: Arc<AtomicU64>,
    known: u64,
    since: Instant,
    is_cut_short: bool,
}

impl Patience {
    pub(crate) fn new(console: &Console, is_cut_short: bool) -> Patience {
        let written = Arc::clone(&console.written);
        let known = written.load(Ordering::Relaxed);
        Patience { written, known, since: Instant::now(), is_cut_short }
    }

    pub(crate) fn end(&self) -> Option<Instant> {
        self.is_cut_short.then_some(self.since + STALLED)
    }

    /// Returns whether the reader has stalled for too long.
    pub(crate) fn is_over(&mut self) -> bool {
        let now = self.written.load(Ordering::Relaxed);
        if now != self.known {
            (self.known, self.since) = (now, Instant::now());
        }
        self.end().is_some_and(|end| end <= Instant::now())
    }
}

/// Standard error without the lock of the library, which a thread that waits for the reader would
/// hold.
struct Stderr {
    written: Arc<AtomicU64>,
}

impl Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        write_patiently(&std::io::stderr(), bytes, &self.written)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Writes all bytes, also to a file that was set not to block.
fn write_patiently(to: &impl AsFd, mut bytes: &[u8], written: &AtomicU64) -> std::io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(to.as_fd(), bytes) {
            Ok(count) => {
                bytes = &bytes[count..];
                written.fetch_add(count as u64, Ordering::Relaxed);
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => {
                let mut polled = [PollFd::new(to, PollFlags::OUT)];
                rustix::event::poll(&mut polled, None)?;
            }
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A console whose standard error takes nothing.
    fn unheard() -> Console {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(std::io::ErrorKind::StorageFull.into())
            }

            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        Console { errors: Outbox::start(Full).unwrap(), written: Arc::default() }
    }

    #[test]
    fn a_word_of_the_launcher_that_is_lost_costs_no_line_of_a_rank() {
        let console = unheard();
        console.say("this is lost");
        assert!(console.flush().is_ok());
        assert!(console.print(b"").is_ok());
        assert!(console.print_error(b"nor can this be written\n").is_err());
    }

    #[test]
    fn a_line_of_a_rank_that_is_lost_is_told() {
        let console = unheard();
        console.print_error(b"this is lost\n").unwrap();
        assert!(console.flush().is_err());
        assert!(console.print(b"").is_err());
    }
}
