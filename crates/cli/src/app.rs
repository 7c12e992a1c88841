//! `farside app`: runs a built-in program.

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Args;

use crate::job::Job;

/// Runs a built-in program as the ranks of a job.
#[derive(Args)]
#[command(after_help = list())]
pub(crate) struct Arguments {
    /// Its name
    name: String,
    #[command(flatten)]
    job: Job,
    /// Its arguments
    #[arg(last = true)]
    arguments: Vec<String>,
}

fn list() -> String {
    let line = |app: &farside_apps::App| format!("  {:10} {}", app.name, app.about);
    let lines: Vec<String> = farside_apps::APPS.iter().map(line).collect();
    format!("Programs:\n{}\n\nExample: farside app hello -n 4", lines.join("\n"))
}

pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    let app = farside_apps::app(&arguments.name)?;
    let me = std::env::current_exe().context("cannot find the running program")?;
    let words = ["__app", app.name].map(Into::into).into_iter().chain(arguments.arguments.into_iter().map(Into::into));
    arguments.job.run(me.into(), words.collect())
}

/// What a rank of such a job does.
pub(crate) fn rank(name: &str, arguments: &[String]) -> Result<ExitCode> {
    let app = farside_apps::app(name)?;
    let world = farside::join()?;
    (app.run)(&world, arguments).with_context(|| format!("{}: {name}", world.rank()))?;
    Ok(ExitCode::SUCCESS)
}
