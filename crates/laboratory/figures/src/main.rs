//! `farside figures`: the published figures, reproduced and judged.

#![forbid(unsafe_code)]

mod command;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use farside_bench::command::rank;
use farside_command::{answer, conclude, is_misuse};

use crate::command::Arguments;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    // It runs benches itself, and starts itself as their ranks.
    if let Some(result) = rank(&words) {
        return conclude(result, &|_| false, &|_| false);
    }
    let result = answer(&words, Arguments::command)
        .unwrap_or_else(|| command::run(&Arguments::parse_from(words)));
    conclude(result, &is_misuse, &|_| false)
}
