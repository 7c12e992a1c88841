//! Signals to this process, as something to poll.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2};

use crate::Error;

const FORWARDED: [i32; 7] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2];
/// Those that are left alone where they are ignored, here and in the ranks: `nohup` does so, and
/// shells without job control do for programs in the background.
const RESPECTED: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTSTP];
/// The signal that asks to be stopped, until another lets us go on.
pub(crate) const STOPPING: i32 = SIGTSTP;
/// The signal that asks what the ranks do.
pub(crate) const ASKING: i32 = SIGQUIT;
pub(crate) const ENDING: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];

pub(crate) struct Signals {
    pub(crate) pipe: UnixStream,
    registered: Vec<signal_hook::SigId>,
    flags: Vec<(i32, Arc<AtomicBool>)>,
}

impl Signals {
    pub(crate) fn new() -> Result<Signals, Error> {
        let refused = |error| Error::System { what: "watching for signals", error };
        let (pipe, waker) = UnixStream::pair().map_err(refused)?;
        pipe.set_nonblocking(true).map_err(refused)?;
        let mut signals = Signals { pipe, registered: Vec::new(), flags: Vec::new() };
        // The end of a child wakes this process, which may have to reap it. And a handler is what
        // keeps the system from doing so: whoever has started this process may have ignored the
        // signal, and then nobody hears how a rank has ended.
        let waker_of_ends = waker.try_clone().map_err(refused)?;
        signals
            .registered
            .push(signal_hook::low_level::pipe::register(SIGCHLD, waker_of_ends).map_err(refused)?);
        let ignored = ignored();
        for number in
            FORWARDED.into_iter().filter(|number| !(RESPECTED.contains(number) && ignored(*number)))
        {
            let flag = Arc::default();
            let waker = waker.try_clone().map_err(refused)?;
            // The flag first: a thread that is woken finds it set.
            signals
                .registered
                .push(signal_hook::flag::register(number, Arc::clone(&flag)).map_err(refused)?);
            signals
                .registered
                .push(signal_hook::low_level::pipe::register(number, waker).map_err(refused)?);
            signals.flags.push((number, flag));
        }
        Ok(signals)
    }

    /// Returns the signals that have come, but for the ends of children.
    pub(crate) fn take(&mut self) -> Vec<i32> {
        let mut buffer = [0; 64];
        while matches!(self.pipe.read(&mut buffer), Ok(1..)) {}
        let taken = |flag: &AtomicBool| flag.swap(false, Ordering::SeqCst);
        self.flags.iter().filter(|(_, flag)| taken(flag)).map(|&(number, _)| number).collect()
    }
}

/// Tells which signals this process ignores, and has from the beginning.
fn ignored() -> impl Fn(i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    move |number| mask >> (number - 1) & 1 == 1
}

/// Stops this process until a signal lets it go on, and returns how long that took.
pub(crate) fn stop() -> Duration {
    let before = Instant::now();
    // Sent to this thread, so that it is stopped when this returns; the system stops all others
    // with it.
    let _ = signal_hook::low_level::raise(signal_hook::consts::SIGSTOP);
    before.elapsed()
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.registered.drain(..) {
            signal_hook::low_level::unregister(id);
        }
    }
}
