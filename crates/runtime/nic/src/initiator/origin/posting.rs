//! Posting: operations become the body of requests.

use farside_fabric::{Accumulate, Atomic, Error, Rank, Result, SegmentId, Ticket, Word};

use super::Origin;
use crate::initiator::fragments::{FarSegment, Fragment, Fragments};
use crate::initiator::transfers::{Destination, LONG_BYTES, Part};
use crate::link::buffer::Buffer;
use crate::link::variant::Variant;
use crate::wire::request::{self, About, Request, Rows};
use crate::wire::{HEADER_BYTES, ServerId, answer};

/// A batch with less room than this is full, so that transfers are not split into tiny fragments.
const FRAGMENT_BYTES_MIN: usize = 256;
/// The length of the shortest datagram limit: one operation must fit.
pub(crate) const PACKET_BYTES_MIN: usize =
    HEADER_BYTES + request::OVERHEAD_MAX + FRAGMENT_BYTES_MIN;
/// The length of the longest datagram with a request that cannot be fragmented.
const WHOLE_BYTES: usize = 60 << 10;

/// The message of an accumulate: packed elements, and what is done with them.
#[derive(Clone, Copy)]
pub(crate) struct Operands<'a> {
    pub(crate) accumulate: &'a Accumulate,
    pub(crate) bytes: &'a [u8],
}

impl<'a> Operands<'a> {
    fn of(&self, fragment: &Fragment) -> &'a [u8] {
        let bytes = self.accumulate.message_bytes(fragment.bytes());
        if bytes == 0 { &[] } else { &self.bytes[fragment.packed as usize..][..bytes as usize] }
    }
}

impl<V: Variant> Origin<V> {
    /// Posts as much of a put as fits into one request, to a segment of a rank. Its last fragment
    /// counts as a landing if `counts`.
    pub(crate) fn put_some(
        &mut self,
        server: ServerId,
        place: FarSegment,
        fragments: &mut Fragments<'_>,
        bytes: &[u8],
        counts: bool,
    ) {
        let room = self.room_of(server, self.limit(server, bytes.len()));
        if let Some(fragment) = fragments.next(room as u64) {
            let data = &bytes[fragment.packed as usize..][..fragment.bytes() as usize];
            let counts = counts && fragments.is_done();
            self.post(server, &Request::Put { to: rows(place, &fragment), data, counts });
        }
    }

    /// Posts as much of an accumulate as fits into one request.
    pub(crate) fn accumulate_some(
        &mut self,
        server: ServerId,
        place: FarSegment,
        fragments: &mut Fragments<'_>,
        operands: Operands<'_>,
        counts: bool,
    ) {
        let room = self.room_of(server, self.limit(server, operands.bytes.len()));
        if let Some(fragment) = fragments.next(room as u64) {
            let (to, data) = (rows(place, &fragment), operands.of(&fragment));
            let (accumulate, counts) = (*operands.accumulate, counts && fragments.is_done());
            self.post(server, &Request::Accumulate { to, accumulate, data, counts });
        }
    }

    /// Begins an accumulate that fetches so many bytes; its fragments follow by
    /// [`Origin::get_accumulate_some`].
    pub(crate) fn begin_get_accumulate(&mut self, bytes: usize) -> Ticket {
        self.transfers.begin(bytes, Destination::Reply(vec![0; bytes]))
    }

    /// Sends as much of an accumulate that fetches as fits into one request and one reply.
    pub(crate) fn get_accumulate_some(
        &mut self,
        ticket: Ticket,
        server: ServerId,
        place: FarSegment,
        fragments: &mut Fragments<'_>,
        operands: Operands<'_>,
    ) {
        let limit = self.limit(server, operands.bytes.len());
        let room = self.room_of(server, limit).min(self.answer_room(server, limit));
        if let Some(fragment) = fragments.next(room as u64) {
            let (packed, bytes) = (fragment.packed as usize, fragment.bytes() as usize);
            let tag = self.transfers.add_part(Part { ticket, server, packed, bytes });
            let (to, data) = (rows(place, &fragment), operands.of(&fragment));
            let accumulate = *operands.accumulate;
            let request = Request::GetAccumulate { tag, to, accumulate, data };
            self.fetch(server, &request, bytes);
        }
    }

    /// Begins a get, whose fragments follow by [`Origin::get_some`].
    pub(crate) fn begin_get(&mut self, buffer: Buffer) -> Ticket {
        self.transfers.begin(buffer.bytes(), Destination::Lent(buffer))
    }

    /// Requests as much of a get as fits into one reply.
    pub(crate) fn get_some(
        &mut self,
        ticket: Ticket,
        server: ServerId,
        place: FarSegment,
        fragments: &mut Fragments<'_>,
    ) {
        let bytes = self.transfers.bytes(ticket);
        let limit = self.limit(server, bytes);
        let _ = self.room_of(server, limit);
        let room = self.answer_room(server, limit);
        if let Some(fragment) = fragments.next(room as u64) {
            let (packed, bytes) = (fragment.packed as usize, fragment.bytes() as usize);
            let tag = self.transfers.add_part(Part { ticket, server, packed, bytes });
            self.fetch(server, &Request::Get { tag, from: rows(place, &fragment) }, bytes);
        }
    }

    /// Begins an atomic whose old value is wanted.
    pub(crate) fn atomic(&mut self, server: ServerId, at: Word, op: Atomic) -> Ticket {
        self.fetch_word(server, |tag| Request::Atomic { tag, at, op })
    }

    /// Asks for the port of a rank's host-based server.
    pub(crate) fn locate(&mut self, server: ServerId, rank: Rank) -> Ticket {
        self.fetch_word(server, |tag| Request::Where { tag, rank })
    }

    /// Asks, or tells, something about a segment.
    pub(crate) fn segment(
        &mut self,
        server: ServerId,
        rank: Rank,
        segment: SegmentId,
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
        let ticket = self.transfers.begin(0, Destination::Nowhere);
        let tag = self.transfers.add_part(Part { ticket, server, packed: 0, bytes: 0 });
        self.fetch(server, &request(tag), 16);
        ticket
    }

    /// Posts an operation that has no answer.
    pub(crate) fn post(&mut self, server: ServerId, request: &Request<'_>) {
        let _ = self.room(server);
        let peer = &mut self.peers[server.0 as usize];
        request::encode(request, &mut peer.batch.bytes);
        peer.posted = peer.sender.next_number() + peer.queue.len() as u64;
        self.activate(server);
    }

    /// Posts a notice of something that has landed already: not even a flush waits for it.
    pub(crate) fn notify(&mut self, server: ServerId, request: &Request<'_>) {
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
        // Between hosts IP fragments a long datagram, as it does with a long reply.
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

    /// Returns how much data fits into the batch beside the name of an operation. Begins a new
    /// batch if that is little.
    pub(super) fn room(&mut self, server: ServerId) -> usize {
        self.room_of(server, self.packet_bytes)
    }

    /// Returns the length of the longest packet that a fragment of so long a transfer goes into.
    fn limit(&self, server: ServerId, bytes: usize) -> usize {
        if bytes >= LONG_BYTES { self.long_bytes(server) } else { self.packet_bytes }
    }

    /// Likewise, of a batch that may become so long.
    fn room_of(&mut self, server: ServerId, packet_bytes: usize) -> usize {
        let peer = &mut self.peers[server.0 as usize];
        let used = peer.batch.bytes.len() + request::OVERHEAD_MAX + FRAGMENT_BYTES_MIN;
        let answers =
            HEADER_BYTES + peer.batch.answer_bytes + answer::OVERHEAD_MAX + FRAGMENT_BYTES_MIN;
        if used > packet_bytes || answers > packet_bytes {
            self.close_batch(server);
        }
        let peer = &mut self.peers[server.0 as usize];
        if peer.batch.bytes.is_empty() {
            peer.batch.bytes = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(packet_bytes));
            peer.batch.bytes.clear();
            peer.batch.bytes.resize(HEADER_BYTES, 0);
            if let Some(address) = &self.reply_address
                && peer.sender.next_number() == 1
                && peer.queue.is_empty()
            {
                request::encode(&Request::From { address: address.bytes() }, &mut peer.batch.bytes);
            }
        }
        packet_bytes - peer.batch.bytes.len() - request::OVERHEAD_MAX
    }

    /// Returns how much data fits into the reply beside the answers to what is in the batch. Only
    /// after [`Origin::room`].
    fn answer_room(&self, server: ServerId, packet_bytes: usize) -> usize {
        let answers = self.peers[server.0 as usize].batch.answer_bytes;
        packet_bytes - HEADER_BYTES - answers - answer::OVERHEAD_MAX
    }

    /// Moves the batch to the queue, unless it is empty.
    pub(super) fn close_batch(&mut self, server: ServerId) {
        let peer = &mut self.peers[server.0 as usize];
        if peer.batch.bytes.len() > HEADER_BYTES {
            let batch = std::mem::take(&mut peer.batch);
            peer.queued_bytes += batch.bytes.len();
            peer.queue.push_back(batch);
        }
    }
}

pub(super) fn rows(place: FarSegment, fragment: &Fragment) -> Rows {
    let FarSegment { rank, segment } = place;
    let Fragment { offset, unit, count, stride, .. } = *fragment;
    Rows { rank, segment, offset, unit, count, stride }
}
