//! `farside bench shmem`: OpenSHMEM programs in C, compiled with farside's library and with Open
//! MPI's, in one run.
//!
//! Single operations and collectives are one job, each program is a job of its own. A sample of a
//! single operation is the median over batches, that of a program its time as a whole.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use farside::World;
use serde::{Deserialize, Serialize};

use crate::driver::{self, AtRanks, Bench, FARSIDE, Fold, Jobs, Layout, SLACK, Setting};
use crate::plot::{Axis, Chart, Scale, Unit};
use crate::record::Record;
use crate::report::{Plot, curves, machine, of_case, time};
use crate::rivals::{self, Rival};
use crate::table::{grouped, table, times};

/// The compiler of OpenSHMEM programs that is installed with farside.
const COMPILER: &str = "farside-oshcc";
/// The cases that are programs, each a job of its own.
const PROGRAMS: [&str; 4] = ["gups", "gups_getput", "isx", "stencil"];
/// All cases.
pub const CASES: [&str; 21] = [
    "put",
    "p",
    "get",
    "g",
    "fetch_add",
    "fetch_add_static",
    "compare_swap",
    "add",
    "put_nbi",
    PUT_SIGNAL,
    "wait_until",
    "barrier_all",
    "lock",
    "reduce",
    "alltoall",
    "broadcast",
    "fcollect",
    "gups",
    "gups_getput",
    "isx",
    "stencil",
];
/// A put and a signal in one call, which not every rival has.
const PUT_SIGNAL: &str = "put_signal";

/// What one job of one system measures.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    /// For how long each case that is no program.
    time: Duration,
    cases: Vec<String>,
}

impl driver::Plan for Plan {
    const BENCH: &'static str = "shmem";
    const LAYOUT: Layout = Layout {
        cases: &CASES,
        attributes: &["words"],
        figures: &[("median_ns", Fold::Median), ("per_s", Fold::Median)],
    };

    fn arguments(&self) -> Vec<String> {
        vec![self.time.as_millis().to_string(), self.cases.join(",")]
    }

    fn program(setting: &Setting) -> Result<Option<PathBuf>> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let compiler = find_compiler(&setting.program, &path)?;
        let program = setting.build_directory.join(format!("shmem-{FARSIDE}"));
        let missing = format!("cannot start {}", compiler.display());
        rivals::compile(&compiler, &missing, "shmem_shmem.c", &[], &program)?;
        Ok(Some(program))
    }

    fn deadline(&self) -> Duration {
        // A program of a few seconds may take a minute on a busy machine.
        (self.time * 2 + SLACK) * self.cases.len() as u32 + SLACK
    }

    fn label(&self) -> String {
        match &self.cases[..] {
            [case] => format!(", {case}"),
            _ => String::new(),
        }
    }

    fn run(&self, _: &World) -> farside::Result<Vec<String>> {
        Err(farside::Error::Program("`bench shmem` measures programs in C only".into()))
    }

    fn rivals() -> &'static [Rival] {
        &[Rival::OpenShmem]
    }
}

/// Finds the compiler of OpenSHMEM programs: beside the running program, then in the directories of
/// `path`.
fn find_compiler(program: &Path, path: &OsStr) -> Result<PathBuf> {
    let beside = program.parent().map(Path::to_owned);
    let mut directories = beside.into_iter().chain(std::env::split_paths(path));
    let found = directories.find_map(|directory| {
        let compiler = directory.join(COMPILER);
        compiler.is_file().then_some(compiler)
    });
    found.with_context(|| {
        format!(
            "{COMPILER} is neither beside {} nor in PATH; `cargo xtask install --prefix DIR` \
             installs it: run DIR/bin/farside, or add DIR/bin to PATH",
            program.display()
        )
    })
}

/// What the command line asks for.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  farside bench shmem --ranks 2,16 --json shmem.json\n  farside bench \
                  shmem --cases gups,isx,stencil --rounds 3\n  farside bench shmem --nodes 2 \
                  --cases put,get,fetch_add"
)]
pub struct Options {
    /// Which cases: put, p, get, g, fetch_add, fetch_add_static, compare_swap, add, put_nbi,
    /// put_signal, wait_until, barrier_all, lock, reduce, alltoall, broadcast, fcollect, and the
    /// programs gups, gups_getput, isx, stencil; all by default
    #[arg(long, value_delimiter = ',', value_name = "CASE,…")]
    cases: Vec<String>,
    /// Measure farside's library only, as is done with --nodes
    #[arg(long, conflicts_with = "against")]
    alone: bool,
}

impl Bench for Options {
    type Plan = Plan;

    const RANKS: Option<&'static str> = Some("2,16");
    const RANKS_HELP: &'static str = "At how many ranks (PEs)";
    const TIME_MS: u64 = 100;

    fn jobs(&self, setting: &mut Setting) -> Result<Jobs<Plan>> {
        ensure!(
            setting.sim.is_none(),
            "programs in C do not run in virtual time: leave out --sim; --nodes K measures over UDP"
        );
        if setting.against.is_empty() && !self.alone && setting.nodes.is_none() {
            setting.against.push(Rival::OpenShmem);
        }
        setting.check(2)?;
        let cases = driver::choose(&self.cases, &CASES)?;
        let plans = setting.ranks.iter().flat_map(|&ranks| plans(setting.time, &cases, ranks));
        Ok(Jobs { plans: plans.collect(), left_out: Vec::new() })
    }

    /// The time of each case in each system, how many times as long the rival takes as farside, and
    /// within which bounds that was in all rounds.
    fn table(records: &[Record]) -> String {
        let rival_name = Rival::OpenShmem.name();
        let has_rival = records.iter().any(|record| record.system != FARSIDE);
        let ns =
            |record: Option<&Record>, name: &str| record.and_then(|record| record.number(name));
        let time = |record: Option<&Record>| {
            ns(record, "median_ns").map_or("-".into(), |ns| Unit::Ns.format(ns))
        };
        let row = |(own, rival): (Option<&Record>, Option<&Record>)| {
            let over = |of: &str, by: &str| Some(times(ns(rival, of)? / ns(own, by)?));
            // The smallest and the largest ratio that any two rounds have.
            let bounds = || {
                let (least, most) = (over("min_ns", "max_ns")?, over("max_ns", "min_ns")?);
                Some(format!("{} - {}", least.trim_end_matches('x'), most.trim_end_matches('x')))
            };
            let first = own.or(rival)?;
            let mut row = vec![first.ranks.to_string(), label(first), time(own)];
            if has_rival {
                let ratio = over("median_ns", "median_ns").unwrap_or("-".into());
                row.extend([time(rival), ratio, bounds().unwrap_or("-".into())]);
            }
            Some(row)
        };
        let mut header = vec!["ranks", "case", FARSIDE];
        header.extend([rival_name, "ratio", "from - to"].into_iter().filter(|_| has_rival));
        let mut lines = vec![
            machine(),
            table(2, &header, pairs(records).into_iter().filter_map(row)),
            "a number behind a case: words of each PE".into(),
        ];
        if has_rival {
            lines.push(format!(
                "ratio: {rival_name} (Open MPI's) over farside; above 1, farside is faster\n\
                 from - to: the smallest and the largest ratio of any two rounds"
            ));
            if records.iter().any(|record| record.case == PUT_SIGNAL) {
                lines.push(format!(
                    "{PUT_SIGNAL}: Open MPI 4.1 has none; it does put, fence, atomic_set"
                ));
            }
        }
        lines.join("\n")
    }

    fn plots(records: &[Record]) -> Vec<Plot> {
        let name = |record: &Record| match record.number("words") {
            Some(words) if words > 1.0 => format!("{}, {words} words", record.system),
            _ => record.system.clone(),
        };
        let plot = |case: &&str| {
            let what = if PROGRAMS.contains(case) { "the whole program" } else { "one operation" };
            let chart = Chart {
                title: format!("OpenSHMEM: {case}"),
                subtitle: "lower is better".into(),
                x: Axis::new("PEs", Scale::Log2, Unit::Count),
                y: time(&format!("time of {what}")),
                series: curves(of_case(records, case), name, ("ranks", "median_ns")),
            };
            Plot::of_curves(case, format!("shmem-{case}.svg"), &chart)
        };
        CASES.iter().filter_map(plot).collect()
    }
}

/// Our record and the rival's of each case at each number of ranks. Several servers of far memory
/// are several rows.
fn pairs(records: &[Record]) -> Vec<(Option<&Record>, Option<&Record>)> {
    let key = |record: &Record| (record.ranks, record.case.clone(), record.attribute("words"));
    let groups = grouped(records, key).into_iter();
    let pairs = groups.flat_map(|(_, of)| {
        let (own, rivals): (Vec<_>, Vec<_>) = of.into_iter().partition(|it| it.system == FARSIDE);
        let first = (own.first().copied(), rivals.last().copied());
        std::iter::once(first).chain(own.into_iter().skip(1).map(|own| (Some(own), None)))
    });
    pairs.collect()
}

/// The case, and on how many words where those are several.
fn label(record: &Record) -> String {
    match record.number("words") {
        Some(words) if words > 1.0 => format!("{}, {words}", record.case),
        _ => record.case.clone(),
    }
}

/// Divides the cases into jobs: all that are no programs, and each program.
fn plans(time: Duration, cases: &[String], ranks: u32) -> Vec<AtRanks<Plan>> {
    let (programs, operations): (Vec<String>, Vec<String>) =
        cases.iter().cloned().partition(|case| PROGRAMS.contains(&case.as_str()));
    let jobs = std::iter::once(operations).chain(programs.into_iter().map(|case| vec![case]));
    let jobs = jobs.filter(|cases| !cases.is_empty());
    jobs.map(|cases| AtRanks { ranks, plan: Plan { time, cases } }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Plan as _;

    fn texts(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    #[test]
    fn each_program_is_a_job_of_its_own() {
        let time = Duration::from_millis(50);
        let jobs = plans(time, &texts(&["put", "isx", "lock", "gups"]), 16);
        let arguments: Vec<Vec<String>> = jobs.iter().map(|job| job.plan.arguments()).collect();
        assert_eq!(arguments, [["50", "put,lock"], ["50", "isx"], ["50", "gups"]]);
        assert_eq!(jobs[1].plan.label(), ", isx");
        assert!(jobs.iter().all(|job| job.ranks == 16));
        assert_eq!(plans(time, &texts(&["stencil"]), 2).len(), 1);
        assert!(PROGRAMS.iter().all(|program| CASES.contains(program)));
    }

    #[test]
    fn every_case_is_one_of_the_program_in_c() {
        let source = include_str!("../rivals/shmem_shmem.c");
        for case in CASES {
            assert!(source.contains(&format!("{{\"{case}\", case_{case}}}")), "{case}");
        }
        assert_eq!(source.matches(", case_").count(), CASES.len());
    }

    #[test]
    fn the_compiler_is_looked_for_beside_the_command_and_then_in_the_path() {
        let scratch = tempfile::tempdir().unwrap();
        let (beside, elsewhere) = (scratch.path().join("beside"), scratch.path().join("elsewhere"));
        for place in [&beside, &elsewhere] {
            std::fs::create_dir_all(place).unwrap();
        }
        let find = || find_compiler(&beside.join("farside"), elsewhere.as_os_str());
        let error = find().unwrap_err().to_string();
        assert!(error.contains(COMPILER) && error.contains("cargo xtask install --prefix DIR"));
        for place in [&elsewhere, &beside] {
            std::fs::write(place.join(COMPILER), "").unwrap();
            assert_eq!(find().unwrap(), place.join(COMPILER));
        }
    }

    fn of(system: &str, case: &str, words: Option<i64>, [min, median, max]: [f64; 3]) -> Record {
        let record = Record::new("shmem", case, system, "shm", 16, 1);
        let record = match words {
            Some(words) => record.with("words", words),
            None => record,
        };
        record.figure("median_ns", median).figure("min_ns", min).figure("max_ns", max)
    }

    #[test]
    fn a_table_has_both_systems_side_by_side_and_fits() {
        let records = [
            of(FARSIDE, "put_signal", Some(1), [190.0, 200.0, 250.0]),
            of("openshmem", "put_signal", Some(1), [500.0, 600.0, 760.0]),
            of(FARSIDE, "reduce", Some(8), [1e4, 2e4, 3e4]),
            of("openshmem", "reduce", Some(8), [123_456.7, 234_567.8, 345_678.9]),
            of(FARSIDE, "reduce", Some(4096), [2e5, 2e5, 2e5]),
            of(FARSIDE, "fetch_add_static", Some(1), [1e9, 123.4e6, 1e9]),
        ];
        let table = Options::table(&records);
        let line =
            |words: &[&str]| table.lines().any(|line| words.iter().all(|word| line.contains(word)));
        assert!(line(&["put_signal", "200 ns", "600 ns", "3.00x", "2.00 - 4.00 "]), "{table}");
        assert!(line(&["reduce, 8 ", "20 us", "11.7x", "4.12 - 34.6 "]), "{table}");
        assert!(line(&["reduce, 4096", "200 us", " - "]), "{table}");
        assert!(table.contains("put_signal: Open MPI 4.1 has none"), "{table}");
        assert!(table.lines().skip(1).all(|line| line.chars().count() <= 80), "{table}");
    }

    #[test]
    fn a_table_of_farside_alone_has_no_ratio() {
        let table = Options::table(&[of(FARSIDE, "isx", None, [1e9, 1e9, 1e9])]);
        assert!(table.contains("isx") && table.contains("1 s"), "{table}");
        assert!(!table.contains("ratio") && !table.contains("openshmem"), "{table}");
    }
}
