//! A port that does whatever ports do, at random, and checks every outcome.

use farside_fabric::{
    Accumulate, Atomic, Number, Op, Piece, Rank, Reply, SegmentId, Shape, Ticket, Width, Word,
};

use super::memory::word;
use super::network::{Random, mix};
use crate::initiator::fragments::{FarSegment, Fragments};
use crate::initiator::origin::{Operands, Origin};
use crate::link::buffer::Buffer;
use crate::target::memory::slot;
use crate::target::service::{Memory, Service};
use crate::transport::seal::Key;
use crate::wire::request::Request;
use crate::wire::{PortId, ServerId};

/// What is where in the memory of each server's first rank.
pub(super) mod at {
    pub(crate) const TICKETS: u64 = 0;
    pub(crate) const SWAPS: u64 = 8;
    pub(crate) const CHAIN: u64 = 16;
    pub(crate) const PAIR: u64 = 32;
    /// A word for each client.
    pub(crate) const POSTED: u64 = 64;
    pub(crate) const SUMS: u64 = 4096;
    /// Numbers that are fetched while they are added to.
    pub(crate) const DRAWN: u64 = 16 << 10;
    /// An area for each client.
    pub(crate) const AREAS: u64 = 64 << 10;
    pub(crate) const AREA_BYTES: u64 = 64 << 10;
}
pub(super) const SUM_COUNT: u64 = 512;
pub(super) const DRAWN_COUNT: u64 = 1024;
const AREA_WORDS: u64 = at::AREA_BYTES / 8;
const RECALL_NS: u64 = 50_000_000;
const CALLS: u32 = 4;
/// What bytes are overwritten with that are not needed any more.
const SPOILT: u8 = 0xEE;

/// What all clients have done to one server, and must have left there.
pub(super) struct Expected {
    /// Which tickets were drawn.
    pub(super) tickets: Vec<bool>,
    pub(super) sums: Vec<i64>,
    /// Of each number that is fetched while it is increased by one: how often that was done, and
    /// the sum of what was fetched.
    pub(super) drawn: Vec<(u64, u64)>,
    /// What was written, minus what was found, of the swaps, the compare-swaps and the pairs: what
    /// is left is what is there.
    pub(super) swaps: u64,
    pub(super) chain: u64,
    pub(super) pairs: u64,
}

impl Expected {
    pub(super) fn new() -> Expected {
        Expected {
            tickets: Vec::new(),
            sums: vec![0; SUM_COUNT as usize],
            drawn: vec![(0, 0); DRAWN_COUNT as usize],
            swaps: 0,
            chain: 0,
            pairs: 0,
        }
    }
}

pub(super) struct Client {
    pub(super) origin: Origin,
    index: u64,
    random: Random,
    servers: Vec<Server>,
    fetches: Vec<(Ticket, usize, Fetch)>,
    calls: Vec<Call>,
    call_count: u32,
    unique: u64,
    pub(super) left: u64,
    pub(super) done: u64,
}

struct Server {
    id: ServerId,
    rank: Rank,
    /// What its area holds when everything that was posted has landed: the count of the put and the
    /// number of the word.
    area: Vec<u64>,
    puts: u64,
    last_put: Option<usize>,
    posted: u64,
    chain: u64,
}

enum Fetch {
    Ticket,
    Swap(u64),
    Chain {
        expected: u64,
        desired: u64,
    },
    Pair(u64),
    /// Words, what they held at least when it began, and the buffer.
    Get {
        words: Vec<usize>,
        floor: Vec<u64>,
        buffer: Box<[u8]>,
    },
    /// A put from these bytes.
    Lent(Vec<u8>),
    /// Numbers that are increased by one, the first of them.
    Drawn(usize),
}

struct Call {
    server: usize,
    slot: u32,
    argument: Vec<u8>,
    recall_ns: u64,
}

impl Client {
    pub(super) fn new(
        index: u32,
        key: &Key,
        servers: &[(ServerId, Rank)],
        packet_bytes: usize,
        operations: u64,
    ) -> Client {
        let id = PortId::of_rank(Rank(index), 0);
        let origin =
            Origin::new(id, key.clone(), index as u16 + 1, super::memory::NODES, packet_bytes);
        let server = |&(id, rank): &(ServerId, Rank)| Server {
            id,
            rank,
            area: vec![0; AREA_WORDS as usize],
            puts: 0,
            last_put: None,
            posted: 0,
            chain: 0,
        };
        Client {
            origin,
            index: index.into(),
            random: Random::new(mix(u64::from(index) + operations)),
            servers: servers.iter().map(server).collect(),
            fetches: Vec::new(),
            calls: Vec::new(),
            // The count in a slot has 28 bits: it comes to its end, and begins again.
            call_count: (1 << 28) - 20,
            unique: 0,
            left: operations,
            done: 0,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.left == 0 && self.fetches.is_empty() && self.calls.is_empty() && !self.origin.is_busy()
    }

    /// When it wants to look again, whatever happens.
    pub(super) fn due_ns(&self) -> Option<u64> {
        let recall = self.calls.iter().map(|call| call.recall_ns).min();
        [self.origin.due_ns(), recall].into_iter().flatten().min()
    }

    /// Does a few operations more, as far as it may.
    pub(super) fn issue(&mut self, expected: &mut [Expected], now_ns: u64) {
        for _ in 0..self.random.below(16) {
            let at = self.random.below(self.servers.len() as u64) as usize;
            if self.left == 0
                || self.fetches.len() > 200
                || self.origin.is_full(self.servers[at].id)
            {
                break;
            }
            self.left -= 1;
            self.operate(at, &mut expected[at], now_ns);
        }
        if self.left == 0 || self.random.chance(30) {
            self.origin.push();
        }
    }

    fn unique(&mut self) -> u64 {
        self.unique += 1;
        ((self.index + 1) << 48) | self.unique
    }

    fn operate(&mut self, at: usize, expected: &mut Expected, now_ns: u64) {
        match self.random.below(100) {
            0..20 => self.fetch(at, at::TICKETS, Width::W64, Atomic::Add(1), Fetch::Ticket),
            20..27 => {
                let value = self.unique();
                self.fetch(
                    at,
                    at::SWAPS,
                    Width::W64,
                    Atomic::Swap(value.into()),
                    Fetch::Swap(value),
                );
            }
            27..34 => {
                let (old, new) = (self.servers[at].chain, self.unique());
                let op = Atomic::CompareSwap { expected: old.into(), desired: new.into() };
                self.fetch(
                    at,
                    at::CHAIN,
                    Width::W64,
                    op,
                    Fetch::Chain { expected: old, desired: new },
                );
            }
            34..40 => {
                let value = self.unique();
                self.fetch(
                    at,
                    at::PAIR,
                    Width::Pair,
                    Atomic::Swap(twin(value)),
                    Fetch::Pair(value),
                );
            }
            40..55 => {
                let server = &mut self.servers[at];
                server.posted += 1;
                let place = word_at(server.rank, at::POSTED + 8 * self.index, Width::W64);
                let add = Request::Post { at: place, op: Atomic::Add(1), counts: true };
                self.origin.post(server.id, &add);
            }
            55..75 => self.put(at),
            75..85 => self.get(at),
            85..93 => self.accumulate(at, expected),
            93..99 => self.get_accumulate(at, expected),
            _ => self.call(at, now_ns),
        }
    }

    fn fetch(&mut self, at: usize, offset: u64, width: Width, op: Atomic, what: Fetch) {
        let server = &self.servers[at];
        let ticket = self.origin.atomic(server.id, word_at(server.rank, offset, width), op);
        self.fetches.push((ticket, at, what));
    }

    /// Some words of the client's area: one or a few, many, or rows. As a shape, and one by one.
    fn choose(&mut self) -> (Vec<usize>, u64, u64, u64, u64) {
        let (unit, count) = match self.random.below(100) {
            0..70 => (1 + self.random.below(4), 1),
            70..72 => (1 + self.random.below(AREA_WORDS), 1),
            72..85 => (1 + self.random.below(200), 1),
            _ => (1 + self.random.below(30), 1 + self.random.below(12)),
        };
        let stride = unit + self.random.below(8);
        let span = stride * (count - 1) + unit;
        let first = self.random.below(AREA_WORDS - span + 1);
        let words = (0..count)
            .flat_map(|row| (0..unit).map(move |word| (first + row * stride + word) as usize));
        (words.collect(), first, unit, count, stride)
    }

    fn put(&mut self, at: usize) {
        let (words, first, unit, count, stride) = self.choose();
        let area = at::AREAS + self.index * at::AREA_BYTES;
        let server = &mut self.servers[at];
        server.puts += 1;
        let mut bytes = Vec::with_capacity(words.len() * 8);
        for &word in &words {
            server.area[word] = (server.puts << 16) | word as u64;
            bytes.extend_from_slice(&server.area[word].to_le_bytes());
        }
        server.last_put = words.last().copied();
        let (counts, strides) = ([count], [stride * 8]);
        let shape = shape_of(area + first * 8, unit * 8, &counts, &strides);
        let (place, mut cut) =
            (FarSegment { rank: server.rank, segment: SegmentId::ROOT }, Fragments::new(shape, 1));
        if self.random.chance(50) {
            while !cut.is_done() {
                self.origin.put_some(server.id, place, &mut cut, &bytes, false);
            }
            return;
        }
        // SAFETY: the heap's bytes stay where and as they are until the transfer is over, see
        // `check`, or was cancelled.
        let ticket = unsafe { self.origin.lend(server.id, place, cut, &bytes, false) };
        if self.random.chance(20) {
            self.origin.cancel(ticket);
            bytes.fill(SPOILT);
        } else {
            self.fetches.push((ticket, at, Fetch::Lent(bytes)));
        }
    }

    fn get(&mut self, at: usize) {
        let (words, first, unit, count, stride) = self.choose();
        let area = at::AREAS + self.index * at::AREA_BYTES;
        let server = &self.servers[at];
        let floor = words.iter().map(|&word| server.area[word]).collect();
        let mut buffer = vec![0xFF; words.len() * 8].into_boxed_slice();
        // SAFETY: the box stays where it is, and nothing accesses it, until the get is over: see
        // `settle`.
        let lent = unsafe { Buffer::new(buffer.as_mut_ptr(), buffer.len()) };
        let ticket = self.origin.begin_get(lent);
        let (counts, strides) = ([count], [stride * 8]);
        let mut cut = Fragments::new(shape_of(area + first * 8, unit * 8, &counts, &strides), 1);
        while !cut.is_done() {
            self.origin.get_some(
                ticket,
                server.id,
                FarSegment { rank: server.rank, segment: SegmentId::ROOT },
                &mut cut,
            );
        }
        self.fetches.push((ticket, at, Fetch::Get { words, floor, buffer }));
    }

    fn accumulate(&mut self, at: usize, expected: &mut Expected) {
        let count = 1 + self.random.below(40);
        let first = self.random.below(SUM_COUNT - count + 1);
        let scale = self.random.next() as i64;
        let mut bytes = Vec::new();
        for sum in &mut expected.sums[first as usize..][..count as usize] {
            let number = self.random.next() as i64;
            *sum = sum.wrapping_add(number.wrapping_mul(scale));
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        let mut scale_bytes = [0; 16];
        scale_bytes[..8].copy_from_slice(&scale.to_le_bytes());
        let sum = Accumulate::scaled_sum(Number::I64, scale_bytes).unwrap();
        let server = &self.servers[at];
        let shape = Shape::Block(Piece { offset: at::SUMS + first * 8, bytes: count * 8 });
        let mut cut = Fragments::new(shape, 8);
        while !cut.is_done() {
            let place = FarSegment { rank: server.rank, segment: SegmentId::ROOT };
            self.origin.accumulate_some(
                server.id,
                place,
                &mut cut,
                Operands { accumulate: &sum, bytes: &bytes },
                true,
            );
        }
    }

    /// Increases some numbers by one, few or more than fit into a datagram, and fetches them.
    fn get_accumulate(&mut self, at: usize, expected: &mut Expected) {
        let most = if self.random.chance(90) { 4 } else { DRAWN_COUNT };
        let count = 1 + self.random.below(most);
        let first = self.random.below(DRAWN_COUNT - count + 1);
        for (times, _) in &mut expected.drawn[first as usize..][..count as usize] {
            *times += 1;
        }
        let bytes = 1i64.to_le_bytes().repeat(count as usize);
        let sum = Accumulate::new(Number::I64, Op::Sum).unwrap();
        let server = &self.servers[at];
        let shape = Shape::Block(Piece { offset: at::DRAWN + first * 8, bytes: count * 8 });
        let (mut cut, ticket) =
            (Fragments::new(shape, 8), self.origin.begin_get_accumulate(bytes.len()));
        while !cut.is_done() {
            let place = FarSegment { rank: server.rank, segment: SegmentId::ROOT };
            let operands = Operands { accumulate: &sum, bytes: &bytes };
            self.origin.get_accumulate_some(ticket, server.id, place, &mut cut, operands);
        }
        self.fetches.push((ticket, at, Fetch::Drawn(first as usize)));
    }

    fn call(&mut self, at: usize, now_ns: u64) {
        let is_free = |index: &u32| {
            self.calls.iter().all(|call| call.server != at || slot::index(call.slot) != *index)
        };
        let Some(index) = (0..CALLS).find(is_free) else { return };
        self.call_count += 1;
        let slot = slot::new(index, self.call_count);
        let argument: Vec<u8> =
            (0..self.random.below(100)).map(|_| self.random.next() as u8).collect();
        let request = Request::Call { slot, handler: 7, argument: &argument };
        self.origin.post_whole(self.servers[at].id, &request, argument.len()).unwrap();
        self.calls.push(Call { server: at, slot, argument, recall_ns: now_ns + RECALL_NS });
    }

    /// Takes in what has completed, checks it, and asks again for answers of handlers.
    pub(super) fn settle(&mut self, expected: &mut [Expected], now_ns: u64, answers: bool) {
        let before = self.fetches.len() + self.calls.len();
        let Client { origin, fetches, servers, .. } = self;
        fetches.retain_mut(|(ticket, at, fetch)| {
            let Some(reply) = origin.take(*ticket).unwrap() else { return true };
            check(fetch, reply, &mut servers[*at], &mut expected[*at]);
            false
        });
        for called in self.origin.take_calls() {
            let is_it = |call: &Call| {
                call.slot == called.slot && self.servers[call.server].id == called.server
            };
            if let Some(at) = self.calls.iter().position(is_it) {
                let mut argument = self.calls.swap_remove(at).argument;
                argument.reverse();
                assert!(!answers || called.bytes == argument, "a handler's answer is another's");
            }
        }
        for call in self.calls.iter_mut().filter(|call| call.recall_ns <= now_ns) {
            call.recall_ns = now_ns + RECALL_NS;
            self.origin.post(self.servers[call.server].id, &Request::Recall { slot: call.slot });
            self.origin.push();
        }
        let settled = before - self.fetches.len() - self.calls.len();
        self.done += settled as u64;
    }

    pub(super) fn check_landed<M: Memory>(&self, at: usize, service: &mut Service<M>) {
        let server = &self.servers[at];
        if !self.origin.has_landed(server.id) {
            return;
        }
        let posted = word(service.memory(), server.rank, at::POSTED + 8 * self.index, Width::W64);
        assert_eq!(posted, u128::from(server.posted), "posted additions have not landed, or twice");
        if let Some(last) = server.last_put {
            let offset = at::AREAS + self.index * at::AREA_BYTES + last as u64 * 8;
            let there = word(service.memory(), server.rank, offset, Width::W64);
            assert_eq!(there, u128::from(server.area[last]), "a put has not landed");
        }
    }

    /// All of its area is as its puts, in their order, have left it.
    pub(super) fn check_area<M: Memory>(&self, at: usize, service: &mut Service<M>) {
        let server = &self.servers[at];
        for (index, &value) in server.area.iter().enumerate() {
            let offset = at::AREAS + self.index * at::AREA_BYTES + index as u64 * 8;
            let there = word(service.memory(), server.rank, offset, Width::W64);
            assert_eq!(there, u128::from(value), "word {index} of client {}", self.index);
        }
    }
}

fn check(fetch: &mut Fetch, reply: Reply, server: &mut Server, expected: &mut Expected) {
    let found = match reply {
        Reply::Bytes(bytes) => return check_drawn(fetch, &bytes, expected),
        Reply::Word(value) => value,
        Reply::None => 0,
    };
    match fetch {
        Fetch::Ticket => {
            let ticket = found as usize;
            if expected.tickets.len() <= ticket {
                expected.tickets.resize(ticket + 1, false);
            }
            assert!(
                !std::mem::replace(&mut expected.tickets[ticket], true),
                "ticket {ticket} was drawn twice"
            );
        }
        Fetch::Swap(value) => {
            expected.swaps =
                expected.swaps.wrapping_add(mix(*value)).wrapping_sub(mix(found as u64));
        }
        Fetch::Chain { expected: old, desired } => {
            let is_success = found == u128::from(*old);
            if is_success {
                expected.chain = expected.chain.wrapping_add(mix(*desired)).wrapping_sub(mix(*old));
            }
            server.chain = if is_success { *desired } else { found as u64 };
        }
        Fetch::Pair(value) => {
            let low = found as u64;
            assert!(found == 0 || found == twin(low), "half of a pair");
            expected.pairs = expected.pairs.wrapping_add(mix(*value)).wrapping_sub(mix(low));
        }
        // A sender that still needed them would send bytes that were never put.
        Fetch::Lent(bytes) => bytes.fill(SPOILT),
        Fetch::Drawn(_) => panic!("an accumulate that fetches brought nothing"),
        Fetch::Get { words, floor, buffer } => {
            let there =
                buffer.chunks_exact(8).map(|chunk| u64::from_le_bytes(chunk.try_into().unwrap()));
            for ((&word, &mut floor), found) in words.iter().zip(floor).zip(there) {
                let is_its = found == 0 || found & 0xFFFF == word as u64;
                let in_time = floor <= found && found <= server.area[word];
                assert!(
                    is_its && in_time,
                    "word {word} held {found:#x}, between {floor:#x} and {:#x}",
                    server.area[word]
                );
            }
        }
    }
}

/// Adds up the numbers that an accumulate has fetched.
fn check_drawn(fetch: &Fetch, bytes: &[u8], expected: &mut Expected) {
    let &Fetch::Drawn(first) = fetch else { panic!("bytes were fetched by another operation") };
    let fetched = bytes.chunks_exact(8).map(|chunk| u64::from_le_bytes(chunk.try_into().unwrap()));
    for ((_, sum), old) in expected.drawn[first..].iter_mut().zip(fetched) {
        *sum += old;
    }
}

fn twin(value: u64) -> u128 {
    (u128::from(!value) << 64) | u128::from(value)
}

fn word_at(rank: Rank, offset: u64, width: Width) -> Word {
    Word { rank, segment: SegmentId::ROOT, offset, width }
}

fn shape_of<'a>(offset: u64, unit: u64, counts: &'a [u64; 1], strides: &'a [u64; 1]) -> Shape<'a> {
    if counts[0] == 1 {
        Shape::Block(Piece { offset, bytes: unit })
    } else {
        Shape::Strided { offset, unit, counts, strides }
    }
}
