//! `farside check PROGRAM`: a program of the user explores its own schedules.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

use anyhow::{Context as _, Result, bail, ensure};
use farside_job::{ENTRY, Entry, Explored, ReportFile, RunAs};
use signal_hook::consts::SIGINT;
use signal_hook::iterator::Signals;

use super::Arguments;

/// The program that is meant, if the first word is the path of a file and not the name of a check.
pub(super) fn named(words: &[String]) -> Option<PathBuf> {
    let first = words.first()?;
    let is_check = farside_check::select(farside_check::checks(), &[first]).is_ok();
    let path = Path::new(first);
    (!is_check && (path.is_file() || path.is_absolute() || first.starts_with("./")))
        .then(|| path.to_owned())
}

/// Runs a command to its end. What interrupts this process interrupts that one, and what it has
/// told until then is not lost.
fn run(command: &mut Command) -> std::io::Result<ExitStatus> {
    let mut signals = Signals::new([SIGINT])?;
    let (handle, mut child) = (signals.handle(), command.spawn()?);
    let pid = rustix::process::Pid::from_child(&child);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in signals.forever() {
                // It may have ended, or got the signal from the terminal.
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
            }
        });
        let status = child.wait();
        handle.close();
        status
    })
}

/// Has a program explore itself.
pub(super) fn explore(program: &Path, arguments: &Arguments) -> Result<ExitCode> {
    ensure!(
        !arguments.list && !arguments.mutants && arguments.rounds.is_none(),
        "--list, --mutants and --rounds are for protocols, not for programs"
    );
    let mut report = ReportFile::create()?;
    let run_as = RunAs::Explored(Explored {
        names: arguments.protocols[1..].to_vec(),
        ranks: arguments.ranks,
        topology: arguments.topology.clone(),
        policy: arguments.policy.map(|policy| policy.to_string()),
        seed: Some(arguments.seed),
        schedules: arguments.schedules,
        budget_ms: arguments.budget.map(|budget| budget.as_millis() as u64),
        deaths: arguments.deaths,
        slow_news: arguments.slow_news,
        torn: arguments.torn,
        ignores_races: arguments.no_races,
        fails_on_bounded: arguments.fail_on_bounded,
        replay: arguments.replay.clone(),
    });
    let entry = Entry { run_as, records: false, report: report.path() };
    // A file in this directory is meant, and not one on the path.
    let path = std::path::absolute(program)
        .with_context(|| format!("cannot find {}", program.display()))?;
    let mut command = Command::new(path);
    command.args(&arguments.arguments).env(ENTRY, entry.encode()?);
    let status = run(&mut command).with_context(|| format!("cannot run {}", program.display()))?;
    let report = report.read()?;
    if status.signal() == Some(SIGINT) {
        let progress = report.progress.as_deref().unwrap_or("nothing was tried");
        writeln!(
            std::io::stdout(),
            "{progress}: interrupted; no failure so far, and the rest is unknown"
        )?;
        return Ok(ExitCode::from(128 + SIGINT as u8));
    }
    if !report.taken {
        bail!(
            "{} ignored `farside check`: its main function must be `#[farside::main] fn \
             main(world: &World)`, or the program must list functions with \
             `farside::check::main!`; `farside check --list` lists the protocols",
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
