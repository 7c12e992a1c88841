//! The daemon of a host: starts the ranks of its node, watches them, and does what the launcher
//! says over standard input.
//!
//! Nothing is left here, whatever becomes of the launcher: when standard input ends, everything
//! ends.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use farside_fabric::{Loss, Node};
use farside_inspect::Reader;
use farside_job::{FarLoss, Host, JobPlan, address};
use rustix::event::{PollFd, PollFlags};
use rustix::process::Signal;

use crate::channel::{Mailbox, Outbox, mailbox};
use crate::frames::{GREETING, Interface, LostRank, Task, ToLauncher, ToNode, VERSION, decode};
use crate::input::Feed;
use crate::local_ranks::{LocalRanks, Started};
use crate::output::{Forwarder, News, Sink};
use crate::policy::until;
use crate::processes::FileLimit;
use crate::recorded::parts;
use crate::service::Connections;
use crate::signals::{ENDING, Signals};
use crate::{Launch, processes, system};

/// The interval at which the interface is asked which nodes are silent.
const LOOK: Duration = Duration::from_millis(200);
/// A launcher that does not answer the news of a silent node for so long is out of reach. If there
/// is no other node that is heard here, it is this one that was cut off.
const CUT_OFF: Duration = Duration::from_secs(30);
/// The time that the last messages may take.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// Runs a daemon from its beginning to its end, and returns its exit status. To be called by a
/// program that was started with the argument `__node`.
pub fn node() -> Result<u8, String> {
    processes::adopt_orphans();
    let files = FileLimit::raise();
    let failed = |error: &dyn std::fmt::Display| format!("cannot talk to the launcher: {error}");
    let signals = Signals::new().map_err(|error| failed(&error))?;
    let stdout = std::io::stdout().as_fd().try_clone_to_owned().map_err(|error| failed(&error))?;
    let outbox = Outbox::start(File::from(stdout)).map_err(|error| failed(&error))?;
    let (slot, mail) = mailbox().map_err(|error| failed(&error))?;
    let answers = outbox.clone();
    let connections = Connections::default();
    let asking = connections.clone();
    let listen = move || {
        let mut stdin = std::io::stdin().lock();
        loop {
            let heard = match decode(&mut stdin) {
                // At once: the shorter it takes, the better the clocks are compared.
                Ok(Some(ToNode::Clock { sent_ns })) => {
                    let there_ns = farside_job::now_ns();
                    answers.push(&ToLauncher::Clock { sent_ns, there_ns });
                    continue;
                }
                // At once, too: a rank waits for it.
                Ok(Some(ToNode::Answer { connection, answer })) => {
                    asking.answer(connection, &answer);
                    continue;
                }
                // And this: ranks wait to write more.
                Ok(Some(ToNode::Printed(bytes))) => {
                    answers.confirm(bytes as usize);
                    continue;
                }
                Ok(Some(message)) => Heard::Message(message),
                // A launcher that is not understood is as good as none.
                Ok(None) | Err(_) => Heard::Gone,
            };
            let is_last = matches!(heard, Heard::Gone);
            if !slot.put(heard) || is_last {
                return;
            }
        }
    };
    std::thread::Builder::new()
        .name("farside-launcher".into())
        .spawn(listen)
        .map_err(|error| failed(&error))?;
    outbox.push_bytes(format!("{GREETING}{VERSION}\n").as_bytes());
    let mut daemon = Daemon { mail, heard: Vec::new(), signals, outbox, connections, files };
    match daemon.run() {
        Ok(()) | Err(End::Gone) => Ok(0),
        Err(End::Failed(why)) => {
            daemon.outbox.push(&ToLauncher::Failed(why));
            daemon.outbox.wait_until_written(Instant::now() + END_TIMEOUT);
            // The launcher has been told why.
            Ok(1)
        }
    }
}

enum Heard {
    Message(ToNode),
    /// The launcher has closed its end.
    Gone,
}

/// The reason why a daemon ends early.
enum End {
    /// The launcher is gone, or has called it off.
    Gone,
    Failed(String),
}

struct Daemon {
    mail: Mailbox<Heard>,
    /// Messages that were received and not yet dealt with, in order.
    heard: Vec<Heard>,
    signals: Signals,
    outbox: Outbox,
    connections: Connections,
    files: FileLimit,
}

impl Daemon {
    fn run(&mut self) -> Result<(), End> {
        let failed = |error: &dyn std::fmt::Display| End::Failed(error.to_string());
        let ToNode::Task(task) = self.next()? else {
            return Err(End::Failed("the task of this host did not come first".into()));
        };
        std::env::set_current_dir(&task.directory).map_err(|error| {
            let directory = Path::new(&task.directory).display();
            End::Failed(format!(
                "cannot go to the directory {directory}: {error}; choose one with --directory"
            ))
        })?;
        let plan = JobPlan::decode(&task.plan).map_err(|error| failed(&error))?;
        let (node, giving) = (Node(task.node), "--hosts NAME=ADDRESS:RANKS");
        let bind = address::find(&plan.hosts, task.node as usize, task.address, giving)
            .map_err(End::Failed)?;
        let host = Host::node(&plan, node, bind).map_err(|error| failed(&error))?;
        let address = host
            .address()
            .ok_or_else(|| End::Failed("this node's fabric has no interface".into()))?;
        self.outbox.push(&ToLauncher::Ready(address.into()));
        let ToNode::Meet(addresses) = self.next()? else {
            return Err(End::Gone);
        };
        let addresses =
            addresses.iter().map(Interface::address).collect::<farside_fabric::Result<Vec<_>>>();
        host.meet(&addresses.map_err(|error| failed(&error))?).map_err(|error| failed(&error))?;
        self.outbox.push(&ToLauncher::Met);
        let ToNode::Start = self.next()? else {
            return Err(End::Gone);
        };
        let mut launch = launch(&task, plan.ranks_of(node)).map_err(|error| failed(&error))?;
        if let Some(variable) = &task.service {
            let socket = self.connections.listen(self.outbox.clone());
            let socket = socket.map_err(|error| {
                End::Failed(format!("cannot listen for requests of its ranks: {error}"))
            })?;
            launch = launch.variable(variable, socket);
        }
        let sink = Sink::channel(self.outbox.clone(), task.lines);
        let Started { local_ranks, forwarder, input } =
            LocalRanks::start(&launch, &host, sink, self.files).map_err(|error| failed(&error))?;
        self.outbox.push(&ToLauncher::Started);
        let watch = Watch {
            daemon: self,
            host: &host,
            local_ranks,
            forwarder: Some(forwarder),
            feed: input.map(Feed::new),
            taking: false,
            lost: Vec::new(),
            silence: Silence::default(),
            has_told_places: false,
            has_told_joined: false,
        };
        watch.run()
    }

    /// Waits for the next message.
    fn next(&mut self) -> Result<ToNode, End> {
        loop {
            if !self.heard.is_empty() {
                return match self.heard.remove(0) {
                    Heard::Message(message) => Ok(message),
                    Heard::Gone => Err(End::Gone),
                };
            }
            let mut polled = [
                PollFd::new(&self.mail.bell, PollFlags::IN),
                PollFd::new(&self.signals.pipe, PollFlags::IN),
            ];
            match rustix::event::poll(&mut polled, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(End::Failed(system("poll")(errno).to_string())),
            }
            if self.signals.take().iter().any(|signal| ENDING.contains(signal)) {
                return Err(End::Failed("it was ended by a signal".into()));
            }
            self.heard.extend(self.mail.take());
        }
    }
}

fn launch(task: &Task, ranks: u32) -> Result<Launch, crate::Error> {
    let own = std::env::current_exe().ok();
    let mut launch = Launch::new(&task.program, ranks)?.arguments(&task.arguments);
    launch.environment.clone_from(&task.environment);
    launch.is_own_process = true;
    launch.interactive = task.input;
    launch.reaper = own;
    Ok(launch)
}

/// The time while there are ranks, and until the launcher says that it is over.
struct Watch<'a> {
    daemon: &'a mut Daemon,
    host: &'a Host,
    local_ranks: LocalRanks<'a>,
    forwarder: Option<Forwarder>,
    feed: Option<Feed>,
    /// True while the launcher waits to hear that input was taken.
    taking: bool,
    /// The nodes that were reported as silent.
    lost: Vec<u32>,
    silence: Silence,
    has_told_places: bool,
    has_told_joined: bool,
}

/// The silence of the launcher.
#[derive(Default)]
struct Silence {
    /// Since when the launcher has not answered the latest report of a silent node.
    reported: Option<Instant>,
    /// True while the launcher is stopped, as its ranks are, and answers nothing.
    is_paused: bool,
}

impl Silence {
    fn report(&mut self) {
        self.reported = Some(Instant::now());
    }

    /// The launcher has said something.
    fn hear(&mut self, message: &ToNode) {
        self.reported = None;
        match message {
            ToNode::Signal(number) if *number == Signal::STOP.as_raw() => self.is_paused = true,
            ToNode::Signal(number) if *number == Signal::CONT.as_raw() => self.is_paused = false,
            _ => {}
        }
    }

    /// Returns for how long the launcher has not answered a report, though it could.
    fn time(&self) -> Option<Duration> {
        self.reported.filter(|_| !self.is_paused).map(|since| since.elapsed())
    }
}

#[derive(PartialEq, Eq)]
enum Then {
    GoOn,
    /// The launcher has said that it is over.
    Stop,
    /// The launcher is gone.
    Leave,
}

impl Watch<'_> {
    fn run(mut self) -> Result<(), End> {
        let then = self.watch();
        self.local_ranks.clean_up();
        match then? {
            Then::Stop => {
                self.flush();
                Ok(())
            }
            Then::GoOn | Then::Leave => Err(End::Gone),
        }
    }

    fn watch(&mut self) -> Result<Then, End> {
        loop {
            let mut polled: Vec<PollFd<'_>> = self.local_ranks.polled().collect();
            let ranks = polled.len();
            polled.push(PollFd::new(&self.daemon.mail.bell, PollFlags::IN));
            polled.push(PollFd::new(&self.daemon.signals.pipe, PollFlags::IN));
            polled.extend(self.forwarder.as_ref().map(Forwarder::polled));
            polled.extend(self.feed.as_ref().filter(|feed| !feed.is_idle()).map(Feed::polled));
            // The interface does not report when a node falls silent: it has to be asked.
            match rustix::event::poll(&mut polled, until(Some(Instant::now() + LOOK)).as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(End::Failed(system("poll")(errno).to_string())),
            }
            let happened: Vec<bool> =
                polled.iter().map(|polled| !polled.revents().is_empty()).collect();
            drop(polled);
            let news = self.forwarder.is_some() && happened[ranks + 2];
            let fed = happened.len() > ranks + 2 + usize::from(self.forwarder.is_some())
                && happened[happened.len() - 1];
            // Ranks may have ended because a node is silent: that is told first.
            let (told, host, outbox) = (&mut self.has_told_places, self.host, &self.daemon.outbox);
            let before_loss = || tell_places(told, host, outbox);
            let ends = self.local_ranks.reap(&happened[..ranks], before_loss);
            self.report_silence();
            self.tell_joined();
            for end in ends {
                let cause = end.cause.map(Loss::to_bits);
                self.daemon.outbox.push(&ToLauncher::Ended {
                    rank: end.rank.0,
                    how: end.how,
                    peer_state: end.peer_state,
                    cause,
                });
                match &self.forwarder {
                    Some(forwarder) => forwarder.drain(end.rank),
                    None => self.daemon.outbox.push(&ToLauncher::Drained { rank: end.rank.0 }),
                }
            }
            if news && self.hear_forwarder() == Then::Leave {
                return Ok(Then::Leave);
            }
            if fed {
                self.feed_on();
            }
            if self.daemon.signals.take().iter().any(|signal| ENDING.contains(signal)) {
                return Err(End::Failed("it was ended by a signal".into()));
            }
            let then = self.hear_launcher();
            if then != Then::GoOn {
                return Ok(then);
            }
            if is_cut_off(self.lost.len(), self.host.other_nodes(), self.silence.time()) {
                return Ok(Then::Leave);
            }
        }
    }

    fn hear_launcher(&mut self) -> Then {
        let arrived = self.daemon.mail.take();
        self.daemon.heard.extend(arrived);
        for heard in merged(std::mem::take(&mut self.daemon.heard)) {
            let Heard::Message(message) = heard else {
                return Then::Leave;
            };
            self.silence.hear(&message);
            match message {
                ToNode::Signal(number) => {
                    if ENDING.contains(&number) {
                        self.tell_places();
                    }
                    Signal::from_named_raw(number)
                        .into_iter()
                        .for_each(|signal| self.local_ranks.signal(signal));
                }
                ToNode::Input(bytes) => match &mut self.feed {
                    Some(feed) => {
                        feed.push(&bytes);
                        self.taking = true;
                    }
                    None => self.daemon.outbox.push(&ToLauncher::InputClosed),
                },
                ToNode::InputEnd => self.feed = None,
                ToNode::Lost(lost) => {
                    self.tell_places();
                    let losses: Vec<FarLoss> = lost.iter().map(LostRank::loss).collect();
                    self.host.note_losses(&losses);
                }
                ToNode::Look(number) => {
                    let seen = Box::new(Reader::new(self.host.memories()).read().condensed());
                    self.daemon.outbox.push(&ToLauncher::Seen { number, seen });
                }
                ToNode::Places => self.tell_places(),
                ToNode::Hearing => {
                    self.daemon.outbox.push(&ToLauncher::Unheard(self.host.nodes_silent()));
                }
                ToNode::Stop => return Then::Stop,
                // These have had their time.
                ToNode::Task(_)
                | ToNode::Meet(_)
                | ToNode::Start
                | ToNode::Clock { .. }
                | ToNode::Answer { .. }
                | ToNode::Printed(_) => {}
            }
        }
        Then::GoOn
    }

    fn tell_places(&mut self) {
        tell_places(&mut self.has_told_places, self.host, &self.daemon.outbox);
    }

    /// Tells the launcher, once, that a rank has joined.
    fn tell_joined(&mut self) {
        if !self.has_told_joined
            && self.host.ranks().into_iter().any(|rank| self.host.has_joined(rank))
        {
            self.has_told_joined = true;
            self.daemon.outbox.push(&ToLauncher::Joined);
        }
    }

    /// Passes input on to rank 0, and says so when it has it.
    fn feed_on(&mut self) {
        let Some(feed) = &mut self.feed else {
            return;
        };
        if !feed.pump() {
            self.feed = None;
            self.daemon.outbox.push(&ToLauncher::InputClosed);
        } else if feed.is_idle() && std::mem::take(&mut self.taking) {
            self.daemon.outbox.push(&ToLauncher::InputTaken);
        }
    }

    fn hear_forwarder(&mut self) -> Then {
        for news in self.forwarder.as_mut().map(Forwarder::hear).unwrap_or_default() {
            match news {
                // The channel has no reader any more.
                News::Broken => return Then::Leave,
                News::Drained(rank) => {
                    self.daemon.outbox.push(&ToLauncher::Drained { rank: rank.0 })
                }
                News::Done => self.forwarder = None,
            }
        }
        Then::GoOn
    }

    fn report_silence(&mut self) {
        for node in self.host.nodes_lost() {
            if !self.lost.contains(&node) {
                self.lost.push(node);
                let is_unheard = self.host.is_unheard(node);
                let told = if is_unheard { ToLauncher::NodeUnheard } else { ToLauncher::NodeLost };
                self.daemon.outbox.push(&told(node));
                self.silence.report();
            }
        }
    }

    /// Passes on what the ranks have written and what was recorded, and says that this is all. The
    /// launcher closes its end when that takes too long.
    fn flush(&mut self) {
        self.forwarder.iter().for_each(Forwarder::stop);
        while let Some(forwarder) = &self.forwarder {
            let mut polled =
                [forwarder.polled(), PollFd::new(&self.daemon.mail.bell, PollFlags::IN)];
            if !matches!(
                rustix::event::poll(&mut polled, None),
                Ok(_) | Err(rustix::io::Errno::INTR)
            ) {
                return;
            }
            let news = !polled[0].revents().is_empty();
            if self.daemon.mail.take().iter().any(|heard| matches!(heard, Heard::Gone)) {
                return;
            }
            if news && self.hear_forwarder() == Then::Leave {
                return;
            }
        }
        // The ranks have ended: what they have recorded does not change any more.
        for part in self.host.recording().iter().flat_map(parts) {
            self.daemon.outbox.push(&ToLauncher::Recorded(Box::new(part)));
        }
        self.daemon.outbox.push(&ToLauncher::Done);
        while !self.daemon.outbox.wait_until_written(Instant::now() + LOOK) {
            if self.daemon.mail.take().iter().any(|heard| matches!(heard, Heard::Gone)) {
                return;
            }
        }
    }
}

/// Puts losses that have come one behind the other together: the ranks are told of all at once.
fn merged(heard: Vec<Heard>) -> Vec<Heard> {
    let mut merged: Vec<Heard> = Vec::new();
    for heard in heard {
        match (merged.last_mut(), heard) {
            (
                Some(Heard::Message(ToNode::Lost(before))),
                Heard::Message(ToNode::Lost(mut lost)),
            ) => before.append(&mut lost),
            (_, heard) => merged.push(heard),
        }
    }
    merged
}

/// Returns whether this host was cut off: so many of the other nodes are silent, and the launcher
/// has not answered the news of that for so long.
fn is_cut_off(silent: usize, others: usize, unanswered: Option<Duration>) -> bool {
    silent >= others && unanswered.is_some_and(|time| time > CUT_OFF)
}

/// Tells the launcher what the ranks do, once, before they hear that the job fails: then they are
/// somewhere else.
fn tell_places(is_told: &mut bool, host: &Host, outbox: &Outbox) {
    if !std::mem::replace(is_told, true) {
        let seen = Reader::new(host.memories()).read().condensed();
        outbox.push(&ToLauncher::Places(Box::new(seen)));
    }
}

#[cfg(test)]
mod tests {
    use farside_fabric::ExitCause;

    use super::*;

    #[test]
    fn a_host_that_hears_somebody_or_is_answered_is_not_cut_off() {
        let long = Some(CUT_OFF + Duration::from_millis(1));
        assert!(is_cut_off(2, 2, long));
        // The other node is heard: the launcher is what is out of reach, and its host may be lost.
        assert!(!is_cut_off(1, 2, long));
        assert!(!is_cut_off(2, 2, Some(CUT_OFF)), "there is time left");
        assert!(!is_cut_off(2, 2, None), "the launcher has answered");
    }

    #[test]
    fn a_launcher_that_is_stopped_need_not_answer() {
        let mut silence = Silence::default();
        let signal = |signal: Signal| ToNode::Signal(signal.as_raw());
        silence.report();
        assert!(silence.time().is_some());
        silence.hear(&signal(Signal::STOP));
        silence.report();
        assert_eq!(silence.time(), None);
        silence.hear(&signal(Signal::CONT));
        silence.report();
        assert!(silence.time().is_some());
    }

    #[test]
    fn losses_that_have_come_together_are_told_together() {
        let lost = |rank| LostRank { rank, how: ExitCause::Signal(9), cause: None };
        let message = |ranks: &[u32]| ToNode::Lost(ranks.iter().copied().map(lost).collect());
        let messages =
            [message(&[1, 2]), message(&[3]), ToNode::Hearing, message(&[4]), message(&[5])];
        let heard = messages.into_iter().map(Heard::Message).chain([Heard::Gone]).collect();
        let message_of = |heard| match heard {
            Heard::Message(message) => Some(message),
            Heard::Gone => None,
        };
        let merged: Vec<Option<ToNode>> = merged(heard).into_iter().map(message_of).collect();
        let expected = [message(&[1, 2, 3]), ToNode::Hearing, message(&[4, 5])];
        assert_eq!(merged, expected.map(Some).into_iter().chain([None]).collect::<Vec<_>>());
    }
}
