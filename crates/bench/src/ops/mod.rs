//! `farside bench ops`: latency, bandwidth and rate of every one-sided operation, and the barrier.

mod limit;
mod measure;
mod report;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use farside_launch::Launch;
use indicatif::{ProgressBar, ProgressStyle};

use crate::machine::Machine;
use crate::record::{LIMIT, Record};
use crate::rivals::{Compiled, Rival};
use crate::timing::median;

pub use limit::run as run_limit;
pub use measure::run as run_rank;
pub use report::{plot, tables};

/// The cases that take every size.
const SIZED: [&str; 4] = ["put", "get", "accumulate", "put_strided"];
/// The cases on one word.
const WORDS: [&str; 5] = ["fetch_add", "swap", "compare_swap", "signal", "rate"];
/// The name of our own system in records.
pub const FARSIDE: &str = "farside";
/// How long a job may take beyond what it measures.
const SLACK: Duration = Duration::from_secs(60);

/// What the target does meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// It waits in the library.
    Idle,
    /// It computes and never calls the library.
    Computing,
}

impl Target {
    /// Its name in records.
    pub fn name(self) -> &'static str {
        match self {
            Target::Idle => "idle",
            Target::Computing => "computing",
        }
    }

    fn parse(name: &str) -> Result<Target> {
        match name {
            "idle" => Ok(Target::Idle),
            "computing" => Ok(Target::Computing),
            other => bail!("a target is idle or computing, not {other:?}"),
        }
    }
}

/// What one job of one system measures.
#[derive(Debug, Clone)]
pub struct Plan {
    /// For how long each.
    pub time: Duration,
    /// Which cases.
    pub cases: Vec<String>,
    /// At which sizes, in bytes.
    pub sizes: Vec<usize>,
    /// With what kind of target.
    pub target: Target,
}

impl Plan {
    /// Reads `MS CASES SIZES TARGET`, which is what every system's program is given.
    pub fn parse(arguments: &[String]) -> Result<Plan> {
        let [ms, cases, sizes, target] = arguments else {
            bail!("expected MS CASES SIZES TARGET, not {arguments:?}");
        };
        let number = |text: &str| text.parse::<usize>().with_context(|| format!("{text:?} is no number"));
        Ok(Plan {
            time: Duration::from_millis(number(ms)? as u64),
            cases: cases.split(',').map(str::to_owned).collect(),
            sizes: sizes.split(',').map(number).collect::<Result<_>>()?,
            target: Target::parse(target)?,
        })
    }

    fn arguments(&self) -> [String; 4] {
        let sizes: Vec<String> = self.sizes.iter().map(usize::to_string).collect();
        [self.time.as_millis().to_string(), self.cases.join(","), sizes.join(","), self.target.name().to_owned()]
    }

    /// Every case with its size, in order.
    pub fn cases(&self) -> impl Iterator<Item = (String, usize)> + '_ {
        self.cases.iter().flat_map(|case| {
            let sizes = match case.as_str() {
                sized if SIZED.contains(&sized) => self.sizes.clone(),
                "barrier" => vec![0],
                _ => vec![8],
            };
            sizes.into_iter().map(|bytes| (case.clone(), bytes))
        })
    }

    fn deadline(&self) -> Duration {
        // A rival that does not progress takes as long as the target computes.
        (self.time * 2 + Duration::from_millis(100)) * self.cases().count() as u32 + SLACK
    }
}

/// What to measure, all in all.
#[derive(Debug, Clone)]
pub struct Options {
    /// At how many ranks.
    pub ranks: Vec<u32>,
    /// Against whom, besides the limit.
    pub against: Vec<Rival>,
    /// Which cases; all if empty.
    pub cases: Vec<String>,
    /// At which sizes, in bytes.
    pub sizes: Vec<usize>,
    /// How long each case is measured in each round.
    pub time: Duration,
    /// How many rounds.
    pub rounds: u32,
    /// The program that runs as a rank when it is started with the arguments `__bench ops …`.
    pub program: PathBuf,
    /// The machine to measure on in virtual time, instead of this one.
    pub sim: Option<Machine>,
    /// Where rivals are compiled.
    pub workshop: PathBuf,
    /// Whether to show progress.
    pub progress: bool,
}

/// A system that can run a plan.
enum System {
    Farside,
    Limit,
    Rival(Compiled),
}

impl System {
    fn name(&self) -> &'static str {
        match self {
            System::Farside => FARSIDE,
            System::Limit => LIMIT,
            System::Rival(compiled) => compiled.rival.name(),
        }
    }
}

/// What was measured, by what it was measured for.
type Samples = BTreeMap<Key, Vec<f64>>;

/// On what it was measured: the fabric, and the nodes at each number of ranks.
struct Where<'a> {
    sim: Option<&'a Machine>,
}

impl Where<'_> {
    fn record(&self, case: &str, system: &str, ranks: u32) -> Result<Record> {
        match self.sim {
            None => Ok(Record::new("ops", case, system, "shm", ranks as usize, 1)),
            Some(machine) => machine.record("ops", case, system, ranks),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    ranks: u32,
    case: usize,
    bytes: usize,
    target: Target,
    system: &'static str,
}

/// Measures, and returns the records and what went wrong on the way with rivals.
pub fn run(options: &Options) -> Result<(Vec<Record>, Vec<String>)> {
    let all: Vec<String> = SIZED.iter().chain(&WORDS).chain(&["barrier"]).map(|&case| case.to_owned()).collect();
    let cases = if options.cases.is_empty() { all.clone() } else { options.cases.clone() };
    check(options, &cases, &all)?;
    let mut systems = vec![System::Farside];
    if options.sim.is_none() {
        systems.push(System::Limit);
    }
    for &rival in &options.against {
        systems.push(System::Rival(Compiled::new(rival, &options.workshop)?));
    }
    let plans: Vec<(u32, Plan)> = options.ranks.iter().flat_map(|&ranks| plans(options, &cases, ranks)).collect();
    let steps = u64::from(options.rounds) * plans.len() as u64 * systems.len() as u64;
    let progress = if options.progress { ProgressBar::new(steps) } else { ProgressBar::hidden() };
    progress.set_style(
        ProgressStyle::with_template("{bar:30} {pos}/{len}  {msg}  ({elapsed}, {eta} left)")
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    let mut samples = Samples::new();
    let mut troubles: Vec<String> = Vec::new();
    for round in 1..=options.rounds {
        for (ranks, plan) in &plans {
            for system in &systems {
                let what = format!("round {round}: {} at {ranks} ranks, target {}", system.name(), plan.target.name());
                progress.set_message(what);
                match run_one(options, system, *ranks, plan) {
                    Ok(output) => collect(&output, &all, *ranks, system.name(), &mut samples)?,
                    // What a rival cannot do is a finding; what we cannot do is a failure.
                    Err(error) if matches!(system, System::Rival(_)) => {
                        let trouble = format!("{}: {error:#}", system.name());
                        if !troubles.contains(&trouble) {
                            troubles.push(trouble);
                        }
                    }
                    Err(error) => return Err(error),
                }
                progress.inc(1);
            }
        }
    }
    progress.finish_and_clear();
    Ok((records(&samples, &all, &Where { sim: options.sim.as_ref() })?, troubles))
}

fn check(options: &Options, cases: &[String], all: &[String]) -> Result<()> {
    if options.sim.is_some() && !options.against.is_empty() {
        bail!("rivals run on this machine only: leave out --against, or --sim");
    }
    ensure!(options.rounds > 0, "--rounds 0 measures nothing; at least 1 is needed");
    ensure!(!options.time.is_zero(), "--time 0 measures nothing; at least 1 ms is needed");
    for case in cases {
        ensure!(all.contains(case), "there is no case {case:?}; there are: {}", all.join(", "));
    }
    for &ranks in &options.ranks {
        ensure!(ranks >= 2, "{ranks} ranks have nobody to talk to; at least 2 are needed");
    }
    for &bytes in &options.sizes {
        ensure!(
            bytes >= 8 && bytes.is_multiple_of(8) && (bytes < 64 || bytes.is_multiple_of(64)),
            "{bytes} bytes cannot be measured: below 64, sizes are multiples of 8; from there on, of 64"
        );
        ensure!(bytes <= 64 << 20, "{bytes} bytes are more than the {} that are measured", 64 << 20);
    }
    Ok(())
}

/// The jobs for a number of ranks. Where ranks outnumber processors, those that wait disturb a pair that transfers in some systems
/// and not in others, so that only the barrier is compared.
fn plans(options: &Options, cases: &[String], ranks: u32) -> Vec<(u32, Plan)> {
    let processors = match options.sim {
        Some(_) => u32::MAX,
        None => std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32),
    };
    let plan = |cases: Vec<String>, target| Plan { time: options.time, cases, sizes: options.sizes.clone(), target };
    let (barrier, pairs): (Vec<String>, Vec<String>) = cases.iter().cloned().partition(|case| case == "barrier");
    let mut plans = Vec::new();
    if ranks <= processors.max(2) && !pairs.is_empty() {
        plans.push((ranks, plan(pairs.clone(), Target::Idle)));
        plans.push((ranks, plan(pairs, Target::Computing)));
    }
    if !barrier.is_empty() {
        plans.push((ranks, plan(barrier, Target::Idle)));
    }
    plans
}

fn run_one(options: &Options, system: &System, ranks: u32, plan: &Plan) -> Result<String> {
    match system {
        System::Limit if plan.target == Target::Computing => Ok(String::new()),
        System::Limit => limit::run(plan),
        System::Farside => {
            if let Some(machine) = &options.sim {
                let plan = plan.clone();
                let outcome = machine.job(ranks)?.run(move |world| measure::run(&world, &plan))?;
                return Ok(outcome.results.concat().join("\n"));
            }
            let launch =
                Launch::new(&options.program, ranks)?.arguments(["__bench", "ops"]).arguments(plan.arguments());
            let report = launch.timeout(plan.deadline()).run()?;
            ensure!(
                report.status == 0,
                "farside at {ranks} ranks ended with status {}: {:?}",
                report.status,
                report.failures
            );
            Ok(String::from_utf8_lossy(&report.stdout).into_owned())
        }
        System::Rival(compiled) => {
            let works = plan.cases.iter().filter(|case| !compiled.rival.crashes_in(case)).cloned().collect();
            let plan = Plan { cases: works, ..plan.clone() };
            if plan.cases.is_empty() {
                return Ok(String::new());
            }
            compiled.run(ranks, &plan.arguments(), plan.deadline())
        }
    }
}

/// A sample as a line.
pub(crate) fn row(case: &str, bytes: usize, target: Target, ns: f64) -> String {
    format!("sample {case} {bytes} {} {ns:.2}", target.name())
}

fn collect(output: &str, all: &[String], ranks: u32, system: &'static str, samples: &mut Samples) -> Result<()> {
    for line in output.lines().filter(|line| line.starts_with("sample ")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, case, bytes, target, ns] = words[..] else {
            bail!("{system} printed {line:?}, which is no sample");
        };
        let Some(case) = all.iter().position(|known| known == case) else {
            bail!("{system} printed a sample of {case:?}, which nobody asked for");
        };
        let bytes = bytes.parse().with_context(|| format!("{system} printed {line:?}"))?;
        let ns: f64 = ns.parse().with_context(|| format!("{system} printed {line:?}"))?;
        let key = Key { ranks, case, bytes, target: Target::parse(target)?, system };
        samples.entry(key).or_default().push(ns);
    }
    Ok(())
}

fn records(samples: &Samples, all: &[String], place: &Where<'_>) -> Result<Vec<Record>> {
    samples
        .iter()
        .map(|(key, values)| {
            let mut values = values.clone();
            let ns = median(&mut values);
            let record = place
                .record(&all[key.case], key.system, key.ranks)?
                .with("bytes", key.bytes)
                .with("target", key.target.name())
                .with("rounds", values.len())
                .figure("median_ns", ns)
                .figure("min_ns", values.first().copied().unwrap_or(ns))
                .figure("max_ns", values.last().copied().unwrap_or(ns))
                .figure("per_s", 1e9 / ns);
            Ok(if SIZED.contains(&all[key.case].as_str()) {
                record.figure("bytes_per_s", key.bytes as f64 * 1e9 / ns)
            } else {
                record
            })
        })
        .collect()
}

/// A directory for compiled rivals beside the running program.
pub fn workshop(program: &Path) -> PathBuf {
    program.parent().unwrap_or(Path::new(".")).join("farside-rivals")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(arguments: &[&str]) -> Result<Plan> {
        Plan::parse(&arguments.iter().map(|&text| text.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_plan_survives_the_command_line() {
        let first = plan(&["20", "put,fetch_add,barrier", "8,64", "computing"]).unwrap();
        let second = Plan::parse(&first.arguments()).unwrap();
        let cases: Vec<(String, usize)> = second.cases().collect();
        assert_eq!(cases, [("put".into(), 8), ("put".into(), 64), ("fetch_add".into(), 8), ("barrier".into(), 0)]);
        assert_eq!(second.target, Target::Computing);
        assert!(plan(&["x", "put", "8", "idle"]).is_err());
        assert!(plan(&["20", "put", "8", "asleep"]).is_err());
        assert!(plan(&["20"]).is_err());
    }

    #[test]
    fn samples_become_records() {
        let all = vec!["put".to_owned(), "barrier".to_owned()];
        let mut samples = Samples::new();
        for ns in ["4.00", "2.00", "3.00"] {
            let output = format!("noise\nsample put 1024 idle {ns}\n");
            collect(&output, &all, 2, FARSIDE, &mut samples).unwrap();
        }
        let records = records(&samples, &all, &Where { sim: None }).unwrap();
        assert_eq!(records.len(), 1);
        assert_eq!(records[0].number("median_ns"), Some(3.0));
        assert_eq!(records[0].number("bytes_per_s"), Some(1024.0 * 1e9 / 3.0));
        assert!(collect("sample put", &all, 2, FARSIDE, &mut samples).is_err());
        assert!(collect("sample fly 8 idle 1", &all, 2, FARSIDE, &mut samples).is_err());
    }

    #[test]
    fn the_limit_is_measured() {
        let plan = plan(&["1", "put,get,fetch_add,compare_swap,barrier", "8,256", "idle"]).unwrap();
        assert_eq!(limit::run(&plan).unwrap().lines().count(), 7);
    }
}
