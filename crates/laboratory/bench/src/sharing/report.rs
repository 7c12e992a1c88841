//! The results of `bench sharing`, as a table and as a plot.

use std::path::Path;

use anyhow::Result;

use super::{BESIDE_BULK, GET_LOSSY, GET_RELAYED, IDLE, PUT_LOSSY, PUT_RELAYED};
use crate::plot::{Axis, BarChart, Group, Scale, Unit};
use crate::record::{Record, times};
use crate::report::{distinct, table, write_plots};

/// The results as a table, with how many times longer the slowest of a hundred small operations
/// takes beside long transfers, and how much of the throughput a loss of packets leaves.
pub fn tables(records: &[Record]) -> String {
    let header = [
        "ranks",
        "case",
        "bytes",
        "median",
        "99th percentile",
        "of idle",
        "throughput",
        "of lossless",
        "Jain",
    ];
    let rows = records.iter().map(|record| {
        let figure = |name: &str| {
            record.number(name).map_or("-".into(), |value| Unit::of(name).format(value))
        };
        let idle = p99(records, record.ranks, IDLE);
        let of_idle = (record.case == BESIDE_BULK).then(|| Some(record.number("p99_ns")? / idle?));
        vec![
            record.ranks.to_string(),
            record.case.clone(),
            record.number("bytes").map_or("-".into(), |bytes| Unit::Bytes.format(bytes)),
            figure("p50_ns"),
            figure("p99_ns"),
            of_idle.flatten().map_or("-".into(), times),
            figure("bytes_per_s"),
            of_lossless(records, record).map_or("-".into(), times),
            record.number("jain").map_or("-".into(), |jain| format!("{jain:.2}")),
        ]
    });
    table(3, &header, rows)
}

fn p99(records: &[Record], ranks: usize, case: &str) -> Option<f64> {
    let is = |record: &&Record| record.ranks == ranks && record.case == case;
    records.iter().find(is)?.number("p99_ns")
}

/// Returns what is left of the throughput by the same relay without losses.
fn of_lossless(records: &[Record], lossy: &Record) -> Option<f64> {
    let lossless = match lossy.case.as_str() {
        PUT_LOSSY => PUT_RELAYED,
        GET_LOSSY => GET_RELAYED,
        _ => return None,
    };
    let is = |record: &&Record| {
        record.ranks == lossy.ranks
            && record.case == lossless
            && record.number("bytes") == lossy.number("bytes")
    };
    Some(lossy.number("bytes_per_s")? / records.iter().find(is)?.number("bytes_per_s")?)
}

/// Draws the results into a directory: the time of small operations, idle and beside long ones.
pub fn plot(records: &[Record], directory: &Path) -> Result<()> {
    let groups = distinct(records.iter().map(|record| record.ranks)).into_iter().map(|ranks| {
        let bar = |case: &str| Some((case.to_owned(), p99(records, ranks, case)?));
        let bars = [IDLE, BESIDE_BULK].into_iter().filter_map(bar).collect();
        Group { label: format!("{ranks} ranks"), bars }
    });
    let groups: Vec<Group> = groups.filter(|group| !group.bars.is_empty()).collect();
    let chart = BarChart {
        title: "Small operations beside long transfers".into(),
        subtitle: "99th percentile of 8 bytes; lower is better".into(),
        y: Axis::new("time", Scale::Log10, Unit::Ns),
        groups,
    };
    let svg = (!chart.groups.is_empty()).then(|| chart.to_svg());
    let plots = [("small operations".to_owned(), "sharing-small.svg".to_owned(), svg)];
    write_plots("farside bench sharing", directory, &plots)
}
