//! What the ranks and the agent of a node must know of the others, in the memory that they share: the job's key, where each node's
//! interface listens, and at which port each of the node's threads can be woken.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use farside_fabric::{Atomic, Error, Mapped, Node, Rank, Result, Topology, Width};
use farside_shm::Job;

use crate::seal::Key;
use crate::wire::PortId;
use crate::{Server, Settings};

/// How many threads of a rank may communicate at a time.
pub(crate) const PORTS_PER_RANK: u32 = PortId::THREADS;

/// The places of the words.
mod at {
    pub(super) const READY: u64 = 0;
    pub(super) const KEY: u64 = 16;
    pub(super) const PACKET_BYTES: u64 = 32;
    pub(super) const SERVER: u64 = 40;
    pub(super) const PATIENCE_MS: u64 = 48;
    pub(super) const NODE: u64 = 56;
    pub(super) const ADDRESSES: u64 = 64;
    pub(super) const ADDRESS_BYTES: u64 = 32;
}

/// The words of a port: its number, and whether its thread sleeps at it.
const PORT_BYTES: u64 = 8;
/// The words of a rank: its ports, and the one at which it serves itself.
const RANK_BYTES: u64 = (PORTS_PER_RANK as u64) * PORT_BYTES + 8;

/// The directory of a node.
pub(crate) struct Directory {
    memory: Mapped,
    job: Arc<Job>,
}

impl Clone for Directory {
    fn clone(&self) -> Directory {
        Directory::of(&self.job)
    }
}

impl Directory {
    /// How much memory it takes.
    pub(crate) fn bytes(topology: &Topology) -> u64 {
        at::ADDRESSES + u64::from(topology.nodes()) * at::ADDRESS_BYTES + u64::from(topology.ranks()) * RANK_BYTES
    }

    pub(crate) fn of(job: &Arc<Job>) -> Directory {
        Directory { memory: job.beside(), job: job.clone() }
    }

    /// Writes what is known before the others are.
    pub(crate) fn set_up(&self, node: Node, key: &Key, settings: &Settings) {
        let written = self.memory.put(at::KEY, &key.bytes());
        debug_assert!(written);
        self.store(at::SERVER, settings.server.code());
        self.store(at::PATIENCE_MS, settings.patience.as_millis() as u64);
        self.store(at::NODE, node.0.into());
    }

    /// Writes where everybody is; from then on ranks may join.
    pub(crate) fn open(&self, addresses: &[SocketAddr], packet_bytes: usize) {
        for (node, address) in addresses.iter().enumerate() {
            let (ip, is_v4) = match address.ip() {
                IpAddr::V4(ip) => (ip.to_ipv6_mapped(), 1),
                IpAddr::V6(ip) => (ip, 0),
            };
            let mut entry = [0; at::ADDRESS_BYTES as usize];
            entry[..16].copy_from_slice(&ip.octets());
            entry[16..18].copy_from_slice(&address.port().to_le_bytes());
            entry[18] = is_v4;
            let written = self.memory.put(at::ADDRESSES + node as u64 * at::ADDRESS_BYTES, &entry);
            debug_assert!(written);
        }
        self.store(at::PACKET_BYTES, packet_bytes as u64);
        self.store(at::READY, 1);
    }

    /// Whether it is complete.
    pub(crate) fn check(&self) -> Result<()> {
        if self.memory.bytes() > at::ADDRESSES && self.load(at::READY) == 1 {
            return Ok(());
        }
        Err(Error::Join(
            "the node's directory is missing or incomplete; was this program started by `farside run`?".into(),
        ))
    }

    pub(crate) fn key(&self) -> Key {
        let mut bytes = [0; 16];
        let read = self.memory.get(at::KEY, &mut bytes);
        debug_assert!(read);
        Key::from_bytes(bytes)
    }

    pub(crate) fn node(&self) -> Node {
        Node(self.load(at::NODE) as u32)
    }

    pub(crate) fn packet_bytes(&self) -> usize {
        self.load(at::PACKET_BYTES) as usize
    }

    pub(crate) fn settings(&self) -> Settings {
        let patience = Duration::from_millis(self.load(at::PATIENCE_MS));
        Settings { server: Server::from_code(self.load(at::SERVER)), patience }
    }

    /// Where a node's interface listens.
    pub(crate) fn address(&self, node: Node) -> SocketAddr {
        let mut entry = [0; at::ADDRESS_BYTES as usize];
        let read = self.memory.get(at::ADDRESSES + u64::from(node.0) * at::ADDRESS_BYTES, &mut entry);
        debug_assert!(read);
        let octets: [u8; 16] = std::array::from_fn(|i| entry[i]);
        let ip = Ipv6Addr::from(octets);
        let port = u16::from_le_bytes([entry[16], entry[17]]);
        match ip.to_ipv4_mapped() {
            Some(v4) if entry[18] == 1 => SocketAddr::new(v4.into(), port),
            _ => SocketAddr::new(ip.into(), port),
        }
    }

    /// The addresses of all nodes.
    pub(crate) fn hosts(&self) -> Vec<IpAddr> {
        (0..self.job.topology().nodes()).map(|node| self.address(Node(node)).ip()).collect()
    }

    /// The port at which a rank serves itself; zero if it does not.
    pub(crate) fn host_port(&self, rank: Rank) -> u16 {
        self.load(self.rank(rank) + u64::from(PORTS_PER_RANK) * PORT_BYTES) as u16
    }

    pub(crate) fn set_host_port(&self, rank: Rank, port: u16) {
        self.store(self.rank(rank) + u64::from(PORTS_PER_RANK) * PORT_BYTES, port.into());
    }

    /// Enters the port of one of a rank's threads; zero takes it out.
    pub(crate) fn enter_port(&self, rank: Rank, index: u32, port: u16) {
        self.store_narrow(self.port(rank, index), port.into());
    }

    /// A thread is about to sleep at its port, or does not any more.
    pub(crate) fn set_asleep(&self, rank: Rank, index: u32, is_asleep: bool) {
        self.store_narrow(self.port(rank, index) + 4, is_asleep.into());
    }

    /// Wakes every thread of this node that sleeps at its port. An empty datagram says nothing; it makes them look.
    pub(crate) fn nudge_sleepers(&self, socket: &UdpSocket) {
        let ip = self.address(self.node()).ip();
        for &rank in self.job.topology().ranks_of(self.node()) {
            for index in 0..PORTS_PER_RANK {
                let at = self.port(rank, index);
                let port = self.load_narrow(at) as u16;
                if port != 0 && self.load_narrow(at + 4) != 0 {
                    // Whoever cannot be reached looks by itself when its time is up.
                    let _ = socket.send_to(&[], SocketAddr::new(ip, port));
                }
            }
        }
    }

    fn rank(&self, rank: Rank) -> u64 {
        let nodes = u64::from(self.job.topology().nodes());
        at::ADDRESSES + nodes * at::ADDRESS_BYTES + u64::from(rank.0) * RANK_BYTES
    }

    fn port(&self, rank: Rank, index: u32) -> u64 {
        self.rank(rank) + u64::from(index % PORTS_PER_RANK) * PORT_BYTES
    }

    fn load(&self, at: u64) -> u64 {
        self.memory.atomic(at, Width::W64, Atomic::Load).unwrap_or(0) as u64
    }

    fn store(&self, at: u64, value: u64) {
        let stored = self.memory.atomic(at, Width::W64, Atomic::Store(value.into()));
        debug_assert!(stored.is_some());
    }

    fn load_narrow(&self, at: u64) -> u32 {
        self.memory.atomic(at, Width::W32, Atomic::Load).unwrap_or(0) as u32
    }

    fn store_narrow(&self, at: u64, value: u32) {
        let stored = self.memory.atomic(at, Width::W32, Atomic::Store(value.into()));
        debug_assert!(stored.is_some());
    }
}
