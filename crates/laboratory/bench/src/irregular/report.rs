//! The results of `bench irregular`, as a table and as a plot.

use std::path::Path;

use anyhow::Result;

use super::CASES;
use crate::plot::{Axis, BarChart, Group, Scale, Unit};
use crate::record::{Pivot, Record, table};
use crate::report::{distinct, fold, text_of, write_plots};

/// The results as a table: operations a second, and how many times as many the aggregator does as
/// the best rival.
pub fn tables(records: &[Record]) -> String {
    let who: Vec<Record> =
        records.iter().map(|record| record.clone().with("who", who(record))).collect();
    let pivot = Pivot {
        row_keys: &["ranks", "case"],
        column_key: "who",
        figure: "per_s",
        ratio_for: Some("farside aggregated"),
    };
    fold(&table(&who, &pivot), pivot.row_keys.len())
}

/// A system, and the way it goes.
fn who(record: &Record) -> String {
    format!("{} {}", record.system, text_of(record, "way"))
}

/// Draws the results into a directory, for each number of ranks.
pub fn plot(records: &[Record], directory: &Path) -> Result<()> {
    let ranks = distinct(records.iter().map(|record| record.ranks));
    let plots = ranks.into_iter().map(|ranks| {
        let group = |case: &str| {
            let mut bars = Vec::new();
            for record in records.iter().filter(|one| one.case == case && one.ranks == ranks) {
                bars.extend(record.number("per_s").map(|rate| (who(record), rate)));
            }
            Group { label: case.to_owned(), bars }
        };
        let groups = CASES.map(group).into_iter().filter(|group| !group.bars.is_empty());
        let chart = BarChart {
            title: format!("Small operations of {ranks} ranks"),
            subtitle: "higher is better".into(),
            y: Axis::new("operations a second", Scale::Log10, Unit::PerS),
            groups: groups.collect(),
        };
        (format!("{ranks} ranks"), format!("irregular-{ranks}.svg"), Some(chart.to_svg()))
    });
    write_plots("farside bench irregular", directory, &plots.collect::<Vec<_>>())
}
