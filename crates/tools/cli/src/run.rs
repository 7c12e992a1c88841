//! `farside run`: starts a program as the ranks of a job.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Args;

use crate::job::Job;
use crate::job::start::{Program, Start};
use crate::mode::Mode;

/// What `--help` says.
pub(crate) const ABOUT: &str = "Start a program as the ranks of a job

Output comes line by line, standard input goes to rank 0, signals go to all: Ctrl-Z stops ranks \
and launcher. At a terminal, and in a job of one rank, a line without an end (a prompt, a progress \
bar) comes after 0.2 s. When a rank dies, the others hear of it at once.

--threads and --sim need a program whose main function is `#[farside::main] fn main(world: \
&World)`. It is started once, and runs all ranks itself; arguments, standard input and exit \
status are as usual.

The exit status is that of the first rank that failed; 128 and the signal's number if a signal \
ended it, or asked the job to end; 124 if time was up; 141 if the output could not be written. \
With --races it is 66 if races were found, and 67 if nothing could be checked.";

/// The arguments of `farside run`.
#[derive(Args)]
#[command(after_help = "Examples:
  farside run -n 4 target/release/examples/ring
  farside run --hosts a:4,b:4 target/release/examples/ring
  farside run -n 64 --sim aries-xc30 --trace ring.html target/release/examples/ring
  farside run -n 8 --hosts a,b --rsh 'ip netns exec {host}' hostname")]
pub(crate) struct Arguments {
    #[command(flatten)]
    job: Job,
    #[command(flatten)]
    mode: Mode,
    /// The program to start, and its arguments
    #[arg(trailing_var_arg = true, required = true, value_names = ["PROGRAM", "ARGS"])]
    command: Vec<OsString>,
}

pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    let mut command = arguments.command.into_iter();
    let program = command.next().context("no program was given")?;
    let start = Start {
        title: program.clone().into(),
        program: Program::Named(program),
        arguments: command.collect(),
        mode: arguments.mode,
    };
    arguments.job.run(start)
}
