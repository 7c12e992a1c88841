//! The launcher's one loop: output, signals, deaths, time.

use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{ChildStdin, ExitStatus};
use std::time::{Duration, Instant};

use farside::job::Host;
use farside::{Ended, Fate, Rank};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, Signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

use crate::keeper::Keeper;
use crate::output::{Sink, Stream};
use crate::processes::{self, Process};
use crate::{Error, Failure, Launch, Output, Report, system};

/// The signals that are passed on to the ranks.
const FORWARDED: [i32; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];
/// The status of a job whose time was up, as `timeout` has it.
const TIMED_OUT: i32 = 124;
/// How long ranks may take to end after they were asked to.
const AFTER_TERM: Duration = Duration::from_secs(1);

pub(crate) fn run(launch: &Launch) -> Result<Report, Error> {
    let host = Host::create(&launch.options)?;
    if launch.interactive {
        processes::adopt_orphans();
    }
    let signals = if launch.interactive { Some(Signals::new()?) } else { None };
    let mut supervisor = Supervisor::start(launch, &host)?;
    let watched = supervisor.watch(signals);
    supervisor.clean_up();
    watched?;
    Ok(supervisor.report())
}

struct Supervisor<'a> {
    launch: &'a Launch,
    host: &'a Host,
    processes: Vec<Process>,
    group: Pid,
    streams: Vec<Stream>,
    sink: Sink,
    input: Option<Input>,
    keeper: Option<Keeper>,
    failures: Vec<Failure>,
    status: i32,
    timed_out: bool,
    /// When the time of the job is up.
    deadline: Option<Instant>,
    /// What is done to ranks that still run, and when.
    ending: Option<(Instant, Signal)>,
}

impl<'a> Supervisor<'a> {
    fn start(launch: &'a Launch, host: &'a Host) -> Result<Supervisor<'a>, Error> {
        let (captured, labels) = match launch.output {
            Output::Capture => (Some(Vec::new()), false),
            Output::Forward { labels } => (None, labels),
        };
        let mut processes: Vec<Process> = Vec::new();
        for rank in (0..launch.options.ranks).map(Rank) {
            let group = processes.first().map(|first| processes::pid(&first.child));
            match processes::start(launch, host, rank, group) {
                Ok(process) => processes.push(process),
                Err(error) => {
                    group.inspect(|&group| processes::signal_group(group, Signal::KILL));
                    processes.iter_mut().for_each(|process| drop(process.child.wait()));
                    return Err(error);
                }
            }
        }
        let group = processes::pid(&processes[0].child);
        let mut streams = Vec::new();
        for process in &mut processes {
            let pipes = [
                (process.child.stdout.take().map(OwnedFd::from), false),
                (process.child.stderr.take().map(OwnedFd::from), true),
            ];
            let pipes = pipes.into_iter().filter_map(|(pipe, is_error)| Some((pipe?, is_error)));
            streams.extend(pipes.map(|(pipe, is_error)| Stream::new(pipe, process.rank, is_error)));
        }
        let input = processes[0].child.stdin.take().map(|pipe| Input { pipe, waiting: Vec::new() });
        let keeper = launch.keeper.as_ref().and_then(|program| Keeper::start(program, group).ok());
        Ok(Supervisor {
            launch,
            host,
            processes,
            group,
            streams,
            sink: Sink { captured, labels },
            input,
            keeper,
            failures: Vec::new(),
            status: 0,
            timed_out: false,
            deadline: launch.timeout.and_then(|time| Instant::now().checked_add(time)),
            ending: None,
        })
    }

    /// Watches until all ranks have ended and all that they wrote was passed on.
    fn watch(&mut self, mut signals: Option<Signals>) -> Result<(), Error> {
        while !self.processes.is_empty() {
            let stdin = std::io::stdin();
            let mut polled: Vec<PollFd<'_>> =
                self.processes.iter().map(|process| PollFd::new(&process.handle, PollFlags::IN)).collect();
            polled.extend(self.streams.iter().map(|stream| PollFd::new(&stream.pipe, PollFlags::IN)));
            polled.extend(signals.as_ref().map(|signals| PollFd::new(&signals.pipe, PollFlags::IN)));
            polled.extend(self.input.as_ref().map(|input| input.wanted(stdin.as_fd())));
            match rustix::event::poll(&mut polled, self.patience().as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(system("poll")(errno)),
            }
            let happened: Vec<bool> = polled.iter().map(|polled| !polled.revents().is_empty()).collect();
            drop(polled);
            let (ended, rest) = happened.split_at(self.processes.len());
            let (readable, rest) = rest.split_at(self.streams.len());
            let (signalled, input) = rest.split_at(usize::from(signals.is_some()));
            if input.first() == Some(&true) && !self.input.as_mut().is_some_and(|input| input.pump()) {
                self.input = None;
            }
            if let Some(signals) = signals.as_mut().filter(|_| signalled.first() == Some(&true)) {
                self.forward(signals.take());
            }
            self.read_streams(readable);
            self.reap(ended);
            self.keep_time();
        }
        self.drain();
        Ok(())
    }

    /// How long the loop may sleep.
    fn patience(&self) -> Option<Timespec> {
        let next = [self.deadline, self.ending.map(|(when, _)| when)].into_iter().flatten().min()?;
        let left = next.saturating_duration_since(Instant::now());
        Some(Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() })
    }

    fn keep_time(&mut self) {
        let now = Instant::now();
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.deadline = None;
            self.timed_out = true;
            self.status = TIMED_OUT;
            let left: Vec<String> = self.processes.iter().map(|process| process.rank.0.to_string()).collect();
            let seconds = self.launch.timeout.unwrap_or_default().as_secs_f64();
            self.say(&format!("time is up after {seconds} s; still running: rank {}", left.join(", ")));
            self.ending = Some((now, Signal::TERM));
        }
        if let Some((when, signal)) = self.ending
            && when <= now
        {
            processes::signal_group(self.group, signal);
            self.ending = Some((now + AFTER_TERM, Signal::KILL));
        }
    }

    fn forward(&mut self, signals: Vec<i32>) {
        for number in signals {
            let Some(signal) = Signal::from_named_raw(number) else {
                continue;
            };
            let ends = [SIGINT, SIGTERM, SIGHUP, SIGQUIT].contains(&number);
            // Who asks twice means it.
            let insists = ends && matches!(self.ending, Some((_, Signal::KILL)));
            processes::signal_group(self.group, if insists { Signal::KILL } else { signal });
            if ends {
                self.ending = Some((Instant::now() + self.launch.grace, Signal::KILL));
            }
        }
    }

    fn read_streams(&mut self, readable: &[bool]) {
        let mut buffer = vec![0; 64 * 1024];
        let mut readable = readable.iter();
        let sink = &mut self.sink;
        let mut broken = false;
        self.streams.retain_mut(|stream| {
            if readable.next() != Some(&true) {
                return true;
            }
            let (passed_on, open) = match rustix::io::read(&stream.pipe, &mut buffer) {
                Ok(0) => (stream.finish(sink), false),
                Ok(count) => (stream.take(&buffer[..count], sink), true),
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => (Ok(()), true),
                Err(_) => (stream.finish(sink), false),
            };
            // When nobody reads our output any more, the job has lost its purpose.
            broken |= passed_on.is_err();
            open
        });
        if broken && self.ending.is_none() {
            self.ending = Some((Instant::now(), Signal::TERM));
        }
    }

    fn reap(&mut self, ended: &[bool]) {
        let mut index = 0;
        let mut gone = Vec::new();
        self.processes.retain_mut(|process| {
            index += 1;
            if !ended[index - 1] {
                return true;
            }
            match process.child.try_wait() {
                Ok(None) => true,
                Ok(Some(status)) => {
                    gone.push((process.rank, status));
                    false
                }
                Err(_) => {
                    gone.push((process.rank, ExitStatus::from_raw(0xff00)));
                    false
                }
            }
        });
        for (rank, status) in gone {
            self.ended(rank, status);
        }
    }

    /// A rank has ended: tell the others at once, unless it had left in order.
    fn ended(&mut self, rank: Rank, status: ExitStatus) {
        let how = match (status.signal(), status.code()) {
            (Some(signal), _) => Ended::Signal(signal),
            (None, code) => Ended::Status(code.unwrap_or(-1)),
        };
        let fate = self.host.fate(rank);
        if how == Ended::Status(0) && fate == Fate::Left {
            return;
        }
        self.host.declare_lost(rank, how);
        // A program that never joined, such as `hostname`, has done nothing wrong.
        if how == Ended::Status(0) && fate == Fate::Starting {
            return;
        }
        let unsaid = if how == Ended::Status(0) { " without leaving the job" } else { "" };
        self.say(&format!("{rank} {how}{unsaid}"));
        self.failures.push(Failure { rank, how });
        if self.status == 0 {
            self.status = match how {
                Ended::Signal(signal) => 128 + signal,
                Ended::Status(0) => 1,
                Ended::Status(status) => status,
                _ => 1,
            };
        }
        if !self.launch.keep_going && self.ending.is_none() {
            self.ending = Some((Instant::now() + self.launch.grace, Signal::TERM));
        }
    }

    /// Passes on what ended ranks had written. A process that a rank left behind may hold a pipe open for ever: take what is there.
    fn drain(&mut self) {
        let mut buffer = vec![0; 64 * 1024];
        for mut stream in std::mem::take(&mut self.streams) {
            let nothing = Timespec { tv_sec: 0, tv_nsec: 0 };
            loop {
                let mut polled = [PollFd::new(&stream.pipe, PollFlags::IN)];
                let ready = matches!(rustix::event::poll(&mut polled, Some(&nothing)), Ok(1..));
                match if ready { rustix::io::read(&stream.pipe, &mut buffer) } else { Ok(0) } {
                    Ok(count) if count > 0 => drop(stream.take(&buffer[..count], &mut self.sink)),
                    _ => break,
                }
            }
            // Output that cannot be written any more is lost; the job is over all the same.
            let _ = stream.finish(&mut self.sink);
        }
    }

    /// Whatever happened: nothing of the job is left afterwards.
    fn clean_up(&mut self) {
        processes::signal_group(self.group, Signal::KILL);
        for process in &mut self.processes {
            let _ = process.child.wait();
        }
        processes::end_group_for_good(self.group);
        if self.launch.interactive {
            let keeper = self.keeper.as_ref().map(Keeper::pid);
            processes::end_descendants(keeper);
        }
        if let Some(keeper) = self.keeper.take() {
            keeper.dismiss();
        }
    }

    fn report(self) -> Report {
        Report {
            status: self.status,
            failures: self.failures,
            stdout: self.sink.captured.unwrap_or_default(),
            timed_out: self.timed_out,
        }
    }

    fn say(&self, what: &str) {
        if self.launch.interactive {
            eprintln!("farside: {what}");
        }
    }
}

/// Standard input on its way to rank 0.
struct Input {
    pipe: ChildStdin,
    waiting: Vec<u8>,
}

impl Input {
    /// Either more is wanted, or there is something to write.
    fn wanted<'f>(&'f self, stdin: BorrowedFd<'f>) -> PollFd<'f> {
        if self.waiting.is_empty() {
            PollFd::from_borrowed_fd(stdin, PollFlags::IN)
        } else {
            PollFd::new(&self.pipe, PollFlags::OUT)
        }
    }

    /// Moves some of it on; false when there is no more, or nobody who reads it.
    fn pump(&mut self) -> bool {
        if !self.waiting.is_empty() {
            // What is ready for writing takes at least this much without blocking.
            let part = self.waiting.len().min(4096);
            return match self.pipe.write(&self.waiting[..part]) {
                Ok(count) => {
                    self.waiting.drain(..count);
                    true
                }
                Err(error) => error.kind() == std::io::ErrorKind::Interrupted,
            };
        }
        let mut buffer = vec![0; 16 * 1024];
        match rustix::io::read(std::io::stdin(), &mut buffer) {
            Ok(0) => false,
            Ok(count) => {
                self.waiting.extend_from_slice(&buffer[..count]);
                true
            }
            Err(errno) => errno == rustix::io::Errno::INTR,
        }
    }
}

/// Signals to the launcher, as something to poll.
struct Signals {
    pipe: UnixStream,
    registered: Vec<signal_hook::SigId>,
    flags: Vec<(i32, std::sync::Arc<std::sync::atomic::AtomicBool>)>,
}

impl Signals {
    fn new() -> Result<Signals, Error> {
        let refused = |error| Error::System { what: "watching for signals", error };
        let (pipe, waker) = UnixStream::pair().map_err(refused)?;
        pipe.set_nonblocking(true).map_err(refused)?;
        let mut signals = Signals { pipe, registered: Vec::new(), flags: Vec::new() };
        for number in FORWARDED {
            let flag = std::sync::Arc::default();
            let waker = waker.try_clone().map_err(refused)?;
            // The flag first: whoever is woken finds it set.
            signals
                .registered
                .push(signal_hook::flag::register(number, std::sync::Arc::clone(&flag)).map_err(refused)?);
            signals.registered.push(signal_hook::low_level::pipe::register(number, waker).map_err(refused)?);
            signals.flags.push((number, flag));
        }
        Ok(signals)
    }

    fn take(&mut self) -> Vec<i32> {
        let mut buffer = [0; 64];
        while matches!(self.pipe.read(&mut buffer), Ok(1..)) {}
        let taken = |flag: &std::sync::atomic::AtomicBool| flag.swap(false, std::sync::atomic::Ordering::SeqCst);
        self.flags.iter().filter(|(_, flag)| taken(flag)).map(|&(number, _)| number).collect()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.registered.drain(..) {
            signal_hook::low_level::unregister(id);
        }
    }
}
