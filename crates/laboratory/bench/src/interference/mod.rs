//! `farside bench interference`: what serving far memory costs the host it is on, after figures 5
//! to 8 of \[NIC02\].

mod measure;
mod report;

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use farside::World;
use serde::{Deserialize, Serialize};

use crate::cores::{self, Cores};
use crate::driver::{self, AtRanks, Bench, Findings, Fold, Jobs, Layout, SLACK, Setting};
use crate::record::Record;
use crate::report::{Plot, distinct};

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

/// What the command line asks for.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  farside bench interference --servers \
                  nic,host-poll,host-spin-block,host-block\n  farside bench interference --cases \
                  lock --ranks 2,3,4,6,8 --servers nic,host-block --cores shared\n  farside bench \
                  interference --sim myrinet-lanai4 --ranks 3 --servers nic,host-poll,host-block")]
pub struct Options {
    /// Which cases: cpu (a counting loop), bandwidth (to a third node), lock (the time to take a
    /// lock and to give it back); all by default
    #[arg(long, value_delimiter = ',', value_name = "CASE,…")]
    cases: Vec<String>,
    /// How often a second the lock is to be taken, for cpu and bandwidth; `achieved` says how often
    /// it was
    #[arg(long, value_delimiter = ',', default_value = "0,1000,5000,20000", value_name = "RATE,…")]
    loads: Vec<u64>,
    /// Whether servers have a processor of their own: apart, shared; both in turn by default
    #[arg(long, value_delimiter = ',', value_name = "HOW,…")]
    cores: Vec<String>,
}

impl Bench for Options {
    type Plan = Plan;

    const RANKS: Option<&'static str> = Some("3");
    const RANKS_HELP: &'static str = "At how many ranks, each on a node of its own";
    const TIME_MS: u64 = 100;

    fn jobs(&self, setting: &mut Setting) -> Result<Jobs<Plan>> {
        on_nodes(setting, 2).check(2)?;
        let asked = &setting.against;
        ensure!(asked.is_empty(), "there are no rivals to measure here: leave out --against");
        let cases = driver::choose(&self.cases, &CASES)?;
        if self.loads.iter().any(|&load| load > 10_000_000) {
            bail!("the load must be at most 10000000 a second");
        }
        // What is kept is kept of what there is without a load.
        let loads_per_s = distinct(self.loads.iter().copied().chain([0]));
        let mut left_out = Vec::new();
        let placements = self.placements(setting, &mut left_out)?;
        let mut plans = Vec::new();
        for &ranks in &setting.ranks {
            let (cases, alone): (Vec<String>, Vec<String>) =
                cases.iter().cloned().partition(|case| case != BANDWIDTH || ranks >= 3);
            if !alone.is_empty() {
                left_out.push(driver::left_out(&alone, ranks, "it needs a third node"));
            }
            let plan = |placement: &Option<Placement>| {
                let (time, loads_per_s) = (setting.time, loads_per_s.clone());
                let (cases, placement) = (cases.clone(), placement.clone());
                AtRanks { ranks, plan: Plan { time, cases, loads_per_s, placement } }
            };
            plans.extend(placements.iter().filter(|_| !cases.is_empty()).map(plan));
        }
        Ok(Jobs { plans, left_out })
    }

    fn measure(&self, mut setting: Setting) -> Result<Findings> {
        let Jobs { plans, left_out } = self.jobs(&mut setting)?;
        // What was left out is said once, by the jobs of the first number of ranks.
        let mut jobs: Vec<Jobs<Plan>> = vec![Jobs { plans: Vec::new(), left_out }];
        for at in plans {
            match jobs.last_mut() {
                Some(of) if of.plans.first().is_none_or(|it| it.ranks == at.ranks) => {
                    of.plans.push(at);
                }
                _ => jobs.push(Jobs { plans: vec![at], left_out: Vec::new() }),
            }
        }
        let mut found = Findings::default();
        for of in jobs {
            let ranks = of.plans.first().map_or(2, |at| at.ranks);
            let more = driver::run(&on_nodes(&setting, ranks), &of)?;
            found.records.extend(more.records);
            found.troubles.extend(more.troubles);
        }
        Ok(Findings { records: with_what_is_kept(found.records), ..found })
    }

    fn table(records: &[Record]) -> String {
        report::table(records)
    }

    fn plots(records: &[Record]) -> Vec<Plot> {
        report::plots(records)
    }
}

/// The same setting with every rank on a node of its own, unless that was said otherwise: two at
/// least.
fn on_nodes(setting: &Setting, ranks: u32) -> Setting {
    let nodes = setting.sim.is_none().then(|| setting.nodes.unwrap_or(ranks));
    Setting { nodes, ..setting.clone() }
}

impl Options {
    /// On which processors the jobs run, one after the other.
    fn placements(
        &self,
        setting: &Setting,
        left_out: &mut Vec<String>,
    ) -> Result<Vec<Option<Placement>>> {
        let named: Vec<Sharing> =
            self.cores.iter().map(|name| Sharing::parse(name)).collect::<Result<_>>()?;
        if setting.sim.is_some() {
            ensure!(
                named.is_empty(),
                "in virtual time the server says on which processor it is: leave out --cores"
            );
            return Ok(vec![None]);
        }
        let all = cores::usable()?;
        let asked = if named.is_empty() { Sharing::ALL.to_vec() } else { named };
        let mut placements = Vec::new();
        for sharing in asked {
            match all.split_first() {
                Some((home, others)) => placements.push(Some(Placement { sharing, home, others })),
                None => left_out.push(format!("{}: there is one processor only", sharing.name())),
            }
        }
        ensure!(
            !placements.is_empty(),
            "the home's rank and the others need a processor each; there is only one"
        );
        Ok(placements)
    }
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
    fn servers_that_share_have_the_processor_of_the_home() {
        let [home, others] = ["0", "1,2"].map(|cores| cores.parse().unwrap());
        let placement = Placement { sharing: Sharing::Shared, home, others };
        let plan = Plan {
            time: Duration::from_millis(20),
            cases: vec!["cpu".to_owned(), "lock".to_owned()],
            loads_per_s: vec![0, 1000],
            placement: Some(placement),
        };
        let cases: Vec<(&str, Option<u64>)> = plan.cases().collect();
        assert_eq!(cases, [("cpu", Some(0)), ("cpu", Some(1000)), ("lock", None)]);
        assert_eq!(plan.launcher_cores().unwrap().to_string(), "0");
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
