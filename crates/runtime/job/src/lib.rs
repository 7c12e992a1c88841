//! Making a job and joining one: the one place that knows which fabrics there are.
//!
//! A launcher makes a [`Host`], starts each rank with [`Host::environment`] and the inherited file
//! [`Host::file`], and reports each death with [`Host::declare_lost`]. Where a job spans hosts,
//! each of them makes its own node with [`Host::node`], and the nodes exchange their addresses. A
//! rank calls [`join`]. Under another launcher, such as `mpirun`, the ranks make their job
//! themselves (`assembly`). Programs use the crate `farside`, which re-exports [`join`].

pub mod address;
mod assembly;
mod board;
mod card;
mod enter;
mod entry;
pub mod environment;
mod exchange;
#[cfg(feature = "faults")]
#[doc(hidden)]
pub mod faults;
mod handover;
mod host;
mod join;
mod lines;
mod nodes;
mod ofi;
mod options;
mod plan;
mod pmi;
mod recording;
mod report;
mod stuck;
mod watch;
mod wrapped;

use farside_fabric::{Error, Result};

pub use entry::{Entry, Explored, RunAs, Simulated};
pub use exchange::Exchange;
pub use farside_nic::{Address, SocketBuffer, socket_buffer};
pub use farside_shm::{FarLoss, RANKS_MAX, RankLoss, now_ns};
pub use host::Host;
pub use join::{checked, connect, join, join_with, warn_of_own_job};
pub use ofi::{check_provider, libfabric};
pub use options::{Kind, Options, parse_bytes};
pub use plan::JobPlan;
pub use recording::Recording;
pub use report::{Report, ReportFile};
pub use wrapped::Joiners;

/// The environment variable that names the fabric.
pub const FABRIC: &str = "FARSIDE_FABRIC";
/// The environment variable that says which rank a process is.
pub const RANK: &str = "FARSIDE_RANK";
/// The environment variable that names the inherited file of the job.
pub const FILE: &str = "FARSIDE_JOB_FD";
/// The environment variable that marks the processes of a job, by which a keeper finds them.
pub const MARK: &str = "FARSIDE_JOB";
/// The environment variable that says which process has started the ranks, and where it listens for
/// those that join behind a wrapper.
pub const LAUNCHER: &str = "FARSIDE_LAUNCHER";
/// The environment variable that limits the memory that each rank may share, in bytes or with a
/// unit: `512M`, `4G`.
pub const MEMORY: &str = "FARSIDE_MEMORY";
/// The environment variable that overrides the topology: `node:2,socket:2`.
pub const TOPOLOGY: &str = "FARSIDE_TOPOLOGY";
/// The environment variable that divides the ranks of one machine into so many nodes, under a
/// launcher that is not `farside run`.
pub const NODES: &str = "FARSIDE_NODES";
/// The environment variable that names the server of far operations, likewise.
pub const SERVER: &str = "FARSIDE_SERVER";
/// The environment variable that says for how many seconds a node may be silent, likewise.
pub const PEER_TIMEOUT: &str = "FARSIDE_PEER_TIMEOUT";
/// An older name of [`PEER_TIMEOUT`].
pub const PATIENCE: &str = "FARSIDE_PATIENCE";
/// The environment variable that says which of a host's addresses others can reach, likewise: an
/// address, or a network such as `10.1.0.0/16`.
pub const NETWORK: &str = "FARSIDE_NETWORK";
/// The environment variable that says for how many seconds ranks wait for each other when they
/// start, likewise.
pub const START_TIMEOUT: &str = "FARSIDE_START_TIMEOUT";
/// The environment variable that says after how many seconds of waiting it is told who is stuck.
pub const STUCK_AFTER: &str = "FARSIDE_STUCK_AFTER";
/// The environment variable that overrides how many processors the ranks may use together.
pub const CORES: &str = "FARSIDE_CORES";

/// The environment variable that names the fabric between nodes where none is asked for.
pub const BETWEEN_NODES: &str = "FARSIDE_BETWEEN_NODES";
/// The environment variable that names the provider of libfabric.
pub const PROVIDER: &str = "FARSIDE_PROVIDER";
/// The environment variable that tells the program's entry how to run: see [`Entry`].
pub const ENTRY: &str = "FARSIDE_ENTRY";
/// The environment variable that says where the race checker's memory is.
const RACES: &str = "FARSIDE_RACES";

/// Returns how the PMIx library that [`join`] would use describes itself, if there is one.
pub fn pmix_library() -> Option<String> {
    crate::pmi::library_version(variable(crate::pmi::PMIX_LIBRARY).as_deref())
}

/// Returns the launcher that has started this process, as far as [`join`] can tell.
pub fn launcher() -> Result<Option<String>> {
    if is_of_farside() {
        return Ok(Some("farside run".into()));
    }
    let launcher =
        crate::pmi::recognise(&variable).map_err(|error| Error::Join(error.to_string()))?;
    Ok(launcher.map(|launcher| launcher.to_string()))
}

/// Whether `farside run` has started this process. [`FABRIC`] does not say so: users set it as
/// well.
pub(crate) fn is_of_farside() -> bool {
    [RANK, FILE].iter().any(|name| std::env::var_os(name).is_some())
}

/// Returns the value of an environment variable that is set and not empty.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Refuses an unknown server.
pub fn check_server(name: &str) -> Result<()> {
    name.parse::<farside_nic::Server>().map(drop)
}
