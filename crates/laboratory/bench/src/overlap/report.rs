//! The results of `bench overlap`, as a table and as plots.

use std::path::Path;

use anyhow::Result;

use super::{BYTES, LATENCY, RECEIVER, SENDER};
use crate::driver::FARSIDE;
use crate::plot::{Axis, Chart, Scale, Series, Unit};
use crate::record::{Record, times};
use crate::report::{table, text_of, write_plots};

/// The results as a table: the time, what was hidden, and how many times faster than the best rival
/// it is.
pub fn tables(records: &[Record]) -> String {
    let header = [
        "ranks",
        "case",
        "system",
        "design",
        "operation",
        "bytes",
        "operations",
        "target",
        "cores",
        "time",
        "overlap",
        "of transfer",
        "slowdown",
        "ratio",
    ];
    let rows = records.iter().map(|record| {
        let ns = record.number("median_ns").unwrap_or(f64::NAN);
        let ratio = (record.system == FARSIDE).then(|| best_rival(records, record)).flatten();
        let slowdown = record.number("alone_ns").map(|alone_ns| format!("{:.2}", ns / alone_ns));
        vec![
            record.ranks.to_string(),
            record.case.clone(),
            record.system.clone(),
            text_of(record, "design"),
            text_of(record, "operation"),
            record.number("bytes").map_or("-".into(), |bytes| Unit::Bytes.format(bytes)),
            text_of(record, "operations"),
            text_of(record, "target"),
            text_of(record, "cores"),
            Unit::Ns.format(ns),
            percent(record, "overlap_pct"),
            percent(record, "transfer_pct"),
            slowdown.unwrap_or("-".into()),
            ratio.map_or("-".into(), |best| times(best / ns)),
        ]
    });
    table(9, &header, rows)
}

fn percent(record: &Record, figure: &str) -> String {
    record.number(figure).map_or("-".into(), |percent| format!("{percent:.0} %"))
}

fn best_rival(records: &[Record], own: &Record) -> Option<f64> {
    let keys = ["operation", "bytes", "operations", "target"];
    let same = |record: &&Record| {
        (record.ranks, &record.case) == (own.ranks, &own.case)
            && keys.iter().all(|key| record.attribute(key) == own.attribute(key))
    };
    let rivals = records.iter().filter(|record| record.is_of_rival()).filter(same);
    rivals.filter_map(|record| record.number("median_ns")).reduce(f64::min)
}

/// Draws the results into a directory: figures 3 to 6 of \[PASSIVE08\].
pub fn plot(records: &[Record], directory: &Path) -> Result<()> {
    let mut plots = Vec::new();
    for (operation, letter) in [("put", "a"), ("get", "b")] {
        let of = |case: &str| -> Vec<&Record> {
            let is =
                |record: &&Record| record.case == case && text_of(record, "operation") == operation;
            records.iter().filter(is).collect()
        };
        let (latency, sender) = (of(LATENCY), of(SENDER));
        let idle: Vec<&Record> =
            latency.into_iter().filter(|record| text_of(record, "target") == "idle").collect();
        let figure = format!("([PASSIVE08] figure 3{letter}); lower is better");
        let time = Axis::new("time of an epoch", Scale::Log10, Unit::Ns);
        let svg = chart(
            &format!("Lock, {operation}, unlock"),
            &figure,
            ("bytes", Unit::Bytes),
            time,
            &idle,
            "median_ns",
        );
        plots.push((
            format!("latency of {operation}"),
            format!("overlap-latency-{operation}.svg"),
            svg,
        ));
        let (single, many): (Vec<&Record>, Vec<&Record>) =
            sender.into_iter().partition(|record| record.number("operations") == Some(1.0));
        let hidden = || Axis::new("overlap, %", Scale::Linear, Unit::None);
        let figure = format!("by size ([PASSIVE08] figure 4{letter}); higher is better");
        let title = format!("Computation hidden behind {operation}");
        let svg = chart(&title, &figure, ("bytes", Unit::Bytes), hidden(), &single, "overlap_pct");
        plots.push((
            format!("overlap of {operation}"),
            format!("overlap-sender-{operation}.svg"),
            svg,
        ));
        let figure = format!(
            "by operations of {} KiB in an epoch ([PASSIVE08] figure 5{letter})",
            BYTES >> 10
        );
        let svg =
            chart(&title, &figure, ("operations", Unit::Count), hidden(), &many, "overlap_pct");
        plots.push((
            format!("overlap of several {operation}s"),
            format!("overlap-operations-{operation}.svg"),
            svg,
        ));
    }
    let receiver: Vec<&Record> = records.iter().filter(|record| record.case == RECEIVER).collect();
    let time = Axis::new("time of the target's computation", Scale::Linear, Unit::Ns);
    let figure = "while all others lock, get and unlock ([PASSIVE08] figure 6); lower is better";
    let svg = chart(
        "A target that computes",
        figure,
        ("ranks", Unit::Count),
        time,
        &receiver,
        "median_ns",
    );
    plots.push(("the receiver's side".into(), "overlap-receiver.svg".into(), svg));
    write_plots("farside bench overlap", directory, &plots)
}

/// One curve for each system and design.
fn chart(
    title: &str,
    subtitle: &str,
    (key, unit): (&str, Unit),
    y: Axis,
    records: &[&Record],
    figure: &str,
) -> Option<String> {
    let mut series: Vec<Series> = Vec::new();
    let is_apart = |record: &&Record| text_of(record, "cores") == "apart";
    for record in records {
        let is_own = record.system == FARSIDE;
        let name = match is_own {
            true if records.iter().any(is_apart) => {
                format!("{}, {}", text_of(record, "design"), text_of(record, "cores"))
            }
            true => text_of(record, "design"),
            false => record.system.clone(),
        };
        let (Some(x), Some(value)) = (record.number(key), record.number(figure)) else { continue };
        match series.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push((x, value)),
            None => {
                let curve = Series::new(name, vec![(x, value)]);
                series.push(if is_own { curve } else { curve.dashed() });
            }
        }
    }
    let chart = Chart {
        title: title.into(),
        subtitle: subtitle.into(),
        x: Axis::new(key, Scale::Log2, unit),
        y,
        series,
    };
    (!chart.series.is_empty()).then(|| chart.to_svg())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        let record = Record::new("overlap", LATENCY, FARSIDE, "shm", 2, 1).with("bytes", 256 << 10);
        let table = tables(&[record.figure("median_ns", 5.0)]);
        assert!(table.contains("256 KiB") && !table.contains("262144"), "{table}");
    }
}
