//! What `run` and `app` have in common: the options of a job, and how its end becomes ours.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use farside::Local;
use farside::job::{Kind, parse_bytes};
use farside_launch::{Launch, Output};

/// The options of a job.
#[derive(Args, Clone)]
pub(crate) struct Job {
    /// How many ranks the job has
    #[arg(short = 'n', long = "ranks", value_name = "N", value_parser = ranks)]
    ranks: u32,
    /// What moves bytes between ranks
    #[arg(long, value_name = "FABRIC", default_value = "shm", value_parser = |name: &str| name.parse::<Kind>())]
    fabric: Kind,
    /// End the job after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// How long the other ranks may go on after one has failed, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    grace: Duration,
    /// Let the other ranks go on after one has failed
    #[arg(long)]
    keep_going: bool,
    /// Say at each line of output which rank it is from
    #[arg(short, long)]
    label: bool,
    /// How much memory each rank may share, such as 512M or 4G
    #[arg(long, value_name = "BYTES", value_parser = |text: &str| parse_bytes(text))]
    memory: Option<u64>,
    /// Pretend that the ranks are arranged like this, such as node:2,socket:2
    #[arg(long, value_name = "LEVELS")]
    topology: Option<String>,
}

fn ranks(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(0) => Err("a job needs at least one rank".into()),
        Ok(ranks) => Ok(ranks),
        Err(error) => Err(error.to_string()),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

impl Job {
    /// How many ranks it has.
    pub(crate) fn ranks(&self) -> u32 {
        self.ranks
    }

    /// The same job with threads instead of processes.
    pub(crate) fn local(&self) -> Result<Local> {
        let job = Local::new(self.ranks)?;
        let job = self.topology.iter().fold(job, |job, topology| job.topology(topology));
        Ok(self.memory.into_iter().fold(job, Local::memory))
    }

    /// How they are to be arranged, if that was said.
    pub(crate) fn topology(&self) -> Option<&str> {
        self.topology.as_deref()
    }

    /// Runs a program as the ranks of this job, as if it were this process.
    pub(crate) fn run(self, program: OsString, arguments: Vec<OsString>) -> Result<ExitCode> {
        let me = std::env::current_exe().context("cannot find the running program")?;
        let mut launch = Launch::new(program, self.ranks)?
            .arguments(arguments)
            .output(Output::Forward { labels: self.label })
            .grace(self.grace)
            .keep_going(self.keep_going)
            .options(|options| {
                options.fabric = self.fabric;
                options.memory = self.memory.or(options.memory);
                options.topology = self.topology.or(options.topology.take());
            })
            .interactive()
            .keeper(me);
        if let Some(timeout) = self.timeout {
            launch = launch.timeout(timeout);
        }
        let status = launch.run()?.status;
        Ok(ExitCode::from(u8::try_from(status).unwrap_or(1)))
    }
}
