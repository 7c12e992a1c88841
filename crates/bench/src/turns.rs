//! What all benches have in common: systems take turns, round by round, print samples, and samples
//! become records.
//!
//! A sample is a line `sample CASE ATTRIBUTE… FIGURE…`; a [`Layout`] says which attributes and
//! figures. An attribute or a figure that does not apply is a `-`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use farside::World;
use farside_job::Kind;
use farside_launch::Launch;
use indicatif::{ProgressBar, ProgressStyle};

use crate::cores::Cores;
use crate::machine::Machine;
use crate::record::{LIMIT, LIMIT_ASLEEP, Record, Value};
use crate::rivals::{Compiled, Rival};
use crate::timing::median;

/// The name of our own system in records.
pub const FARSIDE: &str = "farside";
/// Who serves far memory if nobody else was named.
const USUAL_SERVER: &str = "nic";
/// The name among servers of the ofi fabric, where the nodes' agents serve, too.
pub const OFI: &str = "ofi";
/// How long a job may take beyond what it measures.
pub const SLACK: Duration = Duration::from_secs(60);
/// An attribute or a figure that does not apply.
const NOTHING: &str = "-";

/// What every bench is told.
#[derive(Debug, Clone)]
pub struct Setting {
    /// At how many ranks.
    pub ranks: Vec<u32>,
    /// Against whom.
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
    /// Who serves far memory; each in turn.
    pub servers: Vec<String>,
    /// Over which provider of libfabric, where that carries.
    pub provider: Option<String>,
    /// Where rivals are compiled.
    pub workshop: PathBuf,
    /// Whether to show progress.
    pub progress: bool,
}

impl Setting {
    /// Refuses what no bench can do.
    pub fn check(&self, ranks_least: u32) -> Result<()> {
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
                "nobody serves far memory on one node: add --nodes"
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

    /// Who is to serve, one after the other: nobody if there is nothing to choose.
    fn in_turn(&self) -> Vec<Option<String>> {
        match (&self.servers[..], self.nodes, &self.sim) {
            ([], Some(_), None) => vec![Some(USUAL_SERVER.to_owned())],
            ([], ..) => vec![None],
            (servers, ..) => servers.iter().cloned().map(Some).collect(),
        }
    }
}

/// Of the cases asked for, those that exist, or all; a case that does not exist is an error.
pub fn choose(asked: &[String], all: &[&str]) -> Result<Vec<String>> {
    if asked.is_empty() {
        return Ok(all.iter().map(|&case| case.to_owned()).collect());
    }
    for case in asked {
        ensure!(
            all.contains(&case.as_str()),
            "there is no case {case:?}; there are: {}",
            all.join(", ")
        );
    }
    Ok(asked.to_vec())
}

/// What one job of one system measures.
pub trait Plan: Clone + 'static {
    /// The bench's name.
    const BENCH: &'static str;
    /// What its samples say.
    const LAYOUT: Layout;
    /// Whether there is a limit that no system can beat.
    const HAS_LIMIT: bool = false;
    /// Whether every round in virtual time is another run of the machine, with the next seed: where
    /// a few losses of messages decide, one run says little.
    const VARIES: bool = false;

    /// What every system's program is given on its command line.
    fn arguments(&self) -> Vec<String>;
    /// How long a job may take.
    fn deadline(&self) -> Duration;
    /// What distinguishes it from the other plans, for people who wait.
    fn label(&self) -> String;
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
        &[Rival::Mpich, Rival::OpenMpi, Rival::OpenMpiSm, Rival::OpenShmem]
    }
    /// What of it a rival can do, on one node or between nodes; nothing if that is nothing.
    fn for_rival(&self, rival: Rival, far: bool) -> Option<Self>;
    /// Runs it with as many clients of a server as there would be ranks; `program` is the running
    /// one.
    fn run_server(&self, rival: Rival, _ranks: u32, _program: &Path) -> Result<String> {
        bail!("{} is no rival here", rival.name())
    }
    /// On which processors everything runs that does not say otherwise; anywhere if that is
    /// nothing.
    fn launcher_cores(&self) -> Option<Cores> {
        None
    }
    /// Adds to a record what follows from its figures.
    fn complete(record: Record) -> Record {
        record
    }
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

/// A sample as a line.
pub fn sample(
    case: &str,
    attributes: &[&dyn std::fmt::Display],
    figures: &[Option<f64>],
) -> String {
    let attributes = attributes.iter().map(|attribute| format!(" {attribute}"));
    let figures = figures
        .iter()
        .map(|figure| figure.map_or(format!(" {NOTHING}"), |figure| format!(" {figure:.4}")));
    format!("sample {case}{}", attributes.chain(figures).collect::<String>())
}

/// A system that can run a plan.
enum System {
    /// With whom as server, if that can be chosen.
    Farside(Option<String>),
    Limit(Limit),
    Rival(Compiled),
    Server(Rival),
}

impl System {
    fn name(&self) -> &'static str {
        match self {
            System::Farside(_) => FARSIDE,
            System::Limit(Limit::FarAsleep) => LIMIT_ASLEEP,
            System::Limit(_) => LIMIT,
            System::Rival(compiled) => compiled.rival.name(),
            System::Server(rival) => rival.name(),
        }
    }

    fn server(&self) -> Option<&str> {
        match self {
            System::Farside(server) => server.as_deref(),
            System::Limit(Limit::Far(server)) => Some(server),
            _ => None,
        }
    }

    /// All that are compared.
    fn all<P: Plan>(setting: &Setting) -> Result<Vec<System>> {
        let servers = setting.in_turn();
        let mut systems: Vec<System> = servers.iter().cloned().map(System::Farside).collect();
        if P::HAS_LIMIT && setting.sim.is_none() {
            let far =
                |server: Option<String>| System::Limit(server.map_or(Limit::Near, Limit::Far));
            systems.extend(servers.into_iter().map(far));
            systems.extend(setting.nodes.map(|_| System::Limit(Limit::FarAsleep)));
        }
        for &rival in &setting.against {
            ensure!(
                P::rivals().contains(&rival),
                "{} is no rival of `bench {}`; those are: {}",
                rival.name(),
                P::BENCH,
                P::rivals().iter().map(|rival| rival.name()).collect::<Vec<_>>().join(", ")
            );
            systems.push(match rival.is_server() {
                true => System::Server(rival),
                false => System::Rival(Compiled::new(rival, P::BENCH, &setting.workshop)?),
            });
        }
        Ok(systems)
    }
}

/// What was asked for, and is not measured at so many ranks, and why.
pub fn left_out(what: &[String], ranks: u32, why: &str) -> String {
    format!("{} at {ranks} ranks: {why}", what.join(", "))
}

/// Measures all plans, each at its number of ranks; returns the records, and what a reader of them
/// should know: what of all that was asked for was left out of the plans, and what went wrong on
/// the way with rivals.
pub fn run<P: Plan>(
    setting: &Setting,
    plans: &[(u32, P)],
    left_out: &[String],
) -> Result<(Vec<Record>, Vec<String>)> {
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
        if plans.iter().all(|(_, plan)| plan.for_rival(*rival, setting.nodes.is_some()).is_none()) {
            troubles.push(format!(
                "not measured: {}: it has none of the cases asked for",
                rival.name()
            ));
        }
    }
    for round in 1..=setting.rounds {
        for (ranks, plan) in plans {
            for system in &systems {
                let server =
                    system.server().map_or(String::new(), |server| format!(" served by {server}"));
                let what = format!("{}{server} at {ranks} ranks{}", system.name(), plan.label());
                progress.set_message(format!("round {round}: {what}"));
                match run_one(setting, system, *ranks, plan, round) {
                    Ok(output) => {
                        samples.collect(&output, *ranks, system.name(), system.server())?
                    }
                    // What a rival cannot do is a finding; what we cannot do is a failure.
                    Err(error) if matches!(system, System::Rival(_) | System::Server(_)) => {
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
    Ok((records, troubles))
}

fn progress(setting: &Setting, steps: usize) -> ProgressBar {
    let steps = u64::from(setting.rounds) * steps as u64;
    let progress = if setting.progress { ProgressBar::new(steps) } else { ProgressBar::hidden() };
    let style =
        ProgressStyle::with_template("{bar:30} {pos}/{len}  {msg}  ({elapsed}, {eta} left)");
    progress.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    progress
}

fn run_one<P: Plan>(
    setting: &Setting,
    system: &System,
    ranks: u32,
    plan: &P,
    round: u32,
) -> Result<String> {
    match system {
        System::Limit(limit) => plan.run_limit(limit, setting),
        System::Farside(server) => {
            if let Some(machine) = &setting.sim {
                let program = plan.clone();
                let later = if P::VARIES { u64::from(round - 1) } else { 0 };
                let job = machine.served_by(server.as_deref())?.later(later).job(ranks)?;
                let outcome = job.run(move |world| program.run(&world))?;
                return Ok(plan.simulated(outcome.results.concat(), &outcome.timing).join("\n"));
            }
            let launch = Launch::new(&setting.program, ranks)?
                .arguments(["__bench", P::BENCH])
                .options(|options| {
                    if setting.nodes.is_some() {
                        (options.fabric, options.nodes, options.server) =
                            (Kind::Nic, setting.nodes, server.clone());
                        if server.as_deref() == Some(OFI) {
                            (options.fabric, options.server) = (Kind::Ofi, None);
                            options.provider = setting.provider.clone().or(options.provider.take());
                        }
                    }
                });
            let launch = launch.arguments(plan.arguments()).timeout(plan.deadline());
            let report = match plan.launcher_cores() {
                Some(cores) => cores.pinned(|| launch.run())??,
                None => launch.run()?,
            };
            ensure!(report.status == 0, "farside at {ranks} ranks failed: {}", report.failure());
            Ok(String::from_utf8_lossy(&report.stdout).into_owned())
        }
        System::Rival(compiled) => match plan.for_rival(compiled.rival, setting.nodes.is_some()) {
            Some(plan) => {
                compiled.run(ranks, setting.nodes.is_some(), &plan.arguments(), plan.deadline())
            }
            None => Ok(String::new()),
        },
        System::Server(rival) => match plan.for_rival(*rival, setting.nodes.is_some()) {
            Some(plan) => plan.run_server(*rival, ranks, &setting.program),
            None => Ok(String::new()),
        },
    }
}

/// What was measured, by what it was measured for.
struct Samples {
    layout: Layout,
    /// The words among the attributes, which are sorted by when they first came.
    words: Vec<String>,
    values: BTreeMap<Key, Vec<Vec<f64>>>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    ranks: u32,
    case: usize,
    attributes: Vec<Attribute>,
    server: Option<Attribute>,
    /// Its place in the list of words.
    system: usize,
}

/// One attribute: its order, and what it says.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Attribute(u64, String);

impl Attribute {
    fn value(&self) -> Option<Value> {
        match self.1.as_str() {
            NOTHING => None,
            text => Some(match (text.parse::<i64>(), text.parse::<f64>()) {
                (Ok(whole), _) => whole.into(),
                (_, Ok(number)) => number.into(),
                _ => text.into(),
            }),
        }
    }
}

impl Samples {
    fn new(layout: Layout) -> Samples {
        Samples { layout, words: Vec::new(), values: BTreeMap::new() }
    }

    fn word(&mut self, word: &str) -> usize {
        self.words.iter().position(|known| known == word).unwrap_or_else(|| {
            self.words.push(word.to_owned());
            self.words.len() - 1
        })
    }

    fn attribute(&mut self, text: &str) -> Attribute {
        let order = match text.parse::<f64>() {
            // Numbers that are not negative are ordered as their bits are.
            Ok(number) => number.abs().to_bits(),
            Err(_) => self.word(text) as u64,
        };
        Attribute(order, text.to_owned())
    }

    fn collect(
        &mut self,
        output: &str,
        ranks: u32,
        system: &str,
        server: Option<&str>,
    ) -> Result<()> {
        for line in output.lines().filter(|line| line.starts_with("sample ")) {
            let words: Vec<&str> = line.split_whitespace().skip(1).collect();
            let (attributes, figures) = (self.layout.attributes.len(), self.layout.figures.len());
            ensure!(
                words.len() == 1 + attributes + figures,
                "{system} printed {line:?}, which is no sample"
            );
            let Some(case) = self.layout.cases.iter().position(|&known| known == words[0]) else {
                bail!("{system} printed a sample of {:?}, which nobody asked for", words[0]);
            };
            let values = words[1 + attributes..].iter().map(|&text| match text {
                NOTHING => Ok(f64::NAN),
                text => text.parse::<f64>().with_context(|| format!("{system} printed {line:?}")),
            });
            let values: Vec<f64> = values.collect::<Result<_>>()?;
            let attributes =
                words[1..=attributes].iter().map(|text| self.attribute(text)).collect();
            let server = server.map(|server| self.attribute(server));
            let key = Key { ranks, case, attributes, server, system: self.word(system) };
            self.values.entry(key).or_default().push(values);
        }
        Ok(())
    }

    fn records<P: Plan>(&self, setting: &Setting) -> Result<Vec<Record>> {
        self.values.iter().map(|(key, rounds)| self.record::<P>(key, rounds, setting)).collect()
    }

    fn record<P: Plan>(&self, key: &Key, rounds: &[Vec<f64>], setting: &Setting) -> Result<Record> {
        let (case, system, ranks) =
            (self.layout.cases[key.case], self.words[key.system].as_str(), key.ranks as usize);
        let mut record = match (&setting.sim, setting.nodes) {
            (Some(machine), _) => machine.record(P::BENCH, case, system, key.ranks)?,
            (None, Some(nodes)) => {
                let is_ofi = key.server.as_ref().and_then(Attribute::value) == Some(OFI.into());
                Record::new(
                    P::BENCH,
                    case,
                    system,
                    if is_ofi { OFI } else { USUAL_SERVER },
                    ranks,
                    nodes as usize,
                )
            }
            (None, None) => Record::new(P::BENCH, case, system, "shm", ranks, 1),
        };
        for (name, attribute) in self.layout.attributes.iter().zip(&key.attributes) {
            if let Some(value) = attribute.value() {
                record = record.with(name, value);
            }
        }
        if let Some(value) = key.server.as_ref().and_then(Attribute::value) {
            record = record.with("server", value);
        }
        record = record.with("rounds", rounds.len());
        for (column, &(name, fold)) in self.layout.figures.iter().enumerate() {
            let mut values: Vec<f64> =
                rounds.iter().map(|round| round[column]).filter(|value| !value.is_nan()).collect();
            let middle = median(&mut values);
            let (Some(&least), Some(&most)) = (values.first(), values.last()) else {
                continue;
            };
            record = match fold {
                Fold::Smallest => record.figure(name, least),
                Fold::Largest => record.figure(name, most),
                Fold::Mean if setting.sim.is_some() => {
                    record.figure(name, values.iter().sum::<f64>() / values.len() as f64)
                }
                Fold::Median if name == "median_ns" => {
                    record.figure(name, middle).figure("min_ns", least).figure("max_ns", most)
                }
                Fold::Median | Fold::Mean => record.figure(name, middle),
            };
        }
        Ok(P::complete(record))
    }
}

/// A directory for compiled rivals beside the running program.
pub fn workshop(program: &Path) -> PathBuf {
    program.parent().unwrap_or(Path::new(".")).join("farside-rivals")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone)]
    struct Toy;

    impl Plan for Toy {
        const BENCH: &'static str = "toy";
        const LAYOUT: Layout = Layout {
            cases: &["spin", "jump"],
            attributes: &["height", "shoe"],
            figures: &[
                ("median_ns", Fold::Median),
                ("wait_max_ns", Fold::Largest),
                ("share_min", Fold::Smallest),
            ],
        };

        fn arguments(&self) -> Vec<String> {
            Vec::new()
        }
        fn deadline(&self) -> Duration {
            SLACK
        }
        fn label(&self) -> String {
            String::new()
        }
        fn run(&self, _: &World) -> farside::Result<Vec<String>> {
            Ok(Vec::new())
        }
        fn for_rival(&self, _: Rival, _: bool) -> Option<Toy> {
            None
        }
    }

    fn setting() -> Setting {
        Setting {
            ranks: vec![2],
            against: Vec::new(),
            time: Duration::from_millis(1),
            rounds: 1,
            program: PathBuf::new(),
            sim: None,
            nodes: None,
            servers: Vec::new(),
            provider: None,
            workshop: PathBuf::new(),
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
    fn samples_become_records_in_order() {
        let mut samples = Samples::new(Toy::LAYOUT);
        let say = |case, height: f64, shoe: &str, figures: [Option<f64>; 3]| {
            sample(case, &[&height, &shoe], &figures)
        };
        for (ns, wait, share) in [(4.0, 7.0, 0.5), (2.0, 9.0, 0.25), (3.0, 8.0, 0.75)] {
            let lines = [
                say("jump", 16.0, "left", [Some(ns), Some(wait), Some(share)]),
                say("jump", 0.25, "-", [Some(ns), None, None]),
                "noise".to_owned(),
                say("spin", 16.0, "left", [Some(ns), None, None]),
            ];
            samples.collect(&lines.join("\n"), 2, FARSIDE, None).unwrap();
        }
        let lines: Vec<String> =
            samples.records::<Toy>(&setting()).unwrap().iter().map(Record::to_json_line).collect();
        let of = |case: &str, rest: &str| {
            let start = r#""system":"farside","fabric":"shm","ranks":2,"nodes":1"#;
            format!(r#"{{"bench":"toy","case":"{case}",{start},{rest}}}"#)
        };
        let times = r#""rounds":3,"median_ns":3.0,"min_ns":2.0,"max_ns":4.0"#;
        let expected = [
            of("spin", &format!(r#""height":16,"shoe":"left",{times}"#)),
            of("jump", &format!(r#""height":0.25,{times}"#)),
            of(
                "jump",
                &format!(r#""height":16,"shoe":"left",{times},"wait_max_ns":9.0,"share_min":0.25"#),
            ),
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn what_is_no_sample_is_named() {
        let mut samples = Samples::new(Toy::LAYOUT);
        for (line, problem) in [
            ("sample spin 1 left 1", "no sample"),
            ("sample fly 1 left 1 2 3", "\"fly\""),
            ("sample spin 1 left 1 x 3", "printed"),
        ] {
            let error = samples.collect(line, 2, "mpich", None).unwrap_err();
            assert!(format!("{error:#}").contains(problem), "{line}: {error:#}");
        }
    }

    #[test]
    fn cases_that_do_not_exist_are_named() {
        assert_eq!(choose(&[], &["a", "b"]).unwrap(), ["a", "b"]);
        assert_eq!(choose(&["b".into()], &["a", "b"]).unwrap(), ["b"]);
        assert!(choose(&["c".into()], &["a", "b"]).unwrap_err().to_string().contains("\"c\""));
    }
}
