//! The results of `bench dsm`, as a table and as plots.

use std::path::Path;

use anyhow::Result;
use farside::dsm::{Copies, Diffs};

use super::{NEW, OLD};
use crate::plot::{Axis, BarChart, Chart, Group, Scale, Series, Unit};
use crate::record::Record;
use crate::report::{distinct, table, text_of, write_plots};

/// The results as a table, as in tables 2 and 3 of the paper, with the part that is saved against
/// the manager with the same start, and against the original start with the same barrier.
pub fn tables(records: &[Record]) -> String {
    let header = [
        "ranks",
        "nodes",
        "case",
        "barrier",
        "start",
        "copies",
        "diffs",
        "time",
        "barrier time",
        "bytes",
        "messages",
        "faults",
        "twins",
        "diffs made",
        "check-in again",
        "release again",
        "all again",
        "cold misses",
        "base",
        "speed-up",
        "open page",
        "time saved",
        "barrier saved",
        "bytes saved",
    ];
    let rows = records.iter().map(|record| {
        let ns = |name| record.number(name).map_or("-".to_owned(), |ns| Unit::Ns.format(ns));
        let whole =
            |name| record.number(name).map_or("-".to_owned(), |value| format!("{value:.0}"));
        let mean = |name| {
            let one = |value: f64| format!("{value:.1}").trim_end_matches(".0").to_owned();
            record.number(name).map_or("-".to_owned(), one)
        };
        let (central, original) = (
            other(records, record, "barrier", "central"),
            other(records, record, "start", "original"),
        );
        vec![
            record.ranks.to_string(),
            record.nodes.to_string(),
            record.case.clone(),
            text_of(record, "barrier"),
            text_of(record, "start"),
            text_of(record, "copies"),
            text_of(record, "diffs"),
            ns("median_ns"),
            ns("barrier_ns"),
            record.number("bytes").map_or("-".to_owned(), |bytes| Unit::Bytes.format(bytes)),
            whole("messages"),
            whole("faults"),
            whole("twins"),
            whole("diffs_made"),
            mean("check_in_retransmitted"),
            mean("release_retransmitted"),
            mean("retransmitted"),
            whole("cold_misses"),
            ns("base_ns"),
            record.number("speedup").map_or("-".to_owned(), |times| format!("{times:.2}")),
            ns("page_ns"),
            saved(record, central, "median_ns"),
            saved(record, central, "barrier_ns"),
            saved(record, original, "bytes"),
        ]
    });
    let all = table(7, &header, rows);
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
    let is = |record: &&Record, (copies, diffs): (Copies, Diffs)| {
        text_of(record, "copies") == copies.name() && text_of(record, "diffs") == diffs.name()
    };
    let news = records.iter().filter(|record| is(record, NEW));
    let rows: Vec<Vec<String>> = news
        .filter_map(|new| {
            let old = records.iter().filter(|record| is(record, OLD)).find(|old| {
                (old.ranks, old.nodes, &old.case) == (new.ranks, new.nodes, &new.case)
                    && ["barrier", "start", "fetch"]
                        .iter()
                        .all(|name| old.attribute(name) == new.attribute(name))
            })?;
            let pair = |name: &str, unit: Unit| {
                let of = |record: &Record| {
                    record.number(name).map_or("-".to_owned(), |value| match unit {
                        Unit::Count => format!("{value:.0}"),
                        unit => unit.format(value),
                    })
                };
                format!("{} → {}", of(old), of(new))
            };
            let times = old.number("median_ns")? / new.number("median_ns")?;
            Some(vec![
                new.ranks.to_string(),
                new.nodes.to_string(),
                new.case.clone(),
                text_of(new, "barrier"),
                text_of(new, "start"),
                pair("median_ns", Unit::Ns),
                format!("{times:.2}"),
                pair("barrier_ns", Unit::Ns),
                pair("bytes", Unit::Bytes),
                pair("messages", Unit::Count),
                pair("faults", Unit::Count),
                pair("twins", Unit::Count),
                pair("diffs_made", Unit::Count),
            ])
        })
        .collect();
    let header = [
        "ranks",
        "nodes",
        "case",
        "barrier",
        "start",
        "time",
        "times as fast",
        "barrier time",
        "bytes",
        "messages",
        "faults",
        "twins",
        "diffs made",
    ];
    (!rows.is_empty()).then(|| table(5, &header, rows.into_iter()))
}

/// The record that is the same but for one attribute; none if it is the same altogether.
fn other<'a>(records: &'a [Record], own: &Record, key: &str, value: &str) -> Option<&'a Record> {
    if own.attribute(key) == Some(value.into()) {
        return None;
    }
    let same =
        |name: &str, record: &Record| name == key || record.attribute(name) == own.attribute(name);
    records.iter().find(|record| {
        (record.ranks, record.nodes, &record.case) == (own.ranks, own.nodes, &own.case)
            && record.attribute(key) == Some(value.into())
            && ["barrier", "start", "fetch", "copies", "diffs"]
                .iter()
                .all(|name| same(name, record))
    })
}

fn saved(own: &Record, other: Option<&Record>, figure: &str) -> String {
    let share = other.and_then(|other| Some(1.0 - own.number(figure)? / other.number(figure)?));
    share.map_or("-".to_owned(), |share| format!("{:.1} %", 100.0 * share))
}

/// Draws the results into a directory: barrier time and run time as bars, as in figures 3 to 6, and
/// over the number of ranks, or of nodes, where there are several.
pub fn plot(records: &[Record], directory: &Path) -> Result<()> {
    let mut plots = Vec::new();
    let sizes = distinct(records.iter().map(|record| (record.ranks, record.nodes)));
    for &(ranks, nodes) in &sizes {
        for (name, title, figure) in FIGURES {
            let place =
                if is_far(records) { format!("{ranks}-{nodes}") } else { ranks.to_string() };
            let of = records
                .iter()
                .filter(|record| (record.ranks, record.nodes) == (ranks, nodes))
                .collect();
            plots.push((
                format!("{title}, {ranks} ranks on {nodes} nodes"),
                format!("dsm-{name}-{place}.svg"),
                bars(of, title, figure),
            ));
        }
    }
    for case in distinct(records.iter().map(|record| record.case.clone()))
        .into_iter()
        .filter(|_| sizes.len() > 1)
    {
        for (name, title, figure) in FIGURES {
            let title = format!("{case}: {title}");
            plots.push((
                title.clone(),
                format!("dsm-{case}-{name}.svg"),
                curve(records, &case, &title, figure),
            ));
        }
    }
    write_plots("farside bench dsm", directory, &plots)
}

/// Whether real ranks were divided into nodes, so that their number was chosen.
fn is_far(records: &[Record]) -> bool {
    records.iter().any(|record| record.fabric == "nic")
}

const FIGURES: [(&str, &str, &str); 2] =
    [("barrier", "average barrier time", "barrier_ns"), ("time", "run time", "median_ns")];

fn name_of(record: &Record) -> String {
    ["barrier", "start", "copies", "diffs"].map(|name| text_of(record, name)).join(", ")
}

fn bars(records: Vec<&Record>, title: &str, figure: &str) -> Option<String> {
    let (ranks, nodes) = records.first().map(|record| (record.ranks, record.nodes))?;
    let mut groups: Vec<Group> = Vec::new();
    for record in records {
        let bar = (name_of(record), record.number(figure)?);
        match groups.iter_mut().find(|group| group.label == record.case) {
            Some(group) => group.bars.push(bar),
            None => groups.push(Group { label: record.case.clone(), bars: vec![bar] }),
        }
    }
    let chart = BarChart {
        title: format!("Programs on shared pages: {title}"),
        subtitle: format!(
            "{ranks} ranks on {nodes} nodes; barrier, start, copies and diffs; lower is better \
             ([BST97] figures 3 to 6)"
        ),
        y: Axis::new(title, Scale::Log10, Unit::Ns),
        groups,
    };
    (!chart.groups.is_empty()).then(|| chart.to_svg())
}

/// Over the nodes if the ranks are always as many; otherwise over the ranks.
fn curve(records: &[Record], case: &str, title: &str, figure: &str) -> Option<String> {
    let ranks = distinct(records.iter().map(|record| record.ranks)).len();
    let sizes = distinct(records.iter().map(|record| (record.ranks, record.nodes))).len();
    let by_nodes = ranks == 1;
    let mut series: Vec<Series> = Vec::new();
    for record in records.iter().filter(|record| record.case == case) {
        let name = match !by_nodes && sizes > ranks {
            true => format!("{}, {} nodes", name_of(record), record.nodes),
            false => name_of(record),
        };
        let x = if by_nodes { record.nodes } else { record.ranks };
        let point = (x as f64, record.number(figure)?);
        match series.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push(point),
            None => series.push(Series::new(name, vec![point])),
        }
    }
    let chart = Chart {
        title: title.into(),
        subtitle: "barrier, start, copies and diffs; lower is better".into(),
        x: Axis::new(if by_nodes { "nodes" } else { "ranks" }, Scale::Log2, Unit::Count),
        y: Axis::new("time", Scale::Log10, Unit::Ns),
        series,
    };
    (!chart.series.is_empty()).then(|| chart.to_svg())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        let record = Record::new("dsm", "sor", "farside", "nic", 2, 2)
            .with("barrier", "tree")
            .with("start", "zero");
        let table = tables(&[record.figure("median_ns", 5.0).figure("bytes", f64::from(3 << 19))]);
        assert!(table.contains("1.5 MiB") && !table.contains("KB"), "{table}");
    }

    #[test]
    fn a_table_says_what_is_timed_and_what_the_base_is() {
        let record = || Record::new("dsm", "sor", "farside", "shm", 1, 1).figure("median_ns", 5.0);
        let real = tables(&[record().figure("messages", 0.0).figure("base_ns", 4.0)]);
        assert!(real.contains("the iterations alone") && real.contains("in turns"), "{real}");
        let simulated = tables(&[record().figure("messages", 3.0)]);
        assert!(simulated.contains("the whole program"), "{simulated}");
        let interval = tables(&[record().figure("page_ns", 3.0)]);
        assert!(!interval.contains("time:"), "{interval}");
    }
}
