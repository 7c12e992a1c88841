//! `farside bench interference`.

use crate::driver::Findings;
use crate::interference::{self, Options, Sharing};
use anyhow::Result;
use clap::Args;

use super::{Common, Report};

#[derive(Args)]
#[command(after_help = "Examples:\n  farside bench interference --servers \
                  nic,host-poll,host-spin-block,host-block\n  farside bench interference --cases \
                  lock --ranks 2,3,4,6,8 --servers nic,host-block --cores shared\n  farside bench \
                  interference --sim myrinet-lanai4 --ranks 3 --servers nic,host-poll,host-block")]
pub(super) struct Arguments {
    /// At how many ranks, each on a node of its own
    #[arg(long, value_delimiter = ',', default_value = "3", value_name = "N,…")]
    ranks: Vec<u32>,
    /// Which cases: cpu (a counting loop), bandwidth (to a third node), lock (the time to take a
    /// lock and to give it back); all by default
    #[arg(long, value_delimiter = ',', value_name = "CASE,…")]
    cases: Vec<String>,
    /// How often a second the lock is to be taken, for cpu and bandwidth; `achieved` says how often
    /// it was
    #[arg(long, value_delimiter = ',', default_value = "0,1000,5000,20000", value_name = "RATE,…")]
    loads: Vec<u64>,
    /// Whether servers have a processor of their own: apart, shared; both in turn by default
    #[arg(long, value_delimiter = ',', value_name = "HOW,…")]
    cores: Vec<String>,
    #[command(flatten)]
    common: Common,
}

pub(super) fn run(arguments: Arguments) -> Result<(Common, Report)> {
    let common = arguments.common;
    let options = Options {
        setting: common.setting(arguments.ranks, 100)?,
        cases: arguments.cases,
        loads_per_s: arguments.loads,
        sharing: arguments.cores.iter().map(|name| Sharing::parse(name)).collect::<Result<_>>()?,
    };
    let Findings { records, troubles } = interference::run(&options)?;
    let table = interference::tables(&records);
    Ok((common, Report { records, troubles, table, plot: interference::plot }))
}
