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
use farside_fabric::{Departure, Error, ExitCause, Loss, Node, PeerState, Rank, Result};
use farside_shm::Job;

use super::address_table::AddressTable;
use super::agent::{Agent, Command, Reports};
use super::fence::NodeFence;
use super::liveness::Liveness;
use crate::clock::now_ns;
use crate::initiator::origin::Origin;
use crate::lock::lock;
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

/// The length of the longest datagram that a server sends: the longest request may ask for it.
pub(super) const REPLY_BYTES: usize = 62 << 10;

/// The time that the agent may take to answer a question of its own process.
const ANSWER_TIME: Duration = Duration::from_secs(1);

/// The server of one node of a job.
pub struct NodeServer {
    job: Arc<Job>,
    node: Node,
    key: Key,
    settings: Settings,
    transport: Arc<dyn Transport>,
    address: Address,
    /// The address of the agent's wakeup socket.
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

    /// Learns the addresses of all nodes, in order, and starts to serve.
    pub fn open(&self, addresses: &[Address]) -> Result<()> {
        let nodes = self.job.topology().nodes();
        if addresses.len() != nodes as usize {
            let (left, right) = (addresses.len() as u64, nodes.into());
            return Err(Error::Mismatch { what: "addresses against nodes", left, right });
        }
        let Some(endpoint) = lock(&self.endpoint).take() else {
            return Err(Error::InvalidState("this node serves already".into()));
        };
        self.job.add_agent();
        let packet_bytes = self.transport.packet_bytes(addresses);
        endpoint.enable_streams(StreamSettings { key: &self.key, datagram_bytes: packet_bytes });
        self.table.open(addresses, self.wakeup_address, packet_bytes);
        let (commands, receiver) = channel();
        let agent = self.agent(endpoint, addresses, packet_bytes, receiver)?;
        let thread = std::thread::Builder::new().name(format!("farside-nic {}", self.node.0));
        let thread = thread.spawn(move || agent.run()).map_err(|error| Error::System {
            call: "starting the agent's thread",
            errno: error.raw_os_error().unwrap_or(0),
        })?;
        let wakeup = udp::open(SocketAddr::new(self.wakeup_address.ip(), 0))?;
        let wakeup = UdpEndpoint::new(wakeup, None)?;
        *lock(&self.agent) = Some(Running { commands, thread, wakeup });
        Ok(())
    }

    /// Makes the agent.
    fn agent(
        &self,
        endpoint: Arc<dyn TransportEndpoint>,
        addresses: &[Address],
        packet_bytes: usize,
        commands: Receiver<Command>,
    ) -> Result<Agent> {
        let resolve = |address| endpoint.resolve(address);
        let peers = addresses.iter().map(resolve).collect::<Result<Vec<PeerAddress>>>()?;
        let host = self.host.get().copied();
        let mut memory =
            NodeMemory::new(self.job.clone(), self.node, host, self.table.host_ports());
        memory.registration = endpoint.clone().memory_registration();
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

    /// Declares a rank of this node lost, here and to all nodes.
    pub fn declare_lost(&self, rank: Rank, how: ExitCause) {
        self.job.declare_lost(rank, how);
        self.report_lost(rank, how);
    }

    /// Declares that the launcher has ended a rank of this node, here and to all nodes.
    pub fn declare_stopped(&self, rank: Rank, how: ExitCause) {
        self.job.declare_stopped(rank, how);
        self.report_lost(rank, how);
    }

    fn report_lost(&self, rank: Rank, how: ExitCause) {
        if let Some(running) = &*lock(&self.agent) {
            self.table.wake_sleepers(&running.wakeup);
            let (peer_state, cause) = (PeerState::Lost(how), self.job.departure(rank).cause);
            self.command(running, Command::Report { rank, peer_state, cause });
        }
    }

    /// Declares a rank of another node lost to the ranks of this node, with the loss that caused
    /// it. The agent tells them, since it must have refused the rank before.
    pub fn note_lost(&self, rank: Rank, how: ExitCause, cause: Option<Loss>) {
        let tell = || self.job.note_departure(rank, PeerState::Lost(how), cause);
        let agent = lock(&self.agent);
        let Some(running) = &*agent else { return tell() };
        let (told, is_told) = channel();
        self.command(running, Command::Lose { rank, how, cause, told });
        // Who is declared lost next may have ended because of this loss, which must be known then;
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

    /// Stops serving when nothing authentic has arrived for `silence`, or after some seconds, for
    /// an agent that is not told when the others are done: one of them may still repeat the report
    /// that a rank has left.
    pub fn retire(&self, silence: Duration) {
        if let Some(running) = lock(&self.agent).take() {
            self.command(&running, Command::Retire(silence));
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
