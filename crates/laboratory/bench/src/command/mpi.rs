//! `farside bench mpi`.

use crate::driver::Findings;
use crate::mpi::{self, Options};
use anyhow::Result;
use clap::Args;

use super::{Common, Report};

#[derive(Args)]
#[command(
    after_help = "Examples:\n  farside bench mpi --ranks 2,8 --json mpi.json\n  farside bench \
                  mpi --against mpich --cases lock_put,contended\n  farside bench mpi --against \
                  openmpi --nodes 2"
)]
pub(super) struct Arguments {
    /// At how many ranks
    #[arg(long, value_delimiter = ',', default_value = "2,8", value_name = "N,…")]
    ranks: Vec<u32>,
    /// Which cases: lock_put, lock_put_computing, contended, put, get, fetch_and_op, compare_swap,
    /// accumulate, put_vector, get_vector, fence, pscw, window; all by default
    #[arg(long, value_delimiter = ',', value_name = "CASE,…")]
    cases: Vec<String>,
    #[command(flatten)]
    common: Common,
}

pub(super) fn run(arguments: Arguments) -> Result<(Common, Report)> {
    let common = arguments.common;
    let setting = common.setting(arguments.ranks, 100)?;
    let Findings { records, troubles } = mpi::run(&Options { setting, cases: arguments.cases })?;
    let table = mpi::tables(&records);
    Ok((common, Report { records, troubles, table, plot: mpi::plot }))
}
