//! Endpoints with real streams: turns beside datagrams, and what strangers get.

use std::io::Read as _;
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use rustix::io::Errno;

use super::super::seal::Key;
use super::super::udp::{UdpEndpoint, open_server};
use super::super::{Carrier, PeerAddress, StreamSettings, TransportEndpoint as _};
use super::stream::PROOF_TIMEOUT;
use super::*;

const DATAGRAM_BYTES: usize = 1432;
/// More tries than anything here takes, of which each may let time pass.
const TRIES: usize = 100_000;

fn endpoint() -> UdpEndpoint {
    let endpoint = open_server(Ipv4Addr::LOCALHOST.into()).unwrap();
    let settings =
        StreamSettings { key: &Key::from_bytes([7; 16]), datagram_bytes: DATAGRAM_BYTES };
    endpoint.enable_streams(settings);
    endpoint
}

fn server() -> (TcpStreams, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    (enabled(TcpStreams::new(address, Some(listener))), address)
}

fn client() -> TcpStreams {
    enabled(TcpStreams::new(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 9), None))
}

fn enabled(streams: TcpStreams) -> TcpStreams {
    let key = &Key::from_bytes([7; 16]);
    streams.enable(StreamSettings { key, datagram_bytes: DATAGRAM_BYTES });
    streams
}

fn make_older(streams: &TcpStreams, by: Duration) {
    let mut list = lock(&streams.list);
    list.ready.clear();
    list.expires = list.expires.map(|expires| expires - by);
    for stream in &mut list.streams {
        Arc::get_mut(stream).expect("nobody else uses it").since -= by;
    }
}

fn make_idle(streams: &TcpStreams) {
    let mut list = lock(&streams.list);
    list.expires = Some(Instant::now());
    list.streams.iter().for_each(|stream| stream.make_idle(UNUSED_NS));
}

fn count(streams: &TcpStreams) -> usize {
    lock(&streams.list).streams.len()
}

#[test]
fn streams_are_read_although_datagrams_keep_coming() {
    let (server, client) = (endpoint(), endpoint());
    let to = PeerAddress::Socket(server.socket_address().unwrap());
    let mut buffer = vec![0; 1 << 16];
    let streams = client.streams().expect("they are enabled");
    for _ in 0..TRIES {
        if streams.to(to).is_stream() {
            break;
        }
        streams.open(to);
        client.deliver(&mut buffer, &mut |_, _| {});
        server.deliver(&mut buffer, &mut |_, _| {});
    }
    let carrier = client.send_by_stream(to, &[1; 20_000], &[], false);
    assert!(carrier.is_stream());
    let mut has_arrived = false;
    for _ in 0..TRIES {
        // More datagrams arrive than are read.
        (0..2).for_each(|_| client.send(to, &[2; 100], &[]));
        server.deliver(&mut buffer, &mut |packet, carrier: Carrier| {
            has_arrived |= carrier.is_stream() && packet.len() == 20_000;
        });
        if has_arrived {
            return;
        }
    }
    panic!("what the stream carries is not read");
}

#[test]
fn strangers_are_let_in_a_few_at_a_time() {
    let (server, address) = server();
    let _strangers: Vec<_> = (0..30).map(|_| TcpStream::connect(address).unwrap()).collect();
    let mut seen = 0;
    while seen < 30 {
        server.poll(None, Duration::from_secs(10));
        let now = count(&server);
        assert!(now - seen <= 8, "{} at once", now - seen);
        assert!(now > seen, "nobody is let in any more");
        seen = now;
    }
}

#[test]
fn a_stranger_that_says_nothing_is_sent_away_by_an_idle_server() {
    let (server, address) = server();
    let mut stranger = TcpStream::connect(address).unwrap();
    server.poll(None, Duration::from_secs(10));
    assert_eq!(count(&server), 1);
    server.poll(None, Duration::ZERO);
    assert_eq!(count(&server), 1, "it has its time");
    make_older(&server, PROOF_TIMEOUT - Duration::from_millis(50));
    // The server has nothing else to do, and would sleep for longer.
    server.poll(None, Duration::from_secs(10));
    assert_eq!(count(&server), 0);
    let mut bytes = Vec::new();
    stranger.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes.len(), 24, "the challenge, and the end");
}

#[test]
fn a_server_that_says_nothing_is_given_up() {
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let to = PeerAddress::Socket(silent.local_addr().unwrap());
    let client = client();
    assert!(client.open(to));
    client.deliver(&mut |_, _| {});
    assert!(client.open(to), "it is still under way");
    make_older(&client, Duration::from_secs(10));
    for _ in 0..2 * LOOKS_PER_ACCEPT {
        client.deliver(&mut |_, _| {});
    }
    assert_eq!(count(&client), 0);
    assert!(!client.open(to), "it has failed: datagrams carry everything for a while");
}

/// Connects a client to the server, and waits for the outcome.
fn opens(client: &TcpStreams, server: &TcpStreams, to: PeerAddress) -> bool {
    let is_under_way = client.open(to);
    for _ in 0..TRIES {
        client.poll(None, Duration::ZERO);
        client.deliver(&mut |_, _| {});
        server.poll(None, Duration::ZERO);
        server.deliver(&mut |_, _| {});
        if !is_under_way || client.open_to(server.address).is_some() {
            break;
        }
        if count(client) == 0 {
            return false;
        }
    }
    // The proof is sent. The server may break the stream because of it.
    for _ in 0..2 * LOOKS_PER_ACCEPT {
        client.deliver(&mut |_, _| {});
        server.deliver(&mut |_, _| {});
    }
    client.open_to(server.address).is_some()
}

#[test]
fn streams_of_honest_peers_leave_descriptors_to_the_program() {
    let (mut server, address) = server();
    let to = PeerAddress::Socket(address);
    server.open_max = || 4;
    let clients: Vec<TcpStreams> = (0..5).map(|_| client()).collect();
    for client in &clients[..4] {
        assert!(opens(client, &server, to));
    }
    assert!(!opens(&clients[4], &server, to), "all of them are in use");
    assert!(!clients[4].open(to), "it has failed: datagrams carry everything for a while");
    assert_eq!(count(&server), 4);
    // The second one has had nothing for longest.
    for (at, stream) in lock(&server.list).streams.iter().enumerate() {
        stream.make_idle(if at == 1 { 20 * IDLE_NS } else { 2 * IDLE_NS });
    }
    lock(&clients[4].list).failed.clear();
    assert!(opens(&clients[4], &server, to));
    assert_eq!(count(&server), 4);
    for _ in 0..2 * LOOKS_PER_ACCEPT {
        for client in &clients {
            client.deliver(&mut |_, _| {});
        }
    }
    let is_open = |client: &TcpStreams| client.open_to(address).is_some();
    assert_eq!(clients.iter().map(is_open).collect::<Vec<_>>(), [true, false, true, true, true]);
}

#[test]
fn a_listener_without_descriptors_is_left_alone_for_a_while() {
    let (server, address) = server();
    server.note_refusal(&std::io::Error::from_raw_os_error(Errno::MFILE.raw_os_error()));
    let _stranger = TcpStream::connect(address).unwrap();
    server.poll(None, Duration::ZERO);
    assert!(!server.is_hot.load(Ordering::Relaxed), "the listener would end every sleep at once");
    // As if the pause were over.
    lock(&server.list).accepts_from = Some(Instant::now());
    server.poll(None, Duration::from_secs(10));
    assert_eq!(count(&server), 1);
}

#[test]
fn a_busy_stream_costs_no_looks_at_idle_ones() {
    const STREAMS: u32 = 40;
    const PACKETS: u32 = 200;
    let (mut server, address) = server();
    server.open_max = || 1000;
    let clients: Vec<TcpStreams> = (0..STREAMS).map(|_| client()).collect();
    for client in &clients {
        assert!(opens(client, &server, PeerAddress::Socket(address)));
    }
    server.works.store(0, Ordering::Relaxed);
    let busy = &clients[STREAMS as usize / 2];
    for _ in 0..PACKETS {
        assert!(busy.send(address, &[1; 2000], &[], false).is_some());
        let mut has_arrived = false;
        for _ in 0..TRIES {
            server.deliver(&mut |packet, _| has_arrived = packet.len() == 2000);
            if has_arrived {
                break;
            }
        }
        assert!(has_arrived);
    }
    let works = server.works.load(Ordering::Relaxed);
    assert!(works < 4 * PACKETS, "{works} looks for {PACKETS} packets");
}

#[test]
fn a_look_costs_the_same_however_many_streams_there_are() {
    let (mut server, address) = server();
    server.open_max = || 1000;
    let clients: Vec<TcpStreams> = (0..10).map(|_| client()).collect();
    let polled = clients.iter().map(|client| {
        assert!(opens(client, &server, PeerAddress::Socket(address)));
        server.poll(None, Duration::ZERO);
        server.polled.load(Ordering::Relaxed)
    });
    assert_eq!(polled.collect::<Vec<_>>(), [2; 10], "the listener, and all streams");
}

#[test]
fn what_a_socket_has_no_room_for_goes_when_it_has() {
    let (server, address) = server();
    let (client, to) = (client(), PeerAddress::Socket(address));
    assert!(opens(&client, &server, to));
    let (mut sent, mut received) = (0, 0);
    while client.has_room(to) {
        assert!(client.send(address, &[1; 60_000], &[], false).is_some());
        sent += 1;
        assert!(sent < TRIES, "the socket takes all");
    }
    for _ in 0..TRIES {
        client.poll(None, Duration::ZERO);
        client.deliver(&mut |_, _| {});
        server.deliver(&mut |packet, _| received += usize::from(packet.len() == 60_000));
    }
    assert_eq!(received, sent);
    client.is_hot.store(false, Ordering::Relaxed);
    client.poll(None, Duration::ZERO);
    assert!(!client.is_hot.load(Ordering::Relaxed), "nothing waits for room any more");
}

#[test]
fn a_closed_stream_has_no_events_although_a_child_has_a_copy_of_its_socket() {
    let (server, address) = server();
    let (client, to) = (client(), PeerAddress::Socket(address));
    assert!(opens(&client, &server, to));
    let copy = lock(&client.list).streams[0].socket.try_clone().unwrap();
    make_idle(&client);
    client.poll(None, Duration::ZERO);
    assert!(opens(&client, &server, to), "it is opened again");
    copy.shutdown(std::net::Shutdown::Both).unwrap();
    client.is_hot.store(false, Ordering::Relaxed);
    client.poll(None, Duration::ZERO);
    assert!(!client.is_hot.load(Ordering::Relaxed), "it would end every sleep at once");
}

#[test]
fn streams_that_nobody_uses_are_closed() {
    let (server, address) = server();
    let client = client();
    assert!(opens(&client, &server, PeerAddress::Socket(address)));
    client.poll(None, Duration::ZERO);
    assert_eq!(count(&client), 1);
    make_idle(&client);
    client.poll(None, Duration::ZERO);
    assert_eq!(count(&client), 0);
    assert!(opens(&client, &server, PeerAddress::Socket(address)), "it is opened when needed");
}

#[test]
fn a_stream_that_is_used_again_is_not_closed() {
    let (server, address) = server();
    let (client, to) = (client(), PeerAddress::Socket(address));
    assert!(opens(&client, &server, to));
    make_idle(&client);
    assert!(client.send(address, &[1; 2000], &[], false).is_some());
    client.poll(None, Duration::ZERO);
    assert_eq!(count(&client), 1, "an answer may be under way");
}

#[test]
fn a_transfer_begins_on_no_stream_that_its_peer_may_close() {
    let (server, address) = server();
    let (client, to) = (client(), PeerAddress::Socket(address));
    assert!(opens(&client, &server, to));
    assert!(!client.open(to), "there is one");
    make_idle(&client);
    assert!(client.open(to), "a new one is under way");
    assert_eq!(count(&client), 1);
}
