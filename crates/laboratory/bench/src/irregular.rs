//! `farside bench irregular`: many small operations on other ranks' memory, by an aggregator and
//! one by one, beside the same in OpenSHMEM.

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use farside::{Rank, World};
use farside_apps::irregular;
use serde::{Deserialize, Serialize};

use crate::driver::{self, Bench, Fold, Jobs, Layout, SLACK, Setting, sample};
use crate::plot::{Axis, BarChart, Scale, Unit};
use crate::record::Record;
use crate::report::{Plot, all_ranks, bars, text_of};
use crate::rivals::Rival;
use crate::table::Pivot;

const CASES: [&str; 4] = irregular::PROGRAMS;

/// The most operations of each rank, for which the rival has room as well.
const OPERATIONS_MAX: u64 = 1 << 24;

/// What one job of one system measures.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    case: String,
    operations: u64,
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

    fn rivals() -> &'static [Rival] {
        &[Rival::OpenShmem]
    }
}

/// What the command line asks for.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  farside bench irregular --against openshmem\n  farside bench \
                  irregular --nodes 2 --cases histogram --operations 4194304"
)]
pub struct Options {
    /// Which cases: histogram, gather, transpose, sort; all by default
    #[arg(long, value_delimiter = ',', value_name = "CASE,…")]
    cases: Vec<String>,
    /// How many operations of each rank
    #[arg(long, default_value_t = irregular::OPERATIONS, value_name = "N")]
    operations: u64,
}

impl Bench for Options {
    type Plan = Plan;

    const RANKS: Option<&'static str> = Some("2");

    fn jobs(&self, setting: &mut Setting) -> Result<Jobs<Plan>> {
        setting.check(1)?;
        setting.check_one_server()?;
        ensure!(setting.sim.is_none(), "these programs are timed by the clock: leave out --sim");
        ensure!(
            (irregular::OPERATIONS_MIN..=OPERATIONS_MAX).contains(&self.operations),
            "{} operations of each rank are not measured: expected {} to {OPERATIONS_MAX}",
            self.operations,
            irregular::OPERATIONS_MIN
        );
        let cases = driver::choose(&self.cases, &CASES)?.into_iter();
        let plans = cases.map(|case| Plan { case, operations: self.operations });
        Ok(Jobs::everywhere(setting, plans))
    }

    /// With how many times as many operations a second the aggregator does as the best rival.
    fn table(records: &[Record]) -> String {
        let pivot = Pivot {
            rows: &["ranks", "case"],
            column: &who,
            figure: "per_s",
            ratio_for: Some("farside aggregated"),
        };
        pivot.table(records)
    }

    fn plots(records: &[Record]) -> Vec<Plot> {
        let plot = |ranks: usize| {
            let of = records.iter().filter(|record| record.ranks == ranks);
            let chart = BarChart {
                title: format!("Small operations of {ranks} ranks"),
                subtitle: "higher is better".into(),
                y: Axis::new("operations a second", Scale::Log10, Unit::PerS),
                groups: bars(of, |record| record.case.clone(), who, "per_s"),
            };
            Plot::of_bars(&format!("{ranks} ranks"), format!("irregular-{ranks}.svg"), &chart)
        };
        all_ranks(records).into_iter().filter_map(plot).collect()
    }
}

/// A system, and the way it goes.
fn who(record: &Record) -> String {
    format!("{} {}", record.system, text_of(record, "way"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Plan as _;

    #[test]
    fn every_program_says_how_fast_it_was() {
        for case in CASES {
            let plan = Plan { case: case.to_owned(), operations: 64 };
            assert_eq!(plan.arguments(), [case, "64"]);
            let samples = farside::local(3, move |world| plan.run(world)).unwrap();
            assert!(!samples[0].is_empty() && samples[1].is_empty(), "{samples:?}");
            let is_of_it = |line: &String| line.starts_with(&format!("sample {case} "));
            assert!(samples[0].iter().all(is_of_it), "{samples:?}");
        }
    }
}
