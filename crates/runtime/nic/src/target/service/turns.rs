//! The turns of requests: each is executed as a whole, in order, when it has its locks.
//!
//! A rank that is stopped in the middle of an accumulate holds locks that a far accumulate needs.
//! The request that needs them waits, and those of its connection behind it; all others are served.

use std::time::Duration;

use super::{Memory, Out, Service};
use crate::link::variant::Variant;
use crate::wire::PortId;

/// The longest sleep while the answer of a call is awaited, or a request waits for locks: the
/// process that runs the handlers wakes the server, but may die before it does, and one that frees
/// a lock wakes nobody.
const SOON: Duration = Duration::from_millis(5);

impl<M: Memory, V: Variant> Service<M, V> {
    /// Returns how long the server may sleep, if it has to look again although nothing arrives.
    pub(crate) fn sleep_limit(&self) -> Option<Duration> {
        (self.has_calls() || !self.blocked.is_empty()).then_some(SOON)
    }

    /// Executes the request whose turn has come, and those behind it that have arrived.
    pub(super) fn take_turn(&mut self, port: PortId, body: &[u8], out: Out<'_>) {
        if self.try_execute(port, body, out) {
            self.go_on(port, out);
        }
    }

    /// Executes what has waited for locks, as far as they are free.
    pub(super) fn retry(&mut self, out: Out<'_>) {
        for port in std::mem::take(&mut self.blocked) {
            // The rank may have been lost meanwhile: then nothing more of it is executed.
            if port.rank().is_none_or(|rank| self.memory.begin(rank)) {
                self.go_on(port, out);
            }
            self.memory.end();
        }
    }

    /// Executes the requests whose turn has come and that have arrived before.
    fn go_on(&mut self, port: PortId, out: Out<'_>) {
        while let Some(body) =
            self.connections.get_mut(&port).and_then(|it| it.receiver.next_held())
        {
            if !self.try_execute(port, &body, out) {
                return;
            }
        }
    }

    /// Executes a request if its locks are free; keeps it for later otherwise.
    fn try_execute(&mut self, port: PortId, body: &[u8], out: Out<'_>) -> bool {
        if self.memory.lock(body) {
            self.execute(port, body, out);
            self.memory.unlock();
            return true;
        }
        if let Some(connection) = self.connections.get_mut(&port) {
            connection.receiver.put_back(body);
            if !self.blocked.contains(&port) {
                self.blocked.push(port);
            }
        }
        false
    }
}
