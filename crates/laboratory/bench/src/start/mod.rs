//! `farside bench start`: how long a job takes that does nothing, from the launcher's start until
//! all of its ranks have ended, by our launcher and by that of Open MPI, and how long it takes to
//! allocate and free a window.

mod report;

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use farside::{Rank, World};
use serde::{Deserialize, Serialize};

use crate::driver::{self, AtRanks, Findings, Fold, Layout, SLACK, Setting, sample};
use crate::rivals::Rival;
use crate::timing::median;

pub use report::{plot, tables};

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
    pub time: Duration,
    /// Which case.
    pub case: String,
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

    fn for_rival(&self, _: Rival, _: bool) -> Option<Plan> {
        Some(self.clone())
    }

    fn launcher(&self) -> Option<Rival> {
        (self.case == JOIN).then_some(Rival::OpenMpi)
    }

    fn of_job(&self, took: Duration) -> Option<String> {
        (self.case != WINDOW).then(|| sample(&self.case, &[], &[Some(took.as_nanos() as f64)]))
    }
}

/// What to measure, all in all.
#[derive(Debug, Clone)]
pub struct Options {
    /// What every bench is told.
    pub setting: Setting,
    /// Which cases; all if empty.
    pub cases: Vec<String>,
}

/// Measures.
pub fn run(options: &Options) -> Result<Findings> {
    let setting = &options.setting;
    setting.check(1)?;
    setting.check_one_server()?;
    ensure!(setting.sim.is_none(), "what a start takes is not simulated: leave out --sim");
    let mut cases = driver::choose(&options.cases, &CASES)?;
    let joins = setting.nodes.is_none() && setting.against.contains(&Rival::OpenMpi);
    if options.cases.is_empty() && !joins {
        // Not everybody has Open MPI.
        cases.retain(|case| case != JOIN);
    }
    ensure!(
        setting.nodes.is_none() || cases.iter().all(|case| case != JOIN),
        "ranks that mpirun starts are on one node here: leave out --nodes, or the case {JOIN}"
    );
    let plans = cases
        .into_iter()
        .flat_map(|case| AtRanks::all(setting, &Plan { time: setting.time, case }));
    driver::run(setting, &plans.collect::<Vec<_>>(), &[])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Plan as _;

    fn plan(case: &str) -> Plan {
        Plan { time: Duration::from_millis(20), case: case.to_owned() }
    }

    #[test]
    fn a_plan_survives_the_command_line() {
        let json = serde_json::to_string(&plan(WINDOW)).unwrap();
        let read: Plan = driver::plan(&[json]).unwrap();
        assert_eq!(read.arguments(), ["20", "window"]);
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
