//! The command line of `farside bench`, and what its ranks do.

mod kind;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::{Args, Parser, Subcommand};
use farside_apps::output::check_target;
use farside_command::{Misuse, complain};
use farside_job::Kind;

use self::kind::KindOfRanks;
use crate::driver::{self, Bench, Findings, Plan, Setting};
use crate::load::{Beside, Spent, busy_before};
use crate::record::Record;
use crate::report::{Plot, write_plots};
use crate::rivals::Rival;
use crate::{
    array, collectives, dht, dsm, interference, irregular, locks, lu, mpi, ops, overlap, sharing,
    shmem, start, sync,
};

/// Measures. What is compared takes turns in one run: on a shared machine only ratios hold.
#[derive(Parser)]
#[command(name = "farside-bench", bin_name = "farside bench", version)]
pub struct Arguments {
    #[command(subcommand)]
    bench: Asked,
}

#[derive(Subcommand)]
enum Asked {
    /// Every one-sided operation, and the barrier
    ///
    /// An operation counts when it is complete at its target. `limit` is what no system can beat:
    /// the bare store and fence, atomic and copy, and for the barrier a futex round trip. Where
    /// ranks outnumber processors only the barrier is measured.
    Ops(For<ops::Options>),
    /// Fences and barriers, apart and combined
    ///
    /// Every rank puts into every other, all meet, and then the synchronization alone is timed: the
    /// mean over many of the slowest rank. Barriers follow each other. `messages` is how many a
    /// rank sends for one, without the puts that it completes.
    Sync(For<sync::Options>),
    /// Broadcasts, reductions, exchanges of all with all, and a pipeline of single values
    ///
    /// Each follows the other; broadcasts and reductions go to the next root each time. `bytes` is
    /// what a rank has in hand in the end. `pipeline` is a wavefront through a grid of 1024 x 1024
    /// cells, which every row hands on to the next rank.
    Collectives(For<collectives::Options>),
    /// Jobs that begin and end, and windows
    ///
    /// A job is timed from the start of its launcher, which for farside is the running process,
    /// until all of its ranks have ended; a window from before it is allocated until it is freed.
    Start(For<start::Options>),
    /// Locks, all ranks contending for one
    ///
    /// Beside the throughput stand the part of the least and of the most lucky rank, relative to an
    /// equal part, and the longest wait. On real ranks a case takes the given time; in virtual time
    /// every rank takes the lock a given number of times.
    Locks(For<locks::Options>),
    /// The global array: its sync, patches, matrix products
    ///
    /// A patch is one of rank 0 to another rank, complete before the next; the sync is timed after
    /// every rank has written to all others ([ARMCI03] figure 7).
    Array(For<array::Options>),
    /// The hash tables: one volume that all ranks use ([RMALOCK16] figure 6), and the mixes of YCSB
    ///
    /// On real ranks a case takes the given time; in virtual time every rank does a given number of
    /// operations. Redis and memcached get as many clients as there are ranks.
    Dht(For<dht::Options>),
    /// Passive epochs: their latency, and how much computation they hide
    ///
    /// A computing target is one that does not call the library: what needs its help waits until it
    /// is done. `sender`: computation inside an epoch grows until the epoch takes longer.
    /// `receiver`: the target's computation, with and without the epochs of all others.
    Overlap(For<overlap::Options>),
    /// LU factorization over windows, with its time split into lock, get, unlock, barrier and
    /// computation
    Lu(For<lu::Options>),
    /// What serving far memory costs the host it is on
    ///
    /// Rank 0 is the home of a lock and counts, or sends to a third node, while others take the
    /// lock and give it back at a given rate; `kept` is what is left of what it does without them.
    /// `apart`: the home's rank has a processor alone, whoever serves and everybody else has the
    /// others. `shared`: whoever serves has the home's processor.
    Interference(For<interference::Options>),
    /// Many small operations on other ranks' memory: a histogram, a gather, the transposition and
    /// the topological sort of a sparse matrix
    ///
    /// By an aggregator and, the first two, one by one; in OpenSHMEM one by one. Every result is
    /// checked.
    Irregular(For<irregular::Options>),
    /// How transfers between two nodes share the way
    ///
    /// Small operations of rank 0 alone (idle) and while another rank moves 1 MiB at a time
    /// (beside_bulk); all ranks of the first node doing that (fair), and one beside a TCP stream of
    /// iperf3 (beside_tcp). Jain's index is 1 if all get the same, and 1 of n if one gets all.
    Sharing(For<sharing::Options>),
    /// OpenSHMEM: one set of C programs, with farside's library and with Open MPI's
    ///
    /// Single operations of PE 0 on the last PE, collectives, and whole programs that check their
    /// result. Needs farside-oshcc, which `cargo xtask install --prefix DIR` puts beside farside,
    /// and Open MPI's oshcc and oshrun unless --alone is given.
    Shmem(For<shmem::Options>),
    /// MPI's one-sided calls: one C program, with each MPI alone and with farside preloaded
    ///
    /// Single operations of rank 0 on rank 1, and those that all ranks do. Needs the libraries that
    /// `cargo xtask mpi` builds, and the MPIs of --against: mpich, openmpi; both by default.
    Mpi(For<mpi::Options>),
    /// Programs on shared pages: tables 2 and 3 and figures 3 to 6 of [BST97]
    ///
    /// The barrier with a manager against the one along a tree, and pages that only rank 0 has at
    /// the start against zeroed ones everywhere. Each program is compared with a sequential run,
    /// unless it runs in virtual time.
    Dsm(For<dsm::Options>),
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

/// What one bench is told.
#[derive(Args)]
struct For<B: Bench> {
    #[arg(long, value_delimiter = ',', default_value = B::RANKS, value_name = "N,…")]
    #[arg(help = B::RANKS_HELP)]
    ranks: Vec<u32>,
    #[command(flatten)]
    own: B,
    #[command(flatten)]
    common: Common,
}

/// What a bench has found, and how to show it.
struct Report {
    found: Findings,
    title: String,
    table: fn(&[Record]) -> String,
    plots: fn(&[Record]) -> Vec<Plot>,
}

/// A bench of any kind, with what it is told.
trait AnyBench {
    fn common(&self) -> &Common;
    fn report(&self) -> Result<Report>;
    #[cfg(test)]
    fn survivors(&self) -> Vec<[serde_json::Value; 2]>;
}

impl<B: Bench> For<B> {
    /// One for each number of nodes, the smallest first; what is wrong with one of several is said
    /// before anything is measured.
    fn settings(&self) -> Result<Vec<Setting>> {
        let common = &self.common;
        let numbers: BTreeSet<u32> = common.nodes.iter().copied().collect();
        if common.nodes.len() > 1 && !B::TAKES_SEVERAL_NODES {
            let nodes: Vec<String> = common.nodes.iter().map(u32::to_string).collect();
            let nodes = nodes.join(",");
            bail!(Misuse(format!("--nodes {nodes}: one number of nodes at a time here")));
        }
        let of = |nodes: Option<u32>| {
            let ranks = match (&self.ranks[..], nodes) {
                ([], None) => vec![2, 4, 8],
                ([], Some(nodes)) => vec![nodes],
                (ranks, _) => ranks.to_vec(),
            };
            common.setting(nodes, ranks, B::TIME_MS)
        };
        let settings: Vec<Setting> = match numbers.is_empty() {
            true => vec![of(None)?],
            false => numbers.into_iter().map(|nodes| of(Some(nodes))).collect::<Result<_>>()?,
        };
        if B::TAKES_SEVERAL_NODES {
            settings.iter().try_for_each(|setting| setting.check(1))?;
        }
        settings.first().into_iter().for_each(say_if_busy);
        Ok(settings)
    }
}

impl<B: Bench> AnyBench for For<B> {
    fn common(&self) -> &Common {
        &self.common
    }

    fn report(&self) -> Result<Report> {
        let mut found = Findings::default();
        for setting in self.settings()? {
            let more = self.own.measure(setting)?;
            found.records.extend(more.records);
            found.troubles.extend(more.troubles);
        }
        let title = format!("farside bench {}", B::Plan::BENCH);
        Ok(Report { found, title, table: B::table, plots: B::plots })
    }

    /// The plans, and what they are after they went to a rank.
    #[cfg(test)]
    fn survivors(&self) -> Vec<[serde_json::Value; 2]> {
        let mut setting = self.settings().unwrap().remove(0);
        let jobs = self.own.jobs(&mut setting).unwrap();
        let survive = |at: &driver::AtRanks<B::Plan>| {
            let word = serde_json::to_string(&at.plan).unwrap();
            let read: B::Plan = driver::plan(&[word]).unwrap();
            assert_eq!(read.arguments(), at.plan.arguments());
            [&at.plan, &read].map(|plan| serde_json::to_value(plan).unwrap())
        };
        jobs.plans.iter().map(survive).collect()
    }
}

impl Asked {
    fn any(&self) -> &dyn AnyBench {
        match self {
            Asked::Ops(bench) => bench,
            Asked::Sync(bench) => bench,
            Asked::Collectives(bench) => bench,
            Asked::Start(bench) => bench,
            Asked::Locks(bench) => bench,
            Asked::Array(bench) => bench,
            Asked::Dht(bench) => bench,
            Asked::Overlap(bench) => bench,
            Asked::Lu(bench) => bench,
            Asked::Interference(bench) => bench,
            Asked::Irregular(bench) => bench,
            Asked::Sharing(bench) => bench,
            Asked::Shmem(bench) => bench,
            Asked::Mpi(bench) => bench,
            Asked::Dsm(bench) => bench,
        }
    }
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
    fn setting(&self, nodes: Option<u32>, ranks: Vec<u32>, usual_ms: u64) -> Result<Setting> {
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
        let Report { found: Findings { records, troubles }, title, table, plots } = report;
        writeln!(std::io::stdout(), "{}", table(records))?;
        for trouble in troubles {
            complain(trouble);
        }
        // Virtual time does not pass by what others do.
        let is_real = records.iter().all(|record| record.fabric != "sim");
        let busy = beside.filter(|_| is_real).and_then(|it| Some((it, it.warning()?)));
        if let Some((_, warning)) = &busy {
            complain(warning);
        }
        if let Some(path) = &self.json {
            write_json(path, records, busy.map(|(beside, _)| beside))?;
        }
        if let Some(directory) = &self.plot {
            write_plots(title, directory, &plots(records))?;
            writeln!(std::io::stdout(), "plots: {}", directory.join("index.html").display())?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Runs what the command line asks for.
pub fn run(arguments: Arguments) -> Result<ExitCode> {
    let before = Spent::now();
    let bench = arguments.bench.any();
    let report = bench.report()?;
    let beside = before.zip(Spent::now()).map(|(before, now)| now.since(before));
    bench.common().show(&report, beside)
}

/// Runs a bench by its arguments, as `farside bench` takes them, and returns its records.
pub fn records(words: &[String]) -> Result<Vec<Record>> {
    let name = ["farside bench".to_owned()];
    let arguments = Arguments::try_parse_from(name.iter().chain(words))?;
    Ok(arguments.bench.any().report()?.found.records)
}

/// The same of one line of words, all of which must be right.
#[cfg(test)]
pub(crate) fn records_of(line: &str) -> Vec<Record> {
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    records(&words).unwrap_or_else(|error| panic!("{line}: {error:#}"))
}

/// The options and the setting of a line of words, the first of which is a name.
#[cfg(test)]
pub(crate) fn asked_of<'a, B: Bench>(words: impl Iterator<Item = &'a str>) -> (B, Setting) {
    let command = For::<B>::augment_args(clap::Command::new("bench"));
    let matches = command.try_get_matches_from(words).unwrap();
    let asked = <For<B> as clap::FromArgMatches>::from_arg_matches(&matches).unwrap();
    let setting = asked.settings().unwrap().remove(0);
    (asked.own, setting)
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
        "ops" => run_rank::<ops::Plan>(arguments),
        "sync" => run_rank::<sync::Plan>(arguments),
        "collectives" => run_rank::<collectives::Plan>(arguments),
        "start" => run_rank::<start::Plan>(arguments),
        "locks" => run_rank::<locks::Plan>(arguments),
        "array" => run_rank::<array::Plan>(arguments),
        "dht" => run_rank::<dht::Plan>(arguments),
        "overlap" => run_rank::<overlap::Plan>(arguments),
        "lu" => run_rank::<lu::Plan>(arguments),
        "interference" => run_rank::<interference::Plan>(arguments),
        "irregular" => run_rank::<irregular::Plan>(arguments),
        "sharing" => run_rank::<sharing::Plan>(arguments),
        "dsm" => run_rank::<dsm::Plan>(arguments),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_survive_the_command_line_of_a_rank() {
        for (line, plans) in [
            ("ops --ranks 2 --cases put,fetch_add,barrier --sizes 8,64", 3),
            ("sync --ranks 2,4 --cases sync,barrier --bytes 64", 2),
            ("collectives --ranks 2 --cases reduce,pipeline --sizes 240", 2),
            ("start --ranks 2 --cases join,window", 2),
            ("locks --ranks 2 --locks d-mcs,rma-rw --t-dc 2 --t-l 20-50 --writers 0.2,100", 2),
            ("array --ranks 2 --cases sync,matmul --shapes 64x8,1x131072", 1),
            ("dht --ranks 2 --cases volume,ycsb-a --writers 0,2.5 --locks atomics,rma-rw", 1),
            ("overlap --ranks 2 --cases latency --sizes 8,64 --operations 1,4", 1),
            ("lu --ranks 2 --sizes 256,512 --block 32 --refetch --ahead", 1),
            ("interference --ranks 2 --cases cpu,lock --loads 0,1000 --sim myrinet-2000", 1),
            ("irregular --ranks 2 --operations 4096", 4),
            ("sharing --nodes 2", 3),
            ("shmem --ranks 2 --alone", 5),
            ("mpi --ranks 2,8", 2),
            ("dsm --ranks 2 --cases sor --barrier tree --start zero", 1),
        ] {
            let words = ["farside"].into_iter().chain(line.split(' '));
            let asked = Arguments::try_parse_from(words).unwrap().bench;
            let survivors = asked.any().survivors();
            assert_eq!(survivors.len(), plans, "{line}");
            assert!(survivors.iter().all(|[plan, read]| plan == read), "{line}: {survivors:?}");
        }
        assert!(driver::plan::<lu::Plan>(&["{}".to_owned()]).is_err());
        assert!(driver::plan::<lu::Plan>(&[]).is_err());
    }
}
