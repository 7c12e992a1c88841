//! A word that holds several fields, and a number that can come to its end, are on a list.
//!
//! A field that runs over into its neighbour is seen neither by tests nor by the exploration of
//! small jobs. So every file that shifts bits to the left, which is how fields are packed, stands
//! in a table with how often it does, and the document says what happens at the end of each field.

use std::collections::BTreeMap;
use std::path::Path;

use super::Report;
use super::source::{Source, Tree};

/// Where the fields and the table are.
pub(super) const LIST: &str = "docs/wrapping-fields.md";

/// The crates whose words are shared.
const CRATES: &[&str] =
    &["fabric", "rma", "sync", "epoch", "dsm", "containers", "shm", "nic", "ofi"];

/// Compares the shifts of all files with those in the list.
pub(super) fn check(tree: &Tree, list: &str, report: &mut Report) {
    let mut listed = listed(list);
    for source in tree.sources.iter().filter(|source| is_shared(source)) {
        let lines = shifts(source);
        let known = listed.remove(&*source.path).map_or(0, |(shifts, _)| shifts);
        if lines.len() != known {
            let line = lines.first().copied().unwrap_or(1);
            let message = format!(
                "{} shifts to the left, and {LIST} knows of {known}: if a field was added, say \
                 there what \
                 happens at its end and which test goes past it; then correct the count",
                lines.len()
            );
            report.violation(&source.path, line, message);
        }
    }
    for (path, (_, line)) in listed {
        report.violation(LIST, line, format!("{path} has no shifts: take the row away"));
    }
}

fn is_shared(source: &Source) -> bool {
    !source.test_only && source.in_src().is_some_and(|(name, _)| CRATES.contains(&name))
}

/// The lines of the shifts to the left outside of tests.
fn shifts(source: &Source) -> Vec<usize> {
    source.lines_of(&["<", "<"]).filter(|line| !source.is_test(*line)).collect()
}

/// The rows `| path | shifts | … |`, with their lines.
fn listed(list: &str) -> BTreeMap<&str, (usize, usize)> {
    let rows = list.lines().enumerate().filter_map(|(at, line)| {
        let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
        let path = cells.next()?.trim_matches('`');
        let is_file = Path::new(path).extension().is_some_and(|extension| extension == "rs");
        let shifts = cells.next()?.parse().ok()?;
        is_file.then_some((path, (shifts, at + 1)))
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "const A: u64 = 1 << 3;\nfn f(a: u64) -> Vec<Vec<u64>> \
                        { vec![vec![a << A]] }\n\
                        #[cfg(test)]\nmod tests { const B: u64 = 1 << 4; }\n";

    #[test]
    fn every_file_with_shifts_has_a_row_and_every_row_a_file() {
        let findings = |list: &str| {
            let source = Source::parse("crates/runtime/sync/src/a.rs", TEXT).unwrap();
            let mut report = Report::default();
            check(&Tree::new(vec![source]), list, &mut report);
            report.text()
        };
        let row = "| `crates/runtime/sync/src/a.rs` | 2 | fields |";
        assert_eq!(findings(row), "");
        assert!(findings(&row.replace('2', "1")).contains("2 shifts"));
        assert!(findings("").contains("knows of 0"));
        let gone = format!("{row}\n{}", row.replace("a.rs", "b.rs"));
        assert!(findings(&gone).contains("b.rs has no shifts"));
    }
}
