//! `farside bench sync`.

use crate::driver::Findings;
use crate::sync::{self, Options};
use anyhow::Result;
use clap::Args;
use farside_job::parse_bytes;

use super::{Common, Report};

#[derive(Args)]
#[command(after_help = "Examples:\n  farside bench sync --ranks 2,4,8,16 --against \
                  mpich,openmpi,openshmem\n  farside bench sync --sim myrinet-2000 --json \
                  sync.json --plot plots")]
pub(super) struct Arguments {
    /// At how many ranks
    #[arg(long, value_delimiter = ',', default_value = "2,4,8,16", value_name = "N,…")]
    ranks: Vec<u32>,
    /// Which cases: allfence_barrier (acknowledged, confirmed), sync (world, auto, direct,
    /// counted), barrier (world, central, dissemination, binomial, hierarchical); all by default
    #[arg(long, value_delimiter = ',', value_name = "CASE,…")]
    cases: Vec<String>,
    /// How much every rank puts into every other
    #[arg(long, default_value = "8", value_name = "BYTES")]
    bytes: String,
    #[command(flatten)]
    common: Common,
}

pub(super) fn run(arguments: Arguments) -> Result<(Common, Report)> {
    let bytes = parse_bytes(&arguments.bytes)? as usize;
    let common = arguments.common;
    let options =
        Options { setting: common.setting(arguments.ranks, 20)?, cases: arguments.cases, bytes };
    let Findings { records, troubles } = sync::run(&options)?;
    let table = sync::tables(&records);
    Ok((common, Report { records, troubles, table, plot: sync::plot }))
}
