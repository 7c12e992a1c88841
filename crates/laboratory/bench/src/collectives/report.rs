//! The results of `bench collectives`, as a table and as plots.

use std::path::Path;

use anyhow::Result;

use super::{CASES, PIPELINE};
use crate::driver::FARSIDE;
use crate::plot::{Axis, Chart, Scale, Series, Unit};
use crate::record::{Pivot, Record, table};
use crate::report::{Plot, distinct, fold, write_plots};

/// The results as a table: the time of one, and how many times faster farside is than the best
/// rival.
pub fn tables(records: &[Record]) -> String {
    let pivot = Pivot {
        row_keys: &["ranks", "case", "bytes"],
        column_key: "system",
        figure: "median_ns",
        ratio_for: Some(FARSIDE),
    };
    fold(&table(records, &pivot), pivot.row_keys.len())
}

/// Draws the results into a directory: one chart for each collective and number of ranks.
pub fn plot(records: &[Record], directory: &Path) -> Result<()> {
    let ranks = distinct(records.iter().map(|record| record.ranks));
    let by_size = |case: &str, ranks: usize| -> Plot {
        let chart = Chart {
            title: format!("{case}, {ranks} ranks"),
            subtitle: "lower is better".into(),
            x: Axis::new("what a rank has in the end", Scale::Log2, Unit::Bytes),
            y: Axis::new("time", Scale::Log10, Unit::Ns),
            series: curves(records, |record| {
                let is_meant = record.case == case && record.ranks == ranks;
                is_meant.then(|| record.number("bytes")).flatten()
            }),
        };
        let svg = (!chart.series.is_empty()).then(|| chart.to_svg());
        (format!("{case}, {ranks} ranks"), format!("collectives-{case}-{ranks}.svg"), svg)
    };
    let sized = CASES.into_iter().filter(|&case| case != PIPELINE);
    let mut plots: Vec<Plot> = sized
        .flat_map(|case| ranks.iter().map(move |&ranks| (case, ranks)))
        .map(|(case, ranks)| by_size(case, ranks))
        .collect();
    let chart = Chart {
        title: "A wavefront through all ranks".into(),
        subtitle: "one value and one signal at a time; lower is better".into(),
        x: Axis::new("ranks", Scale::Log2, Unit::Count),
        y: Axis::new("time of a sweep", Scale::Log10, Unit::Ns),
        series: curves(records, |record| (record.case == PIPELINE).then_some(record.ranks as f64)),
    };
    let svg = (!chart.series.is_empty()).then(|| chart.to_svg());
    plots.push((PIPELINE.into(), "collectives-pipeline.svg".into(), svg));
    write_plots("farside bench collectives", directory, &plots)
}

/// One curve for each system, over what `x` says of a record.
fn curves(records: &[Record], x: impl Fn(&Record) -> Option<f64>) -> Vec<Series> {
    let systems = distinct(records.iter().map(|record| record.system.clone()));
    let curve = |system: String| {
        let own = records.iter().filter(|record| record.system == system);
        let points = own.filter_map(|own| Some((x(own)?, own.number("median_ns")?))).collect();
        let curve = Series::new(system.clone(), points);
        if system == FARSIDE { curve } else { curve.dashed() }
    };
    systems.into_iter().map(curve).filter(|curve| !curve.points.is_empty()).collect()
}
