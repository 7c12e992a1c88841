//! `farside bench mpi`: one program over MPI's one-sided calls, with each MPI as it comes and with
//! farside preloaded, in one run.
//!
//! | case | what is timed |
//! | --- | --- |
//! | `lock_put` | exclusive lock, put of 8 bytes, unlock of a target that waits in a barrier |
//! | `lock_put_computing` | the same of a target that computes and makes no call |
//! | `contended` | all ranks: exclusive lock of rank 0, get, flush, put, unlock; per operation |
//! | `put` to `accumulate` | the call and a flush, 8 bytes, inside of `MPI_Win_lock_all` |
//! | `put_vector`, `get_vector` | the same of 64 KiB in blocks of 8 bytes at both sides |
//! | `fence` | a put to the next rank and a fence |
//! | `pscw` | post, start, put, complete and wait in a ring |
//! | `window` | `MPI_Win_allocate` of 4 KiB and `MPI_Win_free` |
//!
//! The program checks what the operations leave behind.

mod report;

use std::time::Duration;

use anyhow::{Result, ensure};
use farside::World;
use serde::{Deserialize, Serialize};

use crate::driver::{self, AtRanks, Findings, Fold, Layout, SLACK, Setting};
use crate::rivals::Rival;

pub use report::{plot, tables};

/// All cases.
pub const CASES: [&str; 13] = [
    "lock_put",
    COMPUTING,
    "contended",
    "put",
    "get",
    "fetch_and_op",
    "compare_swap",
    "accumulate",
    "put_vector",
    "get_vector",
    "fence",
    "pscw",
    "window",
];
/// The case in which all but the origin compute: with more ranks they would take its processor.
const COMPUTING: &str = "lock_put_computing";
/// An MPI as it comes, in its variants, and with farside preloaded.
const PAIRS: [(&[Rival], Rival); 2] = [
    (&[Rival::Mpich], Rival::MpichFarside),
    (&[Rival::OpenMpi, Rival::OpenMpiSm], Rival::OpenMpiFarside),
];

/// What one job of one system measures.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    /// For how long each case.
    pub time: Duration,
    /// Which cases.
    pub cases: Vec<String>,
}

impl driver::Plan for Plan {
    const BENCH: &'static str = "mpi";
    const HAS_OWN: bool = false;
    const LAYOUT: Layout =
        Layout { cases: &CASES, attributes: &["bytes"], figures: &[("median_ns", Fold::Median)] };

    fn arguments(&self) -> Vec<String> {
        vec![self.time.as_millis().to_string(), self.cases.join(",")]
    }

    fn deadline(&self) -> Duration {
        // Where ranks outnumber processors an MPI may take seconds for one operation.
        (self.time * 4 + Duration::from_secs(10)) * self.cases.len() as u32 + SLACK
    }

    fn label(&self) -> String {
        String::new()
    }

    fn run(&self, _: &World) -> farside::Result<Vec<String>> {
        Err(farside::Error::Program("`bench mpi` measures a program in C only".into()))
    }

    fn rivals() -> &'static [Rival] {
        &[
            Rival::Mpich,
            Rival::MpichFarside,
            Rival::OpenMpi,
            Rival::OpenMpiSm,
            Rival::OpenMpiFarside,
        ]
    }

    fn for_rival(&self, rival: Rival, far: bool) -> Option<Plan> {
        let can = |case: &&String| !rival.crashes_in(case, far);
        let cases: Vec<String> = self.cases.iter().filter(can).cloned().collect();
        (!cases.is_empty()).then(|| Plan { cases, ..self.clone() })
    }
}

/// What to measure, all in all.
#[derive(Debug, Clone)]
pub struct Options {
    /// What every bench is told. Each rival is measured with farside preloaded, too; without any,
    /// all are measured.
    pub setting: Setting,
    /// Which cases; all if empty.
    pub cases: Vec<String>,
}

/// Measures.
pub fn run(options: &Options) -> Result<Findings> {
    let mut setting = options.setting.clone();
    ensure!(
        setting.sim.is_none(),
        "programs in C do not run in virtual time: leave out --sim; --nodes K measures over UDP"
    );
    setting.against = systems(&setting.against, setting.nodes.is_some());
    setting.check(2)?;
    let cases = driver::choose(&options.cases, &CASES)?;
    let (mut plans, mut left_out): (Vec<AtRanks<Plan>>, Vec<String>) = Default::default();
    for &ranks in &setting.ranks {
        let (out, cases): (Vec<String>, Vec<String>) =
            cases.iter().cloned().partition(|case| case == COMPUTING && ranks > 2);
        if !out.is_empty() {
            let why = "ranks that compute would take the origin's processor";
            left_out.push(driver::left_out(&out, ranks, why));
        }
        let plan = Plan { time: setting.time, cases };
        plans.extend((!plan.cases.is_empty()).then_some(AtRanks { ranks, plan }));
    }
    driver::run(&setting, &plans, &left_out)
}

/// The systems to measure: what was asked for, or everything, with farside preloaded beside it.
fn systems(asked: &[Rival], far: bool) -> Vec<Rival> {
    let mut all = Vec::new();
    for (plain, preloaded) in PAIRS {
        let usable = plain.iter().filter(|rival| !far || rival.goes_far());
        if asked.is_empty() {
            all.extend(usable.copied());
            all.push(preloaded);
        } else if asked.iter().any(|rival| plain.contains(rival) || *rival == preloaded) {
            all.extend(usable.filter(|rival| asked.contains(rival)).copied());
            all.push(preloaded);
        }
    }
    let others = asked.iter().filter(|rival| !all.contains(rival));
    let others: Vec<Rival> = others.copied().collect();
    all.into_iter().chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_one_of_the_program_in_c() {
        let source = include_str!("../../rivals/mpi_mpi.c");
        for case in CASES {
            assert!(source.contains(&format!("{{\"{case}\", case_{case}}}")), "{case}");
        }
        assert_eq!(source.matches(", case_").count(), CASES.len());
    }

    #[test]
    fn each_mpi_is_measured_with_and_without() {
        let all = systems(&[], false);
        assert_eq!(all, <Plan as driver::Plan>::rivals());
        assert!(!systems(&[], true).contains(&Rival::OpenMpiSm));
        let mpich = [Rival::Mpich, Rival::MpichFarside];
        assert_eq!(systems(&[Rival::Mpich], false), mpich);
        assert_eq!(systems(&[Rival::MpichFarside, Rival::Mpich], false), mpich);
        // Somebody who is no rival here is refused with the names of those who are.
        assert!(systems(&[Rival::Redis], false).contains(&Rival::Redis));
    }
}
