//! `farside bench lu`: dense LU factorization over windows, direct against two-sided passive
//! epochs, as in figures 7 and 8 of \[PASSIVE08\].

mod report;

use std::time::Duration;

use anyhow::{Result, ensure};
use farside::World;
use farside_apps::lu;
use serde::{Deserialize, Serialize};

use crate::driver::{self, AtRanks, Findings, Fold, Layout, SLACK, Setting, sample};
use crate::overlap::library_ns;
use crate::rivals::Rival;

pub use report::{plot, tables};

const CASES: [&str; 6] = ["total", "lock", "get", "unlock", "barrier", "compute"];

/// What one job of one system measures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Which sizes of the matrix.
    pub sizes: Vec<usize>,
    /// What to factor; its size is one of those.
    pub lu: lu::Plan,
    /// Which designs.
    pub designs: Vec<String>,
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

    fn label(&self) -> String {
        String::new()
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

    fn for_rival(&self, _: Rival, _: bool) -> Option<Plan> {
        None
    }
}

/// What to measure, all in all.
#[derive(Debug, Clone)]
pub struct Options {
    /// What every bench is told.
    pub setting: Setting,
    /// Which sizes of the matrix.
    pub sizes: Vec<usize>,
    /// Rows and columns of a block.
    pub block: usize,
    /// Which designs.
    pub designs: Vec<String>,
    /// What a floating-point operation costs on a simulated machine, in nanoseconds.
    pub flop_ns: f64,
    /// What fits into one message of the two-sided design.
    pub message_bytes: usize,
    /// Whether blocks are fetched anew for every block that needs them.
    pub refetch: bool,
    /// Whether the next block is fetched while products are computed.
    pub ahead: bool,
}

/// Measures.
pub fn run(options: &Options) -> Result<Findings> {
    options.setting.check(1)?;
    ensure!(options.setting.against.is_empty(), "there is no LU of a rival: leave out --against");
    let designs = driver::choose(&options.designs, &lu::DESIGNS)?;
    ensure!(!options.sizes.is_empty(), "there is nothing to factor: give --sizes");
    for &size in &options.sizes {
        ensure!(
            (1..=size).contains(&options.block) && size <= 1 << 15,
            "a matrix of {size} rows cannot be cut into blocks of {}: expected up to {} rows, and \
             a block that is not larger",
            options.block,
            1 << 15
        );
    }
    ensure!(options.flop_ns >= 0.0, "a floating-point operation takes no {} ns", options.flop_ns);
    let lu = lu::Plan {
        size: options.sizes[0],
        block: options.block,
        flop_ns: options.flop_ns,
        library_ns: library_ns(&options.setting),
        message_bytes: options.message_bytes,
        refetch: options.refetch,
        ahead: options.ahead,
    };
    let plan = Plan { sizes: options.sizes.clone(), lu, designs };
    driver::run(&options.setting, &AtRanks::all(&options.setting, &plan), &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_survives_the_command_line() {
        let lu = lu::Plan {
            size: 256,
            block: 32,
            flop_ns: 1.5,
            library_ns: 0,
            message_bytes: 16384,
            refetch: true,
            ahead: true,
        };
        let plan = Plan { sizes: vec![256, 512], lu, designs: vec!["direct".to_owned()] };
        let json = serde_json::to_string(&plan).unwrap();
        let read: Plan = driver::plan(&[json]).unwrap();
        assert_eq!(read, plan);
    }
}
