//! `farside bench shmem`: OpenSHMEM programs in C, compiled with farside's library and with Open
//! MPI's, in one run.
//!
//! Single operations and collectives are one job, each program is a job of its own. A sample of a
//! single operation is the median over batches, that of a program its time as a whole.

mod report;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use farside::World;
use serde::{Deserialize, Serialize};

use crate::driver::{self, AtRanks, FARSIDE, Findings, Fold, Layout, SLACK, Setting};
use crate::rivals::{self, Rival};

pub use report::{plot, tables};

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
    pub time: Duration,
    /// Which cases.
    pub cases: Vec<String>,
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

    fn for_rival(&self, _: Rival, _: bool) -> Option<Plan> {
        Some(self.clone())
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

/// What to measure, all in all.
#[derive(Debug, Clone)]
pub struct Options {
    /// What every bench is told.
    pub setting: Setting,
    /// Which cases; all if empty.
    pub cases: Vec<String>,
}

/// Measures.
pub fn run(options: &Options) -> Result<Findings> {
    let setting = &options.setting;
    ensure!(
        setting.sim.is_none(),
        "programs in C do not run in virtual time: leave out --sim; --nodes K measures over UDP"
    );
    setting.check(2)?;
    let cases = driver::choose(&options.cases, &CASES)?;
    let plans: Vec<AtRanks<Plan>> =
        setting.ranks.iter().flat_map(|&ranks| plans(setting.time, &cases, ranks)).collect();
    driver::run(setting, &plans, &[])
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
        let source = include_str!("../../rivals/shmem_shmem.c");
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
}
