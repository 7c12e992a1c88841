//! A promise of the page on security names tests that exist.

use std::collections::BTreeSet;

use super::Report;
use super::headers::{backticked, functions};
use super::source::Tree;

pub(super) const FILE: &str = "SECURITY.md";

/// Opens, in an item of a list, the names of its tests.
const MARK: &str = "*test:*";

pub(super) fn check(tree: &Tree, text: &str, report: &mut Report) {
    let functions: BTreeSet<&str> = functions(tree);
    let mut is_after_mark = false;
    for (index, line) in text.lines().enumerate() {
        // An item ends where the next one begins, or the list.
        is_after_mark &= line.starts_with("  ");
        let names = match line.split_once(MARK) {
            Some((_, names)) => names,
            None if is_after_mark => line,
            None => continue,
        };
        is_after_mark = true;
        for test in backticked(names).filter(|name| !functions.contains(*name)) {
            let message = format!(
                "`{MARK}` names `{test}`, but no function in crates/ is called so: write the \
                 test, or correct the name"
            );
            report.violation(FILE, index + 1, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source::Source;

    const PAGE: &str = "\
- By `ssh`. *test:* `it_holds` (`crates/runtime/a/tests/a.rs`), `cargo test`, and
  `it_holds_too`.
- `nothing_of_this` is promised.
";

    fn check_text(text: &str) -> Report {
        let mut report = Report::default();
        let tests = "fn it_holds() {} fn it_holds_too() {}";
        let tree = Tree::new(vec![Source::parse("crates/runtime/a/tests/a.rs", tests).unwrap()]);
        check(&tree, text, &mut report);
        report
    }

    #[test]
    fn tests_that_are_named_exist() {
        assert_eq!(check_text(PAGE).text(), "");
        for (name, line) in [("`it_holds`", 1), ("`it_holds_too`", 2)] {
            let report = check_text(&PAGE.replace(name, "`it_held`"));
            assert!(report.text().contains("names `it_held`"), "{}", report.text());
            assert_eq!(report.lines(), [line]);
        }
    }
}
