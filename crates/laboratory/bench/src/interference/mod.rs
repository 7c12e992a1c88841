//! `farside bench interference`: what serving far memory costs the host it is on, after figures 5
//! to 8 of \[NIC02\].

mod measure;
mod report;

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use farside::World;
use serde::{Deserialize, Serialize};

use crate::cores::{self, Cores};
use crate::driver::{self, AtRanks, Findings, Fold, Layout, SLACK, Setting};
use crate::record::Record;
use crate::rivals::Rival;

pub use report::{plot, tables};

const CPU: &str = "cpu";
const BANDWIDTH: &str = "bandwidth";
const LOCK: &str = "lock";
const CASES: [&str; 3] = [CPU, BANDWIDTH, LOCK];

/// Whether the server of the home has a processor of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sharing {
    /// The home's rank has a processor alone; servers and all other ranks have the rest.
    Apart,
    /// Servers have the home's processor and no other.
    Shared,
}

impl Sharing {
    const ALL: [Sharing; 2] = [Sharing::Apart, Sharing::Shared];

    /// Its name in records.
    pub fn name(self) -> &'static str {
        match self {
            Sharing::Apart => "apart",
            Sharing::Shared => "shared",
        }
    }

    /// The one of that name.
    pub fn parse(name: &str) -> Result<Sharing> {
        let found = Sharing::ALL.into_iter().find(|sharing| sharing.name() == name);
        found.with_context(|| format!("processors are apart or shared, not {name:?}"))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Placement {
    sharing: Sharing,
    home: Cores,
    /// Ranks other than the home's.
    others: Cores,
}

impl Placement {
    fn servers(&self) -> &Cores {
        match self.sharing {
            Sharing::Apart => &self.others,
            Sharing::Shared => &self.home,
        }
    }
}

/// What one job measures.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    /// For how long each.
    time: Duration,
    cases: Vec<String>,
    /// How often a second the lock is to be taken, for `cpu` and `bandwidth`.
    loads_per_s: Vec<u64>,
    /// On which processors; in virtual time, the server says that.
    placement: Option<Placement>,
}

impl Plan {
    /// Every case with its load, in order.
    fn cases(&self) -> impl Iterator<Item = (&str, Option<u64>)> + '_ {
        self.cases.iter().flat_map(|case| {
            let loads = match case.as_str() {
                LOCK => vec![None],
                _ => self.loads_per_s.iter().copied().map(Some).collect(),
            };
            loads.into_iter().map(move |load| (case.as_str(), load))
        })
    }
}

impl driver::Plan for Plan {
    const BENCH: &'static str = "interference";
    const LAYOUT: Layout = Layout {
        cases: &CASES,
        attributes: &["load_per_s", "contenders", "cores", "home_core", "server_core"],
        figures: &[
            ("median_ns", Fold::Median),
            ("per_s", Fold::Median),
            ("bytes_per_s", Fold::Median),
            ("achieved_per_s", Fold::Median),
        ],
    };

    fn deadline(&self) -> Duration {
        (self.time * 2 + Duration::from_secs(1)) * self.cases().count() as u32 + SLACK
    }

    fn label(&self) -> String {
        self.placement
            .as_ref()
            .map_or(String::new(), |placement| format!(", processors {}", placement.sharing.name()))
    }

    fn run(&self, world: &World) -> farside::Result<Vec<String>> {
        measure::run(world, self)
    }

    fn for_rival(&self, _: Rival, _: bool) -> Option<Plan> {
        None
    }

    fn launcher_cores(&self) -> Option<Cores> {
        self.placement.as_ref().map(|placement| placement.servers().clone())
    }

    fn complete(record: Record) -> Record {
        // Here the load is what the others could do.
        match (record.case.as_str(), record.number("achieved_per_s")) {
            (LOCK, Some(achieved)) => record.figure("load_per_s", achieved),
            _ => record,
        }
    }
}

/// What to measure, all in all.
#[derive(Debug, Clone)]
pub struct Options {
    /// What every bench is told.
    pub setting: Setting,
    /// Which cases; all if empty.
    pub cases: Vec<String>,
    /// How often a second the lock is to be taken.
    pub loads_per_s: Vec<u64>,
    /// Whether servers have a processor of their own; both, in turn, if empty.
    pub sharing: Vec<Sharing>,
}

/// Measures.
pub fn run(options: &Options) -> Result<Findings> {
    let setting = &options.setting;
    // Every rank is on a node of its own, unless that was said otherwise: two at least.
    let nodes_of = |ranks: u32| {
        if setting.sim.is_some() { None } else { Some(setting.nodes.unwrap_or(ranks)) }
    };
    Setting { nodes: nodes_of(2), ..setting.clone() }.check(2)?;
    ensure!(setting.against.is_empty(), "there are no rivals to measure here: leave out --against");
    let cases = driver::choose(&options.cases, &CASES)?;
    if options.loads_per_s.iter().any(|&load| load > 10_000_000) {
        bail!("the load must be at most 10000000 a second");
    }
    // What is kept is kept of what there is without a load.
    let mut loads_per_s = options.loads_per_s.clone();
    loads_per_s.push(0);
    loads_per_s.sort_unstable();
    loads_per_s.dedup();
    let mut troubles = Vec::new();
    let placements = placements(options, &mut troubles)?;
    let (mut records, mut left_out) = (Vec::new(), Vec::new());
    for &ranks in &setting.ranks {
        let (cases, alone): (Vec<String>, Vec<String>) =
            cases.iter().cloned().partition(|case| case != BANDWIDTH || ranks >= 3);
        if !alone.is_empty() {
            left_out.push(driver::left_out(&alone, ranks, "it needs a third node"));
        }
        if cases.is_empty() {
            continue;
        }
        let plan = |placement: &Option<Placement>| {
            let (time, cases, loads_per_s) = (setting.time, cases.clone(), loads_per_s.clone());
            let placement = placement.clone();
            AtRanks { ranks, plan: Plan { time, cases, loads_per_s, placement } }
        };
        let plans: Vec<AtRanks<Plan>> = placements.iter().map(plan).collect();
        let setting = Setting { nodes: nodes_of(ranks), ..setting.clone() };
        records.extend(driver::run(&setting, &plans, &[])?.records);
    }
    ensure!(
        !records.is_empty(),
        "nothing of what was asked for is measured: {}",
        left_out.join("; ")
    );
    troubles.extend(left_out.iter().map(|what| format!("not measured: {what}")));
    Ok(Findings { records: with_what_is_kept(records), troubles })
}

/// On which processors the jobs run, one after the other.
fn placements(options: &Options, troubles: &mut Vec<String>) -> Result<Vec<Option<Placement>>> {
    if options.setting.sim.is_some() {
        ensure!(
            options.sharing.is_empty(),
            "in virtual time the server says on which processor it is: leave out --cores"
        );
        return Ok(vec![None]);
    }
    let all = cores::usable()?;
    let asked =
        if options.sharing.is_empty() { Sharing::ALL.to_vec() } else { options.sharing.clone() };
    let mut placements = Vec::new();
    for sharing in asked {
        match all.split_first() {
            Some((home, others)) => placements.push(Some(Placement { sharing, home, others })),
            None => troubles
                .push(format!("not measured: {}: there is one processor only", sharing.name())),
        }
    }
    ensure!(
        !placements.is_empty(),
        "the home's rank and the others need a processor each; there is only one"
    );
    Ok(placements)
}

/// Adds how much of what is possible without a load is left.
fn with_what_is_kept(records: Vec<Record>) -> Vec<Record> {
    let kept = |record: &Record| {
        let figure = if record.case == CPU { "per_s" } else { "bytes_per_s" };
        let same = |other: &&Record| {
            let keys = ["server", "cores"];
            other.case == record.case
                && other.ranks == record.ranks
                && other.number("load_per_s") == Some(0.0)
                && keys.iter().all(|key| other.attribute(key) == record.attribute(key))
        };
        let idle = records.iter().find(same)?.number(figure)?;
        Some(100.0 * record.number(figure)? / idle)
    };
    let kept: Vec<Option<f64>> = records.iter().map(kept).collect();
    let with = |(record, kept): (Record, Option<f64>)| match kept {
        Some(kept) if record.case != LOCK => record.figure("kept_pct", kept),
        _ => record,
    };
    records.into_iter().zip(kept).map(with).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Plan as _;

    #[test]
    fn a_plan_survives_the_command_line() {
        let placement = Placement {
            sharing: Sharing::Shared,
            home: "0".parse().unwrap(),
            others: "1,2".parse().unwrap(),
        };
        let plan = Plan {
            time: Duration::from_millis(20),
            cases: vec!["cpu".to_owned(), "lock".to_owned()],
            loads_per_s: vec![0, 1000],
            placement: Some(placement),
        };
        let json = serde_json::to_string(&plan).unwrap();
        let read: Plan = driver::plan(&[json]).unwrap();
        let cases: Vec<(&str, Option<u64>)> = read.cases().collect();
        assert_eq!(cases, [("cpu", Some(0)), ("cpu", Some(1000)), ("lock", None)]);
        assert_eq!(read.placement, plan.placement);
        assert_eq!(read.launcher_cores().unwrap().to_string(), "0");
    }

    #[test]
    fn what_is_kept_is_kept_of_the_same_server_without_load() {
        let record = |server: &str, load: u64, per_s: f64| {
            let record = Record::new("interference", CPU, "farside", "nic", 2, 2);
            record.with("load_per_s", load).with("server", server).figure("per_s", per_s)
        };
        let records =
            vec![record("nic", 0, 100.0), record("nic", 10, 98.0), record("host-block", 10, 50.0)];
        let kept: Vec<Option<f64>> =
            with_what_is_kept(records).iter().map(|r| r.number("kept_pct")).collect();
        assert_eq!(kept, [Some(100.0), Some(98.0), None]);
    }
}
