//! A job, as its launcher sees it.

use std::net::IpAddr;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use farside_fabric::tracing::Server;
use farside_fabric::{Connection, Error, ExitCause, Loss, Node, PeerState, Rank, Result, Topology};
use farside_rma::root_bytes;

use crate::enter::enter;
use crate::nodes::Nodes;
use crate::{Address, FABRIC, FILE, FarLoss, JobPlan, Kind, Options, RANK, RankLoss, Recording};

/// The variable of libfabric that says how many unexpected messages an endpoint over a connected
/// network can hold.
const RXM_RECEIVES: &str = "FI_OFI_RXM_MSG_RX_SIZE";

/// A job, or one node of it, in the process that made it.
pub struct Host {
    state: State,
}

enum State {
    Shm(Arc<farside_shm::Job>),
    Nodes(Nodes),
}

impl Host {
    /// Makes a job that ranks can join.
    pub fn create(options: &Options) -> Result<Host> {
        if options.ranks > farside_shm::RANKS_MAX {
            let (value, limit) = (options.ranks.into(), farside_shm::RANKS_MAX.into());
            return Err(Error::TooMuch { what: "ranks of a job", value, limit });
        }
        match options.fabric {
            Kind::Shm => {
                let topology = match &options.topology {
                    Some(description) => Topology::parse(description, options.ranks)?,
                    None => farside_shm::topology_of_this_machine(options.ranks)?,
                };
                let mut config = farside_shm::Config::new(topology, root_bytes(options.ranks));
                config.arena_bytes = options.memory.unwrap_or(config.arena_bytes);
                config.cores = options.cores.unwrap_or(config.cores);
                config.is_recorded = options.is_recorded;
                Ok(Host { state: State::Shm(farside_shm::Job::create(&config)?) })
            }
            Kind::Nic | Kind::Ofi => Ok(Host { state: State::Nodes(Nodes::all(options)?) }),
        }
    }

    /// Makes one node of a job that spans nodes: its memory and its interface, which listens at an
    /// address that the others can reach, and does not serve before [`Host::meet`].
    pub fn node(plan: &JobPlan, node: Node, bind: IpAddr) -> Result<Host> {
        Ok(Host { state: State::Nodes(Nodes::one(plan, node, bind)?) })
    }

    /// Returns the address at which this node's interface listens, if it has one.
    pub fn address(&self) -> Option<Address> {
        match &self.state {
            State::Shm(_) => None,
            State::Nodes(nodes) => nodes.address(),
        }
    }

    /// Says, before [`Host::meet`], that this is the process of `rank`: the interface ends with it.
    pub(crate) fn set_host(&self, rank: Rank) {
        if let State::Nodes(nodes) = &self.state {
            nodes.set_host(rank);
        }
    }

    /// Returns the rank whose process this node's interface is part of, if it is one's.
    #[cfg(test)]
    pub(crate) fn process(&self) -> Option<Rank> {
        match &self.state {
            State::Shm(_) => None,
            State::Nodes(nodes) => nodes.process(),
        }
    }

    /// Gives this node the addresses of all nodes' interfaces, in the order of the nodes, and
    /// begins to serve.
    pub fn meet(&self, addresses: &[Address]) -> Result<()> {
        match &self.state {
            State::Shm(_) => Ok(()),
            State::Nodes(nodes) => nodes.meet(addresses),
        }
    }

    /// Returns the ranks to be started here.
    pub fn ranks(&self) -> Vec<Rank> {
        match &self.state {
            State::Shm(job) => (0..job.topology().ranks()).map(Rank).collect(),
            State::Nodes(nodes) => nodes.ranks(),
        }
    }

    /// Returns the nodes that were found to be silent so far.
    pub fn nodes_lost(&self) -> Vec<u32> {
        match &self.state {
            State::Shm(_) => Vec::new(),
            State::Nodes(nodes) => nodes.lost(),
        }
    }

    /// Returns the nodes that are not heard at the moment, those that were found to be silent among
    /// them.
    pub fn nodes_silent(&self) -> Vec<u32> {
        match &self.state {
            State::Shm(_) => Vec::new(),
            State::Nodes(nodes) => nodes.silent(),
        }
    }

    /// Returns the number of nodes that this one has to hear.
    pub fn other_nodes(&self) -> usize {
        match &self.state {
            State::Shm(_) => 0,
            State::Nodes(nodes) => nodes.topology().nodes() as usize - 1,
        }
    }

    /// Returns whether nothing has ever come from a node that was found to be silent.
    pub fn is_unheard(&self, node: u32) -> bool {
        match &self.state {
            State::Shm(_) => false,
            State::Nodes(nodes) => nodes.is_unheard(node),
        }
    }

    /// Returns the environment variables of a rank's process; `file` is the number that
    /// [`Host::file`] has there.
    pub fn environment(&self, rank: Rank, file: RawFd) -> Vec<(&'static str, String)> {
        let kind = self.kind();
        let mut variables =
            vec![(FABRIC, kind.to_string()), (RANK, rank.0.to_string()), (FILE, file.to_string())];
        if kind == Kind::Ofi && std::env::var_os(RXM_RECEIVES).is_none() {
            // By default each endpoint sets 16 MiB aside, and fills them with zeros when it is
            // opened.
            variables.push((RXM_RECEIVES, "64".into()));
        }
        variables
    }

    /// Returns the file that this rank's process must inherit.
    pub fn file(&self, rank: Rank) -> BorrowedFd<'_> {
        match &self.state {
            State::Shm(job) => job.file(),
            State::Nodes(nodes) => nodes.of(rank).file(),
        }
    }

    /// Returns the job's topology.
    pub fn topology(&self) -> &Topology {
        match &self.state {
            State::Shm(job) => job.topology(),
            State::Nodes(nodes) => nodes.topology(),
        }
    }

    /// Returns whether a rank is still there, as far as the job knows.
    pub fn peer_state(&self, rank: Rank) -> PeerState {
        match &self.state {
            State::Shm(job) => job.peer_state(rank),
            State::Nodes(nodes) => nodes.peer_state(rank),
        }
    }

    /// Returns whether a rank started here has joined, whatever has become of it.
    pub fn has_joined(&self, rank: Rank) -> bool {
        self.memory(rank).rank_record(rank).process.load(Ordering::Relaxed) != 0
    }

    /// Returns the loss because of which a rank has ended, if it has not ended by itself.
    pub fn cause(&self, rank: Rank) -> Option<Loss> {
        match &self.state {
            State::Shm(job) => job.departure(rank).cause,
            State::Nodes(nodes) => nodes.departure(rank).cause,
        }
    }

    /// Tells the ranks here, of all together, that ranks of other nodes have ended without leaving,
    /// or have failed.
    pub fn note_losses(&self, losses: &[FarLoss]) {
        match &self.state {
            State::Shm(job) => job.note_losses(losses),
            State::Nodes(nodes) => nodes.note_losses(losses),
        }
    }

    /// Notes that the process of a rank started here has ended, in whichever way.
    pub fn note_end(&self, rank: Rank) {
        if let State::Nodes(nodes) = &self.state {
            nodes.note_end(rank);
        }
    }

    /// Tells all ranks that one of those started here has ended without leaving, or has failed.
    pub fn declare_lost(&self, rank: Rank, how: ExitCause) {
        match &self.state {
            State::Shm(job) => job.declare_lost(rank, how),
            State::Nodes(nodes) => nodes.declare_lost(rank, how),
        }
    }

    /// Tells all ranks of the ends of several of those started here, which were seen together.
    pub fn declare_losses(&self, losses: &[RankLoss]) {
        match &self.state {
            State::Shm(job) => job.declare_losses(losses),
            State::Nodes(nodes) => nodes.declare_losses(losses),
        }
    }

    /// Returns the memories of the nodes that are here, for viewers.
    pub fn memories(&self) -> Vec<Arc<farside_shm::Job>> {
        match &self.state {
            State::Shm(job) => vec![job.clone()],
            State::Nodes(nodes) => nodes.memories(),
        }
    }

    /// Returns the latest operations of the ranks started here, and of those that serve them, if
    /// the job is recorded.
    pub fn recording(&self) -> Option<Recording> {
        let (topology, ranks) = (self.topology(), self.ranks());
        let read = |&rank: &Rank| Some(self.memory(rank).ring(rank)?.read(rank));
        let readings = ranks.iter().map(read).collect::<Option<_>>()?;
        let mut nodes: Vec<Node> = ranks.iter().map(|&rank| topology.node_of(rank)).collect();
        nodes.sort_unstable_by_key(|node| node.0);
        nodes.dedup();
        let of_nodes = nodes.iter().flat_map(|&node| {
            let memory = self.memory(topology.ranks_of(node)[0]);
            [Server::Agent(node), Server::Handlers(node)].map(|server| (memory.clone(), server))
        });
        let of_ranks = ranks.iter().map(|&rank| (self.memory(rank), Server::Host(rank)));
        let serve = |(memory, server): (Arc<farside_shm::Job>, Server)| {
            Some(memory.service_ring(server)?.read_services(server))
        };
        let servers = of_nodes.chain(of_ranks).filter_map(serve).collect();
        Some(Recording::of_rings(topology.clone(), readings, servers))
    }

    /// The memory that a rank shares with its neighbours.
    pub(crate) fn memory(&self, rank: Rank) -> Arc<farside_shm::Job> {
        match &self.state {
            State::Shm(job) => job.clone(),
            State::Nodes(nodes) => nodes.of(rank).job().clone(),
        }
    }

    /// Stops serving when nothing has come for a while.
    pub(crate) fn retire(&self, quiet: Duration) {
        match &self.state {
            State::Shm(_) => {}
            State::Nodes(nodes) => nodes.retire(quiet),
        }
    }

    fn kind(&self) -> Kind {
        match &self.state {
            State::Shm(_) => Kind::Shm,
            State::Nodes(nodes) => nodes.kind(),
        }
    }

    /// Joins from inside this process, as one of its threads.
    pub fn connect(&self, rank: Rank) -> Result<Box<dyn Connection>> {
        enter(self.kind(), self.memory(rank), rank, None)
    }
}
