//! `farside bench shmem`.

use crate::driver::Findings;
use crate::rivals::Rival;
use crate::shmem::{self, Options};
use anyhow::Result;
use clap::Args;

use super::{Common, Report};

#[derive(Args)]
#[command(
    after_help = "Examples:\n  farside bench shmem --ranks 2,16 --json shmem.json\n  farside bench \
                  shmem --cases gups,isx,stencil --rounds 3\n  farside bench shmem --nodes 2 \
                  --cases put,get,fetch_add"
)]
pub(super) struct Arguments {
    /// At how many ranks (PEs)
    #[arg(long, value_delimiter = ',', default_value = "2,16", value_name = "N,…")]
    ranks: Vec<u32>,
    /// Which cases: put, p, get, g, fetch_add, fetch_add_static, compare_swap, add, put_nbi,
    /// put_signal, wait_until, barrier_all, lock, reduce, alltoall, broadcast, fcollect, and the
    /// programs gups, gups_getput, isx, stencil; all by default
    #[arg(long, value_delimiter = ',', value_name = "CASE,…")]
    cases: Vec<String>,
    /// Measure farside's library only, as is done with --nodes
    #[arg(long, conflicts_with = "against")]
    alone: bool,
    #[command(flatten)]
    common: Common,
}

pub(super) fn run(arguments: Arguments) -> Result<(Common, Report)> {
    let common = arguments.common;
    let mut setting = common.setting(arguments.ranks, 100)?;
    if setting.against.is_empty()
        && !arguments.alone
        && setting.nodes.is_none()
        && setting.sim.is_none()
    {
        setting.against.push(Rival::OpenShmem);
    }
    let Findings { records, troubles } = shmem::run(&Options { setting, cases: arguments.cases })?;
    let table = shmem::tables(&records);
    Ok((common, Report { records, troubles, table, plot: shmem::plot }))
}
