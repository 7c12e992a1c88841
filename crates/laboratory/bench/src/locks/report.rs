//! The results of `bench locks`, as tables and as plots.

use super::{CASES, HAND_OVER, TIMES};
use crate::driver::FARSIDE;
use crate::plot::{Axis, Chart, Scale, Unit};
use crate::record::Record;
use crate::report::{Plot, all_ranks, curves, of_case, over_ranks, text_of, time};
use crate::table::{Columns, grouped, times};

/// The results as tables: for each number of ranks all figures, with the ratio to the best rival;
/// if there are several numbers, also the figure that counts by lock and ranks.
pub(super) fn table(records: &[Record]) -> String {
    let ranks = all_ranks(records);
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
    let share = |record: &Record| {
        let (least, most) = (record.number("share_min")?, record.number("share_max")?);
        Some(format!("{least:.2} to {most:.2}"))
    };
    let columns = Columns::of(&["case"])
        .cell("writers", |record| Some(writers(record)))
        .cell("lock", |record| Some(lock(record)))
        .figures(&[("time", "median_ns"), ("throughput", "per_s")])
        .cell("ratio", |record| ratio(records, record).map(times))
        .cell("share of a rank", share)
        .figures(&[("longest wait", "wait_max_ns")]);
    // In virtual time there are no percentiles.
    let columns = match records.iter().any(|record| record.number("p99_ns").is_some()) {
        true => columns.figures(&[("p50", "p50_ns"), ("p99", "p99_ns")]),
        false => columns,
    };
    columns.table(3, records.iter().copied())
}

fn by_ranks(records: &[Record], ranks: &[usize]) -> String {
    let numbers: Vec<String> = ranks.iter().map(usize::to_string).collect();
    let header: Vec<&str> =
        ["case", "writers", "lock"].into_iter().chain(numbers.iter().map(String::as_str)).collect();
    let all: Vec<&Record> = records.iter().collect();
    let mut sorted = all.clone();
    sorted.sort_by_key(|record| order(record));
    let key = |record: &Record| vec![record.case.clone(), writers(record), lock(record)];
    let cell = |of: &[&Record], ranks: usize| {
        let record = of.iter().rfind(|record| record.ranks == ranks)?;
        let name = figure_of(record);
        let figure = Unit::of(name).format(record.number(name).unwrap_or(0.0));
        let ratio = ratio(&all, record).map(|ratio| format!("  {}", times(ratio)));
        Some(figure + &ratio.unwrap_or_default())
    };
    let rows = grouped(sorted, key).into_iter().map(|(mut row, of)| {
        row.extend(ranks.iter().map(|&ranks| cell(&of, ranks).unwrap_or("-".into())));
        row
    });
    crate::table::table(3, &header, rows)
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
    let same = |record: &&Record| {
        (&record.case, record.ranks) == (&own.case, own.ranks)
            && record.attribute("writers_pct") == own.attribute("writers_pct")
    };
    crate::table::ratio(own, records.iter().copied().filter(same), figure_of(own))
}

/// Each case at each fraction of writers, by ranks.
pub(super) fn plots(records: &[Record]) -> Vec<Plot> {
    let mut plots = Vec::new();
    for case in CASES {
        for (pct, of) in grouped(of_case(records, case), |record| text_of(record, "writers_pct")) {
            let (y, better) = match is_time(of[0]) {
                true => (time("mean time of an operation"), "lower"),
                false => (Axis::new("operations of all ranks", Scale::Log10, Unit::PerS), "higher"),
            };
            let figures = ("ranks", figure_of(of[0]));
            let chart = Chart {
                title: format!("Locks: {case}, {pct} % writers"),
                subtitle: format!("{better} is better"),
                x: over_ranks(),
                y,
                series: curves(of, lock, figures),
            };
            let caption = format!("{case}, {pct} % writers");
            plots.extend(Plot::of_curves(&caption, format!("locks-{case}-{pct}.svg"), &chart));
        }
    }
    plots
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
        let text = table(&records);
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
        let text = table(&[own, record("mpich", "win-lock", 4, "lb", ("median_ns", 900.0))]);
        for part in ["p50", "400 ns", "p99", "7 us"] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
