//! Stands between nodes: whatever they send to each other passes here, or does not.
//!
//! Each socket of a node has a mirror: the same port on another address of loopback. What arrives
//! at a mirror goes on to the socket that it mirrors, from the mirror of its sender.
//! Nodes know each other by the addresses of mirrors only.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use farside_fabric::random::SplitMix;
use rustix::event::{PollFd, PollFlags, Timespec};

/// The number of datagrams that are kept to be replayed.
const RECORDED: usize = 2000;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Trouble {
    pub(crate) lost_pct: u64,
    pub(crate) repeated_pct: u64,
    pub(crate) damaged_pct: u64,
    /// Later than those sent after it.
    pub(crate) late_pct: u64,
    /// The time that every other one takes.
    pub(crate) delay: Duration,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Seen {
    pub(crate) passed: u64,
    pub(crate) lost: u64,
    pub(crate) repeated: u64,
    pub(crate) damaged: u64,
    pub(crate) late: u64,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    trouble: Mutex<Trouble>,
    /// Datagrams that are longer are lost, unless it is zero: networks often drop fragments.
    bytes_max: AtomicUsize,
    /// Every socket of a node that was heard of.
    places: Mutex<Vec<SocketAddr>>,
    recorded: Mutex<Vec<(SocketAddr, Vec<u8>)>>,
}

pub(crate) struct Relay {
    shared: Arc<Shared>,
    mirror: fn(IpAddr) -> IpAddr,
    thread: JoinHandle<Seen>,
}

impl Relay {
    /// Begins to pass on what is sent to the mirrors of these sockets.
    pub(crate) fn start(real: &[SocketAddr], mirror: fn(IpAddr) -> IpAddr) -> Relay {
        let shared: Arc<Shared> = Arc::default();
        let mut passing = Passing {
            shared: shared.clone(),
            mirror,
            sockets: Vec::new(),
            known: HashMap::new(),
            waiting: BinaryHeap::new(),
            seen: Seen::default(),
            random: SplitMix::new(1),
        };
        for &place in real {
            assert!(passing.know(place).is_some(), "the mirror of {place} is taken");
        }
        Relay { shared, mirror, thread: std::thread::spawn(move || passing.run()) }
    }

    pub(crate) fn mirror(&self, real: SocketAddr) -> SocketAddr {
        SocketAddr::new((self.mirror)(real.ip()), real.port())
    }

    pub(crate) fn trouble(&self, trouble: Trouble) {
        *self.shared.trouble.lock().unwrap() = trouble;
    }

    pub(crate) fn lose_longer_than(&self, bytes: usize) {
        self.shared.bytes_max.store(bytes, Ordering::SeqCst);
    }

    pub(crate) fn places(&self) -> Vec<SocketAddr> {
        self.shared.places.lock().unwrap().clone()
    }

    /// Some of the datagrams that have passed, each with its destination.
    pub(crate) fn recorded(&self) -> Vec<(SocketAddr, Vec<u8>)> {
        self.shared.recorded.lock().unwrap().clone()
    }

    pub(crate) fn stop(self) -> Seen {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.thread.join().unwrap()
    }
}

/// A datagram that waits: until when, for which socket, and its destination.
type Delayed = (Instant, usize, SocketAddr, Vec<u8>);

struct Passing {
    shared: Arc<Shared>,
    mirror: fn(IpAddr) -> IpAddr,
    /// Mirrors, with what they mirror.
    sockets: Vec<(SocketAddr, UdpSocket)>,
    known: HashMap<SocketAddr, usize>,
    /// Datagrams that are late: when, from which mirror, and their destination.
    waiting: BinaryHeap<Reverse<Delayed>>,
    seen: Seen,
    random: SplitMix,
}

impl Passing {
    fn run(mut self) -> Seen {
        let mut buffer = vec![0; 1 << 16];
        while !self.shared.stop.load(Ordering::SeqCst) {
            let readable: Vec<usize> = {
                let mut all: Vec<PollFd<'_>> = self
                    .sockets
                    .iter()
                    .map(|(_, socket)| PollFd::new(socket, PollFlags::IN))
                    .collect();
                let nap = Timespec {
                    tv_sec: 0,
                    tv_nsec: if self.waiting.is_empty() { 20_000_000 } else { 500_000 },
                };
                let _ = rustix::event::poll(&mut all, Some(&nap));
                (0..all.len()).filter(|&at| all[at].revents().contains(PollFlags::IN)).collect()
            };
            for at in readable {
                for _ in 0..64 {
                    let Ok((length, from)) = self.sockets[at].1.recv_from(&mut buffer) else {
                        break;
                    };
                    if let Some(via) = self.know(from) {
                        self.pass(via, self.sockets[at].0, &buffer[..length]);
                    }
                }
            }
            while self.waiting.peek().is_some_and(|Reverse((when, ..))| *when <= Instant::now()) {
                let Some(Reverse((_, via, to, packet))) = self.waiting.pop() else { break };
                let _ = self.sockets[via].1.send_to(&packet, to);
            }
        }
        self.seen
    }

    /// The mirror of a socket, which is made if there is none.
    fn know(&mut self, place: SocketAddr) -> Option<usize> {
        if let Some(&at) = self.known.get(&place) {
            return Some(at);
        }
        let socket =
            UdpSocket::bind(SocketAddr::new((self.mirror)(place.ip()), place.port())).ok()?;
        socket.set_nonblocking(true).ok()?;
        self.sockets.push((place, socket));
        self.known.insert(place, self.sockets.len() - 1);
        self.shared.places.lock().unwrap().push(place);
        Some(self.sockets.len() - 1)
    }

    fn pass(&mut self, via: usize, to: SocketAddr, packet: &[u8]) {
        self.record(to, packet);
        let trouble = *self.shared.trouble.lock().unwrap();
        let bytes_max = self.shared.bytes_max.load(Ordering::SeqCst);
        if self.chance(trouble.lost_pct) || (bytes_max > 0 && packet.len() > bytes_max) {
            self.seen.lost += 1;
            return;
        }
        let copies = if self.chance(trouble.repeated_pct) { 2 } else { 1 };
        self.seen.repeated += copies - 1;
        for _ in 0..copies {
            let mut copy = packet.to_vec();
            if !copy.is_empty() && self.chance(trouble.damaged_pct) {
                self.seen.damaged += 1;
                let bit = self.next() as usize % (copy.len() * 8);
                copy[bit / 8] ^= 1 << (bit % 8);
            }
            if self.chance(trouble.late_pct) {
                self.seen.late += 1;
                let when = Instant::now() + Duration::from_micros(self.next() % 5000);
                self.waiting.push(Reverse((when, via, to, copy)));
            } else if !trouble.delay.is_zero() {
                self.seen.passed += 1;
                self.waiting.push(Reverse((Instant::now() + trouble.delay, via, to, copy)));
            } else {
                self.seen.passed += 1;
                let _ = self.sockets[via].1.send_to(&copy, to);
            }
        }
    }

    fn record(&mut self, to: SocketAddr, packet: &[u8]) {
        let at = self.next() as usize % RECORDED;
        let mut recorded = self.shared.recorded.lock().unwrap();
        if recorded.len() < RECORDED {
            recorded.push((to, packet.to_vec()));
        } else {
            recorded[at] = (to, packet.to_vec());
        }
    }

    fn next(&mut self) -> u64 {
        self.random.next()
    }

    fn chance(&mut self, pct: u64) -> bool {
        self.next() % 100 < pct
    }
}
