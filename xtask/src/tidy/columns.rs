//! No line is wider than what two columns of an editor, a diff or a printed page show; but a row of
//! a table cannot be wrapped, and what a page shows of a terminal is as wide as it was there.

use super::{Document, Report};

const COLUMNS_MAX: usize = 100;

/// Files that a program writes, and licenses, which are not ours to wrap; and the list of chapters,
/// where a link is one line.
const NOT_OURS: &[&str] =
    &["Cargo.lock", "proptest-regressions/", "LICENSE-", "docs/SUMMARY.md", "docs/figures.json"];

pub(super) fn check(document: &Document, report: &mut Report) {
    if NOT_OURS.iter().any(|part| document.path.contains(part)) {
        return;
    }
    let is_page = document.path.ends_with(".md");
    let mut in_terminal = false;
    for (index, line) in document.text.lines().enumerate() {
        if line.starts_with("```") {
            in_terminal = line == "```console";
        }
        if is_page && (in_terminal || line.starts_with('|')) {
            continue;
        }
        let columns = line.chars().count();
        if columns > COLUMNS_MAX {
            let message = format!("{columns} columns, more than {COLUMNS_MAX}: wrap the line");
            report.violation(&document.path, index + 1, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let mut report = Report::default();
        check(&Document { path: path.to_owned(), text: text.to_owned() }, &mut report);
        report.lines()
    }

    #[test]
    fn characters_count_and_not_bytes() {
        let line = |columns: usize| "ä".repeat(columns);
        let text = format!("{}\n{}\n", line(COLUMNS_MAX), line(COLUMNS_MAX + 1));
        assert_eq!(lines("docs/nic.md", &text), [2]);
        assert_eq!(lines("crates/runtime/a/src/b.css", &text), [2]);
    }

    #[test]
    fn rows_of_tables_may_be_wide() {
        let wide = "x".repeat(COLUMNS_MAX);
        let text = format!("| {wide} |\n{wide}|\n- | {wide} |\n");
        assert_eq!(lines("docs/nic.md", &text), [2, 3]);
        assert_eq!(lines("crates/runtime/a/src/b.css", &text), [1, 2, 3]);
    }

    #[test]
    fn a_terminal_may_be_wide() {
        let wide = "x".repeat(COLUMNS_MAX + 1);
        let text = format!("```console\n{wide}\n```\n{wide}\n```rust\n{wide}\n```\n");
        assert_eq!(lines("docs/nic.md", &text), [4, 6]);
    }

    #[test]
    fn what_a_program_has_written_may_be_wide() {
        let text = "x".repeat(COLUMNS_MAX + 1);
        for path in ["Cargo.lock", "fuzz/Cargo.lock", "crates/runtime/a/proptest-regressions/b.txt"]
        {
            assert!(lines(path, &text).is_empty(), "{path}");
        }
    }
}
