//! Starts the processes of a job, watches them, and leaves nothing behind.
//!
//! All ranks are in one process group and in the session of the launcher: a session of its own for
//! each rank would make the scheduler treat them as rivals. The launcher is their parent, so it
//! hears of a death at once, and tells the other ranks; should the launcher itself be killed, the
//! system kills the ranks.
//!
//! If a job spans hosts, a daemon on each of them does the same for the ranks of its node, and the
//! launcher talks to the daemons over their standard input and output.
//!
//! ```no_run
//! let launch = farside_launch::Launch::new("target/release/my-program", 4)?;
//! let report = launch.argument("--size=100").run()?;
//! std::process::exit(report.status);
//! # Ok::<(), farside_launch::Error>(())
//! ```

mod channel;
mod clocks;
mod cluster;
mod console;
mod daemon;
mod frames;
mod hosts;
mod http;
mod input;
mod lines;
mod local_ranks;
mod mark;
mod metrics;
mod output;
mod policy;
mod processes;
mod reaper;
mod recorded;
mod remote;
mod service;
mod signals;
mod supervisor;
mod watcher;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use farside_fabric::{ExitCause, Rank};
use farside_job::{Options, Recording, environment};

use console::Console;
pub use daemon::node;
pub use hosts::{Hosts, RSH};
pub use reaper::reap;
pub use service::Service;

/// The reason why a job could not be started or watched.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program could not be started.
    #[error(
        "cannot start {program:?} as {rank}{}: {error}{}",
        .directory.as_ref().map_or(String::new(), |at| format!(" in {}", at.display())),
        advice(.program, .error)
    )]
    Start {
        /// The program.
        program: OsString,
        /// The directory in which it was to start, if not in that of the launcher.
        directory: Option<PathBuf>,
        /// As which rank.
        rank: Rank,
        /// The error of the system.
        error: std::io::Error,
    },
    /// The job's memory could not be made, or its description is wrong.
    #[error("{}{}", .0, job_advice(.0))]
    Job(farside_fabric::Error),
    /// The ranks cannot start in this directory.
    #[error("cannot go to the directory {}: {error}", .directory.display())]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// The error of the system.
        error: std::io::Error,
    },
    /// A host could not be made part of the job.
    #[error("host {host}: {why}")]
    Host {
        /// The host.
        host: String,
        /// The reason, and the way out.
        why: String,
    },
    /// The metrics cannot be served.
    #[error("cannot serve metrics at {address}: {error}; choose another address")]
    Metrics {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        error: String,
    },
    /// The system refused something that the launcher needs.
    #[error("{what}: {error}{}", files_advice(.error))]
    System {
        /// The call that was refused.
        what: &'static str,
        /// The error of the system.
        error: std::io::Error,
    },
}

fn advice(program: &std::ffi::OsStr, error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::NotFound if program.as_encoded_bytes().contains(&b'/') => {
            "; no such file, or the interpreter on its first line does not exist"
        }
        std::io::ErrorKind::NotFound => {
            "; it is not on PATH (a program of this directory is called ./NAME)"
        }
        std::io::ErrorKind::PermissionDenied => "; is it executable?",
        _ => files_advice(error),
    }
}

fn files_advice(error: &std::io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(errno) if errno == rustix::io::Errno::MFILE.raw_os_error() => {
            "; a launcher needs a dozen, and three for each rank: raise the limit with `ulimit -n \
             4096`"
        }
        _ => "",
    }
}

impl From<farside_fabric::Error> for Error {
    fn from(error: farside_fabric::Error) -> Error {
        Error::Job(error)
    }
}

fn job_advice(error: &farside_fabric::Error) -> &'static str {
    match error {
        farside_fabric::Error::System { errno, .. } => {
            files_advice(&std::io::Error::from_raw_os_error(*errno))
        }
        farside_fabric::Error::AddressSpace { .. } => " (`--memory`, or FARSIDE_MEMORY)",
        _ => "",
    }
}

/// The destination of the ranks' output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// It is written on line by line; with `labels`, each line says which rank it is from.
    Forward {
        /// True for labels.
        labels: bool,
    },
    /// Standard output is kept for the report; standard error is written on.
    Capture,
}

/// A job that is about to be started.
#[derive(Debug, Clone)]
pub struct Launch {
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) options: Options,
    pub(crate) output: Output,
    pub(crate) timeout: Option<Duration>,
    pub(crate) grace: Duration,
    pub(crate) keep_going: bool,
    pub(crate) interactive: bool,
    /// True if this process exists for the job alone, and may end everything that descends from it.
    pub(crate) is_own_process: bool,
    pub(crate) reaper: Option<PathBuf>,
    pub(crate) directory: Option<PathBuf>,
    pub(crate) hosts: Option<Hosts>,
    pub(crate) stuck_after: Option<Duration>,
    pub(crate) stuck_exit: bool,
    pub(crate) stats: bool,
    pub(crate) metrics: Option<SocketAddr>,
}

/// The failure of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// The rank.
    pub rank: Rank,
    /// The cause of its end.
    pub how: ExitCause,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&policy::describe_ends(&[self.rank], self.how))
    }
}

/// The end of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Zero, or the status of the first rank that failed: 128 and the signal's number if a signal
    /// ended it, or if one asked the job to end and no rank failed; 124 if time was up, 125 if it
    /// was ended because ranks were stuck.
    pub status: i32,
    /// The ranks that failed, in the order in which it was noticed.
    pub failures: Vec<Failure>,
    /// The ranks' standard output, if it was captured: whole lines, one rank's in its order.
    pub stdout: Vec<u8>,
    /// True if time was up.
    pub timed_out: bool,
    /// The hosts that were lost, in the order in which it was noticed.
    pub hosts_lost: Vec<String>,
    /// The latest operations of all ranks, if the job was recorded.
    pub recording: Option<Recording>,
}

impl Report {
    /// Returns the reason why the job has failed, as its launcher would say it: that it timed out,
    /// or which rank failed first.
    pub fn failure(&self) -> String {
        match self.failures.first() {
            _ if self.timed_out => "it timed out".to_owned(),
            Some(failure) => failure.to_string(),
            None => format!("its status was {}", self.status),
        }
    }
}

impl Launch {
    /// A job of `ranks` processes that run `program`.
    pub fn new(program: impl Into<OsString>, ranks: u32) -> Result<Launch, Error> {
        Ok(Launch {
            program: program.into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            options: Options::new(ranks)?,
            output: Output::Capture,
            timeout: None,
            grace: Duration::from_secs(5),
            keep_going: false,
            interactive: false,
            is_own_process: false,
            reaper: None,
            directory: None,
            hosts: None,
            stuck_after: None,
            stuck_exit: false,
            stats: false,
            metrics: None,
        })
    }

    /// Adds an argument of the program.
    #[must_use]
    pub fn argument(mut self, argument: impl Into<OsString>) -> Launch {
        self.arguments.push(argument.into());
        self
    }

    /// Adds arguments of the program.
    #[must_use]
    pub fn arguments(mut self, arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Launch {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets a variable in the ranks' environment, which is otherwise this process's.
    #[must_use]
    pub fn variable(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Launch {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Changes what the job is like.
    #[must_use]
    pub fn options(mut self, change: impl FnOnce(&mut Options)) -> Launch {
        change(&mut self.options);
        self
    }

    /// Sets the destination of the output; by default it is captured.
    #[must_use]
    pub fn output(mut self, output: Output) -> Launch {
        self.output = output;
        self
    }

    /// Ends the job after this time.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Launch {
        self.timeout = Some(timeout);
        self
    }

    /// Says who is stuck and why when ranks have waited for this time.
    #[must_use]
    pub fn stuck_after(mut self, time: Duration) -> Launch {
        self.stuck_after = Some(time);
        self
    }

    /// Ends a job of which ranks are stuck, when that is said.
    #[must_use]
    pub fn stuck_exit(mut self, ends: bool) -> Launch {
        self.stuck_exit = ends;
        self
    }

    /// Says at the end what each rank has done: operations, bytes, waits, sleeps.
    #[must_use]
    pub fn stats(mut self, says: bool) -> Launch {
        self.stats = says;
        self
    }

    /// Serves what the ranks do at this address, as Prometheus reads it, while the job runs.
    #[must_use]
    pub fn metrics(mut self, address: SocketAddr) -> Launch {
        self.metrics = Some(address);
        self
    }

    /// Sets the time for which the other ranks may go on after one has failed, to end with errors
    /// of their own, and that ranks may take to end when a signal, a time limit or
    /// [`Launch::stuck_exit`] asks them to.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Launch {
        self.grace = grace;
        self
    }

    /// Lets the other ranks go on after one has failed.
    #[must_use]
    pub fn keep_going(mut self, keep_going: bool) -> Launch {
        self.keep_going = keep_going;
        self
    }

    /// For a launcher that is a process of its own: passes standard input to rank 0, forwards
    /// signals, reports failures on standard error, and adopts whatever processes the ranks leave
    /// behind in order to end them.
    #[must_use]
    pub fn interactive(mut self) -> Launch {
        self.interactive = true;
        self.is_own_process = true;
        self
    }

    /// The directory in which the ranks start; by default that of this process, on other hosts too.
    #[must_use]
    pub fn directory(mut self, directory: PathBuf) -> Launch {
        self.directory = Some(directory);
        self
    }

    /// Runs the job on these hosts, each of which is a node of it. It then has as many ranks as
    /// they have together.
    ///
    /// The environment of the ranks is that of the host, with the variables of [`Launch::variable`]
    /// and those of this process that begin with `FARSIDE_`.
    #[must_use]
    pub fn hosts(mut self, hosts: Hosts) -> Launch {
        self.options.ranks = hosts.ranks();
        if !self.options.fabric.spans_nodes() {
            self.options.fabric = farside_job::Kind::Nic;
        }
        self.hosts = Some(hosts);
        self
    }

    /// A program that calls [`reap`] when it is started with the argument `__keep`: it ends the
    /// job's processes should the launcher be killed.
    #[must_use]
    pub fn reaper(mut self, program: PathBuf) -> Launch {
        self.reaper = Some(program);
        self
    }

    /// Runs the job to its end.
    ///
    /// The ranks are children of this process. If the program waits for them itself, as one that
    /// waits for any child does (`waitpid(-1, …)`) or that ignores `SIGCHLD`, their statuses are
    /// lost: such a rank counts as failed, with status 255.
    pub fn run(self) -> Result<Report, Error> {
        if self.interactive {
            let own: Vec<OsString> = std::env::vars_os().map(|(name, _)| name).collect();
            let names: BTreeSet<&OsStr> = own
                .iter()
                .chain(self.environment.iter().map(|(name, _)| name))
                .map(OsString::as_os_str)
                .collect();
            environment::warn_of_unknown(names);
        }
        let console = Console::open()?;
        let report = match &self.hosts {
            None => supervisor::run(&self, &console),
            Some(hosts) => cluster::run(&self, hosts, &console),
        };
        console.close();
        report
    }
}

pub(crate) fn system(what: &'static str) -> impl Fn(rustix::io::Errno) -> Error {
    move |errno| Error::System { what, error: errno.into() }
}
