//! `farside bench dsm`.

use crate::driver::Setting;
use crate::dsm::{self, Options};
use anyhow::Result;
use clap::Args;
use std::collections::BTreeSet;

use super::{Common, Report};

#[derive(Args)]
#[command(
    after_help = "Examples:\n  farside bench dsm --ranks 2,4,8\n  farside bench dsm --nodes \
                  2,4,8\n  farside bench dsm --sim ethernet-now --ranks 8 --start original,zero\n  \
                  farside bench dsm --sim ibm-sp --ranks 32 --cases fft3d,sor,jacobi --start \
                  original\n  farside bench dsm --sim ibm-sp --ranks 16,64,256,1024 --cases \
                  sor,jacobi --start zero --iterations 2"
)]
pub(super) struct Arguments {
    /// At how many ranks; by default 2, 4 and 8, or one on each node
    #[arg(long, value_delimiter = ',', value_name = "N,…")]
    ranks: Vec<u32>,
    /// Which programs: fft3d, barnes, sor, jacobi, tsp, barnes-zones, interval,
    /// interval-written (open pages, as many as --size says); all by default, and the first
    /// four in virtual time
    #[arg(long, value_delimiter = ',', value_name = "CASE,…")]
    cases: Vec<String>,
    /// Which barriers: central, tree; both by default
    #[arg(long, value_delimiter = ',', value_name = "BARRIER,…")]
    barrier: Vec<String>,
    /// Which starts: original, zero, zero-invalid; the first two by default
    #[arg(long, value_delimiter = ',', value_name = "START,…")]
    start: Vec<String>,
    /// Which front end: pager, protect, userfault, explicit; the pager by default, and explicit in
    /// virtual time
    #[arg(long, value_name = "ACCESS")]
    access: Option<String>,
    /// Which ranks share a copy: node, rank; those of a node by default, and each has its own in
    /// virtual time
    #[arg(long, value_delimiter = ',', value_name = "COPIES,…")]
    copies: Vec<String>,
    /// When diffs are made: on-demand, eager; on demand by default, and eagerly in virtual time
    #[arg(long, value_delimiter = ',', value_name = "DIFFS,…")]
    diffs: Vec<String>,
    /// A copy for each rank and eager diffs, as in [BST97], beside one copy for a node and diffs on
    /// demand, in one table
    #[arg(long)]
    both: bool,
    /// How eager diffs of a copy per rank are fetched: get, call
    #[arg(long, default_value = "get", value_name = "WAY")]
    fetch: String,
    /// How large the problem is instead of as in the paper, such as 2000x1000; for one program
    #[arg(long, value_name = "SIZE")]
    size: Option<String>,
    /// Measures as in [BST97], and as in virtual time: the iterations of the paper, and the whole
    /// program with its allocations and first values; without a base
    #[arg(long, conflicts_with = "iterations")]
    published: bool,
    /// How many iterations instead of the usual ones
    #[arg(long, value_name = "N")]
    iterations: Option<usize>,
    #[command(flatten)]
    common: Common,
}

pub(super) fn run(arguments: Arguments) -> Result<(Common, Report)> {
    let settings = settings(&arguments.common, &arguments.ranks)?;
    let mut options = Options {
        setting: settings[0].clone(),
        cases: arguments.cases,
        barriers: arguments.barrier,
        starts: arguments.start,
        access: arguments.access,
        copies: arguments.copies,
        diffs: arguments.diffs,
        both: arguments.both,
        fetch: arguments.fetch,
        size: arguments.size,
        published: arguments.published,
        iterations: arguments.iterations,
    };
    let (mut records, mut troubles) = (Vec::new(), Vec::new());
    for setting in settings {
        options.setting = setting;
        let found = dsm::run(&options)?;
        records.extend(found.records);
        troubles.extend(found.troubles);
    }
    let table = dsm::tables(&records);
    Ok((arguments.common, Report { records, troubles, table, plot: dsm::plot }))
}

/// One for each number of nodes, the smallest first; what is wrong with one of them is said before
/// anything is measured.
fn settings(common: &Common, ranks: &[u32]) -> Result<Vec<Setting>> {
    const USUAL: [u32; 3] = [2, 4, 8];
    const TIME_MS: u64 = 20;
    let of = |nodes: Option<u32>| {
        let ranks = match (ranks, nodes) {
            ([], None) => USUAL.to_vec(),
            ([], Some(nodes)) => vec![nodes],
            (ranks, _) => ranks.to_vec(),
        };
        let setting = common.setting_with(nodes, ranks, TIME_MS)?;
        setting.check(1)?;
        Ok(setting)
    };
    let nodes: BTreeSet<u32> = common.nodes.iter().copied().collect();
    let settings: Vec<Setting> = match nodes.is_empty() {
        true => vec![of(None)?],
        false => nodes.into_iter().map(|nodes| of(Some(nodes))).collect::<Result<_>>()?,
    };
    settings.first().into_iter().for_each(super::say_if_busy);
    Ok(settings)
}
