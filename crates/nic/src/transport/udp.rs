//! The socket under a port or a server.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use farside_fabric::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::sockopt;

/// How much may wait in a socket before it is lost.
const BUFFER_BYTES: usize = 8 << 20;
/// The longest datagram between hosts: what an Ethernet carries in one piece.
const ETHERNET_BYTES: usize = 1432;
/// The longest datagram that stays on this machine.
const LOOPBACK_BYTES: usize = 60 << 10;

/// Opens a socket at an address, any port if that is zero.
pub(crate) fn open(at: SocketAddr) -> Result<UdpSocket> {
    let refused = |call: &'static str| move |error: std::io::Error| system(call, &error);
    let socket =
        UdpSocket::bind(at).map_err(refused("binding a UDP socket to the node's address"))?;
    socket.set_nonblocking(true).map_err(refused("making a socket non-blocking"))?;
    // What the system does not give, is missed only under load: then datagrams get lost and are
    // sent again.
    if sockopt::set_socket_recv_buffer_size_force(&socket, BUFFER_BYTES).is_err() {
        let _ = sockopt::set_socket_recv_buffer_size(&socket, BUFFER_BYTES);
    }
    let _ = sockopt::set_socket_send_buffer_size(&socket, BUFFER_BYTES);
    Ok(socket)
}

/// How many bytes may wait in a socket: what is asked for, and what the system gives.
pub fn buffer_bytes() -> Result<(u64, u64)> {
    let socket = open(SocketAddr::new(std::net::Ipv4Addr::LOCALHOST.into(), 0))?;
    let granted = sockopt::socket_recv_buffer_size(&socket)
        .map_err(|errno| system("reading a socket's buffer", &errno.into()))?;
    // The system counts what it needs itself, and doubles what is asked for.
    Ok((BUFFER_BYTES as u64, granted as u64 / 2))
}

/// Where a socket is bound.
pub(crate) fn address(socket: &UdpSocket) -> Result<SocketAddr> {
    socket.local_addr().map_err(|error| system("reading a socket's address", &error))
}

/// Sleeps until a datagram has arrived, or the time is up.
pub(crate) fn await_datagram(socket: &UdpSocket, timeout: Option<Duration>) {
    let timeout = timeout.map(|time| Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(time.subsec_nanos()),
    });
    // Every error means the same here: look again.
    let _ = rustix::event::poll(&mut [PollFd::new(socket, PollFlags::IN)], timeout.as_ref());
}

/// The longest datagram that reaches all of these in one piece.
pub(crate) fn packet_bytes(mut addresses: impl Iterator<Item = IpAddr>) -> usize {
    if addresses.all(|ip| ip.is_loopback()) { LOOPBACK_BYTES } else { ETHERNET_BYTES }
}

/// The time, for time-outs.
pub(crate) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn system(call: &'static str, error: &std::io::Error) -> Error {
    Error::System { call, errno: error.raw_os_error().unwrap_or(0) }
}
