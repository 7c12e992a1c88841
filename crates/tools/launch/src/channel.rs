//! The ends of a channel between a launcher and a daemon: writing without waiting, and hearing as
//! something to poll.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Instant;

use serde::Serialize;

use crate::frames::encode;

/// The number of bytes that may wait to be written before senders that can wait have to.
const FULL: usize = 1 << 20;
/// The number of bytes of output that may be on their way before those that have more have to wait.
const UNCONFIRMED: usize = 1 << 18;

/// A queue of messages that a thread writes, in order. Dropping its last handle does not end the
/// thread: [`Outbox::close`] does.
#[derive(Clone)]
pub(crate) struct Outbox {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: Vec<u8>,
    /// The number of bytes of output that its reader has not passed on yet.
    unconfirmed: usize,
    /// True if there are lines among what waits; see [`Outbox::push_line`].
    has_lines: bool,
    /// True while the thread writes what it has taken.
    writing: bool,
    closed: bool,
    /// The reader is gone.
    broken: bool,
    has_lost_lines: bool,
}

impl Outbox {
    pub(crate) fn start(mut to: impl Write + Send + 'static) -> std::io::Result<Outbox> {
        let shared = Arc::new(Shared::default());
        let outbox = Outbox { shared };
        let own = outbox.clone();
        std::thread::Builder::new()
            .name("farside-channel".into())
            .spawn(move || own.write_all(&mut to))?;
        Ok(outbox)
    }

    /// Adds a message; never waits.
    pub(crate) fn push(&self, message: &impl Serialize) {
        self.push_bytes(&encode(message));
    }

    pub(crate) fn push_bytes(&self, bytes: &[u8]) {
        let mut state = self.lock();
        if !state.broken && !state.closed {
            state.waiting.extend_from_slice(bytes);
            self.shared.changed.notify_all();
        }
    }

    /// Adds a message when not too much is waiting already.
    pub(crate) fn push_patiently(&self, message: &impl Serialize) -> std::io::Result<()> {
        self.push_bytes_patiently(&encode(message))
    }

    /// Adds a message with so many bytes of output when not too many others are on their way, to
    /// where they are shown: what its reader cannot show must not keep it from reading on.
    pub(crate) fn push_output(
        &self,
        message: &impl Serialize,
        bytes: usize,
    ) -> std::io::Result<()> {
        let full = |state: &State| state.unconfirmed > UNCONFIRMED || state.waiting.len() > FULL;
        self.push_when(|state| !full(state), &encode(message), |state| state.unconfirmed += bytes)
    }

    /// So many bytes of output were shown.
    pub(crate) fn confirm(&self, bytes: usize) {
        let mut state = self.lock();
        state.unconfirmed = state.unconfirmed.saturating_sub(bytes);
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Adds bytes when not too many are waiting already.
    pub(crate) fn push_bytes_patiently(&self, bytes: &[u8]) -> std::io::Result<()> {
        self.push_when(|state| state.waiting.len() <= FULL, bytes, |_| ())
    }

    /// Adds bytes that must not be lost without a word when not too many are waiting already.
    pub(crate) fn push_line(&self, bytes: &[u8]) -> std::io::Result<()> {
        self.push_when(|state| state.waiting.len() <= FULL, bytes, |state| state.has_lines = true)
    }

    fn push_when(
        &self,
        has_room: impl Fn(&State) -> bool,
        bytes: &[u8],
        note: impl FnOnce(&mut State),
    ) -> std::io::Result<()> {
        let full = |state: &mut State| !has_room(state) && !state.broken && !state.closed;
        let mut state = self
            .shared
            .changed
            .wait_while(self.lock(), full)
            .unwrap_or_else(|poison| poison.into_inner());
        if state.broken || state.closed {
            return Err(std::io::ErrorKind::BrokenPipe.into());
        }
        state.waiting.extend_from_slice(bytes);
        note(&mut state);
        self.shared.changed.notify_all();
        Ok(())
    }

    /// Waits until all is written, or cannot be, however long that takes; fails if lines were lost.
    pub(crate) fn flush(&self) -> std::io::Result<()> {
        let unwritten =
            |state: &mut State| !state.broken && (state.writing || !state.waiting.is_empty());
        let state = self
            .shared
            .changed
            .wait_while(self.lock(), unwritten)
            .unwrap_or_else(|poison| poison.into_inner());
        match state.has_lost_lines {
            true => Err(std::io::ErrorKind::BrokenPipe.into()),
            false => Ok(()),
        }
    }

    /// Ends the channel when all that was added is written.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.shared.changed.notify_all();
    }

    /// Waits until all is written, or cannot be; false if that took too long.
    pub(crate) fn wait_until_written(&self, deadline: Instant) -> bool {
        let mut state = self.lock();
        while !state.broken && (state.writing || !state.waiting.is_empty()) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self
                .shared
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(|poison| poison.into_inner())
                .0;
        }
        true
    }

    fn write_all(&self, to: &mut impl Write) {
        loop {
            let state = self.lock();
            let idle = |state: &mut State| state.waiting.is_empty() && !state.closed;
            let mut state = self
                .shared
                .changed
                .wait_while(state, idle)
                .unwrap_or_else(|poison| poison.into_inner());
            if state.waiting.is_empty() {
                return;
            }
            let bytes = std::mem::take(&mut state.waiting);
            let has_lines = std::mem::take(&mut state.has_lines);
            state.writing = true;
            drop(state);
            self.shared.changed.notify_all();
            let written = to.write_all(&bytes).and_then(|()| to.flush());
            let mut state = self.lock();
            state.writing = false;
            if written.is_err() {
                state.broken = true;
                state.has_lost_lines = has_lines || state.has_lines;
                state.waiting = Vec::new();
            }
            drop(state);
            self.shared.changed.notify_all();
            if written.is_err() {
                return;
            }
        }
    }

    /// No holder of the lock can panic in the middle of a change.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(|poison| poison.into_inner())
    }
}

/// A queue in which the events of many threads arrive.
pub(crate) struct Mailbox<T> {
    receiver: Receiver<T>,
    /// Readable when something has arrived.
    pub(crate) bell: UnixStream,
}

/// A sender of events to a mailbox.
pub(crate) struct Slot<T> {
    sender: Sender<T>,
    bell: Arc<UnixStream>,
}

impl<T> Clone for Slot<T> {
    fn clone(&self) -> Slot<T> {
        Slot { sender: self.sender.clone(), bell: Arc::clone(&self.bell) }
    }
}

pub(crate) fn mailbox<T>() -> std::io::Result<(Slot<T>, Mailbox<T>)> {
    let (bell, ringer) = UnixStream::pair()?;
    bell.set_nonblocking(true)?;
    // A bell that rings already need not be rung.
    ringer.set_nonblocking(true)?;
    let (sender, receiver) = channel();
    Ok((Slot { sender, bell: Arc::new(ringer) }, Mailbox { receiver, bell }))
}

impl<T> Slot<T> {
    /// Puts an event; returns false if the mailbox is gone.
    pub(crate) fn put(&self, event: T) -> bool {
        let sent = self.sender.send(event).is_ok();
        let _ = (&*self.bell).write(b"x");
        sent
    }
}

impl<T> Mailbox<T> {
    pub(crate) fn take(&mut self) -> Vec<T> {
        let mut buffer = [0; 64];
        while matches!(self.bell.read(&mut buffer), Ok(1..)) {}
        self.receiver.try_iter().collect()
    }
}
