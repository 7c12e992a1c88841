//! A watch over a job: looks now and then, and tells when ranks have waited for too long.

use std::time::{Duration, Instant};

use crate::doctor::{Diagnosis, Verdict, diagnose};
use crate::page;
use crate::snapshot::{RankState, Snapshot};

/// Between two looks, at least and at most.
const APART_MIN: Duration = Duration::from_millis(200);
const APART_MAX: Duration = Duration::from_secs(2);

/// Watches a job.
pub struct Watch {
    title: String,
    stuck_after: Duration,
    before: Snapshot,
    /// The end of the last pause of the job, if there was one.
    resumed: Option<Instant>,
    /// What was told last, so that it is not told again.
    told: Option<(Verdict, Vec<u32>)>,
}

/// What a look has shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The page that says what is wrong.
    pub page: String,
    /// Whether ranks are stuck.
    pub is_stuck: bool,
}

impl Watch {
    /// Watches a job, which pages call `title`; waits of `stuck_after` are told of.
    pub fn new(title: String, stuck_after: Duration) -> Watch {
        Watch { title, stuck_after, before: Snapshot::default(), resumed: None, told: None }
    }

    /// Returns how long to wait between two looks.
    pub fn interval(&self) -> Duration {
        (self.stuck_after / 4).clamp(APART_MIN, APART_MAX)
    }

    /// The job goes on after a pause: only what ranks wait from now on counts.
    pub fn resume(&mut self) {
        self.resumed = Some(Instant::now());
    }

    /// Takes a look, and returns what is to be told: that ranks have waited for too long, once
    /// until something changes.
    pub fn see(&mut self, now: Snapshot) -> Option<Seen> {
        let before = std::mem::replace(&mut self.before, now);
        let diagnosis = diagnose(&before, &self.before);
        let state = (diagnosis.verdict, diagnosis.stuck.clone());
        if diagnosis.verdict == Verdict::Healthy {
            self.told = None;
        }
        let is_due = diagnosis.verdict != Verdict::Healthy
            && self.longest_ns(&diagnosis) >= self.stuck_after.as_nanos()
            && self.told.as_ref() != Some(&state);
        is_due.then(|| {
            self.told = Some(state);
            let page = page::write(&self.title, &self.before, &diagnosis);
            Seen { page, is_stuck: diagnosis.verdict == Verdict::Stuck }
        })
    }

    /// Returns whether all ranks had ended at the last look.
    pub fn is_over(&self) -> bool {
        let has_ended = |state: &RankState| matches!(state, RankState::Left | RankState::Lost(_));
        let mut ranks = self.before.ranks.iter().filter(|rank| rank.is_read);
        !self.before.ranks.is_empty()
            && ranks.all(|rank| has_ended(&rank.state) || rank.system.is_none())
    }

    fn longest_ns(&self, diagnosis: &Diagnosis) -> u128 {
        let waits = diagnosis.places.iter().filter(|group| group.waits);
        let longest = waits.filter_map(|group| group.for_ns).max().unwrap_or(0);
        let counted = self.resumed.map_or(u128::MAX, |since| since.elapsed().as_nanos());
        counted.min(longest.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{ActivityView, ContextView, Entered, Kind, ProcessView, RankView};

    #[test]
    fn a_pause_is_no_wait() {
        let minute = 60_000_000_000;
        let activity = ActivityView {
            kind: Kind::Word,
            name: "wait".into(),
            segment: 9,
            number: 0,
            size: 0,
            place: "main.rs:1".into(),
            word: None,
            peers: None,
            has_limit: false,
            entered: Entered::default(),
        };
        let context = ContextView {
            is_there: true,
            since_ns: minute,
            looked_ns: 2 * minute,
            activity: Some(activity),
            ..ContextView::default()
        };
        let rank = RankView {
            is_read: true,
            process: 1000,
            state: RankState::Alive,
            system: Some(ProcessView { state: 'S', ..ProcessView::default() }),
            contexts: vec![context],
            ..RankView::default()
        };
        let seen = Snapshot { taken_ns: 2 * minute, ranks: vec![rank], ..Snapshot::default() };
        let told = |is_resumed: bool| {
            let mut watch = Watch::new("a job".into(), Duration::from_secs(59));
            if is_resumed {
                watch.resume();
            }
            watch.see(seen.clone());
            watch.see(seen.clone()).is_some() || watch.told.is_some()
        };
        assert!(told(false));
        assert!(!told(true));
    }
}
