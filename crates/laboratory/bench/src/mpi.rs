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

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use farside::World;
use serde::{Deserialize, Serialize};

use crate::driver::{self, AtRanks, Bench, Fold, Jobs, Layout, SLACK, Setting};
use crate::plot::{Chart, Unit};
use crate::record::Record;
use crate::report::{Plot, curves, machine, of_case, over_ranks, time};
use crate::rivals::Rival;
use crate::table::{Columns, alike, grouped, times};

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
    time: Duration,
    cases: Vec<String>,
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

/// What the command line asks for. Each rival is measured with farside preloaded, too; without
/// any, all are measured.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  farside bench mpi --ranks 2,8 --json mpi.json\n  farside bench \
                  mpi --against mpich --cases lock_put,contended\n  farside bench mpi --against \
                  openmpi --nodes 2"
)]
pub struct Options {
    /// Which cases: lock_put, lock_put_computing, contended, put, get, fetch_and_op, compare_swap,
    /// accumulate, put_vector, get_vector, fence, pscw, window; all by default
    #[arg(long, value_delimiter = ',', value_name = "CASE,…")]
    cases: Vec<String>,
}

impl Bench for Options {
    type Plan = Plan;

    const RANKS: Option<&'static str> = Some("2,8");
    const TIME_MS: u64 = 100;

    fn jobs(&self, setting: &mut Setting) -> Result<Jobs<Plan>> {
        ensure!(
            setting.sim.is_none(),
            "programs in C do not run in virtual time: leave out --sim; --nodes K measures over UDP"
        );
        setting.against = systems(&setting.against, setting.nodes.is_some());
        setting.check(2)?;
        let cases = driver::choose(&self.cases, &CASES)?;
        let mut jobs = Jobs { plans: Vec::new(), left_out: Vec::new() };
        for &ranks in &setting.ranks {
            let (out, cases): (Vec<String>, Vec<String>) =
                cases.iter().cloned().partition(|case| case == COMPUTING && ranks > 2);
            if !out.is_empty() {
                let why = "ranks that compute would take the origin's processor";
                jobs.left_out.push(driver::left_out(&out, ranks, why));
            }
            let plan = Plan { time: setting.time, cases };
            jobs.plans.extend((!plan.cases.is_empty()).then_some(AtRanks { ranks, plan }));
        }
        Ok(jobs)
    }

    /// The time of each case in each system, and how many times as long each MPI takes without
    /// farside as with it.
    fn table(records: &[Record]) -> String {
        let was_measured = |rival: &Rival| records.iter().any(|it| it.system == rival.name());
        let of = |first: &Record, rival: Rival| {
            let same = alike(records, first, &["ranks", "case"]);
            same.into_iter().find(|it| it.system == rival.name())?.number("median_ns")
        };
        let mut columns = Columns::of(&["ranks", "case"]).figures(&[("bytes", "bytes")]);
        for (plain, preloaded) in PAIRS {
            if !was_measured(&preloaded) {
                continue;
            }
            let plain: Vec<Rival> = plain.iter().copied().filter(was_measured).collect();
            for &rival in plain.iter().chain([&preloaded]) {
                let ns = move |it: &Record| of(it, rival).map(|ns| Unit::Ns.format(ns));
                columns = columns.cell(rival.name(), ns);
            }
            if !plain.is_empty() {
                columns = columns.cell("ratio", move |it| {
                    let best = plain.iter().filter_map(|&rival| of(it, rival)).reduce(f64::min)?;
                    Some(times(best / of(it, preloaded)?))
                });
            }
        }
        let rows = grouped(records, |record| (record.ranks, record.case.clone()));
        [
            machine(),
            columns.table(2, rows.iter().map(|(_, of)| of[0])),
            "ratio: the MPI alone, in the faster of its variants, over the same with farside"
                .into(),
        ]
        .join("\n")
    }

    fn plots(records: &[Record]) -> Vec<Plot> {
        let plot = |case: &&str| {
            let system = |record: &Record| record.system.clone();
            let chart = Chart {
                title: format!("MPI: {case}"),
                subtitle: "lower is better".into(),
                x: over_ranks(),
                y: time("time of one operation"),
                series: curves(of_case(records, case), system, ("ranks", "median_ns")),
            };
            Plot::of_curves(case, format!("mpi-{case}.svg"), &chart)
        };
        CASES.iter().filter_map(plot).collect()
    }
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
        let source = include_str!("../rivals/mpi_mpi.c");
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

    fn of(system: &str, case: &str, ns: f64) -> Record {
        Record::new("mpi", case, system, "shm", 8, 1).with("bytes", 8).figure("median_ns", ns)
    }

    #[test]
    fn an_mpi_stands_beside_the_same_with_farside() {
        let records = [
            of("mpich", "lock_put", 900.0),
            of("mpich+farside", "lock_put", 90.0),
            of("openmpi", "lock_put", 400.0),
            of("openmpi-sm", "lock_put", 160.0),
            of("openmpi+farside", "lock_put", 80.0),
            of("openmpi+farside", "compare_swap", 80.0),
        ];
        let table = Options::table(&records);
        assert!(table.contains("10.0x") && table.contains("2.00x"), "{table}");
        assert!(!table.contains("5.00x"), "the better variant counts: {table}");
        assert!(table.lines().skip(1).all(|line| line.chars().count() <= 80), "{table}");
        let alone = Options::table(&records[..2]);
        assert!(alone.contains("mpich+farside") && !alone.contains("openmpi"), "{alone}");
    }
}
