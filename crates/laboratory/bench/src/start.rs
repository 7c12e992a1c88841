//! `farside bench start`: how long a job takes that does nothing, from the launcher's start until
//! all of its ranks have ended, by our launcher and by that of Open MPI, and how long it takes to
//! allocate and free a window.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;
use farside::{Rank, World};
use serde::{Deserialize, Serialize};

use crate::driver::{self, Bench, Fold, Jobs, Layout, SLACK, Setting, sample};
use crate::plot::Chart;
use crate::record::Record;
use crate::report::{Plot, curves, of_case, over_ranks, time};
use crate::rivals::Rival;
use crate::table::{Columns, alike, ratio, times};
use crate::timing::median;

const CASES: [&str; 3] = [JOB, JOIN, WINDOW];
const JOB: &str = "job";
/// A job whose ranks Open MPI's launcher starts, so that they have to find each other.
const JOIN: &str = "join";
const WINDOW: &str = "window";
/// The elements of a window, of 8 bytes each.
const WINDOW_WORDS: usize = 512;

/// What one job of one system measures.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    /// For how long windows are allocated.
    time: Duration,
    case: String,
}

impl driver::Plan for Plan {
    const BENCH: &'static str = "start";
    const LAYOUT: Layout =
        Layout { cases: &CASES, attributes: &[], figures: &[("median_ns", Fold::Median)] };

    fn arguments(&self) -> Vec<String> {
        // A rival's ranks are started by its own launcher in either case.
        let case = if self.case == JOIN { JOB } else { &self.case };
        vec![self.time.as_millis().to_string(), case.to_owned()]
    }

    fn deadline(&self) -> Duration {
        self.time + SLACK
    }

    fn label(&self) -> String {
        format!(", {}", self.case)
    }

    fn run(&self, world: &World) -> farside::Result<Vec<String>> {
        // A job has started when all have.
        world.barrier()?;
        let mut took_ns = Vec::new();
        if self.case == WINDOW {
            let begin = Instant::now();
            let mut goes_on = [1u64];
            while goes_on[0] != 0 {
                let begin_ns = world.now_ns();
                world.window::<u64>(WINDOW_WORDS)?.free(world)?;
                took_ns.push((world.now_ns() - begin_ns) as f64);
                goes_on = [u64::from(begin.elapsed() < self.time)];
                world.broadcast(Rank(0), &mut goes_on)?;
                world.barrier()?;
            }
        }
        let is_told = world.rank() == Rank(0) && !took_ns.is_empty();
        Ok(is_told
            .then(|| sample(WINDOW, &[], &[Some(median(&mut took_ns))]))
            .into_iter()
            .collect())
    }

    fn launcher(&self) -> Option<Rival> {
        (self.case == JOIN).then_some(Rival::OpenMpi)
    }

    fn of_job(&self, took: Duration) -> Option<String> {
        (self.case != WINDOW).then(|| sample(&self.case, &[], &[Some(took.as_nanos() as f64)]))
    }
}

/// What the command line asks for.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  farside bench start --ranks 2,16,64 --against \
                  mpich,openmpi,openshmem\n  farside bench start --cases window --nodes 2")]
pub struct Options {
    /// Which cases: job (a program that does nothing, from the launcher's start to the last rank's
    /// end), join (the same, our ranks started by Open MPI's mpirun), window (4 KiB of every rank
    /// allocated and freed); all by default, join only against openmpi
    #[arg(long, value_delimiter = ',', value_name = "CASE,…")]
    cases: Vec<String>,
}

impl Bench for Options {
    type Plan = Plan;

    const RANKS: Option<&'static str> = Some("2,16,64");

    fn jobs(&self, setting: &mut Setting) -> Result<Jobs<Plan>> {
        setting.check(1)?;
        setting.check_one_server()?;
        ensure!(setting.sim.is_none(), "what a start takes is not simulated: leave out --sim");
        let mut cases = driver::choose(&self.cases, &CASES)?;
        let joins = setting.nodes.is_none() && setting.against.contains(&Rival::OpenMpi);
        if self.cases.is_empty() && !joins {
            // Not everybody has Open MPI.
            cases.retain(|case| case != JOIN);
        }
        ensure!(
            setting.nodes.is_none() || cases.iter().all(|case| case != JOIN),
            "ranks that mpirun starts are on one node here: leave out --nodes, or the case {JOIN}"
        );
        let plans = cases.into_iter().map(|case| Plan { time: setting.time, case });
        Ok(Jobs::everywhere(setting, plans))
    }

    /// With how many times faster farside is than the best rival.
    fn table(records: &[Record]) -> String {
        let rivals = |own: &Record| alike(records, own, &["ranks", "case"]);
        Columns::of(&["ranks", "case", "system"])
            .figures(&[("time", "median_ns")])
            .cell("ratio", |own| ratio(own, rivals(own), "median_ns").map(times))
            .table(3, records)
    }

    fn plots(records: &[Record]) -> Vec<Plot> {
        let plots = [
            (JOB, "a job that does nothing"),
            (JOIN, "a job that does nothing, started by mpirun"),
            (WINDOW, "a window, allocated and freed"),
        ];
        let plot = |(case, title): (&str, &str)| {
            let system = |record: &Record| record.system.clone();
            let chart = Chart {
                title: title.into(),
                subtitle: "lower is better".into(),
                x: over_ranks(),
                y: time("time"),
                series: curves(of_case(records, case), system, ("ranks", "median_ns")),
            };
            Plot::of_curves(title, format!("start-{case}.svg"), &chart)
        };
        plots.into_iter().filter_map(plot).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Plan as _;

    fn plan(case: &str) -> Plan {
        Plan { time: Duration::from_millis(20), case: case.to_owned() }
    }

    #[test]
    fn a_rival_starts_its_ranks_by_its_own_launcher() {
        assert_eq!(plan(WINDOW).arguments(), ["20", "window"]);
        assert_eq!(plan(JOIN).arguments(), ["20", "job"]);
    }

    #[test]
    fn only_a_job_that_does_nothing_is_timed_as_a_whole() {
        assert_eq!(plan(WINDOW).of_job(Duration::from_secs(1)), None);
        for case in [JOB, JOIN] {
            let sample = plan(case).of_job(Duration::from_secs(1)).unwrap();
            assert!(sample.starts_with(&format!("sample {case} 1000000000")), "{sample}");
        }
    }

    #[test]
    fn windows_are_timed_by_the_first_rank() {
        let samples = farside::local(3, |world| plan(WINDOW).run(world)).unwrap();
        let counts: Vec<usize> = samples.iter().map(Vec::len).collect();
        assert_eq!(counts, [1, 0, 0]);
        assert!(samples[0][0].starts_with("sample window "), "{samples:?}");
        let nothing = farside::local(2, |world| plan(JOB).run(world)).unwrap();
        assert_eq!(nothing, [Vec::<String>::new(), Vec::new()]);
    }
}
