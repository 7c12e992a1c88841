//! The fabric itself: one thread's connection to a job of several nodes.

use std::cell::Cell;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use farside_fabric::{
    Alarm, Atomic, Caps, Effort, Ended, Error, Event, Fabric, Fate, Handler, HandlerId, Mapped, Node, Rank, Region,
    Reply, Result, SegmentId, Started, Sum, Ticket, Topology, Wait, Wake, Width, Word,
};
use farside_shm::Job;
use rustc_hash::FxHashMap;

use crate::Place;
use crate::buffer::Buffer;
use crate::cut::Cut;
use crate::directory::{Directory, PORTS_PER_RANK};
use crate::origin::Origin;
use crate::port::ticket::{self, Meaning};
use crate::port::{self, Port};
use crate::progress::Progress;
use crate::reach::FarReach;
use crate::socket;
use crate::station::HostServer;
use crate::target::slot;
use crate::wire::request::{Request, Rows};
use crate::wire::{PortId, ServerId};

/// How many fetching operations a thread may have under way.
const OUTSTANDING_MAX: u32 = 1024;
/// How often a thread looks for its answer before it sleeps. Between two looks it lets others run: the one that is to answer may need the processor.
const LOOKS: u32 = 60;
/// How long a thread sleeps at most before it looks whether anything has changed.
const NAP: Duration = Duration::from_millis(200);

/// One thread's connection to a job of several nodes.
pub struct Endpoint {
    port: Arc<Mutex<Port>>,
    /// The port's, to sleep at.
    socket: Arc<UdpSocket>,
    /// Which of its rank's ports that is.
    index: u32,
    /// The near part of the job.
    near: farside_shm::Endpoint,
    effort: Cell<Effort>,
    /// Last: a rank that leaves says so when everything else is done.
    seat: Arc<Seat>,
}

/// What all connections of a rank share.
pub(crate) struct Seat {
    rank: Rank,
    node: Node,
    job: Arc<Job>,
    topology: Arc<Topology>,
    caps: Caps,
    directory: Directory,
    progress: Progress,
    /// How many ports this rank has made. Names of ports are not used again: the other nodes remember them.
    ports: AtomicU32,
    /// Which places in the directory are free.
    places: Mutex<Vec<u32>>,
    calls: Mutex<FarCalls>,
    host: Option<HostServer>,
    /// Its only use is to say farewell.
    farewell: Mutex<Option<Farewell>>,
}

/// What is needed to tell the others that the rank has left, after everything else of it is gone.
struct Farewell {
    port: Port,
    membership: farside_shm::Membership,
}

/// Which slots for calls are free, for each node.
#[derive(Default)]
struct FarCalls {
    taken: FxHashMap<Node, u32>,
    count: u32,
}

impl Endpoint {
    /// Takes a rank's place in the job. Each rank joins once.
    pub fn join(job: Arc<Job>, rank: Rank) -> Result<Endpoint> {
        let directory = Directory::of(&job);
        directory.check()?;
        let (topology, node) = (job.topology().clone(), directory.node());
        topology.check(rank)?;
        if topology.node_of(rank) != node {
            return Err(Error::Join(format!("{rank} is not on {node}, whose memory this is")));
        }
        let reach = FarReach::surroundings(job.clone(), rank, directory.clone());
        let near = farside_shm::Endpoint::join_in(job.clone(), rank, Box::new(reach))?;
        if topology.leader_of(node)? == rank {
            // Other nodes' operations are counted here, as soon as there are any.
            near.expose(SegmentId::LANDINGS, Width::W64.bytes())?;
        }
        let caps = Caps {
            name: "nic",
            ordering: farside_fabric::Ordering::PerPeer,
            outstanding_max: OUTSTANDING_MAX.min(near.caps().outstanding_max.max(OUTSTANDING_MAX)),
            ..near.caps().clone()
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
            progress: Progress::new(),
            ports: AtomicU32::new(0),
            places: Mutex::new((0..PORTS_PER_RANK).rev().collect()),
            calls: Mutex::default(),
            host,
            farewell: Mutex::new(None),
            directory,
            job,
        });
        let (port, _) = seat.open_port(seat.next_port())?;
        let farewell = Farewell { port, membership: near.membership() };
        *lock(&seat.farewell) = Some(farewell);
        Endpoint::of(seat, near)
    }

    fn of(seat: Arc<Seat>, near: farside_shm::Endpoint) -> Result<Endpoint> {
        let (port, number) = seat.open_port(seat.next_port())?;
        let Some(index) = lock(&seat.places).pop() else {
            return Err(Error::TooMuch {
                what: "threads of one rank that communicate",
                value: u64::from(PORTS_PER_RANK) + 1,
                limit: PORTS_PER_RANK.into(),
            });
        };
        seat.directory.enter_port(seat.rank, index, number);
        let socket = port.socket().clone();
        let port = Arc::new(Mutex::new(port));
        seat.progress.look_after(&port);
        Ok(Endpoint { port, socket, index, near, effort: Cell::default(), seat })
    }

    fn is_near(&self, peer: Rank) -> Result<bool> {
        self.seat.topology.check(peer)?;
        Ok(self.seat.topology.node_of(peer) == self.seat.node)
    }

    /// That a rank has gone is an error for whoever needs it; that it left in order is not, its memory is still there.
    fn check_alive(&self, peer: Rank) -> Result<()> {
        if self.alarm().losses.load(Ordering::Relaxed) != 0
            && let Fate::Lost(how) = self.fate(peer)
        {
            return Err(Error::RankLost { rank: peer, how });
        }
        Ok(())
    }

    /// Who serves a far rank's memory.
    fn server_of(&self, peer: Rank) -> Result<ServerId> {
        let node = ServerId(self.seat.topology.node_of(peer).0);
        if self.seat.host.is_none() {
            return Ok(node);
        }
        let server = ServerId(self.seat.topology.nodes() + peer.0);
        if !lock(&self.port).knows(server) {
            let address = self.locate(peer, node)?;
            lock(&self.port).learn(server, address);
        }
        Ok(server)
    }

    /// Asks where a rank serves itself, until it does.
    fn locate(&self, peer: Rank, node: ServerId) -> Result<SocketAddr> {
        loop {
            let asked = lock(&self.port).origin.locate(node, peer);
            let alive = || self.check_alive(peer);
            self.drive_until(alive, |port| port.origin.is_done(asked))?;
            if let Some(Reply::Word(found)) = lock(&self.port).origin.take(asked)?
                && found != 0
            {
                let ip = self.seat.directory.address(self.seat.topology.node_of(peer)).ip();
                return Ok(SocketAddr::new(ip, found as u16));
            }
            std::thread::yield_now();
        }
    }

    /// Lets the port work until `done`, or until `alive` says that there is nobody to wait for.
    fn drive_until(&self, alive: impl Fn() -> Result<()>, mut done: impl FnMut(&mut Port) -> bool) -> Result<()> {
        let mut looks = 0;
        loop {
            let patience = {
                let mut port = lock(&self.port);
                port.drive();
                if done(&mut port) {
                    return Ok(());
                }
                port.patience()
            };
            let known = self.alarm().departures.load(Ordering::SeqCst);
            alive()?;
            self.rest(&mut looks, known, patience.unwrap_or(NAP).min(NAP));
        }
    }

    /// Lets others run, or sleeps until a datagram comes.
    fn rest(&self, looks: &mut u32, known_departures: u32, nap: Duration) {
        let mut spent = self.effort.get();
        if *looks < LOOKS {
            *looks += 1;
            spent.yields += 1;
            std::thread::yield_now();
        } else {
            spent.parks += 1;
            let (seat, index) = (&self.seat, self.index);
            seat.directory.set_asleep(seat.rank, index, true);
            // Whoever departs now sees that this thread sleeps.
            if self.alarm().departures.load(Ordering::SeqCst) == known_departures {
                socket::await_datagram(&self.socket, Some(nap));
            }
            seat.directory.set_asleep(seat.rank, index, false);
        }
        self.effort.set(spent);
    }

    /// Waits until more may be posted to a server.
    fn make_room(&self, peer: Rank, server: ServerId) -> Result<()> {
        if !lock(&self.port).origin.is_full(server) {
            return Ok(());
        }
        self.drive_until(|| self.check_alive(peer), |port| !port.origin.is_full(server))
    }

    /// Posts something to a far rank, in as many steps as it takes: `step` says whether it was the last.
    fn post_far(&self, peer: Rank, mut step: impl FnMut(&mut Origin, ServerId) -> bool) -> Result<()> {
        let server = self.server_of(peer)?;
        loop {
            self.make_room(peer, server)?;
            let mut port = lock(&self.port);
            let is_last = step(&mut port.origin, server);
            port.send(server);
            if is_last {
                break;
            }
        }
        self.seat.progress.arm();
        Ok(())
    }

    /// Begins a fetching operation on a far rank.
    fn begin_far(&self, peer: Rank, begin: impl FnOnce(&mut Origin, ServerId) -> Ticket) -> Result<Started> {
        let server = self.server_of(peer)?;
        self.make_room(peer, server)?;
        if lock(&self.port).origin.outstanding() >= OUTSTANDING_MAX as usize {
            let room = |port: &mut Port| port.origin.outstanding() < OUTSTANDING_MAX as usize || port.origin.has_done();
            self.drive_until(|| self.check_alive(peer), room)?;
        }
        let mut port = lock(&self.port);
        let ticket = begin(&mut port.origin, server);
        port.send(server);
        drop(port);
        self.seat.progress.arm();
        Ok(Started::Pending(ticket::transfer(ticket)))
    }

    fn counts(&self, segment: SegmentId) -> bool {
        segment.counts()
    }

    /// Everything that this thread has posted is sent and acknowledged, as far as anybody is there to do so.
    fn drain(&self) {
        let nobody_left = |port: &mut Port| {
            self.abandon_the_lost(port);
            port.origin.push();
            !port.origin.is_busy()
        };
        // It ends: a node that does not answer is given up, sooner or later.
        let _ = self.drive_until(|| Ok(()), nobody_left);
    }

    fn abandon_the_lost(&self, port: &mut Port) {
        if self.alarm().losses.load(Ordering::Relaxed) != 0 {
            self.seat.abandon_the_lost(port);
        }
    }
}

impl Seat {
    fn next_port(&self) -> PortId {
        PortId::of_rank(self.rank, self.ports.fetch_add(1, Ordering::Relaxed))
    }

    /// A new port; also says its number.
    fn open_port(&self, id: PortId) -> Result<(Port, u16)> {
        open_port(&self.directory, &self.topology, id)
    }

    /// Forgets what is under way to nodes of which nobody is left.
    fn abandon_the_lost(&self, port: &mut Port) {
        for node in (0..self.topology.nodes()).map(Node) {
            let is_lost = |&rank: &Rank| matches!(self.job.fate(rank), Fate::Lost(_));
            if node != self.node && self.topology.ranks_of(node).iter().all(is_lost) {
                port.origin.abandon(ServerId(node.0));
            }
        }
        if self.host.is_some() {
            for rank in (0..self.topology.ranks()).map(Rank) {
                if matches!(self.job.fate(rank), Fate::Lost(_) | Fate::Left) {
                    port.origin.abandon(ServerId(self.topology.nodes() + rank.0));
                }
            }
        }
    }
}

/// A new port of this node.
pub(crate) fn open_port(directory: &Directory, topology: &Topology, id: PortId) -> Result<(Port, u16)> {
    let socket = port::open_socket(directory.address(directory.node()))?;
    let number = socket::address(&socket)?.port();
    let nodes = topology.nodes();
    let servers = match directory.settings().server.place {
        Place::Nic => nodes,
        Place::Host => nodes + topology.ranks(),
    };
    let mut addresses: Vec<Option<SocketAddr>> = (0..nodes).map(|node| Some(directory.address(Node(node)))).collect();
    addresses.resize(servers as usize, None);
    let origin = Origin::new(id, directory.key(), servers, directory.packet_bytes());
    Ok((Port::new(origin, socket, addresses), number))
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.drain();
        self.seat.directory.enter_port(self.seat.rank, self.index, 0);
        lock(&self.seat.places).push(self.index);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let Some(Farewell { mut port, membership }) = lock(&self.farewell).take() else { return };
        let fate = if std::thread::panicking() { Fate::Lost(Ended::Panicked) } else { Fate::Left };
        for node in (0..self.topology.nodes()).filter(|&node| node != self.node.0) {
            port.origin.post(ServerId(node), &Request::Member { rank: self.rank, fate });
        }
        loop {
            port.origin.push();
            port.drive();
            if self.job.alarm().losses.load(Ordering::Relaxed) != 0 {
                self.abandon_the_lost(&mut port);
            }
            if !port.origin.is_busy() {
                break;
            }
            let nap = port.patience().unwrap_or(NAP).min(NAP);
            socket::await_datagram(port.socket(), Some(nap));
        }
        // This is what leaves the near part of the job.
        drop(membership);
        self.directory.nudge_sleepers(port.socket());
    }
}

impl Fabric for Endpoint {
    fn rank(&self) -> Rank {
        self.seat.rank
    }

    fn topology(&self) -> &Topology {
        &self.seat.topology
    }

    fn caps(&self) -> &Caps {
        &self.seat.caps
    }

    fn alarm(&self) -> &Alarm {
        self.seat.job.alarm()
    }

    fn fate(&self, peer: Rank) -> Fate {
        self.seat.job.fate(peer)
    }

    fn expose(&self, segment: SegmentId, bytes: u64) -> Result<()> {
        self.near.expose(segment, bytes)
    }

    fn withdraw(&self, segment: SegmentId) -> Result<()> {
        self.near.withdraw(segment)
    }

    fn own(&self, segment: SegmentId) -> Result<Mapped> {
        self.near.own(segment)
    }

    fn near(&self, peer: Rank, segment: SegmentId) -> Option<Mapped> {
        if self.is_near(peer).unwrap_or(false) { self.near.near(peer, segment) } else { None }
    }

    fn put(&self, to: &Region<'_>, bytes: &[u8]) -> Result<()> {
        if self.is_near(to.rank)? {
            return self.near.put(to, bytes);
        }
        self.check_alive(to.rank)?;
        to.check(u64::MAX)?;
        to.check_length(bytes.len())?;
        let (place, counts) = ((to.rank, to.segment), self.counts(to.segment));
        let mut cut = Cut::new(to.shape, 1);
        if cut.is_done() {
            return if counts {
                self.post_far(to.rank, |origin, server| post_nothing(origin, server, place))
            } else {
                Ok(())
            };
        }
        self.post_far(to.rank, |origin, server| {
            origin.put_some(server, place, &mut cut, bytes, counts);
            cut.is_done()
        })
    }

    unsafe fn get(&self, from: &Region<'_>, into: *mut u8) -> Result<Started> {
        if self.is_near(from.rank)? {
            // SAFETY: by the caller's promise.
            return unsafe { self.near.get(from, into) };
        }
        self.check_alive(from.rank)?;
        let bytes = from.check(u64::MAX)?;
        // SAFETY: valid and ours alone until the operation has completed, by the caller's promise; after that it is not touched.
        let buffer = unsafe { Buffer::new(into, bytes as usize) };
        let mut cut = Cut::new(from.shape, 1);
        if cut.is_done() {
            return Ok(Started::Done(Reply::None));
        }
        let started = self.begin_far(from.rank, |origin, server| {
            let ticket = origin.begin_get(buffer);
            origin.get_some(ticket, server, (from.rank, from.segment), &mut cut);
            ticket
        })?;
        let Started::Pending(ticket) = started else { return Ok(started) };
        let Meaning::Transfer(inner) = ticket::meaning(ticket) else { return Ok(started) };
        if !cut.is_done() {
            let asked = self.post_far(from.rank, |origin, server| {
                origin.get_some(inner, server, (from.rank, from.segment), &mut cut);
                cut.is_done()
            });
            if let Err(error) = asked {
                self.cancel(ticket);
                return Err(error);
            }
        }
        Ok(started)
    }

    fn accumulate(&self, to: &Region<'_>, sum: &Sum, bytes: &[u8]) -> Result<()> {
        if self.is_near(to.rank)? {
            return self.near.accumulate(to, sum, bytes);
        }
        self.check_alive(to.rank)?;
        to.check(u64::MAX)?;
        to.check_length(bytes.len())?;
        sum.check(&to.shape)?;
        let (place, counts) = ((to.rank, to.segment), self.counts(to.segment));
        let mut cut = Cut::new(to.shape, sum.number.bytes());
        if cut.is_done() {
            return if counts {
                self.post_far(to.rank, |origin, server| post_nothing(origin, server, place))
            } else {
                Ok(())
            };
        }
        self.post_far(to.rank, |origin, server| {
            origin.accumulate_some(server, place, &mut cut, (sum, bytes), counts);
            cut.is_done()
        })
    }

    fn atomic(&self, at: Word, op: Atomic) -> Result<Started> {
        if self.is_near(at.rank)? {
            return self.near.atomic(at, op);
        }
        self.check_alive(at.rank)?;
        check_word(at, op)?;
        self.begin_far(at.rank, |origin, server| origin.atomic(server, at, op))
    }

    fn post(&self, at: Word, op: Atomic) -> Result<()> {
        if self.is_near(at.rank)? {
            return self.near.post(at, op);
        }
        self.check_alive(at.rank)?;
        check_word(at, op)?;
        let counts = self.counts(at.segment);
        self.post_far(at.rank, |origin, server| {
            origin.post(server, &Request::Post { at, op, counts });
            true
        })
    }

    fn put_signal(&self, to: &Region<'_>, bytes: &[u8], at: Word, op: Atomic) -> Result<()> {
        if at.rank != to.rank || self.is_near(to.rank)? {
            return self.near.put_signal(to, bytes, at, op);
        }
        self.check_alive(to.rank)?;
        to.check(u64::MAX)?;
        to.check_length(bytes.len())?;
        check_word(at, op)?;
        let (place, counts) = ((to.rank, to.segment), self.counts(to.segment));
        let signal = Request::Post { at, op, counts: self.counts(at.segment) };
        let mut cut = Cut::new(to.shape, 1);
        // Both go together: what was posted to one peer is executed in that order.
        self.post_far(to.rank, |origin, server| {
            if cut.is_done() {
                // There is nothing to put, but it lands, too.
                let _ = !counts || post_nothing(origin, server, place);
            } else {
                origin.put_some(server, place, &mut cut, bytes, counts);
            }
            if cut.is_done() {
                origin.post(server, &signal);
            }
            cut.is_done()
        })
    }

    fn fence(&self) -> Result<()> {
        // What goes to one peer is executed in the order in which it was posted.
        self.near.fence()
    }

    fn flush(&self, peer: Rank) -> Result<()> {
        if self.is_near(peer)? {
            return self.near.flush(peer);
        }
        self.check_alive(peer)?;
        let server = self.server_of(peer)?;
        {
            let mut port = lock(&self.port);
            if !port.origin.has_landed(server) {
                port.origin.push();
                port.send(server);
            }
        }
        self.drive_until(|| self.check_alive(peer), |port| port.origin.has_landed(server))?;
        lock(&self.port).origin.complaint(server, peer)
    }

    fn landings(&self) -> Result<Option<Word>> {
        if self.seat.topology.nodes() == 1 {
            return Ok(None);
        }
        let rank = self.seat.topology.leader_of(self.seat.node)?;
        Ok(Some(Word { rank, segment: SegmentId::LANDINGS, offset: 0, width: Width::W64 }))
    }

    fn call(&self, node: Node, handler: HandlerId, bytes: &[u8]) -> Result<Started> {
        let leader = self.seat.topology.leader_of(node)?;
        if node == self.seat.node {
            return self.near.call(node, handler, bytes);
        }
        self.check_alive(leader)?;
        if self.fate(leader) == Fate::Left {
            return Err(Error::RankLost { rank: leader, how: Ended::Left });
        }
        if bytes.len() as u64 > Job::CALL_BYTES {
            let (value, limit) = (bytes.len() as u64, Job::CALL_BYTES);
            return Err(Error::TooMuch { what: "bytes of a call's argument", value, limit });
        }
        let server = ServerId(node.0);
        let slot = loop {
            if let Some(slot) = lock(&self.seat.calls).take(node) {
                break slot;
            }
            // Other threads of the rank have all of them.
            let known = self.alarm().departures.load(Ordering::SeqCst);
            self.check_alive(leader)?;
            lock(&self.port).drive();
            self.rest(&mut 0, known, NAP);
        };
        let called = lock(&self.port).call((node, server), slot, handler, bytes);
        if let Err(error) = called {
            lock(&self.seat.calls).give_back(node, slot);
            return Err(error);
        }
        self.seat.progress.arm();
        Ok(Started::Pending(ticket::call(server, slot)))
    }

    fn serve(&self, handler: HandlerId, run: Handler) -> Result<()> {
        self.near.serve(handler, run)
    }

    fn poll(&self, ticket: Ticket) -> Result<Option<Reply>> {
        match ticket::meaning(ticket) {
            Meaning::Near(ticket) => self.near.poll(ticket),
            Meaning::Transfer(ticket) => {
                let mut port = lock(&self.port);
                if !port.origin.is_done(ticket) {
                    port.drive();
                }
                port.origin.take(ticket)
            }
            Meaning::Call(server, slot) => {
                let mut port = lock(&self.port);
                if !port.call_is_done(server, slot) {
                    port.drive();
                }
                let taken = port.take_call(server, slot);
                if !matches!(taken, Ok(None)) {
                    lock(&self.seat.calls).give_back(Node(server.0), slot);
                }
                taken
            }
        }
    }

    fn cancel(&self, ticket: Ticket) {
        match ticket::meaning(ticket) {
            Meaning::Near(ticket) => self.near.cancel(ticket),
            Meaning::Transfer(ticket) => lock(&self.port).origin.cancel(ticket),
            Meaning::Call(server, slot) => {
                lock(&self.port).forget_call(server, slot);
                lock(&self.seat.calls).give_back(Node(server.0), slot);
            }
        }
    }

    fn block(&self, wait: &Wait<'_>) -> Result<Wake> {
        let ticket = match wait.event {
            Event::Words(_) => return self.block_on_words(wait),
            Event::Done(ticket) => ticket,
        };
        let done: Box<dyn Fn(&mut Port) -> bool> = match ticket::meaning(ticket) {
            Meaning::Near(_) => return self.near.block(wait),
            Meaning::Transfer(ticket) => Box::new(move |port| port.origin.is_done(ticket)),
            Meaning::Call(server, slot) => Box::new(move |port| port.call_is_done(server, slot)),
        };
        let deadline = wait.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut looks = 0;
        loop {
            let patience = {
                let mut port = lock(&self.port);
                port.drive();
                if done(&mut port) {
                    return Ok(Wake::Ready { which: 0, value: 0 });
                }
                port.patience()
            };
            if self.alarm().departures.load(Ordering::SeqCst) != wait.known_departures {
                return Ok(Wake::Alarm);
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Ok(Wake::TimedOut);
            }
            let nap = [left, patience].into_iter().flatten().fold(NAP, Duration::min);
            self.rest(&mut looks, wait.known_departures, nap);
        }
    }

    fn relax(&self) {
        self.near.relax();
    }

    fn wake(&self, peer: Rank) {
        self.near.wake(peer);
    }

    fn now_ns(&self) -> u64 {
        self.near.now_ns()
    }

    fn context(&self) -> Result<Box<dyn Fabric>> {
        Ok(Box::new(Endpoint::of(self.seat.clone(), farside_shm::Endpoint::another(&self.near))?))
    }

    fn effort(&self) -> Effort {
        let (near, far) = (self.near.effort(), self.effort.get());
        Effort { waits: near.waits + far.waits, yields: near.yields + far.yields, parks: near.parks + far.parks }
    }
}

impl Endpoint {
    /// Waits for words of this rank's memory. What it has posted goes out first: whoever is to change the words may wait for it.
    fn block_on_words(&self, wait: &Wait<'_>) -> Result<Wake> {
        let begin = Instant::now();
        loop {
            let has_unsent = {
                let mut port = lock(&self.port);
                if port.origin.is_busy() {
                    port.origin.push();
                    port.drive();
                }
                port.origin.has_unsent()
            };
            if !has_unsent {
                return self.near.block(wait);
            }
            // More was posted than may be under way: the acknowledgements that let the rest go come to this port, and to nobody else.
            let look = Wait { timeout: Some(Duration::ZERO), soon: false, ..*wait };
            match self.near.block(&look)? {
                Wake::TimedOut if wait.timeout.is_none_or(|timeout| begin.elapsed() < timeout) => {}
                other => return Ok(other),
            }
            let patience = lock(&self.port).patience().unwrap_or(NAP);
            self.rest(&mut LOOKS.clone(), wait.known_departures, patience.min(Duration::from_millis(1)));
        }
    }
}

impl FarCalls {
    /// A free slot of a node, if there is one.
    fn take(&mut self, node: Node) -> Option<u32> {
        let taken = self.taken.entry(node).or_default();
        let index = taken.trailing_ones();
        if index >= Job::FAR_CALLS {
            return None;
        }
        *taken |= 1 << index;
        self.count = self.count.wrapping_add(1);
        Some(slot::new(index, self.count))
    }

    fn give_back(&mut self, node: Node, taken: u32) {
        if let Some(bits) = self.taken.get_mut(&node) {
            *bits &= !(1 << slot::index(taken));
        }
    }
}

/// A transfer of nothing lands, too.
fn post_nothing(origin: &mut Origin, server: ServerId, (rank, segment): (Rank, SegmentId)) -> bool {
    let to = Rows { rank, segment, offset: 0, unit: 0, count: 1, stride: 0 };
    origin.post(server, &Request::Put { to, data: &[], counts: true });
    true
}

/// What can be said of a word without knowing its segment.
fn check_word(at: Word, op: Atomic) -> Result<()> {
    op.check(at.width)?;
    at.check(u64::MAX)
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that is done under these locks can panic half-way.
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
