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
mod report;

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use farside::World;
use farside::array::Completion;
use farside::fence::Style;
use serde::{Deserialize, Serialize};

use crate::driver::{self, AtRanks, Findings, Fold, Layout, SLACK, Setting};
use crate::rivals::Rival;

pub use report::{plot, tables};

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
    /// For how long each.
    pub time: Duration,
    /// Which cases.
    pub cases: Vec<String>,
    /// Which patches.
    pub shapes: Vec<Shape>,
    /// The order of the matrices.
    pub size: usize,
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

    fn label(&self) -> String {
        String::new()
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

/// What to measure, all in all.
#[derive(Debug, Clone)]
pub struct Options {
    /// What every bench is told.
    pub setting: Setting,
    /// Which cases; all if empty.
    pub cases: Vec<String>,
    /// Which patches.
    pub shapes: Vec<Shape>,
    /// The order of the matrices.
    pub size: usize,
}

/// Measures.
pub fn run(options: &Options) -> Result<Findings> {
    options.setting.check(2)?;
    let cases = driver::choose(&options.cases, &CASES)?;
    ensure!(
        (1..=1 << 15).contains(&options.size),
        "matrices of order {} are not measured",
        options.size
    );
    let plan = Plan {
        time: options.setting.time,
        cases,
        shapes: options.shapes.clone(),
        size: options.size,
    };
    driver::run(&options.setting, &AtRanks::all(&options.setting, &plan), &[])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Plan as _;
    use crate::machine::Machine;
    use crate::record::Record;
    use farside::sim::Profile;

    #[test]
    fn a_plan_survives_the_command_line() {
        let plan = Plan {
            time: Duration::from_millis(20),
            cases: vec!["sync".to_owned(), "matmul".to_owned()],
            shapes: ["64x8", "1x131072"].map(|shape| Shape::parse(shape).unwrap()).to_vec(),
            size: 256,
        };
        assert_eq!(plan.arguments(), ["20", "sync,matmul", "64x8,1x131072", "256"]);
        let json = serde_json::to_string(&plan).unwrap();
        let read: Plan = driver::plan(&[json]).unwrap();
        assert_eq!(read.arguments(), plan.arguments());
        for bad in ["64", "0x1", "ax2", "99999x99999"] {
            assert!(Shape::parse(bad).unwrap_err().to_string().contains(bad), "{bad}");
        }
    }

    #[test]
    fn the_combined_sync_wins_more_with_every_doubling() {
        let machine =
            Machine { profile: Profile::load("myrinet-2000").unwrap(), topology: None, seed: 1 };
        let setting = Setting {
            nodes: None,
            link: None,
            servers: Vec::new(),
            provider: None,
            ranks: vec![4, 8, 16],
            against: Vec::new(),
            time: Duration::from_millis(1),
            rounds: 1,
            program: "none".into(),
            sim: Some(machine),
            build_directory: "none".into(),
            progress: false,
        };
        let cases = vec!["sync".to_owned(), "put".to_owned()];
        let options =
            Options { setting, cases, shapes: vec![Shape { rows: 4, columns: 8 }], size: 16 };
        let records = run(&options).unwrap().records;
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
