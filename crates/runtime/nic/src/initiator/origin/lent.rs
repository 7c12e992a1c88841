//! Puts whose bytes are sent from the caller's memory, without a copy.
//!
//! Paper:   \[NIC02 section III-A\]: the send record names the data, which stays in the memory of
//!          the host and is fetched again for a retransmission.
//! Differs: a caller that gets its memory back early leaves a copy of what is not acknowledged.

use farside_fabric::Ticket;

use super::posting::rows;
use super::{Origin, Packet, Wire, send_parts};
use crate::initiator::fragments::{FarSegment, Fragment, Fragments};
use crate::initiator::transfers::Part;
use crate::link::Sent;
use crate::link::buffer::Loan;
use crate::link::variant::Variant;
use crate::wire::request::{self, Request};
use crate::wire::{self, HEADER_BYTES, Header, Kind, ServerId};

/// The number of packets that a put is cut into at once. They take some 40 MB.
const LENT_PACKETS_MAX: u64 = 131_072;

pub(crate) struct SendNow<'a> {
    pub(crate) now_ns: u64,
    pub(crate) wire: &'a mut dyn Wire,
}

impl<V: Variant> Origin<V> {
    /// Sends a fragment of a put that fills a request, and makes no copy of it before
    /// [`Origin::take_over`]. Returns false, and does nothing, if other requests go first.
    ///
    /// # Safety
    ///
    /// `bytes` must stay valid and unchanged until `take_over` has been called.
    pub(crate) unsafe fn put_straight(
        &mut self,
        server: ServerId,
        place: FarSegment,
        fragments: &mut Fragments<'_>,
        bytes: &[u8],
        counts: bool,
        SendNow { now_ns, wire }: SendNow<'_>,
    ) -> bool {
        if !self.goes_straight(server) || !wire.has_room(server) {
            return false;
        }
        let (room, packet_bytes) = (self.room_alone(server), self.packet_bytes);
        let Some(fragment) = fragments.next(room) else { return false };
        let data = &bytes[fragment.packed as usize..][..fragment.bytes() as usize];
        let mut head = self.head_of(place, &fragment, counts && fragments.is_done());
        let peer = &mut self.peers[server.0 as usize];
        let number = peer.sender.next_number();
        let (port, reply_port, executed) = (self.id, self.reply_port, peer.sender.closed());
        let header =
            Header { kind: Kind::Request, server, port, number, executed, held: 0, reply_port };
        wire::seal_parts(&self.key, &header, &mut head, data);
        let is_long = head.len() + data.len() > packet_bytes;
        let by_stream = is_long && peer.sender.stream().is_stream();
        let carrier = send_parts(wire, server, &head, data, by_stream);
        peer.posted = number;
        // SAFETY: by the caller's promise.
        let loan = Some(unsafe { Loan::new(data, None) });
        let sent = Sent { packet: head, loan, wants_answer: false, is_long, carrier };
        peer.sender.keep(sent, now_ns);
        self.activate(server);
        true
    }

    /// Returns whether [`Origin::put_straight`] may send now: no other request goes first.
    pub(crate) fn goes_straight(&self, server: ServerId) -> bool {
        let peer = &self.peers[server.0 as usize];
        let is_first = self.reply_address.is_some() && peer.sender.next_number() == 1;
        let by_stream = peer.sender.stream().is_stream();
        !peer.is_lost && !is_first && !peer.has_something() && peer.sender.may_send(by_stream)
    }

    /// Returns whether a put without a copy must not even be begun: the connection has not begun.
    pub(crate) fn must_queue(&self, server: ServerId) -> bool {
        let peer = &self.peers[server.0 as usize];
        peer.is_lost || (self.reply_address.is_some() && peer.sender.next_number() == 1)
    }

    /// Returns whether [`Origin::put_straight`] has sent something that is not acknowledged.
    pub(crate) fn has_borrowed(&self, server: ServerId) -> bool {
        self.peers[server.0 as usize].sender.has_loan(|part| part.is_none())
    }

    /// Copies what [`Origin::put_straight`] has sent and has not been acknowledged.
    pub(crate) fn take_over(&mut self, server: ServerId) {
        self.peers[server.0 as usize].sender.take_over(|part| part.is_none());
    }

    /// Returns whether a put of so many bytes may be queued as a whole: each of its packets takes
    /// memory of its own, and where datagrams carry it there are many.
    pub(crate) fn may_lend(&self, server: ServerId, bytes: usize) -> bool {
        (bytes as u64).div_ceil(self.room_alone(server)) <= LENT_PACKETS_MAX
    }

    /// Queues a put without a copy. The transfer is complete when its bytes are no longer needed.
    ///
    /// # Safety
    ///
    /// `bytes` must stay valid and unchanged until then, or until the transfer is cancelled.
    pub(crate) unsafe fn lend(
        &mut self,
        server: ServerId,
        place: FarSegment,
        mut fragments: Fragments<'_>,
        bytes: &[u8],
        counts: bool,
    ) -> Ticket {
        let ticket = self.transfers.begin_lent(bytes.len());
        // What was posted before goes first, and so does the address for replies.
        let _ = self.room(server);
        self.close_batch(server);
        while let Some(fragment) = fragments.next(self.room_alone(server)) {
            let (packed, length) = (fragment.packed as usize, fragment.bytes() as usize);
            let head = self.head_of(place, &fragment, counts && fragments.is_done());
            let part = self.transfers.add_part(Part { ticket, server, packed, bytes: length });
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

    /// Copies what one transfer was lent, so that the caller has its memory back.
    pub(super) fn take_over_of(&mut self, ticket: Ticket) {
        let Origin { peers, transfers, .. } = self;
        let mut whose =
            |part: Option<u32>| part.is_some_and(|part| transfers.ticket_of(part) == Some(ticket));
        peers.iter_mut().for_each(|peer| peer.take_over(&mut whose));
        transfers.forget_parts_of(ticket);
    }

    pub(super) fn take_over_all(&mut self) {
        self.peers.iter_mut().for_each(|peer| peer.take_over(&mut |_| true));
        self.transfers.forget_lent_parts();
    }

    /// Returns whether a server's queue begins with something lent, which takes long to send.
    pub(crate) fn has_lent_next(&self, server: ServerId) -> bool {
        self.peers[server.0 as usize].queue.front().is_some_and(|packet| packet.loan.is_some())
    }

    /// Returns how much data fits into a request that carries nothing else.
    fn room_alone(&self, server: ServerId) -> u64 {
        (self.long_bytes(server) - HEADER_BYTES - request::OVERHEAD_MAX) as u64
    }

    /// Makes a request for a put, without its data.
    fn head_of(&mut self, place: FarSegment, fragment: &Fragment, counts: bool) -> Vec<u8> {
        let mut head = self
            .spare
            .pop()
            .unwrap_or_else(|| Vec::with_capacity(HEADER_BYTES + request::OVERHEAD_MAX));
        head.clear();
        head.resize(HEADER_BYTES, 0);
        request::encode(&Request::Put { to: rows(place, fragment), data: &[], counts }, &mut head);
        head
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::Carrier;
    use crate::transport::seal::Key;
    use crate::wire::PortId;

    #[test]
    fn a_put_that_takes_too_many_packets_is_not_queued_as_a_whole() {
        let server = ServerId(0);
        let mut origin = Origin::new(PortId(0), Key::from_bytes([1; 16]), 9, 1, 1432);
        assert!(origin.may_lend(server, 100_000_000));
        assert!(!origin.may_lend(server, 1_000_000_000), "datagrams would carry it");
        origin.set_stream(server, Carrier::stream(1));
        assert!(origin.may_lend(server, 1_000_000_000));
    }
}
