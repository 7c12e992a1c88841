//! The options for the kind of ranks that a program runs on, the same for `run` and `app`.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use farside::fabric::observed::Operation;
use farside::fabric::tracing::Slice;
use farside::sim::{Profile, Virtual};
use farside_apps::output::check_target;
use farside_fabric::text::counted;
use farside_inspect::trace::Recorded;
use farside_job::{Entry, Recording, ReportFile, RunAs, Simulated};

use crate::job::{Job, some_seconds};
use crate::{Misuse, complain};

/// Where the last seconds of a job that has failed are written unless the user says otherwise.
const FLIGHT_FILE: &str = "farside-flight.html";

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
    ///
    /// Of ranks that are processes, the latest 32768 operations of each are kept, in memory that
    /// outlives them, and as many that each agent has executed for others. The clocks of several
    /// hosts are compared, and their times brought together.
    #[arg(long, value_name = "FILE", help_heading = "Recording")]
    trace: Option<PathBuf>,
    /// If the job fails, write what its ranks did in the last seconds before, into the file that
    /// --trace names or farside-flight.html
    #[arg(long, value_name = "SECONDS", value_parser = some_seconds, allow_negative_numbers = true)]
    #[arg(help_heading = "Recording")]
    flight: Option<Duration>,
}

/// How the operations of processes are recorded.
pub(crate) struct Recorder {
    path: PathBuf,
    /// Only if the job fails, what happened in this time before its end.
    flight: Option<Duration>,
}

/// What a program's entry is asked to do, with the file in which it answers.
pub(crate) struct Asked {
    pub(crate) entry: Entry,
    report: ReportFile,
    trace: Option<PathBuf>,
    options: String,
}

impl Mode {
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
            (None, false) => return Ok(None),
        };
        let why = "--flight is for ranks that are processes: leave it out, or --threads and --sim";
        ensure!(self.flight.is_none(), Misuse(why.into()));
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

    /// Returns how the operations of ranks that are processes are to be recorded, if they are.
    pub(crate) fn recorder(&self) -> Result<Option<Recorder>> {
        let is_recorded = self.trace.is_some() || self.flight.is_some();
        if self.sim.is_some() || self.threads || !is_recorded {
            return Ok(None);
        }
        let path = self.trace.clone().unwrap_or_else(|| FLIGHT_FILE.into());
        check_target(&path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Some(Recorder { path, flight: self.flight }))
    }

    fn simulated(&self, name: &str, job: &Job) -> Result<Simulated> {
        let topology = job.simulated()?;
        let (ranks, server) = (job.ranks()?, job.server());
        // Whatever is wrong with them is said here, and not by a program that has started.
        let machine = Profile::load(name)?;
        let machine = server.map_or(Ok(machine.clone()), |server| machine.served_by(server))?;
        let simulated = Virtual::new(&machine, ranks)?;
        topology.as_deref().map(|topology| simulated.topology(topology)).transpose()?;
        let profile = match name.ends_with(".toml") {
            true => std::path::absolute(name)
                .with_context(|| format!("cannot find {name}"))?
                .into_os_string()
                .into_string()
                .map_err(|path| anyhow::anyhow!("{} is not UTF-8", path.display()))?,
            false => name.to_owned(),
        };
        let server = server.map(str::to_owned);
        Ok(Simulated { profile, ranks, seed: self.seed, topology, server })
    }
}

impl Recorder {
    /// Writes the recording of a job that has ended with this status, and returns what is to be
    /// said of it.
    pub(crate) fn finish(
        self,
        program: &Path,
        status: i32,
        recording: Option<Recording>,
    ) -> Result<Vec<String>> {
        if self.flight.is_some() && status == 0 {
            return Ok(Vec::new());
        }
        let Some(mut recording) = recording.filter(|recording| !recording.slices.is_empty()) else {
            return Ok(vec![format!(
                "{} is not written: no rank of {} has joined the job",
                self.path.display(),
                program.display()
            )]);
        };
        if let Some(time) = self.flight {
            recording.keep_last(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        }
        write_trace(&self.path, &title(program), &recording)?;
        let dropped = recording.dropped;
        let earlier = match (dropped, self.flight) {
            (0, _) => String::new(),
            (_, Some(_)) => format!(", and not the {dropped} before them"),
            (_, None) => {
                format!(", the latest: there was no room for the {dropped} before them")
            }
        };
        let mut lines = vec![format!("{}{earlier}", described_file(&self.path, &recording))];
        if recording.clock_error_ns > 0 {
            let micros = recording.clock_error_ns as f64 / 1000.0;
            lines.push(format!("the clocks of different hosts agree within {micros:.0} us"));
        }
        if self.flight.is_some() {
            lines.push("last operation of each rank:".to_owned());
            lines.extend(recording.latest().iter().map(described));
        }
        Ok(lines)
    }
}

/// What a file that was written holds.
fn described_file(path: &Path, recording: &Recording) -> String {
    let kept = counted(recording.slices.len(), "operation");
    let served = match recording.services.len() {
        0 => String::new(),
        served => format!(" and {served} executed by agents"),
    };
    format!("{}: {kept}{served}", path.display())
}

/// An operation in words.
fn described(slice: &Slice) -> String {
    let Operation { kind, peer, bytes } = slice.operation;
    let (rank, kind) = (slice.rank, kind.name());
    let bytes = if bytes > 0 { format!(" of {}", counted(bytes, "byte")) } else { String::new() };
    let peer = peer.map_or(String::new(), |peer| format!(" with {peer}"));
    let over = if slice.end_ns == Slice::NOT_OVER { ", not over" } else { "" };
    format!("  {rank}: {kind}{bytes}{peer}{over}")
}

/// How a recording calls its program.
fn title(program: &Path) -> String {
    program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned()
}

impl Asked {
    /// Reads the answer after the program has ended with this status, writes the recording, and
    /// returns the summary. It is an error if nothing in the program has obeyed.
    pub(crate) fn finish(mut self, program: &Path, status: i32) -> Result<Vec<String>> {
        let report = self.report.read()?;
        if !report.taken {
            // One that was ended from outside had perhaps no time to answer, and one that could not
            // be started, or a wrapper around it, has said why.
            if matches!(status, 124 | 126 | 127) || status >= 128 {
                return Ok(Vec::new());
            }
            bail!(
                "{} ignores {}: it needs `#[farside::main] fn main(world: &World)`, so it ran as a \
                 single process",
                program.display(),
                self.options
            );
        }
        if let (Some(path), Some(recording)) = (&self.trace, &report.recording) {
            write_trace(path, &title(program), recording)?;
            complain(&described_file(path, recording));
        }
        Ok(report.summary)
    }
}

fn write_trace(path: &Path, title: &str, recording: &Recording) -> Result<()> {
    let failed = || format!("cannot write {}", path.display());
    let mut file = std::io::BufWriter::new(std::fs::File::create(path).with_context(failed)?);
    let Recording { topology, slices, services, clock_error_ns, .. } = recording;
    let recorded = Recorded { slices, services, topology, clock_error_ns: *clock_error_ns };
    if path.extension().is_some_and(|extension| extension == "html") {
        farside_inspect::trace::page(&recorded, title, &mut file).with_context(failed)?;
    } else {
        farside_inspect::trace::chrome(&recorded, &mut file).with_context(failed)?;
    }
    file.flush().with_context(failed)
}
