//! The results of `bench lu`, as tables and as plots.

use std::path::Path;

use anyhow::Result;

use super::CASES;
use crate::plot::{Axis, Chart, Scale, Series, Unit};
use crate::record::Record;
use crate::report::{distinct, table, text_of, write_plots};

fn time_of(records: &[Record], ranks: usize, size: &str, design: &str, case: &str) -> Option<f64> {
    let is = |record: &&Record| {
        (record.ranks, record.case.as_str()) == (ranks, case)
            && (text_of(record, "size"), text_of(record, "design"))
                == (size.to_owned(), design.to_owned())
    };
    records.iter().find(is)?.number("median_ns")
}

fn sizes(records: &[Record]) -> Vec<String> {
    let sizes =
        distinct(records.iter().filter_map(|record| record.number("size")).map(|size| size as u64));
    sizes.into_iter().map(|size| size.to_string()).collect()
}

fn designs(records: &[Record]) -> Vec<String> {
    let mut designs: Vec<String> = Vec::new();
    for record in records {
        let design = text_of(record, "design");
        if !designs.contains(&design) {
            designs.push(design);
        }
    }
    designs
}

/// The results as a table: a line for each factorization, with the parts of its time, and what part
/// it is of the time of the two-sided design.
pub fn tables(records: &[Record]) -> String {
    let mut header = vec!["ranks", "size", "design"];
    header.extend(CASES);
    header.push("of two-sided");
    let mut rows = Vec::new();
    for ranks in distinct(records.iter().map(|record| record.ranks)) {
        for size in sizes(records) {
            for design in designs(records) {
                let Some(total) = time_of(records, ranks, &size, &design, "total") else {
                    continue;
                };
                let mut row = vec![ranks.to_string(), size.clone(), design.clone()];
                row.extend(CASES.map(|case| {
                    time_of(records, ranks, &size, &design, case)
                        .map_or("-".into(), |ns| Unit::Ns.format(ns))
                }));
                let rival = time_of(records, ranks, &size, "two-sided", "total")
                    .filter(|_| design != "two-sided");
                row.push(
                    rival.map_or("-".into(), |rival| format!("{:.0} %", 100.0 * total / rival)),
                );
                rows.push(row);
            }
        }
    }
    table(3, &header, rows.into_iter())
}

/// Draws the results into a directory: time by ranks for each size, as figure 7 of \[PASSIVE08\].
pub fn plot(records: &[Record], directory: &Path) -> Result<()> {
    let mut plots = Vec::new();
    for size in sizes(records) {
        let curve = |case: &str, design: &String| {
            let ranks = distinct(records.iter().map(|record| record.ranks));
            let point = |&ranks: &usize| {
                Some((ranks as f64, time_of(records, ranks, &size, design, case)?))
            };
            Series::new(design.clone(), ranks.iter().filter_map(point).collect())
        };
        for (case, figure) in [("total", "7"), ("unlock", "8"), ("barrier", "8")] {
            let series: Vec<Series> =
                designs(records).iter().map(|design| curve(case, design)).collect();
            let chart = Chart {
                title: format!("LU of {size} x {size}: {case}"),
                subtitle: format!("[PASSIVE08] figure {figure}; lower is better"),
                x: Axis::new("ranks", Scale::Log2, Unit::Count),
                y: Axis::new("time", Scale::Log10, Unit::Ns),
                series: series.into_iter().filter(|series| !series.points.is_empty()).collect(),
            };
            let svg = (!chart.series.is_empty()).then(|| chart.to_svg());
            plots.push((
                format!("{case} of {size} x {size}"),
                format!("lu-{case}-{size}.svg"),
                svg,
            ));
        }
    }
    write_plots("farside bench lu", directory, &plots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_design_that_takes_longer_is_not_said_to_take_less() {
        let of = |design: &str, ns: f64| {
            let record = Record::new("lu", "total", "farside", "shm", 2, 1)
                .with("design", design)
                .with("size", 64);
            record.with("block", 16).figure("median_ns", ns)
        };
        let table = tables(&[of("direct", 141.0), of("two-sided", 100.0)]);
        assert!(
            table.contains("of two-sided") && table.contains("141 %") && !table.contains("-41"),
            "{table}"
        );
    }
}
