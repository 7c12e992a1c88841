//! The doctor: from two snapshots of a job to what is wrong with it.
//!
//! Two snapshots, some time apart, tell a wait that lasts from one that happened to be seen. All
//! here is computed from them: no process is looked at.

mod describe;
mod findings;
mod progress;

use serde::{Deserialize, Serialize};

use crate::snapshot::Snapshot;

pub use describe::{
    Describer, bracketed as describe_place, plural as describe_plural, ranks as describe_ranks,
    time as describe_time,
};
use progress::Progress;

/// A wait that lasts for less is not worth a word.
pub(crate) const LONG_NS: u64 = 1_000_000_000;

/// How a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No rank waits for long.
    Healthy,
    /// Ranks wait for long, for others that can still go on.
    Slow,
    /// Ranks wait for what none of the others can bring about.
    Stuck,
}

/// What is wrong with a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// How it is.
    pub verdict: Verdict,
    /// What was found, the causes first.
    pub findings: Vec<Finding>,
    /// The ranks that cannot go on.
    pub stuck: Vec<u32>,
    /// Where all ranks are: groups of ranks that do the same, and what that is.
    pub places: Vec<Group>,
}

/// Ranks that do the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// The ranks.
    pub ranks: Vec<u32>,
    /// What they do.
    pub does: String,
    /// Whether they wait.
    pub waits: bool,
    /// For how long at most, in nanoseconds, if that is known.
    pub for_ns: Option<u64>,
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Its kind.
    pub kind: FindingKind,
    /// The ranks that it is about.
    pub ranks: Vec<u32>,
    /// What it is, in a sentence or two.
    pub what: String,
    /// What to do about it, if that is known.
    pub cure: Option<String>,
}

/// The kinds of what can be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// A rank was lost.
    Lost,
    /// A process was stopped by a signal.
    Stopped,
    /// Ranks wait for each other in a cycle.
    Deadlock,
    /// Members of a team are in different collectives.
    DifferentCollectives,
    /// A rank misses a collective.
    MissingMember,
    /// A word was changed by something that wakes no waiter.
    UnnoticedChange,
    /// No rank that could write a word can go on.
    UnwrittenWord,
    /// A rank runs while others wait for it.
    Runs,
    /// A rank has not joined.
    NotJoined,
    /// A peer does not answer.
    Silent,
    /// Ranks outnumber processors.
    Oversubscribed,
}

/// Says what is wrong with a job, from two snapshots of it.
pub fn diagnose(before: &Snapshot, after: &Snapshot) -> Diagnosis {
    let progress = Progress::new(before, after);
    let describer = Describer::new(after);
    let stuck = progress.stuck();
    let findings = findings::all(&progress, &describer);
    let waits_long = progress.longest_wait_ns() >= LONG_NS;
    let verdict = match (stuck.is_empty(), waits_long) {
        (false, _) => Verdict::Stuck,
        (true, true) => Verdict::Slow,
        (true, false) => Verdict::Healthy,
    };
    Diagnosis { verdict, findings, stuck, places: findings::places(&progress, &describer) }
}

#[cfg(test)]
mod tests;
