//! What `run` and `app` have in common: the options of a job, and how its end becomes ours.

pub(crate) mod start;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use farside_fabric::text::counted;
use farside_job::{Kind, Options, check_provider, parse_bytes};
use farside_launch::{Hosts, RSH};

use crate::Misuse;
use crate::races::Races;

/// The options of a job.
#[derive(Args, Clone)]
pub(crate) struct Job {
    /// Number of ranks; with --hosts, hosts listed without a number share the ranks that remain
    #[arg(short = 'n', long = "ranks", visible_alias = "np", value_name = "N")]
    #[arg(value_parser = ranks)]
    #[arg(required_unless_present = "hosts", allow_negative_numbers = true)]
    ranks: Option<u32>,
    /// What moves bytes between ranks: shm on one node, nic or ofi between several [default: shm,
    /// or nic with --nodes or --hosts, or what the variable FARSIDE_FABRIC names]
    #[arg(long, value_name = "FABRIC", value_parser = |name: &str| name.parse::<Kind>())]
    fabric: Option<Kind>,
    /// Divide the ranks into this many nodes on this machine, which reach each other over its
    /// loopback interface; with --sim, nodes of the simulated machine
    #[arg(long, value_name = "K", value_parser = nodes, conflicts_with = "hosts")]
    nodes: Option<u32>,
    #[command(flatten)]
    span: Span,
    /// Who executes far operations: nic, nic-poll or nic-block, an agent of the node; host-poll,
    /// host-spin-block or host-block, the process they are meant for; nic-apart, for tests, an
    /// agent whose atomics are not atomic with the processor's
    #[arg(long, value_name = "SERVER")]
    server: Option<String>,
    /// With --fabric ofi, the provider of libfabric, such as tcp;ofi_rxm [default: the best that
    /// fits; `fi_info` lists them]
    #[arg(long, value_name = "PROVIDER", env = "FARSIDE_PROVIDER", value_parser = provider)]
    provider: Option<String>,
    /// How long a node may be silent before it counts as lost, in seconds [default: 10]
    #[arg(long, alias = "patience", value_name = "SECONDS", value_parser = some_seconds)]
    #[arg(allow_negative_numbers = true)]
    peer_timeout: Option<Duration>,
    /// End the job after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = some_seconds, allow_negative_numbers = true)]
    timeout: Option<Duration>,
    /// When ranks have waited for this many seconds, report which ranks are stuck, and why
    ///
    /// The job goes on, unless --stuck-exit says otherwise. `farside why` says it at any time, and
    /// so does the signal QUIT (Ctrl-\).
    #[arg(long, value_name = "SECONDS", value_parser = some_seconds, allow_negative_numbers = true)]
    #[arg(env = "FARSIDE_STUCK_AFTER")]
    stuck_after: Option<Duration>,
    /// End the job, with status 125, when --stuck-after finds that ranks are stuck
    #[arg(long, requires = "stuck_after")]
    stuck_exit: bool,
    /// Print statistics of each rank at the end: operations, bytes, waits, sleeps
    #[arg(long)]
    stats: bool,
    /// Serve Prometheus metrics at this address, such as 127.0.0.1:9100
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    /// How long the other ranks may go on after one has failed, and how long ranks may take to end
    /// when a signal, --timeout or --stuck-exit asks them to (TERM, then KILL), in seconds
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    #[arg(allow_negative_numbers = true)]
    grace: Duration,
    /// Let the other ranks go on after one has failed
    #[arg(long)]
    keep_going: bool,
    /// Prefix each line of output with its rank
    #[arg(short, long)]
    label: bool,
    /// Set a variable in the environment of the ranks; without a value, its current value is used
    #[arg(long = "env", value_name = "NAME[=VALUE]", value_parser = variable)]
    variables: Vec<(String, OsString)>,
    /// Start the ranks in this directory, instead of the current one
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// How much memory each rank may share, such as 512M or 4G
    #[arg(long, value_name = "BYTES", value_parser = |text: &str| parse_bytes(text))]
    memory: Option<u64>,
    /// Assume this topology, such as node:2,socket:2, instead of the machine's own
    #[arg(long, value_name = "LEVELS", conflicts_with = "hosts")]
    topology: Option<String>,
    #[command(flatten)]
    races: Races,
}

/// The options of a job that spans hosts.
#[derive(Args, Clone)]
struct Span {
    /// Run on these hosts, as NAME, NAME:RANKS or NAME=ADDRESS:RANKS
    ///
    /// A list such as a:4,b:4. Each host is a node; ranks are numbered host by host. A host without
    /// a number has one rank, or its share of -n. ADDRESS is where the other hosts reach it; if it
    /// is not given, the host looks for it: what its name resolves to there, where ssh has reached
    /// it, from where it would reach the others, its only address. The ranks have the environment
    /// of their host, with the variables FARSIDE_… from here and those of --env.
    #[arg(long, value_name = "HOST,…")]
    hosts: Option<String>,
    /// How to reach a host: a command that runs another one there, with {host} for its name
    ///
    /// It is split into words as a shell does, and must pass standard input, output and error
    /// through. It cannot prompt for a password.
    #[arg(long, value_name = "TEMPLATE", env = "FARSIDE_RSH", default_value = RSH)]
    rsh: String,
    /// Path of farside on the hosts [default: the same path as here]
    #[arg(long, value_name = "PATH", requires = "hosts")]
    remote_farside: Option<PathBuf>,
    /// How long the hosts may take until all are ready, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = some_seconds)]
    #[arg(allow_negative_numbers = true)]
    start_timeout: Duration,
}

fn ranks(text: &str) -> Result<u32, String> {
    match text.parse::<i64>() {
        Ok(..=0) => Err("a job needs at least one rank".into()),
        Ok(ranks) => u32::try_from(ranks).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// A time that is not over before anything has happened.
pub(crate) fn some_seconds(text: &str) -> Result<Duration, String> {
    match seconds(text)? {
        Duration::ZERO => Err("expected more than 0 seconds".into()),
        some => Ok(some),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

fn provider(text: &str) -> Result<String, String> {
    check_provider(text).map_err(|error| error.to_string())?;
    Ok(text.to_owned())
}

fn nodes(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(0) => Err("a job needs at least one node".into()),
        Ok(nodes) => Ok(nodes),
        Err(error) => Err(error.to_string()),
    }
}

fn variable(text: &str) -> Result<(String, OsString), String> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.into())),
        None => (text, std::env::var_os(text)),
    };
    // Shells take fewer, and export functions under names that no shell takes; but none has a space
    // in it.
    if name.is_empty()
        || name.contains(|letter: char| letter.is_whitespace() || letter.is_control())
    {
        return Err("expected NAME or NAME=VALUE, and no space in NAME".into());
    }
    let unset =
        || format!("there is no such variable here; give it a value with --env {name}=VALUE");
    Ok((name.to_owned(), value.ok_or_else(unset)?))
}

impl Job {
    /// How many ranks it has.
    pub(crate) fn ranks(&self) -> Result<u32> {
        match self.span.hosts(self.ranks)? {
            Some(hosts) => Ok(hosts.ranks()),
            None => self.ranks.context("how many ranks? Say it with -n"),
        }
    }

    /// Returns the same job with threads instead of processes.
    pub(crate) fn threads(&self) -> Result<Options> {
        let ranks = self.ranks()?;
        let fabric = self.fabric(ranks, self.span.hosts.is_some())?;
        if fabric.spans_nodes() && self.nodes.is_none() {
            bail!(Misuse("threads run on this machine; --nodes divides them into nodes".into()));
        }
        let one_output = "--label: threads write to one output; leave it out";
        ensure!(!self.label, Misuse(one_output.into()));
        let mut options = Options::new(ranks)?;
        self.describe(fabric, &mut options);
        Ok(options)
    }

    /// Adds to the description of a job what was said here.
    fn describe(&self, fabric: Kind, options: &mut Options) {
        options.fabric = fabric;
        options.nodes = self.nodes;
        options.server = self.server.clone();
        options.provider = self.provider.clone().or(options.provider.take());
        options.peer_timeout = self.peer_timeout;
        options.memory = self.memory.or(options.memory);
        options.topology = self.topology.clone().or(options.topology.take());
    }

    /// Returns how simulated ranks are to be arranged, if that was said. Refuses options that
    /// mean nothing to them.
    pub(crate) fn simulated(&self) -> Result<Option<String>> {
        for (option, is_given) in [
            ("--hosts", self.span.hosts.is_some()),
            ("--fabric", self.fabric.is_some()),
            ("--memory", self.memory.is_some()),
            ("--label", self.label),
        ] {
            let real = format!("{option} is for ranks on real machines: leave it out, or --sim");
            ensure!(!is_given, Misuse(real));
        }
        let Some(nodes) = self.nodes else {
            return Ok(self.topology.clone());
        };
        if let Some(topology) = &self.topology {
            bail!(Misuse(format!(
                "--nodes {nodes} and --topology {topology} both arrange the simulated ranks: leave \
                 out one of them"
            )));
        }
        self.check_nodes(self.ranks()?)?;
        Ok(Some(format!("node:{nodes}")))
    }

    /// Returns the server of far operations, if one was named.
    pub(crate) fn server(&self) -> Option<&str> {
        self.server.as_deref()
    }

    /// Several nodes need a fabric between them.
    fn fabric(&self, ranks: u32, spans_hosts: bool) -> Result<Kind> {
        let several = spans_hosts || self.nodes.is_some();
        self.check_nodes(ranks)?;
        let (named, by) = match self.fabric {
            Some(kind) => (Some(kind), "--fabric "),
            None => (Kind::from_environment()?, "FARSIDE_FABRIC="),
        };
        match named {
            Some(Kind::Shm) if several => bail!(Misuse(format!(
                "{by}shm connects the ranks of one node only: use nic or ofi for several"
            ))),
            Some(kind) => Ok(kind),
            None if several => Ok(Kind::between_nodes()?),
            None => Ok(Kind::Shm),
        }
    }

    fn check_nodes(&self, ranks: u32) -> Result<()> {
        match self.nodes {
            Some(nodes) if nodes > ranks => {
                let ranks = counted(ranks, "rank");
                bail!(Misuse(format!(
                    "--nodes {nodes}: there are {ranks}, but each node needs at least one"
                )))
            }
            _ => Ok(()),
        }
    }
}

impl Span {
    fn hosts(&self, ranks: Option<u32>) -> Result<Option<Hosts>> {
        let Some(list) = &self.hosts else {
            return Ok(None);
        };
        let mut hosts =
            Hosts::parse(list, ranks)?.rsh(&self.rsh)?.start_timeout(self.start_timeout);
        if let Some(program) = &self.remote_farside {
            hosts = hosts.program(program.clone());
        }
        Ok(Some(hosts))
    }
}
