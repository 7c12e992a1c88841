//! Starting a program as the ranks of a job.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use farside_job::ENTRY;
use farside_launch::{Hosts, Launch, Output, Service};
use farside_races::Checker;

use super::Job;
use crate::complain;
use crate::mode::Mode;

/// What is started as the ranks of a job.
pub(crate) struct Start {
    /// The name of the program, for messages and recordings.
    pub(crate) title: PathBuf,
    pub(crate) program: Program,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) mode: Mode,
}

/// The program that the ranks run.
pub(crate) enum Program {
    /// A program of the user's.
    Named(OsString),
    /// This program, wherever it is on their hosts.
    Own,
    /// A program beside this one, also on their hosts.
    Beside(PathBuf),
}

impl Job {
    /// Runs a program as the ranks of this job, as if it were this process.
    pub(crate) fn run(self, start: Start) -> Result<ExitCode> {
        let me = std::env::current_exe().context("cannot find the running program")?;
        let asked = start.mode.ask(&self)?;
        let recorder = start.mode.recorder()?;
        let is_own = !matches!(start.program, Program::Named(_));
        let program = match (start.program, &self.span.remote_farside) {
            (Program::Named(program), _) => program,
            (Program::Own, Some(there)) => there.into(),
            (Program::Own, None) => me.clone().into(),
            (Program::Beside(here), Some(there)) => {
                there.with_file_name(here.file_name().unwrap_or_default()).into()
            }
            (Program::Beside(here), None) => here.into(),
        };
        let checker = self.races.checker(self.ranks()?)?;
        let mut launch = if asked.is_some() {
            Launch::new(program, 1)?
        } else {
            let ranks = self.ranks()?;
            let hosts = self.span.hosts(self.ranks)?.map(|hosts| served(hosts, checker.clone()));
            let fabric = self.fabric(ranks, hosts.is_some())?;
            let launch =
                Launch::new(program, ranks)?.options(|options| self.describe(fabric, options));
            let launch = launch.options(|options| options.is_recorded = recorder.is_some());
            hosts.into_iter().fold(launch, Launch::hosts)
        };
        launch = launch
            .arguments(start.arguments)
            .output(Output::Forward { labels: self.label })
            .grace(self.grace)
            .keep_going(self.keep_going)
            .stuck_exit(self.stuck_exit)
            .stats(self.stats)
            .interactive()
            .reaper(me);
        for (name, value) in self.variables {
            launch = launch.variable(name, value);
        }
        if self.span.hosts.is_none()
            && let Some(path) = checker.as_ref().and_then(|checker| checker.path())
        {
            launch = launch.variable(farside_races::VARIABLE, path);
        }
        if let Some(asked) = &asked {
            launch = launch.variable(ENTRY, asked.entry.encode()?);
        }
        if let Some(directory) = self.directory {
            launch = launch.directory(directory);
        }
        if let Some(timeout) = self.timeout {
            launch = launch.timeout(timeout);
        }
        if let Some(address) = self.metrics {
            launch = launch.metrics(address);
        }
        if let Some(time) = self.stuck_after {
            launch = launch.stuck_after(time);
        }
        let report = launch.run()?;
        let status = report.status;
        if let Some(recorder) = recorder {
            let said = recorder.finish(&start.title, status, report.recording)?;
            said.iter().for_each(|line| complain(line));
        }
        if let Some(asked) = asked {
            tell(asked.finish(&start.title, status), status, is_own)?;
        }
        let status = self.races.tell(checker.as_deref(), status)?;
        Ok(ExitCode::from(u8::try_from(status).unwrap_or(1)))
    }
}

/// Hosts whose ranks ask the checker of races here, if there is one.
fn served(hosts: Hosts, checker: Option<Arc<Checker>>) -> Hosts {
    let answer = |checker: Arc<Checker>| move |request: &[u8]| checker.answer(request);
    let service = checker.map(|checker| Service::new(farside_races::VARIABLE, answer(checker)));
    service.into_iter().fold(hosts, Hosts::service)
}

/// Tells what a program that ran all ranks itself says of the run.
fn tell(summary: Result<Vec<String>>, status: i32, is_own: bool) -> Result<()> {
    let summary = match summary {
        // The program has failed by itself, with this status.
        Err(error) if status != 0 => {
            complain(&format!("{error:#}"));
            return Ok(());
        }
        summary => summary?,
    };
    for line in summary {
        // The standard output of a user's program is the program's alone.
        match is_own {
            true => writeln!(std::io::stdout(), "{line}")?,
            false => complain(&line),
        }
    }
    Ok(())
}
