//! A network that loses nothing and suddenly takes longer: the time-out must learn it.

use std::collections::VecDeque;

use farside_fabric::{Atomic, Node, Rank, SegmentId, Ticket, Width, Word};

use super::memory::{NODES, Plain, plain};
use super::*;
use crate::wire::PortId;

const PACKET_BYTES: usize = 1432;
const SERVER: ServerId = ServerId(2);
const WORD: Word =
    Word { rank: Rank(4), segment: SegmentId::ROOT, offset: at::TICKETS, width: Width::W64 };

struct Pair {
    origin: Origin,
    service: Service<Plain>,
    network: Network,
    under_way: VecDeque<Ticket>,
}

impl Pair {
    fn new(delay_ns: u64) -> Pair {
        let key = Key::from_bytes([5; 16]);
        let origin = Origin::new(PortId::of_rank(Rank(0), 0), key.clone(), 1, NODES, PACKET_BYTES);
        let service = plain(Node(SERVER.0), &key, PACKET_BYTES);
        let mut network = Network::new(1);
        network.fair_delay_ns = Some(delay_ns);
        Pair { origin, service, network, under_way: VecDeque::new() }
    }

    /// Draws so many tickets, some at a time; returns how many requests were repeated meanwhile.
    fn draw(&mut self, mut count: u64, at_a_time: usize) -> u64 {
        let before = self.origin.repeated();
        while count > 0 || !self.under_way.is_empty() {
            while count > 0 && self.under_way.len() < at_a_time {
                self.under_way.push_back(self.origin.atomic(SERVER, WORD, Atomic::Add(1)));
                self.pump();
                count -= 1;
            }
            self.step();
            while let Some(&first) = self.under_way.front()
                && matches!(self.origin.take(first), Ok(Some(_)))
            {
                self.under_way.pop_front();
            }
        }
        self.origin.repeated() - before
    }

    fn pump(&mut self) {
        let Pair { origin, network, .. } = self;
        let mut through = Through { network, client: 0 };
        origin.pump(through.network.now_ns, &mut through);
    }

    /// Lets time pass until the next datagram arrives or the next request is overdue.
    fn step(&mut self) {
        let moments = [self.network.next_ns(), self.origin.due_ns()];
        let moment = moments.into_iter().flatten().min().expect("something is under way");
        self.network.now_ns = self.network.now_ns.max(moment);
        while let Some((to, packet, carrier)) = self.network.arrived() {
            let Pair { origin, service, network, .. } = self;
            match to {
                To::Server(_) => {
                    let mut out = |_, reply: &[u8], _| network.send(To::Client(0), reply);
                    service.receive(&packet, carrier, &mut out);
                    service.rest(&mut out);
                }
                To::Client(_) => {
                    origin.receive(&packet, network.now_ns).expect("nothing is damaged");
                }
            }
        }
        self.pump();
    }
}

#[test]
fn the_time_out_learns_a_longer_round_trip() {
    for at_a_time in [1, 16] {
        let mut pair = Pair::new(50_000);
        assert_eq!(pair.draw(1_000, at_a_time), 0, "nothing is lost");
        // Longer than the shortest time-out, in either direction; 20 ms, and 200.
        for delay_ns in [10_000_000, 100_000_000] {
            pair.network.fair_delay_ns = Some(delay_ns);
            let learning = pair.draw(200, at_a_time);
            let then = pair.draw(1_000, at_a_time);
            println!("{at_a_time} at a time, {delay_ns} ns: {learning} repeated, then {then}");
            assert_eq!(then, 0, "{at_a_time} at a time, {delay_ns} ns");
        }
        // And back: a loss is noticed as early as before.
        pair.network.fair_delay_ns = Some(50_000);
        pair.draw(1_000, at_a_time);
        pair.origin.atomic(SERVER, WORD, Atomic::Add(1));
        pair.pump();
        let due_ns = pair.origin.due_ns().expect("one is under way");
        assert!(due_ns - pair.network.now_ns < 5_000_000, "{at_a_time} at a time");
    }
}
