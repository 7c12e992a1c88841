//! `farside why`: which ranks of a running job are stuck, and why.

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;
use farside_inspect::watch::Watch;
use farside_inspect::{FoundJob, Reader, Verdict, diagnose, find, page};
use serde_json::json;

use crate::complain;

/// What `farside why --help` says.
pub(crate) const ABOUT: &str = "Say which ranks of a running job are stuck, and why

Looks at a job of this user on this machine twice, without stopping or slowing it, and says on a
page where its ranks are and what they wait for. A job is stuck if nothing that its ranks do can
change that, and slow if ranks wait for others that can go on.

The status is 0 for a job that is healthy or slow, and 2 for one that is stuck.";

/// How soon the end of a job that is watched is noticed.
const STEP: Duration = Duration::from_millis(100);

/// The arguments of `farside why`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The process of the launcher, or of any rank; by default the only job that there is
    #[arg(value_name = "JOB")]
    job: Option<u32>,
    /// Print one JSON object: the diagnosis, and all that was read
    #[arg(long)]
    json: bool,
    /// Watch the job until it ends, and say what is wrong when ranks have waited for this many
    /// seconds
    #[arg(long, value_name = "SECONDS", value_parser = apart, conflicts_with = "json")]
    stuck_after: Option<Duration>,
    /// Seconds between the two samples
    #[arg(long, value_name = "SECONDS", default_value = "0.5", value_parser = apart)]
    interval: Duration,
}

/// A time between two looks.
pub(crate) fn apart(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected a number of seconds".to_owned())?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(Duration::ZERO) => Err("expected more than 0 seconds".into()),
        Ok(time) => Ok(time),
        Err(error) => Err(error.to_string()),
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let job: FoundJob = find(arguments.job)?;
    let reader = job.open()?;
    let title = format!("job {} ({})", job.id, job.command);
    if let Some(time) = arguments.stuck_after {
        watch(Watch::new(title, time), &job, &reader);
        return Ok(ExitCode::SUCCESS);
    }
    let before = reader.read();
    std::thread::park_timeout(arguments.interval);
    let after = reader.read();
    if after.ranks.is_empty() {
        bail!("job {} has no ranks", job.id);
    }
    let diagnosis = diagnose(&before, &after);
    let mut out = std::io::stdout().lock();
    if arguments.json {
        let all = json!({ "job": job.id, "command": job.command, "diagnosis": diagnosis,
            "snapshot": after });
        writeln!(out, "{all}")?;
    } else {
        write!(out, "{}", page::write(&title, &after, &diagnosis))?;
    }
    Ok(match diagnosis.verdict {
        Verdict::Stuck => ExitCode::from(2),
        Verdict::Slow | Verdict::Healthy => ExitCode::SUCCESS,
    })
}

/// Watches a job until it ends. Its end is noticed soon: whoever started it may wait for all that
/// share its standard error.
fn watch(mut watch: Watch, job: &FoundJob, reader: &Reader) {
    while !watch.is_over() {
        if let Some(seen) = watch.see(reader.read()) {
            complain(&seen.page);
        }
        let next = Instant::now() + watch.interval();
        while let left = next.saturating_duration_since(Instant::now())
            && !left.is_zero()
        {
            if !job.is_there() {
                return;
            }
            std::thread::park_timeout(left.min(STEP));
        }
    }
}
