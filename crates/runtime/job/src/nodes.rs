//! The nodes of a job over nic or ofi that live in this process: all of them when one machine plays
//! several, one of them when the job spans hosts.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use farside_fabric::{Departure, Error, ExitCause, Node, PeerState, Rank, Result, Topology};
use farside_nic::{Address, AtomicUnit, Key, NodeServer, ServerLocation, Settings, Transport, Udp};
use farside_rma::root_bytes;
use farside_shm::FarLoss;

use crate::{JobPlan, Kind, Options, RankLoss, ofi};

/// How often a datagram is sent over the loopback interface before it counts as lost, and how long
/// each may take.
const ECHO_TRIES: u32 = 10;
const ECHO_WAIT: Duration = Duration::from_millis(200);

pub(crate) struct Nodes {
    stations: Vec<NodeServer>,
    topology: Arc<Topology>,
    kind: Kind,
}

impl Nodes {
    /// All nodes of a job on this machine, which reach each other over loopback only.
    pub(crate) fn all(options: &Options) -> Result<Nodes> {
        let topology = match (&options.topology, options.nodes) {
            (Some(description), nodes) => {
                let topology = Topology::parse(description, options.ranks)?;
                if nodes.is_some_and(|nodes| nodes != topology.nodes()) {
                    return Err(Error::InvalidSetting(format!(
                        "the topology {description:?} has {} nodes, but {} were asked for",
                        topology.nodes(),
                        nodes.unwrap_or(0)
                    )));
                }
                topology
            }
            (None, nodes) => {
                Topology::parse(&format!("node:{}", nodes.unwrap_or(1)), options.ranks)?
            }
        };
        let key = Key::random()?;
        let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let nodes: Vec<Node> = (0..topology.nodes()).map(Node).collect();
        // Each has its share of the processors.
        let cores = options.cores.unwrap_or_else(farside_shm::cores) / topology.nodes();
        let shared = Options { cores: Some(cores.max(1)), ..options.clone() };
        let stations =
            nodes.iter().map(|&node| node_server(&shared, &topology, node, key.clone(), here));
        let stations = stations.collect::<Result<Vec<NodeServer>>>()?;
        let addresses: Vec<Address> = stations.iter().map(NodeServer::address).collect();
        stations.iter().try_for_each(|node_server| node_server.open(&addresses))?;
        Ok(Nodes { stations, topology: Arc::new(topology), kind: options.fabric })
    }

    pub(crate) fn one(plan: &JobPlan, node: Node, bind: IpAddr) -> Result<Nodes> {
        let (options, topology) = (plan.options_of(node), plan.topology()?);
        let key = Key::from_bytes(plan.secret);
        let node_server = node_server(&options, &topology, node, key, bind)?;
        let kind = options.fabric;
        Ok(Nodes { stations: vec![node_server], topology: Arc::new(topology), kind })
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn retire(&self, quiet: Duration) {
        self.stations.iter().for_each(|node_server| node_server.retire(quiet));
    }

    pub(crate) fn topology(&self) -> &Topology {
        &self.topology
    }

    pub(crate) fn address(&self) -> Option<Address> {
        self.stations.first().map(NodeServer::address)
    }

    /// These nodes are part of the process of a rank, and end with it.
    pub(crate) fn set_host(&self, rank: Rank) {
        self.stations.iter().for_each(|node_server| node_server.set_host(rank));
    }

    /// Returns the rank whose process the one node is part of, if it is one's.
    #[cfg(test)]
    pub(crate) fn process(&self) -> Option<Rank> {
        self.stations.first().and_then(NodeServer::host)
    }

    pub(crate) fn meet(&self, addresses: &[Address]) -> Result<()> {
        self.stations.iter().try_for_each(|node_server| node_server.open(addresses))
    }

    pub(crate) fn ranks(&self) -> Vec<Rank> {
        self.stations
            .iter()
            .flat_map(|node_server| self.topology.ranks_of(node_server.node()).iter().copied())
            .collect()
    }

    /// The node_server of a rank that is here; of any other, the first.
    pub(crate) fn memories(&self) -> Vec<Arc<farside_shm::Job>> {
        self.stations.iter().map(|node| node.job().clone()).collect()
    }

    pub(crate) fn of(&self, rank: Rank) -> &NodeServer {
        let is_its = |node_server: &&NodeServer| {
            self.topology.check(rank).is_ok() && self.topology.node_of(rank) == node_server.node()
        };
        self.stations.iter().find(is_its).unwrap_or(&self.stations[0])
    }

    pub(crate) fn peer_state(&self, rank: Rank) -> PeerState {
        self.of(rank).peer_state(rank)
    }

    pub(crate) fn departure(&self, rank: Rank) -> Departure {
        self.of(rank).departure(rank)
    }

    pub(crate) fn note_end(&self, rank: Rank) {
        self.of(rank).note_end(rank);
    }

    pub(crate) fn declare_lost(&self, rank: Rank, how: ExitCause) {
        self.declare_losses(&[RankLoss { rank, how, is_stopped: false }]);
    }

    /// Ranks of nodes that are here have ended, perhaps by the launcher.
    pub(crate) fn declare_losses(&self, losses: &[RankLoss]) {
        let is_of_one =
            |a: &RankLoss, b: &RankLoss| self.of(a.rank).node() == self.of(b.rank).node();
        // Those of one node together. A rank of the next may have ended because of them, which must
        // be known there by then.
        for losses in losses.chunk_by(is_of_one) {
            let own = self.of(losses[0].rank);
            own.declare_losses(losses);
            // Those that are here hear of it at once; the others are told.
            let far = |&RankLoss { rank, how, .. }: &RankLoss| FarLoss {
                rank,
                how,
                cause: own.departure(rank).cause,
            };
            let far: Vec<FarLoss> = losses.iter().map(far).collect();
            let others = self.stations.iter().filter(|other| other.node() != own.node());
            others.for_each(|node_server| node_server.note_losses(&far));
        }
    }

    /// Ranks of nodes that are elsewhere are lost.
    pub(crate) fn note_losses(&self, losses: &[FarLoss]) {
        self.stations.iter().for_each(|node_server| node_server.note_losses(losses));
    }

    /// Whether nothing has ever come from a lost node.
    pub(crate) fn is_unheard(&self, node: u32) -> bool {
        self.stations.iter().any(|node_server| node_server.nodes_unheard().contains(&Node(node)))
    }

    pub(crate) fn lost(&self) -> Vec<u32> {
        self.of_any(NodeServer::nodes_lost)
    }

    /// The nodes that any of these does not hear at the moment.
    pub(crate) fn silent(&self) -> Vec<u32> {
        self.of_any(NodeServer::nodes_silent)
    }

    fn of_any(&self, nodes: impl Fn(&NodeServer) -> Vec<Node>) -> Vec<u32> {
        let mut all: Vec<u32> = self.stations.iter().flat_map(nodes).map(|node| node.0).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// Refuses a loopback interface that does not work: otherwise that would be found when nodes are
/// silent, long after the ranks have started.
fn check_loopback(bind: IpAddr) -> Result<()> {
    echo(bind).map_err(|error| {
        Error::Network(format!(
            "the loopback interface, over which nodes of one machine reach each other, does not \
             work ({bind}: {error}); \
             start it with `ip link set lo up`, or do without --nodes: ranks of one node need no \
             network"
        ))
    })
}

/// Sends a datagram from an address to itself. An interface that was up before loses it without a
/// word.
fn echo(bind: IpAddr) -> std::io::Result<()> {
    let socket = UdpSocket::bind((bind, 0))?;
    socket.connect(socket.local_addr()?)?;
    socket.set_read_timeout(Some(ECHO_WAIT))?;
    for _ in 0..ECHO_TRIES {
        socket.send(&[0])?;
        if socket.recv(&mut [0]).is_ok() {
            return Ok(());
        }
    }
    Err(std::io::Error::other("packets sent there do not arrive"))
}

fn node_server(
    options: &Options,
    topology: &Topology,
    node: Node,
    key: Key,
    bind: IpAddr,
) -> Result<NodeServer> {
    if bind.is_loopback() {
        check_loopback(bind)?;
    }
    let mut config = farside_shm::Config::new(topology.clone(), root_bytes(options.ranks));
    config.arena_bytes = options.memory.unwrap_or(config.arena_bytes);
    config.cores = options.cores.unwrap_or(config.cores);
    config.is_recorded = options.is_recorded;
    let defaults = Settings::default();
    let server = options.server.as_deref().map(str::parse).transpose()?.unwrap_or(defaults.server);
    let peer_timeout = options.peer_timeout.unwrap_or(defaults.peer_timeout);
    if peer_timeout.is_zero() {
        return Err(Error::InvalidSetting(
            "the peer timeout is 0 s: allow nodes some time to answer".into(),
        ));
    }
    let network: Arc<dyn Transport> = match options.fabric {
        Kind::Ofi => {
            if server.location == ServerLocation::Host || server.atomics == AtomicUnit::Own {
                return Err(Error::InvalidSetting(format!(
                    "the server {server} works over nic only; over ofi, agents serve"
                )));
            }
            ofi::transport(options.provider.as_deref().unwrap_or_default(), bind)?
        }
        Kind::Shm | Kind::Nic => Arc::new(Udp { ip: bind, datagram_bytes: None }),
    };
    NodeServer::create_over(config, node, key, Settings { server, peer_timeout }, network)
}
