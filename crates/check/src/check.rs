//! A check: a protocol, what is expected of it, and how it is explored.

use farside::Result;
use farside::sim::{Policy, Program, Progress, Reduction, Report, Run, Simulation, explore, replay, simulation};

/// A check.
pub struct Check {
    /// Its name: family and protocol, such as `lock/d-mcs`.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// The job that it is explored with by default.
    pub setup: Setup,
    /// Which schedules are tried by default.
    pub policy: Policy,
    /// After how many runs to stop by default.
    pub runs_max: u64,
    /// What must come out.
    pub expectation: Expectation,
    /// What is explored, for a job.
    pub subject: Box<dyn Fn(&Setup) -> Subject>,
}

/// A job to explore a protocol with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// How many ranks.
    pub ranks: u32,
    /// How they are arranged, such as `node:3`; all on one node if it is not said.
    pub topology: Option<String>,
    /// How often each does what is to be done.
    pub rounds: u32,
    /// How many ranks may die.
    pub deaths: u32,
    /// Whether long puts and gets are torn.
    pub torn: bool,
    /// How many ranks of a node can run at the same time; as many as there are if it is not said.
    pub processors: Option<u32>,
}

/// What must come out of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expectation {
    /// Nothing is found.
    Passes,
    /// It is wrong on purpose: a problem must be found that says so.
    Caught {
        /// A part of what the problem must say.
        saying: &'static str,
    },
}

/// What is explored.
pub struct Subject {
    /// What every rank does.
    pub program: Program,
    /// What must hold when every schedule was tried, or as many as the check has by default: some outcomes may have to appear.
    pub in_the_end: Box<dyn Fn() -> Result<(), String>>,
}

/// What came out of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Whether that is what was expected.
    pub outcome: Outcome,
    /// What was wrong, if something was.
    pub problem: Option<String>,
    /// What was done, and the schedule of the failure.
    pub report: Report,
}

/// Whether what came out is what was expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Every schedule was tried, and nothing was found.
    Passed,
    /// Nothing was found, and not every schedule was tried.
    NothingFound,
    /// Something was found that should not be.
    Failed,
    /// The fault was found that is there on purpose.
    Caught,
    /// The fault that is there on purpose was not found.
    Survived,
}

impl Outcome {
    /// Whether this is what was hoped for.
    pub fn is_good(self) -> bool {
        matches!(self, Outcome::Passed | Outcome::NothingFound | Outcome::Caught)
    }
}

impl Setup {
    /// So many ranks on one node, one round.
    pub fn new(ranks: u32) -> Setup {
        Setup { ranks, topology: None, rounds: 1, deaths: 0, torn: false, processors: None }
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
        let simulation = simulation(self.ranks, self.topology.as_deref())?.deaths(self.deaths).torn(self.torn);
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
    pub fn new(name: &'static str, about: &'static str, subject: impl Fn(&Setup) -> Subject + 'static) -> Check {
        Check {
            name,
            about,
            setup: Setup::new(2),
            policy: Policy::Exhaustive(Reduction::Sources),
            runs_max: u64::MAX,
            expectation: Expectation::Passes,
            subject: Box::new(subject),
        }
    }

    /// Explored with this job by default.
    #[must_use]
    pub fn setup(self, setup: Setup) -> Check {
        Check { setup, ..self }
    }

    /// Explored by this policy by default, with so many runs at most.
    #[must_use]
    pub fn policy(self, policy: Policy, runs_max: u64) -> Check {
        Check { policy, runs_max, ..self }
    }

    /// Wrong on purpose: it must be caught, by a problem that says this.
    #[must_use]
    pub fn mutant(self, saying: &'static str) -> Check {
        Check { expectation: Expectation::Caught { saying }, ..self }
    }

    /// Whether it is wrong on purpose.
    pub fn is_mutant(&self) -> bool {
        self.expectation != Expectation::Passes
    }

    /// Explores it, until everything was tried or `go_on` says that it is enough.
    pub fn run(
        &self,
        setup: &Setup,
        policy: Policy,
        seed: u64,
        go_on: &mut dyn FnMut(&Progress) -> bool,
    ) -> Result<Finding> {
        let subject = (self.subject)(setup);
        let report = explore(&setup.simulation()?, &subject.program, policy, seed, go_on);
        let mut problem = report.failure.as_ref().map(|failure| failure.problem.clone());
        let is_done = report.complete || report.runs >= self.runs_max;
        if is_done && problem.is_none() {
            problem = (subject.in_the_end)().err();
        }
        let outcome = match (self.expectation, &problem) {
            (Expectation::Passes, None) if report.complete => Outcome::Passed,
            (Expectation::Passes, None) => Outcome::NothingFound,
            (Expectation::Passes, Some(_)) => Outcome::Failed,
            (Expectation::Caught { saying }, Some(problem)) if problem.contains(saying) => Outcome::Caught,
            (Expectation::Caught { .. }, Some(_)) => Outcome::Failed,
            (Expectation::Caught { .. }, None) => Outcome::Survived,
        };
        Ok(Finding { outcome, problem, report })
    }

    /// Runs one schedule of it again.
    pub fn replay(&self, setup: &Setup, schedule: &str) -> Result<Run, String> {
        let simulation = setup.simulation().map_err(|error| error.to_string())?;
        replay(&simulation, &(self.subject)(setup).program, schedule)
    }
}
