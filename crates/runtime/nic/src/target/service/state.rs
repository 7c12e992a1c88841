//! The state of a service that decides what it does from now on, for the explorer.

use std::hash::{Hash, Hasher};

use super::{Connection, Memory, Service};
use crate::link::Receiver;
use crate::link::variant::Variant;
use crate::transport::PeerAddress;
use crate::wire::PortId;

impl<M: Memory, V: Variant> Service<M, V> {
    /// Hashes all but the memory, of a service with one connection.
    pub(crate) fn fingerprint(&self, into: &mut impl Hasher) {
        for (port, connection) in &self.connections {
            port.hash(into);
            connection.receiver.fingerprint(into);
            connection.unanswered.hash(into);
        }
        self.lost.len().hash(into);
    }

    /// Continues as if so many requests of a port had been executed, and so many operations been
    /// refused.
    pub(crate) fn start_after(
        &mut self,
        port: PortId,
        reply_to: PeerAddress,
        executed: u64,
        complaints: u64,
    ) {
        let connection =
            self.connections.entry(port).or_insert_with(|| Connection::new(Some(reply_to)));
        connection.receiver.start_after(executed);
        connection.complaints = complaints;
    }

    pub(crate) fn receiver(&self, port: PortId) -> Option<&Receiver<V>> {
        self.connections.get(&port).map(|connection| &connection.receiver)
    }

    /// Returns whether an acknowledgement is owed.
    pub(crate) fn is_silent(&self) -> bool {
        self.connections.values().any(|connection| connection.unanswered > 0)
    }
}
