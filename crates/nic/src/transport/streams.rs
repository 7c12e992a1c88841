//! TCP streams beside the datagrams of an endpoint: they carry the packets that are too long for a
//! datagram of the path.
//!
//! Differs:   what a stream carries are the packets of the link, with their numbers and tags. The
//!            kernel's TCP adds segmentation, path MTU discovery, congestion control and pacing.
//! State:     for each stream 64 KiB of what arrives, and what the socket has not taken yet.
//! Invariant: a stream gets packets for a peer only after a proof that it has the job's key; what
//!            is not a frame breaks the stream, and a broken stream's packets count as lost.
//! Cost:      one system call for each packet at either end, while both ends keep up.
//! Checked:   `tests/streams`, `tests/hostile_streams`.

use std::io::IoSlice;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType, sendmsg, sockopt,
};

use super::frames::{self, Arrived, Ends, Inbox};
use super::seal::{StreamKey, random_bytes};
use super::{Carrier, PeerAddress, StreamSettings, Streams, tcp};
use crate::lock::lock;

/// While no stream is in use, the endpoint looks at its streams once in so many looks.
const LOOKS_PER_POLL: u32 = 8;
/// While streams are in use, the endpoint looks for new streams once in so many looks.
const LOOKS_PER_ACCEPT: u32 = 64;
/// After so many looks at all streams that have found nothing, they count as not in use.
const MISSES_MAX: u32 = 16;
/// The number of frames that are taken from one stream before the next stream has its turn.
const FRAMES_PER_TURN: u32 = 4;
/// The number of streams without a proof at a server: one more closes the oldest.
const UNPROVEN_MAX: usize = 32;
/// The time for the proof.
const PROOF_TIMEOUT: Duration = Duration::from_secs(5);
/// The time after which another stream is tried where one has failed.
const RETRY_AFTER: Duration = Duration::from_secs(1);
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
const GATHERED_BYTES: usize = 1 << 10;
/// So many gathered bytes are sent although more are to come.
const GATHERED_TOTAL_BYTES: usize = 1 << 14;
/// The size of a socket's send buffer, where the system grants it.
const SEND_BUFFER_BYTES: usize = 4 << 20;

/// The streams of one endpoint.
pub(super) struct TcpStreams {
    /// The address of the endpoint's UDP socket; a server listens at the same port.
    address: SocketAddr,
    is_enabled: AtomicBool,
    datagram_bytes: AtomicUsize,
    key: Mutex<Option<StreamKey>>,
    listener: Mutex<Option<Arc<TcpListener>>>,
    list: Mutex<List>,
    /// Whether a stream has had something lately.
    is_hot: AtomicBool,
    looks: AtomicU32,
}

#[derive(Default)]
struct List {
    streams: Vec<Arc<Stream>>,
    /// The number of streams there have been.
    count: u64,
    /// The stream whose turn it is, and the number of frames that it has had.
    turn: usize,
    frames: u32,
    /// The number of looks in a row that have found nothing.
    misses: u32,
    /// Where and when a stream has failed.
    failed: Vec<(SocketAddr, Instant)>,
}

/// One stream.
struct Stream {
    carrier: Carrier,
    socket: TcpStream,
    since: Instant,
    state: Mutex<State>,
    inbox: Mutex<Inbox>,
    outbox: Mutex<Outbox>,
}

/// How far a stream has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The connection to this peer is being made.
    Connecting(SocketAddr),
    /// The challenge of this peer is awaited.
    AwaitsChallenge(SocketAddr),
    /// The proof that answers this challenge is awaited.
    AwaitsProof([u8; 16]),
    /// It carries packets to and from this peer.
    Open(SocketAddr),
    Broken,
}

/// What the socket has not taken.
#[derive(Default)]
struct Outbox {
    bytes: Vec<u8>,
    /// The number of bytes that it has taken meanwhile.
    gone: usize,
}

impl TcpStreams {
    /// Makes the streams of the endpoint with this UDP socket's address; a server has a listener.
    pub(super) fn new(address: SocketAddr, listener: Option<TcpListener>) -> TcpStreams {
        TcpStreams {
            address,
            is_enabled: AtomicBool::new(false),
            datagram_bytes: AtomicUsize::new(usize::MAX),
            key: Mutex::new(None),
            listener: Mutex::new(listener.map(Arc::new)),
            list: Mutex::default(),
            is_hot: AtomicBool::new(false),
            looks: AtomicU32::new(0),
        }
    }

    /// Begins to carry packets. Where every packet fits into a datagram, no stream is needed.
    pub(super) fn enable(&self, settings: StreamSettings<'_>) {
        if settings.datagram_bytes >= crate::transport::LONG_PACKET_BYTES {
            *lock(&self.listener) = None;
            return;
        }
        *lock(&self.key) = Some(settings.key.stream_key());
        self.datagram_bytes.store(settings.datagram_bytes, Ordering::Relaxed);
        self.is_enabled.store(true, Ordering::Release);
    }

    #[inline]
    pub(super) fn is_enabled(&self) -> bool {
        self.is_enabled.load(Ordering::Acquire)
    }

    /// Sends a packet by the open stream to a peer. Returns that, or nothing if there is none. If
    /// there is more to come, a short one may wait for [`Streams::flush`].
    pub(super) fn send(
        &self,
        to: SocketAddr,
        head: &[u8],
        rest: &[u8],
        has_more: bool,
    ) -> Option<Carrier> {
        let stream = self.open_to(to)?;
        let is_gathered = has_more && head.len() + rest.len() <= GATHERED_BYTES;
        if if is_gathered { stream.gather(head, rest) } else { stream.send(head, rest) } {
            return Some(stream.carrier);
        }
        self.forget(&stream);
        None
    }

    /// Returns whether a packet of this length goes by a stream, if there is one.
    #[inline]
    pub(super) fn is_long(&self, bytes: usize) -> bool {
        self.is_enabled() && bytes > self.datagram_bytes.load(Ordering::Relaxed)
    }

    fn open_to(&self, peer: SocketAddr) -> Option<Arc<Stream>> {
        let list = lock(&self.list);
        // The latest one counts: a peer that has lost its end opens another.
        let is_it = |stream: &&Arc<Stream>| *lock(&stream.state) == State::Open(peer);
        list.streams.iter().rev().find(is_it).cloned()
    }

    /// Calls `take` with the next packet that has arrived by a stream. Returns whether there was
    /// one.
    #[inline]
    pub(super) fn deliver(&self, take: &mut dyn FnMut(&[u8], Carrier)) -> bool {
        if !self.is_enabled() {
            return false;
        }
        let is_hot = self.is_hot.load(Ordering::Relaxed);
        let look = self.looks.load(Ordering::Relaxed).wrapping_add(1);
        self.looks.store(look, Ordering::Relaxed);
        let interval = if is_hot { LOOKS_PER_ACCEPT } else { LOOKS_PER_POLL };
        if look.is_multiple_of(interval) {
            self.poll(None, Duration::ZERO);
        }
        self.is_hot.load(Ordering::Relaxed) && self.take_turns(take)
    }

    /// Lets the streams give a packet in turns.
    #[cold]
    fn take_turns(&self, take: &mut dyn FnMut(&[u8], Carrier)) -> bool {
        let (streams, first) = {
            let mut list = lock(&self.list);
            list.frames += 1;
            if list.frames > FRAMES_PER_TURN {
                (list.frames, list.turn) = (1, list.turn.wrapping_add(1));
            }
            (list.streams.clone(), list.turn)
        };
        for at in 0..streams.len() {
            let stream = &streams[first.wrapping_add(at) % streams.len()];
            match self.work(stream, take) {
                Arrived::Whole => {
                    lock(&self.list).misses = 0;
                    return true;
                }
                Arrived::Part => {}
                Arrived::Broken => self.forget(stream),
            }
        }
        let mut list = lock(&self.list);
        list.misses += 1;
        if list.misses >= MISSES_MAX {
            list.misses = 0;
            self.is_hot.store(false, Ordering::Relaxed);
        }
        false
    }

    /// Does what a stream can do now; `Whole` says that it gave a packet.
    fn work(&self, stream: &Arc<Stream>, take: &mut dyn FnMut(&[u8], Carrier)) -> Arrived {
        if !stream.flush() {
            return Arrived::Broken;
        }
        let state = *lock(&stream.state);
        let (mut inbox, mut socket) = (lock(&stream.inbox), &stream.socket);
        let (arrived, next) = match state {
            State::Open(_) => {
                let carrier = stream.carrier;
                return inbox.read_frame(&mut socket, &mut |packet| take(packet, carrier));
            }
            State::Broken => return Arrived::Broken,
            State::Connecting(peer) => match sockopt::socket_error(&stream.socket) {
                Ok(Ok(())) if stream.socket.peer_addr().is_ok() => {
                    (Arrived::Part, State::AwaitsChallenge(peer))
                }
                Ok(Ok(())) => (Arrived::Part, state),
                _ => return Arrived::Broken,
            },
            State::AwaitsChallenge(peer) => {
                let (arrived, bytes) = inbox.read_greeting(&mut socket);
                let next = match arrived {
                    Arrived::Whole => match self.prove(stream, peer, bytes) {
                        true => State::Open(peer),
                        false => return Arrived::Broken,
                    },
                    _ => state,
                };
                (arrived, next)
            }
            State::AwaitsProof(random) => {
                if stream.since.elapsed() > PROOF_TIMEOUT {
                    return Arrived::Broken;
                }
                let (arrived, bytes) = inbox.read_greeting(&mut socket);
                let next = match arrived {
                    Arrived::Whole => match self.check(stream, random, bytes) {
                        Some(peer) => State::Open(peer),
                        None => return Arrived::Broken,
                    },
                    _ => state,
                };
                (arrived, next)
            }
        };
        if next != state {
            *lock(&stream.state) = next;
            if arrived == Arrived::Whole {
                inbox.clear();
            }
            drop(inbox);
            return self.work(stream, take);
        }
        arrived
    }

    /// Answers the challenge of a server.
    fn prove(&self, stream: &Stream, peer: SocketAddr, bytes: &[u8]) -> bool {
        let (Ok(random), Some(key)) = (frames::parse_challenge(bytes), &*lock(&self.key)) else {
            return false;
        };
        let ends = Ends { client_port: self.address.port(), server_port: peer.port() };
        stream.send_raw(&frames::proof(key, random, ends))
    }

    /// Checks the answer to a challenge, and returns the UDP address of the peer.
    fn check(&self, stream: &Stream, random: [u8; 16], bytes: &[u8]) -> Option<SocketAddr> {
        let key = lock(&self.key);
        let port = frames::check_proof(key.as_ref()?, random, self.address.port(), bytes).ok()?;
        Some(SocketAddr::new(stream.socket.peer_addr().ok()?.ip(), port))
    }

    /// Accepts the streams that others have opened, and challenges them.
    fn accept(&self) {
        let Some(listener) = lock(&self.listener).clone() else { return };
        while let Ok((socket, _)) = listener.accept() {
            let Ok(random) = random_bytes() else { return };
            let Some(stream) = self.add(socket, State::AwaitsProof(random)) else { continue };
            if !stream.send_raw(&frames::challenge(random)) {
                self.forget(&stream);
            }
            let mut list = lock(&self.list);
            let is_unproven =
                |stream: &Arc<Stream>| matches!(*lock(&stream.state), State::AwaitsProof(_));
            if list.streams.iter().filter(|stream| is_unproven(stream)).count() > UNPROVEN_MAX
                && let Some(oldest) = list.streams.iter().position(is_unproven)
            {
                list.streams.remove(oldest);
            }
        }
    }

    /// Adds a stream over a connected socket, or one that is being connected.
    fn add(&self, socket: TcpStream, state: State) -> Option<Arc<Stream>> {
        socket.set_nonblocking(true).ok()?;
        // Without these the stream works as well, only slower, or it breaks later.
        let _ = sockopt::set_tcp_nodelay(&socket, true);
        let _ = tcp::set_rto_min(&socket, REPEAT_AFTER_MIN);
        let _ = sockopt::set_tcp_user_timeout(&socket, SILENCE_MS);
        let _ = sockopt::set_tcp_keepidle(&socket, KEEPALIVE_AFTER);
        let _ = sockopt::set_socket_keepalive(&socket, true);
        let _ = sockopt::set_socket_send_buffer_size_force(&socket, SEND_BUFFER_BYTES);
        let mut list = lock(&self.list);
        list.count += 1;
        let stream = Arc::new(Stream {
            carrier: Carrier::stream(list.count),
            socket,
            since: Instant::now(),
            state: Mutex::new(state),
            inbox: Mutex::new(Inbox::new()),
            outbox: Mutex::default(),
        });
        list.streams.push(stream.clone());
        self.is_hot.store(true, Ordering::Relaxed);
        Some(stream)
    }

    /// Drops a stream that is broken.
    fn forget(&self, stream: &Arc<Stream>) {
        let state = std::mem::replace(&mut *lock(&stream.state), State::Broken);
        let mut list = lock(&self.list);
        list.streams.retain(|other| !Arc::ptr_eq(other, stream));
        // One that was open is opened again at once.
        if let State::Connecting(peer) | State::AwaitsChallenge(peer) = state {
            list.failed.retain(|(other, _)| *other != peer);
            list.failed.push((peer, Instant::now()));
        }
    }

    /// Sleeps until something may have arrived at a stream, or beside them at the UDP socket, or
    /// the time is up. Accepts new streams.
    pub(super) fn poll(&self, beside: Option<&std::net::UdpSocket>, timeout: Duration) {
        let listener = lock(&self.listener).clone();
        let streams = lock(&self.list).streams.clone();
        if beside.is_none() && listener.is_none() && streams.is_empty() {
            return;
        }
        let mut fds: Vec<PollFd<'_>> = Vec::with_capacity(streams.len() + 2);
        fds.extend(beside.map(|socket| PollFd::new(socket, PollFlags::IN)));
        let own = fds.len();
        fds.extend(listener.as_ref().map(|listener| PollFd::new(&**listener, PollFlags::IN)));
        fds.extend(streams.iter().map(|stream| PollFd::new(&stream.socket, stream.awaits())));
        let timeout = Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        // After an error, as after a time-out, the caller looks again.
        let _ = rustix::event::poll(&mut fds, Some(&timeout));
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let is_called = listener.is_some() && fds.get(own).is_some_and(is_ready);
        if fds[own..].iter().any(is_ready) {
            self.is_hot.store(true, Ordering::Relaxed);
        }
        drop(fds);
        if is_called {
            self.accept();
        }
    }

    /// Begins to connect to a server.
    fn connect(&self, peer: SocketAddr) -> Option<TcpStream> {
        let family = if peer.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None).ok()?;
        // The server takes replies to where the stream comes from: the node's address.
        rustix::net::bind(&socket, &SocketAddr::new(self.address.ip(), 0)).ok()?;
        match rustix::net::connect(&socket, &peer) {
            Ok(()) | Err(Errno::INPROGRESS) => Some(TcpStream::from(socket)),
            Err(_) => None,
        }
    }
}

impl Streams for TcpStreams {
    fn to(&self, peer: PeerAddress) -> Carrier {
        let PeerAddress::Socket(peer) = peer else { return Carrier::DATAGRAM };
        self.open_to(peer).map_or(Carrier::DATAGRAM, |stream| stream.carrier)
    }

    fn open(&self, peer: PeerAddress) -> bool {
        let PeerAddress::Socket(peer) = peer else { return false };
        {
            let mut list = lock(&self.list);
            list.failed.retain(|(_, when)| when.elapsed() < RETRY_AFTER);
            if list.failed.iter().any(|(other, _)| *other == peer) {
                return false;
            }
            for stream in &list.streams {
                match *lock(&stream.state) {
                    State::Connecting(other) | State::AwaitsChallenge(other) if other == peer => {
                        return true;
                    }
                    State::Open(other) if other == peer => return false,
                    _ => {}
                }
            }
        }
        let stream = self.connect(peer);
        let added = stream.and_then(|socket| self.add(socket, State::Connecting(peer)));
        if added.is_none() {
            lock(&self.list).failed.push((peer, Instant::now()));
        }
        added.is_some()
    }

    fn has_room(&self, peer: PeerAddress) -> bool {
        let PeerAddress::Socket(peer) = peer else { return true };
        match self.open_to(peer) {
            Some(stream) if !stream.flush() => {
                self.forget(&stream);
                true
            }
            Some(stream) => lock(&stream.outbox).is_empty(),
            None => true,
        }
    }

    fn flush(&self, peer: PeerAddress) {
        let PeerAddress::Socket(peer) = peer else { return };
        if let Some(stream) = self.open_to(peer)
            && !stream.flush()
        {
            self.forget(&stream);
        }
    }
}

impl Stream {
    /// Returns what is awaited of its socket.
    fn awaits(&self) -> PollFlags {
        let is_connecting = matches!(*lock(&self.state), State::Connecting(_));
        if is_connecting {
            PollFlags::OUT
        } else if lock(&self.outbox).is_empty() {
            PollFlags::IN
        } else {
            PollFlags::IN | PollFlags::OUT
        }
    }

    /// Sends a packet as a frame. What the socket does not take waits; beyond a limit the packet is
    /// dropped. Returns false if the stream is broken.
    fn send(&self, head: &[u8], rest: &[u8]) -> bool {
        let frame_head = frames::frame_head(head.len() + rest.len());
        let mut outbox = lock(&self.outbox);
        if !outbox.flush(&self.socket) {
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
        true
    }

    /// Takes a packet that [`Stream::flush`] sends. Returns false if the stream is broken.
    fn gather(&self, head: &[u8], rest: &[u8]) -> bool {
        let frame_head = frames::frame_head(head.len() + rest.len());
        let mut outbox = lock(&self.outbox);
        if outbox.waiting() < BACKLOG_BYTES {
            [&frame_head[..], head, rest]
                .iter()
                .for_each(|part| outbox.bytes.extend_from_slice(part));
        }
        outbox.waiting() < GATHERED_TOTAL_BYTES || outbox.flush(&self.socket)
    }

    /// Sends a challenge or a proof.
    fn send_raw(&self, bytes: &[u8]) -> bool {
        let mut outbox = lock(&self.outbox);
        outbox.bytes.extend_from_slice(bytes);
        outbox.flush(&self.socket)
    }

    /// Sends what waits. Returns false if the stream is broken.
    fn flush(&self) -> bool {
        let mut outbox = lock(&self.outbox);
        let is_connecting = matches!(*lock(&self.state), State::Connecting(_));
        is_connecting || outbox.flush(&self.socket)
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
