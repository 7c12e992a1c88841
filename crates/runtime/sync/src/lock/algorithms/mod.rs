//! The exclusive locks: one file each, and one row of the registry.

mod bypass;
pub(crate) mod d_mcs;
mod hybrid;
mod hybrid_posted;
pub mod packed;
pub(crate) mod rma_mcs;
mod semaphore;
mod server;
mod server_posted;
mod spin;
mod ticket;
mod token;

use farside_fabric::Result;
use farside_rma::Team;

use super::frame::Algorithm;
use super::registry::{Entry, Made, Maker, registry};

pub use semaphore::{Permit, Semaphore};

registry! {
    /// Which algorithm a lock uses.
    ///
    /// ```
    /// use farside::lock::Kind;
    ///
    /// assert_eq!(Kind::named("d-mcs"), Some(Kind::Mcs));
    /// assert!(Kind::all().iter().all(|kind| Kind::named(kind.name()).as_ref() == Some(kind)));
    /// ```
    enum Kind;
    /// The fastest that is known here, chosen by how the members are arranged:
    /// [`Kind::Bypass`] on one node, [`Kind::RmaMcs`] across nodes.
    Default => bypass;
    /// The default of one node, with other parameters.
    Bypass {
        /// How often running ranks may be ahead of the first that waits before it is its turn, if
        /// it runs; usually 64, or 256 where ranks outnumber processors.
        batch: u32,
        /// How often in a row they may be ahead of it, whether it runs or not, up to 32,766;
        /// usually 32,000.
        bound: u32,
        /// How often the first that waits looks for itself before it parks; usually 200.
        polls: u32,
    } => bypass;
    /// Numbers are taken and called (\[ARMCI03\]).
    Ticket => ticket;
    /// The agent of the home's node keeps a queue (\[ARMCI03\]).
    Server => server;
    /// Near ranks take tickets themselves, for far ranks the agent does (\[ARMCI03\]).
    Hybrid => hybrid;
    /// The server's queue with a release that waits for nothing (\[ARMCI03\]): it may still be
    /// under way when the rank meets others, and is executed when the lock is freed.
    ServerPosted => server_posted;
    /// The hybrid lock with such a release.
    HybridPosted => hybrid_posted;
    /// A queue that each waiter links itself into, waiting on its own word (\[ARMCI03\], D-MCS of
    /// \[RMALOCK16\]).
    Mcs => d_mcs;
    /// The same with a release that sends nothing as long as no rank waits.
    Token => token;
    /// The same queue in one word of every rank, zero at rest: OpenSHMEM's locks.
    Packed => packed;
    /// A queue for each element of the topology (RMA-MCS of \[RMALOCK16\]).
    RmaMcs {
        /// How often in a row the lock is passed inside an element before it leaves it: for the
        /// levels below the widest, the widest first; the last one also for all levels that follow.
        /// Without any, 32.
        thresholds: Vec<u32>,
    } => rma_mcs;
    /// One word that is changed from zero (foMPI-Spin of \[RMALOCK16\]).
    Spin {
        /// Whether pauses between attempts grow.
        backoff: bool,
    } => spin;
    /// As many holders as there are permits, in turn ([`Semaphore`]).
    Semaphore {
        /// How many ranks may have it at a time.
        permits: u32,
    } => semaphore;
}

impl Kind {
    /// Returns the kind that the default is among the members of a team. Between nodes it is
    /// messages that cost, so the lock stays on a node for a while; on a node it is parked ranks,
    /// which are passed.
    pub(crate) fn resolve(&self, team: &Team<'_>) -> Kind {
        let (topology, members) = (team.context().topology(), team.members());
        match self {
            Kind::Default if !members.iter().all(|&rank| topology.same_node(rank, members[0])) => {
                Kind::RmaMcs { thresholds: Vec::new() }
            }
            other => other.clone(),
        }
    }

    /// Makes a lock of a kind that was resolved.
    pub(crate) fn build(&self, maker: Maker<'_>) -> Result<Made<dyn Algorithm>> {
        self.make(&Maker { what: format!("{self:?}"), ..maker })
    }
}
