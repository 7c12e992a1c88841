//! The `farside` command: starts jobs, runs built-in programs, measures, checks.

#![forbid(unsafe_code)]

mod app;
mod bench;
mod check;
mod figures;
mod info;
mod job;
mod manual;
mod mode;
mod preload;
mod races;
mod run;
mod spelling;
mod top;
mod why;

use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use farside_fabric::ErrorClass;

/// One-sided remote memory for parallel programs.
#[derive(Parser)]
#[command(
    name = "farside",
    version,
    about = "One-sided remote memory for parallel programs",
    arg_required_else_help = true
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    #[command(about = "Start a program as the ranks of a job", long_about = run::ABOUT)]
    Run(run::Arguments),
    /// Run a built-in program
    App(app::Arguments),
    /// Measure, beside rivals and limits
    Bench(bench::Arguments),
    #[command(
        about = "Reproduce the published figures, and judge each number",
        long_about = figures::ABOUT
    )]
    Figures(figures::Arguments),
    /// Explore the schedules of protocols, and report whether they keep their guarantees
    Check(check::Arguments),
    #[command(
        about = "Run an MPI program and intercept its one-sided calls",
        long_about = preload::ABOUT
    )]
    Preload(preload::Arguments),
    #[command(
        about = "Say which ranks of a running job are stuck, and why",
        long_about = why::ABOUT
    )]
    Why(why::Arguments),
    #[command(
        about = "Show what the ranks of a running job do, as it happens",
        long_about = top::ABOUT
    )]
    Top(top::Arguments),
    /// Show what this machine supports, which limits are too low, and how to raise them
    Info(info::Arguments),
    /// Print completions for a shell
    ///
    /// For example: farside completions bash > /etc/bash_completion.d/farside
    Completions(manual::Completions),
    /// Print the manual page, or write all of them into a directory
    ///
    /// For example: farside man /usr/local/share/man/man1
    Man(manual::Man),
    /// End a process group when standard input ends
    #[command(name = "__keep", hide = true)]
    Keep,
    /// Be the daemon of a host
    #[command(name = "__node", hide = true)]
    Node,
    /// Be a rank of a built-in program
    #[command(name = "__app", hide = true, disable_help_flag = true)]
    AppRank {
        name: String,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Be a rank of a measurement
    #[command(name = "__bench", hide = true)]
    BenchRank {
        name: String,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

fn main() -> ExitCode {
    let words = spelling::with_np(std::env::args_os().collect(), Arguments::command);
    if let Some(app) = app::asked_for_help(words.get(1..).unwrap_or_default()) {
        return conclude(app::help(app), &is_misuse);
    }
    let command = Arguments::parse_from(words).command;
    // The command line of a process of a job is not the user's.
    let is_users = !matches!(
        command,
        Command::Keep | Command::Node | Command::AppRank { .. } | Command::BenchRank { .. }
    );
    let result = match command {
        Command::Run(arguments) => run::run(arguments),
        Command::App(arguments) => app::run(arguments),
        Command::Bench(arguments) => bench::run(arguments),
        Command::Figures(arguments) => figures::run(&arguments),
        Command::Check(arguments) => check::run(arguments),
        Command::Preload(arguments) => preload::run(&arguments),
        Command::Why(arguments) => why::run(&arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::Info(arguments) => info::run(&arguments),
        Command::Completions(arguments) => manual::complete(&arguments),
        Command::Man(arguments) => manual::write(&arguments),
        Command::Keep => {
            farside_launch::reap().map(|()| ExitCode::SUCCESS).map_err(anyhow::Error::msg)
        }
        Command::Node => farside_launch::node().map(ExitCode::from).map_err(anyhow::Error::msg),
        Command::AppRank { name, arguments } => app::rank(&name, &arguments),
        Command::BenchRank { name, arguments } => bench::rank(&name, &arguments),
    };
    conclude(result, &|error| is_users && is_misuse(error))
}

/// A command line that makes no sense.
#[derive(Debug)]
pub(crate) struct Misuse(pub(crate) String);

impl std::fmt::Display for Misuse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Misuse {}

/// Returns whether the command line is to blame for an error, or a variable that stands for an
/// option.
fn is_misuse(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let job = match cause.downcast_ref() {
            Some(farside_launch::Error::Job(error)) => Some(error),
            _ => cause.downcast_ref::<farside::Error>(),
        };
        let of_settings = [ErrorClass::Setting, ErrorClass::Argument, ErrorClass::Limit];
        cause.is::<Misuse>() || job.is_some_and(|error| of_settings.contains(&error.class()))
    })
}

/// Says what went wrong, if anything did, and returns the exit status: 2 for a wrong command line.
fn conclude(
    result: anyhow::Result<ExitCode>,
    is_misuse: &dyn Fn(&anyhow::Error) -> bool,
) -> ExitCode {
    result.unwrap_or_else(|error| {
        if is_closed_output(&error) {
            // What becomes of commands that do not look: a check that has failed must not end well
            // because of it.
            return ExitCode::from(128 + 13);
        }
        complain(&format!("{error:#}"));
        if is_misuse(&error) { ExitCode::from(2) } else { ExitCode::FAILURE }
    })
}

/// Says on standard error what is wrong. If nobody listens there, the status says it alone.
fn complain(what: &str) {
    let _ = writeln!(std::io::stderr(), "farside: {what}");
}

/// Whether nobody reads the output any more, as after `farside info | head -3`: nothing to complain
/// of. All that the command and its programs print comes here as an error if it cannot be printed,
/// whether ranks are processes, threads or simulated. Errors of other files say which, and are no
/// bare ones.
fn is_closed_output(error: &anyhow::Error) -> bool {
    let bare = error.chain().len() == 1;
    let own = error.downcast_ref::<std::io::Error>().filter(|_| bare);
    own.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
        || error
            .chain()
            .any(|cause| cause.downcast_ref().is_some_and(farside_apps::output::is_closed))
}
