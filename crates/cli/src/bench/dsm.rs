//! `farside bench dsm`.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use farside_bench::dsm::{self, Options};

use super::{Common, Findings};

#[derive(Args)]
#[command(
    after_help = "Examples:\n  farside bench dsm --ranks 2,4,8\n  farside bench dsm --sim ethernet-now --ranks 8 --start original,zero\n  farside bench dsm --sim ibm-sp --ranks 32 --cases fft3d,sor,jacobi --start original\n  farside bench dsm --sim ibm-sp --ranks 16,64,256,1024 --cases sor,jacobi --start zero --iterations 2"
)]
pub(super) struct Arguments {
    /// At how many ranks
    #[arg(long, value_delimiter = ',', default_value = "2,4,8", value_name = "N,…")]
    ranks: Vec<u32>,
    /// Which programs: fft3d, barnes, sor, jacobi; all by default
    #[arg(long, value_delimiter = ',', value_name = "CASE,…")]
    cases: Vec<String>,
    /// Which barriers: central, tree; both by default
    #[arg(long, value_delimiter = ',', value_name = "BARRIER,…")]
    barrier: Vec<String>,
    /// Which starts: original, zero; both by default
    #[arg(long, value_delimiter = ',', value_name = "START,…")]
    start: Vec<String>,
    /// Which front end: pager, protect, userfault, explicit; the pager by default, and explicit in virtual time
    #[arg(long, value_name = "ACCESS")]
    access: Option<String>,
    /// How diffs are fetched: get, call
    #[arg(long, default_value = "get", value_name = "WAY")]
    fetch: String,
    /// How many iterations instead of the usual ones
    #[arg(long, value_name = "N")]
    iterations: Option<usize>,
    #[command(flatten)]
    common: Common,
}

pub(super) fn run(arguments: Arguments) -> Result<ExitCode> {
    let common = arguments.common;
    let options = Options {
        setting: common.setting(arguments.ranks, 20)?,
        cases: arguments.cases,
        barriers: arguments.barrier,
        starts: arguments.start,
        access: arguments.access,
        fetch: arguments.fetch,
        iterations: arguments.iterations,
    };
    let (records, troubles) = dsm::run(&options)?;
    let table = dsm::tables(&records);
    common.show(&Findings { records, troubles, table, plot: dsm::plot })
}
