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
mod servers;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use farside::World;
use farside::map::Synchronization;
use serde::{Deserialize, Serialize};

use crate::driver::{self, Bench, Fold, Jobs, Layout, SLACK, Setting};
use crate::plot::{Axis, Chart, Scale, Unit};
use crate::record::Record;
use crate::report::{Plot, curves, name_by, of_case, over_ranks, text_of, time};
use crate::rivals::Rival;
use crate::table::{Columns, alike, grouped, ratio, times};

const CASES: [&str; 6] = ["volume", "integers", "ycsb-a", "ycsb-b", "ycsb-c", "ycsb-f"];

/// What one job of one system measures.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    /// For how long each, on real ranks.
    time: Duration,
    cases: Vec<String>,
    /// How many of a hundred operations on one volume are inserts.
    writers_pct: Vec<f64>,
    /// How often each rank, in virtual time; zero on real ranks.
    operations: u64,
    keys: u64,
    #[serde(with = "names")]
    locks: Vec<Synchronization>,
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

/// What the command line asks for.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  farside bench dht --ranks 2 --cases ycsb-a,ycsb-b,ycsb-c,ycsb-f \
                  --against redis,memcached\n  farside bench dht --sim aries-xc30 --ranks \
                  16,64,256,1024 --cases integers --plot plots"
)]
pub struct Options {
    /// Which cases: volume, integers, ycsb-a, ycsb-b, ycsb-c, ycsb-f; all by default
    #[arg(long, value_delimiter = ',', value_name = "CASE,…")]
    cases: Vec<String>,
    /// How ranks keep out of each other's way: atomics, fompi-rw, rma-rw, default-rw; all by
    /// default
    #[arg(long, value_delimiter = ',', value_name = "LOCK,…")]
    locks: Vec<String>,
    /// How many of a hundred operations on one volume are inserts
    #[arg(long, value_delimiter = ',', default_value = "0,2,5,20", value_name = "PERCENT,…")]
    writers: Vec<f64>,
    /// How many operations each rank does in virtual time, where --time does not count
    #[arg(long, default_value_t = 200, value_name = "N")]
    operations: u64,
    /// How many keys there are
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    keys: u64,
}

impl Bench for Options {
    type Plan = Plan;

    const RANKS: Option<&'static str> = Some("2");
    const TIME_MS: u64 = 100;

    fn jobs(&self, setting: &mut Setting) -> Result<Jobs<Plan>> {
        setting.check(2)?;
        let cases = driver::choose(&self.cases, &CASES)?;
        let locks = match &self.locks[..] {
            [] => Synchronization::all(),
            names => names.iter().map(|name| lock(name)).collect::<Result<_>>()?,
        };
        ensure!(self.operations > 0, "--operations 0 measures nothing; at least 1 is needed");
        ensure!((1..=1 << 32).contains(&self.keys), "{} keys are not measured", self.keys);
        for pct in &self.writers {
            ensure!(
                (0.0..=100.0).contains(pct),
                "{pct} % writers are not a fraction; use 0 to 100"
            );
        }
        let plan = Plan {
            time: setting.time,
            cases,
            writers_pct: self.writers.clone(),
            operations: if setting.sim.is_some() { self.operations } else { 0 },
            keys: self.keys,
            locks,
        };
        Ok(Jobs::everywhere(setting, [plan]))
    }

    /// With how many times more each does than the best rival, and than the same rival that waits
    /// for each answer.
    fn table(records: &[Record]) -> String {
        let ratio = |own: &Record, lock: &str| {
            let others = alike(records, own, &["ranks", "case"]);
            let others = others.into_iter().filter(|it| text_of(it, "lock") == lock);
            ratio(own, others, "per_s").map(times)
        };
        Columns::of(&["ranks", "case"])
            .cell("writers", |record| Some(format!("{} %", record.text("writers_pct")?)))
            .texts(&["system", "lock"])
            .figures(&[("time", "median_ns"), ("throughput", "per_s"), ("total", "total_ns")])
            .cell("against pipelined", |own| ratio(own, "pipelined"))
            .cell("single", |own| ratio(own, "single"))
            .table(5, records)
    }

    /// The time of all operations on one volume as in figure 6 of \[RMALOCK16\], and the throughput
    /// of the mixes.
    fn plots(records: &[Record]) -> Vec<Plot> {
        let mut plots = Vec::new();
        for case in CASES {
            for (pct, of) in grouped(of_case(records, case), |record| record.text("writers_pct")) {
                let is_total = mix::is_of_one_volume(case);
                let (figure, y, subtitle) = match is_total {
                    true => (
                        "total_ns",
                        time("time of all operations"),
                        "lower is better ([RMALOCK16] figure 6)",
                    ),
                    false => (
                        "per_s",
                        Axis::new("operations of all ranks", Scale::Log10, Unit::PerS),
                        "higher is better",
                    ),
                };
                let pct = pct.unwrap_or_default();
                let (title, file) = match (is_total, case) {
                    (false, _) => (format!("Hash table: {case}"), format!("dht-{case}.svg")),
                    (_, "volume") => {
                        (format!("One volume, {pct} % inserts"), format!("dht-{case}-{pct}.svg"))
                    }
                    _ => (
                        format!("One volume of integers, {pct} % inserts"),
                        format!("dht-{case}-{pct}.svg"),
                    ),
                };
                let chart = Chart {
                    title: title.clone(),
                    subtitle: subtitle.into(),
                    x: over_ranks(),
                    y,
                    series: curves(of, name_by("lock"), ("ranks", figure)),
                };
                plots.extend(Plot::of_curves(&title, file, &chart));
            }
        }
        plots
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::records_of;
    use crate::driver::Plan as _;

    #[test]
    fn rivals_have_no_volume_that_all_use() {
        let plan = Plan {
            time: Duration::from_millis(20),
            cases: vec!["volume".to_owned(), "ycsb-a".to_owned()],
            writers_pct: vec![0.0, 2.5],
            operations: 7,
            keys: 100,
            locks: ["atomics", "rma-rw"].map(|name| lock(name).unwrap()).to_vec(),
        };
        assert_eq!(plan.runs(), [("volume", Some(0.0)), ("volume", Some(2.5)), ("ycsb-a", None)]);
        assert!(lock("luck").unwrap_err().to_string().contains("rma-rw"));
        assert!(plan.for_rival(Rival::Redis, false).is_some_and(|plan| plan.cases == ["ycsb-a"]));
    }

    #[test]
    fn every_case_is_measured_in_virtual_time() {
        let records = records_of(
            "dht --sim aries-xc30 --ranks 18 --writers 0,20 --operations 20 --keys 500 --time 1 \
             --rounds 1",
        );
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
