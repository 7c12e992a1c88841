//! The command line of `farside figures`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result};
use clap::Parser;
use farside_bench::command::records;
use farside_command::{Misuse, complain};
use farside_figures::baseline::ProfileBaseline;
use farside_figures::page;
use farside_figures::points::Catalogue;
use farside_figures::report::{Outcome, with_verdicts};
use farside_figures::session::{Session, write};

/// What `farside figures --help` says.
const ABOUT: &str = "Reproduce the published figures, and judge each number

Runs the benches behind every figure and table of the five papers, most of them in virtual time on
the papers' machines, takes the published numbers beside them, and computes a verdict for each:
agrees, misses, not exercised (the run never reached the threshold), by construction (the
comparison cannot fail), calibrated (the number has set the profile), not run. Writes one page
(index.html), the same as Markdown (figures.md) and as JSON (figures.json).

Results are kept in the output directory as they come: after an interruption, --resume goes on.

Examples:
  farside figures --quick
  farside figures --full --out full --resume
  farside figures --only NIC02 --only RMALOCK16/3-lb
  farside figures --from docs/figures.json --out page";

/// The arguments of `farside figures`.
#[derive(Parser)]
#[command(name = "farside-figures", bin_name = "farside figures", version)]
#[command(about = "Reproduce the published figures, and judge each number", long_about = ABOUT)]
pub(crate) struct Arguments {
    /// A paper, a figure as PAPER/ID, or a point; all by default
    #[arg(long, value_delimiter = ',', value_name = "WHAT,…")]
    only: Vec<String>,
    /// Fewer rounds, ranks and operations: within a quarter of an hour (the default)
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// The papers' sizes: within two hours
    #[arg(long)]
    full: bool,
    /// Resume from results that the same build left in the output directory
    #[arg(long)]
    resume: bool,
    /// The directory of the results
    #[arg(long, default_value = "figures", value_name = "DIR")]
    out: PathBuf,
    /// Run nothing: take the results of this file, and judge and plot them again
    #[arg(long, value_name = "FILE", conflicts_with_all = ["resume", "full", "quick"])]
    from: Option<PathBuf>,
    /// Also replace the table of verdicts in this document
    #[arg(long, value_name = "FILE")]
    update: Option<PathBuf>,
    /// Name all papers, figures and points, and run nothing
    #[arg(long)]
    list: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let all = Catalogue::load()?;
    let not_compared = ProfileBaseline::load()?.check_all(&all)?;
    let catalogue = all.only(&arguments.only).map_err(|error| Misuse(error.to_string()))?;
    if arguments.list {
        return list(&catalogue);
    }
    let outcome = match &arguments.from {
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            Outcome::read(&text, &catalogue, &not_compared)
                .with_context(|| format!("cannot use {}", path.display()))?
        }
        None => measured(arguments, &catalogue, &not_compared)?,
    };
    let page = arguments.out.join("index.html");
    write(&page, page::page(&catalogue, &outcome).as_bytes())?;
    write(&arguments.out.join("figures.md"), outcome.markdown(&catalogue).as_bytes())?;
    write(&arguments.out.join("figures.json"), outcome.to_json()?.as_bytes())?;
    if let Some(path) = &arguments.update {
        let failed = || format!("cannot update {}", path.display());
        let text = std::fs::read_to_string(path).with_context(failed)?;
        let text = with_verdicts(&text, &outcome.verdicts(&catalogue)).with_context(failed)?;
        write(path, text.as_bytes())?;
    }
    writeln!(std::io::stdout(), "{}\npage: {}", outcome.summary(), page.display())?;
    Ok(ExitCode::SUCCESS)
}

fn measured(
    arguments: &Arguments,
    catalogue: &Catalogue,
    not_compared: &BTreeSet<String>,
) -> Result<Outcome> {
    let progress = |line: &str| {
        let _ = writeln!(std::io::stderr(), "{line}");
    };
    progress(&format!(
        "results are kept in {} as they come; --resume goes on from there",
        arguments.out.display()
    ));
    let session = Session {
        directory: arguments.out.clone(),
        is_quick: !arguments.full,
        resumes: arguments.resume,
        stamp: stamp()?,
        runner: &records,
        progress: &progress,
    };
    let runs = session.run(catalogue)?;
    for done in &runs {
        if let Some(error) = &done.error {
            complain(&format!("{} failed: {error}", done.id));
        }
    }
    let is_quick = session.is_quick;
    Ok(Outcome::new(catalogue, not_compared, about(), is_quick, runs))
}

fn list(catalogue: &Catalogue) -> Result<ExitCode> {
    let mut out = std::io::stdout();
    for (paper, figure, point) in catalogue.points() {
        writeln!(out, "{}/{}  {}  {}", paper.paper, figure.id, point.id, point.what)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns what tells this build of the program from others: results of others are not resumed.
fn stamp() -> Result<String> {
    let path = std::env::current_exe().context("cannot find the running program")?;
    let file = std::fs::metadata(&path)?;
    let since = file.modified()?.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Ok(format!("{} {} {}", env!("CARGO_PKG_VERSION"), file.len(), since.as_nanos()))
}

/// Returns machine, date, version, command and commit.
fn about() -> BTreeMap<String, String> {
    let about = farside_bench::about();
    let mut about: BTreeMap<String, String> =
        about.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    about.insert("commit".into(), commit(Path::new(".")).unwrap_or("unknown".into()));
    about
}

/// Returns the commit of the working directory, if it is one of this project.
fn commit(directory: &Path) -> Option<String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(directory)
        .args(["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"])
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}
