//! What carries packets between nodes: a [`Network`] opens [`Line`]s.
//!
//! A line may lose packets, repeat them and let them overtake each other; what is on it mends that.
//! UDP is one network; a library for interfaces that can do more is another, which tells by
//! [`Registrar`] how memory is reached without asking its agent.

use std::any::Any;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use farside_fabric::{Error, Mapped, Rank, Result, SegmentId};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg_addr};

use self::direct::Direct;
use self::udp as socket;

pub(crate) mod direct;
pub(crate) mod seal;
pub(crate) mod udp;

/// Where a line ends, for whoever is to reach it from another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    ip: IpAddr,
    length: u8,
    bytes: [u8; Address::BYTES_MAX],
}

impl Address {
    /// The longest address of any network.
    pub const BYTES_MAX: usize = 120;

    /// An address, as its network writes it, and that of its host.
    pub fn new(ip: IpAddr, address: &[u8]) -> Result<Address> {
        if address.len() > Address::BYTES_MAX {
            let (value, limit) = (address.len() as u64, Address::BYTES_MAX as u64);
            return Err(Error::TooMuch { what: "bytes of a network's address", value, limit });
        }
        let mut bytes = [0; Address::BYTES_MAX];
        bytes[..address.len()].copy_from_slice(address);
        Ok(Address { ip, length: address.len() as u8, bytes })
    }

    /// The address of its host.
    pub fn ip(&self) -> IpAddr {
        self.ip
    }

    /// As its network writes it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// The socket that it means, if it is one of UDP.
    pub fn socket(&self) -> Option<SocketAddr> {
        match *self.bytes() {
            [low, high] => Some(SocketAddr::new(self.ip, u16::from_le_bytes([low, high]))),
            _ => None,
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(at: SocketAddr) -> Address {
        let mut bytes = [0; Address::BYTES_MAX];
        bytes[..2].copy_from_slice(&at.port().to_le_bytes());
        Address { ip: at.ip(), length: 2, bytes }
    }
}

/// As text, for notes that launchers pass on: the host's address, and the rest in hexadecimal
/// digits.
impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/", self.ip)?;
        self.bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::str::FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Address> {
        let bad = || Error::Misuse(format!("{text:?} is no address of an interface"));
        let (ip, digits) = text.split_once('/').ok_or_else(bad)?;
        if !digits.is_ascii() || digits.len() % 2 != 0 {
            return Err(bad());
        }
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| bad());
        let bytes = (0..digits.len()).step_by(2).map(byte).collect::<Result<Vec<u8>>>()?;
        Address::new(ip.parse().map_err(|_| bad())?, &bytes)
    }
}

/// Where a line sends, once an address was looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// To a socket.
    Socket(SocketAddr),
    /// To whoever the network has given this number.
    Peer(u64),
}

/// One end of a network: packets leave and arrive here.
pub trait Line: Any + Send + Sync {
    /// How others reach it.
    fn address(&self) -> Result<Address>;
    /// How it reaches another.
    fn route(&self, to: &Address) -> Result<Route>;
    /// Sends a packet that is in two parts. It may get lost.
    fn send(&self, to: Route, head: &[u8], rest: &[u8]);
    /// The next packet that has arrived. One of no bytes says nothing but that somebody wants the
    /// owner to look.
    fn receive(&self, into: &mut [u8]) -> Option<usize>;
    /// Sleeps until something may have arrived, or the time is up.
    fn sleep(&self, timeout: Duration);
    /// A place on this host where a datagram ends that sleep.
    fn bell(&self) -> Result<SocketAddr>;
    /// Rings somebody's bell.
    fn ring(&self, bell: SocketAddr);
    /// Its operations on far memory that go past the agents, if it can do such.
    fn direct(&self) -> Option<&dyn Direct> {
        None
    }
}

/// A kind of network, as one node sees it.
pub trait Network: Send + Sync {
    /// A new line.
    fn open(&self) -> Result<Arc<dyn Line>>;
    /// The longest packet that reaches all of these, without detours.
    fn packet_bytes(&self, addresses: &[Address]) -> usize;
    /// What ranks must be told to open the same network; empty for UDP.
    fn name(&self) -> String {
        String::new()
    }
    /// Whether a request must say where its answer goes; else that is its node's address and the
    /// number of a UDP port.
    fn introduces_itself(&self) -> bool {
        false
    }
    /// What makes memory reachable without its agent, for a node whose agent has this line.
    fn registrar(&self, line: &Arc<dyn Line>) -> Option<Box<dyn Registrar>> {
        let _ = line;
        None
    }
}

/// Makes memory reachable without its agent.
pub trait Registrar: Send {
    /// How some memory is named on the network: its first byte, and, above 64 bits, its key.
    fn register(&mut self, rank: Rank, segment: SegmentId, memory: Mapped) -> Result<u128>;
    /// That memory goes away.
    fn forget(&mut self, rank: Rank, segment: SegmentId);
}

/// The network of UDP.
#[derive(Debug, Clone, Copy)]
pub struct Udp {
    /// The address of this node.
    pub ip: IpAddr,
}

impl Network for Udp {
    fn open(&self) -> Result<Arc<dyn Line>> {
        Ok(Arc::new(socket::open(SocketAddr::new(self.ip, 0))?))
    }

    fn packet_bytes(&self, addresses: &[Address]) -> usize {
        socket::packet_bytes(addresses.iter().map(Address::ip))
    }
}

impl Line for UdpSocket {
    fn address(&self) -> Result<Address> {
        socket::address(self).map(Address::from)
    }

    fn route(&self, to: &Address) -> Result<Route> {
        let no_socket = || Error::Misuse(format!("{:?} is no UDP port", to.bytes()));
        to.socket().map(Route::Socket).ok_or_else(no_socket)
    }

    fn send(&self, to: Route, head: &[u8], rest: &[u8]) {
        let Route::Socket(to) = to else { return };
        // One that cannot be sent is one that got lost.
        if rest.is_empty() {
            let _ = self.send_to(head, to);
        } else {
            let parts = [std::io::IoSlice::new(head), std::io::IoSlice::new(rest)];
            let _ = sendmsg_addr(
                self,
                &to,
                &parts,
                &mut SendAncillaryBuffer::default(),
                SendFlags::empty(),
            );
        }
    }

    fn receive(&self, into: &mut [u8]) -> Option<usize> {
        self.recv(into).ok()
    }

    fn sleep(&self, timeout: Duration) {
        socket::await_datagram(self, Some(timeout));
    }

    fn bell(&self) -> Result<SocketAddr> {
        socket::address(self)
    }

    fn ring(&self, bell: SocketAddr) {
        // Whoever cannot be reached looks by itself when its time is up.
        let _ = self.send_to(&[], bell);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_as_text() {
        let udp = Address::from(SocketAddr::from(([10, 1, 2, 3], 4711)));
        let other = Address::new("fe80::1".parse().unwrap(), &[0, 255, 7]).unwrap();
        for address in [udp, other] {
            assert_eq!(address.to_string().parse::<Address>().unwrap(), address);
        }
        for text in ["", "10.0.0.1", "10.0.0.1/abc", "10.0.0.1/zz", "host/00", "10.0.0.1/ää"] {
            assert!(text.parse::<Address>().is_err(), "{text:?}");
        }
    }
}
