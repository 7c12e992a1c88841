//! `farside bench irregular`.

use crate::driver::Findings;
use crate::irregular::{self, Options};
use anyhow::Result;
use clap::Args;
use farside_apps::irregular::OPERATIONS;

use super::{Common, Report};

#[derive(Args)]
#[command(
    after_help = "Examples:\n  farside bench irregular --against openshmem\n  farside bench \
                  irregular --nodes 2 --cases histogram --operations 4194304"
)]
pub(super) struct Arguments {
    /// At how many ranks
    #[arg(long, value_delimiter = ',', default_value = "2", value_name = "N,…")]
    ranks: Vec<u32>,
    /// Which cases: histogram, gather, transpose, sort; all by default
    #[arg(long, value_delimiter = ',', value_name = "CASE,…")]
    cases: Vec<String>,
    /// How many operations of each rank
    #[arg(long, default_value_t = OPERATIONS, value_name = "N")]
    operations: u64,
    #[command(flatten)]
    common: Common,
}

pub(super) fn run(arguments: Arguments) -> Result<(Common, Report)> {
    let common = arguments.common;
    let options = Options {
        setting: common.setting(arguments.ranks, 20)?,
        cases: arguments.cases,
        operations: arguments.operations,
    };
    let Findings { records, troubles } = irregular::run(&options)?;
    let table = irregular::tables(&records);
    Ok((common, Report { records, troubles, table, plot: irregular::plot }))
}
