//! The processes of a test, wherever they are in the tree: each bears a mark in its environment,
//! which its children inherit, and none of them outlives the test.

use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::unique;

/// How long processes that were killed may take to go.
const DEADLINE_AFTER_KILL: Duration = Duration::from_secs(10);

/// The variable that marks the processes of a test.
pub const MARK: &str = "FARSIDE_TEST_MARK";

/// Processes that bear a mark, which end with this.
pub struct Marked(pub String);

impl Marked {
    /// A new mark, which nobody bears yet.
    #[allow(clippy::new_without_default, reason = "no two are equal")]
    pub fn new() -> Marked {
        Marked(unique())
    }

    /// Marks what a command starts.
    pub fn put_on<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env(MARK, &self.0)
    }

    /// Returns all that there are.
    pub fn pids(&self) -> Vec<Pid> {
        pids_with(MARK, &self.0)
    }
}

impl Drop for Marked {
    fn drop(&mut self) {
        let start = Instant::now();
        let mut pids = self.pids();
        while !pids.is_empty() && start.elapsed() < DEADLINE_AFTER_KILL {
            for pid in pids {
                let _ = kill_process(pid, Signal::KILL);
            }
            pids = self.pids();
        }
    }
}

/// Returns the processes that have a value of a variable in their environment.
pub fn pids_with(variable: &str, value: &str) -> Vec<Pid> {
    let entries = std::fs::read_dir("/proc").expect("/proc is there").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(Pid::from_raw).filter(|&pid| has(pid, variable, value)).collect()
}

/// Whether a process has a value of a variable in its environment.
pub(crate) fn has(pid: Pid, variable: &str, value: &str) -> bool {
    let wanted = format!("{variable}={value}");
    let environment = std::fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero()));
    let environment = environment.unwrap_or_default();
    environment.split(|&byte| byte == 0).any(|variable| variable == wanted.as_bytes())
}

/// What a process is called, and the letter for its state.
pub(crate) fn name_and_state(pid: Pid) -> Option<(String, char)> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
    Some((name.to_owned(), rest.trim_start().chars().next()?))
}

/// The command lines of processes.
pub(crate) fn command_lines(pids: &[Pid]) -> Vec<String> {
    let line = |pid: &Pid| {
        let pid = pid.as_raw_nonzero();
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        format!("{pid}: {}", String::from_utf8_lossy(&line).replace('\0', " ").trim_end())
    };
    pids.iter().map(line).collect()
}
