//! What no system can beat between nodes: bare datagrams over loopback, of the same sizes and with
//! the same manners of waiting as farside's, between two threads, without names, numbers, tags and
//! checks.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::sockopt;

use super::{Plan, row};
use crate::driver::Limit;
use crate::timing::{Times, clock, measure};

/// What farside sends for one operation on a word, and for its answer: header, tag, name, operands.
const WORD_BYTES: usize = 102;
/// What comes before the data of a put: header, tag and name.
const NAME_BYTES: usize = 89;
/// The longest datagram that farside sends on one machine.
const PACKET_BYTES: usize = 60 << 10;
/// How much may wait in a socket.
const BUFFER_BYTES: usize = 8 << 20;
/// How many datagrams follow each other when their rate is measured, as many as there are puts
/// between two flushes.
const RATE: usize = 1000;
/// How often a port looks before it sleeps.
const LOOKS: u32 = 60;
/// How long a server that spins does so after the last datagram.
const SPIN: Duration = Duration::from_micros(50);
/// Nothing is sent again here: what is lost ends the measurement.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    Polls,
    /// It looks for a while after the last datagram.
    SpinsFor(Duration),
    Looks(u32),
    Sleeps,
}

pub(super) fn run(plan: &Plan, limit: &Limit) -> Result<String> {
    let (ours, theirs) = match limit {
        Limit::Near => bail!("there are no datagrams on one node"),
        Limit::FarAsleep => (Waits::Sleeps, Waits::Sleeps),
        Limit::Far(server) if server.ends_with("poll") => (Waits::Looks(LOOKS), Waits::Polls),
        Limit::Far(server) if server == "nic" || server.ends_with("spin-block") => {
            (Waits::Looks(LOOKS), Waits::SpinsFor(SPIN))
        }
        Limit::Far(_) => (Waits::Looks(LOOKS), Waits::Sleeps),
    };
    let mut rows = Vec::new();
    for (case, bytes) in plan.cases() {
        let Some(shape) = Shape::of(&case, bytes) else { continue };
        let ns = exchange(&shape, ours, theirs, plan.time)?;
        rows.push(row(&case, bytes, plan.target, Times::of_batches(ns * shape.part)));
    }
    Ok(rows.join("\n"))
}

/// Which datagrams stand for an operation: how many of which length go out, and how many come back.
#[derive(Debug, PartialEq)]
struct Shape {
    out: (usize, usize),
    back: (usize, usize),
    /// What part of the exchange counts as one operation.
    part: f64,
}

impl Shape {
    fn of(case: &str, bytes: usize) -> Option<Shape> {
        const WORD: (usize, usize) = (1, WORD_BYTES);
        // What a socket cannot hold gets lost, and nothing is sent again here.
        if bytes > BUFFER_BYTES / 2 {
            return None;
        }
        let data = |bytes: usize| {
            let count = bytes.div_ceil(PACKET_BYTES - NAME_BYTES);
            (count, bytes.div_ceil(count) + NAME_BYTES)
        };
        let (out, back, part) = match case {
            "put" | "put_strided" => (data(bytes), WORD, 1.0),
            "get" => (WORD, data(bytes), 1.0),
            "fetch_add" | "swap" | "compare_swap" | "compare_swap_miss" | "signal" => {
                (WORD, WORD, 1.0)
            }
            "rate" => ((RATE, 8 + NAME_BYTES), WORD, 1.0 / RATE as f64),
            // Two ranks that tell each other: each waits for one message, which both send at the
            // same time.
            "barrier" => (WORD, WORD, 0.5),
            _ => return None,
        };
        Some(Shape { out, back, part })
    }
}

fn exchange(shape: &Shape, ours: Waits, theirs: Waits, time: Duration) -> Result<f64> {
    let (here, there) = (open()?, open()?);
    here.connect(there.local_addr()?)?;
    there.connect(here.local_addr()?)?;
    let over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let answering = threads.spawn(|| -> Result<()> {
            let mut line = Line::new(&there, theirs, shape.back, shape.out);
            while line.receive(shape.out, &over)? {
                line.send(shape.back)?;
            }
            Ok(())
        });
        let mut line = Line::new(&here, ours, shape.out, shape.back);
        let never = AtomicBool::new(false);
        let measured = measure(&clock(), time, |count| {
            (0..count).try_for_each(|_| {
                line.send(shape.out)?;
                line.receive(shape.back, &never).map(drop)
            })
        });
        over.store(true, Ordering::SeqCst);
        // Should it be lost, the other side looks by itself before long.
        let _ = here.send(&[]);
        answering.join().ok().context("the other side panicked")??;
        measured
    })
}

fn open() -> Result<UdpSocket> {
    let socket = UdpSocket::bind("127.0.0.1:0").context("binding a UDP socket")?;
    socket.set_nonblocking(true).context("making a socket non-blocking")?;
    if sockopt::set_socket_recv_buffer_size_force(&socket, BUFFER_BYTES).is_err() {
        sockopt::set_socket_recv_buffer_size(&socket, BUFFER_BYTES)
            .context("setting a socket's buffer")?;
    }
    sockopt::set_socket_send_buffer_size(&socket, BUFFER_BYTES)
        .context("setting a socket's buffer")?;
    Ok(socket)
}

/// One end of the exchange. As in a transfer, each datagram comes from a place of its own and goes
/// to one.
struct Line<'a> {
    socket: &'a UdpSocket,
    waits: Waits,
    from: Vec<u8>,
    into: Vec<u8>,
}

impl Line<'_> {
    fn new(
        socket: &UdpSocket,
        waits: Waits,
        from: (usize, usize),
        into: (usize, usize),
    ) -> Line<'_> {
        Line { socket, waits, from: vec![1; from.0 * from.1], into: vec![0; into.0 * into.1] }
    }

    fn send(&self, (count, bytes): (usize, usize)) -> Result<()> {
        for part in self.from.chunks_exact(bytes).take(count) {
            self.socket.send(part).context("sending a datagram")?;
        }
        Ok(())
    }

    /// Receives so many datagrams; false if it is `over` instead.
    fn receive(&mut self, (count, bytes): (usize, usize), over: &AtomicBool) -> Result<bool> {
        let mut left = count;
        let mut looks = 0;
        let mut last: Option<Instant> = None;
        let mut slept = Duration::ZERO;
        while left > 0 {
            match self.socket.recv(&mut self.into[(count - left) * bytes..][..bytes]) {
                Ok(0) => {}
                Ok(_) => {
                    left -= 1;
                    continue;
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error).context("receiving a datagram"),
            }
            if over.load(Ordering::SeqCst) {
                return Ok(false);
            }
            let spins = match self.waits {
                Waits::Polls => true,
                Waits::Sleeps => false,
                Waits::Looks(most) => {
                    looks += 1;
                    looks <= most
                }
                Waits::SpinsFor(time) => last.get_or_insert_with(Instant::now).elapsed() < time,
            };
            if spins {
                std::thread::yield_now();
                continue;
            }
            let nap = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
            let begin = Instant::now();
            let _ = rustix::event::poll(&mut [PollFd::new(self.socket, PollFlags::IN)], Some(&nap));
            slept = if begin.elapsed() < Duration::from_millis(100) {
                Duration::ZERO
            } else {
                slept + begin.elapsed()
            };
            if slept > PATIENCE {
                bail!(
                    "{left} of {count} datagrams over loopback got lost; are the socket's buffers \
                     too small?"
                );
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Target;
    use super::*;

    #[test]
    fn transfers_take_as_many_datagrams_as_farsides_do() {
        let megabyte = Shape::of("put", 1 << 20).unwrap();
        assert_eq!(megabyte.out.0, 18);
        assert!(megabyte.out.1 <= PACKET_BYTES);
        assert_eq!(Shape::of("get", 1 << 20).unwrap().back, megabyte.out);
        assert_eq!(Shape::of("accumulate", 8), None);
        assert_eq!(Shape::of("put", 64 << 20), None);
    }

    #[test]
    fn datagrams_are_measured_in_every_manner_of_waiting() {
        let plan = Plan {
            time: Duration::from_millis(1),
            cases: ["put", "get", "fetch_add", "rate", "barrier"].map(String::from).to_vec(),
            sizes: vec![8, 1 << 20],
            target: Target::Idle,
        };
        for limit in [Limit::Far("nic".into()), Limit::Far("host-block".into()), Limit::FarAsleep] {
            assert_eq!(run(&plan, &limit).unwrap().lines().count(), 7, "{limit:?}");
        }
    }
}
