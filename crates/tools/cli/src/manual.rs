//! Manual pages and completions, from the definitions that the command line is parsed with.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, CommandFactory as _};
use clap_complete::Shell;
use farside_command::{Beside, complain, pages, write_pages};

use crate::BESIDE;

/// The arguments of `farside completions`.
#[derive(Args)]
pub(crate) struct Completions {
    /// The shell that is to complete words
    #[arg(value_enum)]
    shell: Shell,
}

/// The arguments of `farside man`.
#[derive(Args)]
pub(crate) struct Man {
    /// Write farside.1, farside-run.1 and so on here, instead of printing the first; the directory
    /// is made if it does not exist
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

pub(crate) fn complete(arguments: &Completions) -> Result<ExitCode> {
    let mut whole = command();
    for name in BESIDE {
        match Beside::of(name).definition() {
            // clap replaces what it has, and keeps its place.
            Ok(definition) => whole = whole.mut_subcommand(name, |_| definition),
            Err(error) => complain(&format!("cannot complete `farside {name}`: {error:#}")),
        }
    }
    farside_command::complete(whole, "farside", arguments.shell)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn write(arguments: &Man) -> Result<ExitCode> {
    let Some(directory) = &arguments.directory else {
        pages(command())?;
        return Ok(ExitCode::SUCCESS);
    };
    write_pages(command(), directory)?;
    for name in BESIDE {
        if let Err(error) = Beside::of(name).write_pages(directory) {
            complain(&format!("cannot write the manual page of `farside {name}`: {error:#}"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the definition of the command line without its hidden commands.
fn command() -> clap::Command {
    let whole = crate::app::with_programs(crate::Arguments::command());
    let hidden: Vec<String> = whole
        .get_subcommands()
        .filter(|command| command.is_hide_set())
        .map(|command| command.get_name().to_owned())
        .collect();
    // clap cannot take a command out again, so the others are put into a new one.
    let shown: Vec<clap::Command> = whole
        .get_subcommands()
        .filter(|command| !hidden.iter().any(|name| name == command.get_name()))
        .cloned()
        .collect();
    let about = whole.get_about().cloned().unwrap_or_default();
    clap::Command::new("farside")
        .version(env!("CARGO_PKG_VERSION"))
        .about(about)
        .arg_required_else_help(true)
        .subcommand_required(true)
        .subcommands(shown)
}
