//! `farside bench locks`.

use crate::driver::Findings;
use crate::locks::{self, LockSpec, Options, Thresholds, levels};
use anyhow::Result;
use clap::Args;

use super::{Common, Report};

#[derive(Args)]
#[command(after_help = "Examples:\n  farside bench locks --ranks 2,16 --against \
                  mpich,openmpi,openshmem\n  farside bench locks --sim aries-xc30 --ranks \
                  16,64,256 --locks rma-rw,fompi-rw --cases ecsb --t-r 500,1000,2000\n  farside \
                  bench locks --sim myrinet-2000 --ranks 2,4,8,16 --cases request,acquire,release")]
pub(super) struct Arguments {
    /// At how many ranks
    #[arg(long, value_delimiter = ',', default_value = "2,16", value_name = "N,…")]
    ranks: Vec<u32>,
    /// Which cases: lb, ecsb, sob, wcsb, warb, request, acquire, release, hand_over; all
    /// by default
    ///
    /// The times of taking and giving back a lock (lb and request: both, acquire, release), and the
    /// throughput when it protects nothing (ecsb), one memory operation (sob) or an increment and 1
    /// to 4 us of work (wcsb), or when as much work follows (warb); the time that a lock takes
    /// from a rank that has had it for 200 us to the next one that waits (hand_over).
    #[arg(long, value_delimiter = ',', value_name = "CASE,…")]
    cases: Vec<String>,
    #[arg(long, value_delimiter = ',', value_name = "LOCK,…", help = which_locks())]
    locks: Vec<String>,
    /// How many of a hundred requests are to write; locks that readers cannot share are measured at
    /// 100 only
    #[arg(long, value_delimiter = ',', default_value = "0.2,2,5,25,100", value_name = "PERCENT,…")]
    writers: Vec<f64>,
    /// How many neighbours share a counter of readers (T_DC), where a lock has such
    #[arg(long, value_delimiter = ',', value_name = "N,…")]
    t_dc: Vec<u32>,
    /// How often in a row a lock may stay in an element of each level (T_L), the widest first,
    /// where a lock has such: 20-50,10-100
    #[arg(long, value_delimiter = ',', value_name = "N-N,…")]
    t_l: Vec<String>,
    /// How many readers may go in at a counter before writers are looked for (T_R), where a lock
    /// has such
    #[arg(long, value_delimiter = ',', value_name = "N,…")]
    t_r: Vec<u32>,
    /// How often each rank takes the lock in virtual time, where --time does not count
    #[arg(long, default_value_t = 200, value_name = "N")]
    operations: u64,
    /// Let only the last rank take the lock, in virtual time: a remote lock without contention
    #[arg(long, requires = "sim")]
    last_only: bool,
    #[command(flatten)]
    common: Common,
}

fn which_locks() -> String {
    let names: Vec<&str> = LockSpec::all().iter().map(LockSpec::name).collect();
    format!("Which locks: {}; all by default", names.join(", "))
}

pub(super) fn run(arguments: Arguments) -> Result<(Common, Report)> {
    let locks = chosen(&arguments)?;
    let common = arguments.common;
    let options = Options {
        setting: common.setting(arguments.ranks, 100)?,
        cases: arguments.cases,
        locks,
        writers_pct: arguments.writers,
        operations: arguments.operations,
        last_only: arguments.last_only,
    };
    let Findings { records, troubles } = locks::run(&options)?;
    let table = locks::tables(&records);
    Ok((common, Report { records, troubles, table, plot: locks::plot }))
}

/// The locks asked for, with every combination of the thresholds asked for.
fn chosen(arguments: &Arguments) -> Result<Vec<LockSpec>> {
    let named: Vec<LockSpec> = match &arguments.locks[..] {
        [] => LockSpec::all(),
        names => names.iter().map(|name| LockSpec::named(name)).collect::<Result<_>>()?,
    };
    fn or_usual<T: Clone>(values: &[T]) -> Vec<Option<T>> {
        if values.is_empty() { vec![None] } else { values.iter().cloned().map(Some).collect() }
    }
    let t_l: Vec<Vec<u32>> =
        arguments.t_l.iter().map(|text| levels(text)).collect::<Result<_>>()?;
    let mut locks: Vec<LockSpec> = Vec::new();
    for lock in named {
        for t_dc in or_usual(&arguments.t_dc) {
            for t_l in or_usual(&t_l) {
                for t_r in or_usual(&arguments.t_r) {
                    let lock = lock.with(&Thresholds { t_dc, t_l: t_l.clone(), t_r });
                    if !locks.contains(&lock) {
                        locks.push(lock);
                    }
                }
            }
        }
    }
    Ok(locks)
}
