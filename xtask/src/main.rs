//! The chores of the workspace, run as `cargo xtask <command>`.
//!
//! `test` is the whole of what CI runs, so that a developer can run exactly the same; `quick` gives
//! a verdict on the crates that were changed; `tidy` checks the invariants of the workspace that no
//! compiler knows; `setup` provides what the tests need from outside of Rust; `install` builds and
//! installs everything, `mpi` the libraries that MPI programs preload, `deb` makes a Debian package
//! of it, and `header` writes the headers of the
//! C interface and of OpenSHMEM.

#![forbid(unsafe_code)]

mod deb;
mod install;
mod lanes;
mod outside;
mod process;
mod python;
mod quick;
mod setup;
mod shmem_header;
mod steps;
mod tidy;
mod works;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Parser, Subcommand};

use crate::install::Destination;
use crate::process::Runner;
use crate::setup::Install;
use crate::steps::Options;

/// How long one step may take unless the caller says otherwise: three times as long as the longest
/// takes on an idle machine with two processors, since a busy machine is no reason to fail. Every
/// test has a deadline of its own.
pub(crate) const STEP_MINUTES_MAX: u64 = 60;

/// The chores of the farside workspace.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// One chore.
#[derive(Subcommand)]
enum Command {
    /// Run every check that CI runs
    Test(Options),
    /// Check what was changed: format, invariants, lints, unit tests
    Quick(QuickArgs),
    /// Check the invariants of the workspace that no compiler knows
    Tidy,
    /// Provide the programs that the tests need from outside of Rust
    Setup,
    /// Write the headers of the C interface and of the OpenSHMEM library
    Header,
    /// Build and install the command, its manual pages and completions, and the C interface; below
    /// the directory that the variable DESTDIR names, if there is one
    Install(InstallArgs),
    /// Build the libraries that take over the one-sided calls of MPI programs, for each MPI whose
    /// headers are here
    Mpi(MpiArgs),
    /// Make a Debian package of what `install` installs, in target/debian
    Deb(DebArgs),
    /// Write the README's table of what works on which fabric, as the last tests found it
    Works,
}

/// What can be chosen about an installation.
#[derive(Args)]
struct InstallArgs {
    /// Install under this directory: bin, include, lib and share are made in it
    #[arg(long, value_name = "DIR")]
    prefix: PathBuf,
    /// Install what compiles faster, instead of what runs faster
    #[arg(long)]
    debug: bool,
}

/// What can be chosen about the libraries for MPI.
#[derive(Args)]
struct MpiArgs {
    /// Install under this directory, in lib, instead of target/mpi
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,
    /// Build what compiles faster, instead of what runs faster
    #[arg(long)]
    debug: bool,
}

/// What can be chosen about a package.
#[derive(Args)]
struct DebArgs {
    /// Package what compiles faster, instead of what runs faster, in target/debian/debug
    #[arg(long)]
    debug: bool,
}

/// What can be chosen about a quick check.
#[derive(Args)]
struct QuickArgs {
    /// Count what was changed since this commit, instead of since the branch left `main`
    #[arg(long, value_name = "COMMIT")]
    since: Option<String>,
    /// Stop after this time
    #[arg(long, value_name = "MINUTES", default_value_t = STEP_MINUTES_MAX)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=24 * 60))]
    deadline: u64,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<()> {
    let root = workspace_root()?;
    match &cli.command {
        Command::Test(options) => steps::run(&root, options),
        Command::Quick(arguments) => {
            quick::run(&root, arguments.since.as_deref(), minutes(arguments.deadline))
        }
        Command::Tidy => tidy::run(&root),
        Command::Works => works::write(&root),
        Command::Header => {
            shmem_header::write(&root)?;
            install::write_header(&root, &runner()?)
        }
        Command::Install(arguments) => {
            let InstallArgs { prefix, debug } = arguments;
            let staging = install::staging(std::env::var_os("DESTDIR"))?;
            let staging = staging.as_deref();
            let destination = Destination { staging, prefix, libdir: "lib", keeps_symbols: true };
            install::run(&root, &destination, *debug, &runner()?)
        }
        Command::Mpi(arguments) => {
            let runner = runner()?;
            setup::run(&root, &runner, Install::InCi)?;
            let prefix = arguments.prefix.clone();
            let prefix = prefix.unwrap_or_else(|| outside::target(&root).join("mpi"));
            let destination =
                Destination { staging: None, prefix: &prefix, libdir: "lib", keeps_symbols: true };
            install::mpi(&root, &destination, arguments.debug, &runner)
        }
        Command::Deb(arguments) => deb::make(&root, arguments.debug, &runner()?).map(drop),
        Command::Setup => setup::run(&root, &runner()?, Install::Asked).map(drop),
    }
}

/// Runs what is a single step.
fn runner() -> Result<Runner> {
    Runner::start(minutes(STEP_MINUTES_MAX))
}

/// The directory of the workspace's manifest.
///
/// Cargo says at run time where this crate is. The place known at compile time is only for a
/// program started by hand, because a checkout may have moved since.
fn workspace_root() -> Result<PathBuf> {
    let own = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    let root = own.parent().unwrap_or(Path::new("/")).to_owned();
    if !root.join("Cargo.toml").is_file() {
        bail!("{} holds no Cargo.toml: run this as `cargo xtask`", root.display());
    }
    root.canonicalize().with_context(|| format!("cannot resolve {}", root.display()))
}

pub(crate) fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(minutes * 60)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn several_steps_can_be_chosen_at_once() {
        let cli = Cli::try_parse_from(["xtask", "test", "--only", "fmt,tidy", "--long"]).unwrap();
        let Command::Test(options) = cli.command else {
            panic!("`test` was given");
        };
        assert_eq!(options.only, [steps::Step::Fmt, steps::Step::Tidy]);
        assert!(options.long && !options.keep_going);
        assert_eq!(options.deadline, STEP_MINUTES_MAX);
    }
}
