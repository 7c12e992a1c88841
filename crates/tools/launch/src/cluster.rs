//! The launcher's loop where a job spans hosts: a daemon on each of them watches its ranks, and
//! this watches the daemons.

mod looks;
mod partition;
mod paths;
mod recording;
mod variables;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use farside_fabric::{ExitCause, PeerState, Rank};
use farside_job::address;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, Signal};

use self::looks::Looks;
use self::partition::{Partition, RankEnd};
use self::recording::HostRecordings;
use self::variables::own_variables;
use crate::channel::{Mailbox, Slot, mailbox};
use crate::console::{Console, Patience, UNREAD};
use crate::frames::{Interface, LostRank, Task, ToLauncher, ToNode};
use crate::input::{next_look_at_stdin, read_stdin};
use crate::lines::Lines;
use crate::policy::{Policy, later, until};
use crate::processes::FileLimit;
use crate::reaper::Reaper;
use crate::remote::{Goal, News, Printer, Remote, State, What};
use crate::signals::{self, ASKING, ENDING, STOPPING, Signals};
use crate::{Error, Hosts, Launch, Report, Service, processes, system};

/// The time that a daemon may take to report that its ranks have ended, after it was told to kill
/// them.
const AFTER_KILL: Duration = Duration::from_secs(5);
/// The time that a host may be silent before it counts as gone, when everything is over.
const END_TIMEOUT: Duration = Duration::from_secs(10);
/// The time that the order to stop may take on its way to the ranks, before this process stops.
const BEFORE_PAUSE: Duration = Duration::from_secs(1);
/// The time that a daemon may take to end when its channel is closed.
const AFTER_CLOSE: Duration = Duration::from_secs(3);

pub(crate) fn run(launch: &Launch, hosts: &Hosts, console: &Console) -> Result<Report, Error> {
    let files = if launch.is_own_process {
        processes::adopt_orphans();
        FileLimit::raise()
    } else {
        FileLimit::default()
    };
    let signals = if launch.interactive { Some(Signals::new()?) } else { None };
    let mut cluster = Cluster::new(launch, hosts, console, signals)?;
    let _metrics = cluster.looks.serve(launch, console)?;
    let result = cluster
        .start(files)
        .and_then(|()| cluster.await_hosts())
        .and_then(|go| if go { cluster.watch() } else { Ok(()) });
    cluster.finish(result.is_ok());
    cluster.policy.say_rest();
    cluster.say_places();
    let recording = result.is_ok().then(|| cluster.recording()).flatten();
    let is_short = cluster.is_hurried || cluster.policy.was_cut_short();
    // What is said after this may be lost.
    console.finish(&mut cluster.signals, is_short);
    result?;
    let stdout = cluster.printer.kept();
    Ok(Report { recording, ..cluster.policy.report(stdout) })
}

struct Cluster<'a> {
    launch: &'a Launch,
    hosts: &'a Hosts,
    remotes: Vec<Remote>,
    mail: Mailbox<News>,
    slot: Slot<News>,
    signals: Option<Signals>,
    console: &'a Console,
    printer: Arc<Printer>,
    policy: Policy<'a>,
    reaper: Option<Reaper>,
    input: Input,
    /// The reason why the job cannot start.
    trouble: Option<Error>,
    /// The time by which all hosts must have started their ranks, as long as they have not.
    start_deadline: Option<Instant>,
    /// True once the hosts were told to start their ranks.
    begun: bool,
    /// True once the channels were closed from here.
    over: bool,
    /// True if a signal asks for the end of a job that is over.
    is_hurried: bool,
    partition: Partition,
    /// The time until which the programs that reach hosts may end, of those whose ends were heard
    /// of together.
    explanations_end: Option<Instant>,
    /// The time at which ranks were killed first.
    killed: Option<Instant>,
    looks: Looks,
    recorded: Option<HostRecordings>,
}

/// Standard input on its way to the host of rank 0.
#[derive(PartialEq, Eq)]
enum Input {
    /// The next piece can be sent.
    Open,
    /// The last piece was not taken yet.
    Awaited,
    Closed,
}

impl<'a> Cluster<'a> {
    fn new(
        launch: &'a Launch,
        hosts: &'a Hosts,
        console: &'a Console,
        signals: Option<Signals>,
    ) -> Result<Cluster<'a>, Error> {
        let (slot, mail) =
            mailbox().map_err(|error| Error::System { what: "a pair of sockets", error })?;
        Ok(Cluster {
            launch,
            hosts,
            remotes: Vec::new(),
            mail,
            slot,
            signals,
            console,
            printer: Arc::new(Printer::new(launch, console)),
            policy: Policy::new(launch, console),
            reaper: launch.reaper.as_ref().and_then(|program| Reaper::start(program, None).ok()),
            input: if launch.interactive { Input::Open } else { Input::Closed },
            trouble: None,
            start_deadline: Instant::now().checked_add(hosts.start_timeout),
            begun: false,
            over: false,
            is_hurried: false,
            partition: Partition::default(),
            explanations_end: None,
            killed: None,
            looks: Looks::new(launch.stuck_after),
            recorded: HostRecordings::new(launch, hosts)?,
        })
    }

    fn start(&mut self, files: FileLimit) -> Result<(), Error> {
        let own = paths::program()
            .map_err(|error| Error::System { what: "finding the running program", error })?;
        let task = self.task()?;
        let mut next = 0;
        for node in 0..self.hosts.entries.len() {
            let ranks: Vec<Rank> =
                (next..next + self.hosts.entries[node].ranks).map(Rank).collect();
            next += self.hosts.entries[node].ranks;
            let (label, command) = (self.hosts.label(node), self.hosts.command(node, &own));
            let goal = Goal { node, label, command, ranks, service: self.hosts.service.clone() };
            let remote = Remote::start(goal, self.group(), files, &self.slot, &self.printer)?;
            if let Some(reaper) = &mut self.reaper {
                if node == 0 {
                    reaper.watch_over(remote.pid());
                }
                reaper.wait_for_process(remote.pid());
            }
            let address = self.hosts.entries[node].address;
            remote.outbox.push(&ToNode::Task(Box::new(Task {
                node: node as u32,
                address,
                ..task.clone()
            })));
            self.remotes.push(remote);
        }
        Ok(())
    }

    fn task(&self) -> Result<Task, Error> {
        let mut secret = [0; 16];
        rustix::rand::getrandom(&mut secret, rustix::rand::GetRandomFlags::empty())
            .map_err(system("getrandom"))?;
        let here = paths::directory()
            .map_err(|error| Error::System { what: "finding the current directory", error })?;
        Ok(Task {
            plan: self.hosts.plan(&self.launch.options, secret).encode()?,
            node: 0,
            address: None,
            program: self.launch.program.clone(),
            arguments: self.launch.arguments.clone(),
            environment: own_variables().chain(self.launch.environment.iter().cloned()).collect(),
            directory: self
                .launch
                .directory
                .as_ref()
                .map_or(here.clone(), |directory| here.join(directory))
                .into(),
            input: self.launch.interactive,
            lines: Lines::of(self.launch),
            service: self.hosts.service.as_ref().map(Service::variable),
        })
    }

    /// Waits until all hosts are ready for their ranks, and lets them start; returns false if a
    /// signal has called the job off.
    fn await_hosts(&mut self) -> Result<bool, Error> {
        while !self.have_all(State::Met) || !self.are_clocks_compared() {
            for number in self.step(self.start_deadline)? {
                if number == STOPPING {
                    // There are no ranks yet.
                    self.stop_here();
                }
                if ENDING.contains(&number) {
                    self.policy.cancelled(number);
                    return Ok(false);
                }
            }
            self.check_start()?;
        }
        self.begun = true;
        self.policy.begin();
        self.remotes.iter().for_each(|remote| remote.outbox.push(&ToNode::Start));
        Ok(true)
    }

    fn check_start(&mut self) -> Result<(), Error> {
        if let Some(trouble) = self.trouble.take() {
            return Err(trouble);
        }
        if self.have_all(State::Started) {
            self.start_deadline = None;
        }
        match self.start_deadline {
            Some(deadline) if deadline <= Instant::now() => Err(self.late_hosts()),
            _ => Ok(()),
        }
    }

    fn late_hosts(&self) -> Error {
        let behind = self.remotes.iter().map(|remote| remote.state).min().unwrap_or(State::Asked);
        // Those that have met the others only have to say what their clocks show.
        let waits_for_clocks = behind == State::Met && !self.begun;
        let is_late = |&node: &usize| {
            self.remotes[node].state == behind
                && !(waits_for_clocks && self.is_clock_compared(node))
        };
        let late: Vec<&Remote> =
            (0..self.remotes.len()).filter(is_late).map(|node| &self.remotes[node]).collect();
        let host = late.iter().map(|remote| remote.label.as_str()).collect::<Vec<_>>().join(", ");
        let what = match behind {
            State::Asked => "did not answer",
            _ if waits_for_clocks => "did not say what its clock shows",
            _ => "did not get ready",
        };
        let seconds = self.hosts.start_timeout.as_secs_f64();
        let command = late.first().map_or(String::new(), |remote| remote.words());
        let why = format!(
            "{what} within {seconds} s. Run `{command}` by hand: it should print a line that \
             begins with farside-node. --rsh and --remote-farside change the command; \
             --start-timeout gives it more time"
        );
        Error::Host { host, why }
    }

    /// Watches until all ranks have ended.
    fn watch(&mut self) -> Result<(), Error> {
        // All ranks may have ended because of a host that was lost, before it is known which.
        while self.remotes.iter().any(|remote| !remote.running.is_empty())
            || self.partition.is_open()
        {
            let kill_ends = self.killed.map(|killed| killed + AFTER_KILL);
            let judgement = self.partition.judgement_time();
            let times = [judgement, kill_ends, self.start_deadline, self.looks.next()];
            let next = [self.policy.next()].into_iter().chain(times).flatten().min();
            for number in self.step(next)? {
                if number == STOPPING {
                    self.pause();
                } else if number == ASKING && self.looks.ask() {
                    // It is passed on if the hosts answer that no rank has joined.
                } else if let Some(signal) = self.policy.asked(number) {
                    self.signal(signal);
                }
            }
            self.check_start()?;
            self.look();
            self.drop_silent_hosts();
            let running =
                || self.remotes.iter().flat_map(|remote| remote.running.clone()).collect();
            if let Some(signal) = self.policy.due_signal(running) {
                self.signal(signal);
            }
            if self.killed.is_some_and(|killed| killed.elapsed() >= AFTER_KILL) {
                self.give_up();
            }
        }
        Ok(())
    }

    /// Waits for something to happen, and deals with it; returns the signals that have come.
    fn step(&mut self, deadline: Option<Instant>) -> Result<Vec<i32>, Error> {
        let stdin = std::io::stdin();
        let mut polled = vec![PollFd::new(&self.mail.bell, PollFlags::IN)];
        polled
            .extend(self.signals.as_ref().map(|signals| PollFd::new(&signals.pipe, PollFlags::IN)));
        let wants_input = self.begun && self.input == Input::Open;
        let again = if wants_input { next_look_at_stdin() } else { None };
        let deadline = [deadline, again].into_iter().flatten().min();
        let wants_input = wants_input && again.is_none();
        polled.extend(wants_input.then(|| PollFd::new(&stdin, PollFlags::IN)));
        match rustix::event::poll(&mut polled, until(deadline).as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(system("poll")(errno)),
        }
        let has_input =
            wants_input && polled.last().is_some_and(|polled| !polled.revents().is_empty());
        drop(polled);
        if has_input {
            self.pass_input_on();
        }
        self.explanations_end = None;
        for news in self.mail.take() {
            self.handle_news(news);
        }
        Ok(self.signals.as_mut().map(Signals::take).unwrap_or_default())
    }

    fn pass_input_on(&mut self) {
        match (read_stdin(), self.remotes.first()) {
            (Some(bytes), _) if bytes.is_empty() => {}
            (Some(bytes), Some(first)) => {
                first.outbox.push(&ToNode::Input(bytes));
                self.input = Input::Awaited;
            }
            (_, first) => {
                first.inspect(|first| first.outbox.push(&ToNode::InputEnd));
                self.input = Input::Closed;
            }
        }
    }

    fn handle_news(&mut self, News { node, what }: News) {
        match what {
            What::Message(message) => self.handle_message(node, message),
            What::Time(trip) => self.note_time(node, trip),
            What::Broken => self.policy.output_broke(),
            What::Gone(why) => {
                if self.remotes[node].state < State::Done && !self.over {
                    let why = self.explain_end(node, why);
                    self.lose(node, why);
                }
            }
            What::Quiet | What::Ended => self.remotes[node].streams -= 1,
        }
    }

    fn handle_message(&mut self, node: usize, message: ToLauncher) {
        match message {
            ToLauncher::Ready(address) => {
                self.remotes[node].address = Some(address);
                self.advance(node, State::Ready);
                if self.have_all(State::Ready) {
                    self.exchange_addresses();
                }
            }
            ToLauncher::Met => {
                self.advance(node, State::Met);
                self.compare_clock(node);
            }
            ToLauncher::Started => self.advance(node, State::Started),
            ToLauncher::Done => {
                self.advance(node, State::Done);
                self.remotes[node].running.clear();
            }
            ToLauncher::Ended { rank, how, peer_state, cause } => {
                // The ranks of a host that is lost are lost already.
                if self.remotes[node].state == State::Lost {
                    return;
                }
                let rank = Rank(rank);
                self.remotes[node].running.retain(|&running| running != rank);
                self.policy.ended(rank, how, peer_state, cause.is_some());
                if how != ExitCause::Status(0) || peer_state != PeerState::Left {
                    self.tell_end(RankEnd { node, rank, how, cause });
                }
            }
            ToLauncher::Drained { rank } => self.policy.drained(Rank(rank)),
            ToLauncher::Seen { number, seen } => self.looks.answer(node, number, *seen),
            ToLauncher::Joined => self.looks.note_joined(),
            ToLauncher::Places(seen) => self.looks.keep_places(node, *seen),
            ToLauncher::Recorded(part) => self.keep_part(node, *part),
            ToLauncher::InputTaken if self.input == Input::Awaited => self.input = Input::Open,
            ToLauncher::InputClosed => self.input = Input::Closed,
            ToLauncher::NodeUnheard(other) => self.complain((node, other as usize), true),
            ToLauncher::NodeLost(other) => self.complain((node, other as usize), false),
            ToLauncher::Unheard(others) => self.partition.answer(node, &others),
            // A program that cannot be started on one host is a job that cannot start.
            ToLauncher::Failed(why) if self.remotes[node].state < State::Started => {
                let host = self.remotes[node].label.clone();
                self.trouble.get_or_insert(Error::Host { host, why });
                // It ends now, and has said why: its end is no loss besides.
                self.remotes[node].state = State::Lost;
            }
            ToLauncher::Failed(why) => self.lose(node, why),
            // The last three never come this way.
            ToLauncher::InputTaken
            | ToLauncher::Output { .. }
            | ToLauncher::Clock { .. }
            | ToLauncher::Asked { .. } => {}
        }
    }

    fn advance(&mut self, node: usize, state: State) {
        let remote = &mut self.remotes[node];
        remote.state = remote.state.max(state);
    }

    fn have_all(&self, state: State) -> bool {
        self.remotes.len() == self.hosts.entries.len()
            && self.remotes.iter().all(|remote| remote.state >= state)
    }

    /// All hosts are ready: each is told where the others are.
    fn exchange_addresses(&mut self) {
        let addresses: Vec<Interface> =
            self.remotes.iter().filter_map(|remote| remote.address.clone()).collect();
        let labels = self.remotes.iter().map(|remote| remote.label.as_str());
        let hosts = labels.zip(addresses.iter().map(|address| address.ip));
        if let Err((at, why)) = address::check_reach(&hosts.collect::<Vec<(&str, IpAddr)>>()) {
            let (host, name) = (self.remotes[at].label.clone(), &self.hosts.entries[at].name);
            let why = format!("{why}; name another one: {name}=ADDRESS:RANKS");
            self.trouble.get_or_insert(Error::Host { host, why });
            return;
        }
        self.remotes.iter().for_each(|remote| remote.outbox.push(&ToNode::Meet(addresses.clone())));
    }

    fn lose(&mut self, node: usize, why: String) {
        if self.remotes[node].state >= State::Done {
            return;
        }
        let remote = &mut self.remotes[node];
        remote.state = State::Lost;
        // If it can still be told, it ends what it has.
        remote.outbox.push(&ToNode::Stop);
        let (host, running) = (remote.label.clone(), std::mem::take(&mut remote.running));
        if self.begun {
            self.policy.lost_host(host, &why, &running);
            self.tell_others(node, &running, ExitCause::Silent, None);
        } else {
            self.trouble.get_or_insert(Error::Host { host, why });
        }
    }

    /// Tells all hosts but one that ranks are lost, and the cause.
    fn tell_others(&self, node: usize, ranks: &[Rank], how: ExitCause, cause: Option<u64>) {
        let lost = |rank: &Rank| LostRank { rank: rank.0, how, cause };
        let lost = ToNode::Lost(ranks.iter().map(lost).collect());
        let others = self.remotes.iter().enumerate().filter(|&(other, _)| other != node);
        for (_, remote) in others.filter(|(_, remote)| remote.state < State::Done) {
            remote.outbox.push(&lost);
        }
    }

    /// Hosts that do not say that their ranks have ended, long after these were to be killed, are
    /// not waited for.
    fn give_up(&mut self) {
        self.killed = Some(Instant::now());
        for node in 0..self.remotes.len() {
            if self.remotes[node].running.is_empty() {
                continue;
            }
            self.lose(node, "it did not end its ranks".into());
        }
    }

    /// Stops the ranks and this process, until a signal lets it go on.
    fn pause(&mut self) {
        self.signal(Signal::STOP);
        let deadline = Instant::now() + BEFORE_PAUSE;
        self.remotes.iter().for_each(|remote| _ = remote.outbox.wait_until_written(deadline));
        self.stop_here();
        self.signal(Signal::CONT);
    }

    /// Stops this process until a signal lets it go on. Nobody has less time for it.
    fn stop_here(&mut self) {
        let pause = self.policy.pause();
        self.add_time(pause);
    }

    /// Moves everything that is to be by some time, but what the policy has moved.
    fn add_time(&mut self, pause: Duration) {
        for time in [&mut self.killed, &mut self.start_deadline] {
            *time = time.map(|when| later(when, pause));
        }
        self.partition.pause(pause);
        self.looks.pause(pause);
    }

    fn signal(&mut self, signal: Signal) {
        if signal == Signal::KILL {
            self.killed.get_or_insert_with(Instant::now);
        }
        if ENDING.contains(&signal.as_raw()) {
            self.await_places();
        }
        self.remotes.iter().for_each(|remote| remote.outbox.push(&ToNode::Signal(signal.as_raw())));
    }

    /// Leaves nothing behind, here or on the hosts, however the job went.
    fn finish(&mut self, in_order: bool) {
        if in_order && self.begun {
            self.compare_clocks_again();
        }
        self.remotes.iter().for_each(|remote| remote.outbox.push(&ToNode::Stop));
        if in_order && self.begun {
            self.await_hosts_done();
        }
        self.over = true;
        self.remotes.iter().for_each(|remote| remote.outbox.close());
        let mut deadline = Instant::now() + AFTER_CLOSE;
        while self.remotes.iter().any(|remote| remote.streams > 0) && Instant::now() < deadline {
            if self.step_quietly(&mut deadline).is_none() {
                break;
            }
        }
        for remote in &mut self.remotes {
            remote.wait(deadline);
            remote.kill();
        }
        if self.launch.is_own_process {
            processes::end_descendants(self.reaper.as_ref().map(Reaper::pid));
        }
        if let Some(group) = self.group() {
            processes::end_group_for_good(group);
        }
        if let Some(reaper) = self.reaper.take() {
            reaper.dismiss();
        }
    }

    /// Waits until all hosts are done and all output was passed on; when the job was ended rather
    /// than done, not for long.
    fn await_hosts_done(&mut self) {
        let wait_max =
            if self.policy.was_cut_short() { Duration::from_secs(1) } else { END_TIMEOUT };
        let mut deadline = Instant::now() + wait_max;
        let mut patience = Patience::new(self.console, true);
        while self.remotes.iter().any(|remote| remote.state < State::Done) {
            let Some((heard, told_to_end)) = self.step_quietly(&mut deadline) else {
                return;
            };
            let stalled = self.printer.is_busy() && !self.policy.was_cut_short();
            let is_read = !patience.is_over();
            if heard || stalled || is_read {
                deadline = Instant::now() + wait_max;
            }
            if told_to_end || deadline <= Instant::now() {
                break;
            }
        }
        if self.printer.is_busy() {
            self.policy.say(UNREAD);
        }
        // A host that is not waited for any longer may have said so, behind output.
        let is_waited_for = !self.is_hurried && !self.policy.was_cut_short();
        for node in 0..self.remotes.len() {
            if self.remotes[node].state < State::Done && is_waited_for {
                self.lose(node, "it did not say that it has ended".into());
            }
        }
    }

    /// Makes one step, when there are no ranks any more; returns whether a host has made progress,
    /// and whether a signal asks for the end. A pause costs the hosts nothing of their time.
    fn step_quietly(&mut self, deadline: &mut Instant) -> Option<(bool, bool)> {
        self.input = Input::Closed;
        let before: Vec<(State, u32)> =
            self.remotes.iter().map(|remote| (remote.state, remote.streams)).collect();
        let parts = self.parts_recorded();
        let signals = self.step(Some(*deadline)).ok()?;
        if signals.contains(&STOPPING) {
            *deadline = later(*deadline, signals::stop());
        }
        let heard = self.remotes.iter().map(|remote| (remote.state, remote.streams)).ne(before)
            || self.parts_recorded() != parts;
        let told_to_end = signals.iter().any(|signal| ENDING.contains(signal));
        self.is_hurried |= told_to_end;
        Some((heard, told_to_end))
    }

    /// The process group of the programs that reach the hosts.
    fn group(&self) -> Option<Pid> {
        self.remotes.first().map(Remote::pid)
    }
}

#[cfg(test)]
mod tests;
