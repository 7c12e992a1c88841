//! What carries datagrams between nodes: a [`Transport`] opens [`TransportEndpoint`]s.
//!
//! An endpoint may lose packets, repeat them and let them overtake each other; [`crate::link`]
//! mends that. Packets too long for a datagram of the path travel by a stream beside the datagrams,
//! where the transport has streams. UDP is one transport, libfabric (crate `farside-ofi`) another.
//! A transport whose interface reaches memory by itself also offers [`Direct`] operations and a
//! [`MemoryRegistration`]. A new network is added here: these two traits are all that it needs.

mod address;
pub(crate) mod direct;
mod frames;
pub(crate) mod seal;
mod streams;
mod tcp;
pub(crate) mod udp;

#[cfg(fuzzing)]
pub(crate) use self::frames::fuzz as fuzz_frames;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use farside_fabric::{Mapped, Rank, Result, SegmentId};

pub use self::address::Address;
use self::direct::Direct;
use self::seal::Key;

/// The address of a peer in the form in which an endpoint sends to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerAddress {
    /// A socket.
    Socket(SocketAddr),
    /// An entry of the transport's own table of addresses (libfabric: `fi_addr_t`).
    Entry(u64),
}

/// The length of the longest packet of a request that a stream carries, or that stays on this
/// machine.
pub(crate) const LONG_PACKET_BYTES: usize = 60 << 10;

/// What has carried a packet: a datagram, or one of an endpoint's streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Carrier(u64);

impl Carrier {
    /// A datagram of its own, which may get lost.
    pub const DATAGRAM: Carrier = Carrier(0);

    /// Returns the stream of this number, from one on. It loses nothing until it breaks, and the
    /// number is never used again.
    pub fn stream(number: u64) -> Carrier {
        Carrier(number)
    }

    /// Returns whether it is a stream.
    pub fn is_stream(self) -> bool {
        self != Carrier::DATAGRAM
    }

    fn number(self) -> u64 {
        self.0
    }
}

/// The streams of an endpoint: each carries packets in order to one peer and back until it breaks.
pub trait Streams {
    /// Returns the open stream to a peer; [`Carrier::DATAGRAM`] if there is none.
    fn to(&self, peer: PeerAddress) -> Carrier;
    /// Begins to open a stream to a peer, unless one is open or under way, or has just failed.
    /// Returns whether one is under way.
    fn open(&self, peer: PeerAddress) -> bool;
    /// Returns whether the stream to a peer takes one more packet now.
    fn has_room(&self, peer: PeerAddress) -> bool;
    /// Sends what waits for more to come.
    fn flush(&self, peer: PeerAddress);
}

/// What an endpoint must know before it carries packets by streams.
#[derive(Debug, Clone, Copy)]
pub struct StreamSettings<'a> {
    /// The key of the job.
    pub key: &'a Key,
    /// The length of the longest packet that goes as a datagram.
    pub datagram_bytes: usize,
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
    /// Sends a packet by the stream to its destination if there is one, otherwise as a datagram.
    /// Returns what carries it. If there is more to come, it may wait for [`Streams::flush`].
    fn send_by_stream(
        &self,
        to: PeerAddress,
        head: &[u8],
        rest: &[u8],
        _has_more: bool,
    ) -> Carrier {
        self.send(to, head, rest);
        Carrier::DATAGRAM
    }
    /// Calls `take` with the next packet that has arrived and with what has carried it. Returns
    /// whether there was one. `buffer` has room for the longest datagram.
    fn deliver(&self, buffer: &mut [u8], take: &mut dyn FnMut(&[u8], Carrier)) -> bool {
        let length = self.receive(buffer);
        length.inspect(|&length| take(&buffer[..length], Carrier::DATAGRAM)).is_some()
    }
    /// Lets the endpoint carry long packets by streams, if the transport has such.
    fn enable_streams(&self, _settings: StreamSettings<'_>) {}
    /// Returns the endpoint's streams, if they are enabled.
    fn streams(&self) -> Option<&dyn Streams> {
        None
    }
    /// Sleeps until a packet may have arrived, or the time is up.
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
    /// Opens a new endpoint of a server, to which other endpoints open streams.
    fn open_server(&self) -> Result<Arc<dyn TransportEndpoint>> {
        self.open()
    }
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
    /// Registers a segment, unless that was begun already, and does not wait for it: to pin much
    /// memory takes seconds. Returns what has come of it, if that is known: its remote key, or that
    /// the interface refuses it.
    fn register(&mut self, rank: Rank, segment: SegmentId, memory: Mapped) -> Option<Registration>;
    /// Returns whether the registration of a segment is under way.
    fn is_registering(&mut self, rank: Rank, segment: SegmentId) -> bool;
    /// Deregisters a segment, whose registration is not under way.
    fn deregister(&mut self, rank: Rank, segment: SegmentId);
}

/// What has come of a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registration {
    /// Interfaces reach the segment by this key.
    Key(RemoteKey),
    /// The interface refuses the segment: messages alone reach it.
    Refused,
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

    pub(crate) fn from_word(word: u128, bytes: u64) -> RemoteKey {
        RemoteKey { base: word as u64, key: (word >> 64) as u64, bytes }
    }
}

impl Registration {
    /// What an agent answers if there is no key: no memory begins at the last address.
    const REFUSED: u128 = u128::MAX;

    pub(crate) fn to_word(self) -> u128 {
        match self {
            Registration::Key(key) => key.to_word(),
            Registration::Refused => Registration::REFUSED,
        }
    }

    pub(crate) fn from_word(word: u128, bytes: u64) -> Registration {
        match word {
            Registration::REFUSED => Registration::Refused,
            word => Registration::Key(RemoteKey::from_word(word, bytes)),
        }
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
        for it in
            [Registration::Refused, Registration::Key(RemoteKey { base: 8, key: 9, bytes: 7 })]
        {
            assert_eq!(Registration::from_word(it.to_word(), 7), it);
        }
    }
}
