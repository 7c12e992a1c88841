//! A job under fire: strangers send datagrams to all of its ports and requests to its metrics, half
//! of them hostile, and it ends when it should with the right result.
//!
//! `FARSIDE_LONG=1 cargo test -p farside-cli --test strangers` sends 10 million datagrams and
//! 10,000 requests.

mod support;

use std::collections::HashSet;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream, UdpSocket};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use farside_fabric::random::SplitMix;
use support::{Running, is_long, program_or_tests, run_own, tests};

tests! {
    strangers_neither_end_a_job_nor_keep_it_from_ending
    the_key_is_on_no_command_line_and_in_no_environment
}

const RANKS: &str = "4";
const SENDERS: u64 = 2;
/// How many connections a hostile client leaves open.
const OPEN_MAX: usize = 100;

fn main() -> ExitCode {
    program_or_tests(program::start, TESTS)
}

/// A program that works until its standard input ends, and then checks what has come of it.
mod program {
    use std::io::Read as _;
    use std::process::ExitCode;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use farside::{Rank, World};

    const WORDS: usize = 512;

    pub(super) fn start() -> ExitCode {
        main()
    }

    #[farside::main]
    fn main(world: &World) -> Result<(), Box<dyn std::error::Error>> {
        let (me, size) = (world.rank(), world.size() as usize);
        let counters = world.words(1)?;
        let areas = world.window::<u64>(WORDS * size)?;
        let is_over = Arc::new(AtomicBool::new(false));
        if me == Rank(0) {
            println!("ready");
            let is_over = is_over.clone();
            std::thread::spawn(move || {
                // Whatever ends the input ends the work.
                let _ = std::io::stdin().read_to_end(&mut Vec::new());
                is_over.store(true, Ordering::SeqCst);
            });
        }
        let (mut round, mut tickets) = (0u64, 0u64);
        let mut back = [0; WORDS];
        loop {
            let mut go_on = [u64::from(me == Rank(0) && !is_over.load(Ordering::SeqCst))];
            world.broadcast(Rank(0), &mut go_on)?;
            if go_on == [0] {
                break;
            }
            for peer in world.ranks() {
                tickets += world.fetch_add(counters.at(peer, 0), 1)?;
                let mine = [round << 8 | u64::from(me.0); WORDS];
                let at = areas.at(peer, WORDS * me.0 as usize);
                world.put(&mine, at)?;
                world.flush(peer)?;
                world.get(at, &mut back)?;
                assert_eq!(back, mine, "{me} at {peer}, round {round}");
            }
            round += 1;
        }
        world.sync()?;
        let drawn = world.load(counters.at(me, 0))?;
        assert_eq!(drawn, round * size as u64, "every addition was done once");
        let mut all = [tickets, drawn * drawn.saturating_sub(1) / 2];
        world.all_reduce(&mut all, u64::wrapping_add)?;
        assert_eq!(all[0], all[1], "every ticket was drawn once");
        if me == Rank(0) {
            println!("{round} rounds, all is right");
        }
        Ok(())
    }
}

/// How much is sent: datagrams, and requests.
fn amounts() -> (u64, u64) {
    if is_long() { (10_000_000, 10_000) } else { (100_000, 400) }
}

fn strangers_neither_end_a_job_nor_keep_it_from_ending() {
    let (datagrams, requests) = amounts();
    let options = ["-n", RANKS, "--nodes", "2", "--metrics", "127.0.0.1:0"];
    let (mut running, input) =
        run_own(&options, &[]).longer(Duration::from_secs(600)).start_with_input();
    running.wait_for_lines("ready", 1);
    let metrics = metrics_of(&mut running);
    let ports = udp_ports(&running);
    // Two agents, and a port of each rank at least.
    assert!(ports.len() >= 6, "{ports:?}");
    let (sent, asked, is_over) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let (answers, finished, ending) = std::thread::scope(|threads| {
        let _ends = EndsSending(&is_over);
        for seed in 0..SENDERS {
            let (ports, sent, is_over) = (&ports, &sent, &is_over);
            threads.spawn(move || send_datagrams(seed, ports, sent, is_over));
        }
        let client = threads.spawn(|| ask(metrics, requests, &asked));
        let answers = client.join().expect("the metrics are served");
        while sent.load(Ordering::Relaxed) < datagrams {
            // sleep: the senders tell nobody how far they are, so that nothing slows them down.
            std::thread::sleep(Duration::from_millis(10));
        }
        // The job ends under fire.
        let told = Instant::now();
        drop(input);
        let finished = running.wait();
        (answers, finished, told.elapsed())
    });
    let finished = finished.ends_with(0).leaves_nothing();
    let rounds = finished.lines().into_iter().find(|line| line.contains("all is right"));
    let rounds = rounds.unwrap_or_else(|| panic!("no result: {}", finished.stderr()));
    println!(
        "{} datagrams to {} ports, {} requests, {answers} of them honest and answered; {rounds}; \
         ended within {ending:.1?}",
        sent.into_inner(),
        ports.len(),
        asked.into_inner()
    );
    assert_eq!(answers, requests / 2, "every honest request is answered");
    assert!(!rounds.starts_with("0 "), "the job has worked");
}

/// Ends the senders, also when the test fails.
struct EndsSending<'a>(&'a AtomicBool);

impl Drop for EndsSending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The key travels in the plan of a job, on a line `secret` and 32 digits.
fn the_key_is_on_no_command_line_and_in_no_environment() {
    let hosts = ["--hosts", "a=127.0.0.1:2,b=127.0.0.2", "--rsh", "sh -c 'exec \"$@\"' {host}"];
    let nodes = ["-n", RANKS, "--nodes", "2"];
    for options in [&hosts[..], &nodes[..]] {
        let (mut running, input) = run_own(options, &[]).start_with_input();
        running.wait_for_lines("ready", 1);
        let processes = running.processes();
        // The launcher, and the ranks.
        assert!(processes.len() >= 4, "{processes:?}");
        for process in processes {
            for file in ["cmdline", "environ"] {
                let path = format!("/proc/{}/{file}", process.as_raw_nonzero());
                let text = std::fs::read(path).unwrap_or_default();
                let text = String::from_utf8_lossy(&text).replace('\0', "\n");
                let is_digit = |digit: char| digit.is_ascii_hexdigit();
                let shows = |after: &str| after.chars().take(32).filter(|&c| is_digit(c)).count();
                let shown = text.split("secret ").skip(1).any(|after| shows(after) == 32);
                assert!(!shown, "{options:?}: {text}");
            }
        }
        drop(input);
        running.wait().ends_with(0).leaves_nothing();
    }
}

fn metrics_of(running: &mut Running) -> SocketAddr {
    running.wait_until_says("/metrics\n");
    let said = running.said();
    let rest = said.split("http://").nth(1).expect("the address is said");
    rest.split('/').next().and_then(|address| address.parse().ok()).expect("it is one")
}

/// The UDP sockets of all processes of the job, as any user of the machine can list them.
fn udp_ports(running: &Running) -> Vec<SocketAddr> {
    let sockets: HashSet<String> = running
        .processes()
        .iter()
        .filter_map(|process| {
            std::fs::read_dir(format!("/proc/{}/fd", process.as_raw_nonzero())).ok()
        })
        .flat_map(|files| files.flatten())
        .filter_map(|file| {
            let link = std::fs::read_link(file.path()).ok()?;
            Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
        })
        .collect();
    let table = std::fs::read_to_string("/proc/net/udp").expect("the system lists sockets");
    let of_job = |line: &str| -> Option<SocketAddr> {
        let mut fields = line.split_whitespace();
        let (ip, port) = fields.nth(1)?.split_once(':')?;
        let ip = Ipv4Addr::from(u32::from_str_radix(ip, 16).ok()?.to_ne_bytes());
        let port = u16::from_str_radix(port, 16).ok()?;
        sockets.contains(fields.nth(7)?).then(|| SocketAddrV4::new(ip, port).into())
    };
    table.lines().filter_map(of_job).collect()
}

/// Sends what a stranger without the key can send, until the job is over: half of it looks like
/// ours.
fn send_datagrams(seed: u64, ports: &[SocketAddr], sent: &AtomicU64, is_over: &AtomicBool) {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    let mut random = SplitMix::new(seed);
    let mut packet = [0; 2048];
    while !is_over.load(Ordering::Relaxed) {
        for _ in 0..100 {
            let number = random.next();
            let length = match number % 8 {
                0 | 1 => 0,
                2 | 3 => random.below(64) as usize,
                _ => 64 + random.below(1400) as usize,
            };
            let head = &mut packet[..64];
            for word in head.as_chunks_mut::<8>().0 {
                *word = random.next().to_le_bytes();
            }
            if number % 8 >= 4 {
                // The beginning of a request or of a reply, of a server and a port that there are.
                head[..4].copy_from_slice(&[b'f', b's', 6, 1 + (number >> 8) as u8 % 2]);
                head[4..16].copy_from_slice(&[0; 12]);
            }
            // One that does not arrive has done no harm.
            let _ = socket.send_to(&packet[..length], ports[(number >> 32) as usize % ports.len()]);
        }
        sent.fetch_add(100, Ordering::Relaxed);
    }
}

/// Asks for metrics, honestly and not in turns; returns how many honest requests were answered.
fn ask(metrics: SocketAddr, requests: u64, asked: &AtomicU64) -> u64 {
    let hostile = [
        "GET /x HTTP/1.1\r\nContent-Length: 4611686018427387904\r\n\r\n".to_owned(),
        "POST /metrics HTTP/1.1\r\nContent-Length: 2000\r\n\r\n".to_owned(),
        "GET /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n"
            .to_owned(),
        format!("GET /{}", "x".repeat(100_000)),
        format!("GET /metrics HTTP/1.1\r\n{}", "a: b\r\n".repeat(5_000)),
        "GET /metrics HTTP/1.1\r\n\r\n".repeat(100),
        "GET".to_owned(),
        String::new(),
    ];
    let (mut open, mut answers) = (std::collections::VecDeque::new(), 0);
    for request in 0..requests {
        let mut stream = TcpStream::connect(metrics).expect("somebody listens");
        if request % 2 == 0 {
            let text = &hostile[(request / 2) as usize % hostile.len()];
            // The server may close the connection before all of it is written.
            let _ = stream.write_all(text.as_bytes());
            open.push_back(stream);
            if open.len() > OPEN_MAX {
                open.pop_front();
            }
        } else {
            let mut text = String::new();
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").expect("it is read");
            stream.read_to_string(&mut text).expect("it is answered");
            let is_whole = text.starts_with("HTTP/1.1 200 ") && text.ends_with("# EOF\n");
            answers += u64::from(is_whole);
        }
        asked.fetch_add(1, Ordering::Relaxed);
    }
    answers
}
