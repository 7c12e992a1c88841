//! The results of `bench ops`, as tables and as plots.

use std::path::Path;

use anyhow::Result;

use super::{SIZED, Target, WORDS};
use crate::driver::FARSIDE;
use crate::plot::{Axis, BarChart, Chart, Group, Scale, Series, Unit};
use crate::record::{LIMIT, Pivot, Record, table};
use crate::report::{Plot, distinct, fold, write_plots};

/// The results as tables: what an operation takes, and beside it how many times faster farside is
/// than the best rival.
pub fn tables(records: &[Record]) -> String {
    let who: Vec<Record> =
        records.iter().map(|record| record.clone().with("who", who(record))).collect();
    // The first server is the one that is compared.
    let own = who
        .iter()
        .find(|record| record.system == FARSIDE)
        .and_then(|record| record.text("who"))
        .unwrap_or_default();
    let medians = Pivot {
        row_keys: &["ranks", "case", "bytes", "target"],
        column_key: "who",
        figure: "median_ns",
        ratio_for: Some(&own),
    };
    let tails = Pivot { figure: "p99_ns", ratio_for: None, ..medians };
    let labels = medians.row_keys.len();
    let medians = fold(&table(&who, &medians), labels);
    if who.iter().all(|record| record.number(tails.figure).is_none()) {
        return medians;
    }
    let tails = fold(&table(&who, &tails), labels);
    format!("{medians}\n\n99th percentile of operations that were timed one by one:\n{tails}")
}

/// A system, and who serves there if that was chosen.
fn who(record: &Record) -> String {
    match record.text("server") {
        Some(server) => format!("{} {server}", record.system),
        None => record.system.clone(),
    }
}

/// Draws the results into a directory: one chart for each operation with sizes, one for the words,
/// one for the barrier, and a page of all.
pub fn plot(records: &[Record], directory: &Path) -> Result<()> {
    let mut plots: Vec<Plot> = Vec::new();
    for case in SIZED {
        plots.push((format!("{case} by size"), format!("ops-{case}.svg"), by_size(records, case)));
    }
    for target in [Target::Idle, Target::Computing] {
        let (name, svg) = (target.name(), words(records, target));
        plots.push((format!("atomics, target {name}"), format!("ops-atomics-{name}.svg"), svg));
    }
    plots.push(("barrier by ranks".into(), "ops-barrier.svg".into(), barrier(records)));
    write_plots("farside bench ops", directory, &plots)
}

fn is(record: &Record, case: &str, target: Target) -> bool {
    record.case == case && record.text("target").as_deref() == Some(target.name())
}

fn systems(records: &[Record]) -> Vec<String> {
    let mut systems: Vec<String> = Vec::new();
    for who in records.iter().map(who) {
        if !systems.contains(&who) {
            systems.push(who);
        }
    }
    systems.sort_by_key(|system| (!system.starts_with(FARSIDE), system.starts_with(LIMIT)));
    systems
}

fn by_size(records: &[Record], case: &str) -> Option<String> {
    let series: Vec<Series> = systems(records)
        .into_iter()
        .filter_map(|system| {
            let points: Vec<(f64, f64)> = records
                .iter()
                .filter(|record| who(record) == system && is(record, case, Target::Idle))
                .filter_map(|record| Some((record.number("bytes")?, record.number("median_ns")?)))
                .collect();
            let series = Series::new(&system, points);
            let series = if system.starts_with(LIMIT) { series.dashed() } else { series };
            (!series.points.is_empty()).then_some(series)
        })
        .collect();
    let chart = Chart {
        title: format!("{case}: time of one operation"),
        subtitle: "complete at the target each time; lower is better".into(),
        x: Axis::new("size", Scale::Log2, Unit::Bytes),
        y: Axis::new("median time", Scale::Log10, Unit::Ns),
        series,
    };
    (!chart.series.is_empty()).then(|| chart.to_svg())
}

fn words(records: &[Record], target: Target) -> Option<String> {
    let systems = systems(records);
    let groups: Vec<Group> = WORDS
        .into_iter()
        .filter_map(|case| {
            let bar = |system: &String| {
                let record = records
                    .iter()
                    .find(|record| who(record) == *system && is(record, case, target))?;
                Some((system.clone(), record.number("median_ns")?))
            };
            let bars: Vec<(String, f64)> = systems.iter().filter_map(bar).collect();
            (!bars.is_empty()).then(|| Group { label: case.to_owned(), bars })
        })
        .collect();
    let chart = BarChart {
        title: format!("Operations on one word, target {}", target.name()),
        subtitle: "8 bytes; lower is better".into(),
        y: Axis::new("median time", Scale::Log10, Unit::Ns),
        groups,
    };
    (!chart.groups.is_empty()).then(|| chart.to_svg())
}

fn barrier(records: &[Record]) -> Option<String> {
    let systems = systems(records);
    let ranks = distinct(
        records.iter().filter(|record| record.case == "barrier").map(|record| record.ranks),
    );
    let groups: Vec<Group> = ranks
        .into_iter()
        .map(|ranks| {
            let bar = |system: &String| {
                let mut found = records.iter();
                let record =
                    found.find(|r| who(r) == *system && r.ranks == ranks && r.case == "barrier")?;
                Some((system.clone(), record.number("median_ns")?))
            };
            Group {
                label: format!("{ranks} ranks"),
                bars: systems.iter().filter_map(bar).collect(),
            }
        })
        .collect();
    let chart = BarChart {
        title: "Barrier".into(),
        subtitle: "the limit is a futex round trip of two threads; lower is better".into(),
        y: Axis::new("median time", Scale::Log10, Unit::Ns),
        groups,
    };
    (!chart.groups.is_empty()).then(|| chart.to_svg())
}
