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
use clap::Args;
use farside::World;
use serde::{Deserialize, Serialize};

use crate::cores::processors;
use crate::driver::{
    self, AtRanks, Bench, Findings, Fold, Jobs, Layout, Limit, OFI, SLACK, Setting, parse_sizes,
    sample,
};
use crate::link::Link;
use crate::record::Record;
use crate::report::Plot;
use crate::rivals::Rival;
use crate::timing::Times;

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
    time: Duration,
    cases: Vec<String>,
    sizes: Vec<usize>,
    target: Target,
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

/// What the command line asks for.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  farside bench ops --ranks 2,16 --against mpich,openmpi,openshmem \
                  --json ops.json --plot plots\n  farside bench ops --nodes 2 --servers \
                  nic,host-poll,host-spin-block,host-block --against mpich,openmpi\n  farside \
                  bench ops --nodes 2 --mtu 1500 --cases put,get --sizes 1M,64M --against \
                  openmpi\n  farside bench ops --sim aries-xc30 --ranks 16,256,1024 --time 1 \
                  --rounds 1"
)]
pub struct Options {
    /// Which cases: put, get, accumulate, get_accumulate, put_strided, fetch_add, swap,
    /// compare_swap, compare_swap_miss, signal, rate, barrier; all by default
    #[arg(long, value_delimiter = ',', value_name = "CASE,…")]
    cases: Vec<String>,
    /// At which sizes
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "8,64,1K,8K,64K,1M,4M",
        value_name = "BYTES,…"
    )]
    sizes: Vec<String>,
    /// Join the two nodes by a link with this MTU, in network namespaces, instead of loopback; the
    /// limit is then one TCP stream by iperf3. Needs root
    #[arg(long, value_name = "BYTES", requires = "nodes")]
    mtu: Option<u32>,
}

impl Bench for Options {
    type Plan = Plan;

    const RANKS: Option<&'static str> = Some("2");

    fn jobs(&self, setting: &mut Setting) -> Result<Jobs<Plan>> {
        setting.check(2)?;
        if let Some(mtu) = self.mtu {
            let nodes = setting.nodes.unwrap_or(1);
            ensure!(nodes == 2, "--mtu {mtu}: a link joins 2 nodes, not {nodes}; add --nodes 2");
            setting.link = Some(Arc::new(Link::new(mtu, &setting.build_directory)?));
        }
        let cases = driver::choose(&self.cases, &CASES)?;
        let sizes = parse_sizes(&self.sizes)?;
        for &bytes in &sizes {
            ensure!(
                bytes >= 8 && bytes.is_multiple_of(8) && (bytes < 64 || bytes.is_multiple_of(64)),
                "{bytes} bytes cannot be measured: below 64, sizes are multiples of 8; from there \
                 on, of 64"
            );
            ensure!(
                bytes <= 64 << 20,
                "{bytes} bytes are more than the {} that are measured",
                64 << 20
            );
        }
        let mut left_out = Vec::new();
        let at = |&ranks: &u32| plans(setting, &cases, &sizes, ranks, &mut left_out);
        let plans = setting.ranks.iter().flat_map(at).collect();
        Ok(Jobs { plans, left_out })
    }

    fn measure(&self, mut setting: Setting) -> Result<Findings> {
        let jobs = self.jobs(&mut setting)?;
        let mut findings = driver::run(&setting, &jobs)?;
        let is_asked_for =
            self.cases.is_empty() || self.cases.iter().any(|case| case == "compare_swap");
        if is_asked_for && setting.against.contains(&Rival::OpenMpi) && setting.nodes.is_none() {
            let why = "its default one-sided component crashes in it";
            findings.troubles.push(format!("not measured: compare_swap of openmpi: {why}"));
        }
        Ok(findings)
    }

    fn table(records: &[Record]) -> String {
        report::table(records)
    }

    fn plots(records: &[Record]) -> Vec<Plot> {
        report::plots(records)
    }
}

/// The jobs for a number of ranks. Where ranks outnumber processors, those that wait disturb a pair
/// that transfers in some systems and not in others, so that only the barrier is compared.
fn plans(
    setting: &Setting,
    cases: &[String],
    sizes: &[usize],
    ranks: u32,
    left_out: &mut Vec<String>,
) -> Vec<AtRanks<Plan>> {
    let processors = match setting.sim {
        Some(_) => u32::MAX,
        None => processors() as u32,
    };
    let time = setting.time;
    let plan = |cases: Vec<String>, target| Plan { time, cases, sizes: sizes.to_vec(), target };
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
    fn the_command_line_of_a_program_in_c_has_the_plan() {
        let plan = plan(20, &["put", "fetch_add", "barrier"], &[8, 64], Target::Computing);
        assert_eq!(plan.arguments(), ["20", "put,fetch_add,barrier", "8,64", "computing"]);
        let cases: Vec<(String, usize)> = plan.cases().collect();
        assert_eq!(
            cases,
            [("put".into(), 8), ("put".into(), 64), ("fetch_add".into(), 8), ("barrier".into(), 0)]
        );
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
