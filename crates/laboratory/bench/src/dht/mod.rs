//! `farside bench dht`: the hash tables, as figure 6 of \[RMALOCK16\] measures them and with the
//! usual mixes, beside servers that people use on one machine.
//!
//! What a rank repeats in each case:
//!
//! - `volume`: all ranks but 0 use the volume of rank 0, of a map of fixed size: inserts, of so
//!   many in a hundred, and gets of random keys.
//! - `integers`: the same with a set of 64-bit integers, as the paper's table is.
//! - `ycsb-a`, `ycsb-b`, `ycsb-c`: gets, and inserts (50, 5 and 0 in a hundred), of keys over all
//!   volumes that follow Zipf's law (exponent 0.99), of a map that grows.
//! - `ycsb-f`: gets, and as many read-modify-writes.
//!
//! On real ranks that takes a given time; in virtual time every rank does a given number of
//! operations. Redis and memcached get as many clients as there would be ranks, which are threads
//! of the command, over a UNIX socket; `lock` then says whether each waits for its answer
//! (`single`) or sends 64 requests at a time (`pipelined`).

mod measure;
mod mix;
mod report;
mod servers;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use farside::World;
use farside::map::Synchronization;
use serde::{Deserialize, Serialize};

use crate::driver::{self, AtRanks, Findings, Fold, Layout, SLACK, Setting};
use crate::rivals::Rival;

pub use report::{plot, tables};

const CASES: [&str; 6] = ["volume", "integers", "ycsb-a", "ycsb-b", "ycsb-c", "ycsb-f"];

/// What one job of one system measures.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    /// For how long each, on real ranks.
    pub time: Duration,
    /// Which cases.
    pub cases: Vec<String>,
    /// How many of a hundred operations on one volume are inserts.
    pub writers_pct: Vec<f64>,
    /// How often each rank, in virtual time; zero on real ranks.
    pub operations: u64,
    /// How many keys there are.
    pub keys: u64,
    /// Which synchronizations.
    #[serde(with = "names")]
    pub locks: Vec<Synchronization>,
}

mod names {
    use farside::map::Synchronization;
    use serde::de::{Deserialize as _, Deserializer, Error as _};
    use serde::ser::Serializer;

    pub(super) fn serialize<S: Serializer>(
        locks: &[Synchronization],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(locks.iter().map(Synchronization::name))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<Synchronization>, D::Error> {
        let names = Vec::<String>::deserialize(deserializer)?;
        names.iter().map(|name| super::lock(name).map_err(D::Error::custom)).collect()
    }
}

impl Plan {
    /// Every case, with the fraction of writers where there is one to choose.
    fn runs(&self) -> Vec<(&str, Option<f64>)> {
        let of = |case: &'_ String| -> Vec<Option<f64>> {
            if mix::is_of_one_volume(case) {
                self.writers_pct.iter().copied().map(Some).collect()
            } else {
                vec![None]
            }
        };
        self.cases
            .iter()
            .flat_map(|case| of(case).into_iter().map(|pct| (case.as_str(), pct)))
            .collect()
    }
}

/// The synchronization of a name.
pub fn lock(name: &str) -> Result<Synchronization> {
    let names =
        || Synchronization::all().iter().map(Synchronization::name).collect::<Vec<_>>().join(", ");
    Synchronization::named(name)
        .with_context(|| format!("there is no synchronization {name:?}; there are: {}", names()))
}

impl driver::Plan for Plan {
    const BENCH: &'static str = "dht";
    const LAYOUT: Layout = Layout {
        cases: &CASES,
        attributes: &["writers_pct", "lock"],
        figures: &[
            ("median_ns", Fold::Median),
            ("per_s", Fold::Median),
            ("total_ns", Fold::Median),
        ],
    };

    fn deadline(&self) -> Duration {
        (self.time * 4 + Duration::from_secs(2)) * (self.runs().len() * self.locks.len()) as u32
            + 2 * SLACK
    }

    fn label(&self) -> String {
        String::new()
    }

    fn run(&self, world: &World) -> farside::Result<Vec<String>> {
        measure::run(world, self)
    }

    fn rivals() -> &'static [Rival] {
        &[Rival::Redis, Rival::Memcached]
    }

    fn for_rival(&self, _: Rival, _: bool) -> Option<Plan> {
        let cases: Vec<String> =
            self.cases.iter().filter(|case| !mix::is_of_one_volume(case)).cloned().collect();
        (!cases.is_empty()).then(|| Plan { cases, ..self.clone() })
    }

    fn run_server(&self, rival: Rival, ranks: u32, program: &Path) -> Result<String> {
        servers::run(self, rival, ranks, program)
    }
}

/// What to measure, all in all.
#[derive(Debug, Clone)]
pub struct Options {
    /// What every bench is told.
    pub setting: Setting,
    /// Which cases; all if empty.
    pub cases: Vec<String>,
    /// Which synchronizations.
    pub locks: Vec<Synchronization>,
    /// How many of a hundred operations on one volume are inserts.
    pub writers_pct: Vec<f64>,
    /// How often each rank, in virtual time.
    pub operations: u64,
    /// How many keys there are.
    pub keys: u64,
}

/// Measures.
pub fn run(options: &Options) -> Result<Findings> {
    let setting = &options.setting;
    setting.check(2)?;
    let cases = driver::choose(&options.cases, &CASES)?;
    ensure!(options.operations > 0, "--operations 0 measures nothing; at least 1 is needed");
    ensure!((1..=1 << 32).contains(&options.keys), "{} keys are not measured", options.keys);
    for pct in &options.writers_pct {
        ensure!((0.0..=100.0).contains(pct), "{pct} % writers are not a fraction; use 0 to 100");
    }
    let operations = if setting.sim.is_some() { options.operations } else { 0 };
    let plan = Plan {
        time: setting.time,
        cases,
        writers_pct: options.writers_pct.clone(),
        operations,
        keys: options.keys,
        locks: options.locks.clone(),
    };
    driver::run(setting, &AtRanks::all(setting, &plan), &[])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Plan as _;
    use crate::machine::Machine;
    use farside::sim::Profile;

    #[test]
    fn a_plan_survives_the_command_line() {
        let plan = Plan {
            time: Duration::from_millis(20),
            cases: vec!["volume".to_owned(), "ycsb-a".to_owned()],
            writers_pct: vec![0.0, 2.5],
            operations: 7,
            keys: 100,
            locks: ["atomics", "rma-rw"].map(|name| lock(name).unwrap()).to_vec(),
        };
        let json = serde_json::to_string(&plan).unwrap();
        let read: Plan = driver::plan(&[json]).unwrap();
        assert_eq!(read.locks, plan.locks);
        assert_eq!(read.runs(), [("volume", Some(0.0)), ("volume", Some(2.5)), ("ycsb-a", None)]);
        assert!(lock("luck").unwrap_err().to_string().contains("rma-rw"));
        assert!(plan.for_rival(Rival::Redis, false).is_some_and(|plan| plan.cases == ["ycsb-a"]));
    }

    #[test]
    fn every_case_is_measured_in_virtual_time() {
        let machine =
            Machine { profile: Profile::load("aries-xc30").unwrap(), topology: None, seed: 1 };
        let setting = Setting {
            nodes: None,
            link: None,
            servers: Vec::new(),
            provider: None,
            ranks: vec![18],
            against: Vec::new(),
            time: Duration::from_millis(1),
            rounds: 1,
            program: "none".into(),
            sim: Some(machine),
            build_directory: "none".into(),
            progress: false,
        };
        let locks = Synchronization::all();
        let options = Options {
            setting,
            cases: Vec::new(),
            locks,
            writers_pct: vec![0.0, 20.0],
            operations: 20,
            keys: 500,
        };
        let records = run(&options).unwrap().records;
        assert_eq!(records.len(), Synchronization::all().len() * (2 * 2 + 4));
        for record in &records {
            assert!(
                ["per_s", "median_ns", "total_ns"]
                    .iter()
                    .all(|name| record.number(name).is_some_and(|figure| figure > 0.0)),
                "{record:?}"
            );
        }
    }
}
