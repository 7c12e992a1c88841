//! `farside bench collectives`: broadcasts, reductions, exchanges of all with all, and a pipeline
//! of single values, beside those of MPI and OpenSHMEM.

mod measure;
mod pipeline;
mod report;

use std::time::Duration;

use anyhow::{Result, ensure};
use farside::World;
use serde::{Deserialize, Serialize};

use crate::driver::{self, AtRanks, Findings, Fold, Layout, SLACK, Setting, left_out};
use crate::rivals::Rival;

pub use report::{plot, tables};

const CASES: [&str; 7] =
    [BROADCAST, REDUCE, ALL_REDUCE, ALL_GATHER, ALL_TO_ALL, ALL_TO_ALL_PUTS, PIPELINE];
const BROADCAST: &str = "broadcast";
const REDUCE: &str = "reduce";
const ALL_REDUCE: &str = "all_reduce";
const ALL_GATHER: &str = "all_gather";
const ALL_TO_ALL: &str = "all_to_all";
const ALL_TO_ALL_PUTS: &str = "all_to_all_puts";
const PIPELINE: &str = "pipeline";
/// The most that a rank receives in one collective.
const BYTES_MAX: usize = 64 << 20;

/// What one job of one system measures.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    /// For how long each.
    pub time: Duration,
    /// Which case.
    pub case: String,
    /// What a rank has in hand when a collective is over, in bytes.
    pub bytes: usize,
}

impl driver::Plan for Plan {
    const BENCH: &'static str = "collectives";
    const LAYOUT: Layout =
        Layout { cases: &CASES, attributes: &["bytes"], figures: &[("median_ns", Fold::Median)] };

    fn arguments(&self) -> Vec<String> {
        vec![self.time.as_millis().to_string(), self.case.clone(), self.bytes.to_string()]
    }

    fn deadline(&self) -> Duration {
        2 * self.time + SLACK
    }

    fn label(&self) -> String {
        format!(", {} of {} bytes", self.case, self.bytes)
    }

    fn run(&self, world: &World) -> farside::Result<Vec<String>> {
        measure::run(world, self)
    }

    fn for_rival(&self, rival: Rival, _: bool) -> Option<Plan> {
        // OpenSHMEM has no reduction to one PE alone.
        (rival != Rival::OpenShmem || self.case != REDUCE).then(|| self.clone())
    }

    fn rivals() -> &'static [Rival] {
        &[Rival::Mpich, Rival::OpenMpi, Rival::OpenShmem]
    }
}

/// Whether a case divides what a rank has in hand among all ranks.
fn is_divided(case: &str) -> bool {
    [ALL_GATHER, ALL_TO_ALL, ALL_TO_ALL_PUTS].contains(&case)
}

/// What to measure, all in all.
#[derive(Debug, Clone)]
pub struct Options {
    /// What every bench is told.
    pub setting: Setting,
    /// Which cases; all if empty.
    pub cases: Vec<String>,
    /// At which sizes, in bytes.
    pub sizes: Vec<usize>,
}

/// Measures.
pub fn run(options: &Options) -> Result<Findings> {
    // Open MPI's component for shared memory is one of windows, and has no part in collectives.
    let mut setting = options.setting.clone();
    setting.against.retain(|&rival| rival != Rival::OpenMpiSm);
    setting.check(2)?;
    setting.check_one_server()?;
    for &bytes in &options.sizes {
        ensure!(
            bytes >= 8 && bytes.is_multiple_of(8) && bytes <= BYTES_MAX,
            "{bytes} bytes are not measured here: expected a multiple of 8 up to {BYTES_MAX}"
        );
    }
    let (mut plans, mut too_short) = (Vec::new(), Vec::new());
    for case in driver::choose(&options.cases, &CASES)? {
        let sizes = if case == PIPELINE { &[8][..] } else { &options.sizes };
        for &bytes in sizes {
            for &ranks in &setting.ranks {
                let plan = Plan { time: setting.time, case: case.clone(), bytes };
                match is_divided(&case) && !bytes.is_multiple_of(8 * ranks as usize) {
                    false => plans.push(AtRanks { ranks, plan }),
                    true => {
                        let what = [format!("{case} of {bytes} bytes")];
                        too_short.push(left_out(&what, ranks, "no word for each"));
                    }
                }
            }
        }
    }
    driver::run(&setting, &plans, &too_short)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Plan as _;

    fn plan(case: &str) -> Plan {
        Plan { time: Duration::from_millis(5), case: case.to_owned(), bytes: 240 }
    }

    #[test]
    fn a_plan_survives_the_command_line() {
        let json = serde_json::to_string(&plan(REDUCE)).unwrap();
        let read: Plan = driver::plan(&[json]).unwrap();
        assert_eq!(read.arguments(), ["5", "reduce", "240"]);
    }

    #[test]
    fn every_case_is_timed_and_its_result_is_right() {
        for case in CASES {
            let samples = farside::local(3, move |world| plan(case).run(world)).unwrap();
            assert!(samples[0][0].starts_with(&format!("sample {case} ")), "{samples:?}");
            assert!(samples[1].is_empty() && samples[2].is_empty(), "{samples:?}");
        }
    }

    #[test]
    fn openshmem_has_no_reduction_to_one() {
        assert!(plan(REDUCE).for_rival(Rival::OpenShmem, false).is_none());
        assert!(plan(REDUCE).for_rival(Rival::OpenMpi, false).is_some());
        assert!(plan(ALL_REDUCE).for_rival(Rival::OpenShmem, false).is_some());
    }
}
