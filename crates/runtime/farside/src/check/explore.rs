//! The exploration of a user's program.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use farside_fabric::{Connection, Error, Rank, Result};
use farside_races::{Checker, Cure, Race};
use farside_rma::World;

use super::quiet::Quiet;
use super::trace::replayed;
use crate::entry::MainResult;
use crate::sim::{
    Policy, Program, Progress, Reduction, Report, Run, Simulation, Verdict, explore, judged,
    replay, simulation,
};

/// The steps after which an exhaustive exploration is cut off, unless a number of schedules is
/// given.
const STEPS_MAX: u64 = 20_000_000;
/// The random schedules that are tried unless a number is given.
const SCHEDULES: u64 = 10_000;
/// The variable that holds a schedule to run again, in a test.
const REPLAY: &str = "FARSIDE_REPLAY";

/// What is explored of a program, and how.
#[derive(Debug, Clone)]
pub struct Check {
    pub(crate) ranks: u32,
    pub(crate) topology: Option<String>,
    pub(crate) policy: String,
    pub(crate) seed: u64,
    pub(crate) schedules: Option<u64>,
    pub(crate) budget: Option<Duration>,
    /// The random schedules that are tried before an exhaustive search.
    pub(crate) random_first: u64,
    /// Whether this process is there for the exploration alone, and output may be held back.
    pub(crate) is_alone: bool,
    pub(crate) deaths: u32,
    pub(crate) slow_news: bool,
    pub(crate) torn: bool,
    pub(crate) races: bool,
}

/// What came of an exploration.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The outcome, and its strength.
    pub outcome: Outcome,
    /// The schedules that were tried, and the one that failed.
    pub report: Report,
    /// The random schedules before them, in which nothing was found.
    pub random_first: u64,
    /// The policy of these schedules: random, if one of those that come first has failed.
    pub policy: Policy,
    /// The first race of the schedule that failed.
    pub race: Option<Race>,
    /// The weakest means that was found to take the race away: with it, all schedules were tried,
    /// or as many as were asked for, and nothing was found.
    pub cure: Option<Cure>,
    /// How many schedules were tried with the cure.
    pub cured_schedules: u64,
    /// What was looked at for races, and what was not, if they were looked for.
    pub coverage: Option<farside_races::Report>,
    pub(crate) check: Check,
}

/// The outcome of an exploration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Every schedule was tried, and nothing was found.
    Exhaustive,
    /// As many random schedules were tried as were wanted, and nothing was found.
    Sampled,
    /// Every schedule was tried that differs in what is seen, and nothing was found; but the
    /// program used memory in a way that cannot be followed ([`Report::unseen`]).
    Partial,
    /// A limit ended it, and nothing was found until then: nothing is known of the rest.
    Bounded,
    /// Something was found.
    Failed,
}

/// Says that this rank's preparations, which are not explored, are over; returns when all ranks
/// have said so. Outside of an exploration it does nothing.
pub fn begin(world: &World) {
    world.end_preparations();
}

impl Check {
    /// All schedules of so many ranks on one node, races included.
    pub fn new(ranks: u32) -> Check {
        Check {
            ranks,
            topology: None,
            policy: "exhaustive".to_owned(),
            seed: 1,
            schedules: None,
            budget: None,
            random_first: 0,
            is_alone: false,
            deaths: 0,
            slow_news: false,
            torn: false,
            races: true,
        }
    }

    /// With the ranks arranged like this, such as `node:2`.
    #[must_use]
    pub fn topology(self, topology: &str) -> Check {
        Check { topology: Some(topology.to_owned()), ..self }
    }

    /// On so many nodes.
    #[must_use]
    pub fn nodes(self, nodes: u32) -> Check {
        self.topology(&format!("node:{nodes}"))
    }

    /// With these schedules: `exhaustive`, `unreduced`, `random` or `pct:DEPTH`.
    #[must_use]
    pub fn policy(self, policy: &str) -> Check {
        Check { policy: policy.to_owned(), ..self }
    }

    /// With so many schedules at most.
    #[must_use]
    pub fn schedules(self, schedules: u64) -> Check {
        Check { schedules: Some(schedules), ..self }
    }

    /// For so long at most.
    #[must_use]
    pub fn budget(self, budget: Duration) -> Check {
        Check { budget: Some(budget), ..self }
    }

    /// With so many random schedules before an exhaustive search, which may take long to come to a
    /// fault that is easy to find.
    #[must_use]
    pub fn random_first(self, schedules: u64) -> Check {
        Check { random_first: schedules, ..self }
    }

    /// With other random schedules.
    #[must_use]
    pub fn seed(self, seed: u64) -> Check {
        Check { seed, ..self }
    }

    /// With so many ranks that may die, each at any step.
    #[must_use]
    pub fn deaths(self, deaths: u32) -> Check {
        Check { deaths, ..self }
    }

    /// With nodes that hear of a death at different times.
    #[must_use]
    pub fn slow_news(self, slow_news: bool) -> Check {
        Check { slow_news, ..self }
    }

    /// With puts and gets of more than 8 bytes that land word by word, in any order.
    #[must_use]
    pub fn torn(self, torn: bool) -> Check {
        Check { torn, ..self }
    }

    /// With or without looking for races.
    #[must_use]
    pub fn races(self, races: bool) -> Check {
        Check { races, ..self }
    }

    /// Explores a program. It fails if a rank returns an error or panics, if ranks wait for ever,
    /// or if there is a race.
    pub fn explore<R: MainResult + 'static>(
        &self,
        program: impl Fn(&World) -> R + 'static,
    ) -> Result<Finding> {
        self.explore_watched(Rc::new(program), &mut |_| {})
    }

    pub(crate) fn explore_watched<R: MainResult + 'static>(
        &self,
        program: Rc<dyn Fn(&World) -> R>,
        watch: &mut dyn FnMut(&Progress),
    ) -> Result<Finding> {
        let (explored, policy) = (Explored::new(self, program)?, self.parsed_policy()?);
        let first = explored.explore_random(self, policy, watch);
        let random_first = first.as_ref().map_or(0, |first| first.runs);
        let (report, tried) = match first {
            Some(first) if first.failure.is_some() => (first, Policy::Random),
            _ => (explored.explore(self, policy, watch), policy),
        };
        let mut finding = Finding {
            race: explored.race().filter(|_| report.failure.is_some()),
            outcome: self.outcome(tried, &report),
            report,
            random_first: if tried == policy { random_first } else { 0 },
            policy: tried,
            cure: None,
            cured_schedules: 0,
            coverage: explored.checker.as_ref().map(|checker| checker.coverage()),
            check: self.clone(),
        };
        explored.cure(&mut finding, policy, watch);
        Ok(finding)
    }

    /// Runs one schedule of a program again.
    pub fn replay<R: MainResult + 'static>(
        &self,
        program: impl Fn(&World) -> R + 'static,
        schedule: &str,
    ) -> Result<Run> {
        self.replay_shared(Rc::new(program), schedule)
    }

    pub(crate) fn replay_shared<R: MainResult + 'static>(
        &self,
        program: Rc<dyn Fn(&World) -> R>,
        schedule: &str,
    ) -> Result<Run> {
        let explored = Explored::new(self, program)?;
        let mut run = replay(&explored.simulation, &explored.program, schedule)
            .map_err(Error::InvalidArgument)?;
        if let (Verdict::Failed(problem), Some(race)) = (&mut run.verdict, explored.race()) {
            *problem = race.to_string();
        }
        Ok(run)
    }

    /// Explores a program, and panics with what was found; also if not all was tried that should
    /// be. It is what `#[farside::test]` expands to.
    ///
    /// # Panics
    ///
    /// If the outcome is [`Outcome::Failed`] or [`Outcome::Bounded`], or the job makes no sense.
    #[track_caller]
    pub fn assert<R: MainResult + 'static>(
        &self,
        name: &str,
        program: impl Fn(&World) -> R + 'static,
    ) {
        let program: Rc<dyn Fn(&World) -> R> = Rc::new(program);
        if let Ok(schedule) = std::env::var(REPLAY) {
            let run = self.replay_shared(program, &schedule);
            let run = run.unwrap_or_else(|error| panic!("{error}"));
            panic!("{}", replayed(self.ranks, &run));
        }
        let finding = self.explore_watched(program, &mut |_| {});
        let finding = finding.unwrap_or_else(|error| panic!("{error}"));
        if matches!(finding.outcome, Outcome::Failed | Outcome::Bounded) {
            let again = |schedule: &str| {
                let name = name.split_once("::").map_or(name, |(_, name)| name);
                format!("{REPLAY}='{schedule}' cargo test {name} -- --exact")
            };
            panic!("{}", finding.describe(&again));
        }
        if finding.outcome == Outcome::Partial {
            print!("{name}: {}", finding.describe(&str::to_owned));
        }
    }

    fn parsed_policy(&self) -> Result<Policy> {
        self.policy.parse().map_err(Error::InvalidArgument)
    }

    fn outcome(&self, policy: Policy, report: &Report) -> Outcome {
        let samples = !matches!(policy, Policy::Exhaustive(_));
        match report.failure {
            Some(_) => Outcome::Failed,
            None if report.complete && report.unseen.is_empty() => Outcome::Exhaustive,
            None if report.complete => Outcome::Partial,
            None if samples => Outcome::Sampled,
            None => Outcome::Bounded,
        }
    }

    fn goes_on(&self, policy: Policy, progress: &Progress, since: Instant) -> bool {
        let samples = !matches!(policy, Policy::Exhaustive(_));
        // Without a number, the time says how many.
        let usual = (samples && self.budget.is_none()).then_some(SCHEDULES);
        self.budget.is_none_or(|budget| since.elapsed() < budget)
            && match self.schedules.or(usual) {
                Some(schedules) => progress.runs < schedules,
                None => samples || progress.steps < STEPS_MAX,
            }
    }
}

/// A program that is ready to be explored.
struct Explored {
    simulation: Simulation,
    program: Program,
    checker: Option<Arc<Checker>>,
}

impl Explored {
    fn new<R: MainResult + 'static>(
        check: &Check,
        program: Rc<dyn Fn(&World) -> R>,
    ) -> Result<Explored> {
        if check.ranks == 0 {
            return Err(Error::InvalidArgument("a job has at least one rank".into()));
        }
        let simulation = simulation(check.ranks, check.topology.as_deref())?;
        let simulation = simulation.deaths(check.deaths).torn(check.torn);
        let simulation = simulation.slow_news(check.slow_news);
        let checker = check.races.then(|| Checker::for_runs(check.ranks)).transpose()?;
        // One run tells whether the program says itself where its preparations end.
        let has_begun = Rc::new(Cell::new(false));
        let staged = self::program(&program, checker.clone(), Some(has_begun.clone()));
        // How it ends, and what it writes, is told by the exploration.
        let quiet = check.is_alone.then(Quiet::new).transpose()?;
        let _ = replay(&simulation, &staged, "0");
        drop(quiet);
        let program = match has_begun.get() {
            true => staged,
            false => self::program(&program, checker.clone(), None),
        };
        Ok(Explored { simulation, program, checker })
    }

    fn explore(&self, check: &Check, policy: Policy, watch: &mut dyn FnMut(&Progress)) -> Report {
        let since = Instant::now();
        let mut go_on = |progress: &Progress| {
            watch(progress);
            check.goes_on(policy, progress, since)
        };
        explore(&self.simulation, &self.program, policy, check.seed, &mut go_on)
    }

    fn explore_random(
        &self,
        check: &Check,
        policy: Policy,
        watch: &mut dyn FnMut(&Progress),
    ) -> Option<Report> {
        let is_asked = check.random_first > 0 && policy == Policy::Exhaustive(Reduction::Sources);
        let first = Check { schedules: Some(check.random_first), ..check.clone() };
        is_asked.then(|| self.explore(&first, Policy::Random, watch))
    }

    /// Returns the first race of the last run.
    fn race(&self) -> Option<Race> {
        self.checker.as_ref()?.report().races.into_iter().next()
    }

    /// Looks for the weakest means that takes a race away.
    fn cure(&self, finding: &mut Finding, policy: Policy, watch: &mut dyn FnMut(&Progress)) {
        let (Some(race), Some(checker)) = (&finding.race, &self.checker) else { return };
        for cure in checker.cures(race) {
            checker.try_cure(Some(&cure));
            let report = self.explore(&finding.check, policy, watch);
            let outcome = finding.check.outcome(policy, &report);
            if matches!(outcome, Outcome::Exhaustive | Outcome::Partial | Outcome::Sampled) {
                checker.try_cure(None);
                finding.cured_schedules = report.runs;
                finding.cure = Some(cure);
                return;
            }
        }
        checker.try_cure(None);
    }
}

/// Makes a program that can be simulated. Where its preparations end it says itself, which is noted
/// in `has_begun`; without that, all of it is explored.
fn program<R: MainResult + 'static>(
    body: &Rc<dyn Fn(&World) -> R>,
    checker: Option<Arc<Checker>>,
    has_begun: Option<Rc<Cell<bool>>>,
) -> Program {
    let body = body.clone();
    Rc::new(move |fabric, start| {
        let fabric = checked(fabric, checker.as_ref())?;
        let world = World::new(fabric).map_err(|error| error.to_string())?;
        match has_begun.clone() {
            None => start.prepared(),
            Some(has_begun) => {
                let start = start.clone();
                world.at_end_of_preparations(move || {
                    has_begun.set(true);
                    start.prepared();
                });
            }
        }
        judged(body(&world).into_result(), start)?;
        if checker.as_ref().is_some_and(|checker| checker.holds_puts()) {
            judged(world.flush_all(), start)?;
        }
        match &checker {
            Some(checker) if checker.has_race() => Err("a race".into()),
            _ => Ok(()),
        }
    })
}

/// Puts the checker of races in front of a rank's connection. Rank 0 is the first of a run.
fn checked(
    fabric: Box<dyn Connection>,
    checker: Option<&Arc<Checker>>,
) -> Result<Box<dyn Connection>, String> {
    let Some(checker) = checker else { return Ok(fabric) };
    if fabric.job().rank == Rank(0) {
        checker.begin_again();
    }
    checker.over(fabric).map_err(|error| error.to_string())
}
