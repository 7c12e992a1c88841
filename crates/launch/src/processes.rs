//! The processes of a job: starting them, and making sure that they are gone.

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use farside::Rank;
use farside::job::Host;
use rustix::io::FdFlags;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};

use crate::{Error, Launch, system};

/// A rank's process.
pub(crate) struct Process {
    pub(crate) rank: Rank,
    pub(crate) child: Child,
    /// Becomes readable when the process ends.
    pub(crate) handle: OwnedFd,
}

/// Starts one rank, in `group` if there is one already, else as the first of a new group.
pub(crate) fn start(launch: &Launch, host: &Host, rank: Rank, group: Option<Pid>) -> Result<Process, Error> {
    let file = host.file(rank).as_raw_fd();
    let mut command = Command::new(&launch.program);
    command
        .args(&launch.arguments)
        .envs(launch.environment.iter().map(|(name, value)| (name, value)))
        .envs(host.environment(rank, file))
        .stdin(if launch.interactive && rank == Rank(0) { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(group.map_or(0, |group| group.as_raw_nonzero().get()));
    if let Some(directory) = &launch.directory {
        command.current_dir(directory);
    }
    let parent = rustix::process::getpid();
    let prepare = move || {
        // The job's file is inherited by ranks and by nobody else.
        // SAFETY: the file is open: the launcher holds it for longer than it starts processes.
        let file = unsafe { std::os::fd::BorrowedFd::borrow_raw(file) };
        rustix::io::fcntl_setfd(file, FdFlags::empty())?;
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // A launcher that died before this line will not be noticed by the line before.
        if rustix::process::getppid() != Some(parent) {
            return Err(std::io::Error::other("the launcher is gone"));
        }
        Ok(())
    };
    // SAFETY: between fork and exec only system calls are made, no memory is allocated and no lock is taken.
    unsafe { command.pre_exec(prepare) };
    let child = command.spawn().map_err(|error| Error::Start { program: launch.program.clone(), rank, error })?;
    let handle = rustix::process::pidfd_open(pid(&child), PidfdFlags::empty()).map_err(system("pidfd_open"))?;
    Ok(Process { rank, child, handle })
}

pub(crate) fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

/// Ends what is left of a process group, and returns when it is gone.
///
/// Children of ranks are not ours to wait for: all there is to do is to look again. The kernel needs no more than a moment for processes that
/// were killed; should it need longer (a process in an uninterruptible call), that is not worth hanging for.
pub(crate) fn end_group_for_good(group: Pid) {
    signal_group(group, Signal::KILL);
    let start = Instant::now();
    while rustix::process::test_kill_process_group(group).is_ok() && start.elapsed() < Duration::from_secs(1) {
        std::thread::yield_now();
    }
}

/// Sends a signal to a process group.
pub(crate) fn signal_group(group: Pid, signal: Signal) {
    // If the group is gone, that is what was wanted.
    let _ = rustix::process::kill_process_group(group, signal);
}

/// Allows as many open files as the system lets us: each rank needs three.
pub(crate) fn allow_many_files() {
    let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current = limit.maximum;
    // Where the system refuses, a job that is too large says so when it runs out.
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, limit);
}

/// Becomes the parent of whatever the ranks leave behind, so that it can be found.
pub(crate) fn adopt_orphans() {
    // Where the system refuses, orphans outside of the job's group go unnoticed, and nothing else changes.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

/// Ends all descendants of this process, except `spare`, however they have moved in the process tree.
pub(crate) fn end_descendants(spare: Option<Pid>) {
    // Ending a process makes its children ours: look again until there are none.
    for _ in 0..1000 {
        let children: Vec<Pid> = children().into_iter().filter(|&child| Some(child) != spare).collect();
        if children.is_empty() {
            return;
        }
        for child in children {
            let _ = rustix::process::kill_process(child, Signal::KILL);
            let _ = rustix::process::waitpid(Some(child), WaitOptions::empty());
        }
    }
}

fn children() -> Vec<Pid> {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else {
        return Vec::new();
    };
    let lists = threads.flatten().filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(parse).collect::<Vec<Pid>>()).collect()
}

fn parse(pid: &str) -> Option<Pid> {
    pid.parse().ok().and_then(Pid::from_raw)
}
