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
use clap::Args;
use farside::World;
use serde::{Deserialize, Serialize};

use crate::driver::{self, AtRanks, Bench, Fold, Jobs, Layout, SLACK, Setting, sample};
use crate::record::Record;
use crate::report::Plot;
use crate::rivals::Rival;

pub use lock_spec::{LockSpec, Thresholds, levels};

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
    time: Duration,
    cases: Vec<String>,
    /// How many of a hundred requests are to write.
    writers_pct: f64,
    /// How often each rank, in virtual time; zero on real ranks.
    operations: u64,
    locks: Vec<LockSpec>,
    /// Whether only the last rank takes the lock, and the others wait.
    #[serde(default)]
    last_only: bool,
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

/// What the command line asks for.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  farside bench locks --ranks 2,16 --against \
                  mpich,openmpi,openshmem\n  farside bench locks --sim aries-xc30 --ranks \
                  16,64,256 --locks rma-rw,fompi-rw --cases ecsb --t-r 500,1000,2000\n  farside \
                  bench locks --sim myrinet-2000 --ranks 2,4,8,16 --cases request,acquire,release")]
pub struct Options {
    /// Which cases: lb, ecsb, sob, wcsb, warb, request, acquire, release, hand_over; all
    /// by default
    ///
    /// The times of taking and giving back a lock (lb and request: both, acquire, release), and the
    /// throughput when it protects nothing (ecsb), one memory operation (sob) or an increment and 1
    /// to 4 us of work (wcsb), or when as much work follows (warb); the time that a lock takes
    /// from a rank that has had it for 200 us to the next one that waits (hand_over).
    #[arg(long, value_delimiter = ',', value_name = "CASE,…")]
    cases: Vec<String>,
    #[arg(long, value_delimiter = ',', value_name = "LOCK,…", help = which_locks())]
    locks: Vec<String>,
    /// How many of a hundred requests are to write; locks that readers cannot share are measured at
    /// 100 only
    #[arg(long, value_delimiter = ',', default_value = "0.2,2,5,25,100", value_name = "PERCENT,…")]
    writers: Vec<f64>,
    /// How many neighbours share a counter of readers (T_DC), where a lock has such
    #[arg(long, value_delimiter = ',', value_name = "N,…")]
    t_dc: Vec<u32>,
    /// How often in a row a lock may stay in an element of each level (T_L), the widest first,
    /// where a lock has such: 20-50,10-100
    #[arg(long, value_delimiter = ',', value_name = "N-N,…")]
    t_l: Vec<String>,
    /// How many readers may go in at a counter before writers are looked for (T_R), where a lock
    /// has such
    #[arg(long, value_delimiter = ',', value_name = "N,…")]
    t_r: Vec<u32>,
    /// How often each rank takes the lock in virtual time, where --time does not count
    #[arg(long, default_value_t = 200, value_name = "N")]
    operations: u64,
    /// Let only the last rank take the lock, in virtual time: a remote lock without contention
    #[arg(long, requires = "sim")]
    last_only: bool,
}

impl Bench for Options {
    type Plan = Plan;

    const RANKS: Option<&'static str> = Some("2,16");
    const TIME_MS: u64 = 100;

    fn jobs(&self, setting: &mut Setting) -> Result<Jobs<Plan>> {
        let all = chosen(self)?;
        setting.check(1)?;
        setting.check_one_server()?;
        let cases = driver::choose(&self.cases, &CASES)?;
        let last_only = self.last_only;
        ensure!(!last_only || setting.sim.is_some(), "--last-only is for virtual time: add --sim");
        ensure!(self.operations > 0, "--operations 0 measures nothing; at least 1 is needed");
        let operations = if setting.sim.is_some() { self.operations } else { 0 };
        let mut plans = Vec::new();
        for &ranks in &setting.ranks {
            for &writers_pct in &self.writers {
                ensure!(
                    (0.0..=100.0).contains(&writers_pct),
                    "{writers_pct} % writers are not a fraction; use 0 to 100"
                );
                let suits = |lock: &&LockSpec| lock.is_shared() || writers_pct == 100.0;
                let locks: Vec<LockSpec> = all.iter().filter(suits).cloned().collect();
                let mut cases = cases.clone();
                if writers_pct < 100.0 || last_only {
                    cases.retain(|case| case != HAND_OVER);
                }
                if !locks.is_empty() && !cases.is_empty() {
                    let time = setting.time;
                    let plan = Plan { time, cases, writers_pct, operations, locks, last_only };
                    plans.push(AtRanks { ranks, plan });
                }
            }
        }
        let is_planned = |lock: &LockSpec| plans.iter().any(|at| at.plan.locks.contains(lock));
        let mut without: Vec<&str> =
            all.iter().filter(|lock| !is_planned(lock)).map(LockSpec::name).collect();
        without.dedup();
        let why = "locks that readers cannot share are measured with 100 % writers only";
        let is_any = !without.is_empty();
        let left_out = is_any.then(|| format!("{}: {why}", without.join(", ")));
        Ok(Jobs { plans, left_out: left_out.into_iter().collect() })
    }

    fn table(records: &[Record]) -> String {
        report::table(records)
    }

    fn plots(records: &[Record]) -> Vec<Plot> {
        report::plots(records)
    }
}

fn which_locks() -> String {
    let names: Vec<&str> = LockSpec::all().iter().map(LockSpec::name).collect();
    format!("Which locks: {}; all by default", names.join(", "))
}

/// The locks asked for, with every combination of the thresholds asked for.
fn chosen(options: &Options) -> Result<Vec<LockSpec>> {
    let named: Vec<LockSpec> = match &options.locks[..] {
        [] => LockSpec::all(),
        names => names.iter().map(|name| LockSpec::named(name)).collect::<Result<_>>()?,
    };
    fn or_usual<T: Clone>(values: &[T]) -> Vec<Option<T>> {
        if values.is_empty() { vec![None] } else { values.iter().cloned().map(Some).collect() }
    }
    let t_l: Vec<Vec<u32>> = options.t_l.iter().map(|text| levels(text)).collect::<Result<_>>()?;
    let mut locks: Vec<LockSpec> = Vec::new();
    for lock in named {
        for t_dc in or_usual(&options.t_dc) {
            for t_l in or_usual(&t_l) {
                for t_r in or_usual(&options.t_r) {
                    let lock = lock.with(&Thresholds { t_dc, t_l: t_l.clone(), t_r });
                    if !locks.contains(&lock) {
                        locks.push(lock);
                    }
                }
            }
        }
    }
    Ok(locks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::records_of;
    use crate::driver::Plan as _;

    #[test]
    fn the_command_line_of_a_program_in_c_has_the_plan() {
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
    }

    const QUICK: &str = "--operations 10 --time 1 --rounds 1";

    #[test]
    fn every_lock_is_measured_in_virtual_time() {
        let all = LockSpec::all();
        let records =
            records_of(&format!("locks --sim aries-xc30 --ranks 18 --writers 5,100 {QUICK}"));
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
        let records = records_of(&format!(
            "locks --sim myrinet-2000 --ranks 8 --locks d-mcs --writers 100 {QUICK}"
        ));
        let ns = |case: &str| {
            records.iter().find(|record| record.case == case).unwrap().number("median_ns").unwrap()
        };
        assert!((ns("acquire") + ns("release") - ns("request")).abs() < 0.01);
        assert_eq!(ns("request"), ns("lb"));
        assert!(ns("acquire") > ns("release"));
    }

    #[test]
    fn readers_share_what_can_be_shared() {
        let records = records_of(&format!(
            "locks --sim aries-xc30 --ranks 32 --locks rma-rw --writers 0.2,100 {QUICK}"
        ));
        let per_s = |writers_pct: f64| {
            let is = |record: &&Record| {
                record.case == "wcsb" && record.number("writers_pct") == Some(writers_pct)
            };
            records.iter().find(is).unwrap().number("per_s").unwrap()
        };
        assert!(per_s(0.2) > 4.0 * per_s(100.0), "{} and {}", per_s(0.2), per_s(100.0));
    }
}
