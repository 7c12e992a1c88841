//! TCP streams beside the datagrams of an endpoint: they carry the packets that are too long for a
//! datagram of the path.
//!
//! Differs:   what a stream carries are the packets of the link, with their numbers and tags. The
//!            kernel's TCP adds segmentation, path MTU discovery, congestion control and pacing.
//! State:     for each stream 64 KiB of what arrives, and what the socket has not taken yet; one
//!            epoll instance for all.
//! Invariant: a stream gets packets for a peer only after a proof that it has the job's key; what
//!            is not a frame breaks the stream, and a broken stream's packets count as lost.
//! Cost:      one system call for each packet at either end, while both ends keep up; one or two,
//!            however many streams there are, when those that had something have no more, and after
//!            64 looks.
//! Checked:   `streams/tests.rs`, `tests/hostile_network`.

mod stream;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use rustix::event::epoll::{self, CreateFlags, Event};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::sockopt;

use self::stream::{GATHERED_BYTES, State, Stream};
use super::frames::{self, Arrived, Ends};
use super::seal::{StreamKey, random_bytes};
use super::{Carrier, PeerAddress, StreamSettings, Streams};
use crate::clock::now_ns;
use farside_fabric::lock::lock;

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
/// The number of new streams that are accepted at a look: a stranger who opens one after the other
/// has no more of the endpoint's time than this.
const ACCEPTED_AT_ONCE: u32 = 8;
/// The time for which nobody is let in after that has failed, for want of descriptors, say.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);
/// The number of streams that a look finds ready at most. The next look finds others first.
const READY_AT_ONCE: usize = 64;
/// Of so many descriptors that the process may have, streams of others take one: the process may be
/// the program of a user, who needs the rest.
const DESCRIPTORS_PER_STREAM: u64 = 4;
/// The time without a packet after which a stream makes room for another, where there are too many.
/// Nobody takes the stream of one that uses it: the other does with datagrams.
const IDLE_NS: u64 = 1_000_000_000;
/// The time without a packet after which a stream is closed.
const UNUSED_NS: u64 = 60_000_000_000;
/// The time without a packet after which no transfer begins on a stream: its peer may close it.
const STALE_NS: u64 = UNUSED_NS - IDLE_NS;
/// The time after which another stream is tried where one has failed.
const RETRY_AFTER: Duration = Duration::from_secs(1);

pub(super) struct TcpStreams {
    /// The address of the endpoint's UDP socket; a server listens at the same port.
    address: SocketAddr,
    is_enabled: AtomicBool,
    datagram_bytes: AtomicUsize,
    key: Mutex<Option<StreamKey>>,
    listener: Mutex<Option<Arc<TcpListener>>>,
    /// Tells how many streams may be open when others open more.
    open_max: fn() -> usize,
    list: Mutex<List>,
    /// Whether a stream has had something lately.
    is_hot: AtomicBool,
    looks: AtomicU32,
    /// How often a stream was worked on.
    #[cfg(test)]
    works: AtomicU32,
    /// How many descriptors were polled the last time.
    #[cfg(test)]
    polled: AtomicUsize,
}

#[derive(Default)]
struct List {
    /// In the order of their numbers.
    streams: Vec<Arc<Stream>>,
    /// What all of them are waited for with; there is none before the first stream.
    events: Option<Arc<OwnedFd>>,
    /// The latest open stream to each peer: one that has lost its end opens another.
    open: FxHashMap<SocketAddr, Arc<Stream>>,
    /// The streams that may have something, in the order of their turns.
    ready: VecDeque<Arc<Stream>>,
    /// The number of streams there have been.
    count: u64,
    /// The number of frames that the stream whose turn it is has had.
    frames: u32,
    /// The number of looks in a row that have found nothing.
    misses: u32,
    failed: Vec<(SocketAddr, Instant)>,
    /// When the next stream may be accepted, after that has failed.
    accepts_from: Option<Instant>,
    /// No stream expires before this.
    expires: Option<Instant>,
}

impl List {
    /// Removes a stream, which nobody uses from then on. Returns its state.
    fn remove(&mut self, stream: &Arc<Stream>) -> State {
        stream.unwatch();
        self.streams.retain(|other| !Arc::ptr_eq(other, stream));
        self.ready.retain(|other| !Arc::ptr_eq(other, stream));
        self.open.retain(|_, other| !Arc::ptr_eq(other, stream));
        std::mem::replace(&mut *lock(&stream.state), State::Broken)
    }

    /// Notes that a stream has come further. Returns false if it was removed meanwhile.
    fn advance(&mut self, stream: &Arc<Stream>, to: State) -> bool {
        let is_there = self.streams.iter().any(|other| Arc::ptr_eq(other, stream));
        if is_there {
            *lock(&stream.state) = to;
            if let State::Open(peer) = to {
                self.open.insert(peer, stream.clone());
            }
        }
        is_there
    }

    /// Notes which streams may have something.
    fn note_events(&mut self) {
        let mut room = [MaybeUninit::<Event>::uninit(); READY_AT_ONCE];
        let Some(events) = &self.events else { return };
        // After an error, as after none, the caller looks again.
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let Ok((found, _)) = epoll::wait(events, &mut room, Some(&now)) else { return };
        for event in found {
            let number = event.data.u64();
            let at = self.streams.binary_search_by_key(&number, |it| it.carrier.number());
            if let Some(stream) = at.ok().map(|at| self.streams[at].clone()) {
                self.note_ready(&stream);
            }
        }
    }

    fn note_ready(&mut self, stream: &Arc<Stream>) {
        if !stream.is_ready.swap(true, Ordering::Relaxed) {
            self.ready.push_back(stream.clone());
        }
    }

    fn note_empty(&mut self, stream: &Arc<Stream>) {
        stream.is_ready.store(false, Ordering::Relaxed);
        self.ready.retain(|other| !Arc::ptr_eq(other, stream));
        self.frames = 0;
    }
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
            open_max,
            list: Mutex::default(),
            is_hot: AtomicBool::new(false),
            looks: AtomicU32::new(0),
            #[cfg(test)]
            works: AtomicU32::new(0),
            #[cfg(test)]
            polled: AtomicUsize::new(0),
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
        lock(&self.list).open.get(&peer).cloned()
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
        if !self.is_hot.load(Ordering::Relaxed) {
            return false;
        }
        if self.take_turns(take) {
            return true;
        }
        self.poll(None, Duration::ZERO);
        self.take_turns(take) || self.note_miss()
    }

    /// Lets the streams that are ready give a packet in turns. One that has nothing is not ready
    /// any more, until a poll says so.
    #[cold]
    fn take_turns(&self, take: &mut dyn FnMut(&[u8], Carrier)) -> bool {
        loop {
            let Some(stream) = self.next_ready() else { return false };
            match self.work(&stream, take) {
                Arrived::Whole => {
                    stream.mark_used();
                    lock(&self.list).misses = 0;
                    return true;
                }
                Arrived::Part => lock(&self.list).note_empty(&stream),
                Arrived::Broken => self.forget(&stream),
            }
        }
    }

    fn next_ready(&self) -> Option<Arc<Stream>> {
        let mut list = lock(&self.list);
        list.frames += 1;
        if list.frames > FRAMES_PER_TURN {
            list.frames = 1;
            if let Some(first) = list.ready.pop_front() {
                list.ready.push_back(first);
            }
        }
        list.ready.front().cloned()
    }

    fn note_miss(&self) -> bool {
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
        #[cfg(test)]
        self.works.fetch_add(1, Ordering::Relaxed);
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
                let (arrived, bytes) = inbox.read_greeting(&mut socket);
                let next = match arrived {
                    Arrived::Whole => match self.check(stream, random, bytes) {
                        Some(peer) if self.make_room(true) => State::Open(peer),
                        _ => return Arrived::Broken,
                    },
                    _ => state,
                };
                (arrived, next)
            }
        };
        if next != state {
            if !lock(&self.list).advance(stream, next) {
                return Arrived::Broken;
            }
            if arrived == Arrived::Whole {
                inbox.clear();
            }
            drop(inbox);
            return self.work(stream, take);
        }
        arrived
    }

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

    /// Accepts streams that others have opened, and challenges them.
    fn accept(&self) {
        let Some(listener) = lock(&self.listener).clone() else { return };
        for _ in 0..ACCEPTED_AT_ONCE {
            let socket = match listener.accept() {
                Ok((socket, _)) => socket,
                // The peer has gone away meanwhile.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                Err(error) => return self.note_refusal(&error),
            };
            // It is told at once, and not after its proof: it tries again later.
            if !self.make_room(false) {
                continue;
            }
            let Ok(random) = random_bytes() else { return };
            let Some(stream) = self.add(socket, State::AwaitsProof(random)) else { continue };
            if !stream.send_raw(&frames::challenge(random)) {
                self.forget(&stream);
            }
            let mut list = lock(&self.list);
            let is_unproven =
                |stream: &Arc<Stream>| matches!(*lock(&stream.state), State::AwaitsProof(_));
            if list.streams.iter().filter(|stream| is_unproven(stream)).count() > UNPROVEN_MAX
                && let Some(oldest) = list.streams.iter().find(|it| is_unproven(it)).cloned()
            {
                list.remove(&oldest);
            }
        }
    }

    /// The system does not let a stream in. One that waits would end every sleep at once.
    fn note_refusal(&self, error: &std::io::Error) {
        if error.kind() != ErrorKind::WouldBlock {
            lock(&self.list).accepts_from = Some(Instant::now() + ACCEPT_PAUSE);
        }
    }

    /// Returns whether there is room for one more stream of another. If it `is_proven`, the stream
    /// that has been idle for longest makes room.
    fn make_room(&self, is_proven: bool) -> bool {
        let mut list = lock(&self.list);
        let is_open = |stream: &Arc<Stream>| matches!(*lock(&stream.state), State::Open(_));
        let open = list.streams.iter().filter(|stream| is_open(stream)).count();
        if open < (self.open_max)() {
            return true;
        }
        let now_ns = now_ns();
        let is_idle = |stream: &Stream| stream.idle_ns(now_ns) >= IDLE_NS && stream.has_sent_all();
        let idle = list.streams.iter().filter(|it| is_open(it) && is_idle(it));
        let Some(longest) = idle.max_by_key(|stream| stream.idle_ns(now_ns)).cloned() else {
            return false;
        };
        if is_proven {
            list.remove(&longest);
        }
        true
    }

    /// Adds a stream over a connected socket, or one that is being connected.
    fn add(&self, socket: TcpStream, state: State) -> Option<Arc<Stream>> {
        let mut list = lock(&self.list);
        if list.events.is_none() {
            list.events = Some(Arc::new(epoll::create(CreateFlags::CLOEXEC).ok()?));
        }
        list.count += 1;
        let (carrier, events) = (Carrier::stream(list.count), list.events.clone()?);
        let stream = Arc::new(Stream::new(carrier, socket, state, events)?);
        list.expires = list.expires.into_iter().chain(stream.greeting_ends()).min();
        list.streams.push(stream.clone());
        list.note_ready(&stream);
        self.is_hot.store(true, Ordering::Relaxed);
        Some(stream)
    }

    /// Drops the streams whose peers have not said in time what they must, and those that nobody
    /// has used for long: they are opened again when they are needed. Returns when the next one is
    /// due.
    fn expire(&self) -> Option<Instant> {
        let now = Instant::now();
        let (late, next) = {
            let mut list = lock(&self.list);
            if list.expires.is_none_or(|expires| expires > now) {
                return list.expires;
            }
            let now_ns = now_ns();
            let (mut late, mut next) = (Vec::new(), None::<Instant>);
            for stream in &list.streams {
                let end = stream.greeting_ends().unwrap_or_else(|| {
                    let left_ns = UNUSED_NS.saturating_sub(stream.idle_ns(now_ns));
                    // One that has not sent all is looked at again.
                    let least_ns = if stream.has_sent_all() { 0 } else { IDLE_NS };
                    now + Duration::from_nanos(left_ns.max(least_ns))
                });
                if end <= now {
                    late.push(stream.clone());
                } else {
                    next = next.into_iter().chain([end]).min();
                }
            }
            list.expires = next;
            (late, next)
        };
        late.iter().for_each(|stream| self.forget(stream));
        next
    }

    /// Drops a stream that is broken.
    fn forget(&self, stream: &Arc<Stream>) {
        let mut list = lock(&self.list);
        let state = list.remove(stream);
        // One that was open is opened again at once.
        if let State::Connecting(peer) | State::AwaitsChallenge(peer) = state {
            list.failed.retain(|(other, _)| *other != peer);
            list.failed.push((peer, Instant::now()));
        }
    }

    /// Sleeps until something may have arrived at a stream, or beside them at the UDP socket, or
    /// the time is up. Accepts new streams.
    pub(super) fn poll(&self, beside: Option<&std::net::UdpSocket>, timeout: Duration) {
        let now = Instant::now();
        let late = self.expire();
        let (events, paused) = {
            let mut list = lock(&self.list);
            list.accepts_from = list.accepts_from.filter(|&from| from > now);
            (list.events.clone().filter(|_| !list.streams.is_empty()), list.accepts_from)
        };
        let listener = lock(&self.listener).clone().filter(|_| paused.is_none());
        if beside.is_none() && listener.is_none() && events.is_none() {
            return;
        }
        let mut fds: Vec<PollFd<'_>> = Vec::with_capacity(3);
        fds.extend(beside.map(|socket| PollFd::new(socket, PollFlags::IN)));
        let own = fds.len();
        fds.extend(listener.as_ref().map(|listener| PollFd::new(&**listener, PollFlags::IN)));
        fds.extend(events.as_ref().map(|events| PollFd::new(&**events, PollFlags::IN)));
        #[cfg(test)]
        self.polled.store(fds.len(), Ordering::Relaxed);
        let due = late.into_iter().chain(paused).min();
        let timeout = due.map_or(timeout, |due| timeout.min(due.duration_since(now)));
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
        let has_events = events.is_some() && fds.last().is_some_and(is_ready);
        drop(fds);
        if has_events {
            lock(&self.list).note_events();
        }
        if is_called {
            self.accept();
        }
        self.expire();
    }
}

impl Streams for TcpStreams {
    fn to(&self, peer: PeerAddress) -> Carrier {
        let PeerAddress::Socket(peer) = peer else { return Carrier::DATAGRAM };
        self.open_to(peer).map_or(Carrier::DATAGRAM, |stream| stream.carrier)
    }

    fn open(&self, peer: PeerAddress) -> bool {
        let PeerAddress::Socket(peer) = peer else { return false };
        // One that nobody has used for long is or will be closed, by the peer or here.
        let now_ns = now_ns();
        if self.open_to(peer).is_some_and(|stream| stream.idle_ns(now_ns) < STALE_NS) {
            return false;
        }
        let is_stale = |stream: &&Arc<Stream>| {
            stream.idle_ns(now_ns) >= STALE_NS && *lock(&stream.state) == State::Open(peer)
        };
        let stale: Vec<_> = lock(&self.list).streams.iter().filter(is_stale).cloned().collect();
        stale.iter().for_each(|stream| self.forget(stream));
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
        let socket = stream::connect(self.address.ip(), peer);
        let added = socket.and_then(|socket| self.add(socket, State::Connecting(peer)));
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
            Some(stream) => stream.has_sent_all(),
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

/// Returns how many streams the process has descriptors for.
fn open_max() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let streams = limit.map_or(u64::MAX, |limit| limit / DESCRIPTORS_PER_STREAM);
    usize::try_from(streams).unwrap_or(usize::MAX)
}
