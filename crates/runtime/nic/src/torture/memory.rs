//! Memory for tests: plain bytes, and the real thing.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use farside_fabric::{
    Accumulate, Atomic, Error, Loss, Node, PeerState, Rank, Region, Result, SegmentId, Topology,
    Width, Word,
};
use farside_shm::{Config, Job};
use rustc_hash::FxHashMap;

use crate::node::address_table::AddressTable;
use crate::target::memory::NodeMemory;
use crate::target::service::{CallState, Memory, Nodes, Service};
use crate::transport::seal::Key;
use crate::wire::ServerId;
use crate::wire::request::{About, Rows};

/// How many bytes each rank has.
pub(super) const BYTES: u64 = 512 << 10;
/// Four nodes of two ranks each: clients are on the first two, servers are the last two.
pub(super) const NODES: u32 = 4;

pub(super) fn topology() -> Topology {
    Topology::parse("node:4", 8).unwrap()
}

pub(super) fn hosts() -> Vec<IpAddr> {
    vec![IpAddr::V4(Ipv4Addr::LOCALHOST); NODES as usize]
}

pub(super) fn nodes() -> Nodes {
    Nodes { topology: topology(), hosts: hosts() }
}

/// A server that has nothing to do with the system.
pub(super) fn plain(node: Node, key: &Key, packet_bytes: usize) -> Service<Plain> {
    let memory = Plain { rank: topology().leader_of(node).unwrap(), ..Plain::default() };
    Service::new(ServerId(node.0), key.clone(), packet_bytes, nodes(), memory)
}

pub(crate) fn real_job(node: Node, key: &Key) -> (Arc<Job>, NodeMemory) {
    let mut config = Config::new(topology(), BYTES);
    config.arena_bytes = 1 << 20;
    config.beside_bytes = AddressTable::bytes(&config.topology);
    let job = Job::create(&config).unwrap();
    let table = AddressTable::of(&job);
    table.set_up(node, key, &crate::settings::Settings::default(), "").unwrap();
    (job.clone(), NodeMemory::new(job, node, None, table.host_ports()))
}

pub(super) fn real(node: Node, key: &Key, packet_bytes: usize) -> Service<NodeMemory> {
    let (_, target) = real_job(node, key);
    Service::new(ServerId(node.0), key.clone(), packet_bytes, nodes(), target)
}

/// The bytes of one rank, and a handler that turns its argument around.
pub(super) struct Plain {
    pub(super) rank: Rank,
    pub(super) bytes: Vec<u8>,
    /// For each call its answer, and how often it is asked for before it is there.
    calls: FxHashMap<(Rank, u32), (Vec<u8>, u32)>,
}

impl Default for Plain {
    fn default() -> Plain {
        Plain { rank: Rank(0), bytes: vec![0; BYTES as usize], calls: FxHashMap::default() }
    }
}

impl Plain {
    fn run(
        &mut self,
        rank: Rank,
        segment: SegmentId,
        offset: u64,
        bytes: u64,
    ) -> Result<&mut [u8]> {
        if rank != self.rank || segment != SegmentId::ROOT {
            return Err(Error::NoSegment { rank, segment });
        }
        let run = Region::block(rank, segment, offset, bytes);
        run.check(BYTES)?;
        Ok(&mut self.bytes[offset as usize..][..bytes as usize])
    }

    /// Every row of `at`, whole or not at all.
    fn each_row(&mut self, at: &Rows, mut each: impl FnMut(&mut [u8], usize)) -> Result<()> {
        if at.unit == 0 {
            return self.run(at.rank, at.segment, at.offset, 0).map(drop);
        }
        let begin =
            |row: u64| at.stride.checked_mul(row).and_then(|step| step.checked_add(at.offset));
        for touch in [false, true] {
            for row in 0..u64::from(at.count) {
                let offset = begin(row).unwrap_or(u64::MAX);
                let run = self.run(at.rank, at.segment, offset, at.unit.into())?;
                if touch {
                    each(run, row as usize * at.unit as usize);
                }
            }
        }
        Ok(())
    }
}

impl Memory for Plain {
    fn put(&mut self, to: &Rows, data: &[u8]) -> Result<()> {
        self.each_row(to, |run, at| run.copy_from_slice(&data[at..at + run.len()]))
    }

    fn get(&mut self, from: &Rows, into: &mut [u8]) -> Result<()> {
        self.each_row(from, |run, at| into[at..at + run.len()].copy_from_slice(run))
    }

    fn accumulate(
        &mut self,
        to: &Rows,
        accumulate: &Accumulate,
        data: &[u8],
        mut old: Option<&mut [u8]>,
    ) -> Result<()> {
        let scale = accumulate
            .operand()
            .map_or(1, |scale| i64::from_le_bytes(scale[..8].try_into().unwrap()));
        self.each_row(to, |run, at| {
            if let Some(old) = &mut old {
                old[at..at + run.len()].copy_from_slice(run);
            }
            for (y, x) in run.chunks_exact_mut(8).zip(data[at..].chunks_exact(8)) {
                let add = i64::from_le_bytes(x.try_into().unwrap()).wrapping_mul(scale);
                let old = i64::from_le_bytes((&*y).try_into().unwrap());
                y.copy_from_slice(&old.wrapping_add(add).to_le_bytes());
            }
        })
    }

    fn atomic(&mut self, at: Word, op: Atomic) -> Result<u128> {
        op.check(at.width)?;
        at.check(BYTES)?;
        let width = at.width.bytes() as usize;
        let run = self.run(at.rank, at.segment, at.offset, width as u64)?;
        let mut value = [0; 16];
        value[..width].copy_from_slice(run);
        let old = u128::from_le_bytes(value);
        let new = match op {
            Atomic::Load => old,
            Atomic::Store(value) | Atomic::Swap(value) => value,
            Atomic::Add(value) => old.wrapping_add(value),
            Atomic::CompareSwap { expected, desired } => {
                if old == expected {
                    desired
                } else {
                    old
                }
            }
            Atomic::And(value) => old & value,
            Atomic::Or(value) => old | value,
            Atomic::Xor(value) => old ^ value,
        };
        run.copy_from_slice(&new.to_le_bytes()[..width]);
        Ok(old)
    }

    fn wake(&mut self, _: Word) {}

    fn count_landings(&mut self, _: u64) {}

    fn call(&mut self, caller: Rank, slot: u32, _handler: u32, argument: &[u8]) {
        let mut reply = argument.to_vec();
        reply.reverse();
        let before = self.calls.insert((caller, slot), (reply, 3));
        assert!(before.is_none(), "a call of {caller} was executed twice");
    }

    fn answer(&mut self, caller: Rank, slot: u32) -> CallState {
        match self.calls.get_mut(&(caller, slot)) {
            None => CallState::Forgotten,
            Some((reply, 0)) => CallState::Answered(0, reply.clone()),
            Some((_, asked)) => {
                *asked -= 1;
                CallState::Pending
            }
        }
    }

    fn note_departure(&mut self, _rank: Rank, _fate: PeerState, _cause: Option<Loss>) {}

    fn segment(&mut self, _: Rank, _: SegmentId, _: About, _: bool) -> Result<u128> {
        Err(Error::Unsupported { what: "memory access without an agent".into() })
    }

    fn locate(&mut self, _rank: Rank) -> Result<u16> {
        Ok(0)
    }
}

pub(super) fn word(memory: &mut impl Memory, rank: Rank, offset: u64, width: Width) -> u128 {
    memory.atomic(Word { rank, segment: SegmentId::ROOT, offset, width }, Atomic::Load).unwrap()
}
