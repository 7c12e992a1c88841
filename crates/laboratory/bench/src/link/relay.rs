//! A relay between two nodes: it carries every packet of IP of either to the other, and loses some
//! and delays some if it is told so. What TCP carries it sees in the pieces that the link carries.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use farside_fabric::random::SplitMix;
use rustix::event::{PollFd, PollFlags, Timespec};

/// The longest packet of IP.
const PACKET_BYTES: usize = 1 << 16;
/// A late packet lets so many go first at most, if they come.
const OVERTAKEN_MAX: u64 = 16;
/// And it is late by no more than this.
const LATE_MAX: Duration = Duration::from_millis(1);

/// How many of a hundred packets the relay loses, and how many it lets others overtake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Trouble {
    /// Lost.
    pub lost_percent: u32,
    /// Overtaken.
    pub late_percent: u32,
}

/// What both directions are told, and what they tell.
#[derive(Debug, Default)]
struct Shared {
    /// Two numbers of [`Trouble`].
    trouble: AtomicU64,
    passed: AtomicU64,
    lost: AtomicU64,
    late: AtomicU64,
}

/// A relay; it ends when the interfaces of both nodes have gone.
#[derive(Debug)]
pub(super) struct Relay {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[cfg(test)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Passed {
    /// The packets that it has carried, in both directions.
    passed: u64,
    lost: u64,
    /// Those that it has let others overtake.
    late: u64,
}

impl Relay {
    pub(super) fn start(ends: [File; 2]) -> Result<Relay> {
        let shared = Arc::<Shared>::default();
        let [first, second] = ends.map(Arc::new);
        let mut threads = Vec::new();
        for (seed, from, to) in [(1, first.clone(), second.clone()), (2, second, first)] {
            let mut way = Way {
                shared: shared.clone(),
                from,
                to,
                random: SplitMix::new(seed),
                count: 0,
                late: VecDeque::new(),
            };
            let thread = std::thread::Builder::new().name("relay".into());
            let thread = thread.spawn(move || way.run());
            threads.push(thread.context("cannot start the thread of a relay")?);
        }
        Ok(Relay { shared, threads })
    }

    pub(super) fn set(&self, trouble: Trouble) {
        let word = u64::from(trouble.lost_percent) << 32 | u64::from(trouble.late_percent);
        self.shared.trouble.store(word, Ordering::Relaxed);
    }

    #[cfg(test)]
    fn passed(&self) -> Passed {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Shared { passed, lost, late, .. } = &*self.shared;
        Passed { passed: count(passed), lost: count(lost), late: count(late) }
    }

    pub(super) fn join(self) {
        // A panic of a thread has been reported by its hook.
        self.threads.into_iter().for_each(|thread| drop(thread.join()));
    }
}

/// One direction.
struct Way {
    shared: Arc<Shared>,
    from: Arc<File>,
    to: Arc<File>,
    random: SplitMix,
    /// The number of packets that were read.
    count: u64,
    late: VecDeque<Late>,
}

struct Late {
    packet: Vec<u8>,
    /// It goes when so many have been read, or when it is time.
    after: u64,
    until: Instant,
}

impl Way {
    fn run(&mut self) {
        let mut buffer = vec![0; PACKET_BYTES];
        loop {
            if !self.late.is_empty() && !self.comes_soon() {
                self.send_late();
                continue;
            }
            let length = match (&*self.from).read(&mut buffer) {
                // It ends with the interface.
                Ok(0) | Err(_) => return,
                Ok(length) => length,
            };
            self.count += 1;
            self.pass(&buffer[..length]);
            if !self.late.is_empty() {
                self.send_late();
            }
        }
    }

    /// Returns whether a packet can be read before a late one must go.
    fn comes_soon(&self) -> bool {
        let until = self.late.iter().map(|late| late.until).min();
        let left = until.map_or(Duration::ZERO, |until| until.duration_since(Instant::now()));
        let left = Timespec { tv_sec: 0, tv_nsec: i64::from(left.subsec_nanos()) };
        let polled =
            rustix::event::poll(&mut [PollFd::new(&*self.from, PollFlags::IN)], Some(&left));
        polled.is_ok_and(|count| count > 0)
    }

    fn pass(&mut self, packet: &[u8]) {
        let word = self.shared.trouble.load(Ordering::Relaxed);
        let (lost_percent, late_percent) = (word >> 32, word & u64::from(u32::MAX));
        if lost_percent > 0 && self.random.chance(lost_percent) {
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
        } else if late_percent > 0 && self.random.chance(late_percent) {
            self.shared.late.fetch_add(1, Ordering::Relaxed);
            let after = self.count + 1 + self.random.below(OVERTAKEN_MAX);
            let until = Instant::now() + LATE_MAX;
            self.late.push_back(Late { packet: packet.to_vec(), after, until });
        } else {
            self.send(packet);
        }
    }

    fn send_late(&mut self) {
        let (now, mut at) = (Instant::now(), 0);
        while let Some(late) = self.late.get(at) {
            if late.after > self.count && late.until > now {
                at += 1;
            } else if let Some(late) = self.late.remove(at) {
                self.send(&late.packet);
            }
        }
    }

    fn send(&self, packet: &[u8]) {
        // One that the other interface does not take is lost, as on any link.
        let _ = (&*self.to).write(packet);
        self.shared.passed.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Shutdown;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixDatagram;

    use super::*;

    const COUNT: u32 = 20_000;

    /// Sends numbered packets through a relay, and returns those that arrive.
    fn sent_through(trouble: Trouble) -> (Vec<u32>, Passed) {
        let pair = || UnixDatagram::pair().unwrap();
        let ((near, first), (far, second)) = (pair(), pair());
        let file = |socket: &UnixDatagram| File::from(OwnedFd::from(socket.try_clone().unwrap()));
        let relay = Relay::start([file(&first), file(&second)]).unwrap();
        relay.set(trouble);
        far.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        let came = std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let (mut came, mut packet) = (Vec::new(), [0; 4]);
                while far.recv(&mut packet).is_ok_and(|length| length == 4) {
                    came.push(u32::from_le_bytes(packet));
                }
                came
            });
            for number in 0..COUNT {
                near.send(&number.to_le_bytes()).unwrap();
            }
            reader.join().unwrap()
        });
        let passed = relay.passed();
        for socket in [first, second] {
            socket.shutdown(Shutdown::Both).unwrap();
        }
        relay.join();
        (came, passed)
    }

    #[test]
    fn a_relay_without_trouble_carries_everything_in_order() {
        let (came, passed) = sent_through(Trouble::default());
        assert!(came.iter().copied().eq(0..COUNT), "{} of {COUNT}", came.len());
        assert_eq!(passed, Passed { passed: COUNT.into(), lost: 0, late: 0 });
    }

    #[test]
    fn one_of_a_hundred_is_lost_and_one_is_late() {
        let (came, passed) = sent_through(Trouble { lost_percent: 1, late_percent: 1 });
        let expected = u64::from(COUNT) / 100;
        for count in [passed.lost, passed.late] {
            assert!((expected / 2..2 * expected).contains(&count), "{passed:?}");
        }
        assert_eq!(came.len() as u64, u64::from(COUNT) - passed.lost);
        let mut sorted = came.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), came.len(), "a packet has come twice");
        let overtaken = came.windows(2).filter(|pair| pair[0] > pair[1]).count() as u64;
        assert!(overtaken >= passed.late / 2, "{overtaken} of {} late ones", passed.late);
    }
}
