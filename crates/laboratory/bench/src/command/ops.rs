//! `farside bench ops`.

use crate::driver::Findings;
use crate::ops::{self, Options};
use crate::rivals::Rival;
use anyhow::Result;
use clap::Args;

use super::{Common, Report, parse_sizes};

#[derive(Args)]
#[command(
    after_help = "Examples:\n  farside bench ops --ranks 2,16 --against mpich,openmpi,openshmem \
                  --json ops.json --plot plots\n  farside bench ops --nodes 2 --servers \
                  nic,host-poll,host-spin-block,host-block --against mpich,openmpi\n  farside \
                  bench ops --nodes 2 --mtu 1500 --cases put,get --sizes 1M,64M --against \
                  openmpi\n  farside bench ops --sim aries-xc30 --ranks 16,256,1024 --time 1 \
                  --rounds 1"
)]
pub(super) struct Arguments {
    /// At how many ranks
    #[arg(long, value_delimiter = ',', default_value = "2", value_name = "N,…")]
    ranks: Vec<u32>,
    /// Which cases: put, get, accumulate, get_accumulate, put_strided, fetch_add, swap,
    /// compare_swap, compare_swap_miss, signal, rate, barrier; all by default
    #[arg(long, value_delimiter = ',', value_name = "CASE,…")]
    cases: Vec<String>,
    /// At which sizes
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "8,64,1K,8K,64K,1M,4M",
        value_name = "BYTES,…"
    )]
    sizes: Vec<String>,
    /// Join the two nodes by a link with this MTU, in network namespaces, instead of loopback; the
    /// limit is then one TCP stream by iperf3. Needs root
    #[arg(long, value_name = "BYTES", requires = "nodes")]
    mtu: Option<u32>,
    #[command(flatten)]
    common: Common,
}

pub(super) fn run(arguments: Arguments) -> Result<(Common, Report)> {
    let sizes = parse_sizes(&arguments.sizes)?;
    let common = arguments.common;
    let setting = common.setting(arguments.ranks, 20)?;
    let options = Options { setting, cases: arguments.cases, sizes, mtu: arguments.mtu };
    let Findings { records, mut troubles } = ops::run(&options)?;
    let is_asked_for =
        options.cases.is_empty() || options.cases.iter().any(|case| case == "compare_swap");
    if is_asked_for
        && options.setting.against.contains(&Rival::OpenMpi)
        && options.setting.nodes.is_none()
    {
        troubles.push(
            "not measured: compare_swap of openmpi: its default one-sided component crashes in it"
                .into(),
        );
    }
    let table = ops::tables(&records);
    Ok((common, Report { records, troubles, table, plot: ops::plot }))
}
