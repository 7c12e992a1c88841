//! `farside bench start`.

use crate::driver::Findings;
use crate::start::{self, Options};
use anyhow::Result;
use clap::Args;

use super::{Common, Report};

#[derive(Args)]
#[command(after_help = "Examples:\n  farside bench start --ranks 2,16,64 --against \
                  mpich,openmpi,openshmem\n  farside bench start --cases window --nodes 2")]
pub(super) struct Arguments {
    /// At how many ranks
    #[arg(long, value_delimiter = ',', default_value = "2,16,64", value_name = "N,…")]
    ranks: Vec<u32>,
    /// Which cases: job (a program that does nothing, from the launcher's start to the last rank's
    /// end), join (the same, our ranks started by Open MPI's mpirun), window (4 KiB of every rank
    /// allocated and freed); all by default, join only against openmpi
    #[arg(long, value_delimiter = ',', value_name = "CASE,…")]
    cases: Vec<String>,
    #[command(flatten)]
    common: Common,
}

pub(super) fn run(arguments: Arguments) -> Result<(Common, Report)> {
    let common = arguments.common;
    let options = Options { setting: common.setting(arguments.ranks, 20)?, cases: arguments.cases };
    let Findings { records, troubles } = start::run(&options)?;
    let table = start::tables(&records);
    Ok((common, Report { records, troubles, table, plot: start::plot }))
}
