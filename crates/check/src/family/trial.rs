//! Jobs, variants and trials, as the tables of locks have them.

use farside::sim::Policy;
use farside_fabric::Step;

use crate::check::{Check, Setup};
use crate::property::Promise;

/// A job for the explorer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Job {
    /// How many ranks.
    ranks: u32,
    /// How often each of them asks.
    rounds: u32,
    /// Where they are; on one node if it is not said.
    topology: Option<&'static str>,
}

impl Job {
    /// So many ranks of one node, which ask once.
    pub(super) const fn new(ranks: u32) -> Job {
        Job { ranks, rounds: 1, topology: None }
    }

    /// They ask so often.
    pub(super) const fn rounds(self, rounds: u32) -> Job {
        Job { rounds, ..self }
    }

    /// They are placed like this.
    pub(super) const fn on(self, topology: &'static str) -> Job {
        Job { topology: Some(topology), ..self }
    }

    pub(super) fn setup(self) -> Setup {
        let setup = Setup::new(self.ranks).rounds(self.rounds);
        match self.topology {
            Some(topology) => setup.topology(topology),
            None => setup,
        }
    }
}

/// A variant of a lock: one that leaves a step out, or one with narrow fields.
pub(super) struct Variant<Kind, How> {
    /// The name of its check, behind that of the family.
    pub(super) name: &'static str,
    /// What it does wrong, in a line.
    pub(super) about: &'static str,
    /// Returns the kind of the lock.
    pub(super) kind: fn() -> Kind,
    /// The step that is left out.
    pub(super) omits: Option<Step>,
    /// Whether its packed numbers are so narrow that they wrap in every run.
    pub(super) is_narrow: bool,
    /// How it is explored.
    pub(super) trial: Trial<How>,
}

impl<Kind, How: Copy> Variant<Kind, How> {
    /// A wrong one, which leaves a step out.
    pub(super) const fn omitting(
        step: Step,
        name: &'static str,
        about: &'static str,
        kind: fn() -> Kind,
        trial: Trial<How>,
    ) -> Variant<Kind, How> {
        Variant { name, about, kind, omits: Some(step), is_narrow: false, trial }
    }

    /// The right one, with narrow fields.
    pub(super) const fn narrow(
        name: &'static str,
        about: &'static str,
        kind: fn() -> Kind,
        trial: Trial<How>,
    ) -> Variant<Kind, How> {
        Variant { name, about, kind, omits: None, is_narrow: true, trial }
    }
}

/// How a variant is explored.
#[derive(Clone, Copy)]
pub(super) struct Trial<How> {
    /// The job.
    job: Job,
    /// What the ranks do.
    pub(super) how: How,
    /// Tries so many random schedules instead of all.
    random: Option<u64>,
    /// What a wrong variant breaks, and a part of what the failure says. A variant that breaks
    /// nothing passes.
    pub(super) breaks: Option<(Promise, &'static str)>,
}

impl<How: Copy> Trial<How> {
    /// All schedules of two ranks, of a variant that breaks a promise.
    pub(super) const fn caught(how: How, promise: Promise, saying: &'static str) -> Trial<How> {
        Trial { job: Job::new(2), how, random: None, breaks: Some((promise, saying)) }
    }

    /// All schedules of a job, of a variant that breaks nothing.
    pub(super) const fn passes(how: How, job: Job) -> Trial<How> {
        Trial { job, how, random: None, breaks: None }
    }

    /// Those of another job.
    pub(super) const fn of(self, job: Job) -> Trial<How> {
        Trial { job, ..self }
    }

    /// So many random schedules.
    pub(super) const fn random(self, schedules: u64) -> Trial<How> {
        Trial { random: Some(schedules), ..self }
    }
}

/// Explores a variant as its row says.
pub(super) fn tried<Kind, How>(check: Check, variant: &Variant<Kind, How>) -> Check {
    let trial = &variant.trial;
    let mut check = check.setup(trial.job.setup());
    if let Some(step) = variant.omits {
        check = check.omitting(step);
    }
    if let Some(schedules) = trial.random {
        check = check.policy(Policy::Random, schedules);
    }
    match trial.breaks {
        Some((promise, saying)) => check.mutant(promise, saying),
        None => check,
    }
}
