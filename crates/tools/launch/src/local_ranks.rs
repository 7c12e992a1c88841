//! The ranks of this host: starting them, hearing of their ends, signalling them, leaving nothing
//! of them behind.

use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{ChildStdin, ExitStatus};

use farside_fabric::{ExitCause, Loss, PeerState, Rank};
use farside_job::{Host, Joiners, RankLoss};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, pidfd_open};

use crate::mark::Mark;
use crate::output::{Forwarder, Sink, Stream};
use crate::processes::{self, FileLimit, Process};
use crate::reaper::Reaper;
use crate::{Error, Launch};

pub(crate) struct LocalRanks<'a> {
    launch: &'a Launch,
    host: &'a Host,
    processes: Vec<Process>,
    /// Where ranks behind a wrapper say that they join.
    joiners: Option<Joiners>,
    /// The processes of those, each of which becomes readable when it ends.
    joined: Vec<(Rank, OwnedFd)>,
    /// The process group of the ranks, which is that of the first, as long as there is one.
    group: Option<Pid>,
    reaper: Option<Reaper>,
    /// The signals that all ranks were sent.
    sent: RefCell<Vec<i32>>,
}

pub(crate) struct Started<'a> {
    pub(crate) local_ranks: LocalRanks<'a>,
    pub(crate) forwarder: Forwarder,
    /// Standard input of rank 0, if it is here and has one.
    pub(crate) input: Option<ChildStdin>,
}

pub(crate) struct End {
    pub(crate) rank: Rank,
    pub(crate) how: ExitCause,
    /// The state in which the job saw the rank when it ended.
    pub(crate) peer_state: PeerState,
    pub(crate) cause: Option<Loss>,
}

impl<'a> LocalRanks<'a> {
    pub(crate) fn start(
        launch: &'a Launch,
        host: &'a Host,
        sink: Sink,
        files: FileLimit,
    ) -> Result<Started<'a>, Error> {
        let mark = Mark::new();
        let program = launch.reaper.as_ref();
        let reaper = program.and_then(|program| Reaper::start(program, Some(&mark)).ok());
        let mut local_ranks = LocalRanks {
            launch,
            host,
            processes: Vec::new(),
            joiners: Joiners::listen().ok(),
            joined: Vec::new(),
            group: None,
            reaper,
            sent: RefCell::default(),
        };
        match local_ranks.start_all(&mark, sink, files) {
            Ok((forwarder, input)) => Ok(Started { local_ranks, forwarder, input }),
            Err(error) => {
                local_ranks.clean_up();
                Err(error)
            }
        }
    }

    fn start_all(
        &mut self,
        mark: &Mark,
        sink: Sink,
        files: FileLimit,
    ) -> Result<(Forwarder, Option<ChildStdin>), Error> {
        let (launch, host) = (self.launch, self.host);
        for rank in host.ranks() {
            let joiners = self.joiners.as_ref();
            let process = processes::start(launch, host, mark, joiners, rank, self.group, files)?;
            if self.group.is_none() {
                let group = processes::pid(&process.child);
                self.reaper.iter_mut().for_each(|reaper| reaper.watch_over(group));
                self.group = Some(group);
            }
            self.processes.push(process);
        }
        let Some(first) = self.processes.first_mut() else {
            return Err(
                farside_fabric::Error::Internal("no rank was given to this node".into()).into()
            );
        };
        let input = first.child.stdin.take();
        let mut streams = Vec::new();
        for process in &mut self.processes {
            let pipes = [
                (process.child.stdout.take().map(OwnedFd::from), false),
                (process.child.stderr.take().map(OwnedFd::from), true),
            ];
            let pipes = pipes.into_iter().filter_map(|(pipe, is_error)| Some((pipe?, is_error)));
            streams.extend(pipes.map(|(pipe, is_error)| Stream::new(pipe, process.rank, is_error)));
        }
        let forwarder = Forwarder::start(streams, sink)
            .map_err(|error| Error::System { what: "starting the thread for output", error })?;
        Ok((forwarder, input))
    }

    pub(crate) fn running(&self) -> Vec<Rank> {
        self.processes.iter().map(|process| process.rank).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    /// Returns descriptors that become readable when something happens: when a process ends, for
    /// each that runs, and when one joins behind a wrapper.
    pub(crate) fn polled(&self) -> impl Iterator<Item = PollFd<'_>> {
        let started = self.processes.iter().map(|process| &process.handle);
        let handles = started.chain(self.joined.iter().map(|(_, handle)| handle));
        let handles = handles.map(|handle| PollFd::new(handle, PollFlags::IN));
        handles.chain(self.joiners.iter().map(|joiners| PollFd::new(joiners, PollFlags::IN)))
    }

    /// Returns the ranks that have ended, where `happened` says which descriptors were readable.
    /// The other ranks are told at once of those that had not left in order.
    pub(crate) fn reap(&mut self, happened: &[bool], mut before_loss: impl FnMut()) -> Vec<End> {
        let (happened, besides) = happened.split_at(self.processes.len().min(happened.len()));
        let gone = if self.launch.is_own_process {
            self.wait_for_all()
        } else {
            self.wait_for_those(happened)
        };
        self.note_group();
        let ends = self.ended(gone, &mut before_loss);
        self.hear_joiners(besides, before_loss);
        ends
    }

    /// Waits for all children that have ended, whatever they are: what ranks have left behind is
    /// adopted by this process, and would stay a zombie until the job ends.
    fn wait_for_all(&mut self) -> Vec<(Rank, ExitStatus)> {
        let mut gone = Vec::new();
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            let is_it = |process: &Process| processes::pid(&process.child) == pid;
            if let Some(at) = self.processes.iter().position(is_it) {
                let status = ExitStatus::from_raw(status.as_raw());
                gone.push((self.processes.remove(at).rank, status));
            }
        }
        gone
    }

    /// Waits for those ranks that have ended. Other children are not ours.
    fn wait_for_those(&mut self, ended: &[bool]) -> Vec<(Rank, ExitStatus)> {
        let (mut ended, mut gone) = (ended.iter(), Vec::new());
        self.processes.retain_mut(|process| {
            if ended.next() != Some(&true) {
                return true;
            }
            let status = match process.child.try_wait() {
                Ok(None) => return true,
                Ok(Some(status)) => status,
                // Somebody else has waited for it, and knows its status.
                Err(_) => ExitStatus::from_raw(0xff00),
            };
            gone.push((process.rank, status));
            false
        });
        gone
    }

    /// Gives the group up when nothing is left of it.
    fn note_group(&mut self) {
        let is_gone = |group: &mut Pid| processes::is_group_gone(*group, &self.processes);
        self.group.take_if(is_gone);
    }

    /// Hears of ranks that join behind a wrapper, and tells the others of those that have ended
    /// there without leaving. Their ends are told when their wrappers end.
    fn hear_joiners(&mut self, happened: &[bool], mut before_loss: impl FnMut()) {
        let mut happened = happened.iter();
        let mut gone = Vec::new();
        self.joined.retain(|&(rank, _)| {
            let has_ended = happened.next() == Some(&true);
            gone.extend(has_ended.then_some(rank));
            !has_ended
        });
        if happened.next() == Some(&true) {
            for (rank, pid) in self.joiners.iter().flat_map(Joiners::take) {
                match pidfd_open(pid, PidfdFlags::empty()) {
                    Ok(handle) => self.joined.push((rank, handle)),
                    Err(Errno::SRCH) => gone.push(rank),
                    // It cannot be watched: its end is heard of when its wrapper ends.
                    Err(_) => {}
                }
            }
        }
        for rank in gone {
            self.host.note_end(rank);
            if self.running().contains(&rank) && self.host.peer_state(rank) == PeerState::Alive {
                before_loss();
                self.host.declare_lost(rank, ExitCause::Vanished);
            }
        }
    }

    /// Ranks have ended: tells the others of those that have not left, of all together.
    fn ended(&self, gone: Vec<(Rank, ExitStatus)>, before_loss: &mut impl FnMut()) -> Vec<End> {
        gone.iter().for_each(|&(rank, _)| self.host.note_end(rank));
        let end = |(rank, status)| (rank, ended(status), self.host.peer_state(rank));
        let gone: Vec<(Rank, ExitCause, PeerState)> = gone.into_iter().map(end).collect();
        let is_lost =
            |how: ExitCause, state| how != ExitCause::Status(0) || state != PeerState::Left;
        let lost = gone.iter().filter(|&&(_, how, state)| is_lost(how, state));
        let lost: Vec<RankLoss> = lost
            .map(|&(rank, how, _)| {
                let is_signal = |signal| self.sent.borrow().contains(&signal);
                let is_stopped = matches!(how, ExitCause::Signal(signal) if is_signal(signal));
                RankLoss { rank, how, is_stopped }
            })
            .collect();
        if !lost.is_empty() {
            before_loss();
            self.host.declare_losses(&lost);
        }
        let cause = |rank| self.host.cause(rank);
        gone.into_iter()
            .map(|(rank, how, peer_state)| End { rank, how, peer_state, cause: cause(rank) })
            .collect()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.sent.borrow_mut().push(signal.as_raw());
        processes::signal_ranks(self.group, &self.processes, signal);
    }

    pub(crate) fn clean_up(&mut self) {
        processes::signal_ranks(self.group, &self.processes, Signal::KILL);
        processes::await_killed(&mut self.processes);
        if self.launch.is_own_process {
            let reaper = self.reaper.as_ref().map(Reaper::pid);
            processes::end_descendants(reaper);
        }
        self.note_group();
        self.group.into_iter().for_each(processes::end_group_for_good);
        if let Some(reaper) = self.reaper.take() {
            reaper.dismiss();
        }
    }
}

pub(crate) fn ended(status: ExitStatus) -> ExitCause {
    match (status.signal(), status.code()) {
        (Some(signal), _) => ExitCause::Signal(signal),
        (None, code) => ExitCause::Status(code.unwrap_or(-1)),
    }
}
