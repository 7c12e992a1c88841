//! The results of `bench start`, as a table and as plots.

use std::path::Path;

use anyhow::Result;

use super::{JOB, JOIN, WINDOW};
use crate::driver::FARSIDE;
use crate::plot::{Axis, Chart, Scale, Series, Unit};
use crate::record::{Record, times};
use crate::report::{distinct, table, write_plots};

/// The results as a table: the time, and how many times faster farside is than the best rival.
pub fn tables(records: &[Record]) -> String {
    let header = ["ranks", "case", "system", "time", "ratio"];
    let rows = records.iter().map(|record| {
        let ns = record.number("median_ns").unwrap_or(f64::NAN);
        let ratio = (record.system == FARSIDE).then(|| best_rival(records, record)).flatten();
        vec![
            record.ranks.to_string(),
            record.case.clone(),
            record.system.clone(),
            Unit::Ns.format(ns),
            ratio.map_or("-".into(), |best| times(best / ns)),
        ]
    });
    table(3, &header, rows)
}

fn best_rival(records: &[Record], own: &Record) -> Option<f64> {
    let same = |record: &&Record| record.ranks == own.ranks && record.case == own.case;
    let rivals = records.iter().filter(|record| record.is_of_rival()).filter(same);
    rivals.filter_map(|record| record.number("median_ns")).reduce(f64::min)
}

/// Draws the results into a directory: the time of each case by ranks.
pub fn plot(records: &[Record], directory: &Path) -> Result<()> {
    let plots = [
        (JOB, "a job that does nothing", "start-job.svg"),
        (JOIN, "a job that does nothing, started by mpirun", "start-join.svg"),
        (WINDOW, "a window, allocated and freed", "start-window.svg"),
    ];
    let plots = plots.map(|(case, title, file)| {
        let chart = Chart {
            title: title.into(),
            subtitle: "lower is better".into(),
            x: Axis::new("ranks", Scale::Log2, Unit::Count),
            y: Axis::new("time", Scale::Log10, Unit::Ns),
            series: curves(records, case),
        };
        let svg = (!chart.series.is_empty()).then(|| chart.to_svg());
        (title.to_owned(), file.to_owned(), svg)
    });
    write_plots("farside bench start", directory, &plots)
}

/// One curve for each system.
fn curves(records: &[Record], case: &str) -> Vec<Series> {
    let of_case = || records.iter().filter(|record| record.case == case);
    let curve = |system: String| {
        let own = of_case().filter(|record| record.system == system);
        let points = own.filter_map(|own| Some((own.ranks as f64, own.number("median_ns")?)));
        let curve = Series::new(system.clone(), points.collect());
        if system == FARSIDE { curve } else { curve.dashed() }
    };
    distinct(of_case().map(|record| record.system.clone())).into_iter().map(curve).collect()
}
