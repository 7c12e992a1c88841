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
use clap::Args;
use farside::World;
use farside::dsm::{Access, BarrierKind, Config, Copies, Diffs, Fetch, Start};
use farside::fabric::SegmentId;
use farside::fabric::observed::Kind;
use farside::sim::{Resent, Timing};
use farside_apps::shared::{self, Program, published_iterations, virtual_work};
use serde::{Deserialize, Serialize};

use crate::driver::{self, AtRanks, Bench, Fold, Jobs, Layout, SLACK, Setting};
use crate::record::Record;
use crate::report::Plot;

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
}

/// What the command line asks for.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  farside bench dsm --ranks 2,4,8\n  farside bench dsm --nodes \
                  2,4,8\n  farside bench dsm --sim ethernet-now --ranks 8 --start original,zero\n  \
                  farside bench dsm --sim ibm-sp --ranks 32 --cases fft3d,sor,jacobi --start \
                  original\n  farside bench dsm --sim ibm-sp --ranks 16,64,256,1024 --cases \
                  sor,jacobi --start zero --iterations 2"
)]
pub struct Options {
    /// Which programs: fft3d, barnes, sor, jacobi, tsp, barnes-zones, interval,
    /// interval-written (open pages, as many as --size says); all by default, and the first
    /// four in virtual time
    #[arg(long, value_delimiter = ',', value_name = "CASE,…")]
    cases: Vec<String>,
    /// Which barriers: central, tree; both by default
    #[arg(long, value_delimiter = ',', value_name = "BARRIER,…")]
    barrier: Vec<String>,
    /// Which starts: original, zero, zero-invalid; the first two by default
    #[arg(long, value_delimiter = ',', value_name = "START,…")]
    start: Vec<String>,
    /// Which front end: pager, protect, userfault, explicit; the pager by default, and explicit in
    /// virtual time
    #[arg(long, value_name = "ACCESS")]
    access: Option<String>,
    /// Which ranks share a copy: node, rank; those of a node by default, and each has its own in
    /// virtual time
    #[arg(long, value_delimiter = ',', value_name = "COPIES,…")]
    copies: Vec<String>,
    /// When diffs are made: on-demand, eager; on demand by default, and eagerly in virtual time
    #[arg(long, value_delimiter = ',', value_name = "DIFFS,…")]
    diffs: Vec<String>,
    /// A copy for each rank and eager diffs, as in [BST97], beside one copy for a node and diffs on
    /// demand, in one table
    #[arg(long)]
    both: bool,
    /// How eager diffs of a copy per rank are fetched: get, call
    #[arg(long, default_value = "get", value_name = "WAY")]
    fetch: String,
    /// How large the problem is instead of as in the paper, such as 2000x1000; for one program
    #[arg(long, value_name = "SIZE")]
    size: Option<String>,
    /// Measures as in [BST97], and as in virtual time: the iterations of the paper, and the whole
    /// program with its allocations and first values; without a base
    #[arg(long, conflicts_with = "iterations")]
    published: bool,
    /// How many iterations instead of the usual ones
    #[arg(long, value_name = "N")]
    iterations: Option<usize>,
}

impl Bench for Options {
    type Plan = Plan;

    const RANKS: Option<&'static str> = None;
    const RANKS_HELP: &'static str =
        "At how many ranks; by default 2, 4 and 8, or one on each node";
    const TAKES_SEVERAL_NODES: bool = true;

    fn jobs(&self, setting: &mut Setting) -> Result<Jobs<Plan>> {
        setting.check(1)?;
        setting.check_one_server()?;
        ensure!(setting.against.is_empty(), "no rival has shared pages: leave out --against");
        let cases = cases(self, setting)?;
        for barrier in &self.barrier {
            barrier.parse::<BarrierKind>()?;
        }
        for start in &self.start {
            start.parse::<Start>()?;
        }
        let barriers = driver::choose(
            &self.barrier,
            &BarrierKind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>(),
        )?;
        let starts = match &self.start[..] {
            [] => [Start::Original, Start::Zero].map(|start| start.name().to_owned()).to_vec(),
            asked => asked.to_vec(),
        };
        self.fetch.parse::<Fetch>()?;
        let mut further = vec!["--fetch".to_owned(), self.fetch.clone()];
        if let Some(access) = &self.access {
            access.parse::<Access>()?;
            further.extend(["--access".to_owned(), access.clone()]);
        }
        if let Some(size) = &self.size {
            ensure!(
                cases.len() == 1,
                "--size {size} is the size of one program, and not of {}: name one with --cases",
                cases.join(", ")
            );
            further.extend(["--size".to_owned(), size.clone()]);
        }
        if let Some(iterations) = self.iterations {
            further.extend(["--iterations".to_owned(), iterations.to_string()]);
        }
        let verify = setting.sim.is_none();
        let whole = self.published || !verify;
        let kinds = kinds(self, setting)?;
        let mut plans = Vec::new();
        for case in &cases {
            for start in &starts {
                for barrier in &barriers {
                    for kind in &kinds {
                        let words = ["--barrier", barrier, "--start", start].map(str::to_owned);
                        let usual = usual(self, setting, case);
                        // What was asked for comes later, and counts.
                        let words = [&words[..], kind, &usual, &further].concat();
                        plans.push(Plan::new(case, words, verify, whole)?);
                    }
                }
            }
        }
        let at_all = setting
            .ranks
            .iter()
            .flat_map(|&ranks| plans.iter().map(move |plan| AtRanks { ranks, plan: plan.clone() }));
        Ok(Jobs { plans: at_all.collect(), left_out: Vec::new() })
    }

    fn table(records: &[Record]) -> String {
        report::table(records)
    }

    fn plots(records: &[Record]) -> Vec<Plot> {
        report::plots(records)
    }
}

fn cases(options: &Options, setting: &Setting) -> Result<Vec<String>> {
    let mut cases = driver::choose(&options.cases, &CASES)?;
    if setting.sim.is_some() {
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
fn kinds(options: &Options, setting: &Setting) -> Result<Vec<Vec<String>>> {
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
    let (copies, diffs) = match setting.sim {
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
fn usual(options: &Options, setting: &Setting, case: &str) -> Vec<String> {
    match &setting.sim {
        Some(machine) => virtual_work(case, &machine.profile),
        None if options.published => published_iterations(case),
        None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{asked_of, records_of};

    const QUICK: &str = "dsm --sim ibm-sp --cases jacobi --start zero --iterations 3 --time 1 \
                         --rounds 1";

    fn asked(line: &str) -> (Options, Setting) {
        let words = ["dsm", "--ranks", "32"].into_iter().chain(line.split_whitespace());
        asked_of::<Options>(words)
    }

    #[test]
    fn a_program_that_there_is_not_has_no_plan() {
        assert!(Plan::new("sor", Vec::new(), true, false).is_ok());
        assert!(Plan::new("swim", Vec::new(), true, false).is_err());
    }

    #[test]
    fn the_programs_of_the_paper_are_those_of_virtual_time() {
        let of = |line: &str| {
            let (options, setting) = asked(line);
            super::cases(&options, &setting).unwrap()
        };
        assert_eq!(of("--sim ibm-sp"), ["fft3d", "barnes", "sor", "jacobi"]);
        assert_eq!(of("--sim ibm-sp --cases tsp"), ["tsp"]);
        assert_eq!(of(""), CASES);
    }

    #[test]
    fn programs_make_the_iterations_of_the_paper_where_it_is_judged() {
        let count = |line: &str, case: &str| {
            let (options, setting) = asked(line);
            let words = usual(&options, &setting, case);
            Plan::new(case, words, true, options.published).unwrap().options().unwrap().iterations
        };
        for (case, published) in [("fft3d", 6), ("barnes", 6), ("sor", 10), ("jacobi", 10)] {
            let counts = (count("--sim ibm-sp", case), count("--published", case));
            assert_eq!(counts, (published, published));
            assert!(count("", case) > 10 * published, "{case}");
        }
    }

    #[test]
    fn both_barriers_are_measured_and_what_is_sent_again_is_counted() {
        let records = records_of(&format!("{QUICK} --ranks 32"));
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
        let records = records_of(&format!("{QUICK} --ranks 32 --both --barrier tree"));
        let kinds: Vec<_> = records
            .iter()
            .map(|record| ["copies", "diffs"].map(|name| record.attribute(name)))
            .collect();
        let kind = |copies: &str, diffs: &str| [Some(copies.into()), Some(diffs.into())];
        assert_eq!(kinds, [kind("rank", "eager"), kind("node", "on-demand")]);
        let table = report::table(&records);
        let twins = records.iter().map(|record| record.number("twins").unwrap());
        let twins: Vec<String> = twins.map(|count| format!("{count:.0}")).collect();
        assert_ne!(twins[0], twins[1]);
        assert!(table.contains(&twins.join(" → ")), "{table}");
        let (options, mut setting) = asked("--sim ibm-sp --both --copies rank");
        let error = options.jobs(&mut setting).unwrap_err();
        assert!(error.to_string().contains("--both"), "{error}");
    }

    #[test]
    fn every_round_is_another_run_and_times_of_barriers_are_means() {
        let mean = |seed: u64, rounds: u32| {
            let quick = QUICK.replace("--rounds 1", &format!("--rounds {rounds} --seed {seed}"));
            let records = records_of(&format!("{quick} --ranks 16 --barrier tree"));
            records[0].number("barrier_ns").unwrap()
        };
        let (first, second, both) = (mean(1, 1), mean(2, 1), mean(1, 2));
        assert_ne!(first, second);
        assert!((both - (first + second) / 2.0).abs() < 1.0, "{first} {second} {both}");
    }
}
