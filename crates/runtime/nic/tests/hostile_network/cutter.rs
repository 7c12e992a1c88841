//! Stands between nodes for their streams: whatever passes may be damaged, and every stream is cut
//! after a while.
//!
//! It listens at the mirror of a server's address, and reaches the server from the mirror of the
//! client's, as the relay does for datagrams.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use farside_fabric::random::SplitMix;
use rustix::net::{AddressFamily, SocketType};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Cuts {
    /// After at most so many bytes of one direction a stream is cut.
    pub(crate) bytes_max: u64,
    /// In so many of a hundred streams, a bit is damaged where it is cut, and it lives on.
    pub(crate) damaged_pct: u64,
    /// The time until a stream reaches its server.
    pub(crate) delay: Duration,
}

pub(crate) const NO_CUTS: Cuts =
    Cuts { bytes_max: u64::MAX / 4, damaged_pct: 0, delay: Duration::ZERO };

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    streams: AtomicU64,
    passed: AtomicU64,
    random: Mutex<Option<SplitMix>>,
}

pub(crate) struct Cutter {
    shared: Arc<Shared>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Passed {
    pub(crate) streams: u64,
    pub(crate) bytes: u64,
}

impl Cutter {
    /// Begins to pass on streams to the servers at these addresses.
    pub(crate) fn start(real: &[SocketAddr], mirror: fn(IpAddr) -> IpAddr, cuts: Cuts) -> Cutter {
        let shared: Arc<Shared> = Arc::default();
        *shared.random.lock().unwrap() = Some(SplitMix::new(3));
        for &server in real {
            let listener = TcpListener::bind(SocketAddr::new(mirror(server.ip()), server.port()))
                .expect("the mirror of a server's port is free");
            listener.set_nonblocking(true).unwrap();
            let shared = shared.clone();
            std::thread::spawn(move || {
                while !shared.stop.load(Ordering::SeqCst) {
                    match listener.accept() {
                        Ok((client, from)) => {
                            shared.streams.fetch_add(1, Ordering::SeqCst);
                            pass(&shared, client, mirror(from.ip()), server, cuts);
                        }
                        // sleep: nothing else is to be done here meanwhile.
                        Err(_) => std::thread::sleep(Duration::from_millis(1)),
                    }
                }
            });
        }
        Cutter { shared }
    }

    pub(crate) fn stop(&self) -> Passed {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.passed()
    }

    pub(crate) fn passed(&self) -> Passed {
        let (streams, passed) = (&self.shared.streams, &self.shared.passed);
        Passed { streams: streams.load(Ordering::SeqCst), bytes: passed.load(Ordering::SeqCst) }
    }
}

fn pass(shared: &Arc<Shared>, client: TcpStream, from: IpAddr, server: SocketAddr, cuts: Cuts) {
    // sleep: this is how long the way is.
    std::thread::sleep(cuts.delay);
    let Some(onward) = connect(from, server) else { return };
    client.set_nonblocking(false).unwrap();
    for (mut read, mut write) in
        [(client.try_clone().unwrap(), onward.try_clone().unwrap()), (onward, client)]
    {
        let next = || shared.random.lock().unwrap().as_mut().map_or(0, SplitMix::next);
        let (mut left, is_damaged) = (1 + next() % cuts.bytes_max, next() % 100 < cuts.damaged_pct);
        let shared = shared.clone();
        read.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        std::thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            while !shared.stop.load(Ordering::SeqCst) {
                let count = match read.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(count) => count,
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
                    Err(_) => break,
                };
                if (count as u64) < left {
                    left -= count as u64;
                } else if is_damaged && left < u64::MAX / 2 {
                    buffer[left as usize - 1] ^= 1;
                    left = u64::MAX;
                } else if left < u64::MAX / 2 {
                    let _ = write.write_all(&buffer[..left as usize]);
                    break;
                }
                shared.passed.fetch_add(count as u64, Ordering::SeqCst);
                if write.write_all(&buffer[..count]).is_err() {
                    break;
                }
            }
            let _ = read.shutdown(Shutdown::Both);
            let _ = write.shutdown(Shutdown::Both);
        });
    }
}

fn connect(from: IpAddr, server: SocketAddr) -> Option<TcpStream> {
    let socket: OwnedFd =
        rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).ok()?;
    rustix::net::bind(&socket, &SocketAddr::new(from, 0)).ok()?;
    rustix::net::connect(&socket, &server).ok()?;
    Some(TcpStream::from(socket))
}
