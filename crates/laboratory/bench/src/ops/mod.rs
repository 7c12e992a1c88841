//! `farside bench ops`: latency, bandwidth and rate of every one-sided operation, and the barrier.

mod datagrams;
mod limit;
mod measure;
mod pingpong;
mod report;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use farside::World;
use serde::{Deserialize, Serialize};

use crate::cores::processors;
use crate::driver::{self, AtRanks, Findings, Fold, Layout, Limit, OFI, SLACK, Setting, sample};
use crate::link::Link;
use crate::record::Record;
use crate::rivals::Rival;
use crate::timing::Times;

pub use report::{plot, tables};

const SIZED: [&str; 5] = ["put", "get", "accumulate", "get_accumulate", "put_strided"];
const WORDS: [&str; 6] =
    ["fetch_add", "swap", "compare_swap", "compare_swap_miss", "signal", "rate"];
const CASES: [&str; 12] = [
    "put",
    "get",
    "accumulate",
    "get_accumulate",
    "put_strided",
    "fetch_add",
    "swap",
    "compare_swap",
    "compare_swap_miss",
    "signal",
    "rate",
    "barrier",
];
/// A case that the rivals' programs do not know.
const OWN: &str = "compare_swap_miss";

/// What the target does meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Target {
    /// It waits in the library.
    Idle,
    /// It computes and never calls the library.
    Computing,
}

impl Target {
    /// Its name in records.
    pub fn name(self) -> &'static str {
        match self {
            Target::Idle => "idle",
            Target::Computing => "computing",
        }
    }
}

/// What one job of one system measures.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    /// For how long each.
    pub time: Duration,
    /// Which cases.
    pub cases: Vec<String>,
    /// At which sizes, in bytes.
    pub sizes: Vec<usize>,
    /// With what kind of target.
    pub target: Target,
}

impl Plan {
    /// Every case with its size, in order.
    pub fn cases(&self) -> impl Iterator<Item = (String, usize)> + '_ {
        self.cases.iter().flat_map(|case| {
            let sizes = match case.as_str() {
                sized if SIZED.contains(&sized) => self.sizes.clone(),
                "barrier" => vec![0],
                _ => vec![8],
            };
            sizes.into_iter().map(|bytes| (case.clone(), bytes))
        })
    }
}

impl driver::Plan for Plan {
    const BENCH: &'static str = "ops";
    const LAYOUT: Layout = Layout {
        cases: &CASES,
        attributes: &["bytes", "target"],
        figures: &[("median_ns", Fold::Median), ("p50_ns", Fold::Median), ("p99_ns", Fold::Median)],
    };
    const HAS_LIMIT: bool = true;

    fn arguments(&self) -> Vec<String> {
        let sizes: Vec<String> = self.sizes.iter().map(usize::to_string).collect();
        vec![
            self.time.as_millis().to_string(),
            self.cases.join(","),
            sizes.join(","),
            self.target.name().to_owned(),
        ]
    }

    fn deadline(&self) -> Duration {
        // A rival that does not progress takes as long as the target computes.
        (self.time * 2 + Duration::from_millis(100)) * self.cases().count() as u32 + SLACK
    }

    fn label(&self) -> String {
        format!(", target {}", self.target.name())
    }

    fn run(&self, world: &World) -> farside::Result<Vec<String>> {
        measure::run(world, self)
    }

    fn run_limit(&self, limit: &Limit, setting: &Setting) -> Result<String> {
        if let Some(link) = &setting.link {
            return match self.target {
                Target::Idle => stream::run(self, link),
                Target::Computing => Ok(String::new()),
            };
        }
        match (self.target, limit) {
            (Target::Idle, Limit::Far(server)) if server == OFI => {
                pingpong::run(self, setting.provider.as_deref())
            }
            (Target::Idle, Limit::Near) => limit::run(self),
            (Target::Idle, _) => datagrams::run(self, limit),
            (Target::Computing, _) => Ok(String::new()),
        }
    }

    fn for_rival(&self, rival: Rival, far: bool) -> Option<Plan> {
        let can = |case: &&String| *case != OWN && !rival.crashes_in(case, far);
        let cases: Vec<String> = self.cases.iter().filter(can).cloned().collect();
        (!cases.is_empty()).then(|| Plan { cases, ..self.clone() })
    }

    fn complete(record: Record) -> Record {
        let (Some(ns), Some(bytes)) = (record.number("median_ns"), record.number("bytes")) else {
            return record;
        };
        let sized = SIZED.contains(&record.case.as_str());
        let record = record.figure("per_s", 1e9 / ns);
        if sized { record.figure("bytes_per_s", bytes * 1e9 / ns) } else { record }
    }
}

/// What to measure, all in all.
#[derive(Debug, Clone)]
pub struct Options {
    /// What every bench is told.
    pub setting: Setting,
    /// Which cases; all if empty.
    pub cases: Vec<String>,
    /// At which sizes, in bytes.
    pub sizes: Vec<usize>,
    /// The MTU of a link between two nodes, if they are not to reach each other over loopback.
    pub mtu: Option<u32>,
}

/// Measures.
pub fn run(options: &Options) -> Result<Findings> {
    options.setting.check(2)?;
    if let Some(mtu) = options.mtu {
        let nodes = options.setting.nodes.unwrap_or(1);
        ensure!(nodes == 2, "--mtu {mtu}: a link joins 2 nodes, not {nodes}; add --nodes 2");
        let link = Arc::new(Link::new(mtu, &options.setting.build_directory)?);
        let setting = Setting { link: Some(link), ..options.setting.clone() };
        return run(&Options { setting, mtu: None, ..options.clone() });
    }
    let cases = driver::choose(&options.cases, &CASES)?;
    for &bytes in &options.sizes {
        ensure!(
            bytes >= 8 && bytes.is_multiple_of(8) && (bytes < 64 || bytes.is_multiple_of(64)),
            "{bytes} bytes cannot be measured: below 64, sizes are multiples of 8; from there on, \
             of 64"
        );
        ensure!(
            bytes <= 64 << 20,
            "{bytes} bytes are more than the {} that are measured",
            64 << 20
        );
    }
    let mut left_out = Vec::new();
    let ranks = options.setting.ranks.iter();
    let plans: Vec<AtRanks<Plan>> =
        ranks.flat_map(|&ranks| plans(options, &cases, ranks, &mut left_out)).collect();
    driver::run(&options.setting, &plans, &left_out)
}

/// The jobs for a number of ranks. Where ranks outnumber processors, those that wait disturb a pair
/// that transfers in some systems and not in others, so that only the barrier is compared.
fn plans(
    options: &Options,
    cases: &[String],
    ranks: u32,
    left_out: &mut Vec<String>,
) -> Vec<AtRanks<Plan>> {
    let processors = match options.setting.sim {
        Some(_) => u32::MAX,
        None => processors() as u32,
    };
    let time = options.setting.time;
    let plan =
        |cases: Vec<String>, target| Plan { time, cases, sizes: options.sizes.clone(), target };
    let (barrier, pairs): (Vec<String>, Vec<String>) =
        cases.iter().cloned().partition(|case| case == "barrier");
    let mut plans = Vec::new();
    let most = processors.max(2);
    if ranks > most && !pairs.is_empty() {
        let why = format!(
            "where ranks outnumber processors, only the barrier is measured; ask for at most {most}"
        );
        left_out.push(driver::left_out(&pairs, ranks, &why));
    } else if !pairs.is_empty() {
        plans.push(AtRanks { ranks, plan: plan(pairs.clone(), Target::Idle) });
        plans.push(AtRanks { ranks, plan: plan(pairs, Target::Computing) });
    }
    if !barrier.is_empty() {
        plans.push(AtRanks { ranks, plan: plan(barrier, Target::Idle) });
    }
    plans
}

fn row(case: &str, bytes: usize, target: Target, times: Times) -> String {
    let (p50_ns, p99_ns) = times.single.map(|times| (times.p50_ns, times.p99_ns)).unzip();
    sample(case, &[&bytes, &target.name()], &[Some(times.median_ns), p50_ns, p99_ns])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Plan as _;

    fn plan(ms: u64, cases: &[&str], sizes: &[usize], target: Target) -> Plan {
        let cases = cases.iter().map(|&case| case.to_owned()).collect();
        Plan { time: Duration::from_millis(ms), cases, sizes: sizes.to_vec(), target }
    }

    #[test]
    fn a_plan_survives_the_command_line() {
        let plan = plan(20, &["put", "fetch_add", "barrier"], &[8, 64], Target::Computing);
        assert_eq!(plan.arguments(), ["20", "put,fetch_add,barrier", "8,64", "computing"]);
        let json = serde_json::to_string(&plan).unwrap();
        let read: Plan = driver::plan(&[json]).unwrap();
        let cases: Vec<(String, usize)> = read.cases().collect();
        assert_eq!(
            cases,
            [("put".into(), 8), ("put".into(), 64), ("fetch_add".into(), 8), ("barrier".into(), 0)]
        );
        assert_eq!((read.time, read.target), (plan.time, Target::Computing));
        let error = driver::plan::<Plan>(&["{}".to_owned()]).unwrap_err();
        assert!(format!("{error:#}").contains("time"), "{error:#}");
        assert!(driver::plan::<Plan>(&[]).is_err());
    }

    #[test]
    fn rates_follow_from_times() {
        let put = Record::new("ops", "put", "farside", "shm", 2, 1)
            .with("bytes", 1024)
            .figure("median_ns", 4.0);
        let put = Plan::complete(put);
        assert_eq!((put.number("per_s"), put.number("bytes_per_s")), (Some(0.25e9), Some(256e9)));
        let swap = Record::new("ops", "swap", "farside", "shm", 2, 1)
            .with("bytes", 8)
            .figure("median_ns", 4.0);
        assert_eq!(Plan::complete(swap).number("bytes_per_s"), None);
    }

    #[test]
    fn the_limit_is_measured() {
        let cases = ["put", "get", "fetch_add", "compare_swap", "barrier"];
        let plan = plan(1, &cases, &[8, 256], Target::Idle);
        assert_eq!(limit::run(&plan).unwrap().lines().count(), 7);
    }
}
