//! `farside bench lu`.

use crate::driver::Findings;
use crate::lu::{self, Options};
use anyhow::Result;
use clap::Args;
use farside_job::parse_bytes;

use super::{Common, Report};

#[derive(Args)]
#[command(
    after_help = "Examples:\n  farside bench lu --ranks 4 --sizes 2048 --rounds 3\n  farside bench \
                  lu --sim infiniband-2008 --ranks 8,16,32,64 --sizes 2048,3000 --rounds 1 --json \
                  lu.json"
)]
pub(super) struct Arguments {
    /// At how many ranks
    #[arg(long, value_delimiter = ',', default_value = "4", value_name = "N,…")]
    ranks: Vec<u32>,
    /// Rows and columns of the matrix
    #[arg(long, value_delimiter = ',', default_value = "1024", value_name = "N,…")]
    sizes: Vec<usize>,
    /// Rows and columns of a block
    #[arg(long, default_value_t = 128, value_name = "N")]
    block: usize,
    /// Which designs: direct, two-sided, backoff, published
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "direct,two-sided",
        value_name = "DESIGN,…"
    )]
    designs: Vec<String>,
    /// What a floating-point operation costs a rank of a simulated machine, in nanoseconds
    #[arg(long, default_value_t = farside_apps::lu::FLOP_NS, value_name = "NS")]
    flop_ns: f64,
    /// What fits into one message of the two-sided design
    #[arg(long, default_value = "16K", value_name = "BYTES")]
    eager: String,
    /// Fetch a block anew for every block that needs it, instead of once in a step
    #[arg(long)]
    refetch: bool,
    /// Fetch the next block while products are computed, instead of before them
    #[arg(long)]
    ahead: bool,
    #[command(flatten)]
    common: Common,
}

pub(super) fn run(arguments: Arguments) -> Result<(Common, Report)> {
    let common = arguments.common;
    let options = Options {
        setting: common.setting(arguments.ranks, 20)?,
        sizes: arguments.sizes,
        block: arguments.block,
        designs: arguments.designs,
        flop_ns: arguments.flop_ns,
        message_bytes: parse_bytes(&arguments.eager)? as usize,
        refetch: arguments.refetch,
        ahead: arguments.ahead,
    };
    let Findings { records, troubles } = lu::run(&options)?;
    let table = lu::tables(&records);
    Ok((common, Report { records, troubles, table, plot: lu::plot }))
}
