//! What of a service decides on what it does from now on.

use std::hash::{Hash, Hasher};

use super::{Connection, Memory, Service};
use crate::link::Receiver;
use crate::link::variant::Variant;
use crate::transport::Route;
use crate::wire::PortId;

impl<M: Memory, V: Variant> Service<M, V> {
    /// Without its memory. Of a service that one port has heard of.
    pub(crate) fn fingerprint(&self, into: &mut impl Hasher) {
        for (port, connection) in &self.connections {
            port.hash(into);
            connection.receiver.fingerprint(into);
            connection.unanswered.hash(into);
        }
        self.lost.len().hash(into);
    }

    /// As if so many requests of a port had been executed, and so many operations been refused.
    pub(crate) fn start_after(
        &mut self,
        port: PortId,
        route: Route,
        executed: u64,
        complaints: u64,
    ) {
        let connection =
            self.connections.entry(port).or_insert_with(|| Connection::new(Some(route)));
        connection.receiver.start_after(executed);
        connection.complaints = complaints;
    }

    pub(crate) fn receiver(&self, port: PortId) -> Option<&Receiver<V>> {
        self.connections.get(&port).map(|connection| &connection.receiver)
    }

    /// Whether somebody has not been told how far it is.
    pub(crate) fn is_silent(&self) -> bool {
        self.connections.values().any(|connection| connection.unanswered > 0)
    }
}
