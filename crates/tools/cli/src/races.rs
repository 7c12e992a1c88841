//! The options of a job that is checked for races, and what is told at its end.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use farside_races::{Checker, NOTHING_CHECKED, STATUS, Suppressions};

/// The options of a job that is checked for races.
#[derive(Args, Clone)]
pub(crate) struct Races {
    /// Look for races: accesses to shared memory that nothing orders, whether or not they went
    /// wrong in this run
    ///
    /// With --races=fail the operation that finds a race fails, and with it the job. The exit
    /// status of a job that succeeds but has races is 66, and 67 if nothing could be checked.
    /// See docs/races.md, which is installed under share/doc/farside.
    #[arg(long, value_name = "fail", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "report", value_parser = ["report", "fail"])]
    races: Option<String>,
    /// With --races, leave out races that this file names: lines PLACE REASON
    #[arg(long, value_name = "FILE", requires = "races")]
    races_suppress: Option<PathBuf>,
    /// With --races, write the report as JSON, a line for each race, on standard error
    #[arg(long, requires = "races")]
    json: bool,
}

impl Races {
    /// Makes the checker, if one is asked for.
    pub(crate) fn checker(&self, ranks: u32) -> Result<Option<Arc<Checker>>> {
        let Some(races) = &self.races else { return Ok(None) };
        self.suppressions()?;
        Ok(Some(Checker::create(ranks, races == "fail")?))
    }

    fn suppressions(&self) -> Result<Suppressions> {
        let Some(path) = &self.races_suppress else { return Ok(Suppressions::default()) };
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        match Suppressions::parse(&text) {
            Ok(suppressions) => Ok(suppressions),
            Err(error) => bail!("{}: {error}", path.display()),
        }
    }

    /// Tells what was found; returns the exit status of the job.
    pub(crate) fn tell(&self, checker: Option<&Checker>, status: i32) -> Result<i32> {
        let Some(checker) = checker else { return Ok(status) };
        let mut report = checker.report();
        report.resolve(farside_inspect::line_of);
        report.suppress(&self.suppressions()?);
        let text = if self.json { report.json() } else { report.to_string() };
        eprint!("{text}");
        match status {
            0 if !report.races.is_empty() => Ok(STATUS.into()),
            0 if report.nothing_checked().is_some() => Ok(NOTHING_CHECKED.into()),
            status => Ok(status),
        }
    }
}
