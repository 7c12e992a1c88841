//! The results of `bench locks`, as tables and as plots.

use std::path::Path;

use anyhow::Result;

use super::{CASES, HAND_OVER, TIMES};
use crate::driver::FARSIDE;
use crate::plot::{Axis, Chart, Scale, Series, Unit};
use crate::record::{Record, times};
use crate::report::{Plot, distinct, table, text_of, write_plots};

/// The results as tables: for each number of ranks all figures, with the ratio to the best rival;
/// if there are several numbers, also the figure that counts by lock and ranks.
pub fn tables(records: &[Record]) -> String {
    let ranks = distinct(records.iter().map(|record| record.ranks));
    let mut text = String::new();
    for &ranks in &ranks {
        let mut of: Vec<&Record> = records.iter().filter(|record| record.ranks == ranks).collect();
        of.sort_by_key(|record| order(record));
        text += &format!("{ranks} ranks\n{}\n", details(&of));
    }
    if ranks.len() > 1 {
        text += &format!(
            "by ranks: the mean time, or the throughput of all ranks, and how many times better \
             than the best rival\n{}\n",
            by_ranks(records, &ranks)
        );
    }
    text.trim_end().to_owned()
}

fn details(records: &[&Record]) -> String {
    let mut header = vec![
        "case",
        "writers",
        "lock",
        "time",
        "throughput",
        "ratio",
        "share of a rank",
        "longest wait",
    ];
    // In virtual time there are none.
    let has_percentiles = records.iter().any(|record| record.number("p99_ns").is_some());
    header.extend(["p50", "p99"].iter().filter(|_| has_percentiles));
    let rows = records.iter().map(|record| {
        let figure = |name: &str| {
            record.number(name).map_or("-".into(), |value| Unit::of(name).format(value))
        };
        let share = match (record.number("share_min"), record.number("share_max")) {
            (Some(least), Some(most)) => format!("{least:.2} to {most:.2}"),
            _ => "-".into(),
        };
        let mut row = vec![
            record.case.clone(),
            writers(record),
            lock(record),
            figure("median_ns"),
            figure("per_s"),
            ratio(records, record).map_or("-".into(), times),
            share,
            figure("wait_max_ns"),
        ];
        row.extend(["p50_ns", "p99_ns"].map(figure).into_iter().filter(|_| has_percentiles));
        row
    });
    table(3, &header, rows)
}

fn by_ranks(records: &[Record], ranks: &[usize]) -> String {
    let numbers: Vec<String> = ranks.iter().map(usize::to_string).collect();
    let header: Vec<&str> =
        ["case", "writers", "lock"].into_iter().chain(numbers.iter().map(String::as_str)).collect();
    let all: Vec<&Record> = records.iter().collect();
    let mut rows: Vec<(Vec<String>, Vec<String>)> = Vec::new();
    let mut sorted = all.clone();
    sorted.sort_by_key(|record| order(record));
    for record in sorted {
        let label = vec![record.case.clone(), writers(record), lock(record)];
        let at = rows.iter().position(|(known, _)| *known == label).unwrap_or_else(|| {
            rows.push((label, vec!["-".into(); ranks.len()]));
            rows.len() - 1
        });
        let Some(column) = ranks.iter().position(|&ranks| ranks == record.ranks) else { continue };
        let name = figure_of(record);
        let figure = Unit::of(name).format(record.number(name).unwrap_or(0.0));
        rows[at].1[column] = match ratio(&all, record) {
            Some(ratio) => format!("{figure}  {}", times(ratio)),
            None => figure,
        };
    }
    table(3, &header, rows.into_iter().map(|(label, cells)| [label, cells].concat()))
}

/// Cases and fractions of writers in order, and rivals after our own.
fn order(record: &Record) -> (Option<usize>, u64, bool) {
    let case = CASES.iter().position(|&case| case == record.case);
    (case, record.number("writers_pct").unwrap_or(0.0).to_bits(), record.system != FARSIDE)
}

/// Whether the time of an operation counts, not the throughput.
fn is_time(record: &Record) -> bool {
    record.case == HAND_OVER || TIMES.contains(&record.case.as_str())
}

fn figure_of(record: &Record) -> &'static str {
    if is_time(record) { "median_ns" } else { "per_s" }
}

fn writers(record: &Record) -> String {
    format!("{} %", text_of(record, "writers_pct"))
}

/// The lock with its thresholds; of a rival, the system.
fn lock(record: &Record) -> String {
    let threshold = |key: &str| Some(format!(" {key} {}", record.text(key)?));
    let name = text_of(record, "lock");
    let name = if record.system == FARSIDE { name } else { format!("{} {name}", record.system) };
    ["t_dc", "t_l", "t_r"]
        .iter()
        .filter_map(|key| threshold(key))
        .fold(name, |name, more| name + &more)
}

/// How many times better one of our locks is than the best rival in the same case.
fn ratio(records: &[&Record], own: &Record) -> Option<f64> {
    if own.system != FARSIDE {
        return None;
    }
    let same = |record: &&&Record| {
        record.is_of_rival()
            && (&record.case, record.ranks) == (&own.case, own.ranks)
            && record.attribute("writers_pct") == own.attribute("writers_pct")
    };
    let figure = figure_of(own);
    let rivals = records.iter().filter(same).filter_map(|record| record.number(figure));
    let mine = own.number(figure)?;
    if is_time(own) {
        Some(rivals.reduce(f64::min)? / mine)
    } else {
        Some(mine / rivals.reduce(f64::max)?)
    }
}

/// Draws the results into a directory: each case at each fraction of writers, by ranks.
pub fn plot(records: &[Record], directory: &Path) -> Result<()> {
    let fractions = distinct(
        records.iter().filter_map(|record| record.number("writers_pct")).map(f64::to_bits),
    );
    let mut plots: Vec<Plot> = Vec::new();
    for case in CASES {
        for &fraction in &fractions {
            let fraction = f64::from_bits(fraction);
            let is = |record: &&Record| {
                record.case == case && record.number("writers_pct") == Some(fraction)
            };
            let chosen: Vec<&Record> = records.iter().filter(is).collect();
            let file = format!("locks-{case}-{fraction}.svg");
            plots.push((
                format!("{case}, {fraction} % writers"),
                file,
                curves(case, fraction, &chosen),
            ));
        }
    }
    write_plots("farside bench locks", directory, &plots)
}

fn curves(case: &str, fraction: f64, records: &[&Record]) -> Option<String> {
    let first = records.first()?;
    let (figure, y, better) = if is_time(first) {
        ("median_ns", Axis::new("mean time of an operation", Scale::Log10, Unit::Ns), "lower")
    } else {
        ("per_s", Axis::new("operations of all ranks", Scale::Log10, Unit::PerS), "higher")
    };
    let mut series: Vec<Series> = Vec::new();
    for record in records {
        let (name, Some(value)) = (lock(record), record.number(figure)) else { continue };
        let point = (record.ranks as f64, value);
        match series.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push(point),
            None => {
                let curve = Series::new(name, vec![point]);
                series.push(if record.system == FARSIDE { curve } else { curve.dashed() });
            }
        }
    }
    let chart = Chart {
        title: format!("Locks: {case}, {fraction} % writers"),
        subtitle: format!("{better} is better"),
        x: Axis::new("ranks", Scale::Log2, Unit::Count),
        y,
        series,
    };
    Some(chart.to_svg())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(system: &str, lock: &str, ranks: usize, case: &str, figure: (&str, f64)) -> Record {
        Record::new("locks", case, system, "shm", ranks, 1)
            .with("writers_pct", 100)
            .with("lock", lock)
            .figure(figure.0, figure.1)
    }

    #[test]
    fn ratios_are_to_the_best_rival_of_the_same_case() {
        let records = [
            record("farside", "d-mcs", 4, "ecsb", ("per_s", 6e6)),
            record("mpich", "win-lock", 4, "ecsb", ("per_s", 2e6)),
            record("openmpi", "win-lock", 4, "ecsb", ("per_s", 3e6)),
            record("openmpi", "win-lock", 8, "ecsb", ("per_s", 9e6)),
            record("farside", "d-mcs", 4, "lb", ("median_ns", 50.0)),
            record("mpich", "win-lock", 4, "lb", ("median_ns", 500.0)),
        ];
        let all: Vec<&Record> = records.iter().collect();
        let ratios: Vec<Option<f64>> = records.iter().map(|record| ratio(&all, record)).collect();
        assert_eq!(ratios, [Some(2.0), None, None, None, Some(10.0), None]);
        let text = tables(&records);
        assert!(!text.contains("p99"), "without percentiles there is no column:\n{text}");
        for part in ["4 ranks", "8 ranks", "6 M/s  2.00x", "openmpi win-lock", "100 %"] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }

    #[test]
    fn percentiles_are_columns_that_fold_at_the_edge_of_the_screen() {
        let own = record("farside", "default", 4, "lb", ("median_ns", 500.0))
            .figure("p50_ns", 400.0)
            .figure("p99_ns", 7000.0);
        let text = tables(&[own, record("mpich", "win-lock", 4, "lb", ("median_ns", 900.0))]);
        for part in ["p50", "400 ns", "p99", "7 us"] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
