//! UDP as a transport: one socket for each endpoint, which also wakes its owner, and beside it TCP
//! streams for packets that are longer than a datagram of the path.

use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use farside_fabric::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg_addr, sockopt};

use super::streams::TcpStreams;
use super::{
    Address, Carrier, LONG_PACKET_BYTES, PeerAddress, StreamSettings, Streams, Transport,
    TransportEndpoint,
};

/// The socket buffer: datagrams beyond it get lost.
const BUFFER_BYTES: usize = 8 << 20;
/// The length of the longest datagram where the path does not tell: what an Ethernet carries in one
/// piece.
const ETHERNET_BYTES: usize = 1432;
/// The length of the shortest limit that is believed of a path: every IPv6 link carries it.
const PATH_BYTES_MIN: usize = 1200;
/// The length of the headers of IP and UDP.
const HEADERS_V4_BYTES: usize = 28;
const HEADERS_V6_BYTES: usize = 48;
/// The number of datagrams after which streams have a turn although more have arrived.
const DATAGRAMS_PER_TURN: u32 = 8;
/// The number of UDP ports that are tried until the TCP port of the same number is free.
const PORT_TRIES: u32 = 16;

/// The transport over UDP, with TCP streams for long packets.
#[derive(Debug, Clone, Copy)]
pub struct Udp {
    /// The IP address of this node.
    pub ip: IpAddr,
    /// The length of the longest datagram, if it is not to be that of the path.
    pub datagram_bytes: Option<usize>,
}

impl Transport for Udp {
    fn open(&self) -> Result<Arc<dyn TransportEndpoint>> {
        let socket = open(SocketAddr::new(self.ip, 0))?;
        Ok(Arc::new(UdpEndpoint::new(socket, None)?))
    }

    fn open_server(&self) -> Result<Arc<dyn TransportEndpoint>> {
        open_server(self.ip).map(|endpoint| Arc::new(endpoint) as Arc<dyn TransportEndpoint>)
    }

    fn packet_bytes(&self, addresses: &[Address]) -> usize {
        self.datagram_bytes.unwrap_or_else(|| packet_bytes(addresses.iter().map(Address::ip)))
    }
}

/// A UDP socket, and TCP streams beside it.
pub(crate) struct UdpEndpoint {
    socket: UdpSocket,
    streams: TcpStreams,
    /// The number of datagrams since streams had a turn.
    datagrams: AtomicU32,
}

impl UdpEndpoint {
    /// Makes an endpoint of a socket; that of a server has a listener.
    pub(crate) fn new(socket: UdpSocket, listener: Option<TcpListener>) -> Result<UdpEndpoint> {
        let streams = TcpStreams::new(address(&socket)?, listener);
        Ok(UdpEndpoint { socket, streams, datagrams: AtomicU32::new(0) })
    }

    pub(crate) fn socket_address(&self) -> Result<SocketAddr> {
        address(&self.socket)
    }
}

/// Opens the endpoint of a server, whose streams have the port of its UDP socket.
pub(crate) fn open_server(ip: IpAddr) -> Result<UdpEndpoint> {
    for _ in 0..PORT_TRIES {
        let socket = open(SocketAddr::new(ip, 0))?;
        if let Ok(listener) = TcpListener::bind(address(&socket)?)
            && listener.set_nonblocking(true).is_ok()
        {
            return UdpEndpoint::new(socket, Some(listener));
        }
    }
    // Without streams, long packets go as datagrams.
    UdpEndpoint::new(open(SocketAddr::new(ip, 0))?, None)
}

impl TransportEndpoint for UdpEndpoint {
    fn address(&self) -> Result<Address> {
        address(&self.socket).map(Address::from)
    }

    fn resolve(&self, to: &Address) -> Result<PeerAddress> {
        let no_socket = || Error::InvalidArgument(format!("{to} is not a UDP socket's address"));
        to.socket().map(PeerAddress::Socket).ok_or_else(no_socket)
    }

    fn send(&self, to: PeerAddress, head: &[u8], rest: &[u8]) {
        let PeerAddress::Socket(to) = to else { return };
        // A reply that no datagram of the path has room for.
        if self.streams.is_long(head.len() + rest.len())
            && self.streams.send(to, head, rest, false).is_some()
        {
            return;
        }
        // A datagram that the system refuses counts as lost: the link sends it again.
        if rest.is_empty() {
            let _ = self.socket.send_to(head, to);
        } else {
            let parts = [IoSlice::new(head), IoSlice::new(rest)];
            let _ = sendmsg_addr(
                &self.socket,
                &to,
                &parts,
                &mut SendAncillaryBuffer::default(),
                SendFlags::empty(),
            );
        }
    }

    fn receive(&self, into: &mut [u8]) -> Option<usize> {
        self.socket.recv(into).ok()
    }

    fn send_by_stream(&self, to: PeerAddress, head: &[u8], rest: &[u8], has_more: bool) -> Carrier {
        let PeerAddress::Socket(peer) = to else { return Carrier::DATAGRAM };
        self.streams.send(peer, head, rest, has_more).unwrap_or_else(|| {
            self.send(to, head, rest);
            Carrier::DATAGRAM
        })
    }

    #[inline]
    fn deliver(&self, buffer: &mut [u8], take: &mut dyn FnMut(&[u8], Carrier)) -> bool {
        let datagrams = self.datagrams.load(Ordering::Relaxed);
        if datagrams < DATAGRAMS_PER_TURN
            && let Some(length) = self.receive(buffer)
        {
            self.datagrams.store(datagrams + 1, Ordering::Relaxed);
            take(&buffer[..length], Carrier::DATAGRAM);
            return true;
        }
        self.datagrams.store(0, Ordering::Relaxed);
        if self.streams.deliver(take) {
            return true;
        }
        if datagrams < DATAGRAMS_PER_TURN {
            return false;
        }
        // It was the turn of the streams, and they have nothing.
        let length = self.receive(buffer);
        length.inspect(|&length| take(&buffer[..length], Carrier::DATAGRAM)).is_some()
    }

    fn enable_streams(&self, settings: StreamSettings<'_>) {
        self.streams.enable(settings);
    }

    fn streams(&self) -> Option<&dyn Streams> {
        self.streams.is_enabled().then_some(&self.streams as &dyn Streams)
    }

    fn sleep(&self, timeout: Duration) {
        if self.streams.is_enabled() {
            self.streams.poll(Some(&self.socket), timeout);
        } else {
            await_datagram(&self.socket, timeout);
        }
    }

    fn wakeup_address(&self) -> Result<SocketAddr> {
        address(&self.socket)
    }

    fn wake(&self, wakeup: SocketAddr) {
        wake(&self.socket, wakeup);
    }
}

/// Wakes the owner of an endpoint of this host.
pub(crate) fn wake(socket: &UdpSocket, wakeup: SocketAddr) {
    // A sleep has a time limit, so a lost wakeup delays and does not hang.
    let _ = socket.send_to(&[], wakeup);
}

/// Opens a non-blocking socket at an address; port zero means any.
pub(crate) fn open(at: SocketAddr) -> Result<UdpSocket> {
    let refused = |call: &'static str| move |error: std::io::Error| system(call, &error);
    let socket =
        UdpSocket::bind(at).map_err(refused("binding a UDP socket to the node's address"))?;
    socket.set_nonblocking(true).map_err(refused("making a socket non-blocking"))?;
    // A smaller buffer than asked for shows only under load, as datagrams that are sent again.
    if sockopt::set_socket_recv_buffer_size_force(&socket, BUFFER_BYTES).is_err() {
        let _ = sockopt::set_socket_recv_buffer_size(&socket, BUFFER_BYTES);
    }
    let _ = sockopt::set_socket_send_buffer_size(&socket, BUFFER_BYTES);
    // A router on the way whose link carries less fragments a datagram instead of dropping it.
    let _ = sockopt::set_ip_mtu_discover(&socket, sockopt::Ipv4PathMtuDiscovery::DONT);
    Ok(socket)
}

/// The size of a socket's buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketBuffer {
    /// How many bytes are asked for.
    pub asked_bytes: u64,
    /// How many of them the system grants.
    pub granted_bytes: u64,
}

/// Returns the size of a socket's buffer here.
pub fn socket_buffer() -> Result<SocketBuffer> {
    let socket = open(SocketAddr::new(std::net::Ipv4Addr::LOCALHOST.into(), 0))?;
    let granted = sockopt::socket_recv_buffer_size(&socket)
        .map_err(|errno| system("reading a socket's buffer", &errno.into()))?;
    // The system doubles the size for its own needs, and reports the double.
    Ok(SocketBuffer { asked_bytes: BUFFER_BYTES as u64, granted_bytes: granted as u64 / 2 })
}

pub(crate) fn address(socket: &UdpSocket) -> Result<SocketAddr> {
    socket.local_addr().map_err(|error| system("reading a socket's address", &error))
}

fn await_datagram(socket: &UdpSocket, timeout: Duration) {
    let timeout = Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(timeout.subsec_nanos()),
    };
    // After an error, as after a time-out, the caller looks for datagrams again.
    let _ = rustix::event::poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&timeout));
}

/// Returns the length of the longest datagram that reaches all of these unfragmented, as far as
/// this node's routes know.
fn packet_bytes(mut addresses: impl Iterator<Item = IpAddr> + Clone) -> usize {
    if addresses.clone().all(|ip| ip.is_loopback()) {
        return LONG_PACKET_BYTES;
    }
    let shortest =
        addresses.try_fold(LONG_PACKET_BYTES, |least, ip| path_bytes(ip).map(|b| b.min(least)));
    shortest.unwrap_or(ETHERNET_BYTES)
}

/// Returns the length of the longest datagram on the path to an address, as the route knows it.
fn path_bytes(to: IpAddr) -> Option<usize> {
    let any: IpAddr = match to {
        IpAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0)).ok()?;
    // It looks up the route, and sends nothing.
    socket.connect(SocketAddr::new(to, 9)).ok()?;
    let (mtu, headers) = match to {
        IpAddr::V4(_) => (sockopt::ip_mtu(&socket).ok()?, HEADERS_V4_BYTES),
        IpAddr::V6(_) => (sockopt::ipv6_mtu(&socket).ok()?, HEADERS_V6_BYTES),
    };
    Some((mtu as usize).saturating_sub(headers).max(PATH_BYTES_MIN))
}

fn system(call: &'static str, error: &std::io::Error) -> Error {
    Error::System { call, errno: error.raw_os_error().unwrap_or(0) }
}
