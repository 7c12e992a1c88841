//! What handlers can reach: near memory directly, far memory through a port of their agent's
//! thread. An agent opens its port when it is its turn to run handlers, and drains it before the
//! next agent's turn.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use farside_fabric::{self as fabric, Atomic, Node, Rank, Region, Result, Word};
use farside_shm::{Job, Neighbourhood, Reach, Surroundings};

use crate::initiator::fragments::Cut;
use crate::initiator::origin::Origin;
use crate::initiator::port::Port;
use crate::initiator::progress::Progress;
use crate::node::address_table::Directory;
use crate::node::rank_state::{abandon_the_lost, drain, lock, open_port};
use crate::transport::{Line, Network};
use crate::wire::request::Request;
use crate::wire::{PortId, ServerId};

/// Gives an agent that starts with a rank its way to other nodes.
pub(crate) struct FarReach {
    job: Arc<Job>,
    rank: Rank,
    directory: Directory,
    network: Arc<dyn Network>,
}

impl FarReach {
    pub(crate) fn surroundings(
        job: Arc<Job>,
        rank: Rank,
        directory: Directory,
        network: Arc<dyn Network>,
    ) -> FarReach {
        FarReach { job, rank, directory, network }
    }
}

impl Surroundings for FarReach {
    fn start(&self) -> Result<Neighbourhood> {
        let topology = self.job.topology().clone();
        let port = open_port(
            &self.directory,
            &*self.network,
            &topology,
            PortId::of_rank(self.rank, PortId::HANDLERS),
        )?;
        let port = Arc::new(Mutex::new(port));
        let progress = Progress::new();
        progress.look_after(&port);
        let node = self.directory.node();
        let interface = self.directory.bell();
        let nudge = lock(&port).line().clone();
        let near = Reach::new(self.job.clone(), node);
        let reach = Handlers { job: self.job.clone(), node, near, port, progress };
        let job = self.job.clone();
        Ok(Neighbourhood {
            reach: Box::new(reach),
            answered: Box::new(move |caller| {
                tell_interface(&job, node, caller, &*nudge, interface)
            }),
        })
    }
}

/// A call of a far rank was answered: the interface, which waits for datagrams and for nothing
/// else, is to look.
fn tell_interface(job: &Job, node: Node, caller: Rank, nudge: &dyn Line, interface: SocketAddr) {
    if job.topology().check(caller).is_ok() && job.topology().node_of(caller) != node {
        // Should it get lost, the interface looks by itself, a little later.
        nudge.ring(interface);
    }
}

/// What the handlers of a node can reach.
struct Handlers {
    job: Arc<Job>,
    node: Node,
    near: Reach,
    port: Arc<Mutex<Port>>,
    progress: Progress,
}

impl Handlers {
    fn is_near(&self, rank: Rank) -> Result<bool> {
        self.job.topology().check(rank)?;
        Ok(self.job.topology().node_of(rank) == self.node)
    }

    /// Posts to a far rank. A handler must not block: what does not fit under way waits in the
    /// port.
    fn post_far(&self, rank: Rank, post: impl FnOnce(&mut Origin, ServerId)) {
        let server = ServerId(self.job.topology().node_of(rank).0);
        let mut port = lock(&self.port);
        post(&mut port.origin, server);
        port.origin.push();
        port.drive();
        drop(port);
        self.progress.arm();
    }
}

/// Handlers run elsewhere from now on: what these have posted must have landed before what those
/// post.
impl Drop for Handlers {
    fn drop(&mut self) {
        drain(&mut lock(&self.port), &self.job, |port| {
            abandon_the_lost(&self.job, self.node, port)
        });
    }
}

fn put_all(origin: &mut Origin, server: ServerId, to: &Region<'_>, bytes: &[u8]) {
    let mut cut = Cut::new(to.shape, 1);
    while !cut.is_done() {
        origin.put_some(server, (to.rank, to.segment), &mut cut, bytes, false);
    }
}

impl fabric::Agent for Handlers {
    fn node(&self) -> Node {
        self.node
    }

    fn atomic(&self, at: Word, op: Atomic) -> Result<u128> {
        self.near.atomic(at, op)
    }

    fn post(&self, at: Word, op: Atomic) -> Result<()> {
        if self.is_near(at.rank)? {
            return self.near.post(at, op);
        }
        op.check(at.width)?;
        self.post_far(at.rank, |origin, server| {
            origin.post(server, &Request::Post { at, op, counts: false })
        });
        Ok(())
    }

    fn put(&self, to: &Region<'_>, bytes: &[u8]) -> Result<()> {
        if self.is_near(to.rank)? {
            return self.near.put(to, bytes);
        }
        to.check(u64::MAX)?;
        to.check_length(bytes.len())?;
        self.post_far(to.rank, |origin, server| put_all(origin, server, to, bytes));
        Ok(())
    }

    fn put_signal(&self, to: &Region<'_>, bytes: &[u8], at: Word, op: Atomic) -> Result<()> {
        if self.is_near(to.rank)? {
            return self.near.put_signal(to, bytes, at, op);
        }
        to.check(u64::MAX)?;
        to.check_length(bytes.len())?;
        op.check(at.width)?;
        self.post_far(to.rank, |origin, server| {
            put_all(origin, server, to, bytes);
            // What goes to one node is executed in the order in which it was posted.
            origin.post(server, &Request::Post { at, op, counts: false });
        });
        Ok(())
    }

    fn get(&self, from: &Region<'_>, into: &mut [u8]) -> Result<()> {
        self.near.get(from, into)
    }
}
