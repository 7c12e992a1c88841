//! The options for the kind of ranks that a program runs on, the same for `run`, `app` and
//! `bench`.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use farside::sim::Profile;
use farside_apps::output::check_target;
use farside_bench::machine::Machine;
use farside_job::{Entry, Recording, ReportFile, RunAs, Simulated};

use crate::job::Job;

/// The kind of ranks, and whether they are recorded.
#[derive(Args, Clone)]
#[command(next_help_heading = "Kind of ranks")]
pub(crate) struct Mode {
    /// Simulate the ranks in virtual time, on a machine as this profile describes it: a name that
    /// `farside info` lists, or a file that ends in .toml
    #[arg(long, value_name = "PROFILE")]
    sim: Option<String>,
    /// The seed of the simulated machine's delays: the same seed gives the same run
    #[arg(long, value_name = "N", default_value_t = 1, requires = "sim")]
    seed: u64,
    /// Let the ranks be threads of one process
    #[arg(long, conflicts_with = "sim")]
    threads: bool,
    /// Record what every rank does, and write it into this file: a page to look at if it ends in
    /// .html, otherwise JSON for Perfetto or chrome://tracing
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

/// What a program's entry is asked to do, with the file in which it answers.
pub(crate) struct Asked {
    pub(crate) entry: Entry,
    report: ReportFile,
    trace: Option<PathBuf>,
    options: String,
}

impl Mode {
    /// Returns the simulated machine, if one is asked for, with its ranks arranged as `topology`
    /// says.
    pub(crate) fn machine(&self, topology: Option<String>) -> Result<Option<Machine>> {
        let Some(name) = &self.sim else {
            return Ok(None);
        };
        Ok(Some(Machine { profile: Profile::load(name)?, topology, seed: self.seed }))
    }

    /// Returns the simulated machine, or nothing if the ranks are processes. Refuses the rest.
    pub(crate) fn measured(&self, topology: Option<String>) -> Result<Option<Machine>> {
        if self.trace.is_some() {
            bail!(
                "--trace: a recorder would be measured along with the operations; record a \
                 program instead, with `farside run --trace` or `farside app --trace`"
            );
        }
        if self.threads {
            bail!("--threads: a bench measures processes, which is what jobs are; leave it out");
        }
        self.machine(topology)
    }

    /// Returns what the program's entry is to be asked, if there is anything to ask. Whatever can
    /// be refused is refused here, before a program is started.
    pub(crate) fn ask(&self, job: &Job) -> Result<Option<Asked>> {
        let simulated = match &self.sim {
            Some(profile) => Some(self.simulated(profile, job)?),
            None => None,
        };
        let run_as = match (simulated, self.threads) {
            (Some(simulated), _) => RunAs::Simulated(simulated),
            (None, true) => RunAs::Threads(job.threads()?),
            (None, false) if self.trace.is_none() => return Ok(None),
            (None, false) => {
                job.check_recorded()?;
                RunAs::Process
            }
        };
        if let Some(path) = &self.trace {
            check_target(path).with_context(|| format!("cannot write {}", path.display()))?;
        }
        let report = ReportFile::create()?;
        let given = [
            ("--sim", self.sim.is_some()),
            ("--threads", self.threads),
            ("--trace", self.trace.is_some()),
        ];
        let given = given.iter().filter(|(_, is_given)| *is_given).map(|(option, _)| *option);
        Ok(Some(Asked {
            entry: Entry { run_as, records: self.trace.is_some(), report: report.path() },
            report,
            trace: self.trace.clone(),
            options: given.collect::<Vec<&str>>().join(" and "),
        }))
    }

    fn simulated(&self, name: &str, job: &Job) -> Result<Simulated> {
        let topology = job.simulated()?;
        let machine = Machine { profile: Profile::load(name)?, topology, seed: self.seed };
        let ranks = job.ranks()?;
        // Whatever is wrong with them is said here, and not by a program that has started.
        machine.served_by(job.server())?.job(ranks)?;
        let profile = match name.ends_with(".toml") {
            true => std::path::absolute(name)
                .with_context(|| format!("cannot find {name}"))?
                .into_os_string()
                .into_string()
                .map_err(|path| anyhow::anyhow!("{} is not UTF-8", path.display()))?,
            false => name.to_owned(),
        };
        let server = job.server().map(str::to_owned);
        Ok(Simulated { profile, ranks, seed: self.seed, topology: machine.topology, server })
    }
}

impl Asked {
    /// Whether one process runs all ranks.
    pub(crate) fn is_one_process(&self) -> bool {
        !matches!(self.entry.run_as, RunAs::Process)
    }

    /// Reads the answer after the program has ended with this status, writes the recording, and
    /// returns the summary. It is an error if nothing in the program has obeyed.
    pub(crate) fn finish(mut self, program: &Path, status: i32) -> Result<Vec<String>> {
        let report = self.report.read()?;
        if !report.taken {
            // One that was ended from outside had perhaps no time to answer.
            if status == 124 || status >= 128 {
                return Ok(Vec::new());
            }
            bail!(
                "{} does not obey {}: only programs whose main function is `#[farside::main] fn \
                 main(world: &World)` do, and this one ran as if started by itself",
                program.display(),
                self.options
            );
        }
        if let (Some(path), Some(recording)) = (&self.trace, &report.recording) {
            let title = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy();
            write_trace(path, &title, recording)?;
        }
        Ok(report.summary)
    }
}

fn write_trace(path: &Path, title: &str, recording: &Recording) -> Result<()> {
    let failed = || format!("cannot write {}", path.display());
    let mut file = std::io::BufWriter::new(std::fs::File::create(path).with_context(failed)?);
    let Recording { topology, slices } = recording;
    if path.extension().is_some_and(|extension| extension == "html") {
        farside_trace::page(slices, topology, title, &mut file).with_context(failed)?;
    } else {
        farside_trace::chrome(slices, topology, &mut file).with_context(failed)?;
    }
    file.flush().with_context(failed)
}
