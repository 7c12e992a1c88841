//! A line over libfabric: messages between ports and agents, and, beside them, operations on far memory that ask no agent.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use farside_fabric::{Atomic, Error, Node, Reply, Result, Width};
use farside_nic::{Address, Buffer, Line, Route};
use rustc_hash::FxHashMap;
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::device::{Device, Place};
use crate::queue::{Happened, Posted, Queue};

/// Who takes a message as soon as it is there.
type Taker<'a> = &'a mut dyn FnMut(&[u8]);

/// The longest message: what a call may bring, or take.
const MESSAGE_BYTES: usize = 64 << 10;
/// How long messages are that gather operations: what providers carry without asking the receiver first.
pub(crate) const PACKET_BYTES: usize = 16 << 10;
/// The longest operation on far memory; longer ones are several.
pub(crate) const STAGE_BYTES: usize = 64 << 10;
/// How many messages may arrive before anybody looks.
const RECEIVES: usize = 32;
/// How many messages may wait until the provider takes them. More are lost, and repeated.
const UNSENT_MAX: usize = 256;
/// How many operations on far memory may be under way.
const UNDER_WAY_MAX: usize = 64;
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
    nodes: FxHashMap<Node, Writes>,
    parts: FxHashMap<u64, Part>,
    next_part: u64,
    transfers: FxHashMap<u64, Transfer>,
    next_transfer: u64,
}

/// What is under way to a node that nobody waits for.
#[derive(Default)]
struct Writes {
    under_way: usize,
    failure: Option<Error>,
    is_lost: bool,
}

/// An operation, as the queue's tags name them.
enum Part {
    Write(Node),
    /// Brings so many bytes of a transfer, from there on.
    Read {
        transfer: u64,
        at: usize,
    },
    /// Brings a word.
    Word {
        transfer: u64,
    },
}

/// A fetching operation.
struct Transfer {
    left: usize,
    buffer: Option<Buffer>,
    outcome: Result<Reply>,
}

impl OfiLine {
    pub(crate) fn open(device: &Arc<Device>, ip: IpAddr) -> Result<OfiLine> {
        let queue = Queue::open(device, MESSAGE_BYTES, RECEIVES, STAGE_BYTES)?;
        let address = queue.address()?;
        let system = |call: &'static str| {
            move |error: std::io::Error| Error::System { call, errno: error.raw_os_error().unwrap_or(0) }
        };
        let bell = UdpSocket::bind((ip, 0)).map_err(system("binding a UDP socket to the node's address"))?;
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
        let state = &mut *state;
        self.queue.look(|happened| match happened {
            Happened::Message(bytes) => match take.take() {
                Some(take) if state.inbox.is_empty() => take(bytes),
                _ => state.inbox.push_back(bytes.to_vec()),
            },
            Happened::Done(tag, bytes) => state.settle(tag, Ok(bytes)),
            Happened::Failed(tag, error) => state.settle(tag, Err(error)),
        })
    }

    /// Whether one more operation on far memory may be started.
    pub(crate) fn has_room(&self) -> bool {
        self.queue.under_way() < UNDER_WAY_MAX
    }

    /// Starts to write; false if it must be tried again later.
    pub(crate) fn write(&self, node: Node, to: u64, (place, offset): (Place, u64), bytes: &[u8]) -> Result<bool> {
        let mut state = self.state();
        let tag = state.tag();
        let posted = self.queue.write(to, place, offset, bytes, tag);
        state.started(tag, Part::Write(node), posted)
    }

    /// Begins a fetching operation, whose parts follow.
    pub(crate) fn begin(&self, buffer: Option<Buffer>) -> u64 {
        let mut state = self.state();
        state.next_transfer += 1;
        let transfer = state.next_transfer;
        state.transfers.insert(transfer, Transfer { left: 0, buffer, outcome: Ok(Reply::None) });
        transfer
    }

    /// Starts to read a part of a transfer; false if it must be tried again later.
    pub(crate) fn read(
        &self,
        transfer: u64,
        from: u64,
        (place, offset): (Place, u64),
        (at, bytes): (usize, usize),
    ) -> Result<bool> {
        let mut state = self.state();
        let tag = state.tag();
        let posted = self.queue.read(from, place, offset, bytes, tag);
        state.started(tag, Part::Read { transfer, at }, posted)
    }

    /// Starts an atomic; false if it must be tried again later.
    pub(crate) fn atomic(
        &self,
        transfer: u64,
        to: u64,
        (place, offset): (Place, u64),
        op: (Width, Atomic),
    ) -> Result<bool> {
        let mut state = self.state();
        let tag = state.tag();
        let posted = self.queue.atomic(to, place, offset, op, tag);
        state.started(tag, Part::Word { transfer }, posted)
    }

    /// Starts an atomic whose old value nobody wants.
    pub(crate) fn post(&self, node: Node, to: u64, at: (Place, u64), op: (Width, Atomic)) -> Result<bool> {
        let mut state = self.state();
        let tag = state.tag();
        let posted = self.queue.atomic(to, at.0, at.1, op, tag);
        state.started(tag, Part::Write(node), posted)
    }

    /// Whether everything that was written to a node has landed there.
    pub(crate) fn has_landed(&self, node: Node) -> bool {
        self.state().nodes.get(&node).is_none_or(|writes| writes.under_way == 0 || writes.is_lost)
    }

    /// Whether anything is on its way to anybody who is there.
    pub(crate) fn is_quiet(&self) -> bool {
        self.state().nodes.values().all(|writes| writes.under_way == 0 || writes.is_lost)
    }

    /// The first write to a node that failed since this was asked last.
    pub(crate) fn failure(&self, node: Node) -> Option<Error> {
        self.state().nodes.get_mut(&node)?.failure.take()
    }

    /// A node is lost: nobody waits any more for what was written there.
    pub(crate) fn abandon(&self, node: Node) {
        self.state().nodes.entry(node).or_default().is_lost = true;
    }

    pub(crate) fn is_done(&self, transfer: u64) -> bool {
        self.state().transfers.get(&transfer).is_none_or(|transfer| transfer.left == 0)
    }

    /// The outcome of a transfer, if it is over.
    pub(crate) fn take(&self, transfer: u64) -> Result<Option<Reply>> {
        let mut state = self.state();
        match state.transfers.get(&transfer) {
            None => Err(Error::Misuse(format!("{transfer} names no operation that is under way"))),
            Some(found) if found.left > 0 => Ok(None),
            Some(_) => state.transfers.remove(&transfer).map(|found| found.outcome).transpose(),
        }
    }

    /// Gives up on a transfer: what still comes goes nowhere.
    pub(crate) fn cancel(&self, transfer: u64) {
        self.state().transfers.remove(&transfer);
    }
}

impl State {
    fn tag(&mut self) -> u64 {
        self.next_part += 1;
        self.next_part
    }

    fn started(&mut self, tag: u64, part: Part, posted: Posted) -> Result<bool> {
        match posted {
            Posted::Yes => {
                match part {
                    Part::Write(node) => self.nodes.entry(node).or_default().under_way += 1,
                    Part::Read { transfer, .. } | Part::Word { transfer } => {
                        if let Some(transfer) = self.transfers.get_mut(&transfer) {
                            transfer.left += 1;
                        }
                    }
                }
                self.parts.insert(tag, part);
                Ok(true)
            }
            Posted::Busy => Ok(false),
            Posted::No(error) => Err(error),
        }
    }

    fn settle(&mut self, tag: u64, outcome: Result<&[u8]>) {
        let Some(part) = self.parts.remove(&tag) else { return };
        let (Part::Read { transfer, .. } | Part::Word { transfer }) = part else {
            let Part::Write(node) = part else { return };
            let writes = self.nodes.entry(node).or_default();
            writes.under_way = writes.under_way.saturating_sub(1);
            if let Err(error) = outcome {
                writes.failure.get_or_insert(error);
            }
            return;
        };
        let Some(transfer) = self.transfers.get_mut(&transfer) else { return };
        transfer.left = transfer.left.saturating_sub(1);
        match (outcome, part) {
            (Err(error), _) => transfer.outcome = Err(error),
            (Ok(bytes), Part::Read { at, .. }) => {
                if !transfer.buffer.as_mut().is_some_and(|buffer| buffer.write(at, bytes)) {
                    transfer.outcome = Err(Error::Misuse("what was read has the wrong length".into()));
                }
            }
            (Ok(bytes), _) => {
                let mut word = [0; 16];
                word[..bytes.len().min(16)].copy_from_slice(&bytes[..bytes.len().min(16)]);
                if transfer.outcome.is_ok() {
                    transfer.outcome = Ok(Reply::Word(u128::from_le_bytes(word)));
                }
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
        let (has_mail, has_unsent) = {
            let state = self.state();
            (!state.inbox.is_empty(), !state.unsent.is_empty())
        };
        if has_mail {
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

    fn is_busy(&self) -> bool {
        let state = self.state();
        !state.unsent.is_empty()
            || !state.transfers.values().all(|transfer| transfer.left == 0)
            || state.nodes.values().any(|writes| writes.under_way > 0 && !writes.is_lost)
    }
}
