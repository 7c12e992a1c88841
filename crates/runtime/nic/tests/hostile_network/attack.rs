//! Datagrams of an attacker that can read the network and send to every host, but has no key.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use farside_fabric::Result;
use farside_fabric::random::SplitMix;

use crate::relay::Relay;
use crate::work;

/// A job works while so many hostile datagrams arrive.
pub(crate) fn run(datagrams: u64) {
    let (servers, relay) = crate::servers(1).unwrap();
    let is_over = AtomicBool::new(false);
    let before_kib = resident_kib();
    let sockets: Vec<UdpSocket> = (0..3)
        .map(|at| {
            UdpSocket::bind(SocketAddr::new(crate::host(79, 1, at), 0)).expect("loopback has room")
        })
        .collect();
    std::thread::scope(|threads| {
        threads.spawn(|| {
            attack(&relay, &sockets, datagrams);
            is_over.store(true, Ordering::SeqCst);
        });
        let go_on = |_: u64| -> Result<bool> { Ok(!is_over.load(Ordering::SeqCst)) };
        let deadline = Duration::from_secs(if crate::is_long() { 3000 } else { 120 });
        crate::run(&servers, deadline, |world| work::rounds(world, go_on));
    });
    let seen = relay.stop();
    for socket in &sockets {
        socket.set_nonblocking(true).unwrap();
        let heard = socket.recv_from(&mut [0; 100]);
        assert!(heard.is_err(), "the attacker was answered: {heard:?}");
    }
    let refusals: Vec<_> = servers.iter().map(farside_nic::NodeServer::refusals).collect();
    let grown_kib = resident_kib().saturating_sub(before_kib);
    println!(
        "{datagrams} hostile datagrams, {} honest ones; {refusals:?}; {grown_kib} KiB more in use",
        seen.passed
    );
    for refused in refusals {
        assert!(refused.foreign > 0 && refused.forged > 0 && refused.stale > 0, "{refused:?}");
        assert_eq!((refused.malformed, refused.late), (0, 0), "{refused:?}");
    }
    assert!(grown_kib < 300 << 10, "memory has grown by {grown_kib} KiB");
    assert!(servers.iter().all(|server| server.nodes_lost().is_empty()));
}

fn attack(relay: &Relay, sockets: &[UdpSocket], datagrams: u64) {
    let mut random = SplitMix::new(7);
    let (mut recorded, mut places) = (Vec::new(), Vec::new());
    let mut sent = 0;
    while sent < datagrams {
        if sent % 1000 == 0 || recorded.is_empty() || places.is_empty() {
            let known = (relay.recorded(), relay.places());
            (recorded, places) = known;
            // No datagram has passed yet.
            std::thread::yield_now();
            if recorded.is_empty() || places.is_empty() {
                continue;
            }
        }
        let number = random.next();
        let socket = &sockets[(number >> 8) as usize % sockets.len()];
        let (was_for, packet) = &recorded[(number >> 16) as usize % recorded.len()];
        let place = places[(number >> 40) as usize % places.len()];
        let (to, packet) = hostile(number, &mut random, (*was_for, packet), place);
        // One that does not arrive has done no harm.
        let _ = socket.send_to(&packet, to);
        sent += 1;
    }
}

/// One datagram: replayed, damaged, cut, lengthened, forged or made of nothing.
fn hostile(
    number: u64,
    random: &mut SplitMix,
    (was_for, packet): (SocketAddr, &[u8]),
    place: SocketAddr,
) -> (SocketAddr, Vec<u8>) {
    let mut copy = packet.to_vec();
    match number % 16 {
        0..5 => (was_for, copy),
        5 => (place, copy),
        6..8 => {
            let bit = random.next() as usize % (copy.len().max(1) * 8);
            if let Some(byte) = copy.get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
            (was_for, copy)
        }
        8..10 => {
            copy.truncate(random.next() as usize % (copy.len() + 1));
            (was_for, copy)
        }
        10 => {
            copy.resize(65_507, number as u8);
            (was_for, copy)
        }
        11..13 => {
            // A tag of one's own under a header that is right, with the next number.
            if let Some(head) = copy.first_chunk_mut::<64>() {
                head[16] = head[16].wrapping_add(1);
                head[48..64].copy_from_slice(
                    &[random.next().to_le_bytes(), random.next().to_le_bytes()].concat(),
                );
            }
            (was_for, copy)
        }
        13 => (place, (0..random.next() % 200).map(|_| random.next() as u8).collect()),
        14 => (place, Vec::new()),
        _ => {
            let mut packet = b"fs\x02\x01".to_vec();
            packet.resize(64 + (random.next() % 100) as usize, number as u8);
            (place, packet)
        }
    }
}

fn resident_kib() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64 / 1024
}
