//! What a thread has taken it gives back, also where the system refuses the rest.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use farside_fabric::{Error, Node, Rank, Result, Topology};
use farside_nic::{
    Address, Endpoint, Key, NodeServer, PeerAddress, Settings, Transport, TransportEndpoint, Udp,
};

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// How many answers of an endpoint about its address are right before one is an error; zero for
/// all of them.
static RIGHT: AtomicU32 = AtomicU32::new(0);

/// UDP, whose endpoints sometimes do not know their address.
struct Failing;

struct FailingEndpoint {
    inner: Arc<dyn TransportEndpoint>,
    asked: AtomicU32,
}

impl Transport for Failing {
    fn open(&self) -> Result<Arc<dyn TransportEndpoint>> {
        let inner = Udp { ip: HERE, datagram_bytes: None }.open()?;
        Ok(Arc::new(FailingEndpoint { inner, asked: AtomicU32::new(0) }))
    }

    fn packet_bytes(&self, addresses: &[Address]) -> usize {
        Udp { ip: HERE, datagram_bytes: None }.packet_bytes(addresses)
    }
}

impl TransportEndpoint for FailingEndpoint {
    fn address(&self) -> Result<Address> {
        self.inner.address()
    }

    fn resolve(&self, to: &Address) -> Result<PeerAddress> {
        self.inner.resolve(to)
    }

    fn send(&self, to: PeerAddress, head: &[u8], rest: &[u8]) {
        self.inner.send(to, head, rest);
    }

    fn receive(&self, into: &mut [u8]) -> Option<usize> {
        self.inner.receive(into)
    }

    fn sleep(&self, timeout: Duration) {
        self.inner.sleep(timeout);
    }

    fn wakeup_address(&self) -> Result<SocketAddr> {
        let right = RIGHT.load(Ordering::SeqCst);
        if right > 0 && self.asked.fetch_add(1, Ordering::SeqCst) >= right {
            return Err(Error::System { call: "reading a socket's address", errno: 105 });
        }
        self.inner.wakeup_address()
    }

    fn wake(&self, wakeup: SocketAddr) {
        self.inner.wake(wakeup);
    }
}

#[test]
fn a_port_that_cannot_be_used_is_given_back() {
    let topology = Topology::parse("node:1", 1).unwrap();
    let mut config = farside_shm::Config::new(topology, 4096);
    config.arena_bytes = 1 << 20;
    let network = Arc::new(Udp { ip: HERE, datagram_bytes: None });
    let (key, settings) = (Key::random().unwrap(), Settings::default());
    let server = NodeServer::create_over(config, Node(0), key, settings, network).unwrap();
    server.open(&[server.address()]).unwrap();
    let first = Endpoint::join_over(server.job().clone(), Rank(0), Arc::new(Failing)).unwrap();
    // At each stage of opening one, more often than a rank has ports.
    for right in [1, 2] {
        RIGHT.store(right, Ordering::SeqCst);
        for round in 0..100 {
            let refused = first.another().map(drop);
            assert!(
                right > 1 || matches!(refused, Err(Error::System { .. })),
                "round {round}: {refused:?}"
            );
        }
    }
    RIGHT.store(0, Ordering::SeqCst);
    assert!(first.another().is_ok());
}
