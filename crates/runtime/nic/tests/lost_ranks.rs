//! Nothing of a lost rank lands after the ranks of a node were told of its loss.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use farside_fabric::{Error, ExitCause, Node, PeerState, Rank, Result, Topology};
use farside_nic::{
    Address, Endpoint, Key, NodeServer, PeerAddress, Settings, Transport, TransportEndpoint, Udp,
};
use farside_rma::World;
use farside_rma::raw::Memory;
use farside_shm::FarLoss;

const NODES: u32 = 2;
/// The number of additions of the lost rank, should nobody refuse them.
const ADDITIONS: u32 = 2_000;
const DEADLINE: Duration = Duration::from_secs(20);

/// Two nodes of one rank each, on a network of loopback of their own.
fn servers(test: u8, server: &str) -> Result<Vec<NodeServer>> {
    let key = Key::random()?;
    let topology = Topology::parse(&format!("node:{NODES}"), NODES)?;
    let settings = Settings { server: server.parse()?, peer_timeout: Duration::from_secs(2) };
    let own = (std::process::id() % 30) as u8 * 8 + test;
    let create = |node: u32| {
        let mut config = farside_shm::Config::new(topology.clone(), farside_rma::root_bytes(NODES));
        config.arena_bytes = 16 << 20;
        let bind = IpAddr::V4(Ipv4Addr::new(127, 79, own, node as u8 + 1));
        NodeServer::create(config, Node(node), key.clone(), settings, bind)
    };
    let servers = (0..NODES).map(create).collect::<Result<Vec<NodeServer>>>()?;
    let addresses: Vec<_> = servers.iter().map(NodeServer::address).collect();
    servers.iter().try_for_each(|server| server.open(&addresses))?;
    Ok(servers)
}

/// Rank 1 adds to a word of rank 0 and goes on although it was declared lost, as a rank does whose
/// host the launcher does not reach. Returns what rank 0 finds in its word when it hears of the
/// loss, and when rank 1 has given up.
fn additions(servers: &[NodeServer]) -> (u64, u64) {
    let _watch = Watch::new();
    let is_told = AtomicBool::new(false);
    let join = |rank: Rank| {
        let job = servers[rank.index()].job().clone();
        World::new(Box::new(Endpoint::join(job, rank)?))
    };
    let (over, is_over) = mpsc::channel::<()>();
    std::thread::scope(|threads| {
        let (join, is_told) = (&join, &is_told);
        let survivor = threads.spawn(move || -> Result<(u64, u64)> {
            let world = join(Rank(0))?;
            let word = world.words(1)?;
            let own = word.at(Rank(0), 0);
            world.wait(own, |count| count > 10)?;
            let loss = FarLoss { rank: Rank(1), how: ExitCause::Silent, cause: None };
            servers[0].note_losses(&[loss]);
            while !world.is_lost(Rank(1)) {
                let _ = world.relax();
            }
            let told = world.load(own)?;
            is_told.store(true, Ordering::SeqCst);
            let _ = is_over.recv();
            Ok((told, world.load(own)?))
        });
        let lost = threads.spawn(move || -> Result<()> {
            let world = join(Rank(1))?;
            let word = world.words(1)?;
            let mut left = ADDITIONS;
            while left > 0 && world.fetch_add(word.at(Rank(0), 0), 1).is_ok() {
                left -= u32::from(is_told.load(Ordering::SeqCst));
            }
            let _ = over.send(());
            Ok(())
        });
        lost.join().expect("rank 1 does not panic").unwrap();
        survivor.join().expect("rank 0 does not panic").unwrap()
    })
}

/// Ends the test if the job hangs.
struct Watch {
    _finished: mpsc::Sender<()>,
}

impl Watch {
    fn new() -> Watch {
        let (finished, deadline) = mpsc::channel::<()>();
        std::thread::spawn(move || {
            if deadline.recv_timeout(DEADLINE) == Err(mpsc::RecvTimeoutError::Timeout) {
                eprintln!("the job hangs");
                std::process::abort();
            }
        });
        Watch { _finished: finished }
    }
}

#[test]
fn an_agent_refuses_ranks_that_the_launcher_has_declared_lost() {
    let servers = servers(0, "nic").unwrap();
    let (told, later) = additions(&servers);
    assert_eq!(later, told, "additions have landed after the loss was told");
    assert!(servers[0].refusals().late > 0, "rank 1 went on");
}

#[test]
fn a_host_based_server_refuses_ranks_that_the_launcher_has_declared_lost() {
    let servers = servers(1, "host-spin-block").unwrap();
    let (told, later) = additions(&servers);
    assert_eq!(later, told, "additions have landed after the loss was told");
}

#[test]
fn a_rank_that_served_itself_and_has_left_is_reached_by_way_of_its_node() {
    let _watch = Watch::new();
    let servers = servers(2, "host-spin-block").unwrap();
    let join = |rank: Rank| {
        let job = servers[rank.index()].job().clone();
        World::new(Box::new(Endpoint::join(job, rank)?))
    };
    std::thread::scope(|threads| {
        let join = &join;
        let first = threads.spawn(move || -> Result<()> {
            let world = join(Rank(0))?;
            let word = world.words(1)?;
            world.store(word.at(Rank(0), 0), 7)?;
            world.broadcast(Rank(0), &mut [1u64])
        });
        let second = threads.spawn(move || -> Result<()> {
            let world = join(Rank(1))?;
            let word = world.words(1)?;
            while world.peer_state(Rank(0)) != PeerState::Left {
                std::thread::yield_now();
            }
            let mut data = [0u64];
            // The root has left before its message is taken, which it is told.
            world.broadcast(Rank(0), &mut data)?;
            assert_eq!((data, world.load(word.at(Rank(0), 0))?), ([1], 7));
            Ok(())
        });
        first.join().expect("rank 0 does not panic").unwrap();
        second.join().expect("rank 1 does not panic").unwrap();
    });
}

/// UDP, which sends nothing while it is mute.
struct Mutable {
    udp: Udp,
    is_mute: Arc<AtomicBool>,
}

struct MutableEndpoint {
    udp: Arc<dyn TransportEndpoint>,
    is_mute: Arc<AtomicBool>,
}

impl Transport for Mutable {
    fn open(&self) -> Result<Arc<dyn TransportEndpoint>> {
        Ok(Arc::new(MutableEndpoint { udp: self.udp.open()?, is_mute: self.is_mute.clone() }))
    }

    fn packet_bytes(&self, addresses: &[Address]) -> usize {
        self.udp.packet_bytes(addresses)
    }
}

impl TransportEndpoint for MutableEndpoint {
    fn address(&self) -> Result<Address> {
        self.udp.address()
    }

    fn resolve(&self, to: &Address) -> Result<PeerAddress> {
        self.udp.resolve(to)
    }

    fn send(&self, to: PeerAddress, head: &[u8], rest: &[u8]) {
        if !self.is_mute.load(Ordering::SeqCst) {
            self.udp.send(to, head, rest);
        }
    }

    fn receive(&self, into: &mut [u8]) -> Option<usize> {
        self.udp.receive(into)
    }

    fn sleep(&self, timeout: Duration) {
        self.udp.sleep(timeout);
    }

    fn wakeup_address(&self) -> Result<SocketAddr> {
        self.udp.wakeup_address()
    }

    fn wake(&self, wakeup: SocketAddr) {
        self.udp.wake(wakeup);
    }
}

/// Rank 1 puts to rank 0, which serves itself and leaves before it hears of that. Returns what rank
/// 1 is told when it flushes, before or after the departure.
fn flush_of_a_departed(servers: &[NodeServer], is_known: bool) -> [Result<()>; 2] {
    let _watch = Watch::new();
    let (ready, is_ready) = mpsc::channel::<()>();
    let (leave, may_leave) = mpsc::channel::<()>();
    std::thread::scope(|threads| {
        threads.spawn(move || {
            let job = servers[0].job().clone();
            let world = World::new(Box::new(Endpoint::join(job, Rank(0)).unwrap())).unwrap();
            let _memory = Memory::allocate(&world.team(), 8).unwrap();
            ready.send(()).unwrap();
            may_leave.recv().unwrap();
        });
        let (job, is_mute) = (servers[1].job().clone(), Arc::new(AtomicBool::new(false)));
        let ip = servers[1].address().ip();
        let udp = Udp { ip, datagram_bytes: None };
        let transport = Arc::new(Mutable { udp, is_mute: is_mute.clone() });
        let endpoint = Endpoint::join_over(job, Rank(1), transport).unwrap();
        let world = World::new(Box::new(endpoint)).unwrap();
        let memory = Memory::allocate(&world.team(), 8).unwrap();
        world.put(&[1; 8], memory.at(Rank(0), 0)).unwrap();
        world.flush(Rank(0)).unwrap();
        is_ready.recv().unwrap();
        is_mute.store(true, Ordering::SeqCst);
        world.put(&[2; 8], memory.at(Rank(0), 0)).unwrap();
        leave.send(()).unwrap();
        while is_known && world.peer_state(Rank(0)) != PeerState::Left {
            std::thread::yield_now();
        }
        let told = world.flush(Rank(0));
        is_mute.store(false, Ordering::SeqCst);
        [told, world.flush(Rank(0))]
    })
}

#[test]
fn what_a_rank_that_served_itself_did_not_execute_is_told_once() {
    for (test, is_known) in [(4, false), (5, true)] {
        let servers = servers(test, "host-spin-block").unwrap();
        let [told, again] = flush_of_a_departed(&servers, is_known);
        assert_eq!(told, Err(Error::RankLost { rank: Rank(0), how: ExitCause::Left }));
        assert_eq!(again, Ok(()));
    }
}
