//! `farside bench locks`: the five benchmarks of \[RMALOCK16\] section 5, and the times of figures
//! 8 to 10 of \[ARMCI03\].
//!
//! All ranks contend for one lock in the memory of rank 0.
//!
//! | case | what a rank repeats |
//! | --- | --- |
//! | `lb`, `request` | takes the lock and gives it back: the time of both (\[ARMCI03\] figure 8) |
//! | `acquire` | the same; until it has the lock (figure 9) |
//! | `release` | the same; giving it back (figure 10) |
//! | `ecsb` | the same; the throughput counts |
//! | `sob` | one memory operation while it has the lock |
//! | `wcsb` | increments a counter and computes for 1 to 4 us while it has the lock |
//! | `warb` | computes for 1 to 4 us when it has given the lock back |
//! | `hand_over` | computes for 200 us while it has the lock; the time until the next one has it |
//!
//! On real ranks that takes a given time, after a tenth of it to warm up: rank 0 looks at its clock
//! and tells the others, who look at words of their own. For a quarter of the time more, the same
//! operations are timed one by one, for percentiles. In virtual time every rank does a given number
//! of operations.

mod hand_over;
mod lock_spec;
mod measure;
mod report;
mod singles;
mod tally;

use std::time::Duration;

use anyhow::{Result, ensure};
use farside::World;
use serde::{Deserialize, Serialize};

use crate::driver::{self, AtRanks, Findings, Fold, Layout, SLACK, Setting, sample};
use crate::record::Record;
use crate::rivals::Rival;

pub use lock_spec::{LockSpec, Thresholds, levels};
pub use report::{plot, tables};

const CASES: [&str; 9] =
    ["lb", "ecsb", "sob", "wcsb", "warb", "request", "acquire", "release", HAND_OVER];
/// From one rank's giving back until the next one has the lock. Only writers are measured.
const HAND_OVER: &str = "hand_over";
/// Those that one loop serves.
const TIMES: [&str; 4] = ["lb", "request", "acquire", "release"];
/// A fraction of writers is known to a thousandth of a percent.
const WHOLE: f64 = 100_000.0;

/// What one job of one system measures.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    /// For how long each, on real ranks.
    pub time: Duration,
    /// Which cases.
    pub cases: Vec<String>,
    /// How many of a hundred requests are to write.
    pub writers_pct: f64,
    /// How often each rank, in virtual time; zero on real ranks.
    pub operations: u64,
    /// Which locks.
    pub locks: Vec<LockSpec>,
    /// Whether only the last rank takes the lock, and the others wait.
    #[serde(default)]
    pub last_only: bool,
}

impl Plan {
    /// The loops that serve the cases but [`HAND_OVER`]: one for all times, and one for each
    /// throughput.
    fn loops(&self) -> impl Iterator<Item = &str> {
        let first = self.cases.iter().find(|case| TIMES.contains(&case.as_str()));
        let throughputs = |case: &&String| *case != HAND_OVER && !TIMES.contains(&case.as_str());
        let others = self.cases.iter().filter(throughputs);
        first.into_iter().chain(others).map(String::as_str)
    }

    fn sample(&self, choice: &LockSpec, case: &str, figures: &[Option<f64>]) -> String {
        let [t_dc, t_l, t_r] = choice.thresholds().words();
        sample(case, &[&self.writers_pct, &choice.name(), &t_dc, &t_l, &t_r], figures)
    }

    fn hands_over(&self) -> bool {
        self.cases.iter().any(|case| case == HAND_OVER)
    }

    /// The fraction of writers, of [`WHOLE`].
    fn writers(&self) -> u64 {
        (self.writers_pct * WHOLE / 100.0).round() as u64
    }
}

impl driver::Plan for Plan {
    const BENCH: &'static str = "locks";
    const LAYOUT: Layout = Layout {
        cases: &CASES,
        attributes: &["writers_pct", "lock", "t_dc", "t_l", "t_r"],
        figures: &[
            ("median_ns", Fold::Median),
            ("per_s", Fold::Median),
            ("share_min", Fold::Median),
            ("share_max", Fold::Median),
            ("wait_max_ns", Fold::Largest),
            ("p50_ns", Fold::Median),
            ("p99_ns", Fold::Median),
        ],
    };

    fn arguments(&self) -> Vec<String> {
        let locks: Vec<String> = self.locks.iter().map(LockSpec::to_string).collect();
        vec![
            self.time.as_millis().to_string(),
            self.cases.join(","),
            self.writers_pct.to_string(),
            self.operations.to_string(),
            locks.join(","),
        ]
    }

    fn deadline(&self) -> Duration {
        // A waiting rank 0 sees late that time is up.
        (self.time * 4 + Duration::from_secs(1))
            * (self.cases.len() * self.locks.len().max(1)) as u32
            + SLACK
    }

    fn label(&self) -> String {
        format!(", {} % writers", self.writers_pct)
    }

    fn run(&self, world: &World) -> farside::Result<Vec<String>> {
        measure::run(world, self)
    }

    fn for_rival(&self, rival: Rival, _: bool) -> Option<Plan> {
        // OpenSHMEM has no lock for readers.
        let shares = self.writers_pct < 100.0;
        let mut plan = self.clone();
        plan.cases.retain(|case| case != HAND_OVER);
        ((rival != Rival::OpenShmem || !shares) && !plan.cases.is_empty()).then_some(plan)
    }

    fn complete(record: Record) -> Record {
        match (record.number("share_min"), record.number("share_max")) {
            (Some(least), Some(most)) => record.figure("fairness", least / most),
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
    /// Which locks, with which thresholds.
    pub locks: Vec<LockSpec>,
    /// How many of a hundred requests are to write; locks that readers cannot share are measured at
    /// 100 only.
    pub writers_pct: Vec<f64>,
    /// How often each rank takes the lock in virtual time.
    pub operations: u64,
    /// Whether only the last rank takes the lock, in virtual time.
    pub last_only: bool,
}

/// Measures.
pub fn run(options: &Options) -> Result<Findings> {
    let setting = &options.setting;
    setting.check(1)?;
    setting.check_one_server()?;
    let cases = driver::choose(&options.cases, &CASES)?;
    ensure!(
        !options.last_only || setting.sim.is_some(),
        "--last-only is for virtual time: add --sim"
    );
    ensure!(options.operations > 0, "--operations 0 measures nothing; at least 1 is needed");
    let mut plans = Vec::new();
    for &ranks in &setting.ranks {
        for &writers_pct in &options.writers_pct {
            ensure!(
                (0.0..=100.0).contains(&writers_pct),
                "{writers_pct} % writers are not a fraction; use 0 to 100"
            );
            let suits = |lock: &&LockSpec| lock.is_shared() || writers_pct == 100.0;
            let locks: Vec<LockSpec> = options.locks.iter().filter(suits).cloned().collect();
            let mut cases = cases.clone();
            if writers_pct < 100.0 || options.last_only {
                cases.retain(|case| case != HAND_OVER);
            }
            let operations = if setting.sim.is_some() { options.operations } else { 0 };
            if !locks.is_empty() && !cases.is_empty() {
                let time = setting.time;
                let last_only = options.last_only;
                let plan = Plan { time, cases, writers_pct, operations, locks, last_only };
                plans.push(AtRanks { ranks, plan });
            }
        }
    }
    let is_planned = |lock: &LockSpec| plans.iter().any(|at| at.plan.locks.contains(lock));
    let mut without: Vec<&str> =
        options.locks.iter().filter(|lock| !is_planned(lock)).map(LockSpec::name).collect();
    without.dedup();
    let why = "locks that readers cannot share are measured with 100 % writers only";
    let left_out =
        if without.is_empty() { vec![] } else { vec![format!("{}: {why}", without.join(", "))] };
    driver::run(setting, &plans, &left_out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Plan as _;
    use crate::machine::Machine;
    use farside::sim::Profile;

    #[test]
    fn a_plan_survives_the_command_line() {
        let locks = ["d-mcs/-/-/-", "rma-rw/2/20-50/1000"];
        let plan = Plan {
            time: Duration::from_millis(20),
            cases: ["lb", "sob", "acquire"].map(str::to_owned).to_vec(),
            writers_pct: 0.2,
            operations: 7,
            locks: locks.iter().map(|lock| lock.parse().unwrap()).collect(),
            last_only: false,
        };
        assert_eq!(plan.arguments(), ["20", "lb,sob,acquire", "0.2", "7", &locks.join(",")]);
        assert_eq!(plan.loops().collect::<Vec<_>>(), ["lb", "sob"]);
        assert_eq!(plan.writers(), 200);
        let json = serde_json::to_string(&plan).unwrap();
        let read: Plan = driver::plan(&[json]).unwrap();
        assert_eq!(read.arguments(), plan.arguments());
    }

    fn simulated(profile: &str, ranks: u32, locks: &[&str], writers_pct: &[f64]) -> Vec<Record> {
        let machine = Machine { profile: Profile::load(profile).unwrap(), topology: None, seed: 1 };
        let setting = Setting {
            ranks: vec![ranks],
            against: Vec::new(),
            time: Duration::from_millis(1),
            rounds: 1,
            program: "none".into(),
            sim: Some(machine),
            nodes: None,
            provider: None,
            link: None,
            servers: Vec::new(),
            build_directory: "none".into(),
            progress: false,
        };
        let locks = locks.iter().map(|name| LockSpec::named(name).unwrap()).collect();
        let options = Options {
            setting,
            cases: Vec::new(),
            locks,
            writers_pct: writers_pct.to_vec(),
            operations: 10,
            last_only: false,
        };
        run(&options).unwrap().records
    }

    #[test]
    fn every_lock_is_measured_in_virtual_time() {
        let all = LockSpec::all();
        let names: Vec<&str> = all.iter().map(LockSpec::name).collect();
        let records = simulated("aries-xc30", 18, &names, &[5.0, 100.0]);
        for choice in &all {
            let of = records
                .iter()
                .filter(|record| record.attribute("lock") == Some(choice.name().into()))
                .count();
            let with_readers = if choice.is_shared() { CASES.len() - 1 } else { 0 };
            assert_eq!(of, CASES.len() + with_readers, "{choice}");
        }
        let (handed_over, others): (Vec<&Record>, _) =
            records.iter().partition(|record| record.case == HAND_OVER);
        assert!(handed_over.iter().all(|record| record.number("median_ns") > Some(0.0)));
        for record in others {
            let figure = |name: &str| record.number(name).unwrap();
            assert!(
                figure("per_s") > 0.0 && figure("median_ns") > 0.0 && figure("wait_max_ns") > 0.0,
                "{record:?}"
            );
            assert!(figure("share_min") <= 1.0 && figure("share_max") >= 1.0, "{record:?}");
        }
    }

    #[test]
    fn the_parts_of_an_operation_add_up() {
        let records = simulated("myrinet-2000", 8, &["d-mcs"], &[100.0]);
        let ns = |case: &str| {
            records.iter().find(|record| record.case == case).unwrap().number("median_ns").unwrap()
        };
        assert!((ns("acquire") + ns("release") - ns("request")).abs() < 0.01);
        assert_eq!(ns("request"), ns("lb"));
        assert!(ns("acquire") > ns("release"));
    }

    #[test]
    fn readers_share_what_can_be_shared() {
        let records = simulated("aries-xc30", 32, &["rma-rw"], &[0.2, 100.0]);
        let per_s = |writers_pct: f64| {
            let is = |record: &&Record| {
                record.case == "wcsb" && record.number("writers_pct") == Some(writers_pct)
            };
            records.iter().find(is).unwrap().number("per_s").unwrap()
        };
        assert!(per_s(0.2) > 4.0 * per_s(100.0), "{} and {}", per_s(0.2), per_s(100.0));
    }
}
