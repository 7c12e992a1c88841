//! The node server: what one node adds to a job. Its memory, its interface, and its agent.
//!
//! The agent is a thread of the process that starts the node's ranks, the launcher or a host's
//! daemon, so that it outlives all of them.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use farside_fabric::tracing::Server;
use farside_fabric::{Departure, Error, Node, PeerState, Rank, Result};
use farside_shm::{FarLoss, Job, RankLoss};

use super::address_table::AddressTable;
use super::agent::{Agent, Command, Reports};
use super::fence::NodeFence;
use super::liveness::Liveness;
use crate::clock::now_ns;
use crate::initiator::origin::Origin;
use crate::settings::{ServerLocation, Settings};
use crate::target::listener::Listener;
use crate::target::memory::NodeMemory;
use crate::target::recorder::Recorder;
use crate::target::refusals::Refusals;
use crate::target::service::{Nodes, Service};
use crate::transport::seal::Key;
use crate::transport::udp::{self, Udp, UdpEndpoint};
use crate::transport::{Address, PeerAddress, StreamSettings, Transport, TransportEndpoint};
use crate::wire::{PortId, ServerId};
use farside_fabric::lock::lock;

/// The length of the longest datagram that a server sends: the longest request may ask for it.
pub(super) const REPLY_BYTES: usize = 62 << 10;

/// The time that the agent may take to answer a question of its own process.
const ANSWER_TIME: Duration = Duration::from_secs(1);

const RETIREMENT_MAX: Duration = Duration::from_secs(5);

/// The server of one node of a job.
pub struct NodeServer {
    job: Arc<Job>,
    node: Node,
    key: Key,
    settings: Settings,
    transport: Arc<dyn Transport>,
    address: Address,
    wakeup_address: SocketAddr,
    table: AddressTable,
    /// The rank whose process this is, if it is one's.
    host: OnceLock<Rank>,
    /// The transport endpoint, until the agent has it.
    endpoint: Mutex<Option<Arc<dyn TransportEndpoint>>>,
    agent: Mutex<Option<Running>>,
    reports: Arc<Reports>,
}

/// The agent's thread, and how to command it.
struct Running {
    commands: Sender<Command>,
    thread: JoinHandle<()>,
    /// Sends wakeups.
    wakeup: UdpEndpoint,
}

impl NodeServer {
    /// Makes a node's memory and opens its interface at the address `bind`. `config` describes the
    /// memory; its topology is that of the whole job.
    pub fn create(
        config: farside_shm::Config,
        node: Node,
        key: Key,
        settings: Settings,
        bind: IpAddr,
    ) -> Result<NodeServer> {
        NodeServer::create_over(
            config,
            node,
            key,
            settings,
            Arc::new(Udp { ip: bind, datagram_bytes: None }),
        )
    }

    /// Likewise, over another transport.
    pub fn create_over(
        mut config: farside_shm::Config,
        node: Node,
        key: Key,
        settings: Settings,
        transport: Arc<dyn Transport>,
    ) -> Result<NodeServer> {
        if node.0 >= config.topology.nodes() {
            return Err(Error::UnknownNode { node, nodes: config.topology.nodes() });
        }
        config.beside_bytes = AddressTable::bytes(&config.topology);
        let job = Job::create(&config)?;
        for &rank in
            job.topology().all().iter().filter(|&&rank| job.topology().node_of(rank) != node)
        {
            // Whether a rank has joined matters on its own node only.
            job.note_departure(rank, PeerState::Alive, None);
        }
        let table = AddressTable::of(&job);
        table.set_up(node, &key, &settings, &transport.name())?;
        let endpoint = transport.open_server()?;
        let (address, wakeup_address) = (endpoint.address()?, endpoint.wakeup_address()?);
        Ok(NodeServer {
            job,
            node,
            key,
            settings,
            transport,
            address,
            wakeup_address,
            table,
            host: OnceLock::new(),
            endpoint: Mutex::new(Some(endpoint)),
            agent: Mutex::new(None),
            reports: Arc::default(),
        })
    }

    /// Returns the address of the node's interface.
    pub fn address(&self) -> Address {
        self.address
    }

    /// Returns the node.
    pub fn node(&self) -> Node {
        self.node
    }

    /// Returns the node's memory.
    pub fn job(&self) -> &Arc<Job> {
        &self.job
    }

    /// Returns the file that the node's ranks must inherit.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.job.file()
    }

    /// Says, before it serves, that it is part of the process of `rank`, and ends with it.
    /// Otherwise it outlives all ranks.
    pub fn set_host(&self, rank: Rank) {
        // The first one counts.
        let _ = self.host.set(rank);
    }

    /// Returns the rank whose process it is part of, if it is one's.
    pub fn host(&self) -> Option<Rank> {
        self.host.get().copied()
    }

    /// Learns the addresses of all nodes, in order, and starts to serve.
    pub fn open(&self, addresses: &[Address]) -> Result<()> {
        let nodes = self.job.topology().nodes();
        if addresses.len() != nodes as usize {
            let (left, right) = (addresses.len() as u64, nodes.into());
            return Err(Error::Mismatch { what: "numbers of addresses and nodes", left, right });
        }
        check_reachable(addresses)?;
        // Only a node that serves gives its endpoint up: one that cannot may try again.
        let mut waiting = lock(&self.endpoint);
        let Some(endpoint) = waiting.clone() else {
            return Err(Error::InvalidState("this node serves already".into()));
        };
        let wakeup = udp::open(SocketAddr::new(self.wakeup_address.ip(), 0))?;
        let wakeup = UdpEndpoint::new(wakeup, None)?;
        let packet_bytes = self.transport.packet_bytes(addresses);
        endpoint.enable_streams(StreamSettings { key: &self.key, datagram_bytes: packet_bytes });
        let (commands, receiver) = channel();
        let agent = self.agent(endpoint, addresses, packet_bytes, receiver)?;
        self.table.open(addresses, self.wakeup_address, packet_bytes);
        let thread = std::thread::Builder::new().name(format!("farside-nic {}", self.node.0));
        let thread = thread.spawn(move || agent.run()).map_err(|error| Error::System {
            call: "starting the agent's thread",
            errno: error.raw_os_error().unwrap_or(0),
        })?;
        self.job.add_agent();
        *waiting = None;
        *lock(&self.agent) = Some(Running { commands, thread, wakeup });
        Ok(())
    }

    fn agent(
        &self,
        endpoint: Arc<dyn TransportEndpoint>,
        addresses: &[Address],
        packet_bytes: usize,
        commands: Receiver<Command>,
    ) -> Result<Agent> {
        let resolve = |address| endpoint.resolve(address);
        let peers = addresses.iter().map(resolve).collect::<Result<Vec<PeerAddress>>>()?;
        let mut memory =
            NodeMemory::new(self.job.clone(), self.node, self.host(), self.table.host_ports());
        memory.registration = endpoint.clone().memory_registration();
        memory.atomics = self.settings.server.atomics;
        if self.settings.server.location == ServerLocation::Host {
            let (job, table) = (self.job.clone(), self.table.clone());
            memory.fence = Some(Box::new(NodeFence { job, table, server: None }));
        }
        let nodes = Nodes {
            topology: (**self.job.topology()).clone(),
            hosts: addresses.iter().map(Address::ip).collect(),
        };
        let (id, count) = (ServerId(self.node.0), nodes.topology.nodes());
        let recorder = Recorder::new(&self.job, Server::Agent(self.node));
        let service = Service::new(id, self.key.clone(), REPLY_BYTES, nodes, memory);
        let mut service = service.recorded(recorder);
        let (port, reply_port) = (PortId::of_agent(self.node), self.wakeup_address.port());
        let mut origin = Origin::new(port, self.key.clone(), reply_port, count, packet_bytes);
        if self.transport.needs_reply_address() {
            service = service.over(endpoint.clone());
            origin.announce(self.address);
        }
        let timeout_ns = self.settings.peer_timeout.as_nanos() as u64;
        Ok(Agent {
            node: self.node,
            job: self.job.clone(),
            table: self.table.clone(),
            service,
            listener: Listener::new(endpoint, self.settings.server.agent_wait()),
            origin,
            peers,
            liveness: Liveness::new(self.node, count, timeout_ns, now_ns()),
            came_ns: now_ns(),
            retirement: None,
            commands,
            reports: self.reports.clone(),
        })
    }

    /// Returns the state of a rank.
    pub fn peer_state(&self, rank: Rank) -> PeerState {
        self.job.peer_state(rank)
    }

    /// Returns what is known here of a rank's departure.
    pub fn departure(&self, rank: Rank) -> Departure {
        self.job.departure(rank)
    }

    /// Notes that the process of a rank of this node has ended, and with it its server, whatever
    /// that was executing.
    pub fn note_end(&self, rank: Rank) {
        self.table.set_served(rank, None);
    }

    /// Declares that ranks of this node have ended, which was seen together, here and to all nodes.
    pub fn declare_losses(&self, losses: &[RankLoss]) {
        self.job.declare_losses(losses);
        if let Some(running) = &*lock(&self.agent) {
            self.table.wake_sleepers(&running.wakeup);
            for &RankLoss { rank, how, .. } in losses {
                let (peer_state, cause) = (PeerState::Lost(how), self.job.departure(rank).cause);
                self.command(running, Command::Report { rank, peer_state, cause });
            }
        }
    }

    /// Declares ranks of other nodes lost to the ranks of this node. The agent tells them, since it
    /// must have refused the ranks before.
    pub fn note_losses(&self, losses: &[FarLoss]) {
        let tell = || self.job.note_losses(losses);
        let agent = lock(&self.agent);
        let Some(running) = &*agent else { return tell() };
        let (told, is_told) = channel();
        self.command(running, Command::Lose { losses: losses.to_vec(), told });
        // Who is declared lost next may have ended because of these, which must be known then;
        // but nobody waits for an agent that hangs.
        if is_told.recv_timeout(ANSWER_TIME) == Err(RecvTimeoutError::Disconnected) {
            // It has ended, and executes nothing.
            tell();
        }
    }

    /// Returns the nodes that the agent has declared lost.
    pub fn nodes_lost(&self) -> Vec<Node> {
        lock(&self.reports.lost).clone()
    }

    /// Returns the nodes that the agent does not hear at the moment, the lost ones among them.
    pub fn nodes_silent(&self) -> Vec<Node> {
        let (sender, answer) = channel();
        match &*lock(&self.agent) {
            Some(running) => self.command(running, Command::Ask(sender)),
            None => return self.nodes_lost(),
        }
        answer.recv_timeout(ANSWER_TIME).unwrap_or_else(|_| self.nodes_lost())
    }

    /// Returns those of the lost nodes from which nothing has ever come.
    pub fn nodes_unheard(&self) -> Vec<Node> {
        lock(&self.reports.unheard).clone()
    }

    /// Returns the number of datagrams that the agent has dropped, by reason.
    pub fn refusals(&self) -> Refusals {
        *lock(&self.reports.refusals)
    }

    /// Stops serving when nothing authentic has arrived for `silence`, or after 5 seconds, for an
    /// agent that is not told when the others are done: one of them may still repeat the report
    /// that a rank has left.
    pub fn retire(&self, silence: Duration) {
        self.retire_within(silence, RETIREMENT_MAX);
    }

    /// Likewise, after `longest` in any case.
    pub fn retire_within(&self, silence: Duration, longest: Duration) {
        if let Some(running) = lock(&self.agent).take() {
            self.command(&running, Command::Retire { silence, longest });
            // A panic of the thread has been reported by its hook.
            let _ = running.thread.join();
        }
    }

    fn command(&self, running: &Running, command: Command) {
        // It fails only if the agent has ended.
        let _ = running.commands.send(command);
        running.wakeup.wake(self.wakeup_address);
    }
}

impl Drop for NodeServer {
    fn drop(&mut self) {
        if let Some(running) = lock(&self.agent).take() {
            self.command(&running, Command::Stop);
            // A panic of the thread has been reported by its hook.
            let _ = running.thread.join();
        }
    }
}

/// Refuses addresses between which nothing would arrive: of two families, and those of IPv6 that
/// are known on one link alone, of which it is not said which one.
fn check_reachable(addresses: &[Address]) -> Result<()> {
    let families = [IpAddr::is_ipv4, IpAddr::is_ipv6];
    if families.iter().all(|is_of| addresses.iter().any(|address| is_of(&address.ip()))) {
        return Err(Error::InvalidSetting(
            "some nodes have IPv4 addresses and others IPv6 addresses; use one kind for all".into(),
        ));
    }
    let is_of_link = |ip: &IpAddr| matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
    match addresses.iter().map(Address::ip).find(is_of_link) {
        Some(ip) => Err(Error::InvalidSetting(format!(
            "{ip} is an address of one link, and other nodes do not know of which; use another"
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use farside_fabric::memory::Contender;
    use farside_fabric::{Accumulate, ExitCause, Number, Op, Piece, SegmentId, Shape, Topology};

    use super::*;
    use crate::node::host_server::memory_for;
    use crate::target::service::Memory as _;
    use crate::wire::request::{self, Request, Rows};

    const MAKER: Rank = Rank(0);

    /// A node of two ranks that does not serve yet.
    fn node_server() -> NodeServer {
        let config = farside_shm::Config::new(Topology::parse("node:1", 2).unwrap(), 1 << 16);
        let (settings, here) = (Settings::default(), IpAddr::V4(Ipv4Addr::LOCALHOST));
        NodeServer::create(config, Node(0), Key::from_bytes([1; 16]), settings, here).unwrap()
    }

    fn with_memory_of_agent<R>(server: &NodeServer, act: impl FnOnce(&mut NodeMemory) -> R) -> R {
        let endpoint = lock(&server.endpoint).take().unwrap();
        let (_commands, receiver) = channel();
        let mut agent = server.agent(endpoint, &[server.address()], 1400, receiver).unwrap();
        act(agent.service.memory())
    }

    /// Begins an accumulate, and then the first rank is lost. Returns whether the other one gets
    /// the lock of the accumulate.
    fn is_passed_on(job: &Arc<Job>, memory: &mut NodeMemory) -> bool {
        let (rank, segment) = (MAKER, SegmentId::ROOT);
        let to = Rows { rank, segment, offset: 0, unit: 8, count: 1, stride: 0 };
        let accumulate = Accumulate::new(Number::U64, Op::Sum).unwrap();
        let mut body = Vec::new();
        let data: &[u8] = &[0; 8];
        request::encode(&Request::Accumulate { to, accumulate, data, counts: false }, &mut body);
        assert!(memory.lock(&body));
        let mapped = job.segment(rank, segment).unwrap();
        let stripes = mapped.stripes_of(&Shape::Block(Piece { offset: 0, bytes: 8 }));
        let mut is_lost = |holder: Rank| {
            job.topology().check(holder).is_ok()
                && matches!(job.peer_state(holder), PeerState::Lost(_))
        };
        let mut other = Contender { me: Rank(1), holder_is_lost: &mut is_lost };
        assert!(!mapped.try_lock(stripes, &mut other), "it is held");
        job.declare_lost(MAKER, ExitCause::Vanished);
        mapped.try_lock(stripes, &mut other)
    }

    #[test]
    fn a_lock_of_an_agent_is_passed_on_with_the_rank_whose_process_it_is_in() {
        let server = node_server();
        server.set_host(MAKER);
        with_memory_of_agent(&server, |memory| assert!(is_passed_on(server.job(), memory)));
    }

    #[test]
    fn a_lock_of_an_agent_in_a_process_of_its_own_stays_whichever_rank_is_lost() {
        let server = node_server();
        with_memory_of_agent(&server, |memory| assert!(!is_passed_on(server.job(), memory)));
    }

    #[test]
    fn a_lock_of_a_thread_that_serves_a_rank_is_passed_on_with_that_rank() {
        let server = node_server();
        let mut memory = memory_for(server.job(), MAKER, &server.table);
        assert!(is_passed_on(server.job(), &mut memory));
    }

    #[test]
    fn addresses_between_which_nothing_arrives_are_refused() {
        let check = |ips: &[&str]| {
            let address = |ip: &&str| Address::new(ip.parse().unwrap(), &[0; 2]).unwrap();
            check_reachable(&ips.iter().map(address).collect::<Vec<_>>())
        };
        for good in [&["10.0.0.1", "10.0.0.2"][..], &["2001:db8::1", "fd00::2"], &["::1"]] {
            assert_eq!(check(good), Ok(()), "{good:?}");
        }
        for bad in [&["10.0.0.1", "fd00::2"][..], &["fd00::1", "fe80::2"]] {
            assert!(check(bad).is_err(), "{bad:?}");
        }
    }
}
