//! One TCP stream: its socket, how far its greeting has come, and what its socket has not taken.

use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType, sendmsg, sockopt,
};

use super::super::frames::{self, Inbox};
use super::super::{Carrier, tcp};
use crate::clock::now_ns;
use farside_fabric::lock::lock;

pub(super) const PROOF_TIMEOUT: Duration = Duration::from_secs(5);
/// The time for a connection to a server, and its challenge.
const CHALLENGE_TIMEOUT: Duration = Duration::from_secs(1);
/// The time without an acknowledgement of the peer's kernel after which a stream breaks: packets
/// then go as datagrams, or by a new stream.
const SILENCE_MS: u32 = 5_000;
/// The shortest time after which the kernel repeats what is not acknowledged, where it can be told.
/// Its own 200 ms, which the loss of a transfer's last packet costs, are as long as hundreds of
/// transfers of 1 MiB. Datagrams wait for 4 ms at least.
const REPEAT_AFTER_MIN: Duration = Duration::from_millis(5);
/// The time without traffic after which the peer's kernel is asked whether it is there: the stream
/// of a host that is gone must not stay for ever.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(10);
/// The most bytes that wait for a socket: the replies to all open requests of a port, twice.
const BACKLOG_BYTES: usize = 8 << 20;
/// Packets of at most so many bytes are gathered while more are to come.
pub(super) const GATHERED_BYTES: usize = 1 << 10;
/// So many gathered bytes are sent although more are to come.
const GATHERED_TOTAL_BYTES: usize = 1 << 14;
/// The size of a socket's send buffer, where the system grants it.
const SEND_BUFFER_BYTES: usize = 4 << 20;

pub(super) struct Stream {
    pub(super) carrier: Carrier,
    pub(super) socket: TcpStream,
    pub(super) since: Instant,
    /// When a packet has last come or gone by it.
    used_ns: AtomicU64,
    /// Whether it is among those that may have something.
    pub(super) is_ready: AtomicBool,
    pub(super) state: Mutex<State>,
    pub(super) inbox: Mutex<Inbox>,
    outbox: Mutex<Outbox>,
    /// The epoll instance of all streams, which gives this one's number.
    events: Arc<OwnedFd>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Connecting(SocketAddr),
    AwaitsChallenge(SocketAddr),
    /// The proof that answers this challenge is awaited.
    AwaitsProof([u8; 16]),
    Open(SocketAddr),
    Broken,
}

/// What the socket has not taken.
struct Outbox {
    bytes: Vec<u8>,
    /// The number of bytes that it has taken meanwhile.
    gone: usize,
    /// Whether the socket's room is an event, as it is from the start: then it is connected.
    awaits_room: bool,
}

impl Stream {
    /// Makes a stream, whose events are from now on among `events`.
    pub(super) fn new(
        carrier: Carrier,
        socket: TcpStream,
        state: State,
        events: Arc<OwnedFd>,
    ) -> Option<Stream> {
        socket.set_nonblocking(true).ok()?;
        let number = EventData::new_u64(carrier.number());
        epoll::add(&events, &socket, number, EventFlags::IN | EventFlags::OUT).ok()?;
        // Without these the stream works as well, only slower, or it breaks later.
        let _ = sockopt::set_tcp_nodelay(&socket, true);
        let _ = tcp::set_rto_min(&socket, REPEAT_AFTER_MIN);
        let _ = sockopt::set_tcp_user_timeout(&socket, SILENCE_MS);
        let _ = sockopt::set_tcp_keepidle(&socket, KEEPALIVE_AFTER);
        let _ = sockopt::set_socket_keepalive(&socket, true);
        let _ = sockopt::set_socket_send_buffer_size_force(&socket, SEND_BUFFER_BYTES);
        Some(Stream {
            carrier,
            socket,
            since: Instant::now(),
            used_ns: AtomicU64::new(now_ns()),
            is_ready: AtomicBool::new(false),
            state: Mutex::new(state),
            inbox: Mutex::new(Inbox::new()),
            outbox: Mutex::new(Outbox { bytes: Vec::new(), gone: 0, awaits_room: true }),
            events,
        })
    }

    /// Ends its events. They would not end with the socket if a child of this process has a copy.
    pub(super) fn unwatch(&self) {
        let _ = epoll::delete(&self.events, &self.socket);
    }

    pub(super) fn mark_used(&self) {
        self.used_ns.store(now_ns(), Ordering::Relaxed);
    }

    pub(super) fn idle_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.used_ns.load(Ordering::Relaxed))
    }

    #[cfg(test)]
    pub(super) fn make_idle(&self, idle_ns: u64) {
        self.used_ns.store(now_ns() - idle_ns, Ordering::Relaxed);
    }

    /// Returns when the peer has had all the time for its part of the greeting.
    pub(super) fn greeting_ends(&self) -> Option<Instant> {
        match *lock(&self.state) {
            State::Connecting(_) | State::AwaitsChallenge(_) => {
                Some(self.since + CHALLENGE_TIMEOUT)
            }
            State::AwaitsProof(_) => Some(self.since + PROOF_TIMEOUT),
            State::Open(_) | State::Broken => None,
        }
    }

    pub(super) fn has_sent_all(&self) -> bool {
        lock(&self.outbox).is_empty()
    }

    /// Sends a packet as a frame. What the socket does not take waits; beyond a limit the packet is
    /// dropped. Returns false if the stream is broken.
    pub(super) fn send(&self, head: &[u8], rest: &[u8]) -> bool {
        self.mark_used();
        let frame_head = frames::frame_head(head.len() + rest.len());
        let mut outbox = lock(&self.outbox);
        if !self.flush_outbox(&mut outbox) {
            return false;
        }
        let parts = [&frame_head[..], head, rest];
        let length = parts.iter().map(|part| part.len()).sum::<usize>();
        if !outbox.is_empty() {
            if outbox.waiting() + length <= BACKLOG_BYTES {
                parts.iter().for_each(|part| outbox.bytes.extend_from_slice(part));
            }
            return true;
        }
        let Some(mut sent) = send_some(&self.socket, &parts.map(IoSlice::new)) else {
            return false;
        };
        for part in parts {
            outbox.bytes.extend_from_slice(&part[sent.min(part.len())..]);
            sent = sent.saturating_sub(part.len());
        }
        self.await_room(&mut outbox)
    }

    /// Takes a packet that [`Stream::flush`] sends. Returns false if the stream is broken.
    pub(super) fn gather(&self, head: &[u8], rest: &[u8]) -> bool {
        self.mark_used();
        let frame_head = frames::frame_head(head.len() + rest.len());
        let mut outbox = lock(&self.outbox);
        if outbox.waiting() < BACKLOG_BYTES {
            [&frame_head[..], head, rest]
                .iter()
                .for_each(|part| outbox.bytes.extend_from_slice(part));
        }
        outbox.waiting() < GATHERED_TOTAL_BYTES || self.flush_outbox(&mut outbox)
    }

    /// Sends a challenge or a proof.
    pub(super) fn send_raw(&self, bytes: &[u8]) -> bool {
        let mut outbox = lock(&self.outbox);
        outbox.bytes.extend_from_slice(bytes);
        self.flush_outbox(&mut outbox)
    }

    /// Sends what waits. Returns false if the stream is broken.
    pub(super) fn flush(&self) -> bool {
        let mut outbox = lock(&self.outbox);
        let is_connecting = matches!(*lock(&self.state), State::Connecting(_));
        is_connecting || self.flush_outbox(&mut outbox)
    }

    fn flush_outbox(&self, outbox: &mut Outbox) -> bool {
        outbox.flush(&self.socket) && self.await_room(outbox)
    }

    /// Lets the socket's room be an event exactly while something waits for it that the socket has
    /// refused: otherwise there is always room. Returns false if the stream is broken.
    fn await_room(&self, outbox: &mut Outbox) -> bool {
        let awaits_room = !outbox.is_empty();
        if std::mem::replace(&mut outbox.awaits_room, awaits_room) == awaits_room {
            return true;
        }
        let number = EventData::new_u64(self.carrier.number());
        let room = if awaits_room { EventFlags::OUT } else { EventFlags::empty() };
        epoll::modify(&self.events, &self.socket, number, EventFlags::IN | room).is_ok()
    }
}

impl Outbox {
    fn waiting(&self) -> usize {
        self.bytes.len() - self.gone
    }

    fn is_empty(&self) -> bool {
        self.waiting() == 0
    }

    /// Gives the socket what it takes. Returns false if that is broken.
    fn flush(&mut self, socket: &TcpStream) -> bool {
        while !self.is_empty() {
            match send_some(socket, &[IoSlice::new(&self.bytes[self.gone..])]) {
                None => return false,
                Some(0) => return true,
                Some(count) => self.gone += count,
            }
        }
        self.bytes.clear();
        self.gone = 0;
        true
    }
}

/// Begins to connect to a server.
pub(super) fn connect(from: IpAddr, server: SocketAddr) -> Option<TcpStream> {
    let family = if server.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None).ok()?;
    // The server takes replies to where the stream comes from: the node's address.
    rustix::net::bind(&socket, &SocketAddr::new(from, 0)).ok()?;
    match rustix::net::connect(&socket, &server) {
        Ok(()) | Err(Errno::INPROGRESS) => Some(TcpStream::from(socket)),
        Err(_) => None,
    }
}

/// Returns the number of bytes that the socket has taken; nothing if it is broken.
fn send_some(socket: &TcpStream, parts: &[IoSlice<'_>]) -> Option<usize> {
    // The program that this is a library of may end by SIGPIPE.
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    match sendmsg(socket.as_fd(), parts, &mut SendAncillaryBuffer::default(), flags) {
        Ok(count) => Some(count),
        Err(Errno::AGAIN | Errno::INTR) => Some(0),
        Err(_) => None,
    }
}
