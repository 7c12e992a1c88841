//! A network that loses, repeats, delays and damages datagrams, in virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

pub(super) use farside_fabric::random::{SplitMix as Random, scatter as mix};

/// The destination of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum To {
    Server(usize),
    Client(usize),
}

/// A datagram under way: its time of arrival, its number, its destination and its bytes.
type UnderWay = (u64, u64, To, Vec<u8>);

/// Datagrams under way.
pub(super) struct Network {
    pub(super) now_ns: u64,
    random: Random,
    /// By the time of arrival; the count keeps the order of those of one moment.
    queue: BinaryHeap<Reverse<UnderWay>>,
    count: u64,
    pub(super) lost: u64,
    pub(super) damaged: u64,
}

impl Network {
    pub(super) fn new(seed: u64) -> Network {
        let random = Random::new(seed);
        Network { now_ns: 1, random, queue: BinaryHeap::new(), count: 0, lost: 0, damaged: 0 }
    }

    /// One of five is lost, one of ten repeated, one of ten damaged; every one takes a time of its
    /// own, some a very long one.
    pub(super) fn send(&mut self, to: To, packet: &[u8]) {
        if self.random.chance(20) {
            self.lost += 1;
            return;
        }
        let copies = if self.random.chance(10) { 2 } else { 1 };
        for _ in 0..copies {
            let mut copy = packet.to_vec();
            if self.random.chance(10) {
                self.damaged += 1;
                for _ in 0..=self.random.below(3) {
                    let bit = self.random.below(copy.len() as u64 * 8);
                    copy[bit as usize / 8] ^= 1 << (bit % 8);
                }
            }
            let delay_ns = match self.random.below(1000) {
                0 => self.random.below(3_000_000_000),
                1..50 => self.random.below(20_000_000),
                _ => 5_000 + self.random.below(200_000),
            };
            self.count += 1;
            self.queue.push(Reverse((self.now_ns + delay_ns, self.count, to, copy)));
        }
    }

    /// When the next datagram arrives.
    pub(super) fn next_ns(&self) -> Option<u64> {
        self.queue.peek().map(|Reverse((at, ..))| *at)
    }

    /// A datagram that has arrived by now.
    pub(super) fn arrived(&mut self) -> Option<(To, Vec<u8>)> {
        if self.next_ns()? > self.now_ns {
            return None;
        }
        self.queue.pop().map(|Reverse((_, _, to, packet))| (to, packet))
    }
}
