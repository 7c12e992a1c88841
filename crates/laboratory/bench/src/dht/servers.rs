//! The rivals: Redis and memcached, started here on a private socket, and ended when they were
//! measured.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process_group};

use super::Plan;
use super::mix::{Mix, STEPS, Step};
use crate::driver::sample;
use crate::rivals::Rival;

const PIPELINE: usize = 64;
/// How long a server may take to start, and an answer to come.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs a plan with as many clients as there would be ranks.
pub(super) fn run(plan: &Plan, rival: Rival, clients: u32, program: &Path) -> Result<String> {
    let server = Server::start(rival, program)?;
    server.load(plan.keys)?;
    let mut samples = Vec::new();
    for (case, _) in plan.runs() {
        for (name, depth) in [("single", 1), ("pipelined", PIPELINE)] {
            let (operations, took_ns) = measure(&server, plan, case, clients, depth)?;
            let per_s = operations as f64 * 1e9 / took_ns as f64;
            let ns = took_ns as f64 * f64::from(clients) / operations.max(1) as f64;
            samples.push(sample(
                case,
                &[&"-", &name],
                &[Some(ns), Some(per_s), Some(took_ns as f64)],
            ));
        }
    }
    Ok(samples.join("\n"))
}

/// How much all clients have done, and how long it took.
fn measure(
    server: &Server,
    plan: &Plan,
    case: &str,
    clients: u32,
    depth: usize,
) -> Result<(u64, u64)> {
    let barrier = std::sync::Barrier::new(clients as usize);
    let client = |rank: u32| -> Result<(u64, u64)> {
        let mut client = server.connect();
        let steps = Mix::new(case, None, plan.keys, rank).steps(STEPS);
        let mut steps = steps.iter().copied().cycle();
        // All come, also those who have failed.
        barrier.wait();
        let client = client.as_mut().map_err(|error| anyhow::anyhow!("{error:#}"))?;
        let begin = Instant::now();
        let mut done = 0;
        while begin.elapsed() < plan.time {
            client.exchange(steps.by_ref().take(depth))?;
            done += depth as u64;
        }
        Ok((done, begin.elapsed().as_nanos() as u64))
    };
    let results: Vec<Result<(u64, u64)>> = std::thread::scope(|threads| {
        let handles: Vec<_> =
            (0..clients).map(|rank| threads.spawn(move || client(rank))).collect();
        let ended = |handle: std::thread::ScopedJoinHandle<'_, Result<(u64, u64)>>| {
            handle.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a client panicked")))
        };
        handles.into_iter().map(ended).collect()
    });
    let results: Vec<(u64, u64)> = results.into_iter().collect::<Result<_>>()?;
    Ok((
        results.iter().map(|(done, _)| done).sum(),
        results.iter().map(|(_, took)| *took).max().unwrap_or(1),
    ))
}

/// A server on a private socket; it ends with this, or with the command.
struct Server {
    rival: Rival,
    child: Child,
    /// Ends the server if the command is killed.
    keeper: Child,
    directory: tempfile::TempDir,
}

impl Server {
    fn start(rival: Rival, program: &Path) -> Result<Server> {
        // Nobody else can have made it, or looks into it.
        let directory = tempfile::tempdir().context("cannot make a directory for a server")?;
        let socket = directory.path().join("socket");
        let mut command = match rival {
            Rival::Redis => {
                let mut command = Command::new("redis-server");
                command
                    .args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"])
                    .arg(&socket);
                command
            }
            Rival::Memcached => {
                let mut command = Command::new("memcached");
                command.args(["-u", "root", "-m", "512", "-s"]).arg(&socket);
                command
            }
            other => bail!("{} is not a server", other.name()),
        };
        let mut keeper = Command::new(program)
            .arg("__keep")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("cannot start a keeper")?;
        let started = command
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        let child = match started {
            Ok(child) => child,
            Err(error) => {
                // It has nobody to end: the end of its input is all it waits for.
                drop(keeper.stdin.take());
                let _ = keeper.wait();
                let package = if rival == Rival::Redis { "redis-server" } else { "memcached" };
                bail!("cannot start {package} ({error}); on Debian: apt-get install {package}");
            }
        };
        if let Some(stdin) = &mut keeper.stdin {
            writeln!(stdin, "{}", child.id()).context("cannot tell the keeper")?;
        }
        let server = Server { rival, child, keeper, directory };
        server.await_socket()?;
        Ok(server)
    }

    fn await_socket(&self) -> Result<()> {
        let begin = Instant::now();
        while UnixStream::connect(self.directory.path().join("socket")).is_err() {
            ensure!(
                begin.elapsed() < PATIENCE,
                "{} does not listen after {} s",
                self.rival.name(),
                PATIENCE.as_secs()
            );
            std::thread::yield_now();
        }
        Ok(())
    }

    fn connect(&self) -> Result<Client> {
        let stream = UnixStream::connect(self.directory.path().join("socket"))
            .with_context(|| self.rival.name())?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Client {
            rival: self.rival,
            reader: BufReader::new(stream.try_clone()?),
            stream,
            requests: Vec::new(),
            line: Vec::new(),
        })
    }

    fn load(&self, keys: u64) -> Result<()> {
        let mut client = self.connect()?;
        let all: Vec<u64> = (0..keys).collect();
        all.chunks(PIPELINE)
            .try_for_each(|keys| client.exchange(keys.iter().map(|&key| Step::Insert(key))))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let group = Pid::from_child(&self.child);
        // If the group is gone, that is what was wanted.
        let _ = kill_process_group(group, Signal::KILL);
        let _ = self.child.wait();
        if let Some(mut stdin) = self.keeper.stdin.take() {
            let _ = stdin.write_all(b"done");
        }
        let _ = self.keeper.wait();
    }
}

/// A connection. Values are decimal numbers, which both servers can count up.
struct Client {
    rival: Rival,
    stream: UnixStream,
    reader: BufReader<UnixStream>,
    requests: Vec<u8>,
    line: Vec<u8>,
}

impl Client {
    /// Sends requests together, and reads all answers.
    fn exchange(&mut self, steps: impl Iterator<Item = Step>) -> Result<()> {
        self.requests.clear();
        let mut sent = Vec::new();
        for step in steps {
            match self.rival {
                Rival::Redis => redis(&mut self.requests, step),
                _ => memcached(&mut self.requests, step),
            }?;
            sent.push(step);
        }
        self.stream.write_all(&self.requests)?;
        sent.into_iter().try_for_each(|step| match self.rival {
            Rival::Redis => self.redis_answer(),
            _ => self.memcached_answer(step),
        })
    }

    fn line(&mut self) -> Result<()> {
        self.line.clear();
        self.reader.read_until(b'\n', &mut self.line)?;
        ensure!(self.line.ends_with(b"\r\n"), "{} closed the connection", self.rival.name());
        Ok(())
    }

    fn bulk(&mut self, len: usize) -> Result<()> {
        self.line.resize(len + 2, 0);
        self.reader.read_exact(&mut self.line)?;
        Ok(())
    }

    fn redis_answer(&mut self) -> Result<()> {
        self.line()?;
        let text = String::from_utf8_lossy(&self.line).trim_end().to_owned();
        match self.line[0] {
            b'+' | b':' => Ok(()),
            b'$' if text == "$-1" => Ok(()),
            b'$' => self.bulk(text[1..].parse().with_context(|| text.clone())?),
            _ => bail!("redis says {text:?}"),
        }
    }

    fn memcached_answer(&mut self, step: Step) -> Result<()> {
        self.line()?;
        let text = String::from_utf8_lossy(&self.line).trim_end().to_owned();
        match (step, text.split(' ').next()) {
            (Step::Get(_), Some("END")) | (Step::Insert(_), Some("STORED")) => Ok(()),
            (Step::Get(_), Some("VALUE")) => {
                let len = text.rsplit(' ').next().and_then(|len| len.parse().ok());
                self.bulk(len.with_context(|| text.clone())?)?;
                self.line()
            }
            (Step::Modify(_), Some(number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                Ok(())
            }
            _ => bail!("memcached says {text:?}"),
        }
    }
}

fn redis(to: &mut Vec<u8>, step: Step) -> std::io::Result<()> {
    let bulk = |key: u64| {
        let text = key.to_string();
        format!("${}\r\n{text}\r\n", text.len())
    };
    match step {
        Step::Get(key) => write!(to, "*2\r\n$3\r\nGET\r\n{}", bulk(key)),
        Step::Insert(key) => write!(to, "*3\r\n$3\r\nSET\r\n{}$1\r\n1\r\n", bulk(key)),
        Step::Modify(key) => write!(to, "*2\r\n$4\r\nINCR\r\n{}", bulk(key)),
    }
}

fn memcached(to: &mut Vec<u8>, step: Step) -> std::io::Result<()> {
    match step {
        Step::Get(key) => write!(to, "get {key}\r\n"),
        Step::Insert(key) => write!(to, "set {key} 0 0 1\r\n1\r\n"),
        Step::Modify(key) => write!(to, "incr {key} 1\r\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_as_the_servers_want_them() {
        let mut text = Vec::new();
        for step in [Step::Get(12), Step::Insert(3), Step::Modify(4)] {
            redis(&mut text, step).unwrap();
            memcached(&mut text, step).unwrap();
        }
        let expected = "*2\r\n$3\r\nGET\r\n$2\r\n12\r\nget 12\r\n*3\r\n$3\r\nSET\r\n$1\r\n3\r\n\
                        $1\r\n1\r\nset 3 0 0 1\r\n1\r\n*2\r\n$4\r\nINCR\r\n$1\r\n4\r\nincr 4 1\r\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}
