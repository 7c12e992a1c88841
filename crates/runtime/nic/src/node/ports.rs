//! Opening the ports of a node, and draining them when their owner leaves.

use farside_fabric::{Node, PeerState, Result, Topology};
use farside_shm::Job;

use super::address_table::AddressTable;
use crate::clock::LONGEST_SLEEP;
use crate::initiator::origin::Origin;
use crate::initiator::port::Port;
use crate::settings::ServerLocation;
use crate::transport::{PeerAddress, StreamSettings, Transport};
use crate::wire::{PortId, ServerId};

/// Opens a port of this node, with connections to all servers.
pub(crate) fn open_port(
    table: &AddressTable,
    transport: &dyn Transport,
    topology: &Topology,
    id: PortId,
) -> Result<Port> {
    let endpoint = transport.open()?;
    let reply_port = endpoint.wakeup_address()?.port();
    let nodes = topology.nodes();
    let servers = match table.settings().server.location {
        ServerLocation::Nic => nodes,
        ServerLocation::Host => nodes + topology.ranks(),
    };
    let resolve = |node: u32| endpoint.resolve(&table.address(Node(node))?).map(Some);
    let mut peers = (0..nodes).map(resolve).collect::<Result<Vec<Option<PeerAddress>>>>()?;
    peers.resize(servers as usize, None);
    let (key, datagram_bytes) = (table.key(), table.packet_bytes());
    endpoint.enable_streams(StreamSettings { key: &key, datagram_bytes });
    let mut origin = Origin::new(id, key, reply_port, servers, datagram_bytes);
    if transport.needs_reply_address() {
        origin.announce(endpoint.address()?);
    }
    Ok(Port::new(origin, endpoint, peers, table.node(), table.reach()))
}

/// Drops what is under way to nodes that have no living rank.
pub(crate) fn abandon_the_lost(job: &Job, own: Node, port: &mut Port) {
    let topology = job.topology();
    for node in (0..topology.nodes()).map(Node).filter(|&node| node != own) {
        if topology
            .ranks_of(node)
            .iter()
            .all(|&rank| matches!(job.peer_state(rank), PeerState::Lost(_)))
        {
            port.origin.abandon(ServerId(node.0));
        }
    }
}

/// Drives a port until everything that was posted through it has landed, or its target is lost.
pub(crate) fn drain(port: &mut Port, job: &Job, abandon_the_lost: impl Fn(&mut Port)) {
    loop {
        port.origin.push();
        port.drive();
        if job.failures().departures() != 0 {
            abandon_the_lost(port);
        }
        if !port.origin.is_busy() {
            return;
        }
        let limit = port.sleep_limit().unwrap_or(LONGEST_SLEEP).min(LONGEST_SLEEP);
        port.endpoint().sleep(limit);
    }
}
