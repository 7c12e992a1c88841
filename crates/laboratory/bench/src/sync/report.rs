//! The results of `bench sync`, as a table and as plots.

use std::path::Path;

use anyhow::Result;

use super::{ALLFENCE, BARRIER, SYNC};
use crate::driver::FARSIDE;
use crate::plot::{Axis, Chart, Scale, Series, Unit};
use crate::record::{Record, times};
use crate::report::{distinct, table, text_of, write_plots};

/// The results as a table: time and messages, and how many times faster each is than the best rival
/// that achieves the same.
pub fn tables(records: &[Record]) -> String {
    let header = ["ranks", "case", "system", "algorithm", "time", "messages", "ratio"];
    let rows = records.iter().map(|record| {
        let ns = record.number("median_ns").unwrap_or(f64::NAN);
        let ratio = (record.system == FARSIDE).then(|| best_rival(records, record)).flatten();
        vec![
            record.ranks.to_string(),
            record.case.clone(),
            record.system.clone(),
            text_of(record, "algorithm"),
            Unit::Ns.format(ns),
            text_of(record, "messages"),
            ratio.map_or("-".into(), |best| times(best / ns)),
        ]
    });
    table(4, &header, rows)
}

/// Whether all that was put has landed afterwards, too.
fn completes(record: &Record) -> bool {
    record.case != BARRIER
}

fn best_rival(records: &[Record], own: &Record) -> Option<f64> {
    let same = |record: &&Record| record.ranks == own.ranks && completes(record) == completes(own);
    let rivals = records.iter().filter(|record| record.is_of_rival()).filter(same);
    rivals.filter_map(|record| record.number("median_ns")).reduce(f64::min)
}

/// Draws the results into a directory: time by ranks, and how many times faster the combined fence
/// and barrier is than the two apart.
pub fn plot(records: &[Record], directory: &Path) -> Result<()> {
    let time = |title: &str, subtitle: &str, cases: &[&str]| {
        let chosen: Vec<&Record> =
            records.iter().filter(|record| cases.contains(&record.case.as_str())).collect();
        let chart = Chart {
            title: title.into(),
            subtitle: subtitle.into(),
            x: Axis::new("ranks", Scale::Log2, Unit::Count),
            y: Axis::new("time of the slowest rank", Scale::Log10, Unit::Ns),
            series: curves(&chosen),
        };
        (!chart.series.is_empty()).then(|| chart.to_svg())
    };
    let after = "after puts from everybody to everybody; lower is better ([ARMCI03] figure 7a)";
    let plots = [
        ("fence and barrier", "sync-time.svg", time("Fence and barrier", after, &[ALLFENCE, SYNC])),
        ("speed-up of the combined one", "sync-speedup.svg", speedup(records)),
        ("barrier", "sync-barrier.svg", time("Barrier", "lower is better", &[BARRIER])),
    ];
    let plots = plots.map(|(caption, file, svg)| (caption.to_owned(), file.to_owned(), svg));
    write_plots("farside bench sync", directory, &plots)
}

/// One curve for each case, algorithm and system.
fn curves(records: &[&Record]) -> Vec<Series> {
    let mut series: Vec<Series> = Vec::new();
    for record in records {
        let name = match record.system.as_str() {
            FARSIDE => format!("{} {}", record.case, text_of(record, "algorithm")),
            rival => rival.to_owned(),
        };
        let Some(ns) = record.number("median_ns") else { continue };
        let point = (record.ranks as f64, ns);
        match series.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push(point),
            None => {
                let curve = Series::new(name, vec![point]);
                series.push(if record.system == FARSIDE { curve } else { curve.dashed() });
            }
        }
    }
    series
}

fn speedup(records: &[Record]) -> Option<String> {
    let of = |ranks: usize, case: &str, algorithm: &str| {
        let is = |record: &&Record| {
            (record.ranks, record.case.as_str(), record.system.as_str()) == (ranks, case, FARSIDE)
                && text_of(record, "algorithm") == algorithm
        };
        records.iter().find(is).and_then(|record| record.number("median_ns"))
    };
    let ranks = distinct(records.iter().map(|record| record.ranks));
    let against = |style: &str| {
        let point =
            |&n: &usize| Some((n as f64, of(n, ALLFENCE, style)? / of(n, SYNC, "counted")?));
        Series::new(format!("against {style}"), ranks.iter().filter_map(point).collect())
    };
    let series: Vec<Series> = ["confirmed", "acknowledged"].map(against).into_iter().collect();
    let chart = Chart {
        title: "Combined fence and barrier: how many times faster".into(),
        subtitle: "than all-fence and then barrier ([ARMCI03] figure 7b)".into(),
        x: Axis::new("ranks", Scale::Log2, Unit::Count),
        y: Axis::new("times", Scale::Linear, Unit::None),
        series: series.into_iter().filter(|series| !series.points.is_empty()).collect(),
    };
    (!chart.series.is_empty()).then(|| chart.to_svg())
}
