//! What carries datagrams between nodes: a [`Transport`] opens [`TransportEndpoint`]s.
//!
//! An endpoint may lose datagrams, repeat them and let them overtake each other; [`crate::link`]
//! mends that. UDP is one transport, libfabric (crate `farside-ofi`) another. A transport whose
//! interface reaches memory by itself also offers [`Direct`] operations and a
//! [`MemoryRegistration`]. A new network is added here: these two traits are all that it needs.

mod address;
pub(crate) mod direct;
pub(crate) mod seal;
pub(crate) mod udp;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use farside_fabric::{Mapped, Rank, Result, SegmentId};

pub use self::address::Address;
use self::direct::Direct;

/// The address of a peer in the form in which an endpoint sends to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerAddress {
    /// A socket.
    Socket(SocketAddr),
    /// An entry of the transport's own table of addresses (libfabric: `fi_addr_t`).
    Entry(u64),
}

/// One end of a transport: datagrams leave and arrive here.
pub trait TransportEndpoint: Send + Sync {
    /// Returns the address at which other nodes reach this endpoint.
    fn address(&self) -> Result<Address>;
    /// Resolves an address into the form in which this endpoint sends to it.
    fn resolve(&self, to: &Address) -> Result<PeerAddress>;
    /// Sends a datagram whose bytes are in two parts. It may get lost.
    fn send(&self, to: PeerAddress, head: &[u8], rest: &[u8]);
    /// Receives the next datagram, if one has arrived. An empty one carries nothing: it wakes the
    /// owner of the endpoint.
    fn receive(&self, into: &mut [u8]) -> Option<usize>;
    /// Sleeps until a datagram may have arrived, or the time is up.
    fn sleep(&self, timeout: Duration);
    /// Returns the address of the wakeup socket: on this host, a datagram to it ends a sleep.
    fn wakeup_address(&self) -> Result<SocketAddr>;
    /// Sends an empty datagram to the wakeup socket of another endpoint of this host.
    fn wake(&self, wakeup: SocketAddr);
    /// Returns the operations on far memory that bypass the target's agent, if the interface has
    /// such.
    fn direct(&self) -> Option<&dyn Direct> {
        None
    }
    /// Returns what registers a node's memory for [`Direct`] operations that this endpoint serves,
    /// if the interface has such.
    fn memory_registration(self: Arc<Self>) -> Option<Box<dyn MemoryRegistration>> {
        None
    }
}

/// A kind of network, as one node uses it.
pub trait Transport: Send + Sync {
    /// Opens a new endpoint.
    fn open(&self) -> Result<Arc<dyn TransportEndpoint>>;
    /// Returns the length of the longest datagram that reaches all these addresses unfragmented.
    fn packet_bytes(&self, addresses: &[Address]) -> usize;
    /// Returns the name by which ranks open the same transport; empty for UDP.
    fn name(&self) -> String {
        String::new()
    }
    /// Returns whether a connection must begin with the address for its replies. Otherwise that is
    /// the address of the node and the UDP port in the header.
    fn needs_reply_address(&self) -> bool {
        false
    }
}

/// Registers memory, so that interfaces of other nodes reach it without its agent.
pub trait MemoryRegistration: Send {
    /// Registers a segment, unless it is registered already, and returns its remote key.
    fn register(&mut self, rank: Rank, segment: SegmentId, memory: Mapped) -> Result<RemoteKey>;
    /// Deregisters a segment.
    fn deregister(&mut self, rank: Rank, segment: SegmentId);
}

/// How interfaces of other nodes address a registered segment: what verbs call an rkey, with the
/// address of the first byte and the length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteKey {
    /// The address of the first byte.
    pub base: u64,
    /// The key of the registration.
    pub key: u64,
    /// The length of the segment.
    pub bytes: u64,
}

impl RemoteKey {
    /// Packs base and key into the word that an agent answers.
    pub(crate) fn to_word(self) -> u128 {
        (u128::from(self.key) << 64) | u128::from(self.base)
    }

    /// Unpacks what [`RemoteKey::to_word`] packed, of a segment of so many bytes.
    pub(crate) fn from_word(word: u128, bytes: u64) -> RemoteKey {
        RemoteKey { base: word as u64, key: (word >> 64) as u64, bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_keys_survive_as_words() {
        for (base, key) in [(0, 0), (u64::MAX, 1), (1, u64::MAX)] {
            let remote = RemoteKey { base, key, bytes: 7 };
            assert_eq!(RemoteKey::from_word(remote.to_word(), 7), remote);
        }
    }
}
