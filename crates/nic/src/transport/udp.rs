//! UDP as a transport: one socket for each endpoint, and the socket itself wakes its owner.

use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use farside_fabric::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg_addr, sockopt};

use super::{Address, PeerAddress, Transport, TransportEndpoint};

/// The socket buffer: datagrams beyond it get lost.
const BUFFER_BYTES: usize = 8 << 20;
/// The longest datagram between hosts: what an Ethernet carries in one piece.
const ETHERNET_BYTES: usize = 1432;
/// The longest datagram that stays on this machine.
const LOOPBACK_BYTES: usize = 60 << 10;

/// The transport over UDP.
#[derive(Debug, Clone, Copy)]
pub struct Udp {
    /// The IP address of this node.
    pub ip: IpAddr,
}

impl Transport for Udp {
    fn open(&self) -> Result<Arc<dyn TransportEndpoint>> {
        Ok(Arc::new(open(SocketAddr::new(self.ip, 0))?))
    }

    fn packet_bytes(&self, addresses: &[Address]) -> usize {
        packet_bytes(addresses.iter().map(Address::ip))
    }
}

impl TransportEndpoint for UdpSocket {
    fn address(&self) -> Result<Address> {
        address(self).map(Address::from)
    }

    fn resolve(&self, to: &Address) -> Result<PeerAddress> {
        let no_socket = || Error::InvalidArgument(format!("{to} is no address of a UDP socket"));
        to.socket().map(PeerAddress::Socket).ok_or_else(no_socket)
    }

    fn send(&self, to: PeerAddress, head: &[u8], rest: &[u8]) {
        let PeerAddress::Socket(to) = to else { return };
        // A datagram that the system refuses counts as lost: the link sends it again.
        if rest.is_empty() {
            let _ = self.send_to(head, to);
        } else {
            let parts = [IoSlice::new(head), IoSlice::new(rest)];
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
        await_datagram(self, timeout);
    }

    fn wakeup_address(&self) -> Result<SocketAddr> {
        address(self)
    }

    fn wake(&self, wakeup: SocketAddr) {
        // A sleep has a time limit, so a lost wakeup delays and does not hang.
        let _ = self.send_to(&[], wakeup);
    }
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

/// Returns the address that a socket is bound to.
pub(crate) fn address(socket: &UdpSocket) -> Result<SocketAddr> {
    socket.local_addr().map_err(|error| system("reading a socket's address", &error))
}

/// Sleeps until a datagram has arrived, or the time is up.
fn await_datagram(socket: &UdpSocket, timeout: Duration) {
    let timeout = Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(timeout.subsec_nanos()),
    };
    // After an error, as after a time-out, the caller looks for datagrams again.
    let _ = rustix::event::poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&timeout));
}

/// Returns the length of the longest datagram that reaches all of these unfragmented.
fn packet_bytes(mut addresses: impl Iterator<Item = IpAddr>) -> usize {
    if addresses.all(|ip| ip.is_loopback()) { LOOPBACK_BYTES } else { ETHERNET_BYTES }
}

fn system(call: &'static str, error: &std::io::Error) -> Error {
    Error::System { call, errno: error.raw_os_error().unwrap_or(0) }
}
