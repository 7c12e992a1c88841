//! A station: what one node adds to a job. Its memory, its interface, and the agent that serves
//! there.
//!
//! The agent is a thread of whoever starts the node's ranks, the launcher or a node's daemon: it
//! outlives any of them. It executes what far ranks ask for, tells the other nodes who of its own
//! has left or was lost, and gives up on a node that it has not heard of for too long.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use farside_fabric::{Departure, Error, ExitCause, Loss, Node, PeerState, Rank, Result};
use farside_shm::Job;

use crate::initiator::origin::Origin;
use crate::node::address_table::Directory;
use crate::target::listener::Listener;
use crate::target::memory::Target;
use crate::target::service::{Refusals, Service};
use crate::transport::seal::Key;
use crate::transport::udp::{self as socket, now_ns};
use crate::transport::{Address, Line, Network, Route, Udp};
use crate::wire::request::Request;
use crate::wire::{self, PortId, ServerId};
use crate::{Place, Settings};

/// The longest datagram that a server sends: what the longest request may ask for.
const REPLY_BYTES: usize = 62 << 10;

/// How often an agent looks for requests before it looks for orders.
const LOOKS: u32 = 256;

/// One node of a job.
pub struct Station {
    job: Arc<Job>,
    node: Node,
    key: Key,
    settings: Settings,
    network: Arc<dyn Network>,
    address: Address,
    /// Where the agent can be woken.
    bell: SocketAddr,
    directory: Directory,
    /// The line, until the agent has it.
    line: Mutex<Option<Arc<dyn Line>>>,
    agent: Mutex<Option<Running>>,
    shared: Arc<Shared>,
}

/// The agent's thread, and how to speak to it.
struct Running {
    orders: Sender<Order>,
    thread: JoinHandle<()>,
    /// To wake it.
    nudge: std::net::UdpSocket,
}

enum Order {
    /// Tell the others what has become of a rank of this node, and because of whom.
    Tell(Rank, PeerState, Option<Loss>),
    /// Stop when nobody has said anything for so long.
    Retire(Duration),
    Stop,
}

/// What the agent reports.
#[derive(Default)]
struct Shared {
    lost: Mutex<Vec<Node>>,
    refusals: Mutex<Refusals>,
}

impl Station {
    /// Makes a node's memory and opens its interface at an address of `bind`. `config` describes
    /// the memory; the topology is that of the whole job.
    pub fn create(
        config: farside_shm::Config,
        node: Node,
        key: Key,
        settings: Settings,
        bind: IpAddr,
    ) -> Result<Station> {
        Station::create_over(config, node, key, settings, Arc::new(Udp { ip: bind }))
    }

    /// Likewise, with another network.
    pub fn create_over(
        mut config: farside_shm::Config,
        node: Node,
        key: Key,
        settings: Settings,
        network: Arc<dyn Network>,
    ) -> Result<Station> {
        if node.0 >= config.topology.nodes() {
            return Err(Error::UnknownNode { node, nodes: config.topology.nodes() });
        }
        config.beside_bytes = Directory::bytes(&config.topology);
        let job = Job::create(&config)?;
        for &rank in
            job.topology().all().iter().filter(|&&rank| job.topology().node_of(rank) != node)
        {
            // Whether it has joined matters on its own node only.
            job.note_departure(rank, PeerState::Alive, None);
        }
        let directory = Directory::of(&job);
        directory.set_up(node, &key, &settings, &network.name())?;
        let line = network.open()?;
        let (address, bell) = (line.address()?, line.bell()?);
        Ok(Station {
            job,
            node,
            key,
            settings,
            network,
            address,
            bell,
            directory,
            line: Mutex::new(Some(line)),
            agent: Mutex::new(None),
            shared: Arc::default(),
        })
    }

    /// Where the interface listens.
    pub fn address(&self) -> Address {
        self.address
    }

    /// The node.
    pub fn node(&self) -> Node {
        self.node
    }

    /// The node's memory.
    pub fn job(&self) -> &Arc<Job> {
        &self.job
    }

    /// The file that the node's ranks must inherit.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.job.file()
    }

    /// Learns where the interfaces of all nodes are, in order, and begins to serve.
    pub fn open(&self, addresses: &[Address]) -> Result<()> {
        let nodes = self.job.topology().nodes();
        if addresses.len() != nodes as usize {
            let (left, right) = (addresses.len() as u64, nodes.into());
            return Err(Error::Mismatch { what: "addresses against nodes", left, right });
        }
        let Some(line) = lock(&self.line).take() else {
            return Err(Error::Misuse("this node serves already".into()));
        };
        self.job.add_agent();
        let packet_bytes = self.network.packet_bytes(addresses);
        self.directory.open(addresses, self.bell, packet_bytes);
        let routes =
            addresses.iter().map(|address| line.route(address)).collect::<Result<Vec<Route>>>()?;
        let mut target = Target::new(self.job.clone(), self.node, self.directory.clone());
        target.registrar = self.network.registrar(&line);
        let mut service = Service::new(
            ServerId(self.node.0),
            self.key.clone(),
            REPLY_BYTES,
            ((**self.job.topology()).clone(), addresses.iter().map(Address::ip).collect()),
            target,
        );
        let id = PortId::of_agent(self.node);
        let mut origin = Origin::new(id, self.key.clone(), self.bell.port(), nodes, packet_bytes);
        if self.network.introduces_itself() {
            service = service.over(line.clone());
            origin.introduce(self.address);
        }
        let (orders, inbox) = channel();
        let agent = Agent {
            node: self.node,
            job: self.job.clone(),
            directory: self.directory.clone(),
            service,
            listener: Listener::new(line, self.settings.server.agent_style()),
            origin,
            routes,
            heard_ns: vec![now_ns(); nodes as usize],
            patience: self.settings.patience,
            asked_ns: now_ns(),
            given_up: vec![false; nodes as usize],
            came_ns: now_ns(),
            retires: None,
            inbox,
            shared: self.shared.clone(),
        };
        let thread = std::thread::Builder::new().name(format!("farside-nic {}", self.node.0));
        let thread = thread.spawn(move || agent.run()).map_err(|error| Error::System {
            call: "starting the agent's thread",
            errno: error.raw_os_error().unwrap_or(0),
        })?;
        let nudge = socket::open(SocketAddr::new(self.bell.ip(), 0))?;
        *lock(&self.agent) = Some(Running { orders, thread, nudge });
        Ok(())
    }

    /// What has become of a rank.
    pub fn peer_state(&self, rank: Rank) -> PeerState {
        self.job.peer_state(rank)
    }

    /// What is known here of the end of a rank.
    pub fn departure(&self, rank: Rank) -> Departure {
        self.job.departure(rank)
    }

    /// Tells everybody, on all nodes, that a rank of this node has ended without leaving.
    pub fn declare_lost(&self, rank: Rank, how: ExitCause) {
        self.job.declare_lost(rank, how);
        if let Some(running) = &*lock(&self.agent) {
            self.directory.nudge_sleepers(&running.nudge);
            self.order(
                running,
                Order::Tell(rank, PeerState::Lost(how), self.job.departure(rank).cause),
            );
        }
    }

    /// Tells everybody on this node that a rank of another node has ended without leaving, and
    /// because of whom.
    pub fn note_lost(&self, rank: Rank, how: ExitCause, cause: Option<Loss>) {
        self.job.note_departure(rank, PeerState::Lost(how), cause);
        if let Some(running) = &*lock(&self.agent) {
            self.directory.nudge_sleepers(&running.nudge);
        }
    }

    /// The nodes that were given up.
    pub fn nodes_lost(&self) -> Vec<Node> {
        lock(&self.shared.lost).clone()
    }

    /// What the interface has dropped so far.
    pub fn refusals(&self) -> Refusals {
        *lock(&self.shared.refusals)
    }

    /// Stops serving when nothing has come for `quiet`. For an agent that is not told when the
    /// others are done: one of them may still repeat a farewell whose acknowledgement got lost.
    pub fn retire(&self, quiet: Duration) {
        if let Some(running) = lock(&self.agent).take() {
            self.order(&running, Order::Retire(quiet));
            // Should it have panicked, there is nobody to tell.
            let _ = running.thread.join();
        }
    }

    fn order(&self, running: &Running, order: Order) {
        // An agent that is gone needs no orders.
        let _ = running.orders.send(order);
        let _ = running.nudge.send_to(&[], self.bell);
    }
}

impl Drop for Station {
    fn drop(&mut self) {
        if let Some(running) = lock(&self.agent).take() {
            self.order(&running, Order::Stop);
            // Should it have panicked, there is nobody to tell.
            let _ = running.thread.join();
        }
    }
}

/// The agent of a node.
struct Agent {
    node: Node,
    job: Arc<Job>,
    directory: Directory,
    service: Service<Target>,
    listener: Listener,
    /// Its own way to the other agents.
    origin: Origin,
    routes: Vec<Route>,
    /// When something came last from each node that nobody else could have sent.
    heard_ns: Vec<u64>,
    patience: Duration,
    /// When the silent ones were asked last whether they are there.
    asked_ns: u64,
    given_up: Vec<bool>,
    /// When anything came last.
    came_ns: u64,
    /// After how long a silence it stops.
    retires: Option<Duration>,
    inbox: Receiver<Order>,
    shared: Arc<Shared>,
}

impl Agent {
    fn run(mut self) {
        loop {
            let lingers = self.attend();
            let is_stopped = self.obey();
            self.watch_over_nodes();
            let (line, routes) = (&self.listener.line, &self.routes);
            self.origin.pump(now_ns(), &mut |server: ServerId, packet: &[u8]| {
                line.send(routes[server.0 as usize], packet, &[]);
            });
            if std::mem::take(&mut self.service.memory().fates_changed) {
                self.directory.nudge_sleepers(&*self.listener.line);
            }
            *lock(&self.shared.refusals) = self.service.refusals();
            if is_stopped || self.quiet().is_some_and(|left| left.is_zero()) {
                return;
            }
            if !lingers {
                self.listener.sleep(self.nap());
            }
        }
    }

    /// Serves as long as there is something to do, or there may be any moment; but not for so long
    /// that orders have to wait. Says whether it would go on.
    fn attend(&mut self) -> bool {
        (0..LOOKS).all(|_| {
            let came = self.read();
            if came {
                self.came_ns = now_ns();
            }
            self.listener.lingers(came)
        })
    }

    fn read(&mut self) -> bool {
        let Agent { listener, service, origin, heard_ns, .. } = self;
        let heard_ns = std::cell::RefCell::new(heard_ns);
        let heard = |node: u32| {
            if let Some(heard) = heard_ns.borrow_mut().get_mut(node as usize) {
                *heard = now_ns();
            }
        };
        let reply = |packet: &[u8]| {
            let is_news = origin.receive(packet, now_ns())?;
            // Agents call no handlers.
            drop(origin.take_calls());
            if let (true, Some(server)) = (is_news, wire::claimed_server(packet)) {
                heard(server.0);
            }
            Ok(())
        };
        listener.read(service, reply, |node| heard(node.0))
    }

    /// Does what it was told; says whether that was to stop.
    fn obey(&mut self) -> bool {
        while let Ok(order) = self.inbox.try_recv() {
            match order {
                Order::Stop => return true,
                Order::Retire(quiet) => self.retires = Some(quiet),
                Order::Tell(rank, peer_state, cause) => {
                    for node in (0..self.job.topology().nodes()).filter(|&node| node != self.node.0)
                    {
                        if !self.given_up[node as usize] {
                            self.origin
                                .post(ServerId(node), &Request::Member { rank, peer_state, cause });
                        }
                    }
                    self.origin.push();
                }
            }
        }
        false
    }

    /// Asks nodes that have been silent for a while whether they are there, and gives up on those
    /// that do not answer.
    fn watch_over_nodes(&mut self) {
        let (now, patience_ns) = (now_ns(), self.patience.as_nanos() as u64);
        // Who is about to stop asks nobody: two of them would keep each other from it.
        if self.retires.is_some() || now.saturating_sub(self.asked_ns) < patience_ns / 8 {
            return;
        }
        self.asked_ns = now;
        for at in 0..self.heard_ns.len() {
            if at == self.node.0 as usize || self.given_up[at] {
                continue;
            }
            let silent_ns = now.saturating_sub(self.heard_ns[at]);
            if silent_ns > patience_ns {
                self.give_up(Node(at as u32));
            } else if silent_ns > patience_ns / 4 {
                self.origin.post(ServerId(at as u32), &Request::Ping);
                self.origin.push();
            }
        }
    }

    fn give_up(&mut self, node: Node) {
        self.given_up[node.0 as usize] = true;
        self.origin.abandon(ServerId(node.0));
        // First the memory, then the news: whoever hears of the loss relies on it that nothing more
        // comes from there.
        self.service.give_up(node);
        for &rank in self.job.topology().ranks_of(node) {
            self.job.note_departure(rank, PeerState::Lost(ExitCause::Silent), None);
        }
        self.service.memory().fates_changed = true;
        lock(&self.shared.lost).push(node);
    }

    /// How long the silence must still last until it may stop, if it is about to.
    fn quiet(&self) -> Option<Duration> {
        let silence = Duration::from_nanos(now_ns().saturating_sub(self.came_ns));
        self.retires.map(|quiet| quiet.saturating_sub(silence))
    }

    /// How long it may sleep.
    fn nap(&self) -> Duration {
        let now = now_ns();
        let ask =
            self.retires.is_none().then(|| self.asked_ns + self.patience.as_nanos() as u64 / 8);
        let due = self.origin.due_ns().unwrap_or(u64::MAX).min(ask.unwrap_or(u64::MAX));
        let nap = Duration::from_nanos(due.saturating_sub(now).max(1));
        let nap = self.quiet().map_or(nap, |left| nap.min(left));
        // The handler's thread wakes us when it has answered; should it die on the way, another
        // answers.
        if self.service.has_calls() { nap.min(Duration::from_millis(5)) } else { nap }
    }
}

/// Serves one rank by a thread of its own process, as hosts do that have no such interface: the
/// rival.
pub(crate) struct HostServer {
    stop: Arc<std::sync::atomic::AtomicBool>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl HostServer {
    pub(crate) fn start(job: &Arc<Job>, rank: Rank, directory: &Directory) -> Result<HostServer> {
        let (topology, node) = (job.topology().clone(), directory.node());
        let settings = directory.settings();
        debug_assert_eq!(settings.server.place, Place::Host);
        let socket = socket::open(SocketAddr::new(directory.address(node)?.ip(), 0))?;
        let address = socket::address(&socket)?;
        let target = Target::new(job.clone(), node, directory.clone());
        let id = ServerId(topology.nodes() + rank.0);
        let mut service = Service::new(
            id,
            directory.key(),
            REPLY_BYTES,
            ((*topology).clone(), directory.hosts()?),
            target,
        );
        let mut listener = Listener::new(Arc::new(socket), settings.server.style);
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let told = stop.clone();
        let run = move || {
            while !told.load(std::sync::atomic::Ordering::SeqCst) {
                let came = listener.read(&mut service, |_| Err(wire::Refused::Astray), |_| ());
                if !listener.lingers(came) {
                    listener.sleep(Duration::from_secs(1));
                }
            }
        };
        let thread = std::thread::Builder::new().name("farside-host".into()).spawn(run).map_err(
            |error| Error::System {
                call: "starting a rank's server thread",
                errno: error.raw_os_error().unwrap_or(0),
            },
        )?;
        directory.set_host_port(rank, address.port());
        Ok(HostServer { stop, address, thread: Some(thread) })
    }
}

impl Drop for HostServer {
    fn drop(&mut self) {
        self.stop.store(true, std::sync::atomic::Ordering::SeqCst);
        if let Ok(socket) = socket::open(SocketAddr::new(self.address.ip(), 0)) {
            let _ = socket.send_to(&[], self.address);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that is done under these locks can panic half-way.
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
