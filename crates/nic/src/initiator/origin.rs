//! The origin's side of the wire, without a socket and without a clock: operations go in, datagrams
//! come out, replies go in, completions come out.
//!
//! Operations to one server are gathered in a *batch*, the body of the next request. A batch is
//! sent at once when nothing is under way to that server, or when somebody waits for it; else when
//! it is full, or when a reply has made the connection idle. So a single operation is not delayed,
//! and a stream of small ones shares datagrams.

mod lent;
mod peer;
#[cfg(test)]
mod state;

use farside_fabric::{Atomic, Error, Rank, Reply, Result, SegmentId, Sum, Ticket, Word};

use crate::initiator::fragments::{Cut, Run};
use crate::initiator::slots::Slots;
use crate::initiator::transfers::{Part, Transfer, named, settle};
use crate::link::buffer::{Buffer, Loan};
use crate::link::variant::{Right, Variant};
use crate::transport::Address;
use crate::transport::seal::Key;
use crate::wire::answer::{self, Answer, Answers};
use crate::wire::request::{self, About, Request, Rows};
use crate::wire::{self, HEADER_BYTES, Header, Kind, PortId, Refused, ServerId};

use peer::{Packet, Peer};

/// How many bytes of requests may wait for their turn at one connection before the one who posts
/// must wait.
const QUEUE_BYTES: usize = 1 << 20;
/// With less room than this a batch is full: a transfer is not cut into crumbs.
const CRUMB_BYTES: usize = 256;
/// A datagram must have room for one operation at least.
pub(crate) const PACKET_BYTES_MIN: usize = HEADER_BYTES + request::OVERHEAD_MAX + CRUMB_BYTES;
/// How many packets are kept to be used again.
const SPARE_PACKETS: usize = 64;
/// The longest datagram with a request that cannot be cut.
const WHOLE_BYTES: usize = 60 << 10;

/// What sends datagrams.
pub(crate) trait Wire {
    /// Sends a datagram to a server. It may get lost.
    fn send(&mut self, to: ServerId, packet: &[u8]);

    /// Likewise, if it is in two parts.
    fn send_parts(&mut self, to: ServerId, head: &[u8], rest: &[u8]) {
        self.send(to, &[head, rest].concat());
    }

    /// Whether to send more for now. If not, somebody comes back for it soon.
    fn goes_on(&self) -> bool {
        true
    }
}

impl<F: FnMut(ServerId, &[u8])> Wire for F {
    fn send(&mut self, to: ServerId, packet: &[u8]) {
        self(to, packet);
    }
}

/// All connections of one port.
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Origin<V = Right> {
    id: PortId,
    key: Key,
    /// The number of the UDP port at which replies are awaited.
    back: u16,
    /// The longest datagram.
    packet_bytes: usize,
    peers: Vec<Peer<V>>,
    /// The connections that have something unfinished.
    active: Vec<ServerId>,
    /// The parts of transfers that have not been answered, by tag.
    parts: Slots<Part>,
    transfers: Slots<Transfer>,
    generation: u32,
    calls: Vec<Called>,
    /// How often something has come to its end that somebody may wait for.
    ends: u64,
    /// Packets to be used again.
    spare: Vec<Vec<u8>>,
    /// What the first request to each server must say of where answers are awaited.
    introduction: Option<Address>,
}

/// What came back from a handler.
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Called {
    pub(crate) server: ServerId,
    pub(crate) slot: u32,
    pub(crate) state: u32,
    pub(crate) bytes: Vec<u8>,
}

impl Origin {
    /// Connections to so many servers, whose replies are awaited at the UDP port `back`.
    pub(crate) fn new(
        id: PortId,
        key: Key,
        back: u16,
        servers: u32,
        packet_bytes: usize,
    ) -> Origin {
        Origin::of_variant(id, key, back, servers, packet_bytes)
    }
}

impl<V: Variant> Origin<V> {
    pub(crate) fn of_variant(
        id: PortId,
        key: Key,
        back: u16,
        servers: u32,
        packet_bytes: usize,
    ) -> Origin<V> {
        debug_assert!(packet_bytes >= PACKET_BYTES_MIN);
        Origin {
            id,
            key,
            back,
            packet_bytes,
            peers: (0..servers).map(|_| Peer::new()).collect(),
            active: Vec::new(),
            parts: Slots::new(),
            transfers: Slots::new(),
            generation: 0,
            calls: Vec::new(),
            ends: 0,
            spare: Vec::new(),
            introduction: None,
        }
    }

    /// Begins every connection by saying where answers are awaited.
    pub(crate) fn introduce(&mut self, address: Address) {
        self.introduction = Some(address);
    }

    /// How many fetching operations are under way.
    pub(crate) fn outstanding(&self) -> usize {
        self.transfers.len()
    }

    /// Whether the outcome of a fetching operation waits to be taken.
    pub(crate) fn has_done(&mut self) -> bool {
        self.transfers.any(|transfer| transfer.left == 0)
    }

    /// How many requests were sent again.
    pub(crate) fn repeated(&self) -> u64 {
        self.peers.iter().map(|peer| peer.sender.repeated()).sum()
    }

    /// Whether more must not be posted to a server before something has left.
    pub(crate) fn is_full(&self, server: ServerId) -> bool {
        self.peers[server.0 as usize].queued_bytes > QUEUE_BYTES
    }

    /// Posts as much of a put as fits into one request. `place` says whose memory and which
    /// segment; the last part of it `counts`, if it is to.
    pub(crate) fn put_some(
        &mut self,
        server: ServerId,
        place: (Rank, SegmentId),
        cut: &mut Cut<'_>,
        bytes: &[u8],
        counts: bool,
    ) {
        let room = self.room(server);
        if let Some(run) = cut.next(room as u64) {
            let data = &bytes[run.packed as usize..][..run.bytes() as usize];
            let counts = counts && cut.is_done();
            self.post(server, &Request::Put { to: rows(place, &run), data, counts });
        }
    }

    /// Posts as much of an accumulate as fits into one request.
    pub(crate) fn accumulate_some(
        &mut self,
        server: ServerId,
        place: (Rank, SegmentId),
        cut: &mut Cut<'_>,
        (sum, bytes): (&Sum, &[u8]),
        counts: bool,
    ) {
        let room = self.room(server);
        if let Some(run) = cut.next(room as u64) {
            let data = &bytes[run.packed as usize..][..run.bytes() as usize];
            let counts = counts && cut.is_done();
            self.post(
                server,
                &Request::Accumulate { to: rows(place, &run), sum: *sum, data, counts },
            );
        }
    }

    /// Begins a get, whose parts follow by [`Origin::get_some`].
    pub(crate) fn begin_get(&mut self, buffer: Buffer) -> Ticket {
        self.begin(buffer.bytes(), Some(buffer))
    }

    /// Asks for as much as fits into one request.
    pub(crate) fn get_some(
        &mut self,
        ticket: Ticket,
        server: ServerId,
        place: (Rank, SegmentId),
        cut: &mut Cut<'_>,
    ) {
        let _ = self.room(server);
        let peer = &self.peers[server.0 as usize];
        let room =
            self.packet_bytes - HEADER_BYTES - peer.batch.answer_bytes - answer::OVERHEAD_MAX;
        if let Some(run) = cut.next(room as u64) {
            let (packed, bytes) = (run.packed as usize, run.bytes() as usize);
            let tag = self.ask(Part { ticket, server, packed, bytes });
            self.fetch(server, &Request::Get { tag, from: rows(place, &run) }, bytes);
        }
    }

    /// Begins an atomic whose old value is wanted.
    pub(crate) fn atomic(&mut self, server: ServerId, at: Word, op: Atomic) -> Ticket {
        self.fetch_word(server, |tag| Request::Atomic { tag, at, op })
    }

    /// Asks at which port a rank serves itself.
    pub(crate) fn locate(&mut self, server: ServerId, rank: Rank) -> Ticket {
        self.fetch_word(server, |tag| Request::Where { tag, rank })
    }

    /// Asks, or tells, something about a segment.
    pub(crate) fn segment(
        &mut self,
        server: ServerId,
        (rank, segment): (Rank, SegmentId),
        about: About,
    ) -> Ticket {
        self.fetch_word(server, |tag| Request::Segment { tag, rank, segment, about })
    }

    fn fetch_word(
        &mut self,
        server: ServerId,
        request: impl FnOnce(u32) -> Request<'static>,
    ) -> Ticket {
        let _ = self.room(server);
        let ticket = self.begin(0, None);
        let tag = self.ask(Part { ticket, server, packed: 0, bytes: 0 });
        self.fetch(server, &request(tag), 16);
        ticket
    }

    /// Posts an operation that nobody waits for.
    pub(crate) fn post(&mut self, server: ServerId, request: &Request<'_>) {
        let _ = self.room(server);
        let peer = &mut self.peers[server.0 as usize];
        request::encode(request, &mut peer.batch.bytes);
        peer.posted = peer.sender.next_number() + peer.queue.len() as u64;
        self.activate(server);
    }

    /// Tells of something that has landed already: not even whoever flushes waits for it.
    pub(crate) fn tell(&mut self, server: ServerId, request: &Request<'_>) {
        let _ = self.room(server);
        let batch = &mut self.peers[server.0 as usize].batch;
        request::encode(request, &mut batch.bytes);
        batch.is_urgent = true;
        self.activate(server);
    }

    /// Posts an operation whose data may not fit into what is left of the batch: a call.
    pub(crate) fn post_whole(
        &mut self,
        server: ServerId,
        request: &Request<'_>,
        bytes: usize,
    ) -> Result<()> {
        // Between hosts the system cuts a long one into fragments, as it does with a long reply.
        let limit = self.packet_bytes.max(WHOLE_BYTES) - HEADER_BYTES - request::OVERHEAD_MAX;
        if bytes > limit {
            return Err(Error::TooMuch {
                what: "bytes of one far request",
                value: bytes as u64,
                limit: limit as u64,
            });
        }
        if self.room(server) < bytes {
            self.close_batch(server);
        }
        self.post(server, request);
        Ok(())
    }

    fn fetch(&mut self, server: ServerId, request: &Request<'_>, answer_bytes: usize) {
        let peer = &mut self.peers[server.0 as usize];
        request::encode(request, &mut peer.batch.bytes);
        peer.batch.wants_answer = true;
        peer.batch.is_urgent = true;
        peer.batch.answer_bytes += answer_bytes + answer::OVERHEAD_MAX;
        self.activate(server);
    }

    fn begin(&mut self, bytes: usize, buffer: Option<Buffer>) -> Ticket {
        // Two bits are left for the one who hands tickets on.
        self.generation = self.generation.wrapping_add(1) & (u32::MAX >> 2);
        let generation = self.generation;
        let at = self.transfers.insert(Transfer {
            generation,
            left: 0,
            bytes,
            is_lent: false,
            buffer,
            outcome: Ok(Reply::None),
        });
        Ticket((u64::from(generation) << 32) | u64::from(at))
    }

    fn ask(&mut self, part: Part) -> u32 {
        if let Some(transfer) = named::<V>(&mut self.transfers, part.ticket) {
            transfer.left += 1;
        }
        self.parts.insert(part)
    }

    /// How much data fits into the batch, after the name of an operation. Begins a new one if that
    /// is not much.
    fn room(&mut self, server: ServerId) -> usize {
        let packet_bytes = self.packet_bytes;
        let peer = &mut self.peers[server.0 as usize];
        let used = peer.batch.bytes.len() + request::OVERHEAD_MAX + CRUMB_BYTES;
        let answers = HEADER_BYTES + peer.batch.answer_bytes + answer::OVERHEAD_MAX + CRUMB_BYTES;
        if used > packet_bytes || answers > packet_bytes {
            self.close_batch(server);
        }
        let peer = &mut self.peers[server.0 as usize];
        if peer.batch.bytes.is_empty() {
            peer.batch.bytes = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(packet_bytes));
            peer.batch.bytes.clear();
            peer.batch.bytes.resize(HEADER_BYTES, 0);
            if let Some(address) = &self.introduction
                && peer.sender.next_number() == 1
                && peer.queue.is_empty()
            {
                request::encode(&Request::From { address: address.bytes() }, &mut peer.batch.bytes);
            }
        }
        packet_bytes - peer.batch.bytes.len() - request::OVERHEAD_MAX
    }

    fn close_batch(&mut self, server: ServerId) {
        let peer = &mut self.peers[server.0 as usize];
        if peer.batch.bytes.len() > HEADER_BYTES {
            let batch = std::mem::take(&mut peer.batch);
            peer.queued_bytes += batch.bytes.len();
            peer.queue.push_back(batch);
        }
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
            peer.sender
                .repeat_overdue(now_ns, |packet, lent| wire.send_parts(server, packet, lent));
            peer.is_active = peer.has_something() || !peer.sender.is_idle();
            peer.is_active
        });
        active.append(&mut self.active);
        self.active = active;
    }

    /// Sends to one server what may be sent.
    pub(crate) fn send_to(&mut self, server: ServerId, now_ns: u64, wire: &mut dyn Wire) {
        let (id, key, back) = (self.id, &self.key, self.back);
        let peer = &mut self.peers[server.0 as usize];
        if peer.is_lost {
            peer.abandon();
            return;
        }
        while peer.sender.may_send() {
            let packet = match peer.pop() {
                Some(packet) => packet,
                None if peer.is_worth_sending() => std::mem::take(&mut peer.batch),
                None => break,
            };
            let Packet { mut bytes, loan, wants_answer, .. } = packet;
            let number = peer.sender.next_number();
            let header = Header {
                kind: Kind::Request,
                server,
                port: id,
                number,
                executed: 0,
                held: 0,
                back,
            };
            let lent = loan.as_ref().map_or(&[][..], Loan::bytes);
            wire::seal_parts(key, &header, &mut bytes, lent);
            wire.send_parts(server, &bytes, lent);
            peer.sender.keep(bytes, loan, wants_answer, now_ns);
            if !wire.goes_on() {
                break;
            }
        }
    }

    /// Whether [`Origin::send_to`] has anything to do.
    #[inline]
    pub(crate) fn is_ready(&self, server: ServerId) -> bool {
        let peer = &self.peers[server.0 as usize];
        peer.is_lost
            || ((!peer.queue.is_empty() || peer.is_worth_sending()) && peer.sender.may_send())
    }

    /// Whether anything is under way.
    pub(crate) fn is_waiting(&self) -> bool {
        self.active.iter().any(|server| !self.peers[server.0 as usize].sender.is_idle())
    }

    /// When [`Origin::pump`] is to be called next, if nothing happens until then.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        self.active.iter().filter_map(|server| self.peers[server.0 as usize].sender.due_ns()).min()
    }

    /// Whether anything has not been sent, or not been acknowledged.
    pub(crate) fn is_busy(&self) -> bool {
        !self.active.is_empty()
    }

    /// Whether something waits for its turn that only a reply, or a push, will send.
    pub(crate) fn has_unsent(&self) -> bool {
        self.active.iter().any(|server| self.peers[server.0 as usize].has_something())
    }

    /// Lets what is in the batches go as soon as it may: somebody waits for it, or has nothing to
    /// add.
    pub(crate) fn push(&mut self) {
        for server in &self.active {
            self.peers[server.0 as usize].batch.is_urgent = true;
        }
    }

    /// Changes when something was sent or acknowledged.
    pub(crate) fn moved(&self) -> u64 {
        let progress = |server: &ServerId| {
            let sender = &self.peers[server.0 as usize].sender;
            // What is acknowledged is executed, and is not under way any more.
            sender.next_number() + 2 * sender.executed() + sender.under_way() as u64
        };
        self.active.iter().map(progress).fold(self.ends, u64::wrapping_add)
    }

    /// Whether all that was posted to a server was executed there.
    pub(crate) fn has_landed(&self, server: ServerId) -> bool {
        self.peers[server.0 as usize].has_landed()
    }

    /// How often something has come to its end that somebody may wait for: an operation, or the
    /// last that was posted to a server.
    pub(crate) fn ends(&self) -> u64 {
        self.ends
    }

    /// The first operation posted to a rank that was refused, if that was not told yet.
    pub(crate) fn complaint(&mut self, server: ServerId, rank: Rank) -> Result<()> {
        let peer = &mut self.peers[server.0 as usize];
        match peer.faults.iter().position(|fault| fault.rank() == rank) {
            Some(at) => Err(peer.faults.swap_remove(at).error()),
            None => Ok(()),
        }
    }

    /// What handlers have replied since this was asked last.
    pub(crate) fn take_calls(&mut self) -> Vec<Called> {
        std::mem::take(&mut self.calls)
    }

    /// The outcome of a fetching operation, if it is over; that uses up the ticket.
    pub(crate) fn take(&mut self, ticket: Ticket) -> Result<Option<Reply>> {
        match named::<V>(&mut self.transfers, ticket) {
            None => Err(Error::Misuse(format!("{ticket:?} names no operation that is under way"))),
            Some(transfer) if transfer.left > 0 => Ok(None),
            Some(_) => {
                let transfer = self.transfers.remove(ticket.0 as u32);
                transfer.map_or(Ok(None), |transfer| transfer.outcome.map(Some))
            }
        }
    }

    /// Whether a fetching operation is over.
    pub(crate) fn is_done(&mut self, ticket: Ticket) -> bool {
        named::<V>(&mut self.transfers, ticket).is_none_or(|transfer| transfer.left == 0)
    }

    /// Gives up on a fetching operation: its buffer is not touched any more.
    pub(crate) fn cancel(&mut self, ticket: Ticket) {
        // Its tags stay taken until they are answered: an answer that is on its way must not be
        // taken for another's.
        if let Some(transfer) = named::<V>(&mut self.transfers, ticket) {
            if transfer.is_lent {
                self.take_over_of(ticket);
            }
            self.transfers.remove(ticket.0 as u32);
        }
    }

    /// Forgets every outcome that was not taken: whoever asked is gone.
    pub(crate) fn reset(&mut self) {
        self.take_over_all();
        self.transfers.remove_if(|_| true);
        self.calls.clear();
        self.peers.iter_mut().for_each(|peer| peer.faults.clear());
    }

    /// Nobody answers at a server any more: whatever is under way there never ends, and is
    /// forgotten.
    pub(crate) fn abandon(&mut self, server: ServerId) {
        let peer = &mut self.peers[server.0 as usize];
        peer.is_lost = true;
        peer.abandon();
        self.parts.remove_if(|part| part.server == server);
    }

    /// A datagram has arrived. Says whether it was news, or nothing that somebody could not have
    /// recorded long ago.
    pub(crate) fn receive(&mut self, packet: &[u8], now_ns: u64) -> Result<bool, Refused> {
        let (header, body) = wire::open(&self.key, packet)?;
        if header.kind != Kind::Reply || header.port != self.id {
            return Err(Refused::Astray);
        }
        let Origin { peers, parts, transfers, calls, spare, ends, .. } = self;
        let peer = peers.get_mut(header.server.0 as usize).ok_or(Refused::Astray)?;
        if peer.is_lost {
            return Err(Refused::Late);
        }
        // Tags are used again: only the answer to an open request means the parts that have them
        // now.
        let is_awaited = peer.sender.awaits(header.number) || !V::HEEDS_NUMBERS;
        let known_complaints = peer.complaints;
        for answer in Answers::new(body) {
            match answer? {
                Answer::Word { tag, value } if is_awaited => {
                    let over = settle::<V>(parts, transfers, tag, header.server, |_, transfer| {
                        transfer.outcome = Ok(Reply::Word(value))
                    });
                    *ends += u64::from(over);
                }
                Answer::Bytes { tag, data } if is_awaited => {
                    let over =
                        settle::<V>(parts, transfers, tag, header.server, |part, transfer| {
                            let written = data.len() == part.bytes
                                && transfer
                                    .buffer
                                    .as_mut()
                                    .is_some_and(|buffer| buffer.write(part.packed, data));
                            if !written {
                                transfer.outcome = Err(Error::Misuse(
                                    "a far agent's answer has the wrong length".into(),
                                ));
                            }
                        });
                    *ends += u64::from(over);
                }
                Answer::Refused { tag, fault } if is_awaited => {
                    let fail =
                        |_: &Part, transfer: &mut Transfer| transfer.outcome = Err(fault.error());
                    *ends += u64::from(settle::<V>(parts, transfers, tag, header.server, fail));
                }
                Answer::Complaint { count, fault } if count > known_complaints => {
                    peer.complaints = peer.complaints.max(count);
                    if peer.faults.iter().all(|known| known.rank() != fault.rank()) {
                        peer.faults.push(fault);
                    }
                }
                Answer::Called { slot, state, bytes } => {
                    *ends += 1;
                    calls.push(Called {
                        server: header.server,
                        slot,
                        state,
                        bytes: bytes.to_vec(),
                    });
                }
                _ => {}
            }
        }
        let had_landed = peer.has_landed();
        let is_news = peer.sender.acknowledge(
            header.number,
            header.executed,
            header.held,
            now_ns,
            |packet, loan| {
                if let Some(tag) = loan.and_then(|loan| loan.part()) {
                    *ends +=
                        u64::from(settle::<V>(parts, transfers, tag, header.server, |_, _| {}));
                }
                if spare.len() < SPARE_PACKETS {
                    spare.push(packet);
                }
            },
        );
        *ends += u64::from(!had_landed && peer.has_landed());
        Ok(is_news)
    }
}

fn rows((rank, segment): (Rank, SegmentId), run: &Run) -> Rows {
    Rows { rank, segment, offset: run.offset, unit: run.unit, count: run.count, stride: run.stride }
}
