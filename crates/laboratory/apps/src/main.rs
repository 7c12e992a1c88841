//! `farside-apps`: the built-in programs, as a program that any launcher starts.

#![forbid(unsafe_code)]

use std::env;
use std::io::{self, Write};
use std::process::ExitCode;

use farside::sim::Profile;
use farside::{Error, Result};
use farside_apps::output::{CLOSED, is_closed, unprinted};
use farside_apps::shared::{Program, virtual_work};
use farside_apps::{APPS, App, app};
use farside_fabric::text::say;
use farside_job::{Entry, RunAs};

const USAGE: &str = "\
Usage: farside-apps NAME [ARGUMENTS]          be a rank of a program
       farside-apps --help [NAME]             what there is, and what it takes
       farside-apps --list                    what there is, a line each
       farside-apps --arguments               what each of them takes
       farside-apps --check NAME [ARGUMENTS]  refuse arguments that the program does not take";

fn main() -> ExitCode {
    run().unwrap_or_else(|error| {
        if is_closed(&error) {
            return CLOSED.into();
        }
        say(format_args!("farside-apps: {error}"));
        ExitCode::from(2)
    })
}

fn run() -> Result<ExitCode> {
    let words: Vec<String> = env::args_os().skip(1).map(text).collect::<Result<_>>()?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        [] => Err(Error::InvalidArgument(format!("which program?\n{USAGE}"))),
        ["--list"] => print(&list()),
        ["--arguments"] => print(&arguments()),
        ["--help" | "-h"] => print(&format!("{USAGE}\n\nPrograms:\n{}\n\n{}", list(), arguments())),
        ["--help" | "-h", name] => print(&app(name)?.page()),
        ["--check", name, ref rest @ ..] => {
            (app(name)?.check)(&owned(rest))?;
            Ok(ExitCode::SUCCESS)
        }
        [name, ref rest @ ..] => {
            let app = app(name)?;
            match simulated(app) {
                // What was said by hand comes later, and counts.
                Ok(words) => Ok(app.be_ranks(words.into_iter().chain(owned(rest)).collect())),
                Err(error) => {
                    say(format_args!("farside: {name}: {error}"));
                    Ok(ExitCode::FAILURE)
                }
            }
        }
    }
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn text(word: std::ffi::OsString) -> Result<String> {
    word.into_string()
        .map_err(|word| Error::InvalidArgument(format!("{} is not UTF-8", word.display())))
}

/// Returns what a program on shared memory is told of the machine that simulates its ranks.
fn simulated(app: &App) -> Result<Vec<String>> {
    let is_shared = Program::ALL.iter().any(|program| program.name() == app.name);
    match Entry::from_environment()?.map(|entry| entry.run_as) {
        Some(RunAs::Simulated(job)) if is_shared => {
            Ok(virtual_work(app.name, &Profile::load(&job.profile)?))
        }
        _ => Ok(Vec::new()),
    }
}

fn print(text: &str) -> Result<ExitCode> {
    writeln!(io::stdout(), "{text}").map_err(|error| unprinted(&error))?;
    Ok(ExitCode::SUCCESS)
}

/// Lists the programs, one a line.
fn list() -> String {
    let line = |app: &App| format!("  {:12} {}", app.name, app.about);
    APPS.iter().map(line).collect::<Vec<String>>().join("\n")
}

/// Lists the arguments of the programs; some have the same ones.
fn arguments() -> String {
    let mut groups: Vec<(Vec<&str>, String)> = Vec::new();
    for app in APPS {
        let help = (app.help)();
        match groups.iter_mut().find(|(_, known)| *known == help) {
            Some((names, _)) => names.push(app.name),
            None => groups.push((vec![app.name], help)),
        }
    }
    let group =
        |(names, help): &(Vec<&str>, String)| format!("Arguments of {}:\n{help}", names.join(", "));
    groups.iter().map(group).collect::<Vec<String>>().join("\n").trim_end().to_owned()
}
