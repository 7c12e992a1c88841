//! The `farside` command: starts jobs, runs built-in programs, and looks at them. What measures and
//! checks are programs beside it.

#![forbid(unsafe_code)]

mod app;
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

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use farside_command::{Beside, Misuse, answer, complain, conclude, is_misuse};

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
    /// Measure farside next to other libraries and the limits of the hardware
    #[command(disable_help_flag = true)]
    Bench(Elsewhere),
    /// Reproduce the published figures, and judge each number
    #[command(disable_help_flag = true)]
    Figures(Elsewhere),
    /// Explore the schedules of protocols, and report whether they keep their guarantees
    #[command(disable_help_flag = true)]
    Check(Elsewhere),
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
    /// Be a rank of `farside app hello`
    #[command(name = "__rank", hide = true)]
    Hello,
}

/// A command that a program beside this one carries out: it reads its arguments.
#[derive(Args)]
struct Elsewhere {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

/// The commands that programs beside this one carry out.
const BESIDE: [&str; 3] = ["bench", "figures", "check"];

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    conclude(run(words), &is_misuse, &farside_apps::output::is_closed)
}

fn run(words: Vec<OsString>) -> Result<ExitCode> {
    if let Some(result) = answer(&words, Arguments::command) {
        return result;
    }
    if let [_, help, command] = &words[..]
        && help == "help"
        && let Some(command) = BESIDE.into_iter().find(|name| command == name)
    {
        return Err(Beside::of(command).run(&["--help".into()]));
    }
    let words = spelling::with_np(words, Arguments::command);
    let mut definition = Arguments::command();
    if let Some(asked) = app::asked_for_help(words.get(1..).unwrap_or_default()) {
        if let Some(app) = app::named(asked) {
            return app::help(app);
        }
        definition = app::with_programs(definition);
    }
    let matches = definition.get_matches_from(words);
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    match arguments.command {
        Command::Run(arguments) => run::run(arguments),
        Command::App(arguments) => app::run(arguments),
        Command::Bench(elsewhere) => Err(Beside::of("bench").run(&elsewhere.arguments)),
        Command::Figures(elsewhere) => Err(Beside::of("figures").run(&elsewhere.arguments)),
        Command::Check(elsewhere) => Err(Beside::of("check").run(&elsewhere.arguments)),
        Command::Preload(arguments) => preload::run(&arguments),
        Command::Why(arguments) => why::run(&arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::Info(arguments) => info::run(&arguments),
        Command::Completions(arguments) => manual::complete(&arguments),
        Command::Man(arguments) => manual::write(&arguments),
        Command::Hello => Ok(farside_apps::HELLO.be_ranks(Vec::new())),
    }
}
