//! The results of `bench interference`, as tables and as plots.

use std::path::Path;

use anyhow::Result;

use super::{BANDWIDTH, CPU, LOCK};
use crate::plot::{Axis, Chart, Scale, Series, Unit};
use crate::record::Record;
use crate::report::{Plot, table, text_of, write_plots};

/// The results as a table.
pub fn tables(records: &[Record]) -> String {
    let header = [
        "ranks",
        "case",
        "cores",
        "home core",
        "server core",
        "server",
        "load",
        "achieved",
        "lock and unlock",
        "home",
        "kept",
        "less than",
    ];
    let rows = records.iter().map(|record| {
        let figure = |name: &str| {
            record.number(name).map_or("-".into(), |value| Unit::of(name).format(value))
        };
        let home = if record.case == BANDWIDTH { figure("bytes_per_s") } else { figure("per_s") };
        vec![
            record.ranks.to_string(),
            record.case.clone(),
            text_of(record, "cores"),
            text_of(record, "home_core"),
            text_of(record, "server_core"),
            text_of(record, "server"),
            if record.case == LOCK { "-".into() } else { text_of(record, "load_per_s") },
            record.number("achieved_per_s").map_or("-".into(), |achieved| format!("{achieved:.0}")),
            figure("median_ns"),
            home,
            record.number("kept_pct").map_or("-".into(), |kept| format!("{kept:.1} %")),
            less(records, record),
        ]
    });
    table(7, &header, rows)
}

/// How much less time a lock takes with the interface than with each of the hosts, as figure 6 has
/// it.
fn less(records: &[Record], record: &Record) -> String {
    let server = text_of(record, "server");
    if record.case != LOCK || server == "nic" {
        return "-".into();
    }
    let same = |other: &&Record| {
        other.case == LOCK
            && other.ranks == record.ranks
            && text_of(other, "cores") == text_of(record, "cores")
    };
    let mut interface =
        records.iter().filter(same).filter(|other| text_of(other, "server") == "nic");
    let times =
        (interface.next().and_then(|other| other.number("median_ns")), record.number("median_ns"));
    match times {
        (Some(interface), Some(host)) => format!("nic {:.1} %", 100.0 * (1.0 - interface / host)),
        _ => "-".into(),
    }
}

/// Draws the results into a directory: one chart for each case and each choice of processors, and a
/// page of all.
pub fn plot(records: &[Record], directory: &Path) -> Result<()> {
    let mut choices: Vec<String> = Vec::new();
    for choice in records.iter().map(|record| text_of(record, "cores")) {
        if !choices.contains(&choice) {
            choices.push(choice);
        }
    }
    let mut plots: Vec<Plot> = Vec::new();
    for choice in choices {
        let suffix = if choice == "-" { String::new() } else { format!("-{choice}") };
        for (case, title) in [
            (CPU, "What is left of a counting loop at the home of a lock"),
            (BANDWIDTH, "What is left of the home's bandwidth to a third node"),
            (LOCK, "Taking a lock and giving it back"),
        ] {
            let of: Vec<&Record> = records
                .iter()
                .filter(|r| r.case == case && text_of(r, "cores") == choice)
                .collect();
            plots.push((
                title.to_owned(),
                format!("interference-{case}{suffix}.svg"),
                chart(&of, case, title),
            ));
        }
    }
    write_plots("farside bench interference", directory, &plots)
}

fn chart(records: &[&Record], case: &str, title: &str) -> Option<String> {
    let mut servers: Vec<String> = Vec::new();
    for server in records.iter().map(|record| text_of(record, "server")) {
        if !servers.contains(&server) {
            servers.push(server);
        }
    }
    let point = |record: &&Record| match case {
        LOCK => Some((record.ranks as f64 - 1.0, record.number("median_ns")?)),
        _ => Some((record.number("achieved_per_s")?, record.number("kept_pct")?)),
    };
    let series = servers.into_iter().map(|server| {
        let of = records.iter().filter(|record| text_of(record, "server") == server);
        Series::new(&server, of.filter_map(point).collect())
    });
    let series: Vec<Series> = series.filter(|series| !series.points.is_empty()).collect();
    let (x, y) = match case {
        LOCK => (
            Axis::new("ranks that want it", Scale::Linear, Unit::Count),
            Axis::new("mean time", Scale::Linear, Unit::Ns),
        ),
        _ => (
            Axis::new("lock and unlock, a second", Scale::Linear, Unit::Count),
            Axis::new("percent of idle", Scale::Linear, Unit::Count),
        ),
    };
    let chart = Chart {
        title: title.into(),
        subtitle: "by who serves the lock's home".into(),
        x,
        y,
        series,
    };
    (!chart.series.is_empty()).then(|| chart.to_svg())
}
