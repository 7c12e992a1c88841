//! Joining a job, and making one: the one place that knows which fabrics there are.
//!
//! A launcher makes a [`Host`], starts each rank with [`Host::environment`] and the inherited file
//! [`Host::file`], and reports who died with [`Host::declare_lost`]. Where a job spans hosts, each
//! of them makes its own node with [`Host::node`] and lets it meet the others. A rank calls
//! [`join`]. Where the launcher is somebody else's, which makes nothing, the ranks make their job
//! themselves (`assembly`).

pub mod address;
mod assembly;
mod board;
pub mod environment;
mod handover;
mod nodes;
mod plan;
mod watch;

use std::net::IpAddr;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use farside_fabric::{Connection, Error, ExitCause, Loss, Node, PeerState, Rank, Result, Topology};
use farside_rma::{World, root_bytes};

use nodes::Nodes;

pub use farside_nic::Address;

/// The environment variable that names the fabric.
pub const FABRIC: &str = "FARSIDE_FABRIC";
/// The environment variable that says which rank a process is.
pub const RANK: &str = "FARSIDE_RANK";
/// The environment variable that names the inherited file of the job.
pub const FILE: &str = "FARSIDE_JOB_FD";
/// The environment variable that names the job, for whoever has to find what is left of it.
pub const MARK: &str = "FARSIDE_JOB";
/// The environment variable that limits the memory that each rank may share, in bytes or with a
/// unit: `512M`, `4G`.
pub const MEMORY: &str = "FARSIDE_MEMORY";
/// The environment variable that overrides the topology: `node:2,socket:2`.
pub const TOPOLOGY: &str = "FARSIDE_TOPOLOGY";
/// The environment variable that divides the ranks of one machine into so many nodes, under a
/// launcher that is not `farside run`.
pub const NODES: &str = "FARSIDE_NODES";
/// The environment variable that says who executes far operations, likewise.
pub const SERVER: &str = "FARSIDE_SERVER";
/// The environment variable that says for how many seconds a node may be silent, likewise.
pub const PATIENCE: &str = "FARSIDE_PATIENCE";
/// The environment variable that says which of a host's addresses others can reach, likewise: an
/// address, or a network such as `10.1.0.0/16`.
pub const NETWORK: &str = "FARSIDE_NETWORK";
/// The environment variable that says for how many seconds ranks wait for each other when they
/// start, likewise.
pub const START_TIMEOUT: &str = "FARSIDE_START_TIMEOUT";
/// The environment variable that overrides how many processors the ranks may use together.
pub const CORES: &str = "FARSIDE_CORES";

/// The environment variable that names the fabric between nodes where none is asked for.
pub const BETWEEN_NODES: &str = "FARSIDE_BETWEEN_NODES";
/// The environment variable that names the provider of libfabric.
pub const PROVIDER: &str = "FARSIDE_PROVIDER";

/// How many messages that nobody waits for an endpoint of libfabric over a connected network can
/// take.
const RXM_RECEIVES: &str = "FI_OFI_RXM_MSG_RX_SIZE";

/// The fabrics that a job can run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kind {
    /// Ranks of one machine over mapped memory.
    #[default]
    Shm,
    /// Ranks of several nodes over UDP.
    Nic,
    /// Ranks of several nodes over libfabric.
    Ofi,
}

impl Kind {
    /// What connects nodes where nothing else is said: nic, or what [`BETWEEN_NODES`] names.
    pub fn between_nodes() -> Result<Kind> {
        match std::env::var(BETWEEN_NODES).unwrap_or_default().as_str() {
            "" | "nic" => Ok(Kind::Nic),
            "ofi" => Ok(Kind::Ofi),
            other => Err(Error::Misuse(format!(
                "{BETWEEN_NODES}={other:?}: nodes are connected by nic or ofi"
            ))),
        }
    }

    /// Whether it connects several nodes.
    pub fn spans_nodes(self) -> bool {
        self != Kind::Shm
    }
}

impl std::str::FromStr for Kind {
    type Err = Error;

    fn from_str(name: &str) -> Result<Kind> {
        match name {
            "shm" => Ok(Kind::Shm),
            "nic" => Ok(Kind::Nic),
            "ofi" => Ok(Kind::Ofi),
            other => Err(Error::Misuse(format!(
                "there is no fabric {other:?}; there are: shm, nic, ofi"
            ))),
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Kind::Shm => write!(f, "shm"),
            Kind::Nic => write!(f, "nic"),
            Kind::Ofi => write!(f, "ofi"),
        }
    }
}

/// What a job is to be like.
#[derive(Debug, Clone)]
pub struct Options {
    /// How many ranks it has.
    pub ranks: u32,
    /// On which fabric.
    pub fabric: Kind,
    /// A description such as `node:2,socket:2`, instead of what this machine is like.
    pub topology: Option<String>,
    /// How much memory each rank may share, in bytes.
    pub memory: Option<u64>,
    /// How many processors the ranks may use together, instead of what this machine has.
    pub cores: Option<u32>,
    /// Into how many nodes of this machine the ranks are divided.
    pub nodes: Option<u32>,
    /// Who executes far operations at a node.
    pub server: Option<String>,
    /// Which provider of libfabric, and what it executes itself: see [`farside_ofi::Settings`].
    pub provider: Option<String>,
    /// How long a node may be silent before it counts as lost.
    pub patience: Option<Duration>,
}

impl Options {
    /// The default job of so many ranks, with what the environment overrides.
    pub fn new(ranks: u32) -> Result<Options> {
        let memory = variable(MEMORY)
            .map(|text| {
                parse_bytes(&text).map_err(|error| Error::Misuse(format!("{MEMORY}: {error}")))
            })
            .transpose()?;
        let cores = variable(CORES).map(|text| {
            let cores = text.parse().ok().filter(|&cores| cores > 0);
            cores.ok_or_else(|| {
                Error::Misuse(format!("{CORES}={text:?}: expected a number of processors"))
            })
        });
        Ok(Options {
            ranks,
            fabric: Kind::default(),
            topology: variable(TOPOLOGY),
            memory,
            cores: cores.transpose()?,
            nodes: None,
            server: None,
            provider: variable(PROVIDER),
            patience: None,
        })
    }
}

/// One node of a job that spans hosts.
#[derive(Debug, Clone)]
pub struct NodePlan {
    /// What the whole job is like.
    pub options: Options,
    /// Which of the nodes this is.
    pub node: u32,
    /// How many ranks each node has, in order: the ranks are numbered node by node.
    pub ranks_of_nodes: Vec<u32>,
    /// What every packet of this job is authenticated with.
    pub secret: [u8; 16],
    /// The address of this host that the others can reach.
    pub bind: IpAddr,
}

impl NodePlan {
    /// The ranks of this node.
    pub fn ranks(&self) -> Vec<Rank> {
        let before: u32 = self.ranks_of_nodes.iter().take(self.node as usize).sum();
        let own = self.ranks_of_nodes.get(self.node as usize).copied().unwrap_or(0);
        (before..before + own).map(Rank).collect()
    }
}

/// Refuses a provider of libfabric that cannot be: one that is not here is found out when the job
/// starts.
pub fn check_provider(name: &str) -> Result<()> {
    name.parse::<farside_ofi::Settings>().map(drop)
}

/// The version of libfabric that is here, and the providers that a job could use, the preferred one
/// first.
pub fn libfabric() -> Result<(String, Vec<String>)> {
    farside_ofi::providers()
}

/// How many bytes the nic fabric wants to wait in a socket, and how many the system allows.
pub fn socket_buffer() -> Result<(u64, u64)> {
    farside_nic::buffer_bytes()
}

/// The PMIx library that [`join`] would use, as it describes itself, if there is one.
pub fn pmix_library() -> Option<String> {
    farside_pmi::library_version(variable(farside_pmi::PMIX_LIBRARY).as_deref())
}

/// Who has started this process, as far as [`join`] can tell; nothing if that is no launcher.
pub fn launcher() -> Result<Option<String>> {
    if is_of_farside() {
        return Ok(Some("farside run".into()));
    }
    let launcher =
        farside_pmi::recognise(&variable).map_err(|error| Error::Join(error.to_string()))?;
    Ok(launcher.map(|launcher| launcher.to_string()))
}

/// Whether `farside run` has started this process. [`FABRIC`] does not say so: users set it as
/// well.
fn is_of_farside() -> bool {
    [RANK, FILE].iter().any(|name| std::env::var_os(name).is_some())
}

/// What the environment says, if it says anything.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Refuses a server that there is not.
pub fn check_server(name: &str) -> Result<()> {
    name.parse::<farside_nic::Server>().map(drop)
}

/// Reads a number of bytes such as `4096`, `512M` or `4GiB`.
pub fn parse_bytes(text: &str) -> Result<u64> {
    let bad = || {
        Error::Misuse(format!(
            "{text:?} is no number of bytes; expected something like 4096, 512M or 4G"
        ))
    };
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| bad())?;
    let shift = match unit.trim().trim_end_matches(['B', 'b']).trim_end_matches('i') {
        "" => 0,
        "K" | "k" => 10,
        "M" | "m" => 20,
        "G" | "g" => 30,
        "T" | "t" => 40,
        _ => return Err(bad()),
    };
    number.checked_mul(1 << shift).filter(|&bytes| bytes > 0).ok_or_else(bad)
}

/// A job, as its launcher sees it.
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
            return Err(Error::TooMuch { what: "ranks on one machine", value, limit });
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
                Ok(Host { state: State::Shm(farside_shm::Job::create(&config)?) })
            }
            Kind::Nic | Kind::Ofi => Ok(Host { state: State::Nodes(Nodes::all(options)?) }),
        }
    }

    /// Makes one node of a job that spans hosts: its memory and its interface, which does not serve
    /// before [`Host::meet`].
    pub fn node(plan: &NodePlan) -> Result<Host> {
        Ok(Host { state: State::Nodes(Nodes::one(plan)?) })
    }

    /// Makes one node of a job, wherever its ranks are in their order.
    fn place(
        options: &Options,
        topology: &Topology,
        node: Node,
        secret: [u8; 16],
        bind: IpAddr,
    ) -> Result<Host> {
        Ok(Host { state: State::Nodes(Nodes::placed(options, topology, node, secret, bind)?) })
    }

    /// Where this node's interface listens, if it has one.
    pub fn address(&self) -> Option<Address> {
        match &self.state {
            State::Shm(_) => None,
            State::Nodes(nodes) => nodes.address(),
        }
    }

    /// Tells where the interfaces of all nodes are, in the order of the nodes. Service begins.
    pub fn meet(&self, addresses: &[Address]) -> Result<()> {
        match &self.state {
            State::Shm(_) => Ok(()),
            State::Nodes(nodes) => nodes.meet(addresses),
        }
    }

    /// The ranks to be started here.
    pub fn ranks(&self) -> Vec<Rank> {
        match &self.state {
            State::Shm(job) => (0..job.topology().ranks()).map(Rank).collect(),
            State::Nodes(nodes) => nodes.ranks(),
        }
    }

    /// The nodes that were found to be silent so far.
    pub fn nodes_lost(&self) -> Vec<u32> {
        match &self.state {
            State::Shm(_) => Vec::new(),
            State::Nodes(nodes) => nodes.lost(),
        }
    }

    /// What a rank's process must find in its environment; `file` is the number that [`Host::file`]
    /// has there.
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

    /// The file that this rank's process must inherit.
    pub fn file(&self, rank: Rank) -> BorrowedFd<'_> {
        match &self.state {
            State::Shm(job) => job.file(),
            State::Nodes(nodes) => nodes.of(rank).file(),
        }
    }

    /// Who is where.
    pub fn topology(&self) -> &Topology {
        match &self.state {
            State::Shm(job) => job.topology(),
            State::Nodes(nodes) => nodes.topology(),
        }
    }

    /// What has become of a rank, as far as the job knows.
    pub fn peer_state(&self, rank: Rank) -> PeerState {
        match &self.state {
            State::Shm(job) => job.peer_state(rank),
            State::Nodes(nodes) => nodes.peer_state(rank),
        }
    }

    /// The loss because of which a rank has ended, if it has not ended by itself.
    pub fn cause(&self, rank: Rank) -> Option<Loss> {
        match &self.state {
            State::Shm(job) => job.departure(rank).cause,
            State::Nodes(nodes) => nodes.departure(rank).cause,
        }
    }

    /// Tells the ranks here that one elsewhere has ended without leaving, or has failed, because of
    /// this loss.
    pub fn note_lost(&self, rank: Rank, how: ExitCause, cause: Option<Loss>) {
        match &self.state {
            State::Shm(job) => job.note_departure(rank, PeerState::Lost(how), cause),
            State::Nodes(nodes) => nodes.note_lost(rank, how, cause),
        }
    }

    /// Tells all ranks that one of those started here has ended without leaving, or has failed.
    pub fn declare_lost(&self, rank: Rank, how: ExitCause) {
        match &self.state {
            State::Shm(job) => job.declare_lost(rank, how),
            State::Nodes(nodes) => nodes.declare_lost(rank, how),
        }
    }

    /// The memory that a rank shares with its neighbours.
    fn memory(&self, rank: Rank) -> Arc<farside_shm::Job> {
        match &self.state {
            State::Shm(job) => job.clone(),
            State::Nodes(nodes) => nodes.of(rank).job().clone(),
        }
    }

    /// Stops serving when nothing has come for a while.
    fn retire(&self, quiet: Duration) {
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
    pub(crate) fn connect(&self, rank: Rank) -> Result<Box<dyn Connection>> {
        enter(self.kind(), self.memory(rank), rank, None)
    }
}

/// Joins the job that this process was started for, or, if it was started without a launcher, a job
/// of one rank.
///
/// Launchers are `farside run`, and those of clusters that speak PMIx, PMI-2 or PMI-1: `mpirun`,
/// `mpiexec`, `srun --mpi=pmix`. Under the latter the end of the world of a node's first rank waits
/// for the others where there are several nodes, as the end of an MPI program does.
///
/// ```
/// let world = farside::join()?;
/// assert_eq!(world.size(), 1);
/// # Ok::<(), farside::Error>(())
/// ```
pub fn join() -> Result<World> {
    World::new(connect()?)
}

/// The connection under [`join`], for programs that decorate it before they build a [`World`] over
/// it.
pub fn connect() -> Result<Box<dyn Connection>> {
    if !is_of_farside()
        && let Some(launcher) =
            farside_pmi::recognise(&variable).map_err(|error| Error::Join(error.to_string()))?
    {
        return assembly::join(&launcher);
    }
    if !is_of_farside() {
        environment::warn_of_own();
        // One rank reaches nobody, over no fabric; what there is not is refused all the same.
        variable(FABRIC).map(|name| name.parse::<Kind>()).transpose()?;
        return Host::create(&Options::new(1)?)?.connect(Rank(0));
    }
    let kind = value(FABRIC)?.parse()?;
    let (rank, file) = (Rank(number(RANK)?), number(FILE)?);
    enter(kind, farside_shm::Job::attach(inherited(file)?)?, rank, None)
}

/// What a variable says that `farside run` sets for each of its ranks.
fn value(name: &str) -> Result<String> {
    variable(name).ok_or_else(|| {
        Error::Join(format!(
            "{name} is not set, but {} is: `farside run` sets {FABRIC}, {RANK} and {FILE}. To run \
             this program alone, \
             unset all of them",
            [RANK, FILE].iter().find(|other| variable(other).is_some()).unwrap_or(&RANK)
        ))
    })
}

fn number(name: &str) -> Result<u32> {
    let text = value(name)?;
    text.parse().map_err(|_| {
        Error::Join(format!("{name}={text:?} is no number; it is set by `farside run`"))
    })
}

/// Takes a rank's place. The companion is dropped when the rank has left.
fn enter(
    kind: Kind,
    job: Arc<farside_shm::Job>,
    rank: Rank,
    companion: Option<farside_shm::Companion>,
) -> Result<Box<dyn Connection>> {
    match kind {
        Kind::Shm => {
            let endpoint = farside_shm::Endpoint::join(job, rank)?;
            companion.into_iter().for_each(|companion| endpoint.keep(companion));
            Ok(Box::new(endpoint))
        }
        Kind::Nic => {
            let endpoint = farside_nic::Endpoint::join(job, rank)?;
            companion.into_iter().for_each(|companion| endpoint.keep(companion));
            Ok(Box::new(endpoint))
        }
        Kind::Ofi => {
            let endpoint = farside_ofi::Endpoint::join(job, rank)?;
            companion.into_iter().for_each(|companion| endpoint.keep(companion));
            Ok(Box::new(endpoint))
        }
    }
}

/// A copy of the file that the launcher handed over. The number itself stays open, and so a second
/// attempt to join is told that the rank has joined, instead of meeting whatever file has that
/// number by then.
fn inherited(number: u32) -> Result<OwnedFd> {
    let bad = |error: std::io::Error| {
        Error::Join(format!(
            "the job's file, number {number}, is not open here ({error}); does a wrapper close \
             inherited files?"
        ))
    };
    // SAFETY: the number is borrowed just long enough to be duplicated; if it is not open, that
    // fails.
    let file = unsafe { BorrowedFd::borrow_raw(number as RawFd) };
    let copy = file.try_clone_to_owned().map_err(bad)?;
    // Programs that this one starts are no ranks.
    rustix::io::fcntl_setfd(file, rustix::io::FdFlags::CLOEXEC)
        .map_err(|errno| bad(errno.into()))?;
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_bytes_have_units() {
        assert_eq!(parse_bytes("4096"), Ok(4096));
        assert_eq!(parse_bytes("512M"), Ok(512 << 20));
        assert_eq!(parse_bytes("4GiB"), Ok(4 << 30));
        for bad in ["", "M", "-1", "4X", "0", "99999999999T"] {
            assert!(parse_bytes(bad).unwrap_err().to_string().contains(bad), "{bad}");
        }
    }

    #[test]
    fn an_unknown_fabric_is_named() {
        assert!("ib".parse::<Kind>().unwrap_err().to_string().contains("\"ib\""));
        assert_eq!("shm".parse::<Kind>(), Ok(Kind::Shm));
    }
}
