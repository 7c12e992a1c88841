//! The results of `bench mpi`, as a table and as plots.

use std::path::Path;

use anyhow::Result;

use super::{CASES, PAIRS};
use crate::plot::{Axis, Chart, Scale, Series, Unit};
use crate::record::{Record, times};
use crate::report::{Plot, distinct, machine, table, write_plots};
use crate::rivals::Rival;

/// The results as a table: the time of each case in each system, and how many times as long each
/// MPI takes without farside as with it.
pub fn tables(records: &[Record]) -> String {
    let was_measured = |rival: &Rival| records.iter().any(|record| record.system == rival.name());
    let pairs: Vec<(Vec<Rival>, Rival)> = PAIRS
        .iter()
        .map(|(plain, preloaded)| {
            (plain.iter().copied().filter(was_measured).collect(), *preloaded)
        })
        .filter(|(_, preloaded)| was_measured(preloaded))
        .collect();
    let mut header = vec!["ranks", "case", "bytes"];
    for (plain, preloaded) in &pairs {
        header.extend(plain.iter().map(|rival| rival.name()));
        header.push(preloaded.name());
        header.extend((!plain.is_empty()).then_some("ratio"));
    }
    let rows = rows(records).into_iter().map(|first| {
        let of = |rival: &Rival| median(records, first, rival.name());
        let time = |ns: Option<f64>| ns.map_or("-".into(), |ns| Unit::Ns.format(ns));
        let bytes = first.number("bytes").map_or("-".into(), |bytes| Unit::Bytes.format(bytes));
        let mut row = vec![first.ranks.to_string(), first.case.clone(), bytes];
        for (plain, preloaded) in &pairs {
            row.extend(plain.iter().map(|rival| time(of(rival))));
            row.push(time(of(preloaded)));
            let best = plain.iter().filter_map(of).reduce(f64::min);
            let ratio = best.zip(of(preloaded)).map(|(best, ns)| times(best / ns));
            row.extend((!plain.is_empty()).then(|| ratio.unwrap_or("-".into())));
        }
        row
    });
    [
        machine(),
        table(2, &header, rows),
        "ratio: the MPI alone, in the faster of its variants, over the same with farside".into(),
    ]
    .join("\n")
}

/// One record for each row of the table.
fn rows(records: &[Record]) -> Vec<&Record> {
    let mut rows: Vec<&Record> = Vec::new();
    for record in records {
        if !rows.iter().any(|row| (row.ranks, &row.case) == (record.ranks, &record.case)) {
            rows.push(record);
        }
    }
    rows
}

fn median(records: &[Record], row: &Record, system: &str) -> Option<f64> {
    let is = |record: &&Record| {
        (record.ranks, &record.case, record.system.as_str()) == (row.ranks, &row.case, system)
    };
    records.iter().find(is)?.number("median_ns")
}

/// Draws the results into a directory: the time of each case by ranks.
pub fn plot(records: &[Record], directory: &Path) -> Result<()> {
    let plots: Vec<Plot> = CASES.iter().map(|case| drawing(records, case)).collect();
    write_plots("farside bench mpi", directory, &plots)
}

fn drawing(records: &[Record], case: &str) -> Plot {
    let of = || records.iter().filter(|record| record.case == case);
    let mut series: Vec<Series> = Vec::new();
    for system in distinct(of().map(|record| record.system.clone())) {
        let points: Vec<(f64, f64)> = of()
            .filter(|record| record.system == system)
            .filter_map(|record| Some((record.ranks as f64, record.number("median_ns")?)))
            .collect();
        let is_rival = of().any(|record| record.system == system && record.is_of_rival());
        let curve = Series::new(system, points);
        series.push(if is_rival { curve.dashed() } else { curve });
    }
    let chart = Chart {
        title: format!("MPI: {case}"),
        subtitle: "lower is better".into(),
        x: Axis::new("ranks", Scale::Log2, Unit::Count),
        y: Axis::new("time of one operation", Scale::Log10, Unit::Ns),
        series,
    };
    let svg = (!chart.series.is_empty()).then(|| chart.to_svg());
    (case.to_owned(), format!("mpi-{case}.svg"), svg)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(system: &str, case: &str, ns: f64) -> Record {
        Record::new("mpi", case, system, "shm", 8, 1).with("bytes", 8).figure("median_ns", ns)
    }

    #[test]
    fn an_mpi_stands_beside_the_same_with_farside() {
        let records = [
            of("mpich", "lock_put", 900.0),
            of("mpich+farside", "lock_put", 90.0),
            of("openmpi", "lock_put", 400.0),
            of("openmpi-sm", "lock_put", 160.0),
            of("openmpi+farside", "lock_put", 80.0),
            of("openmpi+farside", "compare_swap", 80.0),
        ];
        let table = tables(&records);
        assert!(table.contains("10.0x") && table.contains("2.00x"), "{table}");
        assert!(!table.contains("5.00x"), "the better variant counts: {table}");
        assert!(table.lines().skip(1).all(|line| line.chars().count() <= 80), "{table}");
        let alone = tables(&records[..2]);
        assert!(alone.contains("mpich+farside") && !alone.contains("openmpi"), "{alone}");
    }
}
