//! The state of an origin that decides what it does from now on, for the explorer.

use std::hash::{Hash, Hasher};

use super::Origin;
use crate::link::Sender;
use crate::link::variant::Variant;
use crate::wire::ServerId;

impl<V: Variant> Origin<V> {
    pub(crate) fn fingerprint(&self, now_ns: u64, into: &mut impl Hasher) {
        self.transfers.fingerprint(into);
        self.active.hash(into);
        for peer in &self.peers {
            peer.sender.fingerprint(now_ns, into);
            for packet in peer.queue.iter().chain([&peer.batch]) {
                (&packet.bytes, packet.wants_answer, packet.is_urgent).hash(into);
            }
            (peer.posted, peer.is_active, peer.is_lost).hash(into);
        }
    }

    /// Continues as if so many requests had been executed, and so many operations been refused.
    pub(crate) fn start_after(&mut self, server: ServerId, executed: u64, complaints: u64) {
        let peer = &mut self.peers[server.0 as usize];
        peer.sender.start_after(executed);
        peer.complaints = complaints;
    }

    /// Continues as if so many tickets had been drawn.
    pub(crate) fn start_generation(&mut self, generation: u32) {
        self.transfers.start_generation(generation);
    }

    pub(crate) fn sender(&self, server: ServerId) -> &Sender<V> {
        &self.peers[server.0 as usize].sender
    }
}
