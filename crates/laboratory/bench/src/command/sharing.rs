//! `farside bench sharing`.

use crate::driver::Findings;
use crate::sharing::{self, Options};
use anyhow::Result;
use clap::Args;

use super::{Common, Report};

#[derive(Args)]
#[command(after_help = "Examples:\n  farside bench sharing --nodes 2\n  farside bench sharing \
                  --nodes 2 --mtu 1500 --ranks 4,8 --time 500\n  farside bench sharing --nodes 2 \
                  --mtu 1500 --relay --time 1000")]
pub(super) struct Arguments {
    /// At how many ranks
    #[arg(long, value_delimiter = ',', default_value = "4", value_name = "N,…")]
    ranks: Vec<u32>,
    /// Which cases: idle, beside_bulk, fair, beside_tcp, or with --relay put_relayed, put_lossy,
    /// get_relayed, get_lossy; all that can be measured by default
    #[arg(long, value_delimiter = ',', value_name = "CASE,…")]
    cases: Vec<String>,
    /// Join the two nodes by a link with this MTU, in network namespaces, instead of loopback.
    /// Needs root
    #[arg(long, value_name = "BYTES", requires = "nodes")]
    mtu: Option<u32>,
    /// Put a relay between the two nodes of that link, which loses 1 % of the packets in the lossy
    /// cases and lets others overtake 1 %. Needs /dev/net/tun
    #[arg(long, requires = "mtu")]
    relay: bool,
    #[command(flatten)]
    common: Common,
}

pub(super) fn run(arguments: Arguments) -> Result<(Common, Report)> {
    let common = arguments.common;
    let options = Options {
        setting: common.setting(arguments.ranks, 200)?,
        cases: arguments.cases,
        mtu: arguments.mtu,
        relay: arguments.relay,
    };
    let Findings { records, troubles } = sharing::run(&options)?;
    let table = sharing::tables(&records);
    Ok((common, Report { records, troubles, table, plot: sharing::plot }))
}
