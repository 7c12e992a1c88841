//! Providers that refuse to register memory.

use std::net::Ipv4Addr;
use std::sync::atomic::Ordering;

use farside_fabric::{
    Atomic, Connection as _, Node, OldValue, Rank, Region, Reply, SegmentId, Started, Topology,
    Word,
};
use farside_nic::{Key, NodeServer};

use super::*;
use crate::Endpoint;

const BYTES: usize = 100_000;
const SEGMENT: SegmentId = SegmentId(9);

/// Two nodes of one rank each, whose provider refuses to register anything.
fn refused(atomics: &str) -> (Vec<NodeServer>, Vec<Endpoint>) {
    let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let key = Key::random().unwrap();
    let server = |node: u32| {
        let mut config = farside_shm::Config::new(Topology::parse("node:2", 2).unwrap(), 4096);
        config.arena_bytes = 1 << 20;
        let name = format!("tcp;ofi_rxm/atomics={atomics}");
        let network = Ofi::open(&name.parse().unwrap(), here).unwrap();
        network.device.refuses.store(true, Ordering::SeqCst);
        let settings = farside_nic::Settings::default();
        NodeServer::create_over(config, Node(node), key.clone(), settings, Arc::new(network))
            .unwrap()
    };
    let servers: Vec<NodeServer> = (0..2).map(server).collect();
    let addresses: Vec<Address> = servers.iter().map(NodeServer::address).collect();
    servers.iter().for_each(|server| server.open(&addresses).unwrap());
    let join = |rank| Endpoint::join(servers[rank as usize].job().clone(), Rank(rank)).unwrap();
    let ranks = (0..2).map(join).collect();
    (servers, ranks)
}

#[test]
fn memory_that_a_provider_refuses_is_reached_by_messages() {
    let (_servers, ranks) = refused("native");
    ranks[1].register(SEGMENT, BYTES as u64).unwrap();
    let all = Region::block(Rank(1), SEGMENT, 0, BYTES as u64);
    let sent: Vec<u8> = (0..BYTES).map(|at| at as u8).collect();
    ranks[0].put(&all, &sent).unwrap();
    ranks[0].flush(Rank(1)).unwrap();
    let mut there = vec![0; BYTES];
    let own = ranks[1].map(Rank(1), SEGMENT).unwrap().unwrap();
    assert!(own.get(0, &mut there) && there == sent);
}

/// The processor's would not exclude those of the interface on other memory.
#[test]
fn atomics_on_such_memory_are_refused() {
    let (_servers, ranks) = refused("apart");
    ranks[1].register(SEGMENT, BYTES as u64).unwrap();
    let at = Word { rank: Rank(1), segment: SEGMENT, offset: 8, width: Width::W64 };
    let refused = ranks[0].atomic(at, Atomic::Add(1), OldValue::Wanted);
    assert!(matches!(refused, Err(Error::Unsupported { .. })), "{refused:?}");
}

/// The agent's and the processor's are the same.
#[test]
fn where_both_kinds_of_atomics_exclude_each_other_the_agent_executes_them() {
    let (_servers, ranks) = refused("native");
    ranks[1].register(SEGMENT, BYTES as u64).unwrap();
    let at = Word { rank: Rank(1), segment: SEGMENT, offset: 8, width: Width::W64 };
    for expected in 0..2 {
        let started = ranks[0].atomic(at, Atomic::Add(1), OldValue::Wanted).unwrap();
        let Started::Pending(ticket) = started else { panic!("{started:?}") };
        let held = std::iter::from_fn(|| Some(ranks[0].poll(ticket).unwrap())).flatten().next();
        assert_eq!(held, Some(Reply::Word(expected)));
    }
}
