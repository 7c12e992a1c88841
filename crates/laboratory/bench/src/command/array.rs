//! `farside bench array`.

use crate::array::{self, Options, Shape};
use crate::driver::Findings;
use anyhow::Result;
use clap::Args;

use super::{Common, Report};

#[derive(Args)]
#[command(
    after_help = "Examples:\n  farside bench array --ranks 2,8,16 --against ga\n  farside bench \
                  array --sim myrinet-2000 --ranks 2,4,8,16 --cases sync --plot plots"
)]
pub(super) struct Arguments {
    /// At how many ranks
    #[arg(long, value_delimiter = ',', default_value = "2,8,16", value_name = "N,…")]
    ranks: Vec<u32>,
    /// Which cases: sync (combined, allfence, allfence-confirmed), put, get, accumulate, matmul;
    /// all by default
    #[arg(long, value_delimiter = ',', value_name = "CASE,…")]
    cases: Vec<String>,
    /// Which patches, in rows and columns of doubles
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "1x8,64x8,1x8192,1x131072,512x256",
        value_name = "ROWSxCOLUMNS,…"
    )]
    shapes: Vec<String>,
    /// The order of the matrices that are multiplied
    #[arg(long, default_value_t = 256, value_name = "N")]
    size: usize,
    #[command(flatten)]
    common: Common,
}

pub(super) fn run(arguments: Arguments) -> Result<(Common, Report)> {
    let shapes = arguments.shapes.iter().map(|text| Shape::parse(text)).collect::<Result<_>>()?;
    let common = arguments.common;
    let setting = common.setting(arguments.ranks, 20)?;
    let Findings { records, troubles } =
        array::run(&Options { setting, cases: arguments.cases, shapes, size: arguments.size })?;
    let table = array::tables(&records);
    Ok((common, Report { records, troubles, table, plot: array::plot }))
}
