//! The results of `bench dht`, as a table and as plots.

use std::path::Path;

use anyhow::Result;

use super::CASES;
use crate::driver::FARSIDE;
use crate::plot::{Axis, Chart, Scale, Series, Unit};
use crate::record::{Record, times};
use crate::report::{Plot, distinct, table, text_of, write_plots};

/// The results as a table, with how many times more each does than the best rival, and than the
/// same rival that waits for each answer.
pub fn tables(records: &[Record]) -> String {
    let header = [
        "ranks",
        "case",
        "writers",
        "system",
        "lock",
        "time",
        "throughput",
        "total",
        "against pipelined",
        "single",
    ];
    let rows = records.iter().map(|record| {
        let figure = |name: &str| {
            record.number(name).map_or("-".into(), |value| Unit::of(name).format(value))
        };
        let ratio = |lock: &str| match (record.system == FARSIDE)
            .then(|| best_rival(records, record, lock))
            .flatten()
        {
            Some(best) => times(record.number("per_s").unwrap_or(0.0) / best),
            None => "-".into(),
        };
        let writers = record.text("writers_pct").map_or("-".into(), |pct| format!("{pct} %"));
        vec![
            record.ranks.to_string(),
            record.case.clone(),
            writers,
            record.system.clone(),
            text_of(record, "lock"),
            figure("median_ns"),
            figure("per_s"),
            figure("total_ns"),
            ratio("pipelined"),
            ratio("single"),
        ]
    });
    table(5, &header, rows)
}

fn best_rival(records: &[Record], own: &Record, lock: &str) -> Option<f64> {
    let same = |record: &&Record| {
        (record.ranks, &record.case) == (own.ranks, &own.case) && text_of(record, "lock") == lock
    };
    let rivals = records.iter().filter(|record| record.is_of_rival()).filter(same);
    rivals.filter_map(|record| record.number("per_s")).reduce(f64::max)
}

/// Draws the results into a directory: the time of all operations on one volume as in figure 6 of
/// \[RMALOCK16\], and the throughput of the mixes.
pub fn plot(records: &[Record], directory: &Path) -> Result<()> {
    let mut plots: Vec<Plot> = Vec::new();
    for case in CASES {
        let of: Vec<&Record> = records.iter().filter(|record| record.case == case).collect();
        for bits in
            distinct(of.iter().map(|record| record.number("writers_pct").unwrap_or(-1.0).to_bits()))
        {
            let pct = f64::from_bits(bits);
            let chosen: Vec<&Record> = of
                .iter()
                .copied()
                .filter(|record| record.number("writers_pct").unwrap_or(-1.0) == pct)
                .collect();
            let (title, file) = match case {
                "volume" => {
                    (format!("One volume, {pct} % inserts"), format!("dht-{case}-{pct}.svg"))
                }
                "integers" => (
                    format!("One volume of integers, {pct} % inserts"),
                    format!("dht-{case}-{pct}.svg"),
                ),
                _ => (format!("Hash table: {case}"), format!("dht-{case}.svg")),
            };
            plots.push((title.clone(), file, curves(case, title, &chosen)));
        }
    }
    write_plots("farside bench dht", directory, &plots)
}

fn curves(case: &str, title: String, records: &[&Record]) -> Option<String> {
    let (figure, y, subtitle) = match case {
        "volume" | "integers" => (
            "total_ns",
            Axis::new("time of all operations", Scale::Log10, Unit::Ns),
            "lower is better ([RMALOCK16] figure 6)",
        ),
        _ => (
            "per_s",
            Axis::new("operations of all ranks", Scale::Log10, Unit::PerS),
            "higher is better",
        ),
    };
    let mut series: Vec<Series> = Vec::new();
    for record in records {
        let Some(value) = record.number(figure) else { continue };
        let lock = text_of(record, "lock");
        let name =
            if record.system == FARSIDE { lock } else { format!("{} {lock}", record.system) };
        match series.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push((record.ranks as f64, value)),
            None => {
                let curve = Series::new(name, vec![(record.ranks as f64, value)]);
                series.push(if record.system == FARSIDE { curve } else { curve.dashed() });
            }
        }
    }
    let x = Axis::new("ranks", Scale::Log2, Unit::Count);
    let chart = Chart { title, subtitle: subtitle.into(), x, y, series };
    (!chart.series.is_empty()).then(|| chart.to_svg())
}
