//! A network that loses, repeats, delays and damages datagrams, and breaks streams, in virtual
//! time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use crate::transport::Carrier;

pub(super) use farside_fabric::random::{SplitMix as Random, scatter as mix};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum To {
    Server(usize),
    Client(usize),
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct UnderWay {
    arrives_ns: u64,
    /// It keeps the order of those of one moment.
    count: u64,
    to: To,
    /// The number of the stream that carries it; zero for a datagram.
    stream: u64,
    packet: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Ends {
    pub(super) client: usize,
    pub(super) server: usize,
}

#[derive(Default)]
struct Stream {
    number: u64,
    /// When the last packet of either direction arrives: the next one does not overtake it.
    there_ns: u64,
    back_ns: u64,
}

pub(super) struct Network {
    pub(super) now_ns: u64,
    /// If the network is fair: how long every datagram takes, of which none is lost.
    pub(super) fair_delay_ns: Option<u64>,
    random: Random,
    /// By the time of arrival.
    queue: BinaryHeap<Reverse<UnderWay>>,
    count: u64,
    pub(super) lost: u64,
    pub(super) damaged: u64,
    streams: HashMap<Ends, Stream>,
    stream_count: u64,
    pub(super) broken: u64,
    /// The number of packets that streams have carried.
    pub(super) streamed: u64,
}

impl Network {
    pub(super) fn new(seed: u64) -> Network {
        let random = Random::new(seed);
        Network {
            now_ns: 1,
            fair_delay_ns: None,
            random,
            queue: BinaryHeap::new(),
            count: 0,
            lost: 0,
            damaged: 0,
            streams: HashMap::new(),
            stream_count: 0,
            broken: 0,
            streamed: 0,
        }
    }

    /// Returns the stream between two ends, which is opened if it has broken.
    pub(super) fn stream(&mut self, ends: Ends) -> Carrier {
        let Network { streams, stream_count, .. } = self;
        let stream = streams.entry(ends).or_insert_with(|| {
            *stream_count += 1;
            Stream { number: *stream_count, ..Stream::default() }
        });
        Carrier::stream(stream.number)
    }

    /// Sends by the stream between two ends: in order and whole, until it breaks. Returns what
    /// carries it.
    pub(super) fn send_by_stream(&mut self, ends: Ends, to: To, packet: &[u8]) -> Carrier {
        let carrier = self.stream(ends);
        if self.random.chance(2) {
            self.break_stream(ends);
            return carrier;
        }
        let delay_ns = 5_000 + self.random.below(300_000);
        let Some(stream) = self.streams.get_mut(&ends) else { return carrier };
        let last_ns = match to {
            To::Server(_) => &mut stream.there_ns,
            To::Client(_) => &mut stream.back_ns,
        };
        *last_ns = (*last_ns).max(self.now_ns + delay_ns);
        (self.count, self.streamed) = (self.count + 1, self.streamed + 1);
        let (arrives_ns, count, stream) = (*last_ns, self.count, stream.number);
        self.queue.push(Reverse(UnderWay { arrives_ns, count, to, stream, packet: packet.into() }));
        carrier
    }

    /// Breaks a stream. Of what is under way some is lost from a point on, and the rest arrives
    /// late: its receiver had it in its buffers.
    fn break_stream(&mut self, ends: Ends) {
        let Some(stream) = self.streams.remove(&ends) else { return };
        self.broken += 1;
        let mut queue: Vec<UnderWay> = self.queue.drain().map(|Reverse(it)| it).collect();
        queue.sort();
        let (mut there, mut back) = (self.random.below(8), self.random.below(8));
        queue.retain(|it| {
            let left = match it.to {
                _ if it.stream != stream.number => return true,
                To::Server(_) => &mut there,
                To::Client(_) => &mut back,
            };
            *left = left.saturating_sub(1);
            *left > 0
        });
        self.queue = queue.into_iter().map(Reverse).collect();
    }

    /// Unless the network is fair, one of five is lost, one of ten repeated, one of ten damaged;
    /// every one takes a time of its own, some a very long one.
    pub(super) fn send(&mut self, to: To, packet: &[u8]) {
        if let Some(delay_ns) = self.fair_delay_ns {
            return self.deliver_after(delay_ns, to, packet.to_vec());
        }
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
            self.deliver_after(delay_ns, to, copy);
        }
    }

    fn deliver_after(&mut self, delay_ns: u64, to: To, packet: Vec<u8>) {
        self.count += 1;
        let (arrives_ns, count) = (self.now_ns + delay_ns, self.count);
        self.queue.push(Reverse(UnderWay { arrives_ns, count, to, stream: 0, packet }));
    }

    pub(super) fn next_ns(&self) -> Option<u64> {
        self.queue.peek().map(|Reverse(it)| it.arrives_ns)
    }

    pub(super) fn arrived(&mut self) -> Option<(To, Vec<u8>, Carrier)> {
        if self.next_ns()? > self.now_ns {
            return None;
        }
        let Reverse(UnderWay { to, packet, stream, .. }) = self.queue.pop()?;
        let carrier = if stream == 0 { Carrier::DATAGRAM } else { Carrier::stream(stream) };
        Some((to, packet, carrier))
    }
}
