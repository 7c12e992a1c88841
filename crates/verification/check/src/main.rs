//! `farside check`: explores the schedules of protocols, and of programs.

#![forbid(unsafe_code)]

mod command;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use farside_command::{answer, conclude, is_misuse};

use crate::command::Arguments;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    let result = answer(&words, Arguments::command)
        .unwrap_or_else(|| command::run(Arguments::parse_from(words)));
    conclude(result, &is_misuse, &|_| false)
}
