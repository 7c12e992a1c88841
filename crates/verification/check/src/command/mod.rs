//! `farside check`: explores the schedules of protocols.

mod program;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Parser;
use comfy_table::{Cell, CellAlignment, Color, Table, presets};
use farside::sim::{NOT_COVERED, Policy, Progress, Verdict};
use farside_check::{
    Budget, Check, Expectation, Finding, Outcome, Setup, checks, describe_trace, select,
};
use indicatif::{ProgressBar, ProgressStyle};

const EXAMPLES: &str = "\
Examples:
  farside check                                 every protocol, every schedule that differs
  farside check lock rw barrier/central         all locks, and one barrier
  farside check 'litmus/*fence*' --list         which ones these are
  farside check --mutants                       the wrong variants as well: each must be caught
  farside check lock --budget 60 --fail-on-bounded
                                                a minute for each; an error if that is not enough
  farside check lock/d-mcs --ranks 4 --policy pct:3 --budget 30
                                                random schedules that find bugs of depth 3
  farside check lock/d-mcs --ranks 2 --rounds 1 --policy unreduced
                                                how many schedules there are without reduction
  farside check example/mcs --ranks 3 --rounds 1 --deaths 1
                                                any rank may die at any step
  farside check example/ticket-plain --ranks 2 --rounds 1 --replay 0
                                                one schedule again, step by step
  farside check ./my-program --ranks 3          your own program: every schedule, and races";

/// Explores the schedules of protocols, and reports whether they keep their guarantees.
///
/// The code that is explored is the code that runs; ranks are simulated on one thread, and what
/// happens in which order is chosen. A failure comes with the schedule that shows it again. The
/// exit status is not zero if something failed, or if a deliberately wrong variant was not caught.
///
/// A program of your own whose main function is `#[farside::main]`, or that lists several with
/// `farside::check::main!`, is explored when its file is named; races are failures there.
///
/// `exhaustive` means that every schedule was tried and passed, `partial` that memory was used in a
/// way that the exploration cannot follow, so that schedules may be missing, `sampled` that as many
/// random ones were tried as the check has, `bounded` that a limit ended it before that: no failure
/// was found, and the rest is unknown.
#[derive(Parser)]
#[command(name = "farside-check", bin_name = "farside check", version, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Which checks: a name, the beginning of names, or a name with stars; all by default. Or a
    /// program, by the path of its file, and which of those that it lists
    #[arg(value_name = "PROTOCOL|PROGRAM")]
    protocols: Vec<String>,
    /// Arguments of the program
    #[arg(last = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
    /// List the checks and exit
    #[arg(long)]
    list: bool,
    /// Check the deliberately wrong variants as well; they are left out unless they are named in
    /// full
    #[arg(long)]
    mutants: bool,
    /// How long each check may take, in seconds; by default its size is counted in schedules and
    /// steps, and the time does not matter
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    budget: Option<Duration>,
    /// How many schedules of each check to try at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    schedules: Option<u64>,
    /// Fail if a limit ends a check before it has tried everything
    #[arg(long)]
    fail_on_bounded: bool,
    /// Number of ranks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    ranks: Option<u32>,
    /// Rounds per rank
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// How the ranks are arranged, such as node:3
    #[arg(long, value_name = "LEVELS")]
    topology: Option<String>,
    /// Which schedules: exhaustive, unreduced, random or pct:DEPTH
    #[arg(long, value_name = "POLICY", value_parser = |text: &str| text.parse::<Policy>())]
    policy: Option<Policy>,
    /// Which random schedules
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// How many ranks may die, each at any step
    #[arg(long, value_name = "K")]
    deaths: Option<u32>,
    /// Let nodes hear of a death at different times
    #[arg(long)]
    slow_news: bool,
    /// How many waits may time out, each at any step
    #[arg(long, value_name = "K")]
    time_outs: Option<u32>,
    /// Let puts and gets of a program land word by word, in any order
    #[arg(long)]
    torn: bool,
    /// Do not look for races of a program
    #[arg(long)]
    no_races: bool,
    /// Run this schedule of one check again, and show its steps
    #[arg(long, value_name = "SCHEDULE", conflicts_with_all = ["policy", "json"])]
    replay: Option<String>,
    /// Also write the results here, one JSON object per line
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    if let Some(program) = program::named(&arguments.protocols) {
        ensure!(arguments.time_outs.is_none(), "--time-outs is for protocols, not for programs");
        return program::explore(&program, &arguments);
    }
    ensure!(
        arguments.arguments.is_empty() && !arguments.torn && !arguments.no_races,
        "--torn, --no-races and arguments after -- are for a program: name its file first, such as \
         ./my-program"
    );
    let words: Vec<&str> = arguments.protocols.iter().map(String::as_str).collect();
    let in_full = |check: &Check| words.contains(&check.name);
    let mut chosen = select(checks(), &words)?;
    if !arguments.list || !words.is_empty() {
        chosen.retain(|check| {
            arguments.mutants || arguments.list || !check.is_mutant() || in_full(check)
        });
    }
    if arguments.list {
        return list(&chosen);
    }
    if let Some(schedule) = &arguments.replay {
        let [check] = &chosen[..] else {
            bail!(
                "a schedule belongs to one check, and {} were chosen: name it in full",
                chosen.len()
            );
        };
        return replay(check, &arguments.setup(check), schedule);
    }
    let mut json = arguments.json.as_deref().map(create).transpose()?;
    let mut table = empty_table();
    let (mut failures, mut counts) = (Vec::new(), BTreeMap::new());
    let mut unseen = BTreeSet::new();
    for check in &chosen {
        let one = One::explore(check, &arguments)?;
        table.add_row(one.row());
        if let Some((file, path)) = &mut json {
            writeln!(file, "{}", one.to_json(arguments.seed))
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        *counts.entry(one.finding.outcome).or_insert(0) += 1;
        unseen.extend(one.finding.report.unseen.iter().map(ToString::to_string));
        if !one.is_good(&arguments) {
            failures.push(one.describe(arguments.seed));
        }
    }
    for column in 4..9 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "{table}\n{}", summary(&counts))?;
    if counts.contains_key(&Outcome::Exhaustive) || counts.contains_key(&Outcome::Partial) {
        writeln!(out, "no schedule covers: {NOT_COVERED} (docs/checking.md)")?;
    }
    for unseen in &unseen {
        writeln!(out, "not seen by the exploration: {unseen}")?;
    }
    for failure in &failures {
        writeln!(out, "\n{failure}")?;
    }
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn empty_table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header([
        "check",
        "job",
        "policy",
        "outcome",
        "schedules",
        "steps",
        "depth",
        "seconds",
        "schedules/s",
    ]);
    table
}

/// How many random schedules of a check that has no number of its own, unless it is said.
const SCHEDULES: u64 = 10_000;

impl Arguments {
    /// Which schedules of a check to try, and how many. What it has by default counts for its own
    /// policy.
    fn extent(&self, check: &Check) -> (Policy, Budget) {
        let policy = self.policy.unwrap_or(check.policy);
        let own = if self.policy.is_none() { check.schedules } else { None };
        let samples = !matches!(policy, Policy::Exhaustive(_));
        // Random schedules never end: without a number, the time says how many.
        let usual = (samples && self.budget.is_none()).then_some(SCHEDULES);
        let schedules = self.schedules.or(own).or(usual);
        (policy, Budget { schedules, time: self.budget, ..check.budget() })
    }

    /// The job of a check, as far as nothing else was asked for.
    fn setup(&self, check: &Check) -> Setup {
        let mut setup = check.setup.clone();
        if let Some(ranks) = self.ranks {
            // A node for each rank stays a node for each rank.
            if setup.topology == Some(format!("node:{}", setup.ranks)) {
                setup.topology = Some(format!("node:{ranks}"));
            }
            setup.ranks = ranks;
        }
        setup.rounds = self.rounds.unwrap_or(setup.rounds);
        setup.deaths = self.deaths.unwrap_or(setup.deaths);
        setup.slow_news |= self.slow_news;
        setup.time_outs = self.time_outs.unwrap_or(setup.time_outs);
        setup.topology = self.topology.clone().or(setup.topology);
        setup
    }
}

/// How many checks came to what.
fn summary(counts: &BTreeMap<Outcome, u32>) -> String {
    let all: u32 = counts.values().sum();
    let each: Vec<String> =
        counts.iter().map(|(outcome, count)| format!("{count} {outcome}")).collect();
    format!("{all} check{}: {}", if all == 1 { "" } else { "s" }, each.join(", "))
}

fn create(path: &Path) -> Result<(File, &Path)> {
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok((file, path))
}

fn list(chosen: &[Check]) -> Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    for check in chosen {
        let wrong = match check.expectation {
            Expectation::Passes => String::new(),
            Expectation::Caught { promise, .. } => {
                format!("  (wrong: breaks {promise}, and must be caught)")
            }
            Expectation::Shown { promise, .. } => format!("  (has no {promise}: must be shown)"),
        };
        writeln!(out, "{:32} {}{wrong}", check.name, check.about)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows one schedule.
fn replay(check: &Check, setup: &Setup, schedule: &str) -> Result<ExitCode> {
    let run = check.replay(setup, schedule).map_err(anyhow::Error::msg)?;
    let trace: Vec<_> = run.steps.into_iter().map(|step| step.event).collect();
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}: {}", check.name, setup.describe())?;
    write!(out, "{}", describe_trace(setup.ranks, &trace))?;
    let (text, code) = match run.verdict {
        Verdict::Passed => ("nothing is wrong".to_owned(), ExitCode::SUCCESS),
        Verdict::Pruned => ("this schedule does not exist".to_owned(), ExitCode::FAILURE),
        Verdict::TooLong => (format!("no end after {} steps", trace.len()), ExitCode::FAILURE),
        Verdict::Failed(problem) => (problem, ExitCode::FAILURE),
    };
    writeln!(out, "{text}")?;
    Ok(code)
}

/// One check and what came out of it.
struct One<'a> {
    check: &'a Check,
    setup: Setup,
    policy: Policy,
    finding: Finding,
    time: Duration,
}

impl One<'_> {
    fn explore<'a>(check: &'a Check, arguments: &Arguments) -> Result<One<'a>> {
        let setup = arguments.setup(check);
        let (policy, budget) = arguments.extent(check);
        let bar = ProgressBar::new_spinner();
        bar.set_style(ProgressStyle::with_template("{spinner} {prefix} {elapsed} {msg}")?);
        bar.set_prefix(check.name);
        let (start, mut told) = (Instant::now(), Instant::now());
        let mut watch = |progress: &Progress| {
            if told.elapsed() > Duration::from_millis(100) {
                told = Instant::now();
                let rate = progress.runs as f64 / start.elapsed().as_secs_f64();
                bar.set_message(format!(
                    "{} schedules ({rate:.0}/s), {} steps, depth {}",
                    progress.runs, progress.steps, progress.depth
                ));
                bar.tick();
            }
        };
        let finding = check.run(&setup, policy, arguments.seed, &budget, &mut watch);
        bar.finish_and_clear();
        let finding = finding.with_context(|| check.name.to_owned())?;
        Ok(One { check, setup, policy, finding, time: start.elapsed() })
    }

    /// Whether nothing is wrong with what came out.
    fn is_good(&self, arguments: &Arguments) -> bool {
        let outcome = self.finding.outcome;
        outcome.is_good() && !(arguments.fail_on_bounded && outcome == Outcome::Bounded)
    }

    /// Which schedules were tried. What was cut off was not all.
    fn tried(&self) -> String {
        let cut_off = if self.finding.outcome == Outcome::Bounded { ", cut off" } else { "" };
        format!("{}{cut_off}", self.policy)
    }

    fn rate(&self) -> f64 {
        self.finding.report.runs as f64 / self.time.as_secs_f64().max(1e-9)
    }

    fn row(&self) -> Vec<Cell> {
        let report = &self.finding.report;
        let color = match self.finding.outcome {
            Outcome::Exhaustive | Outcome::Caught | Outcome::Shown => Color::Green,
            Outcome::Partial | Outcome::Sampled => Color::Cyan,
            Outcome::Bounded => Color::Yellow,
            Outcome::Failed | Outcome::Survived => Color::Red,
        };
        vec![
            Cell::new(self.check.name),
            Cell::new(self.setup.describe()),
            Cell::new(self.tried()),
            Cell::new(self.finding.outcome).fg(color),
            Cell::new(report.runs),
            Cell::new(report.steps),
            Cell::new(report.depth_max),
            Cell::new(format!("{:.2}", self.time.as_secs_f64())),
            Cell::new(format!("{:.0}", self.rate())),
        ]
    }

    fn to_json(&self, seed: u64) -> serde_json::Value {
        let report = &self.finding.report;
        let promise = match self.check.expectation {
            Expectation::Passes => None,
            Expectation::Caught { promise, .. } | Expectation::Shown { promise, .. } => {
                Some(promise)
            }
        };
        serde_json::json!({
            "check": self.check.name,
            "outcome": self.finding.outcome.to_string().to_lowercase(),
            "good": self.finding.outcome.is_good(),
            "promise": promise.map(|promise| promise.to_string()),
            "mutant": self.check.is_mutant(),
            "ranks": self.setup.ranks,
            "topology": self.setup.topology,
            "rounds": self.setup.rounds,
            "deaths": self.setup.deaths,
            "slow_news": self.setup.slow_news,
            "time_outs": self.setup.time_outs,
            "policy": self.policy.to_string(),
            "seed": seed,
            "schedules": report.runs,
            "pruned": report.pruned,
            "steps": report.steps,
            "depth_max": report.depth_max,
            "complete": report.complete && report.unseen.is_empty(),
            "unseen": report.unseen.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "time_s": self.time.as_secs_f64(),
            "schedules_per_s": self.rate(),
            "problem": self.finding.problem,
            "schedule": report.failure.as_ref().map(|failure| &failure.schedule),
        })
    }

    fn describe(&self, seed: u64) -> String {
        let failure = self.finding.report.failure.as_ref();
        let problem = match (&self.finding.problem, self.finding.outcome) {
            (_, Outcome::Survived) => "a failure was expected, and no schedule showed one",
            (_, Outcome::Bounded) => "stopped at a limit before all schedules were tried",
            (Some(problem), _) => problem,
            (None, _) => "something is wrong",
        };
        let failure = failure.map(|failure| (&*failure.schedule, &*failure.trace));
        self.check.describe_failure(&self.setup, self.policy, seed, problem, failure)
    }
}
