//! `farside bench collectives`: broadcasts, reductions, exchanges of all with all, and a pipeline
//! of single values, beside those of MPI and OpenSHMEM.

mod measure;
mod pipeline;

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use farside::World;
use serde::{Deserialize, Serialize};

use crate::driver::{
    self, AtRanks, Bench, FARSIDE, Fold, Jobs, Layout, SLACK, Setting, left_out, parse_sizes,
};
use crate::plot::{Axis, Chart, Scale, Unit};
use crate::record::Record;
use crate::report::{Plot, all_ranks, curves, of_case, over_ranks, time};
use crate::rivals::Rival;
use crate::table::Pivot;

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
    time: Duration,
    case: String,
    /// What a rank has in hand when a collective is over, in bytes.
    bytes: usize,
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

/// What the command line asks for.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  farside bench collectives --ranks 2,8,16 --against \
                  mpich,openmpi,openshmem\n  farside bench collectives --cases pipeline \
                  --against openshmem\n  farside bench collectives --nodes 2 --against openmpi")]
pub struct Options {
    /// Which cases: broadcast, reduce, all_reduce, all_gather, all_to_all, all_to_all_puts (by
    /// puts and one synchronization), pipeline; all by default
    #[arg(long, value_delimiter = ',', value_name = "CASE,…")]
    cases: Vec<String>,
    /// At which sizes of what a rank has in hand in the end
    #[arg(long, value_delimiter = ',', default_value = "8,1K,64K,1M,16M", value_name = "BYTES,…")]
    sizes: Vec<String>,
}

impl Bench for Options {
    type Plan = Plan;

    const RANKS: Option<&'static str> = Some("2,8");

    fn jobs(&self, setting: &mut Setting) -> Result<Jobs<Plan>> {
        // Open MPI's component for shared memory is one of windows, and has no part in collectives.
        setting.against.retain(|&rival| rival != Rival::OpenMpiSm);
        setting.check(2)?;
        setting.check_one_server()?;
        let sizes = parse_sizes(&self.sizes)?;
        for &bytes in &sizes {
            ensure!(
                bytes >= 8 && bytes.is_multiple_of(8) && bytes <= BYTES_MAX,
                "{bytes} bytes are not measured here: expected a multiple of 8 up to {BYTES_MAX}"
            );
        }
        let mut jobs = Jobs { plans: Vec::new(), left_out: Vec::new() };
        for case in driver::choose(&self.cases, &CASES)? {
            let sizes = if case == PIPELINE { &[8][..] } else { &sizes };
            for &bytes in sizes {
                for &ranks in &setting.ranks {
                    let plan = Plan { time: setting.time, case: case.clone(), bytes };
                    match is_divided(&case) && !bytes.is_multiple_of(8 * ranks as usize) {
                        false => jobs.plans.push(AtRanks { ranks, plan }),
                        true => {
                            let what = [format!("{case} of {bytes} bytes")];
                            jobs.left_out.push(left_out(&what, ranks, "no word for each"));
                        }
                    }
                }
            }
        }
        Ok(jobs)
    }

    /// With how many times faster farside is than the best rival.
    fn table(records: &[Record]) -> String {
        let pivot = Pivot {
            rows: &["ranks", "case", "bytes"],
            column: &|record| record.system.clone(),
            figure: "median_ns",
            ratio_for: Some(FARSIDE),
        };
        pivot.table(records)
    }

    fn plots(records: &[Record]) -> Vec<Plot> {
        let system = |record: &Record| record.system.clone();
        let by_size = |(case, ranks): (&str, usize)| {
            let chosen = of_case(records, case).into_iter().filter(|record| record.ranks == ranks);
            let caption = format!("{case}, {ranks} ranks");
            let chart = Chart {
                title: caption.clone(),
                subtitle: "lower is better".into(),
                x: Axis::new("what a rank has in the end", Scale::Log2, Unit::Bytes),
                y: time("time"),
                series: curves(chosen, system, ("bytes", "median_ns")),
            };
            Plot::of_curves(&caption, format!("collectives-{case}-{ranks}.svg"), &chart)
        };
        let sized = CASES.into_iter().filter(|&case| case != PIPELINE);
        let places =
            sized.flat_map(|case| all_ranks(records).into_iter().map(move |it| (case, it)));
        let wavefront = Chart {
            title: "A wavefront through all ranks".into(),
            subtitle: "one value and one signal at a time; lower is better".into(),
            x: over_ranks(),
            y: time("time of a sweep"),
            series: curves(of_case(records, PIPELINE), system, ("ranks", "median_ns")),
        };
        let wavefront = Plot::of_curves(PIPELINE, "collectives-pipeline.svg", &wavefront);
        places.filter_map(by_size).chain(wavefront).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Plan as _;

    fn plan(case: &str) -> Plan {
        Plan { time: Duration::from_millis(5), case: case.to_owned(), bytes: 240 }
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
