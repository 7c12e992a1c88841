//! What the launcher of several hosts says of ranks that wait: it asks all hosts what their ranks
//! do, and puts the answers together.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use farside_fabric::ExitCause;
use farside_inspect::watch::Watch;
use farside_inspect::{Snapshot, diagnose, page};
use rustix::event::{PollFd, PollFlags};

use super::Cluster;
use crate::console::Console;
use crate::frames::ToNode;
use crate::local_ranks::ended;
use crate::metrics::MetricsServer;
use crate::policy::{later, until};
use crate::remote::State;
use crate::signals::ASKING;
use crate::watcher::{AGAIN, APART, TITLE, places_of};
use crate::{Error, Launch};

/// The time that a host may take to answer; those that do not are left out.
const ANSWER: Duration = Duration::from_secs(2);
/// The time that hosts may take to say where their ranks are, before they are ended.
const PLACES_TIME: Duration = Duration::from_millis(500);
/// The time that the programs that reach hosts may take to end when their output has, all of them
/// together: meanwhile nothing else happens.
const EXPLANATION: Duration = Duration::from_secs(1);
/// How old metrics become.
const PUBLISHED: Duration = Duration::from_secs(2);

pub(super) struct Looks {
    /// The watch, and when its next look is due.
    watch: Option<(Watch, Instant)>,
    /// True once a rank of any host is known to have joined.
    has_joined: bool,
    /// The user has asked: when, the first of the two looks, and when the second is due.
    asked: Option<Instant>,
    is_asked: bool,
    before: Option<Snapshot>,
    answer_due: Option<Instant>,
    /// The number of the latest look, what the hosts have answered so far, and until when they may.
    number: u32,
    answers: Vec<(usize, Snapshot)>,
    deadline: Option<Instant>,
    /// What was last seen, for metrics, and when it is due again.
    published: Option<(Arc<Mutex<Snapshot>>, Instant)>,
    /// What the ranks of each host did when it heard that the job fails.
    places: Vec<(usize, Snapshot)>,
    has_asked_places: bool,
}

impl Looks {
    pub(super) fn new(stuck_after: Option<Duration>) -> Looks {
        let watch = stuck_after.map(|time| (Watch::new(TITLE.into(), time), Instant::now()));
        Looks {
            watch,
            has_joined: false,
            asked: None,
            is_asked: false,
            before: None,
            answer_due: None,
            number: 0,
            answers: Vec::new(),
            deadline: None,
            published: None,
            places: Vec::new(),
            has_asked_places: false,
        }
    }

    /// Serves metrics, if the user wants them: looks again and again from now on.
    pub(super) fn serve(
        &mut self,
        launch: &Launch,
        console: &Console,
    ) -> Result<Option<MetricsServer>, Error> {
        if launch.metrics.is_none() {
            return Ok(None);
        }
        let latest = Arc::<Mutex<Snapshot>>::default();
        self.published = Some((latest.clone(), Instant::now()));
        MetricsServer::of(launch, console, move || whole(&latest).clone())
    }

    /// Returns when the hosts are to be asked next.
    fn due(&self) -> Option<Instant> {
        let watched = self.watch.as_ref().map(|&(_, due)| due);
        let published = self.published.as_ref().map(|&(_, due)| due);
        [self.answer_due, watched, published].into_iter().flatten().min()
    }

    pub(super) fn next(&self) -> Option<Instant> {
        match self.deadline {
            Some(deadline) => Some(deadline),
            None => self.due(),
        }
    }

    /// The user asks what the ranks do; false if that is meant for the ranks: it is the second
    /// request in a row.
    pub(super) fn ask(&mut self) -> bool {
        let is_second = self.asked.is_some_and(|asked| asked.elapsed() < AGAIN);
        self.asked = Some(Instant::now());
        self.is_asked = !is_second;
        (self.before, self.answer_due) = (None, self.asked.filter(|_| !is_second));
        !is_second
    }

    /// A rank of a host has joined.
    pub(super) fn note_joined(&mut self) {
        self.has_joined = true;
    }

    /// Takes what a host has answered to the look with this number, unless it comes too late.
    pub(super) fn answer(&mut self, node: usize, number: u32, seen: Snapshot) {
        if self.deadline.is_some() && number == self.number {
            self.answers.push((node, seen));
        }
    }

    /// The launcher has paused for so long. Nobody has less time for it, and no rank has waited.
    pub(super) fn pause(&mut self, pause: Duration) {
        self.deadline = self.deadline.map(|when| later(when, pause));
        self.watch.iter_mut().for_each(|(watch, _)| watch.resume());
    }

    /// Begins a look, for which all hosts are to be asked.
    pub(super) fn begin(&mut self) -> ToNode {
        self.number = self.number.wrapping_add(1);
        self.deadline = Some(Instant::now() + ANSWER);
        ToNode::Look(self.number)
    }

    /// Returns what becomes of the user's request, if there is one, when all hosts that answer have
    /// done so; nothing yet after the first of the two looks.
    pub(super) fn reply(&mut self, now: &Snapshot) -> Option<Reply> {
        // A host tells of the first rank that joins, but not at once.
        self.has_joined |= now.ranks.iter().any(|rank| rank.is_read);
        if !self.is_asked {
            return None;
        }
        let before = self.before.take();
        if self.has_joined && before.is_none() && !now.ranks.is_empty() {
            self.before = Some(now.clone());
            self.answer_due = Some(Instant::now() + APART);
            return None;
        }
        (self.is_asked, self.answer_due) = (false, None);
        Some(match before {
            // Programs that never join know better what the signal means.
            _ if !self.has_joined => Reply::PassOn,
            Some(before) if !now.ranks.is_empty() => {
                Reply::Say(page::write(TITLE, now, &diagnose(&before, now)))
            }
            _ => {
                let seconds = ANSWER.as_secs();
                Reply::Say(format!("no host has said within {seconds} s what its ranks do"))
            }
        })
    }

    /// A host has told what its ranks did when it heard that the job fails.
    pub(super) fn keep_places(&mut self, node: usize, seen: Snapshot) {
        self.places.push((node, seen));
    }

    fn is_due(&self) -> bool {
        self.deadline.is_none() && self.due().is_some_and(|due| due <= Instant::now())
    }

    /// Takes the answers, if all that are expected have come, or no more do.
    pub(super) fn take(&mut self, expected: usize) -> Option<Snapshot> {
        let deadline = self.deadline?;
        if self.answers.len() < expected && deadline > Instant::now() {
            return None;
        }
        self.deadline = None;
        self.answers.sort_by_key(|&(node, _)| node);
        let parts = std::mem::take(&mut self.answers);
        Some(Snapshot::merge(parts.into_iter().map(|(_, seen)| seen).collect()))
    }
}

/// What becomes of a user's request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// It is a signal for the ranks.
    PassOn,
    Say(String),
}

/// Takes what was published; a thread that panicked with it has left it whole.
fn whole(latest: &Mutex<Snapshot>) -> MutexGuard<'_, Snapshot> {
    latest.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cluster<'_> {
    /// Asks the hosts what their ranks do, when that is due, and says what has come of it.
    pub(super) fn look(&mut self) {
        if self.policy.has_signalled() {
            self.looks.watch = None;
        }
        let is_there = |state: State| (State::Started..State::Done).contains(&state);
        if self.looks.is_due() {
            let look = self.looks.begin();
            let there = self.remotes.iter().filter(|remote| is_there(remote.state));
            there.for_each(|remote| remote.outbox.push(&look));
        }
        let expected = self.remotes.iter().filter(|remote| is_there(remote.state)).count();
        let Some(now) = self.looks.take(expected) else { return };
        if let Some((latest, due)) = &mut self.looks.published {
            whole(latest).clone_from(&now);
            *due = Instant::now() + PUBLISHED;
        }
        match self.looks.reply(&now) {
            Some(Reply::PassOn) => {
                self.policy.asked(ASKING).into_iter().for_each(|signal| self.signal(signal));
            }
            Some(Reply::Say(page)) => self.policy.say(&page),
            None => {}
        }
        if let Some((watch, due)) = &mut self.looks.watch {
            let seen = watch.see(now);
            *due = Instant::now() + watch.interval();
            if let Some(seen) = seen {
                self.policy.say(&seen.page);
                if seen.is_stuck {
                    self.policy.found_stuck();
                }
            }
        }
    }

    /// Has all hosts tell where their ranks are, before the ranks of one of them are ended: those
    /// of the others hear of that, and are somewhere else then.
    pub(super) fn await_places(&mut self) {
        if !self.begun || std::mem::replace(&mut self.looks.has_asked_places, true) {
            return;
        }
        self.remotes.iter().for_each(|remote| remote.outbox.push(&ToNode::Places));
        let deadline = Instant::now() + PLACES_TIME;
        while self.looks.places.len() < self.remotes.len() && Instant::now() < deadline {
            let mut polled = [PollFd::new(&self.mail.bell, PollFlags::IN)];
            // Whatever goes wrong here, the ranks are ended all the same.
            let _ = rustix::event::poll(&mut polled, until(Some(deadline)).as_ref());
            for news in self.mail.take() {
                self.handle_news(news);
            }
        }
    }

    /// Says where the ranks were when the job failed, if any of them waited.
    pub(super) fn say_places(&mut self) {
        let mut parts = std::mem::take(&mut self.looks.places);
        if !self.policy.has_failed() {
            return;
        }
        parts.sort_by_key(|&(node, _)| node);
        let all = Snapshot::merge(parts.into_iter().map(|(_, seen)| seen).collect());
        places_of(&all).into_iter().for_each(|places| self.policy.say(&places));
    }

    pub(super) fn explain_end(&mut self, node: usize, why: Option<String>) -> String {
        let begun = self.begun;
        let end = *self.explanations_end.get_or_insert_with(|| Instant::now() + EXPLANATION);
        let remote = &mut self.remotes[node];
        let status = remote.wait(end).map(ended);
        let words = remote.words();
        match (why, status) {
            (Some(why), _) => why,
            (None, Some(how)) if begun || remote.state > State::Asked => format!("`{words}` {how}"),
            (None, Some(how @ ExitCause::Status(126 | 127))) => {
                format!("`{words}` {how}: is farside there? --remote-farside says where")
            }
            (None, Some(how)) => {
                format!(
                    "`{words}` {how} before farside answered there; try that command by hand \
                     (--rsh changes it)"
                )
            }
            (None, None) => format!("`{words}` has closed its output"),
        }
    }
}
