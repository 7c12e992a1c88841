//! A check: a protocol, what is expected of it, and how it is explored.

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::time::{Duration, Instant};

use farside::Result;
use farside::sim::{
    Event, Policy, Program, Progress, Reduction, Report, Run, Simulation, explore, final_states,
    omitting, replay, simulation,
};
use farside_fabric::Step;

use crate::property::Promise;

/// A check.
#[derive(Clone)]
pub struct Check {
    /// Its name: family and protocol, such as `lock/d-mcs`.
    pub name: &'static str,
    /// A description in one line.
    pub about: &'static str,
    /// The job that it is explored with by default.
    pub setup: Setup,
    /// The schedules that are tried by default.
    pub policy: Policy,
    /// The number of schedules that are tried by default; all if it is not given.
    pub schedules: Option<u64>,
    /// A smaller job of the same kind, for quick runs; the whole one if it is not given.
    pub small: Option<Setup>,
    /// The expected outcome.
    pub expectation: Expectation,
    /// Why a rank may post stores to one word that overtake each other. Where nothing is said, they
    /// are refused.
    pub unordered: Option<&'static str>,
    /// Builds the program to explore, for a job.
    pub subject: Rc<dyn Fn(&Setup) -> Subject>,
}

/// A job to explore a protocol with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// The number of ranks.
    pub ranks: u32,
    /// The arrangement of ranks, such as `node:3`; all on one node if it is not given.
    pub topology: Option<String>,
    /// The number of rounds of each rank.
    pub rounds: u32,
    /// The number of ranks that may die.
    pub deaths: u32,
    /// True if each node hears of a death at a time of its own.
    pub slow_news: bool,
    /// The number of waits that may run into their time limits while something else can happen.
    pub time_outs: u32,
    /// True if a rank that looks at an operation finds it complete, or not.
    pub looks: bool,
    /// True if long puts and gets are torn.
    pub torn: bool,
    /// The number of ranks of a node that can run at the same time; all if it is not given.
    pub processors: Option<u32>,
}

/// The expected outcome of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expectation {
    /// Nothing is found.
    Passes,
    /// It is wrong on purpose: a problem must be found that says so.
    Caught {
        /// The promise that it breaks.
        promise: Promise,
        /// A part of what the problem must say; never empty.
        saying: &'static str,
    },
    /// It is right, and makes no such promise: a schedule must be found that shows that.
    Shown {
        /// The promise that it does not make.
        promise: Promise,
        /// A part of what must be shown; never empty.
        saying: &'static str,
    },
}

/// The limits of an exploration. A check that is stopped by one of them is *bounded*.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Budget {
    /// The number of schedules.
    pub schedules: Option<u64>,
    /// The number of steps, in all schedules together: the same on a busy machine as on an idle
    /// one.
    pub steps: Option<u64>,
    /// The time.
    pub time: Option<Duration>,
}

/// The number of steps after which an exhaustive check is cut off: it takes too long to be useful.
/// The largest has a tenth of that.
const STEPS_MAX: u64 = 200_000_000;

/// The number of steps that a run may take, and the further steps for each round of each rank.
const STEPS_MIN: usize = 100_000;
const STEPS_EACH: usize = 500;

/// The subject of an exploration.
pub struct Subject {
    /// The program of every rank.
    pub program: Program,
    /// The final condition, when every schedule was tried, or as many as the check has by default:
    /// some outcomes may have to appear.
    pub in_the_end: Box<dyn Fn() -> Result<(), String>>,
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The outcome, compared with the expectation.
    pub outcome: Outcome,
    /// A description of the problem, if there is one.
    pub problem: Option<String>,
    /// The exploration, and the schedule of the failure.
    pub report: Report,
}

/// The outcome of a check, and its strength.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Every schedule was tried, and nothing was found.
    Exhaustive,
    /// As many random schedules were tried as were wanted, and nothing was found.
    Sampled,
    /// Every schedule was tried that differs in what is seen, and nothing was found; but ranks used
    /// memory in a way that cannot be followed ([`Report::unseen`]).
    Partial,
    /// A limit ended it, and nothing was found until then: nothing is known of the rest.
    Bounded,
    /// The fault was found that is there on purpose.
    Caught,
    /// The schedule was found that shows what is not promised.
    Shown,
    /// Something was found that should not be.
    Failed,
    /// A schedule that must be found was not: of a fault that is there on purpose, or of a promise
    /// that is not made.
    Survived,
}

impl Outcome {
    /// Returns whether nothing is wrong, as far as was tried.
    pub fn is_good(self) -> bool {
        !matches!(self, Outcome::Failed | Outcome::Survived)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Outcome::Exhaustive => "exhaustive",
            Outcome::Sampled => "sampled",
            Outcome::Partial => "partial",
            Outcome::Bounded => "bounded",
            Outcome::Caught => "caught",
            Outcome::Shown => "shown",
            Outcome::Failed => "FAILED",
            Outcome::Survived => "NOT FOUND",
        })
    }
}

impl Budget {
    /// So many steps.
    pub fn steps(steps: u64) -> Budget {
        Budget { steps: Some(steps), ..Budget::default() }
    }

    fn allows(&self, progress: &Progress, since: Instant) -> bool {
        self.schedules.is_none_or(|schedules| progress.runs < schedules)
            && self.steps.is_none_or(|steps| progress.steps < steps)
            && self.time.is_none_or(|time| since.elapsed() < time)
    }
}

impl Setup {
    /// So many ranks on one node, one round.
    pub fn new(ranks: u32) -> Setup {
        Setup {
            ranks,
            topology: None,
            rounds: 1,
            deaths: 0,
            slow_news: false,
            time_outs: 0,
            looks: false,
            torn: false,
            processors: None,
        }
    }

    /// With so many ranks.
    #[must_use]
    pub fn ranks(self, ranks: u32) -> Setup {
        Setup { ranks, ..self }
    }

    /// With so many rounds.
    #[must_use]
    pub fn rounds(self, rounds: u32) -> Setup {
        Setup { rounds, ..self }
    }

    /// Arranged like this.
    #[must_use]
    pub fn topology(self, topology: &str) -> Setup {
        Setup { topology: Some(topology.to_owned()), ..self }
    }
}

impl Setup {
    /// With so many deaths.
    #[must_use]
    pub fn deaths(self, deaths: u32) -> Setup {
        Setup { deaths, ..self }
    }

    /// With nodes that hear of deaths at different times.
    #[must_use]
    pub fn slow_news(self) -> Setup {
        Setup { slow_news: true, ..self }
    }

    /// With so many time limits that end at any step.
    #[must_use]
    pub fn time_outs(self, time_outs: u32) -> Setup {
        Setup { time_outs, ..self }
    }

    /// With looks at operations that find them complete, or not.
    #[must_use]
    pub fn looks(self) -> Setup {
        Setup { looks: true, ..self }
    }

    /// With torn puts and gets.
    #[must_use]
    pub fn torn(self) -> Setup {
        Setup { torn: true, ..self }
    }

    /// With more ranks on a node than can run at a time.
    #[must_use]
    pub fn crowded(self) -> Setup {
        Setup { processors: Some(1), ..self }
    }

    fn simulation(&self) -> Result<Simulation> {
        // A run that takes more does not end: it polls for ever.
        let steps_max = STEPS_MIN.max(self.ranks as usize * self.rounds as usize * STEPS_EACH);
        let simulation = simulation(self.ranks, self.topology.as_deref())?;
        let simulation = simulation.deaths(self.deaths).torn(self.torn).steps_max(steps_max);
        let simulation = simulation.time_outs(self.time_outs).looks(self.looks);
        let simulation = simulation.slow_news(self.slow_news);
        Ok(match self.processors {
            Some(processors) => simulation.processors(processors),
            None => simulation,
        })
    }
}

impl Subject {
    /// A program that fails if something is wrong.
    pub fn new(program: Program) -> Subject {
        Subject { program, in_the_end: Box::new(|| Ok(())) }
    }
}

impl Check {
    /// A check of a protocol that is right: all schedules of two ranks, one round.
    pub fn new(
        name: &'static str,
        about: &'static str,
        subject: impl Fn(&Setup) -> Subject + 'static,
    ) -> Check {
        Check {
            name,
            about,
            setup: Setup::new(2),
            policy: Policy::Exhaustive(Reduction::Sources),
            schedules: None,
            small: None,
            expectation: Expectation::Passes,
            unordered: None,
            subject: Rc::new(subject),
        }
    }

    /// Explored with this job by default.
    #[must_use]
    pub fn setup(self, setup: Setup) -> Check {
        Check { setup, ..self }
    }

    /// Explored by this policy by default, with so many schedules.
    #[must_use]
    pub fn policy(self, policy: Policy, schedules: u64) -> Check {
        Check { policy, schedules: Some(schedules), ..self }
    }

    /// Sets the smaller job of quick runs.
    #[must_use]
    pub fn small(self, setup: Setup) -> Check {
        Check { small: Some(setup), ..self }
    }

    /// Lets a rank post stores to one word that may overtake each other, and says why.
    #[must_use]
    pub fn unordered(self, why: &'static str) -> Check {
        Check { unordered: Some(why), ..self }
    }

    /// Leaves a step of the protocol out.
    #[must_use]
    pub fn omitting(self, step: Step) -> Check {
        let whole = self.subject;
        let subject = move |setup: &Setup| {
            let Subject { program, in_the_end } = whole(setup);
            Subject { program: omitting(step, program), in_the_end }
        };
        Check { subject: Rc::new(subject), ..self }
    }

    /// Wrong on purpose: it breaks a promise, and must be caught by a problem that says this.
    ///
    /// # Panics
    ///
    /// If `saying` says nothing: any failure at all would do then, also one of another kind.
    #[must_use]
    pub fn mutant(self, promise: Promise, saying: &'static str) -> Check {
        assert!(!saying.trim().is_empty(), "{}: what catches it must say something", self.name);
        Check { expectation: Expectation::Caught { promise, saying }, ..self }
    }

    /// Right, without this promise: a schedule must be found that says this.
    ///
    /// # Panics
    ///
    /// If `saying` says nothing.
    #[must_use]
    pub fn shows(self, promise: Promise, saying: &'static str) -> Check {
        assert!(!saying.trim().is_empty(), "{}: what is shown must say something", self.name);
        Check { expectation: Expectation::Shown { promise, saying }, ..self }
    }

    /// Returns whether it is wrong on purpose.
    pub fn is_mutant(&self) -> bool {
        matches!(self.expectation, Expectation::Caught { .. })
    }

    /// Returns whether a schedule must be found: of a fault that is there on purpose, or of a
    /// promise that is not made.
    pub fn expects_failure(&self) -> bool {
        self.expectation != Expectation::Passes
    }

    /// Returns whether every schedule is to be tried by default: then it must end.
    pub fn is_exhaustive(&self) -> bool {
        matches!(self.policy, Policy::Exhaustive(_)) && self.schedules.is_none()
    }

    /// Returns the default limits. There is no limit of time: a busy machine would hit it sooner
    /// than an idle one.
    pub fn budget(&self) -> Budget {
        Budget { schedules: self.schedules, steps: Some(STEPS_MAX), time: None }
    }

    fn simulation(&self, setup: &Setup) -> Result<Simulation> {
        Ok(setup.simulation()?.refuse_unordered_stores(self.unordered.is_none()))
    }

    /// Explores it, until everything was tried or the budget is used up. `watch` is told after
    /// every schedule.
    pub fn run(
        &self,
        setup: &Setup,
        policy: Policy,
        seed: u64,
        budget: &Budget,
        watch: &mut dyn FnMut(&Progress),
    ) -> Result<Finding> {
        let subject = (self.subject)(setup);
        let start = Instant::now();
        let mut go_on = |progress: &Progress| {
            watch(progress);
            budget.allows(progress, start)
        };
        let report = explore(&self.simulation(setup)?, &subject.program, policy, seed, &mut go_on);
        let mut problem = report.failure.as_ref().map(|failure| failure.problem.clone());
        // Random schedules never end by themselves: their number is what was wanted, or else the
        // time or the steps are.
        let samples = !matches!(policy, Policy::Exhaustive(_));
        let is_sampled =
            samples && budget.schedules.is_none_or(|schedules| report.runs >= schedules);
        let has_all =
            report.complete || self.schedules.is_some_and(|schedules| report.runs >= schedules);
        if has_all && problem.is_none() {
            problem = (subject.in_the_end)().err();
        }
        let outcome = match (self.expectation, &problem) {
            (Expectation::Passes, None) if report.complete && report.unseen.is_empty() => {
                Outcome::Exhaustive
            }
            (Expectation::Passes, None) if report.complete => Outcome::Partial,
            (Expectation::Passes, None) if is_sampled => Outcome::Sampled,
            (Expectation::Passes, None) => Outcome::Bounded,
            (Expectation::Passes, Some(_)) => Outcome::Failed,
            (Expectation::Caught { saying, .. }, Some(problem)) if problem.contains(saying) => {
                Outcome::Caught
            }
            (Expectation::Shown { saying, .. }, Some(problem)) if problem.contains(saying) => {
                Outcome::Shown
            }
            (_, Some(_)) => Outcome::Failed,
            (_, None) => Outcome::Survived,
        };
        Ok(Finding { outcome, problem, report })
    }

    /// Tries up to `runs_max` schedules; returns what memory held at the ends of those that passed,
    /// as digests with the events of a run that led there, beside the report.
    pub fn final_states(
        &self,
        setup: &Setup,
        policy: Policy,
        runs_max: u64,
    ) -> Result<(BTreeMap<u64, Vec<Event>>, Report)> {
        let simulation = self.simulation(setup)?.digests(true);
        let subject = (self.subject)(setup);
        Ok(final_states(&simulation, &subject.program, policy, runs_max))
    }

    /// Runs one schedule of it again.
    pub fn replay(&self, setup: &Setup, schedule: &str) -> Result<Run, String> {
        let simulation = self.simulation(setup).map_err(|error| error.to_string())?;
        replay(&simulation, &(self.subject)(setup).program, schedule)
    }
}
