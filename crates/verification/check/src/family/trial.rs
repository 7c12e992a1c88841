//! Jobs, variants and trials, as the tables of locks have them.

use farside::sim::Policy;
use farside_fabric::Step;

use crate::check::{Check, Setup};
use crate::property::Promise;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Job {
    ranks: u32,
    rounds: u32,
    /// Where they are; on one node if it is not said.
    topology: Option<&'static str>,
}

impl Job {
    /// So many ranks of one node, which ask once.
    pub(super) const fn new(ranks: u32) -> Job {
        Job { ranks, rounds: 1, topology: None }
    }

    pub(super) const fn rounds(self, rounds: u32) -> Job {
        Job { rounds, ..self }
    }

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
    pub(super) about: &'static str,
    pub(super) kind: fn() -> Kind,
    pub(super) omits: Option<Step>,
    /// Whether its packed numbers are so narrow that they wrap in every run.
    pub(super) is_narrow: bool,
    pub(super) trial: Trial<How>,
}

impl<Kind, How: Copy> Variant<Kind, How> {
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

#[derive(Clone, Copy)]
pub(super) struct Trial<How> {
    job: Job,
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

    pub(super) const fn of(self, job: Job) -> Trial<How> {
        Trial { job, ..self }
    }

    pub(super) const fn random(self, schedules: u64) -> Trial<How> {
        Trial { random: Some(schedules), ..self }
    }
}

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
