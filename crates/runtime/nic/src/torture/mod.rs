//! Everything that can be done over the wire, on a network that does its worst, in virtual time:
//! see [`network::Network::send`].
//!
//! Checked are: every atomic is executed once, and brings back what it found; every put lands whole
//! and in the order of its connection; every get brings what was there between its begin and its
//! end; sums are exact, and each value that they had is fetched once; what is said to have landed
//! has.

mod client;
mod delay;
mod edge;
mod explore;
mod hostile;
mod memory;
mod network;
mod wrap;

use farside_fabric::{Node, Width};

use self::client::{Client, Expected, at};
pub(crate) use self::memory::real_job;
use self::memory::{plain, real, topology, word};
use self::network::{Ends, Network, Random, To, mix};
use crate::initiator::origin::{Origin, Wire};
use crate::link::WINDOW;
use crate::target::service::{Memory, Service};
use crate::transport::seal::Key;
use crate::transport::{Carrier, PeerAddress};
use crate::wire::ServerId;

const CLIENTS: u32 = 4;
const SERVERS: [Node; 2] = [Node(2), Node(3)];
/// Without any new request at a server for so long, in virtual time, the run counts as stuck.
const STUCK_NS: u64 = 100_000_000_000;

fn operations(few: u64, many: u64) -> u64 {
    if std::env::var_os("FARSIDE_LONG").is_some() { many } else { few }
}

struct Run<M> {
    network: Network,
    random: Random,
    clients: Vec<Client>,
    servers: Vec<Service<M>>,
    expected: Vec<Expected>,
    /// Whether handlers are there.
    answers: bool,
    streams: bool,
}

struct Through<'a> {
    network: &'a mut Network,
    client: usize,
}

impl Through<'_> {
    fn server(to: ServerId) -> usize {
        (to.0 - SERVERS[0].0) as usize
    }
}

impl Wire for Through<'_> {
    fn send(&mut self, to: ServerId, packet: &[u8]) {
        self.network.send(To::Server(Through::server(to)), packet);
    }

    fn send_by_stream(&mut self, to: ServerId, head: &[u8], rest: &[u8]) -> Carrier {
        let server = Through::server(to);
        let ends = Ends { client: self.client, server };
        self.network.send_by_stream(ends, To::Server(server), &[head, rest].concat())
    }
}

impl<M: Memory> Run<M> {
    fn new(
        seed: u64,
        operations: u64,
        packet_bytes: usize,
        make: impl Fn(Node, &Key, usize) -> Service<M>,
    ) -> Run<M> {
        let key = Key::from_bytes([seed as u8; 16]);
        let places: Vec<_> = SERVERS
            .iter()
            .map(|&node| (ServerId(node.0), topology().leader_of(node).unwrap()))
            .collect();
        let each = operations / u64::from(CLIENTS);
        Run {
            network: Network::new(mix(seed)),
            random: Random::new(seed),
            clients: (0..CLIENTS)
                .map(|index| Client::new(index, &key, &places, packet_bytes, each))
                .collect(),
            servers: SERVERS
                .iter()
                .map(|&node| make(node, &key, packet_bytes.max(1024) + 2048))
                .collect(),
            expected: SERVERS.iter().map(|_| Expected::new()).collect(),
            answers: true,
            streams: false,
        }
    }

    fn go(&mut self) {
        let mut progress_ns = self.network.now_ns;
        while !self.clients.iter().all(Client::is_done) {
            let moment = self.next_ns().unwrap_or(self.network.now_ns);
            self.network.now_ns = self.network.now_ns.max(moment);
            let now = self.network.now_ns;
            let arrived = self.network.arrived();
            match &arrived {
                Some((To::Server(server), packet, carrier)) => {
                    if self.at_server(*server, Some((packet, *carrier))) {
                        progress_ns = now;
                    }
                }
                Some((To::Client(client), packet, _)) => {
                    // One that was damaged is refused, and that is all.
                    let _ = self.clients[*client].origin.receive(packet, now);
                }
                None => {
                    for server in 0..self.servers.len() {
                        self.at_server(server, None);
                    }
                }
            }
            let clients = match arrived {
                Some((To::Client(client), ..)) => client..client + 1,
                Some(_) => 0..0,
                None => 0..self.clients.len(),
            };
            clients.for_each(|client| self.at_client(client));
            assert!(now - progress_ns < STUCK_NS, "nothing is executed any more");
        }
        self.check();
    }

    fn next_ns(&self) -> Option<u64> {
        let calls =
            self.servers.iter().any(Service::has_calls).then_some(self.network.now_ns + 1_000_000);
        let clients = self.clients.iter().filter_map(Client::due_ns).min();
        [self.network.next_ns(), clients, calls].into_iter().flatten().min()
    }

    /// Lets a server work; says whether something new was executed.
    fn at_server(&mut self, server: usize, packet: Option<(&Vec<u8>, Carrier)>) -> bool {
        let Run { network, servers, random, .. } = self;
        let mut out = |to: PeerAddress, reply: &[u8], by_stream: bool| {
            let PeerAddress::Socket(to) = to else {
                panic!("an address that was never given: {to:?}")
            };
            let client = to.port() as usize - 1;
            if by_stream {
                network.send_by_stream(Ends { client, server }, To::Client(client), reply);
            } else {
                network.send(To::Client(client), reply);
            }
        };
        let heard =
            packet.and_then(|(packet, carrier)| servers[server].receive(packet, carrier, &mut out));
        // As if more were waiting in its socket, sometimes.
        if packet.is_none() || random.chance(50) {
            servers[server].rest(&mut out);
        }
        heard.is_some_and(|arrival| arrival.is_new)
    }

    fn at_client(&mut self, index: usize) {
        let Run { network, clients, servers, expected, .. } = self;
        let (client, now) = (&mut clients[index], network.now_ns);
        client.settle(expected, now, self.answers);
        for (at, server) in servers.iter_mut().enumerate() {
            client.check_landed(at, server);
        }
        for server in (0..SERVERS.len()).filter(|_| self.streams) {
            let stream = network.stream(Ends { client: index, server });
            client.origin.set_stream(ServerId(SERVERS[server].0), stream);
        }
        client.issue(expected, now);
        client.origin.pump(now, &mut Through { network, client: index });
    }

    fn check(&mut self) {
        for (at, (server, expected)) in self.servers.iter_mut().zip(&self.expected).enumerate() {
            let rank = topology().leader_of(SERVERS[at]).unwrap();
            let mut there = |offset: u64, width: Width| word(server.memory(), rank, offset, width);
            assert_eq!(there(at::TICKETS, Width::W64), expected.tickets.len() as u128);
            assert!(expected.tickets.iter().all(|&drawn| drawn), "a ticket was not drawn");
            let is_left = |what: u128| mix(what as u64);
            assert_eq!(is_left(there(at::SWAPS, Width::W64)), expected.swaps);
            assert_eq!(is_left(there(at::CHAIN, Width::W64)), expected.chain);
            assert_eq!(is_left(there(at::PAIR, Width::Pair)), expected.pairs);
            for (index, &sum) in expected.sums.iter().enumerate() {
                assert_eq!(
                    there(at::SUMS + 8 * index as u64, Width::W64) as i64,
                    sum,
                    "sum {index}"
                );
            }
            for (index, &(times, sum)) in expected.drawn.iter().enumerate() {
                let held = there(at::DRAWN + 8 * index as u64, Width::W64);
                assert_eq!(held, times.into(), "number {index} was not increased once each time");
                let fetched = times * times.saturating_sub(1) / 2;
                assert_eq!(sum, fetched, "each value of number {index} was fetched once");
            }
            for client in &self.clients {
                client.check_landed(at, server);
                client.check_area(at, server);
            }
            let refusals = server.refusals();
            assert_eq!((refusals.malformed, refusals.late), (0, 0), "{refusals:?}");
        }
    }

    fn report(&self, name: &str) {
        let operations: u64 = self.clients.iter().map(|client| client.done).sum();
        let repeated: u64 = self.clients.iter().map(|client| client.origin.repeated()).sum();
        println!(
            "{name}: {operations} fetches and calls answered, {} datagrams lost, {} damaged, \
             {repeated} requests repeated, {} s of virtual time",
            self.network.lost,
            self.network.damaged,
            self.network.now_ns / 1_000_000_000
        );
    }
}

#[test]
fn nothing_is_lost_repeated_or_torn_with_small_datagrams() {
    let mut run = Run::new(1, operations(30_000, 3_000_000), 500, plain);
    run.go();
    run.report("small datagrams");
}

#[test]
fn nothing_is_lost_repeated_or_torn_with_datagrams_of_an_ethernet() {
    let mut run = Run::new(2, operations(40_000, 4_000_000), 1432, plain);
    run.go();
    run.report("Ethernet");
}

#[test]
fn nothing_is_lost_repeated_or_torn_by_streams_that_break() {
    let longest = |node: Node, key: &Key, _: usize| plain(node, key, 62 << 10);
    let mut run = Run::new(4, operations(30_000, 3_000_000), 500, longest);
    run.streams = true;
    run.go();
    run.report("streams");
    let Network { broken, streamed, .. } = run.network;
    println!("{streamed} packets by stream, {broken} streams have broken");
    assert!(broken > 20 && streamed > 1000, "{streamed} packets, {broken} streams have broken");
}

#[test]
fn nothing_is_lost_repeated_or_torn_in_real_memory() {
    let mut run = Run::new(3, operations(30_000, 3_000_000), 60 << 10, real);
    // No rank has joined there: calls are answered without a handler.
    run.answers = false;
    run.go();
    run.report("real memory");
}
