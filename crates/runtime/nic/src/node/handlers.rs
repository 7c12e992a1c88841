//! What handlers can reach: near memory directly, far memory through a port of their own.
//!
//! The process of one rank of a node runs the handlers. It opens the port when it becomes that
//! process, and drains it before the next one does.

use std::sync::{Arc, Mutex};

use farside_fabric::{self as fabric, Atomic, Node, Rank, Region, Result, Word};
use farside_shm::{Job, Neighbourhood, Reach, Surroundings};

use super::address_table::AddressTable;
use super::ports::{abandon_the_lost, drain, open_port};
use crate::initiator::fragments::{FarSegment, Fragments};
use crate::initiator::origin::Origin;
use crate::initiator::port::Port;
use crate::initiator::progress::Progress;
use crate::transport::Transport;
use crate::wire::request::Request;
use crate::wire::{PortId, ServerId};
use farside_fabric::lock::lock;

/// Gives the handlers in a rank's process their way to other nodes.
pub(crate) struct HandlerReach {
    job: Arc<Job>,
    rank: Rank,
    table: AddressTable,
    transport: Arc<dyn Transport>,
}

impl HandlerReach {
    pub(crate) fn new(
        job: Arc<Job>,
        rank: Rank,
        table: AddressTable,
        transport: Arc<dyn Transport>,
    ) -> HandlerReach {
        HandlerReach { job, rank, table, transport }
    }
}

impl Surroundings for HandlerReach {
    fn start(&self) -> Result<Neighbourhood> {
        let topology = self.job.topology().clone();
        let port = open_port(
            &self.table,
            &*self.transport,
            &topology,
            PortId::of_rank(self.rank, PortId::HANDLERS),
        )?;
        let port = Arc::new(Mutex::new(port));
        let progress = Progress::new();
        progress.add(&port);
        let node = self.table.node();
        let agent = self.table.wakeup_address();
        let endpoint = lock(&port).endpoint().clone();
        let near = Reach::new(self.job.clone(), node);
        let reach = Handlers { job: self.job.clone(), node, near, port, progress };
        let job = self.job.clone();
        Ok(Neighbourhood {
            reach: Box::new(reach),
            answered: Box::new(move |caller| {
                if is_far(&job, node, caller) {
                    // A lost wakeup delays the answer and does not lose it: the agent looks soon.
                    endpoint.wake(agent);
                }
            }),
        })
    }
}

/// Returns whether a caller is on another node: then the agent, which waits for datagrams only,
/// must be woken to send the answer.
fn is_far(job: &Job, node: Node, caller: Rank) -> bool {
    job.topology().check(caller).is_ok() && job.topology().node_of(caller) != node
}

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

    /// Posts to a far rank. A handler must not block: what may not be sent yet waits in the port.
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

/// Drains the port: what these handlers have posted must land before what those of the next process
/// post.
impl Drop for Handlers {
    fn drop(&mut self) {
        drain(&mut lock(&self.port), &self.job, |port| {
            abandon_the_lost(&self.job, self.node, port)
        });
    }
}

fn put_all(origin: &mut Origin, server: ServerId, to: &Region<'_>, bytes: &[u8]) {
    let mut fragments = Fragments::new(to.shape, 1);
    while !fragments.is_done() {
        origin.put_some(server, FarSegment::of(to), &mut fragments, bytes, false);
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
            // Operations to one node are executed in the order in which they were posted.
            origin.post(server, &Request::Post { at, op, counts: false });
        });
        Ok(())
    }

    fn get(&self, from: &Region<'_>, into: &mut [u8]) -> Result<()> {
        self.near.get(from, into)
    }
}
