//! What each rank of `farside bench sharing` runs.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use farside::{Error, Rank, Result, Window, World};
use hdrhistogram::Histogram;

use super::{
    BESIDE_BULK, BESIDE_TCP, BULK_BYTES, FAIR, GET_LOSSY, GET_RELAYED, PUT_LOSSY, PUT_RELAYED, Plan,
};
use crate::driver::sample;
use crate::link::throughput;
use crate::timing::Percentiles;

/// Port 5201 of a socket, and the other end of one that listens, as the system's tables show them.
const LISTENING: &str = ":1451 00000000";
/// How long `iperf3` may take to start.
const START: Duration = Duration::from_secs(10);

/// Runs a plan as a rank; rank 0 returns its sample.
pub(super) fn run(world: &World, plan: &Plan) -> Result<Vec<String>> {
    let half = world.size().div_ceil(2);
    let job = Job {
        world,
        bulk: world.window(plan.bytes.max(BULK_BYTES))?,
        word: world.window(1)?,
        // A rank of the first node has its own target on the second.
        target: Rank(world.rank().0 + half),
    };
    let me = world.rank();
    let is_sender = job.target.0 < world.size();
    let server = match plan.case.as_str() {
        BESIDE_TCP if me == Rank(half) => Some(Stream::serve()?),
        _ => None,
    };
    // Whatever is touched first is touched before.
    if is_sender {
        job.put(&vec![1; plan.bytes])?;
    }
    world.barrier()?;
    let (mut small, mut bytes_per_s) = (None, 0.0);
    match plan.case.as_str() {
        BESIDE_BULK if me == Rank(1) => bytes_per_s = job.puts(plan)?,
        FAIR if is_sender => bytes_per_s = job.puts(plan)?,
        BESIDE_TCP if me == Rank(0) => {
            let stream = Stream::send(plan)?;
            bytes_per_s = job.puts(plan)?;
            small = stream.bytes_per_s()?;
        }
        PUT_RELAYED | PUT_LOSSY if me == Rank(0) => bytes_per_s = job.puts(plan)?,
        GET_RELAYED | GET_LOSSY if me == Rank(0) => bytes_per_s = job.gets(plan)?,
        FAIR | BESIDE_TCP => {}
        _ if me == Rank(0) => small = job.small(plan.time)?,
        _ => {}
    }
    world.barrier()?;
    drop(server);
    let mut rates = world.all_gather(&[bytes_per_s])?;
    rates.retain(|&rate| rate > 0.0);
    job.bulk.free(world)?;
    job.word.free(world)?;
    if me != Rank(0) {
        return Ok(Vec::new());
    }
    Ok(vec![told(plan, small, &rates)])
}

/// What rank 0 has found beside the rates of long transfers.
#[derive(Clone, Copy)]
enum Small {
    Times(Percentiles),
    Stream(f64),
}

fn told(plan: &Plan, small: Option<Small>, rates: &[f64]) -> String {
    let times = match small {
        Some(Small::Times(times)) => Some(times),
        _ => None,
    };
    let mut shares = rates.to_vec();
    if let Some(Small::Stream(rate)) = small {
        shares.push(rate);
    }
    let total = (!rates.is_empty()).then(|| rates.iter().sum());
    let figures =
        [times.map(|times| times.p50_ns), times.map(|times| times.p99_ns), total, jain(&shares)];
    sample(&plan.case, &[&plan.bytes], &figures)
}

/// Jain's index of fairness: 1 if all have the same, 1 of n if one has all.
fn jain(shares: &[f64]) -> Option<f64> {
    let (sum, squares): (f64, f64) = (shares.iter().sum(), shares.iter().map(|x| x * x).sum());
    (shares.len() > 1 && squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

struct Job<'w> {
    world: &'w World,
    bulk: Window<u8>,
    word: Window<u64>,
    target: Rank,
}

impl Job<'_> {
    /// One long put, complete at its target.
    fn put(&self, data: &[u8]) -> Result<()> {
        self.world.put(data, self.bulk.at(self.target, 0))?;
        self.world.flush(self.target)
    }

    /// Long puts; returns bytes a second.
    fn puts(&self, plan: &Plan) -> Result<f64> {
        let data = vec![1u8; plan.bytes];
        rate(plan, || self.put(&data))
    }

    /// Long gets; returns bytes a second.
    fn gets(&self, plan: &Plan) -> Result<f64> {
        let mut data = vec![0u8; plan.bytes];
        rate(plan, || self.world.get(self.bulk.at(self.target, 0), &mut data))
    }

    /// Operations on one word, each timed, for so long.
    fn small(&self, time: Duration) -> Result<Option<Small>> {
        let mut times = Histogram::<u64>::new(3).expect("a histogram may keep three digits");
        let begin = Instant::now();
        let mut before = begin;
        while before - begin < time {
            self.world.fetch_add(self.word.at(self.target, 0), 1)?;
            let now = Instant::now();
            let took_ns = (now - before).as_nanos() as u64;
            times.record(took_ns).expect("the histogram grows with its values");
            before = now;
        }
        Ok(Percentiles::of(&times).map(Small::Times))
    }
}

/// Repeats a long transfer for as long as the plan says; returns bytes a second.
fn rate(plan: &Plan, mut transfer: impl FnMut() -> Result<()>) -> Result<f64> {
    let (begin, mut count) = (Instant::now(), 0);
    while begin.elapsed() < plan.time {
        transfer()?;
        count += 1;
    }
    Ok((count * plan.bytes) as f64 / begin.elapsed().as_secs_f64())
}

/// One end of a TCP stream by `iperf3`, which ends with it.
struct Stream(Child);

impl Stream {
    /// Returns when it listens. Nothing says so but the system: a connection to see would be the
    /// only one that it takes.
    fn serve() -> Result<Stream> {
        let stream = Stream::start(&["--server", "--one-off"], Stdio::null())?;
        let listens = |table: &str| {
            let text = std::fs::read_to_string(table).unwrap_or_default();
            text.lines().any(|line| line.contains(LISTENING))
        };
        let begin = Instant::now();
        while !listens("/proc/net/tcp") && !listens("/proc/net/tcp6") {
            if begin.elapsed() > START {
                return Err(Error::Program("iperf3 does not listen; is it installed?".into()));
            }
            // sleep: another process starts, and says nowhere that it has.
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(stream)
    }

    /// Sends for a little longer than the plan says, so that what is measured is beside it.
    fn send(plan: &Plan) -> Result<Stream> {
        let address = plan.second.map(|address| address.to_string()).unwrap_or_default();
        let seconds = (plan.time.as_secs() + 1).to_string();
        let words = ["--client", &address, "--json", "--time", &seconds];
        Stream::start(&words, Stdio::piped())
    }

    fn start(words: &[&str], out: Stdio) -> Result<Stream> {
        let mut command = Command::new("iperf3");
        command.args(words).stdin(Stdio::null()).stdout(out).stderr(Stdio::null());
        command.spawn().map(Stream).map_err(|error| failed(&error))
    }

    /// Waits for its end.
    fn bytes_per_s(mut self) -> Result<Option<Small>> {
        let mut text = String::new();
        if let Some(out) = &mut self.0.stdout {
            std::io::Read::read_to_string(out, &mut text).map_err(|error| failed(&error))?;
        }
        match throughput(&text) {
            Ok(rate) => Ok(Some(Small::Stream(rate))),
            Err(error) => Err(Error::Program(format!("iperf3 failed: {error:#}"))),
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn failed(error: &std::io::Error) -> Error {
    Error::Program(format!("iperf3 cannot be run: {error}; install iperf3"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fairness_is_between_all_and_one() {
        assert_eq!(jain(&[2.0, 2.0, 2.0]), Some(1.0));
        assert_eq!(jain(&[3.0, 0.0, 0.0]), Some(1.0 / 3.0));
        assert_eq!((jain(&[1.0]), jain(&[0.0, 0.0])), (None, None));
    }
}
