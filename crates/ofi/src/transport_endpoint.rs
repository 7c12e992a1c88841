//! A line over libfabric: messages between ports and agents, and, beside them, operations on far
//! memory that ask no agent.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use farside_fabric::{Error, Node, Result};
use farside_nic::{Address, Direct, Line, Notice, Owed, Route};
use rustc_hash::FxHashMap;
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::device::Device;
use crate::queue::{Happened, Posted, Queue};
use crate::transfers::{Far, FarAtomic, Part, Start, Transfers};

/// Who takes a message as soon as it is there.
type Taker<'a> = &'a mut dyn FnMut(&[u8]);

/// The longest message: what a call may bring, or take.
const MESSAGE_BYTES: usize = 64 << 10;
/// How long messages are that gather operations: what providers carry without asking the receiver
/// first.
pub(crate) const PACKET_BYTES: usize = 16 << 10;
/// The longest operation on far memory; longer ones are several.
pub(crate) const STAGE_BYTES: usize = 64 << 10;
/// How many messages may arrive before anybody looks.
const RECEIVES: usize = 32;
/// How many messages may wait until the provider takes them. More are lost, and repeated.
const UNSENT_MAX: usize = 256;
/// How many operations on far memory may be under way.
const UNDER_WAY_MAX: usize = 64;
/// How many parts of queued transfers are started at a time: each is copied first.
const STARTS: usize = 8;
/// How long somebody sleeps at most who cannot be woken by what arrives.
const SHORT_NAP: Duration = Duration::from_micros(100);
/// Likewise, when something waits for the provider to take it.
const RETRY_NAP: Duration = Duration::from_micros(500);

/// One endpoint of libfabric.
pub(crate) struct OfiLine {
    pub(crate) queue: Queue,
    ip: IpAddr,
    address: Vec<u8>,
    /// Others on this host wake us here.
    bell: UdpSocket,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Messages that have arrived.
    inbox: VecDeque<Vec<u8>>,
    /// Messages that the provider has not taken.
    unsent: VecDeque<(u64, Vec<u8>)>,
    peers: FxHashMap<Vec<u8>, u64>,
    transfers: Transfers,
    /// Whether the provider, or the bound on what is under way, keeps queued transfers from going
    /// on.
    is_stalled: bool,
}

impl OfiLine {
    pub(crate) fn open(device: &Arc<Device>, ip: IpAddr) -> Result<OfiLine> {
        let queue = Queue::open(device, MESSAGE_BYTES, RECEIVES, STAGE_BYTES)?;
        let address = queue.address()?;
        let system = |call: &'static str| {
            move |error: std::io::Error| Error::System {
                call,
                errno: error.raw_os_error().unwrap_or(0),
            }
        };
        let bell = UdpSocket::bind((ip, 0))
            .map_err(system("binding a UDP socket to the node's address"))?;
        bell.set_nonblocking(true).map_err(system("making a socket non-blocking"))?;
        Ok(OfiLine { queue, ip, address, bell, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that is done under this lock can panic half-way.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Lets the provider work. The first message that it brings may be taken at once.
    fn look(&self, mut take: Option<Taker<'_>>) -> bool {
        let mut state = self.state();
        state.send_again(&self.queue);
        let came = {
            let state = &mut *state;
            self.queue.look(|happened| match happened {
                Happened::Message(bytes) => match take.take() {
                    Some(take) if state.inbox.is_empty() => take(bytes),
                    _ => state.inbox.push_back(bytes.to_vec()),
                },
                Happened::Done(tag, bytes) => state.transfers.settle(tag, Ok(bytes)),
                Happened::Failed(tag, error) => state.transfers.settle(tag, Err(error)),
            })
        };
        state.start_queued(&self.queue, STARTS);
        came
    }

    /// Whether one more operation on far memory may be started.
    pub(crate) fn has_room(&self) -> bool {
        has_room(&self.queue)
    }

    /// Does something with the operations on far memory.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut Transfers) -> R) -> R {
        act(&mut self.state().transfers)
    }

    /// Starts to write a part of a write; false if it must be tried again later.
    pub(crate) fn write(&self, write: u64, to: Far, bytes: &[u8]) -> Result<bool> {
        let transfers = &mut self.state().transfers;
        let tag = transfers.tag();
        let posted = self.queue.write(to.route, to.place, to.offset, bytes, tag);
        transfers.started(tag, Part::Write(write), posted)
    }

    /// Starts an atomic, whose old value the one with the ticket wants; false if it must be tried
    /// again later.
    pub(crate) fn atomic(&self, ticket: Option<u64>, to: Far, atomic: FarAtomic) -> Result<bool> {
        let transfers = &mut self.state().transfers;
        let tag = transfers.tag();
        let posted =
            self.queue.atomic(to.route, to.place, to.offset, (atomic.at.width, atomic.op), tag);
        let part = ticket.map_or(Part::Post(atomic), |ticket| Part::Word(ticket, atomic));
        transfers.started(tag, part, posted)
    }

    /// Begins a get or a put without waiting for anything: starts its first part if that may be.
    pub(crate) fn begin(&self, begin: impl FnOnce(&mut Transfers) -> u64) -> u64 {
        let mut state = self.state();
        let ticket = begin(&mut state.transfers);
        state.start_queued(&self.queue, 1);
        ticket
    }
}

fn has_room(queue: &Queue) -> bool {
    queue.under_way() < UNDER_WAY_MAX
}

impl State {
    /// Starts so many parts of queued transfers, if they may be.
    fn start_queued(&mut self, queue: &Queue, most: usize) {
        self.is_stalled = false;
        for _ in 0..most {
            if !self.transfers.has_queued() {
                return;
            }
            self.is_stalled = !has_room(queue)
                || !self.transfers.start_next(STAGE_BYTES, |to, part, tag| match part {
                    Start::Write(bytes) => queue.write(to.route, to.place, to.offset, bytes, tag),
                    Start::Read(bytes) => queue.read(to.route, to.place, to.offset, bytes, tag),
                });
            if self.is_stalled {
                return;
            }
        }
    }

    /// Tries again what the provider has not taken, in order for each peer.
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

impl Line for OfiLine {
    fn address(&self) -> Result<Address> {
        Address::new(self.ip, &self.address)
    }

    fn route(&self, to: &Address) -> Result<Route> {
        let mut state = self.state();
        if let Some(&peer) = state.peers.get(to.bytes()) {
            return Ok(Route::Peer(peer));
        }
        let peer = self.queue.enter(to.bytes())?;
        state.peers.insert(to.bytes().to_vec(), peer);
        Ok(Route::Peer(peer))
    }

    fn send(&self, to: Route, head: &[u8], rest: &[u8]) {
        let Route::Peer(to) = to else { return };
        let mut state = self.state();
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
        if let Some(message) = self.state().inbox.pop_front() {
            return Some(put(&message));
        }
        let mut length = None;
        self.look(Some(&mut |bytes: &[u8]| length = Some(put(bytes))));
        length
    }

    fn sleep(&self, timeout: Duration) {
        let (has_work, has_unsent) = {
            let state = self.state();
            let is_startable = state.transfers.has_queued() && !state.is_stalled;
            (!state.inbox.is_empty() || is_startable, !state.unsent.is_empty() || state.is_stalled)
        };
        if has_work {
            return;
        }
        let timeout = if has_unsent { timeout.min(RETRY_NAP) } else { timeout };
        let mut fds = vec![PollFd::new(&self.bell, PollFlags::IN)];
        let timeout = if self.queue.can_sleep() {
            // If something has happened since we looked, there is nothing to sleep for.
            let Some(fd) = self.queue.sleep_at() else { return };
            fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
            timeout
        } else {
            timeout.min(SHORT_NAP)
        };
        let timeout = Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        // Every error means the same here: look again.
        let _ = rustix::event::poll(&mut fds, Some(&timeout));
        let was_rung = fds[0].revents().contains(PollFlags::IN);
        if was_rung {
            while self.bell.recv(&mut [0; 8]).is_ok() {}
        }
    }

    fn bell(&self) -> Result<SocketAddr> {
        let refused = |error: std::io::Error| Error::System {
            call: "reading a socket's address",
            errno: error.raw_os_error().unwrap_or(0),
        };
        self.bell.local_addr().map_err(refused)
    }

    fn ring(&self, bell: SocketAddr) {
        // Whoever cannot be reached looks by itself when its time is up.
        let _ = self.bell.send_to(&[], bell);
    }

    fn direct(&self) -> Option<&dyn Direct> {
        Some(self)
    }
}

impl Direct for OfiLine {
    fn is_busy(&self) -> bool {
        let state = self.state();
        !state.unsent.is_empty() || state.transfers.is_busy()
    }

    fn owed(&self) -> Owed {
        self.state().transfers.owed()
    }

    fn has_notices(&self) -> bool {
        self.state().transfers.has_notices()
    }

    fn take_notices(&self) -> Vec<(Node, Notice)> {
        self.state().transfers.take_notices()
    }

    fn ends(&self) -> u64 {
        self.state().transfers.ends()
    }

    fn is_over(&self, transfer: u64) -> bool {
        self.state().transfers.is_done(transfer)
    }
}
