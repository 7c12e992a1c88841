//! A port: the transport endpoint of one thread, and the connections over it.
//!
//! Paper:   \[NIC02 section III-A\]: a port is the structure through which a process communicates
//!          with the interface, bypassing the operating system.
//! Differs: each thread has a port, in its own process; it is driven by that thread whenever it
//!          posts or waits, and by the rank's progress thread while it computes.
//!
//! No other thread has to wake up for an operation to be sent or completed. The
//! [progress](crate::initiator::progress) thread looks seldom, or drives the port all the time
//! while it has [background transfers](Port::add_background): then a thread that waits sleeps.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar};
use std::time::Duration;

use farside_fabric::{Error, HandlerId, Node, Reply, Result, Ticket};
use farside_shm::{FarAnswer, Reach};
use rustc_hash::FxHashMap;

use crate::clock::{TURN_BYTES, Turns, now_ns};
use crate::initiator::fragments::{FarSegment, Fragments};
use crate::initiator::origin::{Origin, SendNow, Wire};
use crate::transport::direct::{Notice, Owed};
use crate::transport::{Carrier, PeerAddress, TransportEndpoint};
use crate::wire::ServerId;
use crate::wire::request::Request;

/// The number of datagrams that are read before anything else is done.
const READ_AT_ONCE: u32 = 64;
/// The length of the longest datagram there is.
const DATAGRAM_BYTES: usize = 1 << 16;
/// The time after which the far agent is asked again for the answer of a call.
const RECALL_AFTER: Duration = Duration::from_millis(50);

pub(crate) struct Port {
    pub(crate) origin: Origin,
    endpoint: Arc<dyn TransportEndpoint>,
    /// The address of each server, as far as it is known.
    peers: Vec<Option<PeerAddress>>,
    node: Node,
    /// What wakes the ranks of that node.
    reach: Reach,
    calls: FxHashMap<(ServerId, u32), Call>,
    buffer: Box<[u8]>,
    /// Its thread's turns between long packets that it reads.
    turns: Turns,
    background: VecDeque<BackgroundTransfer>,
    wakeups: u64,
    /// Whether the progress thread sleeps although it has background transfers.
    pub(crate) progress_sleeps: bool,
    /// Notified of news while the progress thread drives the port; its own thread sleeps here.
    pub(crate) has_news: Arc<Condvar>,
    /// Not zero while the port's thread waits for the port: then the progress thread unlocks it
    /// after the next datagram.
    pub(crate) waiters: Arc<AtomicU32>,
}

/// A transfer that the progress thread drives.
#[derive(Debug, Clone, Copy)]
pub(crate) enum BackgroundTransfer {
    /// One that an agent answers.
    Answered(Ticket),
    /// One that bypasses the agents.
    Direct(u64),
}

struct Call {
    node: Node,
    /// Nobody waits for a call without one, which another port has left.
    handler: Option<HandlerId>,
    answer: Option<FarAnswer>,
    /// Whether it still has its slot, which is not needed any more once the answer is here.
    has_slot: bool,
    recall_ns: u64,
    recalls: u32,
}

impl Call {
    fn new(node: Node, handler: Option<HandlerId>, recall_ns: u64) -> Call {
        Call { node, handler, answer: None, has_slot: true, recall_ns, recalls: 0 }
    }
}

impl Port {
    pub(crate) fn new(
        origin: Origin,
        endpoint: Arc<dyn TransportEndpoint>,
        peers: Vec<Option<PeerAddress>>,
        node: Node,
        reach: Reach,
    ) -> Port {
        let buffer = vec![0; DATAGRAM_BYTES].into_boxed_slice();
        Port {
            origin,
            endpoint,
            peers,
            node,
            reach,
            calls: FxHashMap::default(),
            buffer,
            turns: Turns::default(),
            background: VecDeque::new(),
            wakeups: 0,
            progress_sleeps: false,
            has_news: Arc::default(),
            waiters: Arc::default(),
        }
    }

    pub(crate) fn endpoint(&self) -> &Arc<dyn TransportEndpoint> {
        &self.endpoint
    }

    pub(crate) fn knows(&self, server: ServerId) -> bool {
        self.peers.get(server.0 as usize).is_some_and(Option::is_some)
    }

    pub(crate) fn learn(&mut self, server: ServerId, address: PeerAddress) {
        self.peers[server.0 as usize] = Some(address);
    }

    pub(crate) fn peer_address(&self, server: ServerId) -> Option<PeerAddress> {
        self.peers.get(server.0 as usize).copied().flatten()
    }

    /// Drops what the port's thread has not taken, so that another thread can have the port.
    /// Returns the slots of calls that may not be answered yet.
    pub(crate) fn reset(&mut self) -> Vec<(ServerId, u32)> {
        self.background.clear();
        self.origin.reset();
        self.calls.drain().filter(|(_, call)| call.has_slot).map(|(slot, _)| slot).collect()
    }

    /// Lets the progress thread drive the port until a transfer is complete.
    pub(crate) fn add_background(&mut self, transfer: BackgroundTransfer) {
        self.background.push_back(transfer);
    }

    /// Returns whether the progress thread drives the port.
    #[inline]
    pub(crate) fn has_background(&self) -> bool {
        !self.background.is_empty()
    }

    /// Returns which notices of direct operations are still to be sent.
    #[inline]
    pub(crate) fn owed(&self) -> Owed {
        self.endpoint.direct().map_or(Owed::Nothing, |direct| direct.owed())
    }

    /// Returns whether the progress thread must drive the port without a pause: it has background
    /// transfers, or a rank may sleep until an agent is told of a direct operation.
    pub(crate) fn needs_driving(&self) -> bool {
        self.has_background() || self.owed() == Owed::Wakes
    }

    /// Gives the port back to its thread: the progress thread ends.
    pub(crate) fn end_background(&mut self) {
        self.background.clear();
        self.has_news.notify_all();
    }

    /// Returns whether the port's thread waits for the port.
    #[inline]
    pub(crate) fn has_waiter(&self) -> bool {
        self.waiters.load(Ordering::Relaxed) != 0
    }

    /// Returns a count that changes when something happens that the port's thread may wait for.
    pub(crate) fn news(&self) -> u64 {
        let direct = self.endpoint.direct().map_or(0, |direct| direct.ends());
        self.origin.ends() + self.wakeups + direct
    }

    /// Lets the origin know the streams to the servers that it has something for. Where one has
    /// broken that packets need, another is opened.
    fn refresh_streams(&mut self) {
        let Port { endpoint, origin, peers, .. } = self;
        let Some(streams) = endpoint.streams() else { return };
        for at in 0..origin.active().len() {
            let server = origin.active()[at];
            if let Some(peer) = peers[server.0 as usize] {
                origin.set_stream(server, streams.to(peer));
                let is_coming = origin.misses_stream(server) && streams.open(peer);
                origin.await_stream(server, is_coming);
            }
        }
    }

    /// Lets the origin know the stream to a server.
    #[inline]
    fn refresh_stream(&mut self, server: ServerId) {
        if let (Some(streams), Some(peer)) = (self.endpoint.streams(), self.peer_address(server)) {
            self.origin.set_stream(server, streams.to(peer));
        }
    }

    /// Begins to open a stream to a server, if long packets need one. Returns whether one is under
    /// way.
    pub(crate) fn open_stream(&mut self, server: ServerId) -> bool {
        self.refresh_stream(server);
        match (self.endpoint.streams(), self.peer_address(server)) {
            (Some(streams), Some(peer)) if self.origin.wants_streams() => streams.open(peer),
            _ => false,
        }
    }

    /// Sends to a server what may be sent. Often that is nothing, and the clock is not read. What
    /// is lent is sent when a thread waits for it or the progress thread drives the port.
    #[inline]
    pub(crate) fn send(&mut self, server: ServerId) {
        if !self.origin.is_ready(server) || self.origin.has_lent_next(server) {
            return;
        }
        self.refresh_stream(server);
        self.origin.send_to(
            server,
            now_ns(),
            &mut Sending::of(&self.endpoint, &self.peers, &self.waiters),
        );
    }

    /// Sends a fragment of a put without a copy; see [`Origin::put_straight`].
    ///
    /// # Safety
    ///
    /// `bytes` must stay valid and unchanged until [`Origin::take_over`] has been called.
    pub(crate) unsafe fn put_straight(
        &mut self,
        server: ServerId,
        place: FarSegment,
        fragments: &mut Fragments<'_>,
        bytes: &[u8],
        counts: bool,
    ) -> bool {
        self.refresh_stream(server);
        let mut wire = Sending::of(&self.endpoint, &self.peers, &self.waiters);
        let now = SendNow { now_ns: now_ns(), wire: &mut wire };
        // SAFETY: by the caller's promise.
        unsafe { self.origin.put_straight(server, place, fragments, bytes, counts, now) }
    }

    /// Reads what has arrived and, if anything has, sends what that allows.
    #[inline]
    pub(crate) fn look(&mut self) {
        if self.read() || self.endpoint.direct().is_some_and(|direct| direct.has_notices()) {
            self.attend();
        }
    }

    /// Reads what has arrived, sends what may be sent, repeats what is overdue. Wakes the port's
    /// thread if that sleeps beside background transfers and there is news for it.
    pub(crate) fn drive(&mut self) {
        let before = self.news();
        self.read();
        self.attend();
        if self.has_background() {
            let Port { background, origin, endpoint, .. } = self;
            let mut is_over = |transfer: &BackgroundTransfer| match *transfer {
                BackgroundTransfer::Answered(ticket) => origin.is_done(ticket),
                BackgroundTransfer::Direct(transfer) => {
                    endpoint.direct().is_none_or(|direct| direct.is_over(transfer))
                }
            };
            // The oldest alone are looked at: there may be very many behind one that takes long.
            while background.front().is_some_and(&mut is_over) {
                background.pop_front();
            }
            if self.news() != before || !self.has_background() {
                self.has_news.notify_all();
            }
        }
    }

    /// Reads what has arrived, and returns whether anything has.
    fn read(&mut self) -> bool {
        for count in 0..READ_AT_ONCE {
            if count > 0 && self.has_waiter() {
                return true;
            }
            let Port { endpoint, origin, buffer, wakeups, .. } = self;
            let (mut is_reply, mut is_long) = (false, false);
            let came = endpoint.deliver(buffer, &mut |packet, _| {
                if packet.is_empty() {
                    *wakeups += 1;
                    return;
                }
                (is_reply, is_long) = (true, packet.len() >= TURN_BYTES);
                // A packet that is refused changes nothing.
                let _ = origin.receive(packet, now_ns());
            });
            if !came {
                return count > 0;
            }
            if is_reply && !self.origin.is_waiting() {
                // No further reply is awaited.
                return true;
            }
            if is_long {
                self.turns.pass();
            }
        }
        true
    }

    fn attend(&mut self) {
        let now = now_ns();
        self.pass_on_notices();
        self.attend_to_calls(now);
        if self.origin.is_busy() {
            self.refresh_streams();
            self.origin.pump(now, &mut Sending::of(&self.endpoint, &self.peers, &self.waiters));
        }
    }

    /// Sends the notices of direct operations. Ranks of this node are woken at once.
    fn pass_on_notices(&mut self) {
        let Port { endpoint, origin, node, reach, .. } = self;
        let Some(direct) = endpoint.direct() else { return };
        for (to, notice) in direct.take_notices() {
            match notice {
                // No rank waits for a word whose segment is gone.
                Notice::Changed(at) if to == *node => drop(reach.wake_for(at)),
                Notice::Changed(at) => origin.notify(ServerId(to.0), &Request::Changed { at }),
                Notice::Landed(count) => origin.notify(ServerId(to.0), &Request::Landed { count }),
            }
        }
    }

    /// Returns how long the port needs no driving, if nothing arrives; `None` for no limit.
    pub(crate) fn sleep_limit(&self) -> Option<Duration> {
        let recall = self
            .calls
            .values()
            .filter(|call| call.answer.is_none())
            .map(|call| call.recall_ns)
            .min();
        let due = [self.origin.due_ns(), recall].into_iter().flatten().min()?;
        Some(Duration::from_nanos(due.saturating_sub(now_ns())))
    }

    /// Asks the agent of a node to run a handler, in one of the caller's slots.
    pub(crate) fn call(
        &mut self,
        node: Node,
        slot: u32,
        handler: HandlerId,
        argument: &[u8],
    ) -> Result<()> {
        let server = ServerId(node.0);
        self.origin.post_whole(
            server,
            &Request::Call { slot, handler: handler.0, argument },
            argument.len(),
        )?;
        let recall_ns = now_ns() + RECALL_AFTER.as_nanos() as u64;
        self.calls.insert((server, slot), Call::new(node, Some(handler), recall_ns));
        self.origin.push();
        self.send(server);
        Ok(())
    }

    pub(crate) fn call_is_done(&self, server: ServerId, slot: u32) -> bool {
        self.calls.get(&(server, slot)).is_none_or(|call| call.answer.is_some())
    }

    pub(crate) fn take_call(&mut self, server: ServerId, slot: u32) -> Result<Option<Reply>> {
        let done = self.calls.get(&(server, slot)).map(|call| call.answer.is_some());
        match done {
            None => Err(Error::Internal(format!("slot {slot} does not name a call in flight"))),
            Some(false) => Ok(None),
            Some(true) => {
                let call = self.calls.remove(&(server, slot));
                let outcome = call.and_then(|call| {
                    call.answer
                        .zip(call.handler)
                        .map(|(it, handler)| it.outcome(call.node, handler))
                });
                outcome.transpose()
            }
        }
    }

    pub(crate) fn call_has_slot(&self, server: ServerId, slot: u32) -> bool {
        self.calls.get(&(server, slot)).is_some_and(|call| call.has_slot)
    }

    pub(crate) fn forget_call(&mut self, server: ServerId, slot: u32) {
        self.calls.remove(&(server, slot));
    }

    /// Asks for the answer of a call that nobody waits for.
    pub(crate) fn adopt_call(&mut self, node: Node, slot: u32) {
        self.calls.insert((ServerId(node.0), slot), Call::new(node, None, now_ns()));
    }

    /// Takes the slots of calls that are answered. The answers stay, for those who wait for them.
    pub(crate) fn take_answered_slots(&mut self) -> Vec<(Node, u32)> {
        let mut slots = Vec::new();
        self.calls.retain(|&(_, slot), call| {
            if call.answer.is_some() && std::mem::take(&mut call.has_slot) {
                slots.push((call.node, slot));
            }
            call.handler.is_some() || call.answer.is_none()
        });
        slots
    }

    /// Takes in answers of calls, and asks for those that are late.
    fn attend_to_calls(&mut self, now: u64) {
        for called in self.origin.take_calls() {
            if let Some(call) = self.calls.get_mut(&(called.server, called.slot)) {
                call.answer.get_or_insert(FarAnswer { state: called.state, reply: called.bytes });
            }
        }
        for (&(server, slot), call) in &mut self.calls {
            if call.answer.is_none() && call.recall_ns <= now {
                call.recalls += 1;
                call.recall_ns =
                    now + (RECALL_AFTER.as_nanos() as u64) * u64::from(call.recalls.min(20));
                self.origin.post(server, &Request::Recall { slot });
            }
        }
    }
}

struct Sending<'a> {
    endpoint: &'a dyn TransportEndpoint,
    peers: &'a [Option<PeerAddress>],
    waiters: &'a AtomicU32,
}

impl<'a> Sending<'a> {
    fn of(
        endpoint: &'a Arc<dyn TransportEndpoint>,
        peers: &'a [Option<PeerAddress>],
        waiters: &'a AtomicU32,
    ) -> Sending<'a> {
        Sending { endpoint: &**endpoint, peers, waiters }
    }
}

impl Wire for Sending<'_> {
    fn send(&mut self, to: ServerId, packet: &[u8]) {
        self.send_parts(to, packet, &[]);
    }

    fn send_parts(&mut self, to: ServerId, head: &[u8], rest: &[u8]) {
        if let Some(address) = self.peers.get(to.0 as usize).copied().flatten() {
            self.endpoint.send(address, head, rest);
        }
    }

    fn send_by_stream(&mut self, to: ServerId, head: &[u8], rest: &[u8]) -> Carrier {
        match self.peers.get(to.0 as usize).copied().flatten() {
            Some(address) => self.endpoint.send_by_stream(address, head, rest, true),
            None => Carrier::DATAGRAM,
        }
    }

    fn has_room(&self, to: ServerId) -> bool {
        match (self.endpoint.streams(), self.peers.get(to.0 as usize).copied().flatten()) {
            (Some(streams), Some(peer)) => streams.has_room(peer),
            _ => true,
        }
    }

    fn flush(&self, to: ServerId) {
        if let (Some(streams), Some(peer)) =
            (self.endpoint.streams(), self.peers.get(to.0 as usize).copied().flatten())
        {
            streams.flush(peer);
        }
    }

    fn goes_on(&self) -> bool {
        self.waiters.load(Ordering::Relaxed) == 0
    }
}

/// The marks that tell tickets of far operations from those of the near fabric, which have none.
pub(crate) mod ticket {
    use super::{ServerId, Ticket};

    const TRANSFER: u64 = 1 << 63;
    const CALL: u64 = 1 << 62;

    pub(crate) enum Meaning {
        Near(Ticket),
        Transfer(Ticket),
        Call(ServerId, u32),
    }

    pub(crate) fn transfer(ticket: Ticket) -> Ticket {
        debug_assert!(ticket.0 < CALL);
        Ticket(ticket.0 | TRANSFER)
    }

    pub(crate) fn call(server: ServerId, slot: u32) -> Ticket {
        Ticket(CALL | (u64::from(server.0) << 32) | u64::from(slot))
    }

    pub(crate) fn meaning(ticket: Ticket) -> Meaning {
        if ticket.0 & TRANSFER != 0 {
            Meaning::Transfer(Ticket(ticket.0 & !TRANSFER))
        } else if ticket.0 & CALL != 0 {
            Meaning::Call(ServerId(((ticket.0 & !CALL) >> 32) as u32), ticket.0 as u32)
        } else {
            Meaning::Near(ticket)
        }
    }
}
