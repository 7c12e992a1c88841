//! Every field that can come to its end does: counts begin shortly before it.
//! `docs/wrapping-fields.md` lists them all.

use farside_fabric::{Atomic, Node, Rank, Reply, SegmentId, Ticket, Width, Word};

use super::memory::{BYTES, NODES, Plain, hosts, plain};
use super::*;
use crate::initiator::port::ticket::{self, Meaning};
use crate::node::rank_state::CallSlots;
use crate::target::memory::slot;
use crate::transport::Carrier;
use crate::wire::PortId;
use crate::wire::request::{Request, Rows};

const SERVER: ServerId = ServerId(2);
const PORT: PortId = PortId(0);
const PACKET_BYTES: usize = 1432;
const FAR: Rank = Rank(4);

struct Pair {
    origin: Origin,
    service: Service<Plain>,
    now_ns: u64,
}

impl Pair {
    /// Two that have exchanged so many requests, of which so many operations were refused.
    fn after(requests: u64, complaints: u64) -> Pair {
        let key = Key::from_bytes([7; 16]);
        let mut origin = Origin::new(PORT, key.clone(), 1, NODES, PACKET_BYTES);
        let mut service = plain(Node(SERVER.0), &key, PACKET_BYTES);
        origin.start_after(SERVER, requests, complaints);
        let route = PeerAddress::Socket((hosts()[0], 1).into());
        service.start_after(PORT, route, requests, complaints);
        Pair { origin, service, now_ns: 1 }
    }

    fn draw(&mut self) -> Ticket {
        let at =
            Word { rank: FAR, segment: SegmentId::ROOT, offset: at::TICKETS, width: Width::W64 };
        self.origin.atomic(SERVER, at, Atomic::Add(1))
    }

    fn put_beyond(&mut self, rank: Rank) {
        let to =
            Rows { rank, segment: SegmentId::ROOT, offset: BYTES, unit: 8, count: 1, stride: 0 };
        self.origin.post(SERVER, &Request::Put { to, data: &[1; 8], counts: false });
    }

    /// Sends what is there and brings back what is answered: one datagram of three gets lost.
    fn exchange(&mut self) {
        let mut lost = 0;
        let mut passes = || {
            lost += 1;
            lost % 3 != 1
        };
        while self.origin.is_busy() {
            self.now_ns += 1_000_000_000;
            let (mut out, mut back) = (Vec::new(), Vec::new());
            self.origin.push();
            self.origin
                .pump(self.now_ns, &mut |_: ServerId, packet: &[u8]| out.push(packet.to_vec()));
            let mut reply = |_: PeerAddress, packet: &[u8], _: bool| back.push(packet.to_vec());
            for packet in out.iter().filter(|_| passes()) {
                self.service.receive(packet, Carrier::DATAGRAM, &mut reply);
            }
            self.service.rest(&mut reply);
            for packet in back.iter().filter(|_| passes()) {
                self.origin.receive(packet, self.now_ns).unwrap();
            }
        }
    }
}

#[test]
fn request_numbers_pass_the_end_of_32_and_of_63_bits() {
    for bits in [32, 63] {
        let mut pair = Pair::after((1 << bits) - 10, 0);
        let mut drawn = 0;
        for _ in 0..20 {
            let tickets: Vec<Ticket> = (0..10).map(|_| [pair.draw(), pair.draw()][0]).collect();
            pair.exchange();
            for ticket in tickets {
                assert_eq!(pair.origin.take(ticket), Ok(Some(Reply::Word(drawn))), "{bits} bits");
                drawn += 2;
            }
        }
        assert!(pair.origin.sender(SERVER).executed() > 1 << bits, "not past the end");
        assert_eq!(pair.service.refusals().stale, 0);
    }
}

#[test]
fn refusals_are_told_after_the_end_of_32_bits() {
    let mut pair = Pair::after(0, u64::from(u32::MAX) - 2);
    for count in 0..6 {
        for rank in [FAR, Rank(5)] {
            pair.put_beyond(rank);
            pair.exchange();
            assert!(
                pair.origin.complaint(SERVER, rank).is_err(),
                "refusal {count} of {rank} was not told"
            );
            // What was told of the other is in every reply, and is no news.
            assert_eq!(pair.origin.complaint(SERVER, FAR), Ok(()));
            assert_eq!(pair.origin.complaint(SERVER, Rank(5)), Ok(()));
        }
    }
}

#[test]
fn tickets_begin_again_after_30_bits_and_keep_off_the_marks() {
    let mut pair = Pair::after(0, 0);
    pair.origin.start_generation((1 << 30) - 3);
    let mut before: Vec<Ticket> = Vec::new();
    for drawn in 0..6 {
        let ticket = pair.draw();
        assert!(!before.contains(&ticket));
        let Meaning::Transfer(inner) = ticket::meaning(ticket::transfer(ticket)) else {
            panic!("{ticket:?}")
        };
        assert_eq!(inner, ticket);
        pair.exchange();
        assert_eq!(pair.origin.take(inner), Ok(Some(Reply::Word(drawn))));
        before.push(ticket);
        assert!(
            before.iter().all(|&used| pair.origin.take(used).is_err()),
            "an old ticket is taken for a new one"
        );
    }
    assert!(before.iter().any(|ticket| ticket.0 >> 32 == 0), "not past the end");
}

#[test]
fn slots_of_calls_begin_again_after_28_bits_and_keep_their_index() {
    for first in [(1 << 28) - 3, u32::MAX - 3] {
        let mut calls = CallSlots::default();
        calls.count = first;
        let mut before = Vec::new();
        for _ in 0..3 {
            let taken: Vec<u32> = std::iter::from_fn(|| calls.take(Node(1))).collect();
            for (index, &taken) in taken.iter().enumerate() {
                assert_eq!(slot::index(taken), index as u32);
                assert!(!before.contains(&taken), "a slot that was used shortly before");
                let Meaning::Call(server, named) = ticket::meaning(ticket::call(SERVER, taken))
                else {
                    panic!("{taken}")
                };
                assert_eq!((server, named), (SERVER, taken));
                calls.give_back(Node(1), taken);
            }
            before.extend(taken);
        }
        assert!(before.iter().any(|slot| slot >> 4 == 0), "not past the end");
    }
}

#[test]
fn the_last_server_that_a_ticket_of_a_call_can_name_is_named() {
    let last = ServerId((1 << 30) - 1);
    let Meaning::Call(server, slot) = ticket::meaning(ticket::call(last, u32::MAX)) else {
        panic!("another meaning")
    };
    assert_eq!((server, slot), (last, u32::MAX));
    // As many servers as a job can have, where every rank is a node and serves itself.
    assert!(2 * u64::from(farside_fabric::Link::RANKS_MAX) <= u64::from(last.0));
}
