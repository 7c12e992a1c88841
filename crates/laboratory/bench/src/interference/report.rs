//! The results of `bench interference`, as tables and as plots.

use super::{BANDWIDTH, CPU, LOCK};
use crate::plot::{Axis, Chart, Scale, Unit};
use crate::record::Record;
use crate::report::{Plot, curves, of_case, text_of};
use crate::table::{Columns, alike, grouped};

pub(super) fn table(records: &[Record]) -> String {
    let home = |record: &Record| {
        let name = if record.case == BANDWIDTH { "bytes_per_s" } else { "per_s" };
        Some(Unit::of(name).format(record.number(name)?))
    };
    // Here the load is what the others could do.
    let load = |record: &Record| record.text("load_per_s").filter(|_| record.case != LOCK);
    Columns::of(&["ranks", "case", "cores"])
        .cell("home core", |record| record.text("home_core"))
        .cell("server core", |record| record.text("server_core"))
        .texts(&["server"])
        .cell("load", load)
        .number("achieved", "achieved_per_s", |achieved| format!("{achieved:.0}"))
        .figures(&[("lock and unlock", "median_ns")])
        .cell("home", home)
        .number("kept", "kept_pct", |kept| format!("{kept:.1} %"))
        .cell("less than", |record| less(records, record))
        .table(7, records)
}

/// How much less time a lock takes with the interface than with each of the hosts, as figure 6 has
/// it.
fn less(records: &[Record], record: &Record) -> Option<String> {
    if record.case != LOCK || text_of(record, "server") == "nic" {
        return None;
    }
    let others = alike(records, record, &["case", "ranks", "cores"]);
    let interface = others.into_iter().find(|other| text_of(other, "server") == "nic")?;
    let share = interface.number("median_ns")? / record.number("median_ns")?;
    Some(format!("nic {:.1} %", 100.0 * (1.0 - share)))
}

/// One chart for each case and each choice of processors.
pub(super) fn plots(records: &[Record]) -> Vec<Plot> {
    let mut plots = Vec::new();
    for (case, title) in [
        (CPU, "What is left of a counting loop at the home of a lock"),
        (BANDWIDTH, "What is left of the home's bandwidth to a third node"),
        (LOCK, "Taking a lock and giving it back"),
    ] {
        let (figures, x, y) = match case {
            LOCK => (
                ("contenders", "median_ns"),
                "ranks that want it",
                Axis::new("mean time", Scale::Linear, Unit::Ns),
            ),
            _ => (
                ("achieved_per_s", "kept_pct"),
                "lock and unlock, a second",
                Axis::new("percent of idle", Scale::Linear, Unit::Count),
            ),
        };
        for (cores, of) in grouped(of_case(records, case), |record| record.text("cores")) {
            let chart = Chart {
                title: title.into(),
                subtitle: "by who serves the lock's home".into(),
                x: Axis::new(x, Scale::Linear, Unit::Count),
                y: y.clone(),
                series: curves(of, |record| text_of(record, "server"), figures),
            };
            let suffix = cores.map_or(String::new(), |cores| format!("-{cores}"));
            let file = format!("interference-{case}{suffix}.svg");
            plots.extend(Plot::of_curves(title, file, &chart));
        }
    }
    plots
}
