//! `farside bench sync`: all-fence and barrier against the combined fence and barrier, and barriers
//! alone, as in figure 7 of \[ARMCI03\].
//!
//! Before each `allfence_barrier` and `sync`, every rank puts into every other, and all meet. Timed
//! is the synchronization alone; a sample is the mean over iterations of the slowest rank. Barriers
//! follow each other, and a sample is the median over batches of them.

mod measure;
mod report;

use std::time::Duration;

use anyhow::{Result, ensure};
use farside::fence::Style;
use farside::{BarrierKind, SyncKind, World};
use serde::{Deserialize, Serialize};

use crate::driver::{self, AtRanks, Findings, Fold, Layout, SLACK, Setting};
use crate::rivals::Rival;

pub use report::{plot, tables};

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
    /// For how long each.
    pub time: Duration,
    /// Which cases.
    pub cases: Vec<String>,
    /// How much every rank puts into every other, in bytes.
    pub bytes: usize,
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

    fn label(&self) -> String {
        String::new()
    }

    fn run(&self, world: &World) -> farside::Result<Vec<String>> {
        measure::run(world, self)
    }

    fn for_rival(&self, _: Rival, _: bool) -> Option<Plan> {
        Some(self.clone())
    }
}

/// What to measure, all in all.
#[derive(Debug, Clone)]
pub struct Options {
    /// What every bench is told.
    pub setting: Setting,
    /// Which cases; all if empty.
    pub cases: Vec<String>,
    /// How much every rank puts into every other, in bytes.
    pub bytes: usize,
}

/// Measures.
pub fn run(options: &Options) -> Result<Findings> {
    options.setting.check(2)?;
    options.setting.check_one_server()?;
    let (cases, bytes) = (driver::choose(&options.cases, &CASES)?, options.bytes);
    ensure!(
        bytes >= 8 && bytes.is_multiple_of(8),
        "{bytes} bytes cannot be put here: expected a multiple of 8"
    );
    ensure!(
        bytes <= 1 << 20,
        "{bytes} bytes for every pair are more than the {} that are measured",
        1 << 20
    );
    let plan = Plan { time: options.setting.time, cases, bytes };
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
        let cases = vec!["sync".to_owned(), "barrier".to_owned()];
        let plan = Plan { time: Duration::from_millis(20), cases, bytes: 64 };
        assert_eq!(plan.arguments(), ["20", "sync,barrier", "64"]);
        let json = serde_json::to_string(&plan).unwrap();
        let read: Plan = driver::plan(&[json]).unwrap();
        assert_eq!(read.arguments(), plan.arguments());
    }

    /// Records of a quick run in virtual time, on a machine of single-rank nodes.
    fn simulated(ranks: &[u32], cases: &[&str]) -> Vec<Record> {
        let machine =
            Machine { profile: Profile::load("myrinet-2000").unwrap(), topology: None, seed: 1 };
        let setting = Setting {
            ranks: ranks.to_vec(),
            against: Vec::new(),
            time: Duration::from_millis(2),
            rounds: 1,
            program: "none".into(),
            sim: Some(machine),
            nodes: None,
            link: None,
            servers: Vec::new(),
            provider: None,
            build_directory: "none".into(),
            progress: false,
        };
        let cases = cases.iter().map(|&case| case.to_owned()).collect();
        run(&Options { setting, cases, bytes: 8 }).unwrap().records
    }

    fn figure(records: &[Record], ranks: u32, algorithm: &str, name: &str) -> f64 {
        let is = |record: &&Record| {
            record.ranks == ranks as usize
                && record.attribute("algorithm") == Some(algorithm.into())
        };
        records.iter().find(is).and_then(|record| record.number(name)).unwrap()
    }

    #[test]
    fn messages_are_as_many_as_the_paper_counts() {
        let ranks = [2, 4, 8, 16];
        let records = simulated(&ranks, &[ALLFENCE, SYNC]);
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
        let records = simulated(&ranks, &[ALLFENCE, SYNC]);
        let gain = |n| {
            figure(&records, n, "confirmed", "median_ns")
                / figure(&records, n, "counted", "median_ns")
        };
        assert!(gain(8) > gain(4) && gain(16) > gain(8) && gain(16) > 2.0, "{:?}", ranks.map(gain));
    }
}
