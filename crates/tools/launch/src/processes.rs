//! The processes of a job: starting them, and making sure that they are gone.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use farside_fabric::Rank;
use farside_job::{ENTRY, Host, Joiners, LAUNCHER, MARK};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Access, Mode, OFlags};
use rustix::io::{Errno, FdFlags};
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, Signal, WaitOptions};

use crate::mark::Mark;
use crate::policy::until;
use crate::{Error, Launch, system};

/// The time for which processes that were killed are waited for. One that needs longer is in an
/// uninterruptible call, or belongs to a user whose processes are not ours to end.
const END_TIME: Duration = Duration::from_secs(5);

/// Returns an error if no program can start in this directory. It need not be readable.
pub(crate) fn check_directory(directory: &Path) -> rustix::io::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    drop(rustix::fs::open(directory, flags, Mode::empty())?);
    rustix::fs::access(directory, Access::EXEC_OK)
}

pub(crate) struct Process {
    pub(crate) rank: Rank,
    pub(crate) child: Child,
    /// Becomes readable when the process ends.
    pub(crate) handle: OwnedFd,
}

/// Starts one rank, in `group` if there is one already, else as the first of a new group.
pub(crate) fn start(
    launch: &Launch,
    host: &Host,
    mark: &Mark,
    joiners: Option<&Joiners>,
    rank: Rank,
    group: Option<Pid>,
    files: FileLimit,
) -> Result<Process, Error> {
    let file = host.file(rank).as_raw_fd();
    let mut command = Command::new(&launch.program);
    command
        .args(&launch.arguments)
        // What this launcher itself was asked to do is not meant for its ranks.
        .env_remove(ENTRY)
        .envs(launch.environment.iter().map(|(name, value)| (name, value)))
        .envs(host.environment(rank, file))
        .env(MARK, mark.value())
        .env(LAUNCHER, joiners.map_or(String::new(), Joiners::variable))
        .stdin(if launch.interactive && rank == Rank(0) { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(group.map_or(0, |group| group.as_raw_nonzero().get()));
    if let Some(directory) = &launch.directory {
        command.current_dir(directory);
    }
    let parent = rustix::process::getpid();
    // SAFETY: between fork and exec only system calls are made, no memory is allocated and no lock
    // is taken (`nothing_is_allocated_between_fork_and_exec`). The file is open: the launcher holds
    // it for longer than it starts processes.
    unsafe { command.pre_exec(move || prepare(BorrowedFd::borrow_raw(file), parent, files)) };
    let child = command.spawn().map_err(|error| Error::Start {
        program: launch.program.clone(),
        directory: launch.directory.clone(),
        rank,
        error,
    })?;
    let handle = rustix::process::pidfd_open(pid(&child), PidfdFlags::empty());
    watched(rank, child, handle)
}

/// Takes a process that was started, with its handle. One without a handle is ended: nobody would
/// hear of its end.
fn watched(
    rank: Rank,
    mut child: Child,
    handle: rustix::io::Result<OwnedFd>,
) -> Result<Process, Error> {
    match handle {
        Ok(handle) => Ok(Process { rank, child, handle }),
        Err(errno) => {
            // It has just been started: it ends at once, or has ended.
            let _ = child.kill();
            let _ = child.wait();
            Err(system("pidfd_open")(errno))
        }
    }
}

/// Prepares a rank's process before it becomes the program. It is a copy of a process in which
/// another thread may have held any lock, that of the allocator among them.
fn prepare(file: BorrowedFd<'_>, parent: Pid, files: FileLimit) -> std::io::Result<()> {
    // The job's file is inherited by ranks alone.
    rustix::io::fcntl_setfd(file, FdFlags::empty())?;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // A launcher that died before this line will not be noticed by the line before.
    if rustix::process::getppid() != Some(parent) {
        return Err(rustix::io::Errno::SRCH.into());
    }
    files.restore()
}

pub(crate) fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

/// Signals ranks: all of their group, if there is still one, and each that is no longer in it
/// (`timeout` and `setsid` leave it), with the group that it leads now.
pub(crate) fn signal_ranks(group: Option<Pid>, ranks: &[Process], signal: Signal) {
    group.inspect(|&group| signal_group(group, signal));
    for process in ranks {
        let pid = pid(&process.child);
        match rustix::process::getpgid(Some(pid)) {
            Ok(own) if Some(own) == group => {}
            // Of one that has ended, the number may be that of another.
            Ok(own) if own == pid && !has_ended(&process.handle, Instant::now()) => {
                signal_group(own, signal);
            }
            // If it is gone, that is what was wanted.
            _ => _ = rustix::process::pidfd_send_signal(&process.handle, signal),
        }
    }
}

/// Returns whether nothing is left of the group of these ranks. From then on its number may become
/// that of another.
pub(crate) fn is_group_gone(group: Pid, ranks: &[Process]) -> bool {
    let of_rank = |process: &Process| rustix::process::getpgid(Some(pid(&process.child)));
    !ranks.iter().any(|process| of_rank(process) == Ok(group))
        && rustix::process::test_kill_process_group(group) == Err(Errno::SRCH)
}

/// Waits for ranks that were killed, but not for ever.
pub(crate) fn await_killed(ranks: &mut [Process]) {
    let deadline = Instant::now() + END_TIME;
    for process in ranks {
        has_ended(&process.handle, deadline);
        // One that has not ended stays; another may have waited for it.
        let _ = process.child.try_wait();
    }
}

/// Returns whether a process ends before this time.
fn has_ended(handle: &OwnedFd, deadline: Instant) -> bool {
    loop {
        let mut polled = [PollFd::new(handle, PollFlags::IN)];
        match rustix::event::poll(&mut polled, until(Some(deadline)).as_ref()) {
            Err(Errno::INTR) => {}
            polled => return polled == Ok(1),
        }
    }
}

/// Ends what is left of a process group, and returns when it is gone.
///
/// Children of ranks are not ours to wait for: all there is to do is to look again. The kernel
/// needs no more than a moment for processes that were killed; should it need longer (a process in
/// an uninterruptible call), that is not worth hanging for.
pub(crate) fn end_group_for_good(group: Pid) {
    signal_group(group, Signal::KILL);
    let start = Instant::now();
    while rustix::process::test_kill_process_group(group).is_ok()
        && start.elapsed() < Duration::from_secs(1)
    {
        std::thread::yield_now();
    }
}

pub(crate) fn signal_group(group: Pid, signal: Signal) {
    // If the group is gone, that is what was wanted.
    let _ = rustix::process::kill_process_group(group, signal);
}

/// The limit of open files that this process was started with, if it has another one now.
#[derive(Clone, Copy, Default)]
pub(crate) struct FileLimit(Option<Rlimit>);

impl FileLimit {
    /// Allows as many open files as the system lets us: each rank needs three.
    pub(crate) fn raise() -> FileLimit {
        let before = rustix::process::getrlimit(Resource::Nofile);
        let raised = Rlimit { current: before.maximum, ..before };
        // If the system refuses, a job that is too large says so when it runs out.
        let is_raised = rustix::process::setrlimit(Resource::Nofile, raised).is_ok();
        FileLimit(is_raised.then_some(before))
    }

    /// Lets a program start with the limit that there was: some close every number below it, or
    /// make tables as large.
    pub(crate) fn hand_on(self, command: &mut Command) {
        // SAFETY: one system call is made, no memory is allocated and no lock is taken.
        unsafe { command.pre_exec(move || self.restore()) };
    }

    fn restore(self) -> std::io::Result<()> {
        let Some(limit) = self.0 else { return Ok(()) };
        Ok(rustix::process::setrlimit(Resource::Nofile, limit)?)
    }
}

/// Becomes the parent of whatever the ranks leave behind, so that it can be found.
pub(crate) fn adopt_orphans() {
    // If the system refuses, orphans outside of the job's group go unnoticed, and nothing else
    // changes.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

/// Ends all descendants of this process, except `spare`, however they have moved in the process
/// tree.
pub(crate) fn end_descendants(spare: Option<Pid>) {
    let deadline = Instant::now() + END_TIME;
    // Ending a process makes its children ours: look again until there are none.
    for _ in 0..1000 {
        let children: Vec<Pid> =
            children().into_iter().filter(|&child| Some(child) != spare).collect();
        for &child in &children {
            let _ = rustix::process::kill_process(child, Signal::KILL);
        }
        let gone = children.iter().filter(|&&child| reap(child, deadline)).count();
        if gone == 0 {
            return;
        }
    }
}

/// Waits for a child that was killed, until this time; returns whether it is gone.
fn reap(child: Pid, deadline: Instant) -> bool {
    if let Ok(handle) = rustix::process::pidfd_open(child, PidfdFlags::empty()) {
        has_ended(&handle, deadline);
    }
    !matches!(rustix::process::waitpid(Some(child), WaitOptions::NOHANG), Ok(None))
}

fn children() -> Vec<Pid> {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else {
        return Vec::new();
    };
    let lists = threads
        .flatten()
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(parse).collect::<Vec<Pid>>()).collect()
}

fn parse(pid: &str) -> Option<Pid> {
    pid.parse().ok().and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use std::alloc::{GlobalAlloc, Layout, System};
    use std::cell::Cell;
    use std::os::fd::AsFd;

    use super::*;

    thread_local! {
        static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    }

    /// Counts what each thread allocates.
    struct Counting;

    // SAFETY: the system's allocator does all the work.
    unsafe impl GlobalAlloc for Counting {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            ALLOCATIONS.set(ALLOCATIONS.get() + 1);
            // SAFETY: as the caller has promised.
            unsafe { System.alloc(layout) }
        }

        unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
            // SAFETY: as the caller has promised.
            unsafe { System.dealloc(at, layout) }
        }
    }

    #[global_allocator]
    static COUNTING: Counting = Counting;

    /// A process that does nothing, in a group or as the first of a new one. It ends with the test
    /// at the latest.
    fn idle(group: Option<Pid>) -> Child {
        let group = group.map_or(0, |group| group.as_raw_nonzero().get());
        Command::new("cat").stdin(Stdio::piped()).process_group(group).spawn().unwrap()
    }

    fn idle_rank(group: Option<Pid>) -> Process {
        let child = idle(group);
        let handle = rustix::process::pidfd_open(pid(&child), PidfdFlags::empty());
        watched(Rank(0), child, handle).unwrap()
    }

    fn end(process: &mut Process) {
        process.child.kill().unwrap();
        process.child.wait().unwrap();
    }

    #[test]
    fn a_process_that_cannot_be_watched_is_ended() {
        let child = idle(None);
        let pid = pid(&child);
        assert!(watched(Rank(0), child, Err(Errno::MFILE)).is_err());
        assert_eq!(rustix::process::test_kill_process(pid), Err(Errno::SRCH));
    }

    #[test]
    fn a_child_that_does_not_end_is_not_waited_for() {
        let mut child = idle(None);
        assert!(!reap(pid(&child), Instant::now() + Duration::from_millis(10)));
        child.kill().unwrap();
        assert!(reap(pid(&child), Instant::now() + Duration::from_secs(60)));
        assert!(child.try_wait().is_err(), "nobody else can wait for it now");
    }

    #[test]
    fn a_group_is_gone_when_nobody_is_left_in_it() {
        let mut first = idle_rank(None);
        let group = pid(&first.child);
        let (mut second, mut stray) = (idle_rank(Some(group)), idle_rank(None));
        end(&mut first);
        assert!(!is_group_gone(group, &[]), "one is there that is not known");
        assert!(!is_group_gone(group, std::slice::from_ref(&second)));
        end(&mut second);
        assert!(is_group_gone(group, std::slice::from_ref(&stray)));
        end(&mut stray);
    }

    #[test]
    fn a_signal_reaches_ranks_in_the_group_and_elsewhere() {
        let first = idle_rank(None);
        let group = pid(&first.child);
        let mut ranks = [first, idle_rank(Some(group)), idle_rank(None)];
        signal_ranks(Some(group), &ranks, Signal::KILL);
        await_killed(&mut ranks);
        let ended = ranks.each_mut().map(|rank| rank.child.try_wait().unwrap().is_some());
        assert_eq!(ended, [true; 3]);
    }

    #[test]
    fn nothing_is_allocated_between_fork_and_exec() {
        let file = std::fs::File::open("/dev/null").unwrap();
        // Every thread has its own wish of what becomes of it when its parent dies.
        let run = move || {
            let (parent, stranger) =
                (rustix::process::getppid().unwrap(), Pid::from_raw(1).unwrap());
            let stranger = if parent == stranger { rustix::process::getpid() } else { stranger };
            let before = ALLOCATIONS.get();
            let (good, bad) = {
                let limit = FileLimit(Some(rustix::process::getrlimit(Resource::Nofile)));
                let prepare = |parent| prepare(file.as_fd(), parent, limit);
                (prepare(parent), prepare(stranger))
            };
            let after = ALLOCATIONS.get();
            rustix::process::set_parent_process_death_signal(None).unwrap();
            assert!(good.is_ok() && bad.is_err());
            assert_eq!(after, before);
            drop(std::hint::black_box(Box::new(after)));
            assert_eq!(ALLOCATIONS.get(), after + 1, "allocations are counted");
        };
        std::thread::spawn(run).join().unwrap();
    }
}
