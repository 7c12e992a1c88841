//! One connection of a port beside its [`Sender`]: the batch, the queue, and refusals heard of.

use std::collections::VecDeque;

use crate::link::Sender;
use crate::link::buffer::Loan;
use crate::link::variant::Variant;
use crate::wire::HEADER_BYTES;
use crate::wire::answer;

/// A batch of this length is sent although requests are under way, as long as those are few: then
/// both ends work at the same time.
const SHARE_BYTES: usize = 8 << 10;
const FEW: usize = 8;

/// A connection.
#[cfg_attr(test, derive(Clone))]
pub(super) struct Peer<V> {
    pub(super) sender: Sender<V>,
    /// The body of the next request, with room for its header.
    pub(super) batch: Packet,
    pub(super) queue: VecDeque<Packet>,
    /// The bytes of the queue that are copies.
    pub(super) queued_bytes: usize,
    /// The number that the last request with a posted operation has, or will have.
    pub(super) posted: u64,
    /// The last refusal heard of. Old ones are in every reply, so the count must not wrap: 64 bits.
    pub(super) complaints: u64,
    /// The first refusal for each rank that has not been returned yet.
    pub(super) faults: Vec<answer::Fault>,
    pub(super) is_active: bool,
    /// The server never answers again.
    pub(super) is_lost: bool,
}

#[derive(Default)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct Packet {
    pub(super) bytes: Vec<u8>,
    /// Its end, if that is lent.
    pub(super) loan: Option<Loan>,
    pub(super) wants_answer: bool,
    /// The bytes that its answers will take.
    pub(super) answer_bytes: usize,
    /// A thread waits for it.
    pub(super) is_urgent: bool,
}

impl Packet {
    /// Returns whether it is no longer than a datagram, whatever its answer is.
    pub(super) fn is_short(&self, packet_bytes: usize) -> bool {
        self.loan.is_none() && self.bytes.len() <= packet_bytes
    }

    /// Returns whether it, or its answer, is longer than a datagram of so many bytes.
    pub(super) fn is_long(&self, packet_bytes: usize) -> bool {
        let lent = self.loan.as_ref().map_or(0, |loan| loan.bytes().len());
        self.bytes.len() + lent > packet_bytes || HEADER_BYTES + self.answer_bytes > packet_bytes
    }
}

impl<V: Variant> Peer<V> {
    pub(super) fn new() -> Peer<V> {
        Peer {
            sender: Sender::new(),
            batch: Packet::default(),
            queue: VecDeque::new(),
            queued_bytes: 0,
            posted: 0,
            complaints: 0,
            faults: Vec::new(),
            is_active: false,
            is_lost: false,
        }
    }

    pub(super) fn has_landed(&self) -> bool {
        self.is_lost || self.sender.executed() >= self.posted
    }

    pub(super) fn next(&self) -> Option<&Packet> {
        self.queue.front().or_else(|| self.is_worth_sending().then_some(&self.batch))
    }

    pub(super) fn pop(&mut self) -> Option<Packet> {
        let Some(packet) = self.queue.pop_front() else {
            return self.is_worth_sending().then(|| std::mem::take(&mut self.batch));
        };
        self.queued_bytes -= packet.bytes.len();
        Some(packet)
    }

    pub(super) fn has_something(&self) -> bool {
        !self.queue.is_empty() || self.batch.bytes.len() > HEADER_BYTES
    }

    /// Returns whether to send the batch although it is not full.
    pub(super) fn is_worth_sending(&self) -> bool {
        let bytes = self.batch.bytes.len();
        bytes > HEADER_BYTES
            && (self.batch.is_urgent
                || self.sender.is_idle()
                || (bytes >= SHARE_BYTES && self.sender.under_way() < FEW))
    }

    pub(super) fn abandon(&mut self) {
        self.sender.abandon();
        self.queue.clear();
        self.queued_bytes = 0;
        self.batch = Packet::default();
        self.posted = 0;
    }

    /// Copies what is lent for the parts that `whose` selects.
    pub(super) fn take_over(&mut self, whose: &mut dyn FnMut(Option<u32>) -> bool) {
        self.sender.take_over(&mut *whose);
        for packet in &mut self.queue {
            if let Some(loan) = packet.loan.take_if(|loan| whose(loan.part())) {
                packet.bytes.extend_from_slice(loan.bytes());
                self.queued_bytes += loan.bytes().len();
            }
        }
    }
}
