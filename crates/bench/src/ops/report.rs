//! The results of `bench ops`, as tables and as plots.

use std::path::Path;

use anyhow::{Context as _, Result};

use super::{FARSIDE, SIZED, Target, WORDS};
use crate::plot::{Axis, BarChart, Chart, Group, Scale, Series, Unit, index_html};
use crate::record::{LIMIT, Pivot, Record, table};

/// The results as tables: what an operation takes, and beside it how many times faster farside is than the best rival.
pub fn tables(records: &[Record]) -> String {
    let pivot = Pivot {
        row_keys: &["ranks", "case", "bytes", "target"],
        column_key: "system",
        figure: "median_ns",
        ratio_for: Some(FARSIDE),
    };
    table(records, &pivot).to_string()
}

/// Draws the results into a directory: one chart for each operation with sizes, one for the words, one for the barrier, and a page of all.
pub fn plot(records: &[Record], directory: &Path) -> Result<()> {
    std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    let mut plots: Vec<(String, String, String)> = Vec::new();
    for case in SIZED {
        if let Some(svg) = by_size(records, case) {
            plots.push((format!("{case} by size"), format!("ops-{case}.svg"), svg));
        }
    }
    for target in [Target::Idle, Target::Computing] {
        if let Some(svg) = words(records, target) {
            let name = target.name();
            plots.push((format!("atomics, target {name}"), format!("ops-atomics-{name}.svg"), svg));
        }
    }
    if let Some(svg) = barrier(records) {
        plots.push(("barrier by ranks".into(), "ops-barrier.svg".into(), svg));
    }
    let write = |name: &str, text: &str| {
        let path = directory.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    for (_, file, svg) in &plots {
        write(file, svg)?;
    }
    let list: Vec<(&str, &str)> = plots.iter().map(|(caption, file, _)| (caption.as_str(), file.as_str())).collect();
    write("index.html", &index_html("farside bench ops", &list))
}

fn is(record: &Record, case: &str, target: Target) -> bool {
    record.case == case && record.attribute("target").as_ref().and_then(|value| value.as_str()) == Some(target.name())
}

fn systems(records: &[Record]) -> Vec<&str> {
    let mut systems: Vec<&str> = Vec::new();
    for record in records {
        if !systems.contains(&record.system.as_str()) {
            systems.push(&record.system);
        }
    }
    systems.sort_by_key(|&system| (system != FARSIDE, system == LIMIT));
    systems
}

fn by_size(records: &[Record], case: &str) -> Option<String> {
    let series: Vec<Series> = systems(records)
        .into_iter()
        .filter_map(|system| {
            let points: Vec<(f64, f64)> = records
                .iter()
                .filter(|record| record.system == system && is(record, case, Target::Idle))
                .filter_map(|record| Some((record.number("bytes")?, record.number("median_ns")?)))
                .collect();
            let series = Series::new(system, points);
            let series = if system == LIMIT { series.dashed() } else { series };
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
            let bar = |system: &&str| {
                let record = records.iter().find(|record| record.system == *system && is(record, case, target))?;
                Some(((*system).to_owned(), record.number("median_ns")?))
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
    let mut ranks: Vec<usize> =
        records.iter().filter(|record| record.case == "barrier").map(|record| record.ranks).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let groups: Vec<Group> = ranks
        .into_iter()
        .map(|ranks| {
            let bar = |system: &&str| {
                let mut found = records.iter();
                let record = found.find(|r| r.system == *system && r.ranks == ranks && r.case == "barrier")?;
                Some(((*system).to_owned(), record.number("median_ns")?))
            };
            Group { label: format!("{ranks} ranks"), bars: systems.iter().filter_map(bar).collect() }
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
