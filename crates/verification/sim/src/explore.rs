//! Policies: which schedules of a program are tried.

mod pct;
mod random;
mod schedule;
mod search;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use crate::event::{Event, Unseen};
use crate::fibers::Program;
use crate::run::{Oracle, Run, Simulation, Verdict};

/// A choice of the schedules to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// All that differ, or all that there are.
    Exhaustive(Reduction),
    /// Random ones: at each step one of the possible events, each as likely as the others.
    Random,
    /// Random ones of a kind that finds bugs of a given depth with a known probability.
    Pct {
        /// The number of ordering constraints that a bug needs to show.
        depth: u32,
    },
}

/// The treatment of schedules that differ from others in the order of independent events only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduction {
    /// Leave them out: dynamic partial-order reduction with source sets and sleep sets
    /// (Abdulla, Aronsson, Jonsson, Sagonas: *Optimal dynamic partial order reduction*, 2014).
    Sources,
    /// Try them all.
    None,
}

impl FromStr for Policy {
    type Err = String;

    /// Reads `exhaustive`, `unreduced`, `random` or `pct:DEPTH`.
    fn from_str(text: &str) -> Result<Policy, String> {
        let unknown = || {
            format!("{text:?} is not a policy: expected exhaustive, unreduced, random or pct:DEPTH")
        };
        match text {
            "exhaustive" => Ok(Policy::Exhaustive(Reduction::Sources)),
            "unreduced" => Ok(Policy::Exhaustive(Reduction::None)),
            "random" => Ok(Policy::Random),
            _ => match text.strip_prefix("pct:").and_then(|depth| depth.parse().ok()) {
                Some(depth @ 1..) => Ok(Policy::Pct { depth }),
                _ => Err(unknown()),
            },
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Exhaustive(Reduction::Sources) => f.write_str("exhaustive"),
            Policy::Exhaustive(Reduction::None) => f.write_str("unreduced"),
            Policy::Random => f.write_str("random"),
            Policy::Pct { depth } => write!(f, "pct:{depth}"),
        }
    }
}

/// What an exploration that tried every schedule has not tried, in one line: docs/checking.md says
/// more.
pub const NOT_COVERED: &str = "several threads of a rank, memory of the own node used directly, \
                               agents, bells and locks of accumulates as they are on a real \
                               fabric, ranks that count as lost and live, and, beyond what a \
                               check allows, time limits that end while something else can \
                               happen and looks that find an operation complete";

/// The progress of an exploration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// The number of runs so far.
    pub runs: u64,
    /// The number of runs that were given up because they would have repeated others.
    pub pruned: u64,
    /// The number of steps of all runs together.
    pub steps: u64,
    /// The number of steps of the last run.
    pub depth: usize,
    /// The number of steps of the longest run.
    pub depth_max: usize,
}

/// The result of an exploration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The number of runs.
    pub runs: u64,
    /// The number of runs that were given up because they would have repeated others.
    pub pruned: u64,
    /// The number of steps of all runs together.
    pub steps: u64,
    /// The number of steps of the longest run.
    pub depth_max: usize,
    /// True if every schedule was tried that differs in what is seen.
    pub complete: bool,
    /// The memory that ranks used in a way that cannot be followed: schedules that differ in what
    /// was read and written there may be missing.
    pub unseen: BTreeSet<Unseen>,
    /// The first failure.
    pub failure: Option<Failure>,
}

/// A failure, and how to see it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// A description of the problem.
    pub problem: String,
    /// The schedule: give it to [`replay`].
    pub schedule: String,
    /// The events of the run, step by step.
    pub trace: Vec<Event>,
    /// The number of steps before the first that used memory of the program's own.
    pub unused: usize,
}

/// Tries schedules, as `policy` has them, until one fails, until there is none left, or until
/// `go_on`, which is asked after every run, says that it is enough. `seed` chooses among the random
/// ones.
pub fn explore(
    simulation: &Simulation,
    program: &Program,
    policy: Policy,
    seed: u64,
    go_on: &mut dyn FnMut(&Progress) -> bool,
) -> Report {
    explore_each(simulation, program, policy, seed, &mut |_| (), go_on)
}

/// Likewise; `each` is told of every run.
fn explore_each(
    simulation: &Simulation,
    program: &Program,
    policy: Policy,
    seed: u64,
    each: &mut dyn FnMut(&Run),
    go_on: &mut dyn FnMut(&Progress) -> bool,
) -> Report {
    match policy {
        Policy::Exhaustive(reduction) => {
            search::exhaust(simulation, program, reduction, true, each, go_on)
        }
        Policy::Random => sample(go_on, |number| {
            let mut oracle = random::Random::new(seed, number);
            let run = simulation.run(program, &mut oracle);
            each(&run);
            (run, oracle.picks)
        }),
        Policy::Pct { depth } => {
            // Until a run has shown how long one is, its changes may come at any step.
            let mut longest = None;
            sample(go_on, |number| {
                let steps = longest.unwrap_or_else(|| pct::guess(seed));
                let mut oracle = pct::Pct::new(seed, number, depth, steps);
                let run = simulation.run(program, &mut oracle);
                longest = longest.max(Some(run.steps.len().max(1)));
                each(&run);
                (run, oracle.picks)
            })
        }
    }
}

/// Tries every schedule, up to `runs_max` of them.
pub fn exhaustive(
    simulation: &Simulation,
    program: &Program,
    reduction: Reduction,
    runs_max: u64,
) -> Report {
    explore(simulation, program, Policy::Exhaustive(reduction), 0, &mut |progress| {
        progress.runs < runs_max
    })
}

/// Tries every schedule, also after one has failed, until there is none left, or `go_on` says that
/// it is enough; `each` is told of every run.
pub fn every_run(
    simulation: &Simulation,
    program: &Program,
    reduction: Reduction,
    each: &mut dyn FnMut(&Run),
    go_on: &mut dyn FnMut(&Progress) -> bool,
) -> Report {
    search::exhaust(simulation, program, reduction, false, each, go_on)
}

/// Tries up to `runs_max` schedules, and returns what memory held at the ends of those that passed,
/// as digests ([`Simulation::digests`]) with the events of a run that led there, beside the report.
pub fn final_states(
    simulation: &Simulation,
    program: &Program,
    policy: Policy,
    runs_max: u64,
) -> (BTreeMap<u64, Vec<Event>>, Report) {
    let mut states = BTreeMap::new();
    let mut each = |run: &Run| {
        if let (Verdict::Passed, Some(state)) = (&run.verdict, run.state) {
            let events = || run.steps.iter().map(|step| step.event.clone()).collect();
            states.entry(state).or_insert_with(events);
        }
    };
    let mut go_on = |progress: &Progress| progress.runs < runs_max;
    let report = explore_each(simulation, program, policy, 0, &mut each, &mut go_on);
    (states, report)
}

/// Tries `runs` random schedules.
pub fn random(simulation: &Simulation, program: &Program, seed: u64, runs: u64) -> Report {
    explore(simulation, program, Policy::Random, seed, &mut |progress| progress.runs < runs)
}

/// Runs one schedule again.
pub fn replay(simulation: &Simulation, program: &Program, schedule: &str) -> Result<Run, String> {
    let picks = schedule::decode(schedule)?;
    let mut oracle = Replay { picks, at: 0 };
    Ok(simulation.run(program, &mut oracle))
}

fn sample(
    go_on: &mut dyn FnMut(&Progress) -> bool,
    mut run: impl FnMut(u64) -> (Run, Vec<usize>),
) -> Report {
    let (mut progress, mut unseen) = (Progress::default(), BTreeSet::new());
    loop {
        let (run, picks) = run(progress.runs);
        progress.count(&run);
        unseen.extend(run.unseen.iter().copied());
        let failure = failure_of(&run, &picks);
        if failure.is_some() || !go_on(&progress) {
            return progress.report(false, failure, unseen);
        }
    }
}

impl Progress {
    fn count(&mut self, run: &Run) {
        self.runs += 1;
        self.pruned += u64::from(run.verdict == Verdict::Pruned);
        self.steps += run.steps.len() as u64;
        self.depth = run.steps.len();
        self.depth_max = self.depth_max.max(self.depth);
    }

    fn report(&self, complete: bool, failure: Option<Failure>, unseen: BTreeSet<Unseen>) -> Report {
        let Progress { runs, pruned, steps, depth_max, .. } = *self;
        Report { runs, pruned, steps, depth_max, complete, unseen, failure }
    }
}

fn failure_of(run: &Run, picks: &[usize]) -> Option<Failure> {
    let problem = match &run.verdict {
        Verdict::Failed(problem) => problem.clone(),
        Verdict::TooLong => format!("no end after {} steps", run.steps.len()),
        Verdict::Passed | Verdict::Pruned => return None,
    };
    let trace = run.steps.iter().map(|step| step.event.clone()).collect();
    Some(Failure { problem, schedule: schedule::encode(picks), trace, unused: run.unused })
}

struct Replay {
    picks: Vec<usize>,
    at: usize,
}

impl Oracle for Replay {
    fn pick(&mut self, events: &[Event]) -> Result<usize, Verdict> {
        let pick = self.picks.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        if pick < events.len() { Ok(pick) } else { Err(Verdict::Pruned) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_survive_writing_them_down() {
        for text in ["exhaustive", "unreduced", "random", "pct:3"] {
            assert_eq!(text.parse::<Policy>().unwrap().to_string(), text);
        }
        for text in ["", "pct", "pct:", "pct:0", "pct:x", "all"] {
            assert!(text.parse::<Policy>().is_err(), "{text}");
        }
    }
}
