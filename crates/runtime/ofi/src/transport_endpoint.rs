//! An endpoint of libfabric as a transport endpoint of the nic fabric: messages between ports and
//! agents, and, beside them, direct operations on far memory and the registrations that these need.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use farside_fabric::{Error, Mapped, Node, Rank, Result, SegmentId};
use farside_nic::{
    Address, Direct, MemoryRegistration, Notice, Owed, PeerAddress, Registration, TransportEndpoint,
};
use rustc_hash::FxHashMap;
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::device::{Device, Registered};
use crate::ffi::Posted;
use crate::queue::{Event, Queue, Sizes};
use crate::transfers::{Far, FarAtomic, Part, Start, Transfers};
use farside_fabric::lock::lock;

/// A function that takes a message as soon as it is there.
type Taker<'a> = &'a mut dyn FnMut(&[u8]);

/// The length of the longest message: the argument or the answer of a call.
const MESSAGE_BYTES: usize = 64 << 10;
/// The length of messages that gather operations: what providers send without a rendezvous.
pub(crate) const PACKET_BYTES: usize = 16 << 10;
/// The length of the longest operation on far memory; longer ones are split.
pub(crate) const STAGE_BYTES: usize = 64 << 10;
/// The number of messages that may arrive before the endpoint is polled.
const RECEIVES: usize = 32;
/// The number of messages that may wait until the provider takes them. More get lost, and are
/// repeated.
const UNSENT_MAX: usize = 256;
/// The number of operations on far memory that may be under way.
const UNDER_WAY_MAX: usize = 64;
/// The number of parts of queued transfers that are started at a time: each is copied first.
const STARTS: usize = 8;
/// The number of wakeups that are taken at a time: anybody may send some.
const WAKEUPS_AT_ONCE: usize = 64;
/// The longest sleep on providers without a file to poll.
const POLL_INTERVAL: Duration = Duration::from_micros(100);
/// The longest sleep while something waits for the provider to take it.
const RETRY_INTERVAL: Duration = Duration::from_micros(500);
/// Segments of so many bytes are registered by the agent itself, in milliseconds.
const AT_ONCE_BYTES: u64 = 4_194_304;

pub(crate) struct OfiTransportEndpoint {
    pub(crate) queue: Queue,
    ip: IpAddr,
    address: Vec<u8>,
    /// The wakeup socket, for other processes of this host.
    wakeup: UdpSocket,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    inbox: VecDeque<Vec<u8>>,
    unsent: VecDeque<(u64, Vec<u8>)>,
    peers: FxHashMap<Vec<u8>, u64>,
    transfers: Transfers,
    /// Whether the provider, or the limit on what is under way, holds queued transfers back.
    is_stalled: bool,
}

impl OfiTransportEndpoint {
    pub(crate) fn open(device: &Arc<Device>, ip: IpAddr) -> Result<OfiTransportEndpoint> {
        let sizes =
            Sizes { message_bytes: MESSAGE_BYTES, receives: RECEIVES, stage_bytes: STAGE_BYTES };
        let queue = Queue::open(device, &sizes)?;
        let address = queue.endpoint().address()?;
        let system = |call: &'static str| {
            move |error: std::io::Error| Error::System {
                call,
                errno: error.raw_os_error().unwrap_or(0),
            }
        };
        let wakeup = UdpSocket::bind((ip, 0))
            .map_err(system("binding a UDP socket to the node's address"))?;
        wakeup.set_nonblocking(true).map_err(system("making a socket non-blocking"))?;
        Ok(OfiTransportEndpoint { queue, ip, address, wakeup, state: Mutex::default() })
    }

    /// Lets the provider progress. `take` gets the first message that it brings, without a copy.
    fn poll(&self, mut take: Option<Taker<'_>>) -> bool {
        let mut state = lock(&self.state);
        state.send_again(&self.queue);
        let came = {
            let state = &mut *state;
            self.queue.poll(|event| match event {
                Event::Message(bytes) => match take.take() {
                    Some(take) if state.inbox.is_empty() => take(bytes),
                    _ => state.inbox.push_back(bytes.to_vec()),
                },
                Event::Done(tag, bytes) => state.transfers.settle(tag, Ok(bytes)),
                Event::Failed(tag, error) => state.transfers.settle(tag, Err(error)),
            })
        };
        state.start_queued(&self.queue, STARTS);
        came
    }

    pub(crate) fn has_room(&self) -> bool {
        lock(&self.state).has_room()
    }

    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut Transfers) -> R) -> R {
        act(&mut lock(&self.state).transfers)
    }

    /// Starts a part of a write. Returns false if it must be tried again later.
    pub(crate) fn write(&self, write: u64, to: Far, bytes: &[u8]) -> Result<bool> {
        let transfers = &mut lock(&self.state).transfers;
        let tag = transfers.tag();
        let posted = self.queue.write(to.remote(), bytes, tag);
        transfers.started(tag, Part::Write(write), posted)
    }

    /// Starts an atomic, whose old value completes the ticket. Returns false if it must be tried
    /// again later.
    pub(crate) fn atomic(&self, ticket: Option<u64>, to: Far, atomic: FarAtomic) -> Result<bool> {
        let transfers = &mut lock(&self.state).transfers;
        let tag = transfers.tag();
        let posted = self.queue.atomic(to.remote(), atomic.at.width, atomic.op, tag);
        let part = ticket.map_or(Part::Post(atomic), |ticket| Part::Word(ticket, atomic));
        transfers.started(tag, part, posted)
    }

    /// Begins a get or a put without waiting: starts its first part if that is possible.
    pub(crate) fn begin(&self, begin: impl FnOnce(&mut Transfers) -> u64) -> u64 {
        let mut state = lock(&self.state);
        let ticket = begin(&mut state.transfers);
        state.start_queued(&self.queue, 1);
        ticket
    }
}

impl State {
    fn has_room(&self) -> bool {
        self.transfers.under_way() < UNDER_WAY_MAX
    }

    fn start_queued(&mut self, queue: &Queue, most: usize) {
        self.is_stalled = false;
        let mut busy = Vec::new();
        for _ in 0..most {
            if !self.transfers.has_queued() {
                return;
            }
            self.is_stalled = !self.has_room()
                || !self.transfers.start_next(STAGE_BYTES, &mut busy, |to, part, tag| match part {
                    Start::Write(bytes) => queue.write(to.remote(), bytes, tag),
                    Start::Read(bytes) => queue.read(to.remote(), bytes, tag),
                });
            if self.is_stalled {
                return;
            }
        }
    }

    /// Sends the messages that the provider has not taken, in order for each peer.
    fn send_again(&mut self, queue: &Queue) {
        if self.unsent.is_empty() {
            return;
        }
        let mut busy: Vec<u64> = Vec::new();
        self.unsent.retain(|(to, packet)| {
            if busy.contains(to) {
                return true;
            }
            let is_busy = queue.send(*to, packet, &[]) == Posted::Busy;
            if is_busy {
                busy.push(*to);
            }
            is_busy
        });
    }
}

impl TransportEndpoint for OfiTransportEndpoint {
    fn address(&self) -> Result<Address> {
        Address::new(self.ip, &self.address)
    }

    fn resolve(&self, to: &Address) -> Result<PeerAddress> {
        let mut state = lock(&self.state);
        if let Some(&peer) = state.peers.get(to.bytes()) {
            return Ok(PeerAddress::Entry(peer));
        }
        let peer = self.queue.endpoint().insert(to.bytes())?;
        state.peers.insert(to.bytes().to_vec(), peer);
        Ok(PeerAddress::Entry(peer))
    }

    fn send(&self, to: PeerAddress, head: &[u8], rest: &[u8]) {
        let PeerAddress::Entry(to) = to else { return };
        let mut state = lock(&self.state);
        state.send_again(&self.queue);
        let waits = state.unsent.iter().any(|(other, _)| *other == to);
        if waits || self.queue.send(to, head, rest) == Posted::Busy {
            if state.unsent.len() >= UNSENT_MAX {
                state.unsent.pop_front();
            }
            state.unsent.push_back((to, [head, rest].concat()));
        }
    }

    fn receive(&self, into: &mut [u8]) -> Option<usize> {
        let mut put = |bytes: &[u8]| {
            let length = bytes.len().min(into.len());
            into[..length].copy_from_slice(&bytes[..length]);
            length
        };
        if let Some(message) = lock(&self.state).inbox.pop_front() {
            return Some(put(&message));
        }
        let mut length = None;
        self.poll(Some(&mut |bytes: &[u8]| length = Some(put(bytes))));
        length
    }

    fn sleep(&self, timeout: Duration) {
        let (has_work, has_unsent) = {
            let state = lock(&self.state);
            let is_startable = state.transfers.has_queued() && !state.is_stalled;
            (!state.inbox.is_empty() || is_startable, !state.unsent.is_empty() || state.is_stalled)
        };
        if has_work {
            return;
        }
        let timeout = if has_unsent { timeout.min(RETRY_INTERVAL) } else { timeout };
        let mut fds = vec![PollFd::new(&self.wakeup, PollFlags::IN)];
        let timeout = if self.queue.has_wait_fd() {
            // Without a file, something has completed since the last poll.
            let Some(fd) = self.queue.wait_fd() else { return };
            fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
            timeout
        } else {
            timeout.min(POLL_INTERVAL)
        };
        let timeout = Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        // After an error, as after a time-out, the caller polls again.
        let _ = rustix::event::poll(&mut fds, Some(&timeout));
        let was_woken = fds[0].revents().contains(PollFlags::IN);
        if was_woken {
            for _ in 0..WAKEUPS_AT_ONCE {
                if self.wakeup.recv(&mut [0; 8]).is_err() {
                    break;
                }
            }
        }
    }

    fn wakeup_address(&self) -> Result<SocketAddr> {
        let refused = |error: std::io::Error| Error::System {
            call: "reading a socket's address",
            errno: error.raw_os_error().unwrap_or(0),
        };
        self.wakeup.local_addr().map_err(refused)
    }

    fn wake(&self, wakeup: SocketAddr) {
        // A sleep has a time limit, so a lost wakeup delays and does not hang.
        let _ = self.wakeup.send_to(&[], wakeup);
    }

    fn direct(&self) -> Option<&dyn Direct> {
        Some(self)
    }

    fn memory_registration(self: Arc<Self>) -> Option<Box<dyn MemoryRegistration>> {
        Some(Box::new(Registrations { endpoint: self, known: FxHashMap::default() }))
    }
}

impl Direct for OfiTransportEndpoint {
    fn is_busy(&self) -> bool {
        let state = lock(&self.state);
        !state.unsent.is_empty() || state.transfers.is_busy()
    }

    fn owed(&self) -> Owed {
        lock(&self.state).transfers.owed()
    }

    fn has_notices(&self) -> bool {
        lock(&self.state).transfers.has_notices()
    }

    fn take_notices(&self) -> Vec<(Node, Notice)> {
        lock(&self.state).transfers.take_notices()
    }

    fn ends(&self) -> u64 {
        lock(&self.state).transfers.ends()
    }

    fn is_over(&self, transfer: u64) -> bool {
        lock(&self.state).transfers.is_done(transfer)
    }
}

/// The segments of a node that peers reach without its agent, or that the provider has refused.
struct Registrations {
    /// They are closed before the endpoint that they may be bound to.
    known: FxHashMap<(Rank, SegmentId), Known>,
    endpoint: Arc<OfiTransportEndpoint>,
}

/// How far a segment's registration has come.
enum Known {
    UnderWay(Receiver<Result<Registered>>),
    Registered(Registered),
    Refused,
}

impl Known {
    /// Takes in the outcome of a registration that was under way. A thread that has ended without
    /// one has not registered anything.
    fn look(&mut self) {
        let Known::UnderWay(outcome) = self else { return };
        *self = match outcome.try_recv() {
            Ok(Ok(registered)) => Known::Registered(registered),
            Ok(Err(_)) | Err(TryRecvError::Disconnected) => Known::Refused,
            Err(TryRecvError::Empty) => return,
        };
    }
}

impl Registrations {
    /// Begins a registration: where there is much memory, which the provider may pin, in a thread
    /// of its own.
    fn begin(&self, memory: Mapped) -> Known {
        let (send, outcome) = std::sync::mpsc::channel();
        let (endpoint, bytes) = (self.endpoint.clone(), memory.bytes());
        let register = move || {
            let queue = &endpoint.queue;
            // Nobody listens any more if the agent has ended.
            let _ = send.send(queue.device().register(memory, queue.endpoint()));
        };
        if bytes <= AT_ONCE_BYTES {
            register();
        } else {
            // A thread that cannot be started sends nothing.
            let _ = std::thread::Builder::new().name("farside-register".into()).spawn(register);
        }
        let mut begun = Known::UnderWay(outcome);
        begun.look();
        begun
    }
}

impl MemoryRegistration for Registrations {
    fn register(&mut self, rank: Rank, segment: SegmentId, memory: Mapped) -> Option<Registration> {
        if !self.known.contains_key(&(rank, segment)) {
            let begun = self.begin(memory);
            self.known.insert((rank, segment), begun);
        }
        let known = self.known.get_mut(&(rank, segment))?;
        known.look();
        match known {
            Known::UnderWay(_) => None,
            Known::Registered(registered) => Some(Registration::Key(registered.remote_key())),
            Known::Refused => Some(Registration::Refused),
        }
    }

    fn is_registering(&mut self, rank: Rank, segment: SegmentId) -> bool {
        let Some(known) = self.known.get_mut(&(rank, segment)) else { return false };
        known.look();
        matches!(known, Known::UnderWay(_))
    }

    fn deregister(&mut self, rank: Rank, segment: SegmentId) {
        self.known.remove(&(rank, segment));
    }
}
