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
use crate::output::{Forwarder, News, Sink, Stream};
use crate::processes::{self, Process};
use crate::{Error, Failure, Launch, Output, Report, system};

/// The signals that are passed on to the ranks.
const FORWARDED: [i32; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];
/// Those that ask for the end.
const ENDING: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];
/// The status of a job whose time was up, as `timeout` has it.
const TIMED_OUT: i32 = 124;
/// The status of a job whose output could not be written, as of a process that SIGPIPE has ended.
const OUTPUT_LOST: i32 = 141;
/// How long ranks may take to end after they were asked to.
const AFTER_TERM: Duration = Duration::from_secs(1);

pub(crate) fn run(launch: &Launch) -> Result<Report, Error> {
    let host = Host::create(&launch.options)?;
    if launch.interactive {
        processes::adopt_orphans();
        processes::allow_many_files();
    }
    let mut signals = if launch.interactive { Some(Signals::new()?) } else { None };
    let mut supervisor = Supervisor::start(launch, &host)?;
    let watched = supervisor.watch(&mut signals);
    supervisor.clean_up();
    supervisor.flush_output(signals);
    watched?;
    Ok(supervisor.report())
}

struct Supervisor<'a> {
    launch: &'a Launch,
    host: &'a Host,
    processes: Vec<Process>,
    group: Pid,
    forwarder: Option<Forwarder>,
    captured: Vec<u8>,
    input: Option<Input>,
    keeper: Option<Keeper>,
    failures: Vec<Failure>,
    status: i32,
    timed_out: bool,
    /// Whether somebody has asked for the end.
    was_signalled: bool,
    /// Whether output was lost.
    output_lost: bool,
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
        let mut keeper = launch.keeper.as_ref().and_then(|program| Keeper::start(program).ok());
        let mut processes: Vec<Process> = Vec::new();
        for rank in (0..launch.options.ranks).map(Rank) {
            let group = processes.first().map(|first| processes::pid(&first.child));
            match processes::start(launch, host, rank, group) {
                Ok(process) => {
                    if let (Some(keeper), None) = (&mut keeper, group) {
                        keeper.watch_over(processes::pid(&process.child));
                    }
                    processes.push(process);
                }
                Err(error) => {
                    group.inspect(|&group| processes::signal_group(group, Signal::KILL));
                    processes.iter_mut().for_each(|process| drop(process.child.wait()));
                    if let Some(keeper) = keeper {
                        keeper.dismiss();
                    }
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
        let forwarder = Forwarder::start(streams, Sink { captured, labels });
        let forwarder = forwarder.map_err(|error| {
            processes::signal_group(group, Signal::KILL);
            Error::System { what: "starting the thread for output", error }
        })?;
        let input = processes[0].child.stdin.take().map(|pipe| Input { pipe, waiting: Vec::new() });
        Ok(Supervisor {
            launch,
            host,
            processes,
            group,
            forwarder: Some(forwarder),
            captured: Vec::new(),
            input,
            keeper,
            failures: Vec::new(),
            status: 0,
            timed_out: false,
            was_signalled: false,
            output_lost: false,
            deadline: launch.timeout.and_then(|time| Instant::now().checked_add(time)),
            ending: None,
        })
    }

    /// Watches until all ranks have ended.
    fn watch(&mut self, signals: &mut Option<Signals>) -> Result<(), Error> {
        while !self.processes.is_empty() {
            let stdin = std::io::stdin();
            let mut polled: Vec<PollFd<'_>> =
                self.processes.iter().map(|process| PollFd::new(&process.handle, PollFlags::IN)).collect();
            polled.extend(self.forwarder.as_ref().map(|forwarder| PollFd::new(&forwarder.news, PollFlags::IN)));
            polled.extend(signals.as_ref().map(|signals| PollFd::new(&signals.pipe, PollFlags::IN)));
            let input = self.input.as_ref().filter(|input| input.may_read());
            polled.extend(input.map(|input| input.wanted(stdin.as_fd())));
            match rustix::event::poll(&mut polled, self.patience().as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(system("poll")(errno)),
            }
            let happened: Vec<bool> = polled.iter().map(|polled| !polled.revents().is_empty()).collect();
            drop(polled);
            let (ended, rest) = happened.split_at(self.processes.len());
            let (news, rest) = rest.split_at(usize::from(self.forwarder.is_some()));
            let (signalled, input) = rest.split_at(usize::from(signals.is_some()));
            if input.first() == Some(&true) && !self.input.as_mut().is_some_and(|input| input.pump()) {
                self.input = None;
            }
            if let Some(signals) = signals.as_mut().filter(|_| signalled.first() == Some(&true)) {
                self.forward(signals.take());
            }
            if news.first() == Some(&true) {
                self.hear();
            }
            self.reap(ended);
            self.keep_time();
        }
        Ok(())
    }

    /// The forwarder has something to say.
    fn hear(&mut self) {
        match self.forwarder.as_mut().map(Forwarder::hear) {
            // When nobody reads our output any more, the job has lost its purpose.
            Some(News::Broken) => {
                self.note_lost_output();
                if self.ending.is_none() {
                    self.ending = Some((Instant::now(), Signal::TERM));
                }
            }
            Some(News::Done) => {
                let forwarder = self.forwarder.take();
                self.captured = forwarder.map(Forwarder::finish).unwrap_or_default();
            }
            _ => {}
        }
    }

    /// When ranks that still run have had their time; a time out of the clock's range is a day.
    fn after_grace(&self) -> Instant {
        let now = Instant::now();
        now.checked_add(self.launch.grace).unwrap_or(now + Duration::from_secs(24 * 60 * 60))
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
            let ends = ENDING.contains(&number);
            // Who asks twice means it.
            let insists = ends && matches!(self.ending, Some((_, Signal::KILL)));
            processes::signal_group(self.group, if insists { Signal::KILL } else { signal });
            if ends {
                self.was_signalled = true;
                self.ending = Some((self.after_grace(), Signal::KILL));
            }
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
            self.ending = Some((self.after_grace(), Signal::TERM));
        }
    }

    /// Whatever happened: nothing of the job is left afterwards.
    fn clean_up(&mut self) {
        processes::signal_group(self.group, Signal::KILL);
        for process in &mut self.processes {
            let _ = process.child.wait();
        }
        if self.launch.interactive {
            let keeper = self.keeper.as_ref().map(Keeper::pid);
            processes::end_descendants(keeper);
        }
        processes::end_group_for_good(self.group);
        if let Some(keeper) = self.keeper.take() {
            keeper.dismiss();
        }
    }

    /// Waits until all output was passed on; when the job was ended rather than done, not for long.
    fn flush_output(&mut self, mut signals: Option<Signals>) {
        let patience = (self.timed_out || self.was_signalled).then_some(Timespec { tv_sec: 1, tv_nsec: 0 });
        let Some(forwarder) = &mut self.forwarder else {
            return;
        };
        forwarder.stop();
        loop {
            let mut polled = vec![PollFd::new(&forwarder.news, PollFlags::IN)];
            polled.extend(signals.as_ref().map(|signals| PollFd::new(&signals.pipe, PollFlags::IN)));
            let polled_well =
                matches!(rustix::event::poll(&mut polled, patience.as_ref()), Ok(1..) | Err(rustix::io::Errno::INTR));
            let news = !polled[0].revents().is_empty();
            drop(polled);
            match news.then(|| forwarder.hear()) {
                Some(News::Done) => {
                    let forwarder = self.forwarder.take();
                    self.captured = forwarder.map(Forwarder::finish).unwrap_or_default();
                    break;
                }
                Some(News::Broken) => self.output_lost = true,
                None => {}
            }
            let told_to_end =
                signals.as_mut().is_some_and(|signals| signals.take().iter().any(|signal| ENDING.contains(signal)));
            if !polled_well || told_to_end {
                break;
            }
        }
        if self.output_lost {
            self.note_lost_output();
        }
    }

    /// Output that could not be written is a failure of its own, unless there is another.
    fn note_lost_output(&mut self) {
        if self.status == 0 {
            self.say("cannot write the ranks' output; some of it is lost");
            self.status = OUTPUT_LOST;
        }
    }

    fn report(self) -> Report {
        Report { status: self.status, failures: self.failures, stdout: self.captured, timed_out: self.timed_out }
    }

    fn say(&self, what: &str) {
        if self.launch.interactive {
            // If nobody reads it, there is nobody to tell.
            let _ = writeln!(std::io::stderr(), "farside: {what}");
        }
    }
}

/// Standard input on its way to rank 0.
struct Input {
    pipe: ChildStdin,
    waiting: Vec<u8>,
}

impl Input {
    /// Whether standard input may be read: a terminal stops those who read it in the background.
    fn may_read(&self) -> bool {
        match rustix::termios::tcgetpgrp(std::io::stdin()) {
            Ok(foreground) => foreground == rustix::process::getpgrp() || !self.waiting.is_empty(),
            // It is no terminal.
            Err(_) => true,
        }
    }

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
            Err(errno) => [rustix::io::Errno::INTR, rustix::io::Errno::AGAIN].contains(&errno),
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
