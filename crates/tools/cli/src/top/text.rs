//! What is shown of a job, as plain text: for `--once`.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};
use farside_fabric::text::counted;
use farside_inspect::doctor::{describe_place, describe_ranks};

use super::model::{Model, short, since};

pub(crate) fn page(model: &Model) -> String {
    let mut page = String::new();
    let _ = writeln!(
        page,
        "job {} ({}): {} on {}, {}: {}",
        model.job,
        model.command,
        counted(model.ranks.len(), "rank"),
        counted(model.nodes, "node"),
        counted(model.processors, "processor"),
        model.verdict()
    );
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table
        .set_header(["rank", "node", "process", "state", "for", "op/s", "B/s", "sleeps/s", "does"]);
    for row in &model.ranks {
        table.add_row([
            row.rank.to_string(),
            row.node.to_string(),
            row.process.to_string(),
            row.state.to_owned(),
            since(row.for_ns),
            short(row.operations_per_second),
            short(row.bytes_per_second),
            short(row.sleeps_per_second),
            row.does.clone(),
        ]);
    }
    for at in [0, 1, 2, 4, 5, 6, 7] {
        if let Some(column) = table.column_mut(at) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let _ = writeln!(page, "{table}");
    for lock in &model.locks {
        let holder = match &lock.holder {
            Some((rank, place)) => format!("held by rank {rank}{}", describe_place(place)),
            None => "holder unknown".to_owned(),
        };
        let waiters = match lock.waiters.len() {
            0 => String::new(),
            many => {
                let wait = if many == 1 { "waits" } else { "wait" };
                let waiters = describe_ranks(&lock.waiters);
                format!("; {waiters} {wait}, {}", since(lock.longest_ns))
            }
        };
        let _ = writeln!(page, "{}: {holder}{waiters}", lock.name);
    }
    page
}
