//! `farside check PROGRAM`: a program of the user explores its own schedules.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail, ensure};
use farside_job::{ENTRY, Entry, Explored, ReportFile, RunAs};

use super::Arguments;

/// The program that is meant, if the first word is the path of a file and not the name of a check.
pub(super) fn named(words: &[String]) -> Option<PathBuf> {
    let first = words.first()?;
    let is_check = farside_check::select(farside_check::checks(), &[first]).is_ok();
    let path = Path::new(first);
    (!is_check && (path.is_file() || path.is_absolute() || first.starts_with("./")))
        .then(|| path.to_owned())
}

/// Has a program explore itself.
pub(super) fn explore(program: &Path, arguments: &Arguments) -> Result<ExitCode> {
    ensure!(
        !arguments.list && !arguments.mutants && arguments.rounds.is_none(),
        "--list, --mutants and --rounds are for protocols; a program says itself what it does"
    );
    ensure!(
        arguments.budget.is_none(),
        "--budget: how long a program is explored is a number of --schedules"
    );
    let mut report = ReportFile::create()?;
    let run_as = RunAs::Explored(Explored {
        names: arguments.protocols[1..].to_vec(),
        ranks: arguments.ranks,
        topology: arguments.topology.clone(),
        policy: arguments.policy.map(|policy| policy.to_string()),
        seed: Some(arguments.seed),
        schedules: arguments.schedules,
        deaths: arguments.deaths,
        torn: arguments.torn,
        ignores_races: arguments.no_races,
        fails_on_bounded: arguments.fail_on_bounded,
        replay: arguments.replay.clone(),
    });
    let entry = Entry { run_as, records: false, report: report.path() };
    // A file in this directory is meant, and not one on the path.
    let path = std::path::absolute(program)
        .with_context(|| format!("cannot find {}", program.display()))?;
    let status = Command::new(path)
        .args(&arguments.arguments)
        .env(ENTRY, entry.encode()?)
        .status()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let report = report.read()?;
    if !report.taken {
        bail!(
            "{} does not obey `farside check`: only programs do whose main function is \
             `#[farside::main] fn main(world: &World)`, or that list some with \
             `farside::check::main!`; protocols are listed by `farside check --list`",
            program.display()
        );
    }
    if let Some(path) = &arguments.json {
        let failed = || format!("cannot write {}", path.display());
        let mut file = File::create(path).with_context(failed)?;
        for line in &report.summary {
            writeln!(file, "{line}").with_context(failed)?;
        }
    }
    Ok(match status.code() {
        Some(0) => ExitCode::SUCCESS,
        Some(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        None => bail!("{} was ended: {status}", program.display()),
    })
}
