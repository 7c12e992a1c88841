//! `farside app`: runs a built-in program.
//!
//! `hello` is a part of this program; `farside-apps`, beside it, has all of them.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use farside_apps::HELLO;
use farside_command::Beside;

use crate::job::Job;
use crate::job::start::{Program, Start};
use crate::mode::Mode;
use crate::{Misuse, complain};

/// The program that has all of them.
const APPS: Beside = Beside::of("apps");

/// Runs a built-in program as the ranks of a job.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Its name
    name: String,
    #[command(flatten)]
    job: Job,
    #[command(flatten)]
    mode: Mode,
    /// Its arguments, after all options of the job; --help among them says which there are
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  farside app hello -n 4
  farside app wordcount -n 4 README.md
  farside app hello -n 16 --sim aries-xc30 --trace hello.html
  farside app count -n 64 --threads -- 10000 default d-mcs
  farside app lu -n 4 -- --size 2048 --block 128
  farside app sor -n 4 -- --barrier central --start original --plot sor.svg
  farside app fft3d -n 32 --sim ibm-sp -- --barrier tree";

/// Returns the words after `app` if they ask for help.
pub(crate) fn asked_for_help(words: &[OsString]) -> Option<&[OsString]> {
    let asks = |word: &OsString| word == "--help" || word == "-h";
    match words {
        [help, app, ..] if help == "help" && app == "app" => Some(&[]),
        [app, rest @ ..] if app == "app" => {
            rest.iter().take_while(|word| *word != "--").any(asks).then_some(rest)
        }
        _ => None,
    }
}

/// Returns the program whose own help words ask for, as in `farside app lu --help`.
pub(crate) fn named(words: &[OsString]) -> Option<&str> {
    words.first()?.to_str().filter(|name| !name.starts_with('-'))
}

/// Adds to the definition of the command what the programs are and take; where they are missing,
/// says so.
pub(crate) fn with_programs(farside: clap::Command) -> clap::Command {
    let asked = || Ok((APPS.ask(&["--list".into()])?, APPS.ask(&["--arguments".into()])?));
    let (list, arguments) = asked().unwrap_or_else(|error: anyhow::Error| {
        complain(&format!("cannot list any program but hello: {error:#}"));
        (format!("  hello        {}", HELLO.about), String::new())
    });
    let list = format!("Programs:\n{}\n\n{EXAMPLES}", list.trim_end());
    let long = format!("{list}\n\n{arguments}").trim_end().to_owned();
    farside.mut_subcommand("app", |app| app.after_help(list).after_long_help(long))
}

/// Prints what a program does and takes.
pub(crate) fn help(name: &str) -> Result<ExitCode> {
    let page = match name == HELLO.name {
        true => format!("{}\n", HELLO.page()),
        false => ask(&["--help", name], &[])?,
    };
    write!(std::io::stdout(), "{page}")?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    let Arguments { name, arguments, job, mode } = arguments;
    if arguments.iter().any(|word| word == "--help" || word == "-h") {
        return help(&name);
    }
    let (program, first) = if name == HELLO.name {
        (HELLO.check)(&arguments)
            .map_err(|error| refused(&name, &arguments, &error.to_string()))?;
        (Program::Own, "__rank")
    } else {
        ask(&["--check", &name], &arguments)?;
        (Program::Beside(APPS.path()?), name.as_str())
    };
    let words = std::iter::once(first).chain(arguments.iter().map(String::as_str));
    let words = words.map(Into::into).collect();
    job.run(Start { title: name.into(), program, arguments: words, mode })
}

/// Asks the program that has all of them, and returns its answer. It refuses programs that there
/// are not, and arguments that one does not take, before there are ranks that would all complain.
fn ask(words: &[&str], arguments: &[String]) -> Result<String> {
    let all = words.iter().copied().chain(arguments.iter().map(String::as_str));
    let answer = APPS.output(&all.map(OsString::from).collect::<Vec<OsString>>())?;
    let said = String::from_utf8_lossy(&answer.stderr);
    let said = said.trim();
    match answer.status.code() {
        Some(0) => Ok(String::from_utf8_lossy(&answer.stdout).into_owned()),
        Some(2) => {
            let said = said.strip_prefix("farside-apps: ").unwrap_or(said);
            Err(refused(words.last().copied().unwrap_or_default(), arguments, said))
        }
        _ => bail!("{}: {}: {said}", APPS.path()?.display(), answer.status),
    }
}

/// The error of arguments of which a program says this; it says which belong to the job.
fn refused(name: &str, words: &[String], said: &str) -> anyhow::Error {
    let job = Arguments::augment_args(clap::Command::new("app"));
    let is_of_job = |word: &&String| {
        let name = word.split('=').next().unwrap_or(word);
        let is = |option: &clap::Arg| {
            option.get_long().is_some_and(|long| name.strip_prefix("--") == Some(long))
                || option
                    .get_short()
                    .is_some_and(|short| name.strip_prefix('-') == Some(short.to_string().as_str()))
        };
        job.get_arguments().any(is)
    };
    match words.iter().find(is_of_job) {
        Some(word) => Misuse(format!(
            "{said}; {word} is an option of the job: put it before the program's own, as in \
             farside app {name} [OPTIONS OF THE JOB] -- [ARGUMENTS]"
        ))
        .into(),
        None => Misuse(said.to_owned()).into(),
    }
}
