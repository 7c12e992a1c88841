//! The results of `bench ops`, as tables and as plots.

use super::{SIZED, Target, WORDS};
use crate::driver::FARSIDE;
use crate::plot::{Axis, BarChart, Chart, Scale, Unit};
use crate::record::Record;
use crate::report::{Plot, bars, curves, of_case, time};
use crate::table::Pivot;

/// What an operation takes, and beside it how many times faster farside is than the best rival.
pub(super) fn table(records: &[Record]) -> String {
    // The first server is the one that is compared.
    let own = records.iter().find(|record| record.system == FARSIDE).map(who).unwrap_or_default();
    let rows = &["ranks", "case", "bytes", "target"];
    let medians = Pivot { rows, column: &who, figure: "median_ns", ratio_for: Some(&own) };
    let tails = Pivot { figure: "p99_ns", ratio_for: None, ..medians };
    let text = medians.table(records);
    if records.iter().all(|record| record.number(tails.figure).is_none()) {
        return text;
    }
    let tails = tails.table(records);
    format!("{text}\n\n99th percentile of operations that were timed one by one:\n{tails}")
}

/// A system, and who serves there if that was chosen.
fn who(record: &Record) -> String {
    match record.text("server") {
        Some(server) => format!("{} {server}", record.system),
        None => record.system.clone(),
    }
}

/// One chart for each operation with sizes, one for the words, one for the barrier.
pub(super) fn plots(records: &[Record]) -> Vec<Plot> {
    let is =
        |record: &&Record, target: Target| record.text("target").as_deref() == Some(target.name());
    let by_size = |case: &str| {
        let of = of_case(records, case).into_iter().filter(|record| is(record, Target::Idle));
        let chart = Chart {
            title: format!("{case}: time of one operation"),
            subtitle: "complete at the target each time; lower is better".into(),
            x: Axis::new("size", Scale::Log2, Unit::Bytes),
            y: time("median time"),
            series: curves(of, who, ("bytes", "median_ns")),
        };
        Plot::of_curves(&format!("{case} by size"), format!("ops-{case}.svg"), &chart)
    };
    let words = |target: Target| {
        let name = target.name();
        let is_word = |record: &&Record| WORDS.contains(&record.case.as_str());
        let of = records.iter().filter(is_word).filter(|record| is(record, target));
        let chart = BarChart {
            title: format!("Operations on one word, target {name}"),
            subtitle: "8 bytes; lower is better".into(),
            y: time("median time"),
            groups: bars(of, |record| record.case.clone(), who, "median_ns"),
        };
        Plot::of_bars(&format!("atomics, target {name}"), format!("ops-atomics-{name}.svg"), &chart)
    };
    let ranks = |record: &Record| format!("{} ranks", record.ranks);
    let barrier = BarChart {
        title: "Barrier".into(),
        subtitle: "the limit is a futex round trip of two threads; lower is better".into(),
        y: time("median time"),
        groups: bars(of_case(records, "barrier"), ranks, who, "median_ns"),
    };
    let barrier = Plot::of_bars("barrier by ranks", "ops-barrier.svg", &barrier);
    let words = [Target::Idle, Target::Computing].into_iter().filter_map(words);
    SIZED.into_iter().filter_map(by_size).chain(words).chain(barrier).collect()
}
