//! Clients of the process management interfaces: a process learns its rank from its launcher, and
//! exchanges addresses with the others.
//!
//! Launchers of clusters speak one of three protocols, and all three offer the same: a process
//! learns which rank it is and of how many, it puts values under keys, a fence makes what all have
//! put visible to all, and then they can be got.
//!
//! - PMI-1, lines of text over an inherited socket: MPICH's hydra, Intel MPI;
//! - PMI-2, likewise with lengths: `srun --mpi=pmi2`;
//! - PMIx, a library that talks to a server: Open MPI's `mpirun`, `prterun`, `srun --mpi=pmix`.
//!
//! [`recognise`] finds the launcher of this process from the environment; [`Launcher::open`] talks
//! to it. Nothing here knows of farside: neither ranks' memory nor fabrics.

mod channel;
mod pmi1;
mod pmi2;
mod pmix;
mod recognise;
mod siblings;
mod start_deadline;

pub(crate) use pmix::library_version;
pub(crate) use recognise::{Environment, Launcher, recognise};
pub(crate) use start_deadline::StartDeadline;

/// The environment variable that says which protocol to speak, where that is not plain: `pmi1`,
/// `pmi2`, `pmix`, or `none` for a process that is to be alone.
pub(crate) const PROTOCOL: &str = "FARSIDE_PMI";
/// The environment variable that says where the PMIx library is.
pub(crate) const PMIX_LIBRARY: &str = "FARSIDE_PMIX_LIBRARY";

/// The reason why a launcher could not be talked to, and the way out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Error(pub String);

/// The result of every call here.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// A conversation with the launcher.
///
/// Keys and values consist of letters, digits and `.-_`; a key is put once, by one process.
pub(crate) trait Session {
    /// Returns the rank of this process.
    fn rank(&self) -> u32;
    /// Returns the number of processes.
    fn size(&self) -> u32;
    /// The longest value.
    fn value_bytes_max(&self) -> usize;
    /// Puts a value under a key.
    fn put(&mut self, key: &str, value: &str) -> Result<()>;
    /// Returns when all processes have called it. Then they see what all had put.
    fn fence(&mut self) -> Result<()>;
    /// The value that the process `from` has put under a key, before the last fence.
    fn get(&mut self, from: u32, key: &str) -> Result<String>;
    /// Says that this process has what it needs. A process that ends without that counts as failed.
    fn finish(self: Box<Self>) -> Result<()>;
}
