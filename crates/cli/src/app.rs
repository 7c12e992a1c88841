//! `farside app`: runs a built-in program.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use farside_apps::App;

use crate::Misuse;
use crate::job::{Job, Program, Start};
use crate::mode::Mode;

/// Runs a built-in program as the ranks of a job.
#[derive(Args)]
#[command(after_help = list(), after_long_help = long_list())]
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

fn list() -> String {
    let line = |app: &App| format!("  {:10} {}", app.name, app.about);
    let lines: Vec<String> = farside_apps::APPS.iter().map(line).collect();
    format!(
        "Programs:\n{}\n\nExamples:\n  farside app hello -n 4\n  farside app wordcount -n 4 \
         README.md\n  farside app hello -n 16 --sim aries-xc30 --trace hello.html\n  farside app \
         count -n 64 --threads -- 10000 default d-mcs\n  farside app lu -n 4 -- --size 2048 \
         --block 128\n  farside app sor -n 4 -- --barrier central --start original --plot \
         sor.svg\n  farside app fft3d -n 32 --sim ibm-sp -- --barrier tree",
        lines.join("\n")
    )
}

/// The same, with the arguments of the programs; some have the same ones.
fn long_list() -> String {
    let mut groups: Vec<(Vec<&str>, String)> = Vec::new();
    for app in farside_apps::APPS {
        let help = (app.help)();
        match groups.iter_mut().find(|(_, known)| *known == help) {
            Some((names, _)) => names.push(app.name),
            None => groups.push((vec![app.name], help)),
        }
    }
    let group =
        |(names, help): &(Vec<&str>, String)| format!("Arguments of {}:\n{help}", names.join(", "));
    let groups: Vec<String> = groups.iter().map(group).collect();
    format!("{}\n\n{}", list(), groups.join("\n").trim_end())
}

/// Returns the program whose own help is asked for, as by `farside app lu --help`.
pub(crate) fn asked_for_help(words: &[OsString]) -> Option<&'static App> {
    let [command, name, rest @ ..] = words else { return None };
    let asks = |word: &OsString| word == "--help" || word == "-h";
    let is_asked = command == "app" && rest.iter().take_while(|word| *word != "--").any(asks);
    farside_apps::APPS.iter().find(|app| is_asked && *name == *app.name)
}

/// Prints what a program does and takes.
pub(crate) fn help(app: &App) -> Result<ExitCode> {
    let App { name, about, .. } = app;
    write!(
        std::io::stdout(),
        "{name}: {about}\n\nUsage: farside app {name} -n N [OPTIONS OF THE JOB] -- [ARGUMENTS]\n\n\
         Arguments:\n{}\n\
         Options of the job, such as --threads, --sim and --trace: farside app --help\n",
        (app.help)()
    )?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    let app = farside_apps::app(&arguments.name)?;
    if arguments.arguments.iter().any(|word| word == "--help" || word == "-h") {
        return help(app);
    }
    check(app, &arguments.arguments)?;
    let mut words = vec!["__app".into(), app.name.into()];
    if farside_apps::shared::Program::ALL.iter().any(|program| program.name() == app.name)
        && let Some(profile) = arguments.mode.profile()?
    {
        // What was said by hand comes later, and counts.
        let said = farside_apps::shared::virtual_work(app.name, &profile);
        words.extend(said.iter().map(Into::into));
    }
    words.extend(arguments.arguments.into_iter().map(Into::into));
    arguments.job.run(Start {
        title: app.name.into(),
        program: Program::Own,
        arguments: words,
        mode: arguments.mode,
    })
}

/// Refuses arguments that the program does not take, before there are ranks that would all
/// complain.
fn check(app: &App, words: &[String]) -> Result<()> {
    let Err(error) = (app.check)(words) else {
        return Ok(());
    };
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
        Some(word) => bail!(Misuse(format!(
            "{error}; {word} is an option of the job, and those come before the program's own: \
             farside app {} [OPTIONS OF THE JOB] -- [ARGUMENTS]",
            app.name
        ))),
        None => Err(error.into()),
    }
}

/// Runs a built-in program as the ranks that this process was started for.
pub(crate) fn rank(name: &str, arguments: &[String]) -> Result<ExitCode> {
    let app = farside_apps::app(name)?;
    let arguments = arguments.to_vec();
    let who = match (std::env::var(farside_job::RANK), std::env::var_os(farside_job::ENTRY)) {
        (Ok(rank), None) => format!("rank {rank}: {name}"),
        _ => name.to_owned(),
    };
    farside::entry::try_run(move |world| (app.run)(world, &arguments)).context(who)
}
