//! Agents of real nodes that serve on, whatever a rank or a stranger does.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use farside_fabric::memory::Contender;
use farside_fabric::{ExitCause, Node, Rank, Result, Topology};
use farside_nic::{Endpoint, Key, NodeServer, Settings};
use farside_rma::World;
use farside_shm::FarLoss;

const NODES: u32 = 2;
const RANKS: u32 = 4;
/// What takes longer hangs.
const DEADLINE: Duration = Duration::from_secs(60);

fn servers() -> Vec<NodeServer> {
    // A machine that is busy is not to be taken for a dead one.
    servers_of(Settings { peer_timeout: DEADLINE, ..Settings::default() })
}

fn servers_of(settings: Settings) -> Vec<NodeServer> {
    let (key, here) = (Key::random().unwrap(), IpAddr::V4(Ipv4Addr::LOCALHOST));
    let topology = Topology::parse(&format!("node:{NODES}"), RANKS).unwrap();
    let create = |node| {
        let bytes = farside_rma::root_bytes(RANKS);
        let config = farside_shm::Config::new(topology.clone(), bytes);
        NodeServer::create(config, Node(node), key.clone(), settings, here).unwrap()
    };
    let servers: Vec<NodeServer> = (0..NODES).map(create).collect();
    let addresses: Vec<_> = servers.iter().map(NodeServer::address).collect();
    servers.iter().for_each(|server| server.open(&addresses).unwrap());
    servers
}

/// Ends this process with these words unless what it returns is dropped in time.
fn watchdog(words: &'static str) -> mpsc::Sender<()> {
    let (done, finished) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        if finished.recv_timeout(DEADLINE) == Err(mpsc::RecvTimeoutError::Timeout) {
            eprintln!("{words}");
            std::process::abort();
        }
    });
    done
}

fn wait_for(flag: &AtomicBool) {
    while !flag.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
}

#[test]
fn a_stopped_rank_that_holds_locks_of_accumulates_keeps_nobody_else_waiting() {
    let _deadline = watchdog("the agent waits for a rank that is stopped");
    let servers = servers();
    let [is_locked, is_posted, is_served] = [const { AtomicBool::new(false) }; 3];
    let program = |world: &World| -> Result<()> {
        let sums = world.window::<f64>(10)?;
        let words = world.words(1)?;
        world.barrier()?;
        match world.rank().0 {
            // As if it were stopped in the middle of an accumulate on the memory of rank 0.
            1 => {
                let at = words.at(Rank(0), 0).word();
                let memory = servers[0].job().segment(at.rank, at.segment)?;
                let mut is_lost = |_| false;
                let mut me = Contender { me: world.rank(), holder_is_lost: &mut is_lost };
                assert!(memory.try_lock(u64::MAX, &mut me));
                is_locked.store(true, Ordering::SeqCst);
                wait_for(&is_served);
                memory.unlock(u64::MAX, world.rank());
            }
            2 => {
                wait_for(&is_locked);
                world.accumulate(2.0, &[1.0; 10], sums.at(Rank(0), 0))?;
                is_posted.store(true, Ordering::SeqCst);
                world.flush(Rank(0))?;
            }
            3 => {
                wait_for(&is_posted);
                for round in 0..100 {
                    assert_eq!(world.fetch_add(words.at(Rank(0), 0), 1)?, round);
                }
                is_served.store(true, Ordering::SeqCst);
            }
            _ => {}
        }
        world.barrier()?;
        let mut held = [0.0; 10];
        world.get(sums.at(Rank(0), 0), &mut held)?;
        assert!(held.iter().all(|&sum| sum == 2.0));
        world.barrier()
    };
    run(&servers, program);
}

fn run(servers: &[NodeServer], program: impl Fn(&World) -> Result<()> + Sync) {
    let rank = |rank: Rank| -> Result<()> {
        let node = servers[0].job().topology().node_of(rank);
        let job = servers[node.0 as usize].job().clone();
        program(&World::new(Box::new(Endpoint::join(job, rank)?))?)
    };
    std::thread::scope(|threads| {
        let rank = &rank;
        let ranks: Vec<_> = (0..RANKS).map(|it| threads.spawn(move || rank(Rank(it)))).collect();
        ranks.into_iter().for_each(|rank| assert_eq!(rank.join().expect("no panic"), Ok(())));
    });
}

#[test]
fn ranks_that_keep_asking_do_not_stand_for_their_agent() {
    let _deadline = watchdog("a node without an agent is not lost");
    let servers =
        servers_of(Settings { peer_timeout: Duration::from_secs(1), ..Settings::default() });
    let is_over = AtomicBool::new(false);
    run(&servers, |world| {
        let words = world.words(1)?;
        world.barrier()?;
        match world.rank().0 {
            0 => {
                // As if it hung.
                servers[1].retire(Duration::ZERO);
                while servers[0].nodes_lost() != [Node(1)] {
                    std::thread::yield_now();
                }
                is_over.store(true, Ordering::SeqCst);
                for rank in [Rank(0), Rank(1)] {
                    let loss = FarLoss { rank, how: ExitCause::Silent, cause: None };
                    servers[1].note_losses(&[loss]);
                }
            }
            // Node 0 drops what this rank asks once it has given node 1 up.
            2 => while world.fetch_add(words.at(Rank(0), 0), 1).is_ok() {},
            _ => wait_for(&is_over),
        }
        Ok(())
    });
}

#[test]
fn datagrams_of_strangers_keep_no_agent_from_retiring() {
    let _deadline = watchdog("the agent does not retire");
    let servers = servers();
    let (silence, is_over) = (Duration::from_millis(300), AtomicBool::new(false));
    let agents: Vec<SocketAddr> =
        servers.iter().filter_map(|server| server.address().socket()).collect();
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has room");
            let datagrams: [&[u8]; 3] = [b"", b"fs", &[0x66; 200]];
            while !is_over.load(Ordering::SeqCst) {
                for (agent, datagram) in agents.iter().flat_map(|to| datagrams.map(|it| (to, it))) {
                    // Nobody listens any more where an agent has retired.
                    let _ = socket.send_to(datagram, agent);
                }
                // sleep: far more often than an agent may wait for silence.
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        servers.iter().for_each(|server| server.retire(silence));
        is_over.store(true, Ordering::SeqCst);
    });
}
