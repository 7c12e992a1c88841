//! Real nodes over a network that does its worst, and under attack.

mod attack;
mod cutter;
mod relay;
mod streams;
mod work;

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use farside_fabric::{Error, Node, Rank, Result, Topology};

use farside_nic::{Endpoint, Key, NodeServer, Settings, Udp};
use farside_rma::World;

use relay::{Relay, Trouble};

const NODES: u32 = 2;
const RANKS: u32 = 4;

/// Whether there is time for large numbers.
fn is_long() -> bool {
    std::env::var_os("FARSIDE_LONG").is_some()
}

/// An address of a network of loopback: every test of every process has networks of its own.
fn host(network: u8, test: u8, node: u32) -> IpAddr {
    let own = (std::process::id() % 30) as u8 * 8 + test;
    IpAddr::V4(Ipv4Addr::new(127, network, own, node as u8 + 1))
}

/// Returns the address under which other nodes know a host.
fn mirror(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => IpAddr::V4(Ipv4Addr::new(127, 78, ip.octets()[2], ip.octets()[3])),
        other => other,
    }
}

/// The nodes of a job that know each other under the addresses of a relay only.
fn servers(test: u8) -> Result<(Vec<NodeServer>, Relay)> {
    servers_within(test, None)
}

/// Likewise, on a path of datagrams of at most so many bytes.
fn servers_within(test: u8, datagram_bytes: Option<usize>) -> Result<(Vec<NodeServer>, Relay)> {
    let key = Key::random()?;
    let topology = Topology::parse(&format!("node:{NODES}"), RANKS)?;
    let create = |node: u32| {
        let mut config = farside_shm::Config::new(topology.clone(), farside_rma::root_bytes(RANKS));
        config.arena_bytes = 64 << 20;
        // A machine that is busy with the attack is not to be taken for a dead one.
        let settings = Settings { peer_timeout: Duration::from_secs(60), ..Settings::default() };
        let transport = Arc::new(Udp { ip: host(77, test, node), datagram_bytes });
        NodeServer::create_over(config, Node(node), key.clone(), settings, transport)
    };
    let servers = (0..NODES).map(create).collect::<Result<Vec<NodeServer>>>()?;
    let real = addresses(&servers);
    let relay = Relay::start(&real, mirror);
    for (index, server) in servers.iter().enumerate() {
        let seen = |at: usize| if at == index { real[at] } else { relay.mirror(real[at]) };
        server.open(&(0..real.len()).map(|at| seen(at).into()).collect::<Vec<_>>())?;
    }
    Ok((servers, relay))
}

fn addresses(servers: &[NodeServer]) -> Vec<SocketAddr> {
    servers.iter().filter_map(|server| server.address().socket()).collect()
}

/// Ends this process with these words unless what it returns is dropped in time.
fn watchdog(deadline: Duration, words: &'static str) -> mpsc::Sender<()> {
    let (done, finished) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        if finished.recv_timeout(deadline) == Err(mpsc::RecvTimeoutError::Timeout) {
            eprintln!("{words}");
            std::process::abort();
        }
    });
    done
}

/// Runs a program on thread ranks of these nodes, and ends the process if that takes too long.
fn run(servers: &[NodeServer], deadline: Duration, program: impl Fn(&World) -> Result<()> + Sync) {
    let _deadline = watchdog(deadline, "the job hangs");
    let rank = |rank: Rank| -> Result<()> {
        let server =
            servers.iter().find(|server| server.job().topology().node_of(rank) == server.node());
        let server = server.ok_or(Error::UnknownRank { rank, ranks: RANKS })?;
        program(&World::new(Box::new(Endpoint::join(server.job().clone(), rank)?))?)
    };
    let results: Vec<Result<()>> = std::thread::scope(|threads| {
        let handles: Vec<_> =
            (0..RANKS).map(|number| threads.spawn(move || rank(Rank(number)))).collect();
        handles.into_iter().map(|handle| handle.join().expect("no rank panics")).collect()
    });
    assert_eq!(results, vec![Ok(()); RANKS as usize]);
}

#[test]
fn every_operation_survives_a_bad_network() {
    let (servers, relay) = servers(0).unwrap();
    // Where every fifth datagram gets lost and every tenth is damaged, half of all requests have to
    // be repeated.
    let (rounds, pct) = if is_long() { (12_500, 20) } else { (60, 10) };
    let (lost_pct, repeated_pct, damaged_pct) = (pct, pct, pct / 2);
    let trouble =
        Trouble { lost_pct, repeated_pct, damaged_pct, late_pct: 20, ..Trouble::default() };
    relay.trouble(trouble);
    run(&servers, Duration::from_secs(if is_long() { 5000 } else { 300 }), |world| {
        work::rounds(world, |round| Ok(round < rounds))
    });
    let seen = relay.stop();
    let operations = rounds * u64::from(RANKS) * work::OPERATIONS;
    println!("{operations} operations; {seen:?}");
    assert!(seen.lost > 0 && seen.repeated > 0 && seen.damaged > 0 && seen.late > 0);
    let forged: u64 =
        servers.iter().map(|server| server.refusals().forged + server.refusals().foreign).sum();
    assert!(forged > 0, "damaged requests are refused");
    assert!(
        servers
            .iter()
            .all(|server| server.refusals().malformed == 0 && server.nodes_lost().is_empty())
    );
}

#[test]
fn a_job_under_attack_notices_nothing_and_tells_nothing() {
    attack::run(if is_long() { 10_000_000 } else { 100_000 });
}

/// Datagrams that somebody has recorded are authentic, and stand for a node that goes on: for so
/// long and no longer.
#[test]
fn recorded_datagrams_delay_the_end_of_an_agent_so_long_and_no_longer() {
    let (servers, relay) = servers(6).unwrap();
    let deadline = Duration::from_secs(60);
    run(&servers, deadline, |world| work::rounds(world, |round| Ok(round < 32)));
    let recorded = relay.recorded();
    let _deadline = watchdog(deadline, "the agent does not retire");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let again = || {
            let socket = UdpSocket::bind(SocketAddr::new(host(79, 6, 0), 0)).expect("loopback");
            while !is_over.load(Ordering::SeqCst) {
                for (to, datagram) in &recorded {
                    // Nobody listens any more where an agent has retired.
                    let _ = socket.send_to(datagram, to);
                }
            }
        };
        threads.spawn(again);
        // There is no such silence while all of them come again and again.
        let (silence, longest) = (Duration::from_millis(300), Duration::from_secs(1));
        servers.iter().for_each(|server| server.retire_within(silence, longest));
        is_over.store(true, Ordering::SeqCst);
    });
    relay.stop();
}
