//! The policy of a job: its time limit, grace, failures and status. It knows no process, so that it
//! is the same on one host and on many.

use std::time::{Duration, Instant};

use farside_fabric::{ExitCause, PeerState, Rank};
use farside_inspect::page;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::Signal;

use crate::console::Console;
use crate::signals::{self, ENDING};
use crate::{Failure, Launch, Report};

/// The status of a job whose time was up, as `timeout` has it.
const TIMED_OUT: i32 = 124;
/// The status of a job whose output could not be written, as of a process that SIGPIPE has ended.
const OUTPUT_LOST: i32 = 141;
/// The status of a job that was ended because ranks were stuck.
const STUCK: i32 = 125;
/// The time that ranks may take to end after they were asked to, if they had their grace before.
const AFTER_TERM: Duration = Duration::from_secs(1);
/// The time for which the news of a rank's end waits for its last lines.
const LAST_LINES: Duration = Duration::from_secs(1);

pub(crate) struct Policy<'a> {
    launch: &'a Launch,
    console: Console,
    failures: Vec<Failure>,
    hosts_lost: Vec<String>,
    /// The exit status of the job, and the one if nothing but consequences of losses is known.
    status: i32,
    consequence: i32,
    timed_out: bool,
    /// True if the job was ended because ranks were stuck.
    is_stuck: bool,
    /// The first signal that has asked for the end.
    asked_with: Option<i32>,
    untold: Vec<Untold>,
    has_told: bool,
    /// True once the ranks were asked to end, or killed.
    has_signalled: bool,
    deadline: Option<Instant>,
    /// The next signal to ranks that still run, and its time.
    ending: Option<(Instant, Signal)>,
    is_unread: bool,
}

/// The end of a rank that is not told yet: what the rank has written comes first, and those that
/// end alike within that time are told together.
struct Untold {
    failure: Failure,
    is_drained: bool,
    /// When it is told at the latest.
    due: Instant,
}

impl<'a> Policy<'a> {
    pub(crate) fn new(launch: &'a Launch, console: &Console) -> Policy<'a> {
        Policy {
            launch,
            console: console.clone(),
            failures: Vec::new(),
            hosts_lost: Vec::new(),
            status: 0,
            consequence: 0,
            timed_out: false,
            is_stuck: false,
            asked_with: None,
            untold: Vec::new(),
            has_told: false,
            has_signalled: false,
            deadline: None,
            ending: None,
            is_unread: false,
        }
    }

    /// All ranks were started: their time runs from now on.
    pub(crate) fn begin(&mut self) {
        self.deadline = self.launch.timeout.and_then(|time| Instant::now().checked_add(time));
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        let untold = self.untold.first().map(|untold| untold.due);
        [self.deadline, self.ending.map(|(when, _)| when), untold].into_iter().flatten().min()
    }

    /// Returns whether a rank has failed, or time was up.
    pub(crate) fn has_failed(&self) -> bool {
        self.timed_out || !self.failures.is_empty()
    }

    /// Returns whether the job's time has run out just now.
    pub(crate) fn is_time_up(&self) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= Instant::now())
    }

    /// Returns whether the ranks were sent a signal that ends them: whoever waits for one of them
    /// from then on is not stuck.
    pub(crate) fn has_signalled(&self) -> bool {
        self.has_signalled
    }

    /// Ranks are stuck: ends the job if that is wanted.
    pub(crate) fn found_stuck(&mut self) {
        if self.launch.stuck_exit && self.ending.is_none() {
            self.is_stuck = true;
            self.status = STUCK;
            self.say("the job is ended because ranks are stuck (--stuck-exit)");
            self.ending = Some((Instant::now(), Signal::TERM));
        }
    }

    pub(crate) fn due_signal(&mut self, running: impl Fn() -> Vec<Rank>) -> Option<Signal> {
        let now = Instant::now();
        if self.untold.first().is_some_and(|untold| untold.due <= now) {
            self.tell(|untold| untold.is_drained || untold.due <= now);
        }
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.deadline = None;
            self.timed_out = true;
            self.status = TIMED_OUT;
            let seconds = self.launch.timeout.unwrap_or_default().as_secs_f64();
            self.say(&format!("timed out after {seconds} s; still running: {}", list(&running())));
            // Ranks that were asked already are not asked again instead of being killed.
            if !matches!(self.ending, Some((_, Signal::KILL))) {
                self.ending = Some((now, Signal::TERM));
            }
        }
        let (_, signal) = self.ending.filter(|&(when, _)| when <= now)?;
        let is_sudden = self.timed_out || self.is_stuck;
        let kill = if is_sudden { self.after_grace() } else { now + AFTER_TERM };
        self.ending = Some((kill, Signal::KILL));
        self.has_signalled = true;
        Some(signal)
    }

    /// Takes a signal that was sent to the launcher; returns the signal that all ranks are to be
    /// sent.
    pub(crate) fn asked(&mut self, number: i32) -> Option<Signal> {
        let signal = Signal::from_named_raw(number)?;
        if !ENDING.contains(&number) {
            return Some(signal);
        }
        // A second request is urgent.
        let insists = matches!(self.ending, Some((_, Signal::KILL)));
        self.asked_with.get_or_insert(number);
        self.has_signalled = true;
        self.ending = Some((self.after_grace(), Signal::KILL));
        Some(if insists { Signal::KILL } else { signal })
    }

    /// Takes a signal that was sent to the launcher before there were ranks.
    pub(crate) fn cancelled(&mut self, number: i32) {
        self.asked_with.get_or_insert(number);
    }

    /// Stops this process until a signal lets it go on, and returns how long that took. The job
    /// has no less time for it.
    pub(crate) fn pause(&mut self) -> Duration {
        let pause = signals::stop();
        self.deadline = self.deadline.map(|when| later(when, pause));
        self.ending = self.ending.map(|(when, signal)| (later(when, pause), signal));
        self.untold.iter_mut().for_each(|untold| untold.due = later(untold.due, pause));
        pause
    }

    /// A rank has ended like this, when `peer_state` was what the job knew of it; because of a loss
    /// if it is a consequence. That is said when all of its output was passed on, of which
    /// [`Policy::drained`] tells.
    pub(crate) fn ended(
        &mut self,
        rank: Rank,
        how: ExitCause,
        peer_state: PeerState,
        is_consequence: bool,
    ) {
        // It has left in order; or it is a program that never joined, such as `hostname`, and has
        // done nothing wrong.
        if how == ExitCause::Status(0)
            && matches!(peer_state, PeerState::Left | PeerState::Starting)
        {
            return;
        }
        let (failure, due) = (Failure { rank, how }, Instant::now() + LAST_LINES);
        self.untold.push(Untold { failure, is_drained: false, due });
        self.failed(&[rank], how, is_consequence);
    }

    /// The output of a rank that has ended was passed on.
    pub(crate) fn drained(&mut self, rank: Rank) {
        let ended = self.untold.iter_mut().filter(|untold| untold.failure.rank == rank);
        ended.for_each(|untold| untold.is_drained = true);
        if self.untold.first().is_some_and(|first| first.is_drained) {
            self.tell_first();
        }
    }

    /// Tells the first failure by itself, if nothing was told yet: it explains those that follow.
    /// When all ranks were told to end, none is first.
    fn tell_first(&mut self) {
        let first = self.untold.first().map(|first| first.failure.rank);
        if let Some(rank) = first.filter(|_| !self.has_told && !self.has_signalled) {
            self.tell(|untold| untold.failure.rank == rank);
        }
    }

    /// Tells what is left to tell, whatever has become of the output.
    pub(crate) fn say_rest(&mut self) {
        self.tell_first();
        self.tell(|_| true);
    }

    /// Tells the ends of some ranks, in one line those that have ended alike.
    fn tell(&mut self, which: impl Fn(&Untold) -> bool) {
        let mut alike: Vec<(ExitCause, Vec<Rank>)> = Vec::new();
        for Untold { failure: Failure { rank, how }, .. } in
            self.untold.extract_if(.., |untold| which(untold))
        {
            match alike.iter_mut().find(|(other, _)| *other == how) {
                Some((_, ranks)) => ranks.push(rank),
                None => alike.push((how, vec![rank])),
            }
        }
        self.has_told |= !alike.is_empty();
        alike.iter().for_each(|(how, ranks)| self.say(&describe_ends(ranks, *how)));
    }

    pub(crate) fn lost_host(&mut self, host: String, why: &str, ranks: &[Rank]) {
        let with_it =
            if ranks.is_empty() { String::new() } else { format!("; with it {}", list(ranks)) };
        self.say(&format!("host {host} is lost: {why}{with_it}"));
        self.hosts_lost.push(host);
        self.failed(ranks, ExitCause::Silent, false);
    }

    fn failed(&mut self, ranks: &[Rank], how: ExitCause, is_consequence: bool) {
        self.failures.extend(ranks.iter().map(|&rank| Failure { rank, how }));
        // The rank that was lost first may be the last to end: it has a backtrace to print.
        let status = if is_consequence { &mut self.consequence } else { &mut self.status };
        if *status == 0 {
            *status = match how {
                ExitCause::Signal(signal) => 128 + signal,
                ExitCause::Status(0) => 1,
                ExitCause::Status(status) => status,
                _ => 1,
            };
        }
        if !self.launch.keep_going && self.ending.is_none() {
            self.ending = Some((self.after_grace(), Signal::TERM));
        }
    }

    /// Ends the job when its output has no reader any more.
    pub(crate) fn output_broke(&mut self) {
        self.note_lost_output();
        if self.ending.is_none() {
            self.ending = Some((Instant::now(), Signal::TERM));
        }
    }

    /// Output that could not be written is a failure of its own, unless there is another.
    pub(crate) fn note_lost_output(&mut self) {
        if self.status == 0 && self.consequence == 0 {
            self.is_unread = is_unread();
            self.say("cannot write the ranks' output; some of it is lost");
            self.status = OUTPUT_LOST;
        }
    }

    /// Returns whether the job was ended, rather than done: then its output is not waited for long.
    pub(crate) fn was_cut_short(&self) -> bool {
        self.timed_out || self.is_stuck || self.asked_with.is_some()
    }

    pub(crate) fn report(self, stdout: Vec<u8>) -> Report {
        // Ranks that end in order when they are asked to do not make it a job that was done.
        let asked = self.asked_with.map_or(0, |number| 128 + number);
        Report {
            status: [self.status, self.consequence, asked]
                .into_iter()
                .find(|&one| one != 0)
                .unwrap_or(0),
            failures: self.failures,
            stdout,
            timed_out: self.timed_out,
            hosts_lost: self.hosts_lost,
            recording: None,
        }
    }

    /// Says something, if there is a reader; never waits for it.
    pub(crate) fn say(&self, what: &str) {
        if self.launch.interactive && !self.is_unread {
            self.console.say(what);
        }
    }

    /// Returns the end of the grace period; a time out of the clock's range is a day.
    fn after_grace(&self) -> Instant {
        let now = Instant::now();
        now.checked_add(self.launch.grace).unwrap_or(now + Duration::from_secs(24 * 60 * 60))
    }
}

/// Returns whether our output has no reader any more, as after `| head`: nothing to complain of,
/// and neither are ranks that end because of it.
fn is_unread() -> bool {
    let stdout = std::io::stdout();
    let mut polled = [PollFd::new(&stdout, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut polled, Some(&now)).is_ok()
        && polled[0].revents().contains(PollFlags::ERR)
}

fn list(ranks: &[Rank]) -> String {
    page::ranks(&ranks.iter().map(|rank| rank.0).collect::<Vec<u32>>())
}

pub(crate) fn describe_ends(ranks: &[Rank], how: ExitCause) -> String {
    let how = match how {
        ExitCause::Status(0) => format!("{how} without leaving the job"),
        _ => how.to_string(),
    };
    let is_one = ranks.len() == 1;
    format!("{} {}", list(ranks), if is_one { how } else { how.replacen("was ", "were ", 1) })
}

pub(crate) fn later(when: Instant, pause: Duration) -> Instant {
    when.checked_add(pause).unwrap_or(when)
}

pub(crate) fn until(when: Option<Instant>) -> Option<Timespec> {
    let left = when?.saturating_duration_since(Instant::now());
    Some(Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_described_for_one_rank_and_for_several() {
        let [one, some] = [vec![Rank(3)], vec![Rank(0), Rank(2), Rank(1)]];
        let killed = ExitCause::Signal(9);
        assert_eq!(describe_ends(&one, killed), format!("rank 3 {killed}"));
        assert!(describe_ends(&some, killed).starts_with("ranks 0-2 were "));
        let left = "ranks 0-2 exited with status 0 without leaving the job";
        assert_eq!(describe_ends(&some, ExitCause::Status(0)), left);
    }

    #[test]
    fn the_status_is_that_of_the_first_cause_although_it_ends_last() {
        let (launch, console) = (Launch::new("program", 3).unwrap(), Console::open().unwrap());
        let consequence = |policy: &mut Policy<'_>| {
            policy.ended(Rank(0), ExitCause::Status(1), PeerState::Left, true);
        };
        let mut policy = Policy::new(&launch, &console);
        consequence(&mut policy);
        let panicked = PeerState::Lost(ExitCause::Panicked);
        policy.ended(Rank(2), ExitCause::Status(101), panicked, false);
        policy.ended(Rank(1), ExitCause::Signal(15), PeerState::Alive, false);
        assert_eq!(policy.report(Vec::new()).status, 101);
        let mut policy = Policy::new(&launch, &console);
        consequence(&mut policy);
        assert_eq!(policy.report(Vec::new()).status, 1);
    }

    #[test]
    fn a_time_out_gives_ranks_that_were_asked_to_end_no_second_grace() {
        let (mut launch, console) = (Launch::new("program", 2).unwrap(), Console::open().unwrap());
        launch.grace = Duration::from_secs(3600);
        let mut policy = Policy::new(&launch, &console);
        assert_eq!(policy.asked(Signal::INT.as_raw()), Some(Signal::INT));
        let ending = policy.ending;
        policy.deadline = Some(Instant::now());
        assert_eq!(policy.due_signal(Vec::new), None);
        assert_eq!((policy.timed_out, policy.ending), (true, ending));
        assert_eq!(policy.asked(Signal::INT.as_raw()), Some(Signal::KILL));
    }

    #[test]
    fn a_rank_with_the_status_of_stuck_jobs_gives_the_others_no_second_grace() {
        let (mut launch, console) = (Launch::new("program", 2).unwrap(), Console::open().unwrap());
        launch.grace = Duration::from_secs(3600);
        let mut policy = Policy::new(&launch, &console);
        policy.ended(Rank(0), ExitCause::Status(STUCK), PeerState::Left, false);
        // The grace is over.
        policy.ending = Some((Instant::now(), Signal::TERM));
        assert_eq!(policy.due_signal(Vec::new), Some(Signal::TERM));
        let (kill, signal) = policy.ending.unwrap();
        assert_eq!(signal, Signal::KILL);
        assert!(kill < Instant::now() + launch.grace / 2);
    }
}
