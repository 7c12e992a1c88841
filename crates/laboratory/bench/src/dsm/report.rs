//! The results of `bench dsm`, as a table and as plots.

use farside::dsm::{Copies, Diffs};

use super::{NEW, OLD};
use crate::plot::{Axis, BarChart, Chart, Scale, Unit};
use crate::record::Record;
use crate::report::{Plot, all_ranks, bars, curves, distinct, of_case, text_of, time};
use crate::table::{Columns, alike};

/// As in tables 2 and 3 of the paper, with the part that is saved against the manager with the same
/// start, and against the original start with the same barrier.
pub(super) fn table(records: &[Record]) -> String {
    let saved = |own: &Record, (key, value): (&str, &str), figure: &str| {
        let keys = ["ranks", "nodes", "case", "barrier", "start", "fetch", "copies", "diffs"];
        // There is none if it is the same altogether.
        let is_own = own.attribute(key) == Some(value.into());
        let keys: Vec<&str> = keys.into_iter().filter(|known| *known != key || is_own).collect();
        let mut others = alike(records, own, &keys).into_iter().filter(|_| !is_own);
        let other = others.find(|other| other.attribute(key) == Some(value.into()))?;
        let share = 1.0 - own.number(figure)? / other.number(figure)?;
        Some(format!("{:.1} %", 100.0 * share))
    };
    const CENTRAL: (&str, &str) = ("barrier", "central");
    let whole = |value: f64| format!("{value:.0}");
    let mean = |value: f64| format!("{value:.1}").trim_end_matches(".0").to_owned();
    let all = Columns::of(&["ranks", "nodes", "case", "barrier", "start", "copies", "diffs"])
        .figures(&[("time", "median_ns"), ("barrier time", "barrier_ns"), ("bytes", "bytes")])
        .number("messages", "messages", whole)
        .number("faults", "faults", whole)
        .number("twins", "twins", whole)
        .number("diffs made", "diffs_made", whole)
        .number("check-in again", "check_in_retransmitted", mean)
        .number("release again", "release_retransmitted", mean)
        .number("all again", "retransmitted", mean)
        .number("cold misses", "cold_misses", whole)
        .figures(&[("base", "base_ns")])
        .number("speed-up", "speedup", |times| format!("{times:.2}"))
        .figures(&[("open page", "page_ns")])
        .cell("time saved", |own| saved(own, CENTRAL, "median_ns"))
        .cell("barrier saved", |own| saved(own, CENTRAL, "barrier_ns"))
        .cell("bytes saved", |own| saved(own, ("start", "original"), "bytes"))
        .table(7, records);
    let both = both(records).map_or(String::new(), |both| format!("\n{both}"));
    format!("{all}{both}{}", note(records))
}

/// What is timed, and against what.
fn note(records: &[Record]) -> String {
    let has = |name: &str| records.iter().any(|record| record.number(name).is_some());
    if has("base_ns") {
        return "time and base: the iterations alone; memory was allocated and touched before the \
                clock started. base: the same method by one rank in its own memory, in turns with \
                the program (medians of the rounds; speed-up of the pairs).\n"
            .into();
    }
    let is_program = records.iter().any(|record| record.number("messages").is_some());
    match is_program {
        true => "time: the whole program, with allocation and first values, as in [BST97]; \
                 nothing is compared with one rank.\n"
            .into(),
        false => String::new(),
    }
}

/// A table with the copies and diffs of the paper and the usual ones in one row, where there are
/// both: what a figure was → what it is.
fn both(records: &[Record]) -> Option<String> {
    let is = |record: &Record, (copies, diffs): (Copies, Diffs)| {
        text_of(record, "copies") == copies.name() && text_of(record, "diffs") == diffs.name()
    };
    let before = |new: &Record| {
        let keys = ["ranks", "nodes", "case", "barrier", "start", "fetch"];
        alike(records, new, &keys).into_iter().find(|record| is(record, OLD))
    };
    let pair = |new: &Record, name: &str| {
        let of = |record: &Record| match (record.number(name), Unit::of(name)) {
            (None, _) => "-".to_owned(),
            (Some(value), unit @ (Unit::Ns | Unit::Bytes)) => unit.format(value),
            (Some(value), _) => format!("{value:.0}"),
        };
        Some(format!("{} → {}", of(before(new)?), of(new)))
    };
    let times = |new: &Record| {
        let times = before(new)?.number("median_ns")? / new.number("median_ns")?;
        Some(format!("{times:.2}"))
    };
    let news: Vec<&Record> =
        records.iter().filter(|new| is(new, NEW) && times(new).is_some()).collect();
    let mut columns = Columns::of(&["ranks", "nodes", "case", "barrier", "start"])
        .cell("time", |new| pair(new, "median_ns"))
        .cell("times as fast", times);
    for (heading, name) in [
        ("barrier time", "barrier_ns"),
        ("bytes", "bytes"),
        ("messages", "messages"),
        ("faults", "faults"),
        ("twins", "twins"),
        ("diffs made", "diffs_made"),
    ] {
        columns = columns.cell(heading, move |new| pair(new, name));
    }
    (!news.is_empty()).then(|| columns.table(5, news.iter().copied()))
}

/// Barrier time and run time as bars, as in figures 3 to 6, and over the number of ranks, or of
/// nodes, where there are several.
pub(super) fn plots(records: &[Record]) -> Vec<Plot> {
    let mut plots = Vec::new();
    let sizes = distinct(records.iter().map(|record| (record.ranks, record.nodes)));
    // Where real ranks were divided into nodes, their number was chosen.
    let is_far = records.iter().any(|record| record.fabric == "nic");
    for &(ranks, nodes) in &sizes {
        for (name, title, figure) in FIGURES {
            let place = if is_far { format!("{ranks}-{nodes}") } else { ranks.to_string() };
            let of = records.iter().filter(|record| (record.ranks, record.nodes) == (ranks, nodes));
            let chart = BarChart {
                title: format!("Programs on shared pages: {title}"),
                subtitle: format!(
                    "{ranks} ranks on {nodes} nodes; barrier, start, copies and diffs; lower is \
                     better ([BST97] figures 3 to 6)"
                ),
                y: time(title),
                groups: bars(of, |record| record.case.clone(), name_of, figure),
            };
            let caption = format!("{title}, {ranks} ranks on {nodes} nodes");
            plots.extend(Plot::of_bars(&caption, format!("dsm-{name}-{place}.svg"), &chart));
        }
    }
    if sizes.len() == 1 {
        return plots;
    }
    // Over the nodes if the ranks are always as many; otherwise over the ranks.
    let numbers = all_ranks(records).len();
    let x = if numbers == 1 { "nodes" } else { "ranks" };
    let name = |record: &Record| match numbers > 1 && sizes.len() > numbers {
        true => format!("{}, {} nodes", name_of(record), record.nodes),
        false => name_of(record),
    };
    for case in distinct(records.iter().map(|record| record.case.clone())) {
        for (short, title, figure) in FIGURES {
            let title = format!("{case}: {title}");
            let chart = Chart {
                title: title.clone(),
                subtitle: "barrier, start, copies and diffs; lower is better".into(),
                x: Axis::new(x, Scale::Log2, Unit::Count),
                y: time("time"),
                series: curves(of_case(records, &case), name, (x, figure)),
            };
            plots.extend(Plot::of_curves(&title, format!("dsm-{case}-{short}.svg"), &chart));
        }
    }
    plots
}

const FIGURES: [(&str, &str, &str); 2] =
    [("barrier", "average barrier time", "barrier_ns"), ("time", "run time", "median_ns")];

fn name_of(record: &Record) -> String {
    ["barrier", "start", "copies", "diffs"].map(|name| text_of(record, name)).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        let record = Record::new("dsm", "sor", "farside", "nic", 2, 2)
            .with("barrier", "tree")
            .with("start", "zero");
        let table = table(&[record.figure("median_ns", 5.0).figure("bytes", f64::from(3 << 19))]);
        assert!(table.contains("1.5 MiB") && !table.contains("KB"), "{table}");
    }

    #[test]
    fn a_table_says_what_is_timed_and_what_the_base_is() {
        let record = || Record::new("dsm", "sor", "farside", "shm", 1, 1).figure("median_ns", 5.0);
        let real = table(&[record().figure("messages", 0.0).figure("base_ns", 4.0)]);
        assert!(real.contains("the iterations alone") && real.contains("in turns"), "{real}");
        let simulated = table(&[record().figure("messages", 3.0)]);
        assert!(simulated.contains("the whole program"), "{simulated}");
        let interval = table(&[record().figure("page_ns", 3.0)]);
        assert!(!interval.contains("time:"), "{interval}");
    }
}
