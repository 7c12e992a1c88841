//! The results of `bench array`, as a table and as plots.

use std::path::Path;

use anyhow::Result;

use crate::driver::FARSIDE;
use crate::plot::{Axis, Chart, Scale, Series, Unit};
use crate::record::{Record, times};
use crate::report::{Plot, distinct, table, text_of, write_plots};

/// The results as a table, with how many times faster each is than the best rival.
pub fn tables(records: &[Record]) -> String {
    let header =
        ["ranks", "case", "shape", "bytes", "system", "algorithm", "time", "rate", "ratio"];
    let rows = records.iter().map(|record| {
        let ns = record.number("median_ns").unwrap_or(f64::NAN);
        let rate = ["bytes_per_s", "flop_per_s"]
            .iter()
            .find_map(|name| Some(Unit::of(name).format(record.number(name)?)));
        let ratio = (record.system == FARSIDE).then(|| best_rival(records, record)).flatten();
        vec![
            record.ranks.to_string(),
            record.case.clone(),
            text_of(record, "shape"),
            record.number("bytes").map_or("-".into(), |bytes| Unit::Bytes.format(bytes)),
            record.system.clone(),
            text_of(record, "algorithm"),
            Unit::Ns.format(ns),
            rate.unwrap_or("-".into()),
            ratio.map_or("-".into(), |best| times(best / ns)),
        ]
    });
    table(6, &header, rows)
}

fn best_rival(records: &[Record], own: &Record) -> Option<f64> {
    let same = |record: &&Record| {
        (record.ranks, &record.case) == (own.ranks, &own.case)
            && record.attribute("shape") == own.attribute("shape")
    };
    let rivals = records.iter().filter(|record| record.is_of_rival()).filter(same);
    rivals.filter_map(|record| record.number("median_ns")).reduce(f64::min)
}

/// Draws the results into a directory.
pub fn plot(records: &[Record], directory: &Path) -> Result<()> {
    let of = |case: &str| records.iter().filter(|record| record.case == case).collect::<Vec<_>>();
    let by_ranks = |case: &str, title: &str, subtitle: &str| {
        let chart = Chart {
            title: title.into(),
            subtitle: subtitle.into(),
            x: Axis::new("ranks", Scale::Log2, Unit::Count),
            y: Axis::new("time", Scale::Log10, Unit::Ns),
            series: curves(&of(case), |record| {
                (record.ranks as f64, record.number("median_ns").unwrap_or(f64::NAN))
            }),
        };
        (!chart.series.is_empty()).then(|| chart.to_svg())
    };
    let after = "after each rank has written to all others; lower is better ([ARMCI03] figure 7a)";
    let mut plots: Vec<Plot> = vec![
        (
            "sync of an array".into(),
            "array-sync.svg".into(),
            by_ranks("sync", "Sync of an array", after),
        ),
        (
            "matrix product".into(),
            "array-matmul.svg".into(),
            by_ranks("matmul", "Matrix product", "lower is better"),
        ),
    ];
    for case in ["put", "get", "accumulate"] {
        for ranks in distinct(records.iter().map(|record| record.ranks)) {
            let chosen: Vec<&Record> =
                of(case).into_iter().filter(|record| record.ranks == ranks).collect();
            let point = |record: &Record| {
                (
                    record.number("bytes").unwrap_or(1.0),
                    record.number("bytes_per_s").unwrap_or(f64::NAN),
                )
            };
            let chart = Chart {
                title: format!("Patches: {case}, {ranks} ranks"),
                subtitle: "higher is better".into(),
                x: Axis::new("bytes", Scale::Log2, Unit::Bytes),
                y: Axis::new("bandwidth", Scale::Log10, Unit::BytesPerS),
                series: curves(&chosen, point),
            };
            let svg = (!chart.series.is_empty()).then(|| chart.to_svg());
            plots.push((
                format!("{case}, {ranks} ranks"),
                format!("array-{case}-{ranks}.svg"),
                svg,
            ));
        }
    }
    write_plots("farside bench array", directory, &plots)
}

/// One curve for each system and algorithm.
fn curves(records: &[&Record], point: impl Fn(&Record) -> (f64, f64)) -> Vec<Series> {
    let mut series: Vec<Series> = Vec::new();
    for record in records {
        let name = match record.text("algorithm") {
            Some(algorithm) => format!("{} {algorithm}", record.system),
            None => record.system.clone(),
        };
        match series.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push(point(record)),
            None => {
                let curve = Series::new(name, vec![point(record)]);
                series.push(if record.system == FARSIDE { curve } else { curve.dashed() });
            }
        }
    }
    series
}
