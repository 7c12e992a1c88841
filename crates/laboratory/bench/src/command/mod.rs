//! The command line of `farside bench`, and what its ranks do.

mod array;
mod collectives;
mod dht;
mod dsm;
mod interference;
mod irregular;
mod kind;
mod locks;
mod lu;
mod mpi;
mod ops;
mod overlap;
mod sharing;
mod shmem;
mod start;
mod sync;

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::{Args, Parser, Subcommand};
use farside_apps::output::check_target;
use farside_command::{Misuse, complain};
use farside_job::{Kind, parse_bytes};

use self::kind::KindOfRanks;
use crate::driver::{self, Plan, Setting};
use crate::load::{Beside, Spent, busy_before};
use crate::record::Record;
use crate::rivals::Rival;

/// Measures. What is compared takes turns in one run: on a shared machine only ratios hold.
#[derive(Parser)]
#[command(name = "farside-bench", bin_name = "farside bench", version)]
pub struct Arguments {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// Every one-sided operation, and the barrier
    ///
    /// An operation counts when it is complete at its target. `limit` is what no system can beat:
    /// the bare store and fence, atomic and copy, and for the barrier a futex round trip. Where
    /// ranks outnumber processors only the barrier is measured.
    Ops(ops::Arguments),
    /// Fences and barriers, apart and combined
    ///
    /// Every rank puts into every other, all meet, and then the synchronization alone is timed: the
    /// mean over many of the slowest rank. Barriers follow each other. `messages` is how many a
    /// rank sends for one, without the puts that it completes.
    Sync(sync::Arguments),
    /// Broadcasts, reductions, exchanges of all with all, and a pipeline of single values
    ///
    /// Each follows the other; broadcasts and reductions go to the next root each time. `bytes` is
    /// what a rank has in hand in the end. `pipeline` is a wavefront through a grid of 1024 x 1024
    /// cells, which every row hands on to the next rank.
    Collectives(collectives::Arguments),
    /// Jobs that begin and end, and windows
    ///
    /// A job is timed from the start of its launcher, which for farside is the running process,
    /// until all of its ranks have ended; a window from before it is allocated until it is freed.
    Start(start::Arguments),
    /// Locks, all ranks contending for one
    ///
    /// Beside the throughput stand the part of the least and of the most lucky rank, relative to an
    /// equal part, and the longest wait. On real ranks a case takes the given time; in virtual time
    /// every rank takes the lock a given number of times.
    Locks(locks::Arguments),
    /// The global array: its sync, patches, matrix products
    ///
    /// A patch is one of rank 0 to another rank, complete before the next; the sync is timed after
    /// every rank has written to all others ([ARMCI03] figure 7).
    Array(array::Arguments),
    /// The hash tables: one volume that all ranks use ([RMALOCK16] figure 6), and the mixes of YCSB
    ///
    /// On real ranks a case takes the given time; in virtual time every rank does a given number of
    /// operations. Redis and memcached get as many clients as there are ranks.
    Dht(dht::Arguments),
    /// Passive epochs: their latency, and how much computation they hide
    ///
    /// A computing target is one that does not call the library: what needs its help waits until it
    /// is done. `sender`: computation inside an epoch grows until the epoch takes longer.
    /// `receiver`: the target's computation, with and without the epochs of all others.
    Overlap(overlap::Arguments),
    /// LU factorization over windows, with its time split into lock, get, unlock, barrier and
    /// computation
    Lu(lu::Arguments),
    /// What serving far memory costs the host it is on
    ///
    /// Rank 0 is the home of a lock and counts, or sends to a third node, while others take the
    /// lock and give it back at a given rate; `kept` is what is left of what it does without them.
    /// `apart`: the home's rank has a processor alone, whoever serves and everybody else has the
    /// others. `shared`: whoever serves has the home's processor.
    Interference(interference::Arguments),
    /// Many small operations on other ranks' memory: a histogram, a gather, the transposition and
    /// the topological sort of a sparse matrix
    ///
    /// By an aggregator and, the first two, one by one; in OpenSHMEM one by one. Every result is
    /// checked.
    Irregular(irregular::Arguments),
    /// How transfers between two nodes share the way
    ///
    /// Small operations of rank 0 alone (idle) and while another rank moves 1 MiB at a time
    /// (beside_bulk); all ranks of the first node doing that (fair), and one beside a TCP stream of
    /// iperf3 (beside_tcp). Jain's index is 1 if all get the same, and 1 of n if one gets all.
    Sharing(sharing::Arguments),
    /// OpenSHMEM: one set of C programs, with farside's library and with Open MPI's
    ///
    /// Single operations of PE 0 on the last PE, collectives, and whole programs that check their
    /// result. Needs farside-oshcc, which `cargo xtask install --prefix DIR` puts beside farside,
    /// and Open MPI's oshcc and oshrun unless --alone is given.
    Shmem(shmem::Arguments),
    /// MPI's one-sided calls: one C program, with each MPI alone and with farside preloaded
    ///
    /// Single operations of rank 0 on rank 1, and those that all ranks do. Needs the libraries that
    /// `cargo xtask mpi` builds, and the MPIs of --against: mpich, openmpi; both by default.
    Mpi(mpi::Arguments),
    /// Programs on shared pages: tables 2 and 3 and figures 3 to 6 of [BST97]
    ///
    /// The barrier with a manager against the one along a tree, and pages that only rank 0 has at
    /// the start against zeroed ones everywhere. Each program is compared with a sequential run,
    /// unless it runs in virtual time.
    Dsm(dsm::Arguments),
}

/// What all benches can be told.
#[derive(Args)]
struct Common {
    #[command(flatten)]
    kind: KindOfRanks,
    /// Pretend that the simulated ranks are arranged like this, such as node:16
    #[arg(long, value_name = "LEVELS", requires = "sim")]
    topology: Option<String>,
    /// Divide the ranks into this many nodes, which reach each other over UDP or libfabric only,
    /// and the rivals' ranks over TCP only; programs on shared pages take several numbers
    #[arg(long, value_delimiter = ',', value_name = "K", conflicts_with = "sim")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    nodes: Vec<u32>,
    /// What connects the nodes: nic, or ofi; both take turns with --servers nic,ofi
    #[arg(long, value_name = "FABRIC", requires = "nodes", value_parser = between_nodes)]
    fabric: Option<Kind>,
    /// Over libfabric, the provider, such as tcp;ofi_rxm
    #[arg(long, value_name = "PROVIDER", env = "FARSIDE_PROVIDER")]
    provider: Option<String>,
    /// Who serves far memory: ofi for the agents of that fabric; nic, host-poll, host-spin-block,
    /// host-block; and, except in virtual time, nic-poll, nic-block
    ///
    /// The interface of a node, as a thread of the launcher, or a thread of the target's own
    /// process; it looks for requests all the time, for a while before it sleeps (nic,
    /// host-spin-block), or sleeps at once.
    #[arg(long, visible_alias = "server", value_delimiter = ',', value_name = "SERVER,…")]
    servers: Vec<String>,
    /// Rivals to measure in the same run: mpich, openmpi, openshmem; mpich+farside and
    /// openmpi+farside with farside preloaded; ga, openblas for arrays; redis, memcached for hash
    /// tables
    #[arg(long, value_delimiter = ',', value_name = "RIVAL,…")]
    against: Vec<String>,
    /// How long each case is measured in each round, in milliseconds; 20 by default, 100 for locks,
    /// interference, hash tables, shmem and mpi
    #[arg(long, value_name = "MS")]
    time: Option<u64>,
    /// How many rounds; a figure is the median of them
    #[arg(long, default_value_t = 5, value_name = "N")]
    rounds: u32,
    /// Also write the figures here, as one JSON object a line
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also draw them into this directory, with a page that shows them all
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,
}

/// What a bench shows.
struct Report {
    records: Vec<Record>,
    /// What was left out, and what went wrong with rivals.
    troubles: Vec<String>,
    table: String,
    plot: fn(&[Record], &Path) -> Result<()>,
}

/// Reads sizes such as `8,64K`.
fn parse_sizes(texts: &[String]) -> Result<Vec<usize>> {
    texts.iter().map(|text| Ok(parse_bytes(text)? as usize)).collect()
}

fn between_nodes(name: &str) -> Result<Kind, String> {
    let kind = name.parse::<Kind>().map_err(|error| error.to_string())?;
    if kind.spans_nodes() {
        Ok(kind)
    } else {
        Err(format!("{kind} connects no nodes; nic and ofi do"))
    }
}

/// Says, before something is measured, that the machine is busy already.
fn say_if_busy(setting: &Setting) {
    let load = || std::fs::read_to_string("/proc/loadavg").ok();
    if let Some(load) = load().filter(|_| setting.sim.is_none()) {
        let processors = std::thread::available_parallelism().map_or(1, |it| it.get() as u32);
        busy_before(&load, processors).iter().for_each(|busy| complain(busy));
    }
}

impl Common {
    fn setting(&self, ranks: Vec<u32>, usual_ms: u64) -> Result<Setting> {
        if let [_, _, ..] = self.nodes[..] {
            let nodes: Vec<String> = self.nodes.iter().map(u32::to_string).collect();
            let nodes = nodes.join(",");
            bail!(Misuse(format!("--nodes {nodes}: one number of nodes at a time here")));
        }
        let setting = self.setting_with(self.nodes.first().copied(), ranks, usual_ms)?;
        say_if_busy(&setting);
        Ok(setting)
    }

    fn setting_with(&self, nodes: Option<u32>, ranks: Vec<u32>, usual_ms: u64) -> Result<Setting> {
        let program = std::env::current_exe().context("cannot find the running program")?;
        let mut against = Vec::new();
        for word in &self.against {
            against.extend(Rival::parse(word).map_err(|error| Misuse(error.to_string()))?);
        }
        if nodes.is_some() {
            // It is a way to use shared memory.
            against.retain(|&rival| rival != Rival::OpenMpiSm);
        }
        // Better now than after minutes of measuring.
        if let Some(path) = &self.json {
            check_target(path).with_context(|| format!("cannot write {}", path.display()))?;
        }
        if let Some(directory) = &self.plot {
            std::fs::create_dir_all(directory)
                .with_context(|| format!("cannot make {}", directory.display()))?;
            let page = directory.join("index.html");
            check_target(&page).with_context(|| format!("cannot write {}", page.display()))?;
        }
        Ok(Setting {
            sim: self.kind.machine(self.topology.clone())?,
            nodes,
            link: None,
            servers: match (self.fabric, &self.servers[..]) {
                (Some(Kind::Ofi), []) => vec![driver::OFI.into()],
                (_, servers) => servers.to_vec(),
            },
            provider: self.provider.clone(),
            ranks,
            against,
            time: Duration::from_millis(self.time.unwrap_or(usual_ms)),
            rounds: self.rounds,
            build_directory: driver::build_directory(&program),
            program,
            progress: true,
        })
    }

    fn show(&self, report: &Report, beside: Option<Beside>) -> Result<ExitCode> {
        writeln!(std::io::stdout(), "{}", report.table)?;
        for trouble in &report.troubles {
            complain(trouble);
        }
        // Virtual time does not pass by what others do.
        let is_real = report.records.iter().all(|record| record.fabric != "sim");
        let busy = beside.filter(|_| is_real).and_then(|it| Some((it, it.warning()?)));
        if let Some((_, warning)) = &busy {
            complain(warning);
        }
        if let Some(path) = &self.json {
            write_json(path, &report.records, busy.map(|(beside, _)| beside))?;
        }
        if let Some(directory) = &self.plot {
            (report.plot)(&report.records, directory)?;
            writeln!(std::io::stdout(), "plots: {}", directory.join("index.html").display())?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Runs what the command line asks for.
pub fn run(arguments: Arguments) -> Result<ExitCode> {
    let before = Spent::now();
    let (common, report) = report(arguments.bench)?;
    let beside = before.zip(Spent::now()).map(|(before, now)| now.since(before));
    common.show(&report, beside)
}

/// Runs a bench by its arguments, as `farside bench` takes them, and returns its records.
pub fn records(words: &[String]) -> Result<Vec<Record>> {
    let name = ["farside bench".to_owned()];
    let arguments = Arguments::try_parse_from(name.iter().chain(words))?;
    let (_, report) = report(arguments.bench)?;
    Ok(report.records)
}

fn report(bench: Bench) -> Result<(Common, Report)> {
    match bench {
        Bench::Ops(arguments) => ops::run(arguments),
        Bench::Sync(arguments) => sync::run(arguments),
        Bench::Collectives(arguments) => collectives::run(arguments),
        Bench::Start(arguments) => start::run(arguments),
        Bench::Locks(arguments) => locks::run(arguments),
        Bench::Array(arguments) => array::run(arguments),
        Bench::Dht(arguments) => dht::run(arguments),
        Bench::Overlap(arguments) => overlap::run(arguments),
        Bench::Lu(arguments) => lu::run(arguments),
        Bench::Interference(arguments) => interference::run(arguments),
        Bench::Irregular(arguments) => irregular::run(arguments),
        Bench::Sharing(arguments) => sharing::run(arguments),
        Bench::Shmem(arguments) => shmem::run(arguments),
        Bench::Mpi(arguments) => mpi::run(arguments),
        Bench::Dsm(arguments) => dsm::run(arguments),
    }
}

/// Writes the records, with what others used of the machine if that was much.
fn write_json(path: &Path, records: &[Record], busy: Option<Beside>) -> Result<()> {
    let mut file =
        std::fs::File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    for record in records {
        let record = busy.iter().fold(record.clone(), |record, busy| {
            let record = record.figure("processors_used_by_others", busy.used);
            record.figure("processors_stolen", busy.stolen)
        });
        writeln!(file, "{}", record.to_json_line())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Does what a rank of a measurement does, if that is what the words of this program say.
pub fn rank(words: &[OsString]) -> Option<Result<ExitCode>> {
    let [_, word, name, rest @ ..] = words else { return None };
    let rest: Option<Vec<String>> =
        rest.iter().map(|word| word.to_str().map(str::to_owned)).collect();
    let (name, arguments) = (name.to_str()?, &rest?[..]);
    (word == driver::RANK).then(|| rank_of(name, arguments))
}

fn rank_of(name: &str, arguments: &[String]) -> Result<ExitCode> {
    match name {
        "ops" => run_rank::<crate::ops::Plan>(arguments),
        "sync" => run_rank::<crate::sync::Plan>(arguments),
        "collectives" => run_rank::<crate::collectives::Plan>(arguments),
        "start" => run_rank::<crate::start::Plan>(arguments),
        "locks" => run_rank::<crate::locks::Plan>(arguments),
        "array" => run_rank::<crate::array::Plan>(arguments),
        "dht" => run_rank::<crate::dht::Plan>(arguments),
        "overlap" => run_rank::<crate::overlap::Plan>(arguments),
        "lu" => run_rank::<crate::lu::Plan>(arguments),
        "interference" => run_rank::<crate::interference::Plan>(arguments),
        "irregular" => run_rank::<crate::irregular::Plan>(arguments),
        "sharing" => run_rank::<crate::sharing::Plan>(arguments),
        "dsm" => run_rank::<crate::dsm::Plan>(arguments),
        other => bail!("there is no bench {other:?}"),
    }
}

fn run_rank<P: Plan>(arguments: &[String]) -> Result<ExitCode> {
    let plan: P = driver::plan(arguments)?;
    let world = farside::join()?;
    for sample in plan.run(&world)? {
        writeln!(std::io::stdout(), "{sample}")?;
    }
    Ok(ExitCode::SUCCESS)
}
