//! `farside bench irregular`: many small operations on other ranks' memory, by an aggregator and
//! one by one, beside the same in OpenSHMEM.

mod report;

use std::time::Duration;

use anyhow::{Result, ensure};
use farside::{Rank, World};
use farside_apps::irregular;
use serde::{Deserialize, Serialize};

use crate::driver::{self, AtRanks, Findings, Fold, Layout, SLACK, Setting, sample};
use crate::rivals::Rival;

pub use report::{plot, tables};

const CASES: [&str; 4] = irregular::PROGRAMS;

/// The most operations of each rank, for which the rival has room as well.
const OPERATIONS_MAX: u64 = 1 << 24;

/// What one job of one system measures.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    /// Which program.
    pub case: String,
    /// How many operations of each rank.
    pub operations: u64,
}

impl driver::Plan for Plan {
    const BENCH: &'static str = "irregular";
    const LAYOUT: Layout =
        Layout { cases: &CASES, attributes: &["way"], figures: &[("per_s", Fold::Median)] };

    fn arguments(&self) -> Vec<String> {
        vec![self.case.clone(), self.operations.to_string()]
    }

    fn deadline(&self) -> Duration {
        // A thousand operations a second would be a very slow network.
        Duration::from_secs_f64(self.operations as f64 / 1e3) + SLACK
    }

    fn label(&self) -> String {
        format!(", {}", self.case)
    }

    fn run(&self, world: &World) -> farside::Result<Vec<String>> {
        let rates = irregular::measure(world, &self.case, self.operations)?;
        let samples =
            rates.iter().map(|rate| sample(rate.program, &[&rate.way], &[Some(rate.per_s)]));
        Ok(if world.rank() == Rank(0) { samples.collect() } else { Vec::new() })
    }

    fn for_rival(&self, _: Rival, _: bool) -> Option<Plan> {
        Some(self.clone())
    }

    fn rivals() -> &'static [Rival] {
        &[Rival::OpenShmem]
    }
}

/// What to measure, all in all.
#[derive(Debug, Clone)]
pub struct Options {
    /// What every bench is told.
    pub setting: Setting,
    /// Which programs; all if empty.
    pub cases: Vec<String>,
    /// How many operations of each rank.
    pub operations: u64,
}

/// Measures.
pub fn run(options: &Options) -> Result<Findings> {
    let setting = &options.setting;
    setting.check(1)?;
    setting.check_one_server()?;
    ensure!(setting.sim.is_none(), "these programs are timed by the clock: leave out --sim");
    ensure!(
        (irregular::OPERATIONS_MIN..=OPERATIONS_MAX).contains(&options.operations),
        "{} operations of each rank are not measured: expected {} to {OPERATIONS_MAX}",
        options.operations,
        irregular::OPERATIONS_MIN
    );
    let plans = driver::choose(&options.cases, &CASES)?
        .into_iter()
        .flat_map(|case| AtRanks::all(setting, &Plan { case, operations: options.operations }));
    driver::run(setting, &plans.collect::<Vec<_>>(), &[])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Plan as _;

    #[test]
    fn every_program_says_how_fast_it_was() {
        for case in CASES {
            let plan = Plan { case: case.to_owned(), operations: 64 };
            let json = serde_json::to_string(&plan).unwrap();
            let plan: Plan = driver::plan(&[json]).unwrap();
            assert_eq!(plan.arguments(), [case, "64"]);
            let samples = farside::local(3, move |world| plan.run(world)).unwrap();
            assert!(!samples[0].is_empty() && samples[1].is_empty(), "{samples:?}");
            let is_of_it = |line: &String| line.starts_with(&format!("sample {case} "));
            assert!(samples[0].iter().all(is_of_it), "{samples:?}");
        }
    }
}
