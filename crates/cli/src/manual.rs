//! Manual pages and completions, from the definitions that the command line is parsed with.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

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
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command(), "farside", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn write(arguments: &Man) -> Result<ExitCode> {
    let Some(directory) = &arguments.directory else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command()).render(&mut page)?;
        std::io::stdout().write_all(&page)?;
        return Ok(ExitCode::SUCCESS);
    };
    let failed = || format!("cannot write manual pages into {}", directory.display());
    std::fs::create_dir_all(directory).with_context(failed)?;
    clap_mangen::generate_to(command(), directory).with_context(failed)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the definition of the command line without its hidden commands.
fn command() -> clap::Command {
    let whole = crate::Arguments::command();
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
