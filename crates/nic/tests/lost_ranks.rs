//! Nothing of a lost rank lands after the ranks of a node were told of its loss.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use farside_fabric::{ExitCause, Node, Rank, Result, Topology};
use farside_nic::{Endpoint, Key, NodeServer, Settings};
use farside_rma::World;

const NODES: u32 = 2;
/// The number of additions of the lost rank, should nobody refuse them.
const ADDITIONS: u32 = 2_000;
const DEADLINE: Duration = Duration::from_secs(120);

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
    let (finished, deadline) = mpsc::channel::<()>();
    let watch = std::thread::spawn(move || {
        if deadline.recv_timeout(DEADLINE) == Err(mpsc::RecvTimeoutError::Timeout) {
            eprintln!("the job hangs");
            std::process::abort();
        }
    });
    let is_told = AtomicBool::new(false);
    let join = |rank: Rank| {
        let job = servers[rank.index()].job().clone();
        World::new(Box::new(Endpoint::join(job, rank)?))
    };
    let (over, is_over) = mpsc::channel::<()>();
    let counts = std::thread::scope(|threads| {
        let (join, is_told) = (&join, &is_told);
        let survivor = threads.spawn(move || -> Result<(u64, u64)> {
            let world = join(Rank(0))?;
            let word = world.words(1)?;
            let own = word.at(Rank(0), 0);
            world.wait(own, |count| count > 10)?;
            servers[0].note_lost(Rank(1), ExitCause::Silent, None);
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
    });
    drop(finished);
    let _ = watch.join();
    counts
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
