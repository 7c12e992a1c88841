//! `farside bench overlap`.

use std::time::Duration;

use crate::driver::Findings;
use crate::overlap::{self, Options};
use anyhow::Result;
use clap::Args;
use farside_job::parse_bytes;

use super::{Common, Report, parse_sizes};

#[derive(Args)]
#[command(
    after_help = "Examples:\n  farside bench overlap --against mpich,openmpi\n  farside bench \
                  overlap --sim infiniband-2008 --ranks 2,3,5,9,17,33,65 --json overlap.json \
                  --plot plots"
)]
pub(super) struct Arguments {
    /// At how many ranks; latency and sender are measured at 2 only
    #[arg(long, value_delimiter = ',', default_value = "2", value_name = "N,…")]
    ranks: Vec<u32>,
    /// Which cases: latency, sender, receiver; all by default
    #[arg(long, value_delimiter = ',', value_name = "CASE,…")]
    cases: Vec<String>,
    /// At which sizes
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "8,512,4K,32K,64K,256K,1M",
        value_name = "BYTES,…"
    )]
    sizes: Vec<String>,
    /// With how many operations of 32 KiB in an epoch
    #[arg(long, value_delimiter = ',', default_value = "2,4,8,16,32", value_name = "N,…")]
    operations: Vec<usize>,
    /// At which sizes the others of `receiver` get from the target
    #[arg(long, value_delimiter = ',', default_value = "32K", value_name = "BYTES,…")]
    receiver_sizes: Vec<String>,
    /// Which designs: direct, two-sided, backoff, published
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "direct,two-sided",
        value_name = "DESIGN,…"
    )]
    designs: Vec<String>,
    /// For how long the target of `receiver` computes between two calls of the library, in
    /// microseconds
    #[arg(long, default_value_t = 1000, value_name = "US")]
    slice: u64,
    /// What fits into one message of the two-sided design
    #[arg(long, default_value = "16K", value_name = "BYTES")]
    eager: String,
    #[command(flatten)]
    common: Common,
}

pub(super) fn run(arguments: Arguments) -> Result<(Common, Report)> {
    let sizes = parse_sizes(&arguments.sizes)?;
    let receiver_sizes = parse_sizes(&arguments.receiver_sizes)?;
    let common = arguments.common;
    let options = Options {
        setting: common.setting(arguments.ranks, 20)?,
        cases: arguments.cases,
        sizes,
        operations: arguments.operations,
        receiver_sizes,
        designs: arguments.designs,
        slice: Duration::from_micros(arguments.slice),
        message_bytes: parse_bytes(&arguments.eager)? as usize,
    };
    let Findings { records, troubles } = overlap::run(&options)?;
    let table = overlap::tables(&records);
    Ok((common, Report { records, troubles, table, plot: overlap::plot }))
}
