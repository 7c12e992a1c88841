//! A diagnosis as a page of text.

use std::fmt::Write;

use farside_fabric::text::counted;

use crate::doctor::{Diagnosis, Verdict};
use crate::snapshot::{ContextView, Durations, Snapshot};

use crate::doctor::describe_plural as plural;
pub use crate::doctor::describe_ranks as ranks;
pub use crate::doctor::describe_time as time;

const GROUPS: usize = 30;

/// Writes what is wrong with a job, and where its ranks are. `title` names the job.
pub fn write(title: &str, snapshot: &Snapshot, diagnosis: &Diagnosis) -> String {
    let mut page = String::new();
    let nodes = snapshot.ranks.iter().map(|rank| rank.node).max().map_or(0, |last| last + 1);
    let verdict = match diagnosis.verdict {
        Verdict::Stuck => "STUCK",
        Verdict::Slow => "slow",
        Verdict::Healthy => "healthy",
    };
    let _ = writeln!(
        page,
        "{title}: {} on {}: {verdict}",
        counted(snapshot.ranks.len(), "rank"),
        counted(nodes, "node")
    );
    let explained = match diagnosis.verdict {
        Verdict::Stuck => format!(
            "{} can never continue: no rank can unblock {}",
            ranks(&diagnosis.stuck),
            if diagnosis.stuck.len() == 1 { "it" } else { "them" }
        ),
        Verdict::Slow => "ranks wait for others that can still make progress".to_owned(),
        Verdict::Healthy => "no rank has been waiting long".to_owned(),
    };
    let _ = writeln!(page, "{explained}");
    if !diagnosis.findings.is_empty() {
        page.push('\n');
    }
    for finding in &diagnosis.findings {
        fold(&mut page, "- ", &finding.what);
        if let Some(cure) = &finding.cure {
            fold(&mut page, "  fix: ", cure);
        }
    }
    page.push_str("\nwhere the ranks are:\n");
    page.push_str(&places(diagnosis));
    page
}

/// Writes where all ranks are.
pub fn places(diagnosis: &Diagnosis) -> String {
    let mut page = String::new();
    for group in diagnosis.places.iter().take(GROUPS) {
        let lasts = group.for_ns.map_or(String::new(), |ns| format!(", for {}", time(ns)));
        let does = if group.ranks.len() == 1 { group.does.clone() } else { plural(&group.does) };
        fold(&mut page, "  ", &format!("{} {does}{lasts}", ranks(&group.ranks)));
    }
    if diagnosis.places.len() > GROUPS {
        let _ = writeln!(page, "  … and {} more", diagnosis.places.len() - GROUPS);
    }
    page
}

/// Writes a table of what the ranks have done.
pub fn statistics(snapshot: &Snapshot) -> String {
    let mut rows = vec![
        ["rank", "operations", "bytes", "waits", "yields", "sleeps", "repeats"]
            .into_iter()
            .chain(["waited", "half below", "99 % below"])
            .map(str::to_owned)
            .collect::<Vec<String>>(),
    ];
    let mut total = [0; 6];
    let mut all_waited = Durations::default();
    for rank in snapshot.ranks.iter().filter(|rank| rank.is_read) {
        let sum = |count: fn(&ContextView) -> u64| rank.contexts.iter().map(count).sum::<u64>();
        let counts = [
            rank.operations(),
            rank.bytes(),
            sum(|context| context.waits),
            sum(|context| context.yields),
            sum(|context| context.sleeps),
            sum(|context| context.repetitions),
        ];
        total.iter_mut().zip(counts).for_each(|(total, count)| *total += count);
        let waited = rank.waited();
        let numbers = counts.iter().map(u64::to_string).chain(times(&waited));
        rows.push([rank.rank.to_string()].into_iter().chain(numbers).collect());
        all_waited.add(&waited);
    }
    let all = total.iter().map(u64::to_string).chain(times(&all_waited));
    rows.push(["all".to_owned()].into_iter().chain(all).collect());
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    let mut page = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:>width$}"));
        let _ = writeln!(page, "  {}", cells.collect::<Vec<_>>().join("  "));
    }
    page
}

/// Writes how long waits were that lasted: all together, and a time that half and nearly all of
/// them are below.
fn times(waited: &Durations) -> [String; 3] {
    let below = |share| waited.quantile(share).map_or("-".to_owned(), short);
    [short(waited.total_ns), below(0.5), below(0.99)]
}

/// Writes a duration with two or three digits.
fn short(ns: u64) -> String {
    let (unit, name) = match ns {
        0 => return "0".to_owned(),
        1..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (1e3, "us"),
        1_000_000..1_000_000_000 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    let value = ns as f64 / unit;
    if value < 10.0 { format!("{value:.1} {name}") } else { format!("{value:.0} {name}") }
}

/// Writes a paragraph in lines of at most 100 columns, each below the text of the first.
fn fold(page: &mut String, head: &str, text: &str) {
    let indent = " ".repeat(head.len());
    let mut line = head.to_owned();
    let mut is_empty = true;
    for word in text.split(' ') {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > 100 {
            let _ = writeln!(page, "{line}");
            line = indent.clone();
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    let _ = writeln!(page, "{line}");
}
