//! Puts whose bytes are sent from where they are.

use farside_fabric::{Rank, SegmentId, Ticket};

use super::{Origin, Packet, Wire, rows};
use crate::initiator::fragments::{Cut, Run};
use crate::initiator::transfers::{Part, named};
use crate::link::buffer::Loan;
use crate::link::variant::Variant;
use crate::wire::request::{self, Request};
use crate::wire::{self, HEADER_BYTES, Header, Kind, ServerId};

/// A transfer of so many bytes takes long enough for others to do something meanwhile.
pub(crate) const LONG_BYTES: usize = 16 << 10;

impl<V: Variant> Origin<V> {
    /// Sends a part of a put that fills a request, and keeps no copy of it until
    /// [`Origin::take_over`]. Does nothing, and says so, if it is not its turn yet.
    ///
    /// # Safety
    ///
    /// `bytes` must stay where and as they are until `take_over` was called.
    pub(crate) unsafe fn put_straight(
        &mut self,
        (server, now_ns, wire): (ServerId, u64, &mut dyn Wire),
        place: (Rank, SegmentId),
        cut: &mut Cut<'_>,
        bytes: &[u8],
        counts: bool,
    ) -> bool {
        let room = self.room_alone();
        let peer = &self.peers[server.0 as usize];
        let is_strange = self.introduction.is_some() && peer.sender.next_number() == 1;
        if peer.is_lost || is_strange || peer.has_something() || !peer.sender.may_send() {
            return false;
        }
        let Some(run) = cut.next(room) else { return false };
        let data = &bytes[run.packed as usize..][..run.bytes() as usize];
        let mut head = self.head_of(place, &run, counts && cut.is_done());
        let peer = &mut self.peers[server.0 as usize];
        let number = peer.sender.next_number();
        let (port, back) = (self.id, self.back);
        let header =
            Header { kind: Kind::Request, server, port, number, executed: 0, held: 0, back };
        wire::seal_parts(&self.key, &header, &mut head, data);
        wire.send_parts(server, &head, data);
        peer.posted = number;
        // SAFETY: by the caller's promise.
        peer.sender.keep(head, Some(unsafe { Loan::new(data, None) }), false, now_ns);
        self.activate(server);
        true
    }

    /// Copies what [`Origin::put_straight`] has sent and may have to be sent again.
    pub(crate) fn take_over(&mut self, server: ServerId) {
        self.peers[server.0 as usize].sender.take_over(|part| part.is_none());
    }

    /// Queues a put without a copy. The transfer is over when its bytes are not needed any more.
    ///
    /// # Safety
    ///
    /// `bytes` must stay where and as they are until that, or until the transfer was cancelled.
    pub(crate) unsafe fn lend(
        &mut self,
        server: ServerId,
        place: (Rank, SegmentId),
        mut cut: Cut<'_>,
        bytes: &[u8],
        counts: bool,
    ) -> Ticket {
        let ticket = self.begin(bytes.len(), None);
        if let Some(transfer) = named::<V>(&mut self.transfers, ticket) {
            transfer.is_lent = true;
        }
        // What was posted before it goes first, and so does an introduction.
        let _ = self.room(server);
        self.close_batch(server);
        while let Some(run) = cut.next(self.room_alone()) {
            let (packed, length) = (run.packed as usize, run.bytes() as usize);
            let head = self.head_of(place, &run, counts && cut.is_done());
            let part = self.ask(Part { ticket, server, packed, bytes: length });
            // SAFETY: by the caller's promise.
            let loan = unsafe { Loan::new(&bytes[packed..][..length], Some(part)) };
            let peer = &mut self.peers[server.0 as usize];
            peer.queued_bytes += head.len();
            peer.queue.push_back(Packet { bytes: head, loan: Some(loan), ..Packet::default() });
        }
        let peer = &mut self.peers[server.0 as usize];
        peer.posted = peer.sender.next_number() + peer.queue.len() as u64 - 1;
        self.activate(server);
        ticket
    }

    /// Copies what one transfer was lent: its lender wants it back.
    pub(super) fn take_over_of(&mut self, ticket: Ticket) {
        let Origin { peers, parts, .. } = self;
        let mut whose = |part: Option<u32>| {
            part.and_then(|part| parts.get_mut(part)).is_some_and(|part| part.ticket == ticket)
        };
        peers.iter_mut().for_each(|peer| peer.take_over(&mut whose));
        // Nothing will be heard of them any more.
        parts.remove_if(|part| part.ticket == ticket);
    }

    /// Copies all that is lent, to whomever.
    pub(super) fn take_over_all(&mut self) {
        self.peers.iter_mut().for_each(|peer| peer.take_over(&mut |_| true));
        let Origin { parts, transfers, .. } = self;
        parts.remove_if(|part| {
            named::<V>(transfers, part.ticket).is_some_and(|transfer| transfer.is_lent)
        });
    }

    /// Whether an operation under way moves so many bytes that its caller can do something else
    /// meanwhile.
    pub(crate) fn is_long(&mut self, ticket: Ticket) -> bool {
        named::<V>(&mut self.transfers, ticket)
            .is_some_and(|transfer| transfer.left > 0 && transfer.bytes >= LONG_BYTES)
    }

    /// Whether a server's queue begins with something lent: whoever sends that is busy for a while.
    pub(crate) fn has_lent_next(&self, server: ServerId) -> bool {
        self.peers[server.0 as usize].queue.front().is_some_and(|packet| packet.loan.is_some())
    }

    /// How much data fits into a request that carries nothing else.
    fn room_alone(&self) -> u64 {
        (self.packet_bytes - HEADER_BYTES - request::OVERHEAD_MAX) as u64
    }

    /// A request for a put, without its data.
    fn head_of(&mut self, place: (Rank, SegmentId), run: &Run, counts: bool) -> Vec<u8> {
        let mut head = self
            .spare
            .pop()
            .unwrap_or_else(|| Vec::with_capacity(HEADER_BYTES + request::OVERHEAD_MAX));
        head.clear();
        head.resize(HEADER_BYTES, 0);
        request::encode(&Request::Put { to: rows(place, run), data: &[], counts }, &mut head);
        head
    }
}
