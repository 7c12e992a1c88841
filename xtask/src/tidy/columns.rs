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
    fn only_what_can_be_wrapped_must_be() {
        let line = |columns: usize| "ä".repeat(columns);
        let wide = line(COLUMNS_MAX + 1);
        // Characters count, and not bytes.
        let prose = format!("{}\n{wide}\n", line(COLUMNS_MAX));
        let table = format!("| {wide} |\n{wide}|\n- | {wide} |\n");
        let terminal = format!("```console\n{wide}\n```\n{wide}\n```rust\n{wide}\n```\n");
        for (path, text, expected) in [
            ("docs/nic.md", &prose, &[2][..]),
            ("crates/runtime/a/src/b.css", &prose, &[2]),
            ("docs/nic.md", &table, &[2, 3]),
            ("crates/runtime/a/src/b.css", &table, &[1, 2, 3]),
            ("docs/nic.md", &terminal, &[4, 6]),
            ("fuzz/Cargo.lock", &prose, &[]),
            ("crates/runtime/a/proptest-regressions/b.txt", &prose, &[]),
        ] {
            assert_eq!(lines(path, text), expected, "{path}: {text}");
        }
    }
}
