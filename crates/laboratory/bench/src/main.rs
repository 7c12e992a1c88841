//! `farside bench`: measures, beside rivals and limits.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use farside_bench::command::{Arguments, rank, run};
use farside_command::{answer, conclude, is_misuse};

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    if let Some(result) = rank(&words) {
        // The command line of a rank is not the user's.
        return conclude(result, &|_| false, &|_| false);
    }
    let result =
        answer(&words, Arguments::command).unwrap_or_else(|| run(Arguments::parse_from(words)));
    conclude(result, &is_misuse, &|_| false)
}
