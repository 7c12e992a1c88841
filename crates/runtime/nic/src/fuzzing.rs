//! Entry points of the fuzzer: both sides of the wire get datagrams with valid tags, whose bodies
//! it chooses. Compiled under `cfg(fuzzing)` only; see `fuzz/`.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use farside_fabric::{
    Accumulate, Atomic, Node, Number, Op, Piece, Rank, SegmentId, Shape, Topology, Width, Word,
};
use farside_shm::{Config, Job};

use crate::initiator::fragments::{FarSegment, Fragments};
use crate::initiator::origin::{Operands, Origin};
use crate::link::Acknowledgement;
use crate::link::buffer::Buffer;
use crate::node::address_table::AddressTable;
use crate::settings::Settings;
use crate::target::memory::NodeMemory;
use crate::target::service::{Nodes, Service};
use crate::transport::Carrier;
use crate::transport::seal::Key;
use crate::wire::{self, HEADER_BYTES, Header, Kind, PortId, ServerId};

const REPLY_BYTES: usize = 62 << 10;

/// Gives a sequence of datagrams to a server of real memory. The contents of that memory decide
/// nothing, so one is used for all runs.
pub fn serve(job: &Arc<Job>, data: &[u8]) {
    let key = Key::from_bytes([1; 16]);
    let memory = NodeMemory::new(job.clone(), Node(1), None, AddressTable::of(job).host_ports());
    let hosts = vec![IpAddr::V4(Ipv4Addr::LOCALHOST); 2];
    let nodes = Nodes { topology: (**job.topology()).clone(), hosts };
    let mut service = Service::new(ServerId(1), key.clone(), REPLY_BYTES, nodes, memory);
    let mut out = |_, reply: &[u8], _| assert!(reply.len() <= REPLY_BYTES + HEADER_BYTES);
    for (how, body) in Pieces(data) {
        let port = match how % 4 {
            0 => PortId::of_rank(Rank(0), 0),
            1 => PortId::of_rank(Rank(1), 1),
            2 => PortId::of_agent(Node(0)),
            _ => PortId(u64::from(how) << 26),
        };
        let number = u64::from(how >> 2 & 127);
        let numbers = Acknowledgement { number, executed: 0, held: 0 };
        service.receive(
            &sealed(&key, Kind::Request, port, numbers, body),
            Carrier::DATAGRAM,
            &mut out,
        );
        if how & 0x8000 != 0 {
            service.rest(&mut out);
        }
        // The bytes as they are, too.
        service.receive(body, Carrier::DATAGRAM, &mut out);
    }
    service.rest(&mut out);
}

/// Gives the bytes of a stream to both of its ends.
pub fn stream(data: &[u8]) {
    crate::transport::fuzz_frames(&Key::from_bytes([1; 16]), data);
}

/// Gives a sequence of replies to a port that has operations of every kind under way.
pub fn reply(data: &[u8]) {
    let (key, id) = (Key::from_bytes([1; 16]), PortId::of_rank(Rank(0), 0));
    let mut origin = Origin::new(id, key.clone(), 1, 2, 600);
    let mut buffer = vec![0; 2000].into_boxed_slice();
    let server = ServerId(1);
    let place = Word { rank: Rank(2), segment: SegmentId::ROOT, offset: 0, width: Width::W64 };
    for _ in 0..5 {
        origin.atomic(server, place, Atomic::Add(1));
    }
    // SAFETY: the buffer outlives the origin, and nothing else accesses it.
    let lent = unsafe { Buffer::new(buffer.as_mut_ptr(), buffer.len()) };
    let get = origin.begin_get(lent);
    let place = FarSegment { rank: Rank(2), segment: SegmentId::ROOT };
    let shape = Shape::Block(Piece { offset: 0, bytes: 2000 });
    let mut fragments = Fragments::new(shape, 1);
    while !fragments.is_done() {
        origin.get_some(get, server, place, &mut fragments);
    }
    let accumulate = Accumulate::new(Number::F64, Op::Max).expect("it exists");
    let operands = Operands { accumulate: &accumulate, bytes: &[0; 2000] };
    let (ticket, mut fragments) = (origin.begin_get_accumulate(2000), Fragments::new(shape, 8));
    while !fragments.is_done() {
        origin.get_accumulate_some(ticket, server, place, &mut fragments, operands);
    }
    origin.pump(1, &mut |_: ServerId, _: &[u8]| ());
    for (at, (how, body)) in Pieces(data).enumerate() {
        let numbers = Acknowledgement {
            number: u64::from(how & 15),
            executed: u64::from(how >> 4 & 15),
            held: u64::from(how) >> 8,
        };
        // A datagram that is refused changes nothing.
        let _ = origin.receive(&sealed(&key, Kind::Reply, id, numbers, body), at as u64);
        let _ = origin.receive(body, at as u64);
        origin.pump(at as u64, &mut |_: ServerId, _: &[u8]| ());
        drop(origin.take_calls());
    }
    drop(origin);
}

/// Splits what the fuzzer gives into pieces, each with two bytes of options.
struct Pieces<'a>(&'a [u8]);

impl<'a> Iterator for Pieces<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<(u16, &'a [u8])> {
        let (&[a, b, length], rest) = self.0.split_first_chunk::<3>()?;
        let length =
            if length < 128 { usize::from(length) } else { usize::from(length - 127) * 500 };
        let (piece, rest) = rest.split_at(length.min(rest.len()));
        self.0 = rest;
        Some((u16::from_le_bytes([a, b]), piece))
    }
}

fn sealed(key: &Key, kind: Kind, port: PortId, numbers: Acknowledgement, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; HEADER_BYTES];
    packet.extend_from_slice(body);
    let Acknowledgement { number, executed, held } = numbers;
    let header = Header { kind, server: ServerId(1), port, number, executed, held, reply_port: 1 };
    wire::seal(key, &header, &mut packet);
    packet
}

/// Memory for [`serve`].
pub fn memory() -> Arc<Job> {
    let topology = Topology::parse("node:2", 4).expect("it is well-formed");
    let mut config = Config::new(topology, 4096);
    config.arena_bytes = 1 << 16;
    config.beside_bytes = AddressTable::bytes(&config.topology);
    let job = Job::create(&config).expect("there is room");
    let set_up =
        AddressTable::of(&job).set_up(Node(1), &Key::from_bytes([1; 16]), &Settings::default(), "");
    set_up.expect("an empty name fits");
    job
}
