//! The results of `bench overlap`, as a table and as plots.

use super::{BYTES, LATENCY, RECEIVER, SENDER};
use crate::driver::FARSIDE;
use crate::plot::{Axis, Chart, Scale, Unit};
use crate::record::Record;
use crate::report::{Plot, curves, of_case, text_of, time};
use crate::table::{Columns, alike, ratio, times};

/// The time, what was hidden, and how many times faster than the best rival it is.
pub(super) fn table(records: &[Record]) -> String {
    let keys = ["ranks", "case", "operation", "bytes", "operations", "target"];
    let rivals = |own: &Record| alike(records, own, &keys);
    let percent = |percent: f64| format!("{percent:.0} %");
    let slowdown = |record: &Record| {
        Some(format!("{:.2}", record.number("median_ns")? / record.number("alone_ns")?))
    };
    Columns::of(&["ranks", "case", "system", "design", "operation"])
        .figures(&[("bytes", "bytes")])
        .texts(&["operations", "target", "cores"])
        .figures(&[("time", "median_ns")])
        .number("overlap", "overlap_pct", percent)
        .number("of transfer", "transfer_pct", percent)
        .cell("slowdown", slowdown)
        .cell("ratio", |own| ratio(own, rivals(own), "median_ns").map(times))
        .table(9, records)
}

/// Figures 3 to 6 of \[PASSIVE08\].
pub(super) fn plots(records: &[Record]) -> Vec<Plot> {
    let mut plots = Vec::new();
    let mut add = |caption: &str, name: &str, chart: Chart| {
        plots.extend(Plot::of_curves(caption, format!("overlap-{name}.svg"), &chart));
    };
    let bytes = || Axis::new("bytes", Scale::Log2, Unit::Bytes);
    let count = |label: &str| Axis::new(label, Scale::Log2, Unit::Count);
    for (operation, letter) in [("put", "a"), ("get", "b")] {
        let of = |case: &str, is: &dyn Fn(&Record) -> bool| -> Vec<&Record> {
            let of = of_case(records, case).into_iter();
            of.filter(|record| text_of(record, "operation") == operation && is(record)).collect()
        };
        let idle = of(LATENCY, &|record| text_of(record, "target") == "idle");
        let chart = Chart {
            title: format!("Lock, {operation}, unlock"),
            subtitle: format!("([PASSIVE08] figure 3{letter}); lower is better"),
            x: bytes(),
            y: time("time of an epoch"),
            series: curves(idle.iter().copied(), namer(&idle), ("bytes", "median_ns")),
        };
        add(&format!("latency of {operation}"), &format!("latency-{operation}"), chart);
        let single = of(SENDER, &|record| record.number("operations") == Some(1.0));
        let many = of(SENDER, &|record| record.number("operations") != Some(1.0));
        let hidden = |subtitle: String, x: Axis, of: &[&Record]| Chart {
            title: format!("Computation hidden behind {operation}"),
            subtitle,
            y: Axis::new("overlap, %", Scale::Linear, Unit::None),
            series: curves(of.iter().copied(), namer(of), (&x.label, "overlap_pct")),
            x,
        };
        let subtitle = format!("by size ([PASSIVE08] figure 4{letter}); higher is better");
        let chart = hidden(subtitle, bytes(), &single);
        add(&format!("overlap of {operation}"), &format!("sender-{operation}"), chart);
        let kib = BYTES >> 10;
        let subtitle =
            format!("by operations of {kib} KiB in an epoch ([PASSIVE08] figure 5{letter})");
        let chart = hidden(subtitle, count("operations"), &many);
        add(&format!("overlap of several {operation}s"), &format!("operations-{operation}"), chart);
    }
    let receiver = of_case(records, RECEIVER);
    let subtitle = "while all others lock, get and unlock ([PASSIVE08] figure 6); lower is better";
    let chart = Chart {
        title: "A target that computes".into(),
        subtitle: subtitle.into(),
        x: count("ranks"),
        y: Axis::new("time of the target's computation", Scale::Linear, Unit::Ns),
        series: curves(receiver.iter().copied(), namer(&receiver), ("ranks", "median_ns")),
    };
    add("the receiver's side", "receiver", chart);
    plots
}

/// The name of the curve of a record: its design or system, and its processors if those differ.
fn namer(records: &[&Record]) -> impl Fn(&Record) -> String + use<> {
    let differ = records.iter().any(|record| text_of(record, "cores") == "apart");
    move |record: &Record| match (record.system == FARSIDE, differ) {
        (true, true) => format!("{}, {}", text_of(record, "design"), text_of(record, "cores")),
        (true, false) => text_of(record, "design"),
        (false, _) => record.system.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        let record = Record::new("overlap", LATENCY, FARSIDE, "shm", 2, 1).with("bytes", 256 << 10);
        let table = table(&[record.figure("median_ns", 5.0)]);
        assert!(table.contains("256 KiB") && !table.contains("262144"), "{table}");
    }
}
