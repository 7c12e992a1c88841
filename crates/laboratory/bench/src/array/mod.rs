//! `farside bench array`: the global array, as figure 7 of \[ARMCI03\] measures its sync, and
//! patches and products beside Global Arrays.
//!
//! What each case measures:
//!
//! - `sync`: every rank writes to the part of every other, all meet, and the sync is timed, a
//!   hundred times: the mean over all ranks.
//! - `put`, `get`, `accumulate`: rank 0 and a patch of another rank, on another node if there is
//!   one; each is complete before the next.
//! - `matmul`: a product of square matrices, on all ranks: the best of three. OpenBLAS multiplies
//!   its own, in one process with as many threads, at most one for each processor.

mod measure;

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use farside::World;
use farside::array::Completion;
use farside::fence::Style;
use serde::{Deserialize, Serialize};

use crate::driver::{self, Bench, Fold, Jobs, Layout, SLACK, Setting};
use crate::plot::{Axis, Chart, Scale, Unit};
use crate::record::Record;
use crate::report::{Plot, all_ranks, curves, of_case, over_ranks, time};
use crate::rivals::Rival;
use crate::table::{Columns, alike, ratio, times};

const CASES: [&str; 5] = ["sync", "put", "get", "accumulate", "matmul"];
const COMPLETIONS: [Completion; 3] = [
    Completion::Combined,
    Completion::AllFence(Style::Acknowledged),
    Completion::AllFence(Style::Confirmed),
];

/// A patch: rows and columns of doubles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// How many rows.
    pub rows: usize,
    /// How many elements of each.
    pub columns: usize,
}

impl Shape {
    /// Reads `64x8`.
    pub fn parse(text: &str) -> Result<Shape> {
        let number = |part: &str| part.parse().ok().filter(|&number: &usize| number > 0);
        let shape = text
            .split_once('x')
            .and_then(|(rows, columns)| Some((number(rows)?, number(columns)?)));
        let (rows, columns) = shape.with_context(|| {
            format!("{text:?} is not a shape: expected rows and columns such as 64x8")
        })?;
        ensure!(
            rows.saturating_mul(columns) <= 1 << 24,
            "a patch of {text} doubles is more than is measured"
        );
        Ok(Shape { rows, columns })
    }

    fn bytes(self) -> usize {
        self.rows * self.columns * 8
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}x{}", self.rows, self.columns)
    }
}

/// What one job of one system measures.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    time: Duration,
    cases: Vec<String>,
    shapes: Vec<Shape>,
    size: usize,
}

impl driver::Plan for Plan {
    const BENCH: &'static str = "array";
    const LAYOUT: Layout = Layout {
        cases: &CASES,
        attributes: &["bytes", "shape", "algorithm"],
        figures: &[
            ("median_ns", Fold::Median),
            ("bytes_per_s", Fold::Median),
            ("flop_per_s", Fold::Median),
        ],
    };

    fn arguments(&self) -> Vec<String> {
        let shapes: Vec<String> = self.shapes.iter().map(Shape::to_string).collect();
        vec![
            self.time.as_millis().to_string(),
            self.cases.join(","),
            shapes.join(","),
            self.size.to_string(),
        ]
    }

    fn deadline(&self) -> Duration {
        // A sync of somebody else's may take a hundred milliseconds, and there are two hundred of
        // them.
        (self.time * 2 + Duration::from_secs(2)) * (self.cases.len() * self.shapes.len()) as u32
            + 2 * SLACK
    }

    fn run(&self, world: &World) -> farside::Result<Vec<String>> {
        measure::run(world, self)
    }

    fn rivals() -> &'static [Rival] {
        &[Rival::Ga, Rival::OpenBlas]
    }

    fn for_rival(&self, rival: Rival, _: bool) -> Option<Plan> {
        let mut plan = self.clone();
        if rival == Rival::OpenBlas {
            plan.cases.retain(|case| case == "matmul");
        }
        (!plan.cases.is_empty()).then_some(plan)
    }
}

/// What the command line asks for.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  farside bench array --ranks 2,8,16 --against ga\n  farside bench \
                  array --sim myrinet-2000 --ranks 2,4,8,16 --cases sync --plot plots"
)]
pub struct Options {
    /// Which cases: sync (combined, allfence, allfence-confirmed), put, get, accumulate, matmul;
    /// all by default
    #[arg(long, value_delimiter = ',', value_name = "CASE,…")]
    cases: Vec<String>,
    /// Which patches, in rows and columns of doubles
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "1x8,64x8,1x8192,1x131072,512x256",
        value_name = "ROWSxCOLUMNS,…"
    )]
    shapes: Vec<String>,
    /// The order of the matrices that are multiplied
    #[arg(long, default_value_t = 256, value_name = "N")]
    size: usize,
}

impl Bench for Options {
    type Plan = Plan;

    const RANKS: Option<&'static str> = Some("2,8,16");

    fn jobs(&self, setting: &mut Setting) -> Result<Jobs<Plan>> {
        setting.check(2)?;
        let cases = driver::choose(&self.cases, &CASES)?;
        ensure!(
            (1..=1 << 15).contains(&self.size),
            "matrices of order {} are not measured",
            self.size
        );
        let shapes = self.shapes.iter().map(|text| Shape::parse(text)).collect::<Result<_>>()?;
        let plan = Plan { time: setting.time, cases, shapes, size: self.size };
        Ok(Jobs::everywhere(setting, [plan]))
    }

    /// With how many times faster each is than the best rival.
    fn table(records: &[Record]) -> String {
        let rate = |record: &Record| {
            let mut rates = ["bytes_per_s", "flop_per_s"].into_iter();
            rates.find_map(|name| Some(Unit::of(name).format(record.number(name)?)))
        };
        let rivals = |own: &Record| alike(records, own, &["ranks", "case", "shape"]);
        Columns::of(&["ranks", "case", "shape"])
            .figures(&[("bytes", "bytes")])
            .texts(&["system", "algorithm"])
            .figures(&[("time", "median_ns")])
            .cell("rate", rate)
            .cell("ratio", |own| ratio(own, rivals(own), "median_ns").map(times))
            .table(6, records)
    }

    fn plots(records: &[Record]) -> Vec<Plot> {
        let name = |record: &Record| match record.text("algorithm") {
            Some(algorithm) => format!("{} {algorithm}", record.system),
            None => record.system.clone(),
        };
        let by_ranks = |case: &str, caption: &str, title: &str, subtitle: &str| {
            let chart = Chart {
                title: title.into(),
                subtitle: subtitle.into(),
                x: over_ranks(),
                y: time("time"),
                series: curves(of_case(records, case), name, ("ranks", "median_ns")),
            };
            Plot::of_curves(caption, format!("array-{case}.svg"), &chart)
        };
        let after =
            "after each rank has written to all others; lower is better ([ARMCI03] figure 7a)";
        let mut plots = vec![
            by_ranks("sync", "sync of an array", "Sync of an array", after),
            by_ranks("matmul", "matrix product", "Matrix product", "lower is better"),
        ];
        for case in ["put", "get", "accumulate"] {
            for ranks in all_ranks(records) {
                let chosen = of_case(records, case).into_iter().filter(|it| it.ranks == ranks);
                let chart = Chart {
                    title: format!("Patches: {case}, {ranks} ranks"),
                    subtitle: "higher is better".into(),
                    x: Axis::new("bytes", Scale::Log2, Unit::Bytes),
                    y: Axis::new("bandwidth", Scale::Log10, Unit::BytesPerS),
                    series: curves(chosen, name, ("bytes", "bytes_per_s")),
                };
                let caption = format!("{case}, {ranks} ranks");
                plots.push(Plot::of_curves(&caption, format!("array-{case}-{ranks}.svg"), &chart));
            }
        }
        plots.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::records_of;

    #[test]
    fn what_is_no_shape_is_named() {
        for bad in ["64", "0x1", "ax2", "99999x99999"] {
            assert!(Shape::parse(bad).unwrap_err().to_string().contains(bad), "{bad}");
        }
    }

    #[test]
    fn the_combined_sync_wins_more_with_every_doubling() {
        let records = records_of(
            "array --sim myrinet-2000 --ranks 4,8,16 --cases sync,put --shapes 4x8 --time 1 \
             --rounds 1",
        );
        let ns = |ranks: usize, algorithm: &str| {
            let is = |record: &&Record| {
                record.ranks == ranks && record.attribute("algorithm") == Some(algorithm.into())
            };
            records.iter().find(is).and_then(|record| record.number("median_ns")).unwrap()
        };
        let gain = |ranks| ns(ranks, "allfence-confirmed") / ns(ranks, "combined");
        assert!(
            gain(8) > gain(4) && gain(16) > gain(8) && gain(16) > 2.0,
            "{:?}",
            [4, 8, 16].map(gain)
        );
        assert!(records.iter().any(|record| record.case == "put"
            && record.number("bytes_per_s").is_some_and(|rate| rate > 0.0)));
    }
}
