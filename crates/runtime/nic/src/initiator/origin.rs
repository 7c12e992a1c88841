//! The initiator's side of the wire, without socket and clock: operations go in, datagrams come
//! out, replies go in, completions come out.
//!
//! Paper:   \[NIC02 section III-A\]: the interface packetizes a message, sends it, and returns the
//!          send token when all its packets have been acknowledged; \[NIC02 section III-B\]: an
//!          atomic is a packet with its parameters and a tag.
//! Differs: operations to one server are gathered in a *batch*, the body of the next request. It is
//!          sent at once when nothing is under way to that server, or when a thread waits for it;
//!          else when it is full, or a reply has made the connection idle.

mod lent;
mod peer;
mod posting;
mod replies;
#[cfg(test)]
mod state;

use farside_fabric::{Rank, Reply, Result, Ticket};

use super::transfers::Transfers;
use crate::link::Sent;
use crate::link::buffer::Loan;
use crate::link::variant::{Right, Variant};
use crate::transport::seal::Key;
use crate::transport::{Address, Carrier, LONG_PACKET_BYTES};
use crate::wire::{self, Header, Kind, PortId, ServerId};

use self::peer::{Packet, Peer};

pub(crate) use self::lent::SendNow;
pub(crate) use self::posting::Operands;
#[cfg(test)]
pub(crate) use self::posting::PACKET_BYTES_MIN;

/// The bytes of requests that may wait for their turn at one connection before a thread that posts
/// more must wait.
const QUEUE_BYTES: usize = 1 << 20;

pub(crate) trait Wire {
    /// Sends a datagram to a server. It may get lost.
    fn send(&mut self, to: ServerId, packet: &[u8]);

    fn send_parts(&mut self, to: ServerId, head: &[u8], rest: &[u8]) {
        self.send(to, &[head, rest].concat());
    }

    /// Likewise, by the stream to that server if there is one. Returns what carries it. It may wait
    /// for [`Wire::flush`].
    fn send_by_stream(&mut self, to: ServerId, head: &[u8], rest: &[u8]) -> Carrier {
        self.send_parts(to, head, rest);
        Carrier::DATAGRAM
    }

    /// Returns whether the stream to a server takes one more datagram now.
    fn has_room(&self, _to: ServerId) -> bool {
        true
    }

    /// Sends what waits in the stream to a server.
    fn flush(&self, _to: ServerId) {}

    /// Returns whether to send more now. If not, the caller comes back for the rest soon.
    fn goes_on(&self) -> bool {
        true
    }
}

impl<F: FnMut(ServerId, &[u8])> Wire for F {
    fn send(&mut self, to: ServerId, packet: &[u8]) {
        self(to, packet);
    }
}

/// Sends a datagram, or by stream.
fn send_parts(
    wire: &mut dyn Wire,
    to: ServerId,
    head: &[u8],
    rest: &[u8],
    by_stream: bool,
) -> Carrier {
    if by_stream {
        return wire.send_by_stream(to, head, rest);
    }
    wire.send_parts(to, head, rest);
    Carrier::DATAGRAM
}

/// All connections of one port.
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Origin<V = Right> {
    id: PortId,
    key: Key,
    /// The UDP port that replies go to.
    reply_port: u16,
    /// The length of the longest datagram.
    packet_bytes: usize,
    peers: Vec<Peer<V>>,
    /// The connections that have something unfinished.
    active: Vec<ServerId>,
    transfers: Transfers<V>,
    calls: Vec<Called>,
    /// The number of completions that a thread may wait for.
    ends: u64,
    /// Packets to be used again.
    spare: Vec<Vec<u8>>,
    /// The address for replies, with which every connection must begin, if it must.
    reply_address: Option<Address>,
}

/// The answer of a handler.
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Called {
    pub(crate) server: ServerId,
    pub(crate) slot: u32,
    pub(crate) state: u32,
    pub(crate) bytes: Vec<u8>,
}

impl Origin {
    /// Makes connections to so many servers, whose replies go to the UDP port `reply_port`.
    pub(crate) fn new(
        id: PortId,
        key: Key,
        reply_port: u16,
        servers: u32,
        packet_bytes: usize,
    ) -> Origin {
        Origin::of_variant(id, key, reply_port, servers, packet_bytes)
    }
}

impl<V: Variant> Origin<V> {
    pub(crate) fn of_variant(
        id: PortId,
        key: Key,
        reply_port: u16,
        servers: u32,
        packet_bytes: usize,
    ) -> Origin<V> {
        debug_assert!(packet_bytes >= posting::PACKET_BYTES_MIN);
        Origin {
            id,
            key,
            reply_port,
            packet_bytes,
            peers: (0..servers).map(|_| Peer::new()).collect(),
            active: Vec::new(),
            transfers: Transfers::new(),
            calls: Vec::new(),
            ends: 0,
            spare: Vec::new(),
            reply_address: None,
        }
    }

    /// Begins every connection with the address for replies.
    pub(crate) fn announce(&mut self, address: Address) {
        self.reply_address = Some(address);
    }

    /// Learns the stream to a server; [`Carrier::DATAGRAM`] if there is none. What another one has
    /// carried is lost.
    pub(crate) fn set_stream(&mut self, server: ServerId, stream: Carrier) {
        self.peers[server.0 as usize].sender.set_stream(stream);
    }

    /// Learns whether another stream to a server is being opened.
    pub(crate) fn await_stream(&mut self, server: ServerId, is_coming: bool) {
        self.peers[server.0 as usize].sender.await_stream(is_coming);
    }

    /// Returns whether the stream to a server has broken, and what is under way, or next, needs
    /// another.
    pub(crate) fn misses_stream(&self, server: ServerId) -> bool {
        let peer = &self.peers[server.0 as usize];
        let is_long = |next: &Packet| next.is_long(self.packet_bytes);
        peer.sender.misses_stream(peer.queue.front().is_some_and(is_long))
    }

    pub(crate) fn active(&self) -> &[ServerId] {
        &self.active
    }

    /// Returns whether the longest datagram is shorter than what a stream carries.
    pub(crate) fn wants_streams(&self) -> bool {
        self.packet_bytes < LONG_PACKET_BYTES
    }

    /// Returns the measured round trip of datagrams to a server; zero if none was measured.
    pub(crate) fn round_trip_ns(&self, server: ServerId) -> u64 {
        self.peers[server.0 as usize].sender.round_trip_ns()
    }

    /// Returns the length of the longest packet of a long transfer.
    fn long_bytes(&self, server: ServerId) -> usize {
        let has_stream = self.peers[server.0 as usize].sender.stream().is_stream();
        if has_stream { self.packet_bytes.max(LONG_PACKET_BYTES) } else { self.packet_bytes }
    }

    fn activate(&mut self, server: ServerId) {
        let peer = &mut self.peers[server.0 as usize];
        if !peer.is_active {
            peer.is_active = true;
            self.active.push(server);
        }
    }

    /// Sends what may be sent and repeats what is overdue.
    pub(crate) fn pump(&mut self, now_ns: u64, wire: &mut dyn Wire) {
        let mut active = std::mem::take(&mut self.active);
        active.retain(|&server| {
            self.send_to(server, now_ns, wire);
            let peer = &mut self.peers[server.0 as usize];
            let mut is_gathered = false;
            let seal = |packet: &mut [u8]| wire::seal_again(&self.key, packet);
            peer.sender.repeat_overdue(now_ns, seal, |packet, by_stream| {
                is_gathered |= by_stream;
                send_parts(wire, server, packet, &[], by_stream)
            });
            if is_gathered {
                wire.flush(server);
            }
            peer.is_active = peer.has_something() || !peer.sender.is_idle();
            peer.is_active
        });
        active.append(&mut self.active);
        self.active = active;
    }

    pub(crate) fn send_to(&mut self, server: ServerId, now_ns: u64, wire: &mut dyn Wire) {
        let (port, key, reply_port) = (self.id, &self.key, self.reply_port);
        let packet_bytes = self.packet_bytes;
        let peer = &mut self.peers[server.0 as usize];
        if peer.is_lost {
            peer.abandon();
            return;
        }
        let mut is_gathered = false;
        while let Some(next) = peer.next() {
            let is_long = next.is_long(packet_bytes);
            let by_stream = is_long && peer.sender.stream().is_stream();
            // Short packets, which ask for long answers, always find room.
            let has_room = !by_stream || next.is_short(packet_bytes) || wire.has_room(server);
            let is_early = is_long && peer.sender.awaits_stream();
            if !peer.sender.may_send(by_stream) || !has_room || is_early {
                break;
            }
            let Some(packet) = peer.pop() else { break };
            let Packet { mut bytes, loan, wants_answer, .. } = packet;
            let number = peer.sender.next_number();
            let header = Header {
                kind: Kind::Request,
                server,
                port,
                number,
                executed: peer.sender.closed(),
                held: 0,
                reply_port,
            };
            let lent = loan.as_ref().map_or(&[][..], Loan::bytes);
            wire::seal_parts(key, &header, &mut bytes, lent);
            let carrier = send_parts(wire, server, &bytes, lent, by_stream);
            is_gathered |= by_stream;
            let sent = Sent { packet: bytes, loan, wants_answer, is_long, carrier };
            peer.sender.keep(sent, now_ns);
            if !wire.goes_on() {
                break;
            }
        }
        if is_gathered {
            wire.flush(server);
        }
    }

    /// Returns whether [`Origin::send_to`] has anything to do.
    #[inline]
    pub(crate) fn is_ready(&self, server: ServerId) -> bool {
        let peer = &self.peers[server.0 as usize];
        let may_send = |next: &Packet| {
            let is_long = next.is_long(self.packet_bytes);
            peer.sender.may_send(is_long && peer.sender.stream().is_stream())
                && !(is_long && peer.sender.awaits_stream())
        };
        peer.is_lost || peer.next().is_some_and(may_send)
    }

    pub(crate) fn repeated(&self) -> u64 {
        self.peers.iter().map(|peer| peer.sender.repeated()).sum()
    }

    /// Returns whether more must not be posted to a server before something has been sent.
    pub(crate) fn is_full(&self, server: ServerId) -> bool {
        self.peers[server.0 as usize].queued_bytes > QUEUE_BYTES
    }

    /// Returns whether any request is under way.
    pub(crate) fn is_waiting(&self) -> bool {
        self.active.iter().any(|server| !self.peers[server.0 as usize].sender.is_idle())
    }

    /// Returns the time for the next [`Origin::pump`], if nothing happens until then.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        self.active.iter().filter_map(|server| self.peers[server.0 as usize].sender.due_ns()).min()
    }

    /// Returns whether anything has not been sent, or not been acknowledged.
    pub(crate) fn is_busy(&self) -> bool {
        !self.active.is_empty()
    }

    /// Returns whether something waits that only a reply, or [`Origin::push`], lets go.
    pub(crate) fn has_unsent(&self) -> bool {
        self.active.iter().any(|server| self.peers[server.0 as usize].has_something())
    }

    /// Lets the batches go as soon as they may: a thread waits for them, or has nothing to add.
    pub(crate) fn push(&mut self) {
        for server in &self.active {
            self.peers[server.0 as usize].batch.is_urgent = true;
        }
    }

    /// Returns a number that changes when something is sent or acknowledged.
    pub(crate) fn moved(&self) -> u64 {
        let progress = |server: &ServerId| {
            let sender = &self.peers[server.0 as usize].sender;
            // An acknowledged request is executed, and is not under way any more.
            sender.next_number() + 2 * sender.executed() + sender.under_way() as u64
        };
        self.active.iter().map(progress).fold(self.ends, u64::wrapping_add)
    }

    /// Returns whether all that was posted to a server has been executed there.
    pub(crate) fn has_landed(&self, server: ServerId) -> bool {
        self.peers[server.0 as usize].has_landed()
    }

    /// Returns the number of completions that a thread may wait for: of operations, and of all that
    /// was posted to a server.
    pub(crate) fn ends(&self) -> u64 {
        self.ends
    }

    /// Returns the first refusal of an operation posted to a rank that has not been returned yet.
    pub(crate) fn complaint(&mut self, server: ServerId, rank: Rank) -> Result<()> {
        let peer = &mut self.peers[server.0 as usize];
        match peer.faults.iter().position(|fault| fault.rank() == rank) {
            Some(at) => Err(peer.faults.swap_remove(at).error()),
            None => Ok(()),
        }
    }

    pub(crate) fn take_calls(&mut self) -> Vec<Called> {
        std::mem::take(&mut self.calls)
    }

    /// Returns the number of fetching operations under way.
    pub(crate) fn outstanding(&self) -> usize {
        self.transfers.outstanding()
    }

    /// Returns whether the outcome of a fetching operation waits to be taken.
    pub(crate) fn has_done(&mut self) -> bool {
        self.transfers.has_done()
    }

    /// Takes the outcome of a fetching operation, if it is complete; that uses up the ticket.
    pub(crate) fn take(&mut self, ticket: Ticket) -> Result<Option<Reply>> {
        self.transfers.take(ticket)
    }

    pub(crate) fn is_done(&mut self, ticket: Ticket) -> bool {
        self.transfers.is_done(ticket)
    }

    /// Returns whether an operation is under way and so long that its caller can compute meanwhile.
    pub(crate) fn is_long(&mut self, ticket: Ticket) -> bool {
        self.transfers.is_long(ticket)
    }

    /// Cancels a fetching operation: its buffer is not touched any more.
    pub(crate) fn cancel(&mut self, ticket: Ticket) {
        if self.transfers.is_lent(ticket) == Some(true) {
            self.take_over_of(ticket);
        }
        self.transfers.remove(ticket);
    }

    /// Drops every outcome that was not taken: the thread that asked has gone.
    pub(crate) fn reset(&mut self) {
        self.take_over_all();
        self.transfers.clear();
        self.calls.clear();
        self.peers.iter_mut().for_each(|peer| peer.faults.clear());
    }

    /// Drops all that is under way to a server that never answers again.
    pub(crate) fn abandon(&mut self, server: ServerId) {
        let peer = &mut self.peers[server.0 as usize];
        peer.is_lost = true;
        peer.abandon();
        self.transfers.forget_parts_at(server);
    }
}
