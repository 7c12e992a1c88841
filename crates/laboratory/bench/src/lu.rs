//! `farside bench lu`: dense LU factorization over windows, direct against two-sided passive
//! epochs, as in figures 7 and 8 of \[PASSIVE08\].

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use farside::World;
use farside_apps::lu;
use farside_job::parse_bytes;
use serde::{Deserialize, Serialize};

use crate::driver::{self, Bench, Fold, Jobs, Layout, SLACK, Setting, sample};
use crate::overlap::library_ns;
use crate::plot::{Chart, Unit};
use crate::record::Record;
use crate::report::{Plot, curves, distinct, name_by, of_case, over_ranks, time};
use crate::table::{Columns, alike};

const CASES: [&str; 6] = ["total", "lock", "get", "unlock", "barrier", "compute"];

/// What one job of one system measures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    sizes: Vec<usize>,
    /// What to factor; its size is one of those.
    lu: lu::Plan,
    designs: Vec<String>,
}

impl driver::Plan for Plan {
    const BENCH: &'static str = "lu";
    const LAYOUT: Layout = Layout {
        cases: &CASES,
        attributes: &["design", "size", "block"],
        figures: &[("median_ns", Fold::Median), ("residual", Fold::Largest)],
    };

    fn deadline(&self) -> Duration {
        // A hundred million operations a second would be a very slow machine.
        let flops: f64 = self.sizes.iter().map(|&size| (size as f64).powi(3)).sum();
        Duration::from_secs_f64(flops * self.designs.len() as f64 / 1e8) + SLACK
    }

    fn run(&self, world: &World) -> farside::Result<Vec<String>> {
        let mut samples = Vec::new();
        for &size in &self.sizes {
            for design in &self.designs {
                let plan = lu::Plan { size, ..self.lu };
                let outcome = lu::factor(world, &plan, design)?;
                let Some(residual) = outcome.residual else { continue };
                if residual.is_nan() || residual > 1e-10 * size as f64 {
                    return Err(farside::Error::Program(format!(
                        "{design}: the factors are wrong, by {residual:e}"
                    )));
                }
                for (case, ns) in outcome.split.named() {
                    samples.push(sample(case, &[design, &size, &self.lu.block], &[Some(ns), None]));
                }
            }
        }
        Ok(samples)
    }
}

/// What the command line asks for.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  farside bench lu --ranks 4 --sizes 2048 --rounds 3\n  farside bench \
                  lu --sim infiniband-2008 --ranks 8,16,32,64 --sizes 2048,3000 --rounds 1 --json \
                  lu.json"
)]
pub struct Options {
    /// Rows and columns of the matrix
    #[arg(long, value_delimiter = ',', default_value = "1024", value_name = "N,…")]
    sizes: Vec<usize>,
    /// Rows and columns of a block
    #[arg(long, default_value_t = 128, value_name = "N")]
    block: usize,
    /// Which designs: direct, two-sided, backoff, published
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "direct,two-sided",
        value_name = "DESIGN,…"
    )]
    designs: Vec<String>,
    /// What a floating-point operation costs a rank of a simulated machine, in nanoseconds
    #[arg(long, default_value_t = farside_apps::lu::FLOP_NS, value_name = "NS")]
    flop_ns: f64,
    /// What fits into one message of the two-sided design
    #[arg(long, default_value = "16K", value_name = "BYTES")]
    eager: String,
    /// Fetch a block anew for every block that needs it, instead of once in a step
    #[arg(long)]
    refetch: bool,
    /// Fetch the next block while products are computed, instead of before them
    #[arg(long)]
    ahead: bool,
}

impl Bench for Options {
    type Plan = Plan;

    const RANKS: Option<&'static str> = Some("4");

    fn jobs(&self, setting: &mut Setting) -> Result<Jobs<Plan>> {
        setting.check(1)?;
        ensure!(setting.against.is_empty(), "there is no LU of a rival: leave out --against");
        let designs = driver::choose(&self.designs, &lu::DESIGNS)?;
        let (sizes, block) = (self.sizes.clone(), self.block);
        ensure!(!sizes.is_empty(), "there is nothing to factor: give --sizes");
        for &size in &sizes {
            ensure!(
                (1..=size).contains(&block) && size <= 1 << 15,
                "a matrix of {size} rows cannot be cut into blocks of {block}: expected up to {} \
                 rows, and a block that is not larger",
                1 << 15
            );
        }
        ensure!(self.flop_ns >= 0.0, "a floating-point operation takes no {} ns", self.flop_ns);
        let lu = lu::Plan {
            size: sizes[0],
            block,
            flop_ns: self.flop_ns,
            library_ns: library_ns(setting),
            message_bytes: parse_bytes(&self.eager)? as usize,
            refetch: self.refetch,
            ahead: self.ahead,
        };
        Ok(Jobs::everywhere(setting, [Plan { sizes, lu, designs }]))
    }

    /// A line for each factorization, with the parts of its time, and what part it is of the time
    /// of the two-sided design.
    fn table(records: &[Record]) -> String {
        let mut totals = of_case(records, "total");
        totals.sort_by_key(|record| (record.ranks, record.number("size").map(|it| it as u64)));
        let part = |own: &Record, case: &str| {
            let of = alike(records, own, &["ranks", "size", "design"]);
            of.into_iter().find(|record| record.case == case)?.number("median_ns")
        };
        let two_sided = |own: &Record| {
            let of = alike(records, own, &["ranks", "size", "case"]);
            let is = |record: &&Record| record.text("design").as_deref() == Some("two-sided");
            let other = of.into_iter().find(is).filter(|other| *other != own)?;
            let share = own.number("median_ns")? / other.number("median_ns")?;
            Some(format!("{:.0} %", 100.0 * share))
        };
        let parts =
            CASES.into_iter().fold(Columns::of(&["ranks", "size", "design"]), |columns, case| {
                columns.cell(case, move |own| part(own, case).map(|ns| Unit::Ns.format(ns)))
            });
        parts.cell("of two-sided", two_sided).table(3, totals)
    }

    /// Time by ranks for each size, as figure 7 of \[PASSIVE08\].
    fn plots(records: &[Record]) -> Vec<Plot> {
        let mut plots = Vec::new();
        let sizes = records.iter().filter_map(|record| record.number("size"));
        for size in distinct(sizes.map(|size| size as u64)) {
            for (case, figure) in [("total", "7"), ("unlock", "8"), ("barrier", "8")] {
                let is = |record: &&Record| record.number("size") == Some(size as f64);
                let of = of_case(records, case).into_iter().filter(is);
                let chart = Chart {
                    title: format!("LU of {size} x {size}: {case}"),
                    subtitle: format!("[PASSIVE08] figure {figure}; lower is better"),
                    x: over_ranks(),
                    y: time("time"),
                    series: curves(of, name_by("design"), ("ranks", "median_ns")),
                };
                let caption = format!("{case} of {size} x {size}");
                plots.extend(Plot::of_curves(&caption, format!("lu-{case}-{size}.svg"), &chart));
            }
        }
        plots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_design_that_takes_longer_is_not_said_to_take_less() {
        let of = |design: &str, ns: f64| {
            let record = Record::new("lu", "total", "farside", "shm", 2, 1)
                .with("design", design)
                .with("size", 64);
            record.with("block", 16).figure("median_ns", ns)
        };
        let table = Options::table(&[of("direct", 141.0), of("two-sided", 100.0)]);
        assert!(
            table.contains("of two-sided") && table.contains("141 %") && !table.contains("-41"),
            "{table}"
        );
    }
}
