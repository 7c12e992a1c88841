//! Drives every bench: the systems that it compares take turns, round by round, print samples, and
//! samples become records.

mod samples;
mod system;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use farside::{Rank, World};
use farside_job::parse_bytes;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cores::Cores;
use crate::link::Link;
use crate::machine::Machine;
use crate::record::Record;
use crate::report::Plot;
use crate::rivals::Rival;

use self::samples::Samples;
pub use self::samples::sample;
pub(crate) use self::system::RANK;
use self::system::System;
pub use crate::record::FARSIDE;

/// The server of far memory unless another is named.
const USUAL_SERVER: &str = "nic";
/// The name among servers of the ofi fabric, where the nodes' agents serve, too.
pub const OFI: &str = "ofi";
/// How long a job may take beyond what it measures.
pub const SLACK: Duration = Duration::from_secs(60);

/// What every bench is told.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The numbers of ranks to measure at.
    pub ranks: Vec<u32>,
    /// The rivals to measure.
    pub against: Vec<Rival>,
    /// How long each case is measured in each round.
    pub time: Duration,
    /// How many rounds.
    pub rounds: u32,
    /// The program that runs as a rank when it is started with the arguments `__bench NAME …`.
    pub program: PathBuf,
    /// The machine to measure on in virtual time, instead of this one.
    pub sim: Option<Machine>,
    /// Into how many nodes the ranks are divided; they reach each other over UDP, and the rivals
    /// over TCP.
    pub nodes: Option<u32>,
    /// The link between the two nodes, if they do not reach each other over loopback.
    pub link: Option<Arc<Link>>,
    /// The servers of far memory, which take turns.
    pub servers: Vec<String>,
    /// Over which provider of libfabric, where that carries.
    pub provider: Option<String>,
    /// Where rivals are compiled.
    pub build_directory: PathBuf,
    /// Whether to show progress.
    pub progress: bool,
}

impl Setting {
    /// Refuses what no bench can do: a setting that makes no sense.
    pub fn check(&self, ranks_least: u32) -> Result<()> {
        let refused = |error: anyhow::Error| farside::Error::InvalidSetting(format!("{error:#}"));
        Ok(self.judge(ranks_least).map_err(refused)?)
    }

    fn judge(&self, ranks_least: u32) -> Result<()> {
        if self.sim.is_some() && !self.against.is_empty() {
            bail!("rivals run on this machine only: leave out --against, or --sim");
        }
        ensure!(self.rounds > 0, "--rounds 0 measures nothing; at least 1 is needed");
        ensure!(!self.time.is_zero(), "--time 0 measures nothing; at least 1 ms is needed");
        for &ranks in &self.ranks {
            ensure!(
                ranks >= ranks_least,
                "{ranks} ranks are too few here; at least {ranks_least} are needed"
            );
            if let Some(nodes) = self.nodes {
                ensure!(
                    (1..=ranks).contains(&nodes),
                    "{ranks} ranks cannot be divided into {nodes} nodes"
                );
            }
        }
        for rival in &self.against {
            ensure!(
                self.nodes.is_none() || rival.goes_far(),
                "{} is not measured between nodes",
                rival.name()
            );
        }
        for server in &self.servers {
            ensure!(
                self.nodes.is_some() || self.sim.is_some(),
                "there is no far memory on one node: add --nodes"
            );
            match &self.sim {
                Some(machine) => drop(machine.profile.served_by(server)?),
                None if server == OFI => {}
                None => farside_job::check_server(server)?,
            }
        }
        Ok(())
    }

    /// Refuses to compare servers.
    pub fn check_one_server(&self) -> Result<()> {
        ensure!(
            self.servers.len() <= 1,
            "one server at a time here, not {}",
            self.servers.join(", ")
        );
        Ok(())
    }

    /// Returns the servers in turn; `None` where there is nothing to choose.
    fn in_turn(&self) -> Vec<Option<String>> {
        match (&self.servers[..], self.nodes, &self.sim) {
            ([], Some(_), None) => vec![Some(USUAL_SERVER.to_owned())],
            ([], ..) => vec![None],
            (servers, ..) => servers.iter().cloned().map(Some).collect(),
        }
    }
}

/// A bench: what its command line asks for, which jobs that makes, and how results are shown.
pub trait Bench: Args {
    /// What one job measures.
    type Plan: Plan;
    /// At how many ranks unless that is said: a list, or, without one, 2, 4 and 8, or one rank on
    /// each node.
    const RANKS: Option<&'static str>;
    /// What the help says of that.
    const RANKS_HELP: &'static str = "At how many ranks";
    /// How long a case is measured unless another time is asked for, in milliseconds.
    const TIME_MS: u64 = 20;
    /// Whether several numbers of nodes can be asked for.
    const TAKES_SEVERAL_NODES: bool = false;

    /// The jobs for a setting, which is refused or completed first.
    fn jobs(&self, setting: &mut Setting) -> Result<Jobs<Self::Plan>>;
    /// Measures.
    fn measure(&self, mut setting: Setting) -> Result<Findings> {
        let jobs = self.jobs(&mut setting)?;
        run(&setting, &jobs)
    }
    /// The results as tables.
    fn table(records: &[Record]) -> String;
    /// The results as drawings.
    fn plots(records: &[Record]) -> Vec<Plot>;
}

/// The jobs of a bench, and what was asked for and is in none of them.
#[derive(Debug)]
pub struct Jobs<P> {
    /// The plans, each with its number of ranks.
    pub plans: Vec<AtRanks<P>>,
    /// What was left out, and why.
    pub left_out: Vec<String>,
}

impl<P: Clone> Jobs<P> {
    /// Each of some plans at all numbers of ranks of a setting.
    pub fn everywhere(setting: &Setting, plans: impl IntoIterator<Item = P>) -> Jobs<P> {
        let at_all = |plan: P| {
            let at = move |&ranks: &u32| AtRanks { ranks, plan: plan.clone() };
            setting.ranks.iter().map(at)
        };
        Jobs { plans: plans.into_iter().flat_map(at_all).collect(), left_out: Vec::new() }
    }
}

/// The rank that rank 0 does everything to: on another node if there is one.
pub(crate) fn peer_of_first(world: &World) -> Rank {
    let topology = world.topology();
    world.ranks().find(|&rank| !topology.same_node(rank, Rank(0))).unwrap_or(Rank(1))
}

/// Of the cases asked for, those that exist, or all; a case that does not exist is an error.
pub fn choose(asked: &[String], all: &[&str]) -> Result<Vec<String>> {
    if asked.is_empty() {
        return Ok(all.iter().map(|&case| case.to_owned()).collect());
    }
    for case in asked {
        let unknown = || format!("there is no case {case:?}; there are: {}", all.join(", "));
        ensure!(all.contains(&case.as_str()), farside::Error::InvalidSetting(unknown()));
    }
    Ok(asked.to_vec())
}

/// What one job of one system measures.
pub trait Plan: Clone + Serialize + DeserializeOwned + 'static {
    /// The bench's name.
    const BENCH: &'static str;
    /// What its samples say.
    const LAYOUT: Layout;
    /// Whether ranks of ours are one of the systems.
    const HAS_OWN: bool = true;
    /// Whether there is a limit that no system can beat.
    const HAS_LIMIT: bool = false;
    /// Whether every round in virtual time is another run of the machine, with the next seed: where
    /// a few losses of messages decide, one run says little.
    const VARIES: bool = false;

    /// What a program in C is given on its command line: a rival's, or ours of [`Plan::program`].
    fn arguments(&self) -> Vec<String> {
        Vec::new()
    }
    /// Returns the program of our own side where that is in C too, ready to run; it is given
    /// [`Plan::arguments`]. Otherwise the running program calls [`Plan::run`] as a rank.
    fn program(_setting: &Setting) -> Result<Option<PathBuf>> {
        Ok(None)
    }
    /// Prepares the machine for a job of it.
    fn prepare(&self, _setting: &Setting) {}
    /// How long a job may take.
    fn deadline(&self) -> Duration;
    /// What distinguishes it from the other plans, for people who wait.
    fn label(&self) -> String {
        String::new()
    }
    /// Runs it as a rank; rank 0 returns the samples.
    fn run(&self, world: &World) -> farside::Result<Vec<String>>;
    /// Runs it with bare instructions, or, between nodes, with bare datagrams.
    fn run_limit(&self, _limit: &Limit, _setting: &Setting) -> Result<String> {
        Ok(String::new())
    }
    /// Adds to the samples of a run in virtual time what only the simulator knows.
    fn simulated(&self, samples: Vec<String>, _timing: &farside::sim::Timing) -> Vec<String> {
        samples
    }
    /// The rivals that there is a program for.
    fn rivals() -> &'static [Rival] {
        &[
            Rival::Mpich,
            Rival::OpenMpi,
            Rival::OpenMpiSm,
            Rival::MpichFarside,
            Rival::OpenMpiFarside,
            Rival::OpenShmem,
        ]
    }
    /// What of it a rival can do, on one node or between nodes; nothing if that is nothing.
    fn for_rival(&self, _rival: Rival, _far: bool) -> Option<Self> {
        Some(self.clone())
    }
    /// Runs it with as many clients of a server as there would be ranks; `program` is the running
    /// one.
    fn run_server(&self, rival: Rival, _ranks: u32, _program: &Path) -> Result<String> {
        bail!("{} is not a rival here", rival.name())
    }
    /// Returns whose launcher starts our ranks, if not our own.
    fn launcher(&self) -> Option<Rival> {
        None
    }
    /// On which processors everything runs that does not say otherwise; anywhere if that is
    /// nothing.
    fn launcher_cores(&self) -> Option<Cores> {
        None
    }
    /// Returns the sample of a whole job that took so long, where that is what is measured.
    fn of_job(&self, _took: Duration) -> Option<String> {
        None
    }
    /// Adds to a record what follows from its figures.
    fn complete(record: Record) -> Record {
        record
    }
}

/// Reads the plan that a rank of ours is given on its command line, as JSON.
pub fn plan<P: Plan>(arguments: &[String]) -> Result<P> {
    let [plan] = arguments else {
        bail!("expected one plan of `bench {}`, not {arguments:?}", P::BENCH);
    };
    serde_json::from_str(plan)
        .with_context(|| format!("{plan} is not a plan of `bench {}`", P::BENCH))
}

/// What is called a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Limit {
    /// Bare instructions on one node.
    Near,
    /// Bare datagrams between a thread that waits as ports do and one that waits as this server
    /// does.
    Far(String),
    /// Bare datagrams between threads that sleep at once.
    FarAsleep,
}

/// What the samples of a bench say.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// All cases, in the order of tables.
    pub cases: &'static [&'static str],
    /// What distinguishes samples of one case, as keys of records.
    pub attributes: &'static [&'static str],
    /// What was measured, as keys of records.
    pub figures: &'static [(&'static str, Fold)],
}

/// How the samples of the rounds become one figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fold {
    /// Their median; of `median_ns` the smallest and the largest are kept, too.
    Median,
    /// In virtual time, where nothing but chance makes rounds differ, their mean; otherwise their
    /// median.
    Mean,
    /// The smallest.
    Smallest,
    /// The largest.
    Largest,
}

/// Reads sizes such as `8,64K`.
pub(crate) fn parse_sizes(texts: &[String]) -> Result<Vec<usize>> {
    texts.iter().map(|text| Ok(parse_bytes(text)? as usize)).collect()
}

/// What was asked for, and is not measured at so many ranks, and why.
pub fn left_out(what: &[String], ranks: u32, why: &str) -> String {
    format!("{} at {ranks} ranks: {why}", what.join(", "))
}

/// What a bench has found.
#[derive(Debug, Default)]
pub struct Findings {
    /// The figures.
    pub records: Vec<Record>,
    /// What was asked for and left out, and what went wrong on the way with rivals.
    pub troubles: Vec<String>,
}

/// A plan, and the number of ranks that it is measured at.
#[derive(Debug, Clone)]
pub struct AtRanks<P> {
    /// The number of ranks.
    pub ranks: u32,
    /// The plan.
    pub plan: P,
}

/// Measures all plans, each at its number of ranks.
pub fn run<P: Plan>(setting: &Setting, jobs: &Jobs<P>) -> Result<Findings> {
    let Jobs { plans, left_out } = jobs;
    ensure!(
        !plans.is_empty(),
        "nothing of what was asked for is measured: {}",
        left_out.join("; ")
    );
    let systems = System::all::<P>(setting)?;
    let progress = progress(setting, plans.len() * systems.len());
    let mut samples = Samples::new(P::LAYOUT);
    let mut troubles: Vec<String> =
        left_out.iter().map(|what| format!("not measured: {what}")).collect();
    for rival in &setting.against {
        if plans.iter().all(|at| at.plan.for_rival(*rival, setting.nodes.is_some()).is_none()) {
            troubles.push(format!(
                "not measured: {}: it has none of the cases asked for",
                rival.name()
            ));
        }
    }
    for round in 1..=setting.rounds {
        for AtRanks { ranks, plan } in plans {
            for system in &systems {
                let server =
                    system.server().map_or(String::new(), |server| format!(" served by {server}"));
                let what = format!("{}{server} at {ranks} ranks{}", system.name(), plan.label());
                progress.set_message(format!("round {round}: {what}"));
                plan.prepare(setting);
                let begin = Instant::now();
                match system.run(setting, *ranks, plan, round) {
                    Ok(mut output) => {
                        output.extend(
                            plan.of_job(begin.elapsed()).map(|sample| format!("\n{sample}")),
                        );
                        samples.collect(&output, *ranks, system.name(), system.server())?
                    }
                    // What a rival cannot do is a finding; what we cannot do is a failure.
                    Err(error) if system.is_rival() => {
                        let trouble = format!("a rival failed: {}: {error:#}", system.name());
                        if !troubles.contains(&trouble) {
                            troubles.push(trouble);
                        }
                    }
                    Err(error) => return Err(error),
                }
                progress.inc(1);
            }
        }
    }
    progress.finish_and_clear();
    let records = samples.records::<P>(setting)?;
    ensure!(!records.is_empty(), "nothing was measured: none of the jobs has printed a figure");
    Ok(Findings { records, troubles })
}

fn progress(setting: &Setting, steps: usize) -> ProgressBar {
    let steps = u64::from(setting.rounds) * steps as u64;
    let progress = if setting.progress { ProgressBar::new(steps) } else { ProgressBar::hidden() };
    let style =
        ProgressStyle::with_template("{bar:30} {pos}/{len}  {msg}  ({elapsed}, {eta} left)");
    progress.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    progress
}

/// A directory for compiled rivals beside the running program.
pub fn build_directory(program: &Path) -> PathBuf {
    program.parent().unwrap_or(Path::new(".")).join("farside-rivals")
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn setting() -> Setting {
        Setting {
            ranks: vec![2],
            against: Vec::new(),
            time: Duration::from_millis(1),
            rounds: 1,
            program: PathBuf::new(),
            sim: None,
            nodes: None,
            link: None,
            servers: Vec::new(),
            provider: None,
            build_directory: PathBuf::new(),
            progress: false,
        }
    }

    #[test]
    fn what_nobody_can_serve_is_refused() {
        let far = |servers: &[&str]| Setting {
            nodes: Some(2),
            servers: servers.iter().map(|&server| server.to_owned()).collect(),
            ..setting()
        };
        assert!(far(&["nic", "host-block"]).check(2).is_ok());
        assert_eq!(far(&[]).in_turn(), [Some("nic".to_owned())]);
        assert_eq!(setting().in_turn(), [None]);
        for (setting, problem) in [
            (far(&["butler"]), "butler"),
            (Setting { nodes: None, ..far(&["nic"]) }, "--nodes"),
            (Setting { nodes: Some(3), ..setting() }, "3 nodes"),
            (Setting { against: vec![Rival::OpenShmem], ..far(&[]) }, "openshmem"),
        ] {
            let error = setting.check(2).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
        assert!(far(&["nic", "host-block"]).check_one_server().is_err());
    }

    #[test]
    fn cases_that_do_not_exist_are_named() {
        assert_eq!(choose(&[], &["a", "b"]).unwrap(), ["a", "b"]);
        assert_eq!(choose(&["b".into()], &["a", "b"]).unwrap(), ["b"]);
        assert!(choose(&["c".into()], &["a", "b"]).unwrap_err().to_string().contains("\"c\""));
    }
}
