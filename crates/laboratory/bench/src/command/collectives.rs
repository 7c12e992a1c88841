//! `farside bench collectives`.

use crate::collectives::{self, Options};
use crate::driver::Findings;
use anyhow::Result;
use clap::Args;

use super::{Common, Report, parse_sizes};

#[derive(Args)]
#[command(after_help = "Examples:\n  farside bench collectives --ranks 2,8,16 --against \
                  mpich,openmpi,openshmem\n  farside bench collectives --cases pipeline \
                  --against openshmem\n  farside bench collectives --nodes 2 --against openmpi")]
pub(super) struct Arguments {
    /// At how many ranks
    #[arg(long, value_delimiter = ',', default_value = "2,8", value_name = "N,…")]
    ranks: Vec<u32>,
    /// Which cases: broadcast, reduce, all_reduce, all_gather, all_to_all, all_to_all_puts (by
    /// puts and one synchronization), pipeline; all by default
    #[arg(long, value_delimiter = ',', value_name = "CASE,…")]
    cases: Vec<String>,
    /// At which sizes of what a rank has in hand in the end
    #[arg(long, value_delimiter = ',', default_value = "8,1K,64K,1M,16M", value_name = "BYTES,…")]
    sizes: Vec<String>,
    #[command(flatten)]
    common: Common,
}

pub(super) fn run(arguments: Arguments) -> Result<(Common, Report)> {
    let sizes = parse_sizes(&arguments.sizes)?;
    let common = arguments.common;
    let setting = common.setting(arguments.ranks, 20)?;
    let options = Options { setting, cases: arguments.cases, sizes };
    let Findings { records, troubles } = collectives::run(&options)?;
    let table = collectives::tables(&records);
    Ok((common, Report { records, troubles, table, plot: collectives::plot }))
}
