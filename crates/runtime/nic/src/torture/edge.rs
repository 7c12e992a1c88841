//! The edge of the window: a network that holds back one datagram and lets everything else through.
//!
//! One more request under way, or one answer less remembered, and the first request's repetition
//! finds its answer gone.

use farside_fabric::{Atomic, Node, Rank, Reply, SegmentId, Ticket, Width, Word};

use super::memory::{NODES, Plain, plain};
use super::*;
use crate::transport::Carrier;
use crate::wire::PortId;

const PACKET_BYTES: usize = 1432;
const SERVER: ServerId = ServerId(2);

struct Pair {
    origin: Origin,
    service: Service<Plain>,
    now_ns: u64,
    tickets: Vec<Ticket>,
    /// Requests under way, and replies.
    out: Vec<Vec<u8>>,
    back: Vec<Vec<u8>>,
}

impl Pair {
    /// Two that trust their network: as many requests may be under way as there may ever be.
    fn warmed_up() -> Pair {
        let key = Key::from_bytes([5; 16]);
        let origin = Origin::new(PortId::of_rank(Rank(0), 0), key.clone(), 1, NODES, PACKET_BYTES);
        let service = plain(Node(SERVER.0), &key, PACKET_BYTES);
        let mut pair = Pair {
            origin,
            service,
            now_ns: 1,
            tickets: Vec::new(),
            out: Vec::new(),
            back: Vec::new(),
        };
        for _ in 0..40 * WINDOW {
            pair.draw();
            pair.deliver(|_| true, |_| true);
            pair.check_drawn();
        }
        pair
    }

    /// Draws a ticket, in a request of its own.
    fn draw(&mut self) {
        let at = Word {
            rank: Rank(4),
            segment: SegmentId::ROOT,
            offset: at::TICKETS,
            width: Width::W64,
        };
        self.tickets.push(self.origin.atomic(SERVER, at, Atomic::Add(1)));
        self.pump();
    }

    fn pump(&mut self) {
        let Pair { origin, out, .. } = self;
        origin.pump(self.now_ns, &mut |_: ServerId, packet: &[u8]| out.push(packet.to_vec()));
    }

    /// Delivers the requests, then the replies, that may pass; the others are lost.
    fn deliver(&mut self, request: impl Fn(u64) -> bool, reply: impl Fn(u64) -> bool) {
        let Pair { service, back, .. } = self;
        for packet in self.out.drain(..).filter(|packet| request(number(packet))) {
            service.receive(&packet, Carrier::DATAGRAM, &mut |_, reply: &[u8], _| {
                back.push(reply.to_vec())
            });
        }
        service.rest(&mut |_, reply: &[u8], _| back.push(reply.to_vec()));
        self.now_ns += 1000;
        for packet in self.back.drain(..).filter(|packet| reply(number(packet))) {
            self.origin.receive(&packet, self.now_ns).unwrap();
        }
        self.pump();
    }

    /// Every ticket that is there is the next one.
    fn check_drawn(&mut self) {
        let drawn = word(self.service.memory(), Rank(4), at::TICKETS, Width::W64);
        let waiting = self.tickets.len() as u128;
        for (index, ticket) in self.tickets.drain(..).enumerate() {
            let expected = drawn - waiting + index as u128;
            assert_eq!(self.origin.take(ticket), Ok(Some(Reply::Word(expected))));
        }
    }

    /// Lets so much time pass that everything that is open is repeated.
    fn wait(&mut self) {
        self.now_ns += 2_000_000_000;
        self.pump();
    }
}

fn number(packet: &[u8]) -> u64 {
    u64::from_le_bytes(packet[16..24].try_into().unwrap())
}

#[test]
fn the_oldest_answer_is_remembered_as_long_as_it_may_be_missing() {
    let mut pair = Pair::warmed_up();
    let first = 40 * WINDOW + 1;
    for _ in 0..2 * WINDOW {
        pair.draw();
    }
    // All but the first are answered, again and again: not one more than the window is sent.
    for _ in 0..5 {
        pair.deliver(|_| true, |number| number != first);
    }
    let executed = word(pair.service.memory(), Rank(4), at::TICKETS, Width::W64);
    assert_eq!(executed, u128::from(41 * WINDOW), "the window was not used up");
    // What is repeated now must find its old answer.
    pair.wait();
    for _ in 0..200 {
        pair.deliver(|_| true, |_| true);
        pair.wait();
    }
    assert_eq!(pair.service.refusals().stale, 0);
    pair.check_drawn();
}

#[test]
fn requests_that_arrive_ahead_of_the_oldest_are_kept_up_to_the_window() {
    let mut pair = Pair::warmed_up();
    let first = 40 * WINDOW + 1;
    for _ in 0..2 * WINDOW {
        pair.draw();
    }
    for _ in 0..5 {
        pair.deliver(|number| number != first, |_| true);
    }
    let executed = word(pair.service.memory(), Rank(4), at::TICKETS, Width::W64);
    assert_eq!(executed, u128::from(40 * WINDOW), "nothing overtakes the first");
    pair.wait();
    // All that were under way behind it were kept: it alone is repeated.
    assert_eq!(pair.out.iter().map(|packet| number(packet)).collect::<Vec<_>>(), [first]);
    pair.deliver(|_| true, |_| true);
    let executed = word(pair.service.memory(), Rank(4), at::TICKETS, Width::W64);
    assert_eq!(executed, u128::from(41 * WINDOW), "the window was not used up");
    for _ in 0..200 {
        pair.deliver(|_| true, |_| true);
        pair.wait();
    }
    assert_eq!(pair.service.refusals().stale, 0);
    pair.check_drawn();
}
