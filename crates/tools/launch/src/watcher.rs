//! What the launcher says of ranks that wait: when that lasts, when it is asked, and where they
//! were when the job failed.

use std::time::{Duration, Instant};

use farside_inspect::page;
use farside_inspect::watch::{Seen, Watch};
use farside_inspect::{Reader, Snapshot, diagnose};
use farside_job::Host;

/// The time between the two looks of an answer.
pub(crate) const APART: Duration = Duration::from_millis(200);
/// A second request within this time is meant for the ranks.
pub(crate) const AGAIN: Duration = Duration::from_secs(2);
/// How pages call the job.
pub(crate) const TITLE: &str = "this job";

pub(crate) struct Watcher {
    reader: Reader,
    /// The watch, and when its next look is due.
    watch: Option<(Watch, Instant)>,
    asked: Option<Instant>,
    has_said_places: bool,
}

impl Watcher {
    pub(crate) fn new(host: &Host, stuck_after: Option<Duration>) -> Watcher {
        let watch = stuck_after.map(|time| (Watch::new(TITLE.into(), time), Instant::now()));
        let reader = Reader::new(host.memories());
        Watcher { reader, watch, asked: None, has_said_places: false }
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.watch.as_ref().map(|&(_, due)| due)
    }

    /// Looks, if that is due: returns what is to be said of waits that last too long.
    pub(crate) fn look(&mut self) -> Option<Seen> {
        let (watch, due) = self.watch.as_mut()?;
        if *due > Instant::now() {
            return None;
        }
        let seen = watch.see(self.reader.read());
        *due = Instant::now() + watch.interval();
        seen
    }

    /// The ranks go on after a pause, for which none of them has waited.
    pub(crate) fn resume(&mut self) {
        self.watch.iter_mut().for_each(|(watch, _)| watch.resume());
    }

    /// Looks no more by itself.
    pub(crate) fn end_watch(&mut self) {
        self.watch = None;
    }

    /// Returns what is to be said to a user who asks; `None` if the request is meant for the ranks:
    /// none of them has joined, or it is the second in a row.
    pub(crate) fn answer(&mut self) -> Option<String> {
        let is_second = self.asked.is_some_and(|asked| asked.elapsed() < AGAIN);
        self.asked = Some(Instant::now());
        let before = self.reader.read();
        if is_second || !before.ranks.iter().any(|rank| rank.is_read) {
            return None;
        }
        // The output of the ranks waits as long.
        std::thread::park_timeout(APART);
        let after = self.reader.read();
        Some(page::write(TITLE, &after, &diagnose(&before, &after)))
    }

    pub(crate) fn statistics(&self) -> String {
        format!("what the ranks have done:\n{}", page::statistics(&self.reader.read()))
    }

    /// Returns where the ranks are, for the first failure of a job; `None` if none waits, or that
    /// was said.
    pub(crate) fn places(&mut self) -> Option<String> {
        if std::mem::replace(&mut self.has_said_places, true) {
            return None;
        }
        places_of(&self.reader.read())
    }
}

/// Returns where the ranks were; `None` if none waited.
pub(crate) fn places_of(seen: &Snapshot) -> Option<String> {
    let diagnosis = diagnose(seen, seen);
    let waits = diagnosis.places.iter().any(|group| group.waits);
    waits.then(|| format!("where the ranks were:\n{}", page::places(&diagnosis)))
}
