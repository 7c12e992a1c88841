//! A rank's place in the job: what its threads share, and how it leaves.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use farside_fabric::{
    Caps, Connection as _, Error, ExitCause, Failures, Node, PeerState, Rank, Result, SegmentId,
    Topology, Width,
};
use farside_shm::Job;
use rustc_hash::FxHashMap;

use crate::Place;
use crate::directory::{Directory, PORTS_PER_RANK};
use crate::line::{Network, Route};
use crate::origin::Origin;
use crate::port::Port;
use crate::progress::Progress;
use crate::reach::FarReach;
use crate::station::HostServer;
use crate::target::slot;
use crate::wire::request::Request;
use crate::wire::{PortId, ServerId};

/// How long a thread sleeps at most before it looks whether anything has changed.
pub(crate) const NAP: Duration = Duration::from_millis(200);

/// How many fetching operations a thread may have under way.
pub(crate) const OUTSTANDING_MAX: u32 = 1024;

/// What all connections of a rank share.
pub(crate) struct Seat {
    pub(crate) rank: Rank,
    pub(crate) node: Node,
    pub(crate) job: Arc<Job>,
    pub(crate) topology: Arc<Topology>,
    pub(crate) caps: Caps,
    pub(crate) failures: Failures,
    pub(crate) directory: Directory,
    pub(crate) network: Arc<dyn Network>,
    pub(crate) progress: Progress,
    /// Which places in the directory are free.
    pub(crate) places: Mutex<Vec<Vacancy>>,
    pub(crate) calls: Mutex<FarCalls>,
    pub(crate) host: Option<HostServer>,
    /// Its only use is to say farewell.
    farewell: Mutex<Option<Farewell>>,
}

/// A place in the directory for a thread that communicates. Its port is used again, with its
/// connections, by the next thread that has the place: the other nodes remember every port that
/// they have ever heard of.
pub(crate) struct Vacancy {
    pub(crate) index: u32,
    pub(crate) port: Option<Arc<Mutex<Port>>>,
}

/// What is needed to tell the others that the rank has left, after everything else of it is gone.
struct Farewell {
    /// Where a port costs little. Else the one that the rank's last thread has left is used.
    port: Option<Port>,
    membership: farside_shm::Membership,
}

/// Which slots for calls are free, for each node.
#[derive(Default)]
pub(crate) struct FarCalls {
    taken: FxHashMap<Node, u32>,
    pub(crate) count: u32,
}

/// The segment of a node's first rank in whose only word landings are counted.
pub(crate) const LANDINGS: SegmentId = SegmentId(2);

impl Seat {
    /// Takes a rank's place in the job, with a connection to the near part of it. Each rank joins
    /// once.
    pub(crate) fn join(
        job: Arc<Job>,
        rank: Rank,
        network: Arc<dyn Network>,
    ) -> Result<(Arc<Seat>, farside_shm::Endpoint)> {
        let directory = Directory::of(&job);
        directory.check()?;
        let (topology, node) = (job.topology().clone(), directory.node());
        topology.check(rank)?;
        if topology.node_of(rank) != node {
            return Err(Error::Join(format!("{rank} is not on {node}, whose memory this is")));
        }
        let reach = FarReach::surroundings(job.clone(), rank, directory.clone(), network.clone());
        let near = farside_shm::Endpoint::join_in(job.clone(), rank, Box::new(reach))?;
        if topology.leader_of(node)? == rank {
            // Other nodes' operations are counted here, as soon as there are any.
            near.register(LANDINGS, Width::W64.bytes())?;
        }
        let caps = Caps {
            name: "nic",
            ordering: farside_fabric::Ordering::PerPeer,
            outstanding_max: OUTSTANDING_MAX,
            ..near.job().caps.clone()
        };
        let host = match directory.settings().server.place {
            Place::Nic => None,
            Place::Host => Some(HostServer::start(&job, rank, &directory)?),
        };
        let seat = Arc::new(Seat {
            rank,
            node,
            topology,
            caps,
            failures: job.hold_failures(),
            progress: Progress::new(),
            places: Mutex::new(
                (0..PORTS_PER_RANK).rev().map(|index| Vacancy { index, port: None }).collect(),
            ),
            calls: Mutex::default(),
            host,
            farewell: Mutex::new(None),
            network,
            directory,
            job,
        });
        let is_cheap = !seat.network.introduces_itself();
        let port = is_cheap.then(|| seat.open_port(PortId::FAREWELL)).transpose()?;
        let farewell = Farewell { port, membership: near.membership() };
        *lock(&seat.farewell) = Some(farewell);
        Ok((seat, near))
    }

    /// A new port.
    fn open_port(&self, which: u32) -> Result<Port> {
        open_port(
            &self.directory,
            &*self.network,
            &self.topology,
            PortId::of_rank(self.rank, which),
        )
    }

    /// A place for one more thread, and its port.
    pub(crate) fn take_place(&self) -> Result<(u32, Arc<Mutex<Port>>)> {
        let too_much = || Error::TooMuch {
            what: "threads of one rank that communicate",
            value: u64::from(PORTS_PER_RANK) + 1,
            limit: PORTS_PER_RANK.into(),
        };
        let mut places = lock(&self.places);
        let Vacancy { index, port } = places.pop().ok_or_else(too_much)?;
        let port = match port {
            Some(port) => port,
            None => match self.open_port(index) {
                Ok(port) => {
                    let port = Arc::new(Mutex::new(port));
                    self.progress.look_after(&port);
                    port
                }
                Err(error) => {
                    places.push(Vacancy { index, port: None });
                    return Err(error);
                }
            },
        };
        let number = lock(&port).line().bell()?.port();
        self.directory.enter_port(self.rank, index, number);
        Ok((index, port))
    }

    /// A thread is done with its place.
    pub(crate) fn give_back_place(&self, index: u32, port: &Arc<Mutex<Port>>) {
        self.directory.enter_port(self.rank, index, 0);
        lock(port).reset();
        lock(&self.places).push(Vacancy { index, port: Some(port.clone()) });
    }

    /// Forgets what is under way to nodes of which nobody is left.
    pub(crate) fn abandon_the_lost(&self, port: &mut Port) {
        abandon_the_lost(&self.job, self.node, port);
        if self.host.is_some() {
            for rank in (0..self.topology.ranks()).map(Rank) {
                if matches!(self.job.peer_state(rank), PeerState::Lost(_) | PeerState::Left) {
                    port.origin.abandon(ServerId(self.topology.nodes() + rank.0));
                }
            }
        }
    }
}

/// Forgets what is under way to nodes of which nobody is left.
pub(crate) fn abandon_the_lost(job: &Job, own: Node, port: &mut Port) {
    let topology = job.topology();
    for node in (0..topology.nodes()).map(Node).filter(|&node| node != own) {
        if topology
            .ranks_of(node)
            .iter()
            .all(|&rank| matches!(job.peer_state(rank), PeerState::Lost(_)))
        {
            port.origin.abandon(ServerId(node.0));
        }
    }
}

/// Drives a port until everything that was posted through it has landed, or is nobody's any more.
pub(crate) fn drain(port: &mut Port, job: &Job, abandon_the_lost: impl Fn(&mut Port)) {
    loop {
        port.origin.push();
        port.drive();
        if job.failures().losses.load(Ordering::Relaxed) != 0 {
            abandon_the_lost(port);
        }
        if !port.origin.is_busy() {
            return;
        }
        let nap = port.patience().unwrap_or(NAP).min(NAP);
        port.line().sleep(nap);
    }
}

/// A new port of this node.
pub(crate) fn open_port(
    directory: &Directory,
    network: &dyn Network,
    topology: &Topology,
    id: PortId,
) -> Result<Port> {
    let line = network.open()?;
    let number = line.bell()?.port();
    let nodes = topology.nodes();
    let servers = match directory.settings().server.place {
        Place::Nic => nodes,
        Place::Host => nodes + topology.ranks(),
    };
    let route = |node: u32| line.route(&directory.address(Node(node))?).map(Some);
    let mut routes = (0..nodes).map(route).collect::<Result<Vec<Option<Route>>>>()?;
    routes.resize(servers as usize, None);
    let mut origin = Origin::new(id, directory.key(), number, servers, directory.packet_bytes());
    if network.introduces_itself() {
        origin.introduce(line.address()?);
    }
    Ok(Port::new(origin, line, routes, (directory.node(), directory.reach())))
}

impl Drop for Seat {
    fn drop(&mut self) {
        let Some(Farewell { port, membership }) = lock(&self.farewell).take() else { return };
        let own = port.map(|port| Arc::new(Mutex::new(port)));
        let left = || lock(&self.places).iter().find_map(|place| place.port.clone());
        let new = || self.open_port(PortId::FAREWELL).ok().map(|port| Arc::new(Mutex::new(port)));
        let Some(port) = own.or_else(left).or_else(new) else { return };
        let mut port = lock(&port);
        let peer_state = if std::thread::panicking() {
            PeerState::Lost(ExitCause::Panicked)
        } else {
            PeerState::Left
        };
        // The cause goes with the news, so that nobody hears of the consequence alone.
        let cause = self.job.settle_cause(self.rank, peer_state);
        for node in (0..self.topology.nodes()).filter(|&node| node != self.node.0) {
            port.origin
                .post(ServerId(node), &Request::Member { rank: self.rank, peer_state, cause });
        }
        drain(&mut port, &self.job, |port| self.abandon_the_lost(port));
        // This is what leaves the near part of the job.
        drop(membership);
        self.directory.nudge_sleepers(&**port.line());
    }
}

impl FarCalls {
    /// A free slot of a node, if there is one.
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

    pub(crate) fn give_back(&mut self, node: Node, taken: u32) {
        if let Some(bits) = self.taken.get_mut(&node) {
            *bits &= !(1 << slot::index(taken));
        }
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that is done under these locks can panic half-way.
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
