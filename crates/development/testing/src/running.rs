//! Starts a command, watches it with a deadline, and finds what it has left behind.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::DEADLINE;
use crate::marked::{Marked, command_lines, has, name_and_state};

/// A command that is about to be started.
pub struct Start {
    command: Command,
    mark: Marked,
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

impl Start {
    /// A command, which is used up. It cannot read, all that it writes is read, and it must end
    /// before the usual deadline.
    pub fn new(command: &mut Command) -> Start {
        let mut command = std::mem::replace(command, Command::new("true"));
        let mark = Marked::new();
        mark.put_on(&mut command).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let (reads, deadline) = (Reads::All, DEADLINE);
        Start { command, mark, reads, is_read: true, hears_errors: true, deadline }
    }

    /// Sets a variable of its environment.
    pub fn variable(mut self, name: &str, value: impl AsRef<OsStr>) -> Start {
        self.command.env(name, value);
        self
    }

    /// Starts it in a directory.
    pub fn directory(mut self, directory: &Path) -> Start {
        self.command.current_dir(directory);
        self
    }

    /// Closes the reading end of its standard output after the first piece.
    pub fn hang_up(mut self) -> Start {
        self.reads = Reads::OnePiece;
        self
    }

    /// Reads its standard output in small pieces, with pauses in between.
    pub fn slowly(mut self) -> Start {
        self.reads = Reads::Slowly;
        self
    }

    /// Reads nothing of its standard output until [`Running::read_on`].
    pub fn stall(mut self) -> Start {
        self.reads = Reads::Later;
        self
    }

    /// Gives it a standard output that nobody reads any more.
    pub fn unread(mut self) -> Start {
        self.is_read = false;
        self
    }

    /// Gives it a standard error that nobody reads any more.
    pub fn unheard(mut self) -> Start {
        self.hears_errors = false;
        self
    }

    /// Starts it with an input, which the test writes.
    pub fn start_with_input(mut self) -> (Running, ChildStdin) {
        self.command.stdin(Stdio::piped());
        let (running, input) = self.spawn();
        (running, input.expect("a pipe was asked for"))
    }

    /// Starts it.
    pub fn start(self) -> Running {
        self.spawn().0
    }

    /// Gives it more time.
    pub fn longer(mut self, time: Duration) -> Start {
        self.deadline += time;
        self
    }

    /// Runs it to its end.
    pub fn run(self) -> Finished {
        self.start().wait()
    }

    /// Runs it to its end, with this input.
    pub fn run_with_input(self, bytes: Vec<u8>) -> Finished {
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
pub struct Running {
    /// The process of the command itself.
    pub pid: Pid,
    mark: Marked,
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
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).expect("the command runs");
    }

    /// Waits until so many lines of standard output are this one.
    pub fn wait_for_lines(&mut self, line: &str, count: usize) {
        let found = |stdout: &[u8]| {
            stdout.split(|&byte| byte == b'\n').filter(|&one| one == line.as_bytes()).count()
        };
        while found(&self.stdout) < count {
            self.step(&format!("{count} lines {line:?}"));
        }
    }

    /// Waits until standard output has this in it.
    pub fn wait_until_prints(&mut self, words: &str) {
        self.wait_until_prints_times(words, 1);
    }

    /// Waits until standard output has this in it so many times.
    pub fn wait_until_prints_times(&mut self, words: &str, times: usize) {
        while String::from_utf8_lossy(&self.stdout).matches(words).count() < times {
            self.step(&format!("{times} times {words:?} on standard output"));
        }
    }

    /// Waits until standard error says this.
    pub fn wait_until_says(&mut self, words: &str) {
        while !String::from_utf8_lossy(&self.stderr).contains(words) {
            self.step(&format!("{words:?} on standard error"));
        }
    }

    /// What standard error has said so far.
    pub fn said(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Waits until standard error has said this so many times.
    pub fn wait_until_says_times(&mut self, words: &str, times: usize) {
        while String::from_utf8_lossy(&self.stderr).matches(words).count() < times {
            self.step(&format!("{times} times {words:?} on standard error"));
        }
    }

    /// Waits until the process of a rank has started, or the command has ended.
    pub fn wait_for_rank(&mut self, rank: u64) {
        while self.ranks(rank).is_empty() && !self.mark.pids().is_empty() {
            if Instant::now() >= self.expires {
                self.fail(&format!("no rank {rank}"));
            }
            // sleep: the system tells nobody but a parent when a process begins.
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Kills the process of a rank, as soon as there is one; false if the command has ended before.
    pub fn kill_rank(&mut self, rank: u64) -> bool {
        loop {
            self.wait_for_rank(rank);
            // One that has ended in the meantime was not killed.
            if self.ranks(rank).iter().any(|&pid| kill_process(pid, Signal::KILL).is_ok()) {
                return true;
            }
            if self.mark.pids().is_empty() {
                return false;
            }
        }
    }

    /// The command and all that it has started.
    pub fn processes(&self) -> Vec<Pid> {
        self.mark.pids()
    }

    fn ranks(&self, rank: u64) -> Vec<Pid> {
        self.mark
            .pids()
            .into_iter()
            .filter(|&pid| has(pid, "FARSIDE_RANK", &rank.to_string()))
            .collect()
    }

    /// Kills all processes that run a program, the last one first, but none of its ranks.
    pub fn kill_all_of(&self, program: &str) {
        let program = std::fs::canonicalize(program).expect("the command exists");
        let runs = |pid: &Pid| {
            std::fs::read_link(format!("/proc/{}/exe", pid.as_raw_nonzero()))
                .is_ok_and(|found| found == program)
        };
        let mut pids: Vec<Pid> = self.mark.pids().into_iter().filter(runs).collect();
        pids.sort_by_key(|pid| std::cmp::Reverse(pid.as_raw_nonzero()));
        assert!(pids.contains(&self.pid), "the command runs");
        for pid in pids {
            // Some of them end when others do.
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    /// Reads the output that [`Start::stall`] has left alone.
    pub fn read_on(&self) {
        self.reader.send(()).expect("somebody waits for this");
    }

    /// Waits until all processes of it have ended.
    pub fn wait_until_nothing_is_left(&mut self) {
        self.wait_until_left("end of all processes", <[Pid]>::is_empty);
    }

    /// Waits until the command itself is the only process that is left, but for the one that ends
    /// what it leaves behind.
    pub fn wait_until_alone(&mut self) {
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
    pub fn wait_until_runs(&mut self, name: &str, runs: bool) {
        self.wait_until_left(&format!("change of {name}"), |left| {
            let mut names = left.iter().filter_map(|&pid| name_and_state(pid));
            names.any(|(found, _)| found == name) == runs
        });
    }

    /// Waits until the command and so many shells of it are all stopped, or none of them is.
    pub fn wait_until_stopped(&mut self, shells: usize, stopped: bool) {
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
        while !holds(&self.mark.pids()) {
            if Instant::now() >= self.expires {
                self.fail(&format!("no {what}"));
            }
            // sleep: the system tells nobody but a parent when a process goes.
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits for the end of the command itself and of its output.
    pub fn wait_for_end(&mut self) {
        while self.status.is_none() || self.streams > 0 {
            self.step("end of the command");
        }
    }

    /// Waits for its end, and returns what is left of it.
    pub fn wait(mut self) -> Finished {
        self.wait_for_end();
        let left = command_lines(&self.mark.pids());
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
        let processes = command_lines(&self.mark.pids());
        let (stdout, stderr) = (excerpt(&self.stdout), excerpt(&self.stderr));
        let status = self.status;
        panic!(
            "{why}; status {status:?}, processes {processes:?}\nstdout: {stdout}\nstderr: {stderr}"
        );
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // What is gone already needs no ending, and what bears the mark goes with it.
        if self.status.is_none() {
            let _ = kill_process_group(self.pid, Signal::KILL);
        }
    }
}

/// What is left of a command that has ended, and what tests want of it.
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote to standard output.
    pub stdout: Vec<u8>,
    /// What it wrote to standard error.
    pub stderr: Vec<u8>,
    /// The processes that were there at the moment of its end.
    left: Vec<String>,
}

impl Finished {
    /// The text on standard output.
    pub fn stdout(&self) -> String {
        String::from_utf8(self.stdout.clone()).expect("standard output is text")
    }

    /// The text on standard error.
    pub fn stderr(&self) -> String {
        String::from_utf8(self.stderr.clone()).expect("standard error is text")
    }

    /// The lines of standard output.
    pub fn lines(&self) -> Vec<String> {
        self.stdout().lines().map(str::to_owned).collect()
    }

    /// Asserts that it ended with this status, and that nothing is left of it.
    pub fn ends_with(self, status: i32) -> Finished {
        let (stdout, stderr) = (excerpt(&self.stdout), excerpt(&self.stderr));
        assert_eq!(
            self.status.code(),
            Some(status),
            "{}\nstdout: {stdout}\nstderr: {stderr}",
            self.status
        );
        self.leaves_nothing()
    }

    /// Asserts that no process of it is left.
    pub fn leaves_nothing(self) -> Finished {
        assert_eq!(self.left, [] as [&str; 0], "processes are left");
        self
    }

    /// Asserts that it failed, that standard error says all of this, and that nothing is left.
    pub fn fails_with(self, words: &[&str]) -> Finished {
        assert!(!self.status.success(), "it did not fail; stdout: {}", excerpt(&self.stdout));
        assert_ne!(self.status.code(), Some(101), "it panicked: {}", excerpt(&self.stderr));
        self.says(words).leaves_nothing()
    }

    /// Asserts that standard error says all of this.
    pub fn says(self, words: &[&str]) -> Finished {
        let stderr = self.stderr();
        for word in words {
            assert!(stderr.contains(word), "{word:?} is not in {stderr:?}");
        }
        self
    }
}

fn excerpt(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(2000)]).into_owned()
}
