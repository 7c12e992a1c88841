//! `farside bench dsm`: programs on shared pages, as in tables 2 and 3 and figures 3 to 6 of
//! \[BST97\].
//!
//! A sample is a run of a program: on real ranks its iterations, and then those of its base, in
//! turns from round to round; in virtual time, and where it is measured as in the paper, the whole
//! program with its allocations and first values, and no base. `barrier_ns` is how long a barrier
//! takes from the moment when the last rank has come until the last one has left, on average;
//! `waited_ns` is how long a rank is in a barrier, on average, which includes waiting for those who
//! come late. In virtual time each round has the next seed, and these times, and what was sent
//! again, are means of all rounds: one message that is lost adds more to the few barriers of a run
//! than all others take.

mod interval;
mod report;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use farside::World;
use farside::dsm::{Access, BarrierKind, Config, Copies, Diffs, Fetch, Start};
use farside::fabric::SegmentId;
use farside::fabric::observed::Kind;
use farside::sim::{Resent, Timing};
use farside_apps::shared::{self, Program, published_iterations, virtual_work};
use serde::{Deserialize, Serialize};

use crate::driver::{self, AtRanks, Findings, Fold, Layout, SLACK, Setting};
use crate::rivals::Rival;

pub use report::{plot, tables};

const CASES: [&str; 8] =
    ["fft3d", "barnes", "sor", "jacobi", "tsp", "barnes-zones", "interval", "interval-written"];
/// How many of them are in the paper, and run in virtual time unless others are asked for.
const CASES_OF_PAPER: usize = 4;
/// The copies and diffs that the simulator's figures stand on, and the usual ones.
const OLD: (Copies, Diffs) = (Copies::Rank, Diffs::Eager);
const NEW: (Copies, Diffs) = (Copies::Node, Diffs::OnDemand);
/// How many figures there are, and the place of the cost of an open page among them.
const FIGURES: usize = 15;
const PAGE_NS: usize = 11;
/// How long a program may take on real ranks.
const RUN_MAX: Duration = Duration::from_secs(120);

/// What one job measures: one program, as the command line of `farside app` would have it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    case: String,
    /// The arguments of the program.
    words: Vec<String>,
    verify: bool,
    /// Whether the whole program is timed, as in the paper, and not its iterations alone.
    whole: bool,
    /// Where messages of barriers land, when a run in this process has said so.
    #[serde(skip)]
    mail: Arc<Mutex<Option<SegmentId>>>,
}

impl Plan {
    fn new(case: &str, words: Vec<String>, verify: bool, whole: bool) -> Result<Plan> {
        let plan = Plan { case: case.to_owned(), words, verify, whole, mail: Arc::default() };
        plan.options()?;
        Ok(plan)
    }

    /// What `interval` measures: the setup, and the number of open pages.
    fn interval(&self) -> Result<(Config, usize)> {
        // The words are those of every program; only the size means something else.
        let options = shared::Options::parse(Program::Sor, &self.words)?;
        let pages = match self.words.iter().any(|word| word == "--size") {
            true => options.size.first().copied().unwrap_or(interval::PAGES),
            false => interval::PAGES,
        };
        ensure!((1..=1 << 16).contains(&pages), "{} takes 1 to 65536 pages as its size", self.case);
        let usual = Config::new(0);
        let (barrier, start, copies) = (options.barrier, options.start, options.copies);
        let (diffs, access) = (options.diffs, options.access.unwrap_or(usual.access));
        Ok((Config { barrier, start, copies, diffs, access, ..usual }, pages))
    }

    fn run_interval(&self, world: &World, kind: interval::Kind) -> farside::Result<Vec<String>> {
        let (config, pages) = self
            .interval()
            .map_err(|error| farside::Error::InvalidArgument(format!("{error:#}")))?;
        let Some((cost, used)) = interval::run(world, config, kind, pages)? else {
            return Ok(Vec::new());
        };
        let access = config.access.name();
        let kinds = (used.copies.name(), used.diffs.name());
        let attributes: [&dyn std::fmt::Display; 6] =
            [&config.barrier.name(), &config.start.name(), &access, &"get", &kinds.0, &kinds.1];
        let mut figures = [None; FIGURES];
        figures[0] = Some(cost.interval_ns);
        figures[PAGE_NS] = Some(cost.page_ns);
        Ok(vec![driver::sample(&self.case, &attributes, &figures)])
    }

    fn options(&self) -> Result<shared::Options> {
        if interval::Kind::of(&self.case).is_some() {
            self.interval()?;
            return Ok(shared::Options::parse(Program::Sor, &self.words)?);
        }
        let program = Program::ALL.into_iter().find(|program| program.name() == self.case);
        let program = program
            .with_context(|| format!("there is no program {:?} on shared pages", self.case))?;
        let options = shared::Options {
            verify: self.verify,
            // A round is a turn.
            turns: 1,
            ..shared::Options::parse(program, &self.words)?
        };
        options.check()?;
        Ok(options)
    }
}

impl driver::Plan for Plan {
    const BENCH: &'static str = "dsm";
    const LAYOUT: Layout = Layout {
        cases: &CASES,
        attributes: &["barrier", "start", "access", "fetch", "copies", "diffs"],
        figures: &[
            ("median_ns", Fold::Median),
            ("barrier_ns", Fold::Mean),
            ("waited_ns", Fold::Mean),
            ("bytes", Fold::Median),
            ("messages", Fold::Median),
            ("cold_misses", Fold::Median),
            ("faults", Fold::Median),
            ("twins", Fold::Median),
            ("diffs_made", Fold::Median),
            ("base_ns", Fold::Median),
            ("speedup", Fold::Median),
            ("page_ns", Fold::Median),
            ("retransmitted", Fold::Mean),
            ("check_in_retransmitted", Fold::Mean),
            ("release_retransmitted", Fold::Mean),
        ],
    };

    const VARIES: bool = true;

    fn deadline(&self) -> Duration {
        RUN_MAX + SLACK
    }

    fn label(&self) -> String {
        format!(", {} {}", self.case, self.words.join(" "))
    }

    fn run(&self, world: &World) -> farside::Result<Vec<String>> {
        let options = self
            .options()
            .map_err(|error| farside::Error::InvalidArgument(format!("{error:#}")))?;
        if let Some(kind) = interval::Kind::of(&self.case) {
            return self.run_interval(world, kind);
        }
        let outcome = shared::run(world, &options)?;
        if world.rank().0 != 0 {
            return Ok(Vec::new());
        }
        *self.mail.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome.mail);
        let done = &outcome.statistics;
        let number = |value: u64| Some(value as f64);
        let ns = if self.whole { outcome.whole_ns } else { outcome.timed.ns };
        let base = outcome.base.filter(|_| !self.whole);
        let attributes: [&dyn std::fmt::Display; 6] = [
            &options.barrier.name(),
            &options.start.name(),
            &outcome.access,
            &options.fetch.name(),
            &outcome.kind.0.name(),
            &outcome.kind.1.name(),
        ];
        let figures: [Option<f64>; FIGURES] = [
            number(ns),
            Some(outcome.completion_ns),
            Some(outcome.barrier_ns()),
            number(done.bytes),
            number(done.messages),
            number(done.cold_misses),
            number(done.read_faults + done.write_faults),
            number(done.twins),
            number(done.diffs_made),
            base.map(|base| base.ns as f64),
            base.and(outcome.speedup()),
            None,
            number(done.retransmitted),
            None,
            None,
        ];
        Ok(vec![driver::sample(&self.case, &attributes, &figures)])
    }

    /// What the simulated network had to send again. Going up a barrier is going to a lower rank,
    /// whichever barrier it is.
    fn simulated(&self, samples: Vec<String>, timing: &Timing) -> Vec<String> {
        let count = |which: &dyn Fn(&Resent) -> bool| {
            timing
                .resent
                .iter()
                .filter(|resent| which(resent))
                .map(|resent| resent.count)
                .sum::<u64>()
        };
        // Not those of locks, nor of collectives of the world around the program.
        let mail = *self.mail.lock().unwrap_or_else(PoisonError::into_inner);
        let is_put =
            |resent: &Resent| resent.kind == Kind::Put && mail.is_some() && resent.segment == mail;
        let up = count(&|resent| is_put(resent) && resent.target < resent.origin);
        let down = count(&|resent| is_put(resent) && resent.target > resent.origin);
        let add = |sample: String| match sample.strip_suffix(" - -") {
            Some(start) => format!("{start} {up} {down}"),
            None => sample,
        };
        samples.into_iter().map(add).collect()
    }

    fn for_rival(&self, _: Rival, _: bool) -> Option<Plan> {
        None
    }
}

/// What to measure, all in all.
#[derive(Debug, Clone)]
pub struct Options {
    /// What every bench is told.
    pub setting: Setting,
    /// Which programs; if empty all, or those of the paper in virtual time.
    pub cases: Vec<String>,
    /// Which barriers; both if empty.
    pub barriers: Vec<String>,
    /// Which starts; the original and the zeroed one if empty.
    pub starts: Vec<String>,
    /// Which front end, if not the usual one.
    pub access: Option<String>,
    /// Which ranks share a copy: node, rank. By default the nodes, and each rank in virtual time.
    pub copies: Vec<String>,
    /// When diffs are made: on-demand, eager. By default on demand, and eagerly in virtual time.
    pub diffs: Vec<String>,
    /// Both the copies and diffs of \[BST97\] and the usual ones, and no others.
    pub both: bool,
    /// How eager diffs of a copy for each rank are fetched.
    pub fetch: String,
    /// How large the problem of the one program is, if not as usual.
    pub size: Option<String>,
    /// Whether real ranks are measured as \[BST97\] does, too: its iterations, the whole program.
    pub published: bool,
    /// How many iterations, if not as usual.
    pub iterations: Option<usize>,
}

/// Measures.
pub fn run(options: &Options) -> Result<Findings> {
    options.setting.check(1)?;
    options.setting.check_one_server()?;
    ensure!(options.setting.against.is_empty(), "no rival has shared pages: leave out --against");
    let cases = cases(options)?;
    for barrier in &options.barriers {
        barrier.parse::<BarrierKind>()?;
    }
    for start in &options.starts {
        start.parse::<Start>()?;
    }
    let barriers = driver::choose(
        &options.barriers,
        &BarrierKind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>(),
    )?;
    let starts = match &options.starts[..] {
        [] => [Start::Original, Start::Zero].map(|start| start.name().to_owned()).to_vec(),
        asked => asked.to_vec(),
    };
    options.fetch.parse::<Fetch>()?;
    let mut further = vec!["--fetch".to_owned(), options.fetch.clone()];
    if let Some(access) = &options.access {
        access.parse::<Access>()?;
        further.extend(["--access".to_owned(), access.clone()]);
    }
    if let Some(size) = &options.size {
        ensure!(
            cases.len() == 1,
            "--size {size} is the size of one program, and not of {}: name one with --cases",
            cases.join(", ")
        );
        further.extend(["--size".to_owned(), size.clone()]);
    }
    if let Some(iterations) = options.iterations {
        further.extend(["--iterations".to_owned(), iterations.to_string()]);
    }
    let verify = options.setting.sim.is_none();
    let whole = options.published || !verify;
    let kinds = kinds(options)?;
    let mut plans = Vec::new();
    for &ranks in &options.setting.ranks {
        for case in &cases {
            for start in &starts {
                for barrier in &barriers {
                    for kind in &kinds {
                        let words = ["--barrier", barrier, "--start", start].map(str::to_owned);
                        // What was asked for comes later, and counts.
                        let words = [&words[..], kind, &usual(options, case), &further].concat();
                        plans.push(AtRanks { ranks, plan: Plan::new(case, words, verify, whole)? });
                    }
                }
            }
        }
    }
    driver::run(&options.setting, &plans, &[])
}

fn cases(options: &Options) -> Result<Vec<String>> {
    let mut cases = driver::choose(&options.cases, &CASES)?;
    if options.setting.sim.is_some() {
        let timed = cases.iter().find(|case| interval::Kind::of(case).is_some());
        match timed {
            Some(_) if options.cases.is_empty() => cases.truncate(CASES_OF_PAPER),
            Some(case) => bail!("{case} takes no virtual time: leave out --sim"),
            None => {}
        }
    }
    Ok(cases)
}

/// The kinds of copies and diffs that are measured, as arguments of a program. In virtual time they
/// are those of \[BST97\] unless others are asked for.
fn kinds(options: &Options) -> Result<Vec<Vec<String>>> {
    let words = |copies: &str, diffs: &str| {
        ["--copies", copies, "--diffs", diffs].map(str::to_owned).to_vec()
    };
    if options.both {
        ensure!(
            options.copies.is_empty() && options.diffs.is_empty(),
            "--both says which copies and diffs there are: leave out --copies and --diffs"
        );
        return Ok([OLD, NEW].map(|(copies, diffs)| words(copies.name(), diffs.name())).to_vec());
    }
    let (copies, diffs) = match options.setting.sim {
        Some(_) => OLD,
        None => NEW,
    };
    let or = |asked: &[String], usual: &str| match asked {
        [] => vec![usual.to_owned()],
        asked => asked.to_vec(),
    };
    let mut kinds = Vec::new();
    for copies in or(&options.copies, copies.name()) {
        copies.parse::<Copies>()?;
        for diffs in or(&options.diffs, diffs.name()) {
            diffs.parse::<Diffs>()?;
            kinds.push(words(&copies, &diffs));
        }
    }
    Ok(kinds)
}

/// What a program is told if nothing else is asked for.
fn usual(options: &Options, case: &str) -> Vec<String> {
    match &options.setting.sim {
        Some(machine) => virtual_work(case, &machine.profile),
        None if options.published => published_iterations(case),
        None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use farside::sim::Profile;

    use super::*;
    use crate::driver::Plan as _;
    use crate::machine::Machine;
    use crate::record::Record;

    fn setting() -> Setting {
        let machine =
            Machine { profile: Profile::load("ibm-sp").unwrap(), topology: None, seed: 1 };
        Setting {
            nodes: None,
            link: None,
            servers: Vec::new(),
            provider: None,
            ranks: vec![32],
            against: Vec::new(),
            time: Duration::from_millis(1),
            rounds: 1,
            program: "none".into(),
            sim: Some(machine),
            build_directory: "none".into(),
            progress: false,
        }
    }

    fn options() -> Options {
        Options {
            setting: setting(),
            cases: vec!["jacobi".into()],
            barriers: Vec::new(),
            starts: vec!["zero".into()],
            access: None,
            copies: Vec::new(),
            diffs: Vec::new(),
            both: false,
            fetch: "get".into(),
            size: None,
            published: false,
            iterations: Some(3),
        }
    }

    #[test]
    fn a_plan_survives_the_command_line() {
        let words = ["--barrier", "tree", "--start", "zero"].map(str::to_owned).to_vec();
        let plan = Plan::new("sor", words, true, false).unwrap();
        let json = serde_json::to_string(&plan).unwrap();
        let read: Plan = driver::plan(&[json]).unwrap();
        assert_eq!(read.label(), plan.label());
        assert!(read.verify);
        assert!(Plan::new("swim", Vec::new(), true, false).is_err());
    }

    #[test]
    fn the_programs_of_the_paper_are_those_of_virtual_time() {
        let of = |sim, cases: &[&str]| {
            let setting = Setting { sim, ..setting() };
            let names = cases.iter().map(|&case| case.to_owned()).collect();
            super::cases(&Options { setting, cases: names, ..options() })
        };
        let machine = || setting().sim;
        assert_eq!(of(machine(), &[]).unwrap(), ["fft3d", "barnes", "sor", "jacobi"]);
        assert_eq!(of(machine(), &["tsp"]).unwrap(), ["tsp"]);
        assert_eq!(of(None, &[]).unwrap(), CASES);
    }

    #[test]
    fn programs_make_the_iterations_of_the_paper_where_it_is_judged() {
        let count = |sim: bool, published: bool, case: &str| {
            let sim = setting().sim.filter(|_| sim);
            let options = Options { setting: Setting { sim, ..setting() }, published, ..options() };
            let plan = Plan::new(case, usual(&options, case), true, published).unwrap();
            plan.options().unwrap().iterations
        };
        for (case, published) in [("fft3d", 6), ("barnes", 6), ("sor", 10), ("jacobi", 10)] {
            assert_eq!(
                (count(true, false, case), count(false, true, case)),
                (published, published)
            );
            assert!(count(false, false, case) > 10 * published, "{case}");
        }
    }

    #[test]
    fn both_barriers_are_measured_and_what_is_sent_again_is_counted() {
        let records = run(&options()).unwrap().records;
        let of = |barrier: &str, name: &str| {
            let is = |record: &&Record| record.attribute("barrier") == Some(barrier.into());
            records.iter().find(is).and_then(|record| record.number(name)).unwrap()
        };
        for barrier in ["tree", "central"] {
            assert!(of(barrier, "barrier_ns") > 0.0);
            assert!(of(barrier, "check_in_retransmitted") <= of(barrier, "retransmitted"));
            assert_eq!(of(barrier, "cold_misses"), 0.0);
        }
    }

    #[test]
    fn the_old_way_stands_beside_the_new_one_in_one_table() {
        let barriers = vec!["tree".into()];
        let records = run(&Options { both: true, barriers, ..options() }).unwrap().records;
        let kinds: Vec<_> = records
            .iter()
            .map(|record| ["copies", "diffs"].map(|name| record.attribute(name)))
            .collect();
        let kind = |copies: &str, diffs: &str| [Some(copies.into()), Some(diffs.into())];
        assert_eq!(kinds, [kind("rank", "eager"), kind("node", "on-demand")]);
        let table = tables(&records);
        let twins = records.iter().map(|record| record.number("twins").unwrap());
        let twins: Vec<String> = twins.map(|count| format!("{count:.0}")).collect();
        assert_ne!(twins[0], twins[1]);
        assert!(table.contains(&twins.join(" → ")), "{table}");
        let one = Options { both: true, copies: vec!["rank".into()], ..options() };
        assert!(run(&one).err().is_some_and(|error| error.to_string().contains("--both")));
    }

    #[test]
    fn every_round_is_another_run_and_times_of_barriers_are_means() {
        let mean = |seed: u64, rounds: u32| {
            let machine =
                Machine { profile: Profile::load("ibm-sp").unwrap(), topology: None, seed };
            let setting = Setting { rounds, ranks: vec![16], sim: Some(machine), ..setting() };
            let options = Options { setting, barriers: vec!["tree".into()], ..options() };
            let records = run(&options).unwrap().records;
            records[0].number("barrier_ns").unwrap()
        };
        let (first, second, both) = (mean(1, 1), mean(2, 1), mean(1, 2));
        assert_ne!(first, second);
        assert!((both - (first + second) / 2.0).abs() < 1.0, "{first} {second} {both}");
    }
}
