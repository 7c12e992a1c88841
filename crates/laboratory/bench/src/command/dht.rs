//! `farside bench dht`.

use crate::dht::{self, Options, lock};
use crate::driver::Findings;
use anyhow::Result;
use clap::Args;
use farside::map::Synchronization;

use super::{Common, Report};

#[derive(Args)]
#[command(
    after_help = "Examples:\n  farside bench dht --ranks 2 --cases ycsb-a,ycsb-b,ycsb-c,ycsb-f \
                  --against redis,memcached\n  farside bench dht --sim aries-xc30 --ranks \
                  16,64,256,1024 --cases integers --plot plots"
)]
pub(super) struct Arguments {
    /// At how many ranks
    #[arg(long, value_delimiter = ',', default_value = "2", value_name = "N,…")]
    ranks: Vec<u32>,
    /// Which cases: volume, integers, ycsb-a, ycsb-b, ycsb-c, ycsb-f; all by default
    #[arg(long, value_delimiter = ',', value_name = "CASE,…")]
    cases: Vec<String>,
    /// How ranks keep out of each other's way: atomics, fompi-rw, rma-rw, default-rw; all by
    /// default
    #[arg(long, value_delimiter = ',', value_name = "LOCK,…")]
    locks: Vec<String>,
    /// How many of a hundred operations on one volume are inserts
    #[arg(long, value_delimiter = ',', default_value = "0,2,5,20", value_name = "PERCENT,…")]
    writers: Vec<f64>,
    /// How many operations each rank does in virtual time, where --time does not count
    #[arg(long, default_value_t = 200, value_name = "N")]
    operations: u64,
    /// How many keys there are
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    keys: u64,
    #[command(flatten)]
    common: Common,
}

pub(super) fn run(arguments: Arguments) -> Result<(Common, Report)> {
    let locks = match &arguments.locks[..] {
        [] => Synchronization::all(),
        names => names.iter().map(|name| lock(name)).collect::<Result<_>>()?,
    };
    let common = arguments.common;
    let options = Options {
        setting: common.setting(arguments.ranks, 100)?,
        cases: arguments.cases,
        locks,
        writers_pct: arguments.writers,
        operations: arguments.operations,
        keys: arguments.keys,
    };
    let Findings { records, troubles } = dht::run(&options)?;
    let table = dht::tables(&records);
    Ok((common, Report { records, troubles, table, plot: dht::plot }))
}
