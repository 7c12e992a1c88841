//! A watch over a job: looks now and then, and tells when ranks have waited for too long.

use std::time::Duration;

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
        Watch { title, stuck_after, before: Snapshot::default(), told: None }
    }

    /// Returns how long to wait between two looks.
    pub fn interval(&self) -> Duration {
        (self.stuck_after / 4).clamp(APART_MIN, APART_MAX)
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
            && longest_ns(&diagnosis) >= self.stuck_after.as_nanos()
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
}

fn longest_ns(diagnosis: &Diagnosis) -> u128 {
    let waits = diagnosis.places.iter().filter(|group| group.waits);
    waits.filter_map(|group| group.for_ns).max().unwrap_or(0).into()
}
