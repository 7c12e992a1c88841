//! `farside app`: runs a built-in program.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use farside::Topology;
use farside::tracing::Slice;
use farside_apps::output::check_target;
use farside_bench::machine::Machine;

use crate::job::{Job, Program};
use crate::simulate::Simulate;

/// Runs a built-in program as the ranks of a job.
#[derive(Args)]
#[command(after_help = list(), after_long_help = long_list())]
pub(crate) struct Arguments {
    /// Its name
    name: String,
    #[command(flatten)]
    job: Job,
    #[command(flatten)]
    simulate: Simulate,
    /// Write what every simulated rank did into this file: a page to look at if it ends in .html,
    /// otherwise JSON for Perfetto or chrome://tracing
    #[arg(long, value_name = "FILE", requires = "sim")]
    trace: Option<PathBuf>,
    /// Let the ranks be threads of one process
    #[arg(long, conflicts_with = "sim")]
    threads: bool,
    /// Its arguments, after all options of the job; --help among them says which there are
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

fn list() -> String {
    let line = |app: &farside_apps::App| format!("  {:10} {}", app.name, app.about);
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

pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    let app = farside_apps::app(&arguments.name)?;
    if arguments.arguments.iter().any(|word| word == "--help" || word == "-h") {
        let name = app.name;
        write!(
            std::io::stdout(),
            "{name}: {}\n\nUsage: farside app {name} [OPTIONS OF THE JOB] -- [ARGUMENTS]\n\n\
             Arguments:\n{}",
            app.about,
            (app.help)()
        )?;
        return Ok(ExitCode::SUCCESS);
    }
    check(app, &arguments.arguments)?;
    if let Some(path) = &arguments.trace {
        // Better now than after all that is to be recorded.
        check_target(path).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if arguments.simulate.is_asked_for() {
        let machine = arguments
            .simulate
            .machine(arguments.job.simulated()?)?
            .context("no machine to simulate")?;
        return simulate(app, &machine.served_by(arguments.job.server())?, arguments);
    }
    if arguments.threads {
        let job = arguments.job.local()?;
        job.run(|world| (app.run)(&world, &arguments.arguments)).with_context(|| app.name)?;
        return Ok(ExitCode::SUCCESS);
    }
    let words = ["__app", app.name]
        .map(Into::into)
        .into_iter()
        .chain(arguments.arguments.into_iter().map(Into::into));
    arguments.job.run(Program::Own, words.collect())
}

/// Refuses arguments that the program does not take, before there are ranks that would all
/// complain.
fn check(app: &farside_apps::App, words: &[String]) -> Result<()> {
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
        Some(word) => bail!(
            "{error}; {word} is an option of the job, and those come before the program's own: \
             farside app {} [OPTIONS OF THE JOB] \
             -- [ARGUMENTS]",
            app.name
        ),
        None => Err(error.into()),
    }
}

/// Runs it in virtual time.
fn simulate(
    app: &'static farside_apps::App,
    machine: &Machine,
    arguments: Arguments,
) -> Result<ExitCode> {
    let ranks = arguments.job.ranks()?;
    let mut job = machine.job(ranks)?;
    if arguments.trace.is_some() {
        job = job.traced();
    }
    let mut words = arguments.arguments;
    if farside_apps::shared::Program::ALL.iter().any(|program| program.name() == app.name) {
        // What was said by hand comes last, and counts.
        words = [farside_bench::dsm::virtual_work(&machine.profile), words].concat();
    }
    let outcome = job.run(move |world| (app.run)(&world, &words)).with_context(|| app.name)?;
    let timing = &outcome.timing;
    writeln!(
        std::io::stdout(),
        "{ranks} ranks on {}: {:.3} us of virtual time, {} operations, {} bytes (seed {}, hash \
         {:016x})",
        machine.profile.name,
        timing.virtual_ns as f64 / 1e3,
        timing.operations,
        timing.bytes,
        machine.seed,
        timing.hash
    )?;
    let resent: u64 = timing.resent.iter().map(|resent| resent.count).sum();
    if resent > 0 {
        writeln!(std::io::stdout(), "{resent} messages were lost and sent again")?;
    }
    if let Some(path) = &arguments.trace {
        write_trace(path, app.name, &outcome.timing.slices, &outcome.topology)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn write_trace(path: &Path, title: &str, slices: &[Slice], topology: &Topology) -> Result<()> {
    let failed = || format!("cannot write {}", path.display());
    let mut file = std::io::BufWriter::new(std::fs::File::create(path).with_context(failed)?);
    if path.extension().is_some_and(|extension| extension == "html") {
        farside::trace::page(slices, topology, title, &mut file).with_context(failed)?;
    } else {
        farside::trace::chrome(slices, topology, &mut file).with_context(failed)?;
    }
    file.flush().with_context(failed)
}

/// What a rank of such a job does.
pub(crate) fn rank(name: &str, arguments: &[String]) -> Result<ExitCode> {
    let app = farside_apps::app(name)?;
    let world = farside::join()?;
    (app.run)(&world, arguments).with_context(|| format!("{}: {name}", world.rank()))?;
    Ok(ExitCode::SUCCESS)
}
