//! The results of `bench sharing`, as a table and as a plot.

use std::path::Path;

use anyhow::Result;

use super::{BESIDE_BULK, IDLE};
use crate::plot::{Axis, BarChart, Group, Scale, Unit};
use crate::record::{Record, times};
use crate::report::{distinct, table, write_plots};

/// The results as a table, with how many times longer the slowest of a hundred small operations
/// takes beside long transfers.
pub fn tables(records: &[Record]) -> String {
    let header = ["ranks", "case", "median", "99th percentile", "of idle", "throughput", "Jain"];
    let rows = records.iter().map(|record| {
        let figure = |name: &str| {
            record.number(name).map_or("-".into(), |value| Unit::of(name).format(value))
        };
        let idle = p99(records, record.ranks, IDLE);
        let of_idle = (record.case == BESIDE_BULK).then(|| Some(record.number("p99_ns")? / idle?));
        vec![
            record.ranks.to_string(),
            record.case.clone(),
            figure("p50_ns"),
            figure("p99_ns"),
            of_idle.flatten().map_or("-".into(), times),
            figure("bytes_per_s"),
            record.number("jain").map_or("-".into(), |jain| format!("{jain:.2}")),
        ]
    });
    table(2, &header, rows)
}

fn p99(records: &[Record], ranks: usize, case: &str) -> Option<f64> {
    let is = |record: &&Record| record.ranks == ranks && record.case == case;
    records.iter().find(is)?.number("p99_ns")
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
