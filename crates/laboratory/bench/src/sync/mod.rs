//! `farside bench sync`: all-fence and barrier against the combined fence and barrier, and barriers
//! alone, as in figure 7 of \[ARMCI03\].
//!
//! Before each `allfence_barrier` and `sync`, every rank puts into every other, and all meet. Timed
//! is the synchronization alone; a sample is the mean over iterations of the slowest rank. Barriers
//! follow each other, and a sample is the median over batches of them.

mod measure;

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use farside::fence::Style;
use farside::{BarrierKind, SyncKind, World};
use farside_job::parse_bytes;
use serde::{Deserialize, Serialize};

use crate::driver::{self, Bench, FARSIDE, Fold, Jobs, Layout, SLACK, Setting};
use crate::plot::{Axis, Chart, Scale, Series, Unit};
use crate::record::Record;
use crate::report::{Plot, all_ranks, curves, over_ranks, text_of, time};
use crate::table::{Columns, alike, ratio, times};

const CASES: [&str; 3] = [ALLFENCE, SYNC, BARRIER];
const ALLFENCE: &str = "allfence_barrier";
const SYNC: &str = "sync";
const BARRIER: &str = "barrier";

fn algorithms(case: &str) -> Vec<&'static str> {
    match case {
        ALLFENCE => [Style::Acknowledged, Style::Confirmed].map(Style::name).to_vec(),
        SYNC => std::iter::once("world").chain(SyncKind::ALL.map(SyncKind::name)).collect(),
        _ => std::iter::once("world").chain(BarrierKind::ALL.map(BarrierKind::name)).collect(),
    }
}

/// What one job of one system measures.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    time: Duration,
    cases: Vec<String>,
    /// How much every rank puts into every other, in bytes.
    bytes: usize,
}

impl driver::Plan for Plan {
    const BENCH: &'static str = "sync";
    const LAYOUT: Layout = Layout {
        cases: &CASES,
        attributes: &["bytes", "algorithm"],
        figures: &[("median_ns", Fold::Median), ("messages", Fold::Median)],
    };

    fn arguments(&self) -> Vec<String> {
        vec![self.time.as_millis().to_string(), self.cases.join(","), self.bytes.to_string()]
    }

    fn deadline(&self) -> Duration {
        let count: usize = self.cases.iter().map(|case| algorithms(case).len()).sum();
        // A rank may need a second for a single one.
        (self.time * 2 + Duration::from_secs(2)) * count as u32 + SLACK
    }

    fn run(&self, world: &World) -> farside::Result<Vec<String>> {
        measure::run(world, self)
    }
}

/// What the command line asks for.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  farside bench sync --ranks 2,4,8,16 --against \
                  mpich,openmpi,openshmem\n  farside bench sync --sim myrinet-2000 --json \
                  sync.json --plot plots")]
pub struct Options {
    /// Which cases: allfence_barrier (acknowledged, confirmed), sync (world, auto, direct,
    /// counted), barrier (world, central, dissemination, binomial, hierarchical); all by default
    #[arg(long, value_delimiter = ',', value_name = "CASE,…")]
    cases: Vec<String>,
    /// How much every rank puts into every other
    #[arg(long, default_value = "8", value_name = "BYTES")]
    bytes: String,
}

impl Bench for Options {
    type Plan = Plan;

    const RANKS: Option<&'static str> = Some("2,4,8,16");

    fn jobs(&self, setting: &mut Setting) -> Result<Jobs<Plan>> {
        setting.check(2)?;
        setting.check_one_server()?;
        let cases = driver::choose(&self.cases, &CASES)?;
        let bytes = parse_bytes(&self.bytes)? as usize;
        ensure!(
            bytes >= 8 && bytes.is_multiple_of(8),
            "{bytes} bytes cannot be put here: expected a multiple of 8"
        );
        ensure!(
            bytes <= 1 << 20,
            "{bytes} bytes for every pair are more than the {} that are measured",
            1 << 20
        );
        Ok(Jobs::everywhere(setting, [Plan { time: setting.time, cases, bytes }]))
    }

    /// With how many times faster each is than the best rival that achieves the same.
    fn table(records: &[Record]) -> String {
        // Whether all that was put has landed afterwards, too.
        let completes = |record: &Record| record.case != BARRIER;
        let ratio = |own: &Record| {
            let others = alike(records, own, &["ranks"]);
            let others = others.into_iter().filter(|other| completes(other) == completes(own));
            ratio(own, others, "median_ns").map(times)
        };
        Columns::of(&["ranks", "case", "system", "algorithm"])
            .figures(&[("time", "median_ns")])
            .texts(&["messages"])
            .cell("ratio", ratio)
            .table(4, records)
    }

    /// Time by ranks, and how many times faster the combined fence and barrier is than the two
    /// apart.
    fn plots(records: &[Record]) -> Vec<Plot> {
        let name = |record: &Record| match record.system.as_str() {
            FARSIDE => format!("{} {}", record.case, text_of(record, "algorithm")),
            rival => rival.to_owned(),
        };
        let by_ranks = |title: &str, subtitle: &str, cases: &[&str]| Chart {
            title: title.into(),
            subtitle: subtitle.into(),
            x: over_ranks(),
            y: time("time of the slowest rank"),
            series: curves(
                records.iter().filter(|record| cases.contains(&record.case.as_str())),
                name,
                ("ranks", "median_ns"),
            ),
        };
        let after = "after puts from everybody to everybody; lower is better ([ARMCI03] figure 7a)";
        let both = by_ranks("Fence and barrier", after, &[ALLFENCE, SYNC]);
        let barrier = by_ranks("Barrier", "lower is better", &[BARRIER]);
        let plots = [
            Plot::of_curves("fence and barrier", "sync-time.svg", &both),
            Plot::of_curves("speed-up of the combined one", "sync-speedup.svg", &speedup(records)),
            Plot::of_curves("barrier", "sync-barrier.svg", &barrier),
        ];
        plots.into_iter().flatten().collect()
    }
}

fn speedup(records: &[Record]) -> Chart {
    let of = |ranks: usize, case: &str, algorithm: &str| {
        let is = |record: &&Record| {
            (record.ranks, record.case.as_str(), record.system.as_str()) == (ranks, case, FARSIDE)
                && text_of(record, "algorithm") == algorithm
        };
        records.iter().find(is).and_then(|record| record.number("median_ns"))
    };
    let against = |style: &str| {
        let point = |n: usize| Some((n as f64, of(n, ALLFENCE, style)? / of(n, SYNC, "counted")?));
        let points = all_ranks(records).into_iter().filter_map(point).collect();
        Series::new(format!("against {style}"), points)
    };
    let series = ["confirmed", "acknowledged"].map(against).into_iter();
    Chart {
        title: "Combined fence and barrier: how many times faster".into(),
        subtitle: "than all-fence and then barrier ([ARMCI03] figure 7b)".into(),
        x: over_ranks(),
        y: Axis::new("times", Scale::Linear, Unit::None),
        series: series.filter(|series| !series.points.is_empty()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::records_of;

    const QUICK: &str = "--sim myrinet-2000 --cases allfence_barrier,sync --time 2 --rounds 1";

    fn figure(records: &[Record], ranks: u32, algorithm: &str, name: &str) -> f64 {
        let is = |record: &&Record| {
            record.ranks == ranks as usize
                && record.attribute("algorithm") == Some(algorithm.into())
        };
        records.iter().find(is).and_then(|record| record.number(name)).unwrap()
    }

    #[test]
    fn messages_are_as_many_as_the_paper_counts() {
        let ranks = [2u32, 4, 8, 16];
        let records = records_of(&format!("sync --ranks 2,4,8,16 {QUICK}"));
        for n in ranks {
            let phases = n.ilog2();
            let messages = |algorithm| figure(&records, n, algorithm, "messages");
            // N - 1 requests, each with its reply, and then the barrier's signals.
            assert_eq!(
                messages("confirmed"),
                f64::from(n - 1 + phases),
                "all-fence and barrier at {n}"
            );
            assert_eq!(
                messages("acknowledged"),
                f64::from(phases),
                "acknowledged all-fence and barrier at {n}"
            );
            assert_eq!(messages("counted"), f64::from(2 * phases), "combined at {n}");
        }
    }

    #[test]
    fn the_combined_fence_and_barrier_wins_more_with_every_doubling() {
        let ranks = [4, 8, 16];
        let records = records_of(&format!("sync --ranks 4,8,16 {QUICK}"));
        let gain = |n| {
            figure(&records, n, "confirmed", "median_ns")
                / figure(&records, n, "counted", "median_ns")
        };
        assert!(gain(8) > gain(4) && gain(16) > gain(8) && gain(16) > 2.0, "{:?}", ranks.map(gain));
    }
}
