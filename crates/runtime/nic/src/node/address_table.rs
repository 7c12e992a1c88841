//! The address table of a node, in the memory that its ranks and its agent share: the job's key and
//! settings, the address of each node's interface, and the wakeup port of each of its threads.
//!
//! Paper:   \[NIC02 section III-B\] leaves it to the program how nodes learn each other's
//!          addresses.
//! Differs: the launcher gives them to each node server, which writes them here.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use farside_fabric::{Atomic, Error, Mapped, Node, Rank, Result, Topology, Width};
use farside_shm::{Job, Reach};

use crate::settings::{Server, Settings};
use crate::target::memory::HostPort;
use crate::transport::seal::Key;
use crate::transport::{Address, TransportEndpoint};
use crate::wire::PortId;

/// The number of threads of a rank that may communicate at a time.
pub(crate) const PORTS_PER_RANK: u32 = PortId::THREADS;

/// The offsets of the fields.
mod at {
    pub(super) const READY: u64 = 0;
    pub(super) const KEY: u64 = 16;
    pub(super) const PACKET_BYTES: u64 = 32;
    pub(super) const SERVER: u64 = 40;
    pub(super) const PEER_TIMEOUT_MS: u64 = 48;
    pub(super) const NODE: u64 = 56;
    /// The UDP port of the wakeup socket of the node's interface.
    pub(super) const WAKEUP: u64 = 64;
    /// The name of the transport: a length and a text.
    pub(super) const TRANSPORT: u64 = 72;
    pub(super) const TRANSPORT_BYTES: u64 = 112;
    pub(super) const ADDRESSES: u64 = 192;
    /// An IP address, its kind, and the length and the bytes of the transport's own address.
    pub(super) const ADDRESS_BYTES: u64 = 144;
}

/// The fields of a port: its wakeup port, and whether its thread sleeps there.
const PORT_BYTES: u64 = 8;
/// The fields of a rank: its ports, that of its host-based server, the rank that this server
/// serves, and whether servers of this node refuse the rank.
const RANK_BYTES: u64 = HOST_PORT + 24;
const HOST_PORT: u64 = (PORTS_PER_RANK as u64) * PORT_BYTES;
const SERVED: u64 = HOST_PORT + 8;
const REFUSED: u64 = HOST_PORT + 16;

pub(crate) struct AddressTable {
    memory: Mapped,
    job: Arc<Job>,
}

impl Clone for AddressTable {
    fn clone(&self) -> AddressTable {
        AddressTable::of(&self.job)
    }
}

impl AddressTable {
    pub(crate) fn bytes(topology: &Topology) -> u64 {
        at::ADDRESSES
            + u64::from(topology.nodes()) * at::ADDRESS_BYTES
            + u64::from(topology.ranks()) * RANK_BYTES
    }

    pub(crate) fn of(job: &Arc<Job>) -> AddressTable {
        AddressTable { memory: job.beside(), job: job.clone() }
    }

    /// Writes what is known before the addresses of the other nodes are.
    pub(crate) fn set_up(
        &self,
        node: Node,
        key: &Key,
        settings: &Settings,
        transport: &str,
    ) -> Result<()> {
        let written = self.memory.put(at::KEY, &key.bytes());
        debug_assert!(written);
        self.store(at::SERVER, settings.server.code());
        self.store(at::PEER_TIMEOUT_MS, settings.peer_timeout.as_millis() as u64);
        self.store(at::NODE, node.0.into());
        if transport.len() as u64 > at::TRANSPORT_BYTES {
            let (value, limit) = (transport.len() as u64, at::TRANSPORT_BYTES);
            return Err(Error::TooMuch { what: "bytes of a transport's name", value, limit });
        }
        self.store(at::TRANSPORT, transport.len() as u64);
        let written = self.memory.put(at::TRANSPORT + 8, transport.as_bytes());
        debug_assert!(written);
        Ok(())
    }

    pub(crate) fn transport(&self) -> String {
        let mut bytes = vec![0; self.load(at::TRANSPORT).min(at::TRANSPORT_BYTES) as usize];
        let read = self.memory.get(at::TRANSPORT + 8, &mut bytes);
        debug_assert!(read);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Writes the addresses of all nodes; from then on ranks may join.
    pub(crate) fn open(&self, addresses: &[Address], wakeup: SocketAddr, packet_bytes: usize) {
        for (node, address) in addresses.iter().enumerate() {
            let (ip, is_v4) = match address.ip() {
                IpAddr::V4(ip) => (ip.to_ipv6_mapped(), 1),
                IpAddr::V6(ip) => (ip, 0),
            };
            let mut entry = [0; at::ADDRESS_BYTES as usize];
            entry[..16].copy_from_slice(&ip.octets());
            entry[16] = is_v4;
            entry[17] = address.bytes().len() as u8;
            entry[24..24 + address.bytes().len()].copy_from_slice(address.bytes());
            let written = self.memory.put(at::ADDRESSES + node as u64 * at::ADDRESS_BYTES, &entry);
            debug_assert!(written);
        }
        self.store(at::WAKEUP, wakeup.port().into());
        self.store(at::PACKET_BYTES, packet_bytes as u64);
        self.store(at::READY, 1);
    }

    /// Returns what wakes the ranks of this node.
    pub(crate) fn reach(&self) -> Reach {
        Reach::new(self.job.clone(), self.node())
    }

    /// Returns an error unless the table is complete.
    pub(crate) fn check(&self) -> Result<()> {
        if self.memory.bytes() > at::ADDRESSES && self.load(at::READY) == 1 {
            return Ok(());
        }
        Err(Error::Join(
            "the node's address table is missing or incomplete; was this program started by \
             `farside run`?"
                .into(),
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
        let peer_timeout = Duration::from_millis(self.load(at::PEER_TIMEOUT_MS));
        Settings { server: Server::from_code(self.load(at::SERVER)), peer_timeout }
    }

    pub(crate) fn address(&self, node: Node) -> Result<Address> {
        let mut entry = [0; at::ADDRESS_BYTES as usize];
        let read =
            self.memory.get(at::ADDRESSES + u64::from(node.0) * at::ADDRESS_BYTES, &mut entry);
        debug_assert!(read);
        let octets: [u8; 16] = std::array::from_fn(|i| entry[i]);
        let ip = Ipv6Addr::from(octets);
        let ip = match ip.to_ipv4_mapped() {
            Some(v4) if entry[16] == 1 => v4.into(),
            _ => ip.into(),
        };
        Address::new(ip, &entry[24..][..usize::from(entry[17]).min(Address::BYTES_MAX)])
    }

    pub(crate) fn ip(&self) -> Result<IpAddr> {
        self.check()?;
        Ok(self.address(self.node())?.ip())
    }

    pub(crate) fn wakeup_address(&self) -> SocketAddr {
        let ip = self
            .address(self.node())
            .map_or(std::net::Ipv4Addr::LOCALHOST.into(), |address| address.ip());
        SocketAddr::new(ip, self.load(at::WAKEUP) as u16)
    }

    pub(crate) fn hosts(&self) -> Result<Vec<IpAddr>> {
        (0..self.job.topology().nodes())
            .map(|node| self.address(Node(node)).map(|address| address.ip()))
            .collect()
    }

    /// Returns the port of a rank's host-based server; zero if it has none.
    pub(crate) fn host_port(&self, rank: Rank) -> u16 {
        self.load(self.rank(rank) + HOST_PORT) as u16
    }

    pub(crate) fn host_ports(&self) -> HostPort {
        let table = self.clone();
        Box::new(move |rank| table.host_port(rank))
    }

    pub(crate) fn set_host_port(&self, rank: Rank, port: u16) {
        self.store(self.rank(rank) + HOST_PORT, port.into());
    }

    /// Returns the rank whose request the host-based server of a rank is executing, if any.
    pub(crate) fn served_by(&self, server: Rank) -> Option<Rank> {
        self.load(self.rank(server) + SERVED).checked_sub(1).map(|rank| Rank(rank as u32))
    }

    pub(crate) fn set_served(&self, server: Rank, served: Option<Rank>) {
        self.store(self.rank(server) + SERVED, served.map_or(0, |rank| u64::from(rank.0) + 1));
    }

    /// Returns whether the servers of this node execute nothing of a rank any more.
    pub(crate) fn is_refused(&self, rank: Rank) -> bool {
        self.load(self.rank(rank) + REFUSED) != 0
    }

    pub(crate) fn refuse(&self, rank: Rank) {
        self.store(self.rank(rank) + REFUSED, 1);
    }

    /// Writes the wakeup port of one of a rank's threads; zero removes it.
    pub(crate) fn enter_port(&self, rank: Rank, index: u32, port: u16) {
        self.store_narrow(self.port(rank, index), port.into());
    }

    /// Writes whether a thread sleeps at its port, or is about to.
    pub(crate) fn set_asleep(&self, rank: Rank, index: u32, is_asleep: bool) {
        self.store_narrow(self.port(rank, index) + 4, is_asleep.into());
    }

    pub(crate) fn wake_sleepers(&self, endpoint: &dyn TransportEndpoint) {
        let ip = self.wakeup_address().ip();
        for &rank in self.job.topology().ranks_of(self.node()) {
            for index in 0..PORTS_PER_RANK {
                let at = self.port(rank, index);
                let port = self.load_narrow(at) as u16;
                if port != 0 && self.load_narrow(at + 4) != 0 {
                    endpoint.wake(SocketAddr::new(ip, port));
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
