//! Starts the command, watches it with a deadline, and finds what it has left behind.
//!
//! Every process of a test bears a mark in its environment, which its children inherit: however
//! they move in the tree of processes, they are found, and none of them outlives the test.
#![allow(dead_code, unused_imports, reason = "each of the test programs uses another part of this")]

mod finished;
mod processes;
mod scratch;

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStdin, Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

pub(crate) use self::finished::Finished;
use self::finished::excerpt;
use self::processes::{marked, marked_pids, name_and_state};
pub(crate) use self::scratch::Scratch;

const DEADLINE: Duration = Duration::from_secs(60);
const DEADLINE_AFTER_KILL: Duration = Duration::from_secs(10);
const MARK: &str = "FARSIDE_TEST_MARK";

pub(crate) const FARSIDE: &str = env!("CARGO_BIN_EXE_farside");

/// Makes marks and directories differ within a test program.
static COUNT: AtomicU64 = AtomicU64::new(0);

fn unique() -> String {
    format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn farside<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Farside {
    prepared(listening(FARSIDE), arguments)
}

/// A program to which Ctrl-C means what it does at a terminal, although the tests may run in the
/// background of a shell, where it is ignored.
fn listening(program: &str) -> Command {
    // By its path: a test may leave the command without `PATH`.
    let mut command = Command::new("/usr/bin/env");
    command.args(["--default-signal=INT,QUIT", program]);
    command
}

/// The path of the test program that is running, for tests that are a program of their own.
pub(crate) fn own() -> String {
    std::env::current_exe().unwrap().into_os_string().into_string().unwrap()
}

/// The command `farside run OPTIONS THIS program WORDS`, where THIS is [`own`].
pub(crate) fn run_own(options: &[&str], words: &[&str]) -> Farside {
    let own = own();
    let command = ["run"].into_iter().chain(options.iter().copied());
    farside(command.chain([own.as_str(), "program"]).chain(words.iter().copied()))
}

/// Another launcher with these arguments, not yet started.
pub(crate) fn launcher<S: AsRef<OsStr>>(
    program: &str,
    arguments: impl IntoIterator<Item = S>,
) -> Farside {
    // Open MPI wants to be told twice before it starts anything for root.
    prepared(Command::new(program), arguments)
        .variable("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .variable("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
}

/// The command with these arguments, started by a shell that runs `shell` first: limits, traps,
/// redirections.
pub(crate) fn farside_after<S: AsRef<OsStr>>(
    shell: &str,
    arguments: impl IntoIterator<Item = S>,
) -> Farside {
    let mut command = listening("sh");
    command.args(["-c", &format!("{shell}; exec \"$0\" \"$@\""), FARSIDE]);
    prepared(command, arguments)
}

fn prepared<S: AsRef<OsStr>>(
    mut command: Command,
    arguments: impl IntoIterator<Item = S>,
) -> Farside {
    let mark = unique();
    // What the caller has set for jobs of its own must not change the tests.
    for (name, _) in
        std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("FARSIDE_"))
    {
        command.env_remove(name);
    }
    command.args(arguments).env(MARK, &mark).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (reads, deadline) = (Reads::All, DEADLINE);
    Farside { command, mark, reads, is_read: true, hears_errors: true, deadline }
}

/// `farside run` with these options, each rank of which is a shell that runs `script`.
pub(crate) fn shells(options: &[&str], script: &str) -> Farside {
    farside(["run"].iter().chain(options).chain(&["sh", "-c", script]))
}

/// A command that is about to be started.
pub(crate) struct Farside {
    command: Command,
    mark: String,
    reads: Reads,
    is_read: bool,
    hears_errors: bool,
    deadline: Duration,
}

/// How much of standard output the test reads.
enum Reads {
    All,
    /// A first piece, after which it closes its end.
    OnePiece,
    Slowly,
    /// Nothing, until [`Running::read_on`].
    Later,
}

impl Farside {
    pub(crate) fn variable(mut self, name: &str, value: impl AsRef<OsStr>) -> Farside {
        self.command.env(name, value);
        self
    }

    pub(crate) fn directory(mut self, directory: &Path) -> Farside {
        self.command.current_dir(directory);
        self
    }

    /// Closes the reading end of its standard output after the first piece.
    pub(crate) fn hang_up(mut self) -> Farside {
        self.reads = Reads::OnePiece;
        self
    }

    /// Reads its standard output in small pieces, with pauses in between.
    pub(crate) fn slowly(mut self) -> Farside {
        self.reads = Reads::Slowly;
        self
    }

    /// Reads nothing of its standard output until [`Running::read_on`].
    pub(crate) fn stall(mut self) -> Farside {
        self.reads = Reads::Later;
        self
    }

    /// Gives it a standard output that nobody reads any more.
    pub(crate) fn unread(mut self) -> Farside {
        self.is_read = false;
        self
    }

    /// Gives it a standard error that nobody reads any more.
    pub(crate) fn unheard(mut self) -> Farside {
        self.hears_errors = false;
        self
    }

    pub(crate) fn start_with_input(mut self) -> (Running, ChildStdin) {
        self.command.stdin(Stdio::piped());
        let (running, input) = self.spawn();
        (running, input.expect("a pipe was asked for"))
    }

    pub(crate) fn start(self) -> Running {
        self.spawn().0
    }

    pub(crate) fn longer(mut self, time: Duration) -> Farside {
        self.deadline += time;
        self
    }

    pub(crate) fn run(self) -> Finished {
        self.start().wait()
    }

    pub(crate) fn run_with_input(self, bytes: Vec<u8>) -> Finished {
        let (running, mut input) = self.start_with_input();
        // A command need not read all that it is offered: a pipe that it has closed is no fault of
        // it.
        std::thread::spawn(move || drop(input.write_all(&bytes)));
        running.wait()
    }

    fn spawn(mut self) -> (Running, Option<ChildStdin>) {
        let nobody_reads = || std::io::pipe().expect("a pipe can be made").1;
        if !self.is_read {
            self.command.stdout(nobody_reads());
        }
        if !self.hears_errors {
            self.command.stderr(nobody_reads());
        }
        let mut child = self.command.spawn().expect("the command starts");
        // The command holds copies of what it was given, which would keep a pipe open.
        drop(self.command);
        let (sender, events) = channel();
        let (reader, wait_to_read) = channel();
        let mut streams = 0;
        if let Some(stdout) = child.stdout.take() {
            let (reads, to) = (self.reads, sender.clone());
            std::thread::spawn(move || {
                // The other end goes with the test, if it is not told to read on before.
                if matches!(reads, Reads::Later) && wait_to_read.recv().is_err() {
                    return;
                }
                pass_on(stdout, &reads, Event::Stdout, &to);
            });
            streams += 1;
        }
        if let Some(stderr) = child.stderr.take() {
            let to = sender.clone();
            std::thread::spawn(move || pass_on(stderr, &Reads::All, Event::Stderr, &to));
            streams += 1;
        }
        let (pid, input) = (Pid::from_child(&child), child.stdin.take());
        std::thread::spawn(move || {
            let status = child.wait().expect("a child can be waited for");
            // Nobody listens any more only after a failure.
            let _ = sender.send(Event::Ended(status));
        });
        let expires = Instant::now() + self.deadline;
        let (stdout, stderr) = (Vec::new(), Vec::new());
        (
            Running {
                pid,
                mark: self.mark,
                reader,
                events,
                expires,
                stdout,
                stderr,
                status: None,
                streams,
            },
            input,
        )
    }
}

enum Event {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    Closed,
    Ended(ExitStatus),
}

fn pass_on(mut pipe: impl Read, reads: &Reads, event: fn(Vec<u8>) -> Event, to: &Sender<Event>) {
    let is_slow = matches!(reads, Reads::Slowly);
    let mut buffer = vec![0; if is_slow { 8 * 1024 } else { 64 * 1024 }];
    while let Ok(count @ 1..) = pipe.read(&mut buffer) {
        if to.send(event(buffer[..count].to_vec())).is_err() || matches!(reads, Reads::OnePiece) {
            break;
        }
        if is_slow {
            // sleep: so slow is the reader.
            std::thread::sleep(Duration::from_millis(150));
        }
    }
    drop(pipe);
    // Nobody listens any more only after a failure.
    let _ = to.send(Event::Closed);
}

/// A command that was started. Dropped before its end, it is killed with everything that it has
/// started.
pub(crate) struct Running {
    pub(crate) pid: Pid,
    mark: String,
    /// Tells the reader of standard output to begin, if it waits.
    reader: Sender<()>,
    events: Receiver<Event>,
    expires: Instant,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    status: Option<ExitStatus>,
    streams: u32,
}

impl Running {
    /// Sends a signal to the command itself.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).expect("the command runs");
    }

    /// Waits until so many lines of standard output are this one.
    pub(crate) fn wait_for_lines(&mut self, line: &str, count: usize) {
        let found = |stdout: &[u8]| {
            stdout.split(|&byte| byte == b'\n').filter(|&one| one == line.as_bytes()).count()
        };
        while found(&self.stdout) < count {
            self.step(&format!("{count} lines {line:?}"));
        }
    }

    /// Waits until standard output has this in it.
    pub(crate) fn wait_until_prints(&mut self, words: &str) {
        self.wait_until_prints_times(words, 1);
    }

    pub(crate) fn wait_until_prints_times(&mut self, words: &str, times: usize) {
        while String::from_utf8_lossy(&self.stdout).matches(words).count() < times {
            self.step(&format!("{times} times {words:?} on standard output"));
        }
    }

    /// Waits until standard error says this.
    pub(crate) fn wait_until_says(&mut self, words: &str) {
        while !String::from_utf8_lossy(&self.stderr).contains(words) {
            self.step(&format!("{words:?} on standard error"));
        }
    }

    /// What standard error has said so far.
    pub(crate) fn said(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    pub(crate) fn wait_until_says_times(&mut self, words: &str, times: usize) {
        while String::from_utf8_lossy(&self.stderr).matches(words).count() < times {
            self.step(&format!("{times} times {words:?} on standard error"));
        }
    }

    /// Waits until the process of a rank has started, or the command has ended.
    pub(crate) fn wait_for_rank(&mut self, rank: u64) {
        while self.ranks(rank).is_empty() && !marked_pids(&self.mark).is_empty() {
            if Instant::now() >= self.expires {
                self.fail(&format!("no rank {rank}"));
            }
            // sleep: the system tells nobody but a parent when a process begins.
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Kills the process of a rank, as soon as there is one; false if the command has ended before.
    pub(crate) fn kill_rank(&mut self, rank: u64) -> bool {
        loop {
            self.wait_for_rank(rank);
            // One that has ended in the meantime was not killed.
            if self.ranks(rank).iter().any(|&pid| kill_process(pid, Signal::KILL).is_ok()) {
                return true;
            }
            if marked_pids(&self.mark).is_empty() {
                return false;
            }
        }
    }

    /// The command and all that it has started.
    pub(crate) fn processes(&self) -> Vec<Pid> {
        marked_pids(&self.mark)
    }

    fn ranks(&self, rank: u64) -> Vec<Pid> {
        let wanted = format!("FARSIDE_RANK={rank}");
        let is_it = |pid: &Pid| {
            let environment = std::fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero()))
                .unwrap_or_default();
            environment.split(|&byte| byte == 0).any(|variable| variable == wanted.as_bytes())
        };
        marked_pids(&self.mark).into_iter().filter(is_it).collect()
    }

    /// Kills the command and its helper processes that run the same program, the last one first,
    /// but none of the ranks.
    pub(crate) fn kill_all_of_the_program(&self) {
        let program = std::fs::canonicalize(FARSIDE).expect("the command exists");
        let runs = |pid: &Pid| {
            std::fs::read_link(format!("/proc/{}/exe", pid.as_raw_nonzero()))
                .is_ok_and(|found| found == program)
        };
        let mut pids: Vec<Pid> = marked_pids(&self.mark).into_iter().filter(runs).collect();
        pids.sort_by_key(|pid| std::cmp::Reverse(pid.as_raw_nonzero()));
        assert!(pids.contains(&self.pid), "the command runs");
        for pid in pids {
            // Some of them end when others do.
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    pub(crate) fn read_on(&self) {
        self.reader.send(()).expect("somebody waits for this");
    }

    pub(crate) fn wait_until_nothing_is_left(&mut self) {
        self.wait_until_left("end of all processes", <[Pid]>::is_empty);
    }

    /// Waits until the command itself is the only process that is left, but for the one that ends
    /// what it leaves behind.
    pub(crate) fn wait_until_alone(&mut self) {
        let pid = self.pid;
        let is_keeper = |pid: Pid| {
            let path = format!("/proc/{}/cmdline", pid.as_raw_nonzero());
            std::fs::read(path).is_ok_and(|words| words.ends_with(b"\0__keep\0"))
        };
        self.wait_until_left("end of all ranks", |left| {
            left.contains(&pid) && left.iter().all(|&left| left == pid || is_keeper(left))
        });
    }

    /// Waits until a process of this name runs, or none does.
    pub(crate) fn wait_until_runs(&mut self, name: &str, runs: bool) {
        self.wait_until_left(&format!("change of {name}"), |left| {
            let mut names = left.iter().filter_map(|&pid| name_and_state(pid));
            names.any(|(found, _)| found == name) == runs
        });
    }

    /// Waits until the command and so many shells of it are all stopped, or none of them is.
    pub(crate) fn wait_until_stopped(&mut self, shells: usize, stopped: bool) {
        let pid = self.pid;
        self.wait_until_left("change of state", |left| {
            let all: Vec<(String, char)> =
                left.iter().filter_map(|&pid| name_and_state(pid)).collect();
            let named = all.iter().filter(|(name, _)| name == "sh");
            let own = name_and_state(pid).map(|(_, state)| state == 'T');
            // A shell that starts a program shares its memory with the child until that is one: the
            // child is stopped as a shell, and its parent sleeps without a look at signals.
            let fits = |state: char| if stopped { "TD".contains(state) } else { state != 'T' };
            named.clone().count() >= shells
                && named.clone().all(|(_, state)| fits(*state))
                && own == Some(stopped)
        });
    }

    fn wait_until_left(&mut self, what: &str, holds: impl Fn(&[Pid]) -> bool) {
        while !holds(&marked_pids(&self.mark)) {
            if Instant::now() >= self.expires {
                self.fail(&format!("no {what}"));
            }
            // sleep: the system tells nobody but a parent when a process goes.
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn wait(mut self) -> Finished {
        while self.status.is_none() || self.streams > 0 {
            self.step("end of the command");
        }
        let left = marked(&self.mark);
        let status = self.status.expect("it has ended");
        let text = |bytes: &mut Vec<u8>| std::mem::take(bytes);
        Finished { status, stdout: text(&mut self.stdout), stderr: text(&mut self.stderr), left }
    }

    fn step(&mut self, what: &str) {
        let left = self.expires.saturating_duration_since(Instant::now());
        match self.events.recv_timeout(left) {
            Ok(Event::Stdout(bytes)) => self.stdout.extend(bytes),
            Ok(Event::Stderr(bytes)) => self.stderr.extend(bytes),
            Ok(Event::Closed) => self.streams -= 1,
            Ok(Event::Ended(status)) => self.status = Some(status),
            Err(_) => self.fail(&format!("no {what}")),
        }
    }

    fn fail(&mut self, why: &str) -> ! {
        let processes = marked(&self.mark);
        self.end_everything();
        let (stdout, stderr) = (excerpt(&self.stdout), excerpt(&self.stderr));
        let status = self.status;
        panic!(
            "{why}; status {status:?}, processes {processes:?}\nstdout: {stdout}\nstderr: {stderr}"
        );
    }

    fn end_everything(&self) {
        // What is gone already needs no ending.
        if self.status.is_none() {
            let _ = kill_process_group(self.pid, Signal::KILL);
        }
        let start = Instant::now();
        let mut marked = marked_pids(&self.mark);
        while !marked.is_empty() && start.elapsed() < DEADLINE_AFTER_KILL {
            for pid in marked {
                let _ = kill_process(pid, Signal::KILL);
            }
            marked = marked_pids(&self.mark);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end_everything();
    }
}

/// The line of the launcher about ranks that this signal has ended.
pub(crate) fn ended(ranks: &str, signal: i32) -> String {
    let how = farside_fabric::ExitCause::Signal(signal).to_string();
    let how = if ranks.starts_with("ranks") { how.replacen("was", "were", 1) } else { how };
    format!("farside: {ranks} {how}\n")
}

pub(crate) fn sorted(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// How many tests run at once where there is no harness: most of them wait.
const AT_ONCE: usize = 4;

/// Runs the tests that the arguments of a test program without a harness choose.
pub(crate) fn run_tests(tests: &[(&str, fn())], words: &[String]) -> ExitCode {
    if words.iter().any(|word| word == "--list") {
        tests.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let filter = words.iter().find(|word| !word.starts_with('-'));
    let is_chosen = |name: &str| filter.is_none_or(|filter| name.contains(filter.as_str()));
    let chosen: Vec<_> = tests.iter().filter(|(name, _)| is_chosen(name)).collect();
    let (next, failures) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((name, test)) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let is_well = std::panic::catch_unwind(test).is_ok();
                    println!("test {name} ... {}", if is_well { "ok" } else { "FAILED" });
                    failures.fetch_add(usize::from(!is_well), Ordering::Relaxed);
                }
            });
        }
    });
    let failed = failures.into_inner();
    println!("test result: {} passed; {failed} failed", chosen.len() - failed);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
