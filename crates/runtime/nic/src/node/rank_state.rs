//! The state of a rank: what its threads share, and how it leaves.

use std::sync::{Arc, Mutex};

use farside_fabric::{
    Caps, Connection as _, Error, Failures, Node, PeerState, Rank, Result, Topology, Width,
};
use farside_shm::Job;
use rustc_hash::FxHashMap;

use super::address_table::{AddressTable, PORTS_PER_RANK};
use super::handlers::HandlerReach;
use super::host_server::HostServer;
use super::ports::{self, drain, open_port};
use crate::initiator::port::Port;
use crate::initiator::progress::Progress;
use crate::settings::{AtomicUnit, ServerLocation};
use crate::target::memory::{LANDINGS, slot};
use crate::transport::Transport;
use crate::wire::request::Request;
use crate::wire::{PortId, ServerId};
use farside_fabric::lock::lock;

/// The number of fetching operations that a thread may have under way: what send tokens limit in
/// \[NIC02 section III-A\].
pub(crate) const OUTSTANDING_MAX: u32 = 1024;

/// The state that all threads of a rank share.
pub(crate) struct RankState {
    pub(crate) rank: Rank,
    pub(crate) node: Node,
    pub(crate) job: Arc<Job>,
    pub(crate) topology: Arc<Topology>,
    pub(crate) caps: Caps,
    pub(crate) failures: Failures,
    pub(crate) table: AddressTable,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) progress: Progress,
    free_ports: Mutex<Vec<FreePort>>,
    pub(crate) calls: Mutex<CallSlots>,
    pub(crate) host: Option<HostServer>,
    /// What is needed to leave the job, until the rank does.
    leave: Mutex<Option<Leave>>,
}

/// A port that no thread has. Once opened it is used again, with its connections, by the next
/// thread: the other nodes keep a connection for every port that they have ever heard of.
struct FreePort {
    index: u32,
    port: Option<Arc<Mutex<Port>>>,
}

/// What reports to all nodes that the rank has left, after everything else of it is gone.
struct Leave {
    /// A port of its own, on transports where that costs little. Otherwise the port of the rank's
    /// last thread is used.
    port: Option<Port>,
    membership: farside_shm::Membership,
}

/// The slots for calls that are taken, for each node.
#[derive(Default)]
pub(crate) struct CallSlots {
    taken: FxHashMap<Node, u32>,
    /// Those of calls that nobody waits for: free as soon as their handlers are done.
    abandoned: Vec<(Node, u32)>,
    pub(crate) count: u32,
}

impl RankState {
    /// Joins the job as a rank, with a connection to the near part of it. Each rank joins once.
    pub(crate) fn join(
        job: Arc<Job>,
        rank: Rank,
        transport: Arc<dyn Transport>,
    ) -> Result<(Arc<RankState>, farside_shm::Endpoint)> {
        let table = AddressTable::of(&job);
        table.check()?;
        let (topology, node) = (job.topology().clone(), table.node());
        topology.check(rank)?;
        if topology.node_of(rank) != node {
            return Err(Error::Join(format!("{rank} cannot join {node}: it is on another node")));
        }
        let reach = HandlerReach::new(job.clone(), rank, table.clone(), transport.clone());
        let near = farside_shm::Endpoint::join_in(job.clone(), rank, Box::new(reach))?;
        if topology.leader_of(node)? == rank {
            // The agent counts landings of far operations here.
            near.register(LANDINGS, Width::W64.bytes())?;
        }
        let server = table.settings().server;
        let caps = Caps {
            name: "nic",
            cpu_coherent: server.atomics == AtomicUnit::Processor,
            ordering: farside_fabric::Ordering::PerPeer,
            outstanding_max: OUTSTANDING_MAX,
            ..near.job().caps.clone()
        };
        let host = match server.location {
            ServerLocation::Nic => None,
            ServerLocation::Host => Some(HostServer::start(&job, rank, &table)?),
        };
        let state = Arc::new(RankState {
            rank,
            node,
            topology,
            caps,
            failures: job.hold_failures(),
            progress: Progress::new(),
            free_ports: Mutex::new(
                (0..PORTS_PER_RANK).rev().map(|index| FreePort { index, port: None }).collect(),
            ),
            calls: Mutex::default(),
            host,
            leave: Mutex::new(None),
            transport,
            table,
            job,
        });
        let is_cheap = !state.transport.needs_reply_address();
        let port = is_cheap.then(|| state.open_port(PortId::LEAVE)).transpose()?;
        *lock(&state.leave) = Some(Leave { port, membership: near.membership() });
        Ok((state, near))
    }

    fn open_port(&self, which: u32) -> Result<Port> {
        open_port(&self.table, &*self.transport, &self.topology, PortId::of_rank(self.rank, which))
    }

    pub(crate) fn take_port(&self) -> Result<(u32, Arc<Mutex<Port>>)> {
        let too_much = || Error::TooMuch {
            what: "threads of one rank that communicate",
            value: u64::from(PORTS_PER_RANK) + 1,
            limit: PORTS_PER_RANK.into(),
        };
        let mut free_ports = lock(&self.free_ports);
        let FreePort { index, port } = free_ports.pop().ok_or_else(too_much)?;
        match self.prepare_port(index, port.as_ref()) {
            Ok(port) => Ok((index, port)),
            Err(error) => {
                free_ports.push(FreePort { index, port });
                Err(error)
            }
        }
    }

    /// Opens a port unless that was done, and lets others wake the thread that has it.
    fn prepare_port(
        &self,
        index: u32,
        opened: Option<&Arc<Mutex<Port>>>,
    ) -> Result<Arc<Mutex<Port>>> {
        let port = match opened {
            Some(port) => port.clone(),
            None => Arc::new(Mutex::new(self.open_port(index)?)),
        };
        let number = lock(&port).endpoint().wakeup_address()?.port();
        if opened.is_none() {
            self.progress.add(&port);
        }
        self.table.enter_port(self.rank, index, number);
        Ok(port)
    }

    pub(crate) fn give_back_port(&self, index: u32, port: &Arc<Mutex<Port>>) {
        self.table.enter_port(self.rank, index, 0);
        for (server, slot) in lock(port).reset() {
            lock(&self.calls).abandon(Node(server.0), slot);
        }
        lock(&self.free_ports).push(FreePort { index, port: Some(port.clone()) });
    }

    pub(crate) fn abandon_the_lost(&self, port: &mut Port) {
        ports::abandon_the_lost(&self.job, self.node, port);
        if self.host.is_some() {
            for rank in (0..self.topology.ranks()).map(Rank) {
                if matches!(self.job.peer_state(rank), PeerState::Lost(_) | PeerState::Left) {
                    port.origin.abandon(ServerId(self.topology.nodes() + rank.0));
                }
            }
        }
    }
}

impl Drop for RankState {
    fn drop(&mut self) {
        let Some(Leave { port, membership }) = lock(&self.leave).take() else { return };
        let own = port.map(|port| Arc::new(Mutex::new(port)));
        let left = || lock(&self.free_ports).iter().find_map(|free| free.port.clone());
        let new = || self.open_port(PortId::LEAVE).ok().map(|port| Arc::new(Mutex::new(port)));
        let Some(port) = own.or_else(left).or_else(new) else { return };
        let mut port = lock(&port);
        // First what handlers have posted: nobody takes anything of a rank that is lost.
        membership.stop_handlers();
        let peer_state = self.job.end_of(self.rank);
        // The cause goes with the report, so that no rank hears of the consequence alone.
        let cause = self.job.settle_cause(self.rank, peer_state);
        for node in (0..self.topology.nodes()).filter(|&node| node != self.node.0) {
            port.origin
                .post(ServerId(node), &Request::Member { rank: self.rank, peer_state, cause });
        }
        drain(&mut port, &self.job, |port| self.abandon_the_lost(port));
        // This leaves the near part of the job.
        drop(membership);
        self.table.wake_sleepers(&**port.endpoint());
    }
}

impl CallSlots {
    pub(crate) fn take(&mut self, node: Node) -> Option<u32> {
        let taken = self.taken.entry(node).or_default();
        let index = taken.trailing_ones();
        if index >= Job::FAR_CALLS {
            return None;
        }
        *taken |= 1 << index;
        self.count = self.count.wrapping_add(1);
        Some(slot::new(index, self.count))
    }

    /// Notes that nobody waits for a call any more, whose handler may still be at work.
    pub(crate) fn abandon(&mut self, node: Node, taken: u32) {
        self.abandoned.push((node, taken));
    }

    pub(crate) fn take_abandoned(&mut self, node: Node) -> Vec<u32> {
        self.abandoned.extract_if(.., |(of, _)| *of == node).map(|(_, slot)| slot).collect()
    }

    pub(crate) fn give_back(&mut self, node: Node, taken: u32) {
        if let Some(bits) = self.taken.get_mut(&node) {
            *bits &= !(1 << slot::index(taken));
        }
    }
}
