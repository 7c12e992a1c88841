//! The results of `bench shmem`, as a table and as plots.

use std::path::Path;

use anyhow::Result;

use super::{CASES, PROGRAMS, PUT_SIGNAL};
use crate::driver::FARSIDE;
use crate::plot::{Axis, Chart, Scale, Series, Unit};
use crate::record::{Record, times};
use crate::report::{Plot, distinct, machine, table, write_plots};
use crate::rivals::Rival;

/// The results as a table: the time of each case in each system, how many times as long the rival
/// takes as farside, and within which bounds that was in all rounds.
pub fn tables(records: &[Record]) -> String {
    let rival_name = Rival::OpenShmem.name();
    let has_rival = records.iter().any(|record| record.system != FARSIDE);
    let mut header = vec!["ranks", "case", FARSIDE];
    if has_rival {
        header.extend([rival_name, "ratio", "from - to"]);
    }
    let rows = rows(records).into_iter().map(|Row { first, own, rival }| {
        let time = |record: Option<&Record>| {
            record
                .and_then(|record| record.number("median_ns"))
                .map_or("-".into(), |ns| Unit::Ns.format(ns))
        };
        let mut row = vec![first.ranks.to_string(), label(first), time(own)];
        if has_rival {
            row.extend([time(rival), ratio(own, rival), bounds(own, rival)]);
        }
        row
    });
    let table = table(2, &header, rows);
    let mut lines = vec![machine(), table, "a number behind a case: words of each PE".into()];
    if has_rival {
        lines.push(format!(
            "ratio: {rival_name} (Open MPI's) over farside; above 1, farside is faster\n\
             from - to: the smallest and the largest ratio of any two rounds"
        ));
        if records.iter().any(|record| record.case == PUT_SIGNAL) {
            lines.push(format!(
                "{PUT_SIGNAL}: Open MPI 4.1 has none; it does put, fence, atomic_set"
            ));
        }
    }
    lines.join("\n")
}

/// What was measured of one case at one number of ranks.
struct Row<'a> {
    first: &'a Record,
    own: Option<&'a Record>,
    rival: Option<&'a Record>,
}

fn rows(records: &[Record]) -> Vec<Row<'_>> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    for record in records {
        let is_same = |row: &Row<'_>| {
            (row.first.ranks, &row.first.case) == (record.ranks, &record.case)
                && row.first.attribute("words") == record.attribute("words")
                // Several servers of far memory are several rows.
                && (record.system != FARSIDE || row.own.is_none())
        };
        let at = rows.iter().position(is_same).unwrap_or_else(|| {
            rows.push(Row { first: record, own: None, rival: None });
            rows.len() - 1
        });
        match record.system.as_str() {
            FARSIDE => rows[at].own = Some(record),
            _ => rows[at].rival = Some(record),
        }
    }
    rows
}

/// The case, and on how many words where those are several.
fn label(record: &Record) -> String {
    match record.number("words") {
        Some(words) if words > 1.0 => format!("{}, {words}", record.case),
        _ => record.case.clone(),
    }
}

/// How many times as long the rival takes.
fn ratio(own: Option<&Record>, rival: Option<&Record>) -> String {
    let median = |record: Option<&Record>| record.and_then(|record| record.number("median_ns"));
    match (median(own), median(rival)) {
        (Some(own), Some(rival)) => times(rival / own),
        _ => "-".into(),
    }
}

/// The smallest and the largest ratio that any two rounds have.
fn bounds(own: Option<&Record>, rival: Option<&Record>) -> String {
    let figure = |record: Option<&Record>, name| record.and_then(|record| record.number(name));
    let over = |rival_name, own_name| Some(figure(rival, rival_name)? / figure(own, own_name)?);
    match (over("min_ns", "max_ns"), over("max_ns", "min_ns")) {
        (Some(least), Some(most)) => {
            let number = |ratio| times(ratio).trim_end_matches('x').to_owned();
            format!("{} - {}", number(least), number(most))
        }
        _ => "-".into(),
    }
}

/// Draws the results into a directory: the time of each case by ranks.
pub fn plot(records: &[Record], directory: &Path) -> Result<()> {
    let plots: Vec<Plot> = CASES.iter().map(|case| drawing(records, case)).collect();
    write_plots("farside bench shmem", directory, &plots)
}

fn drawing(records: &[Record], case: &str) -> Plot {
    let of = || records.iter().filter(|record| record.case == case);
    let mut series: Vec<Series> = Vec::new();
    for words in distinct(of().map(|record| record.number("words").unwrap_or(0.0) as u64)) {
        for system in [FARSIDE, Rival::OpenShmem.name()] {
            let is = |record: &&Record| {
                record.system == system && record.number("words").unwrap_or(0.0) as u64 == words
            };
            let points: Vec<(f64, f64)> = of()
                .filter(is)
                .filter_map(|record| Some((record.ranks as f64, record.number("median_ns")?)))
                .collect();
            let name = if words > 1 { format!("{system}, {words} words") } else { system.into() };
            let curve = Series::new(name, points);
            series.push(if system == FARSIDE { curve } else { curve.dashed() });
        }
    }
    series.retain(|series| !series.points.is_empty());
    let what = if PROGRAMS.contains(&case) { "the whole program" } else { "one operation" };
    let chart = Chart {
        title: format!("OpenSHMEM: {case}"),
        subtitle: "lower is better".into(),
        x: Axis::new("PEs", Scale::Log2, Unit::Count),
        y: Axis::new(format!("time of {what}"), Scale::Log10, Unit::Ns),
        series,
    };
    let svg = (!chart.series.is_empty()).then(|| chart.to_svg());
    (case.to_owned(), format!("shmem-{case}.svg"), svg)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(system: &str, case: &str, words: Option<i64>, [min, median, max]: [f64; 3]) -> Record {
        let record = Record::new("shmem", case, system, "shm", 16, 1);
        let record = match words {
            Some(words) => record.with("words", words),
            None => record,
        };
        record.figure("median_ns", median).figure("min_ns", min).figure("max_ns", max)
    }

    #[test]
    fn a_table_has_both_systems_side_by_side_and_fits() {
        let records = [
            of(FARSIDE, "put_signal", Some(1), [190.0, 200.0, 250.0]),
            of("openshmem", "put_signal", Some(1), [500.0, 600.0, 760.0]),
            of(FARSIDE, "reduce", Some(8), [1e4, 2e4, 3e4]),
            of("openshmem", "reduce", Some(8), [123_456.7, 234_567.8, 345_678.9]),
            of(FARSIDE, "reduce", Some(4096), [2e5, 2e5, 2e5]),
            of(FARSIDE, "fetch_add_static", Some(1), [1e9, 123.4e6, 1e9]),
        ];
        let table = tables(&records);
        let line =
            |words: &[&str]| table.lines().any(|line| words.iter().all(|word| line.contains(word)));
        assert!(line(&["put_signal", "200 ns", "600 ns", "3.00x", "2.00 - 4.00 "]), "{table}");
        assert!(line(&["reduce, 8 ", "20 us", "11.7x", "4.12 - 34.6 "]), "{table}");
        assert!(line(&["reduce, 4096", "200 us", " - "]), "{table}");
        assert!(table.contains("put_signal: Open MPI 4.1 has none"), "{table}");
        assert!(table.lines().skip(1).all(|line| line.chars().count() <= 80), "{table}");
    }

    #[test]
    fn a_table_of_farside_alone_has_no_ratio() {
        let table = tables(&[of(FARSIDE, "isx", None, [1e9, 1e9, 1e9])]);
        assert!(table.contains("isx") && table.contains("1 s"), "{table}");
        assert!(!table.contains("ratio") && !table.contains("openshmem"), "{table}");
    }
}
