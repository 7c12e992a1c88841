//! A file that holds a protocol opens with what a reader must know to judge it.

use std::collections::BTreeSet;

use super::Report;
use super::source::{Source, Tree};

/// The directories of the crates that hold protocols: there, a file whose header has the first key
/// holds one.
const CRATES: &[&str] = &["rma", "sync", "epoch", "dsm", "containers"];

/// The name of the directories whose files must not do without a header: it has all keys, or, in a
/// part that several algorithms share, some of them without the first.
const ALGORITHMS: &str = "algorithms";

/// The file that binds the others of a directory together and holds no protocol.
const NO_PROTOCOL: &str = "mod.rs";

/// What a header must say, each at the beginning of a line.
const KEYS: &[&str] =
    &["Paper:", "Differs:", "State:", "Invariant:", "Ordering:", "Cost:", "Checked:"];

const KEY_WITH_TESTS: &str = "Ordering:";

pub(super) fn check(tree: &Tree, report: &mut Report) {
    let functions = functions(tree);
    for source in tree.sources.iter().filter(|source| holds_protocol(source)) {
        check_one(source, &functions, report);
    }
}

/// The names of all functions in `crates/`.
pub(super) fn functions(tree: &Tree) -> BTreeSet<&str> {
    let in_crates = tree.sources.iter().filter(|source| source.path.starts_with("crates/"));
    let pairs = in_crates.flat_map(|source| source.tokens.windows(2));
    pairs
        .filter(|pair| pair[0].text == "fn" && pair[1].is_word())
        .map(|pair| pair[1].text.as_str())
        .collect()
}

fn holds_protocol(source: &Source) -> bool {
    let in_src = source.path_in_crate().is_some_and(|path| path.starts_with("src/"));
    let of_protocols = source.crate_directory().is_some_and(|name| CRATES.contains(&name));
    if source.test_only || !in_src || !of_protocols {
        return false;
    }
    let (directory, file) = source.path.rsplit_once('/').unwrap_or(("", &source.path));
    let among_algorithms = directory.ends_with(&format!("/{ALGORITHMS}")) && file != NO_PROTOCOL;
    match values(&source.text).as_slice() {
        [] => among_algorithms,
        values => values.iter().any(|value| value.key == KEYS[0]),
    }
}

fn check_one(source: &Source, functions: &BTreeSet<&str>, report: &mut Report) {
    let values = values(&source.text);
    for key in KEYS {
        let message = match values.iter().find(|value| value.key == *key) {
            None => {
                format!("the header does not say `{key}`: open the file with it, `//! {key} …`")
            }
            Some(value) if value.text.trim().is_empty() => {
                format!("`{key}` says nothing: write `none` if there is nothing")
            }
            Some(_) => continue,
        };
        let line = values.iter().find(|value| value.key == *key).map_or(1, |value| value.line);
        report.violation(&source.path, line, message);
    }
    let with_tests = values.iter().filter(|value| value.key == KEY_WITH_TESTS);
    for value in with_tests {
        for test in backticked(&value.text).filter(|name| !functions.contains(*name)) {
            let message = format!(
                "`{KEY_WITH_TESTS}` names `{test}`, but no function in crates/ is called so: \
                 write the test, or correct the name"
            );
            report.violation(&source.path, value.line, message);
        }
    }
}

/// What a header says under one key, further lines included.
struct Value {
    key: &'static str,
    line: usize,
    text: String,
}

/// Reads the header with which a file opens; a blank line ends a value.
fn values(text: &str) -> Vec<Value> {
    let mut values: Vec<Value> = Vec::new();
    let mut open = false;
    let header = text.lines().map_while(|line| line.strip_prefix("//!"));
    for (index, line) in header.map(str::trim).enumerate() {
        let key = KEYS.iter().find_map(|key| Some((*key, line.strip_prefix(key)?)));
        if let Some((key, text)) = key {
            values.push(Value { key, line: index + 1, text: text.to_owned() });
            open = true;
        } else if line.is_empty() {
            open = false;
        } else if open && let Some(value) = values.last_mut() {
            value.text.push(' ');
            value.text.push_str(line);
        }
    }
    values
}

/// The plain names between backticks; a path or a call with arguments is no name of a test.
pub(super) fn backticked(text: &str) -> impl Iterator<Item = &str> {
    let between = text.split('`').skip(1).step_by(2);
    between.filter(|name| {
        let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        plain && name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "\
//! A lock.
//!
//! Paper:     none
//! Differs:   no.
//! State:     1 word.
//! Invariant: one at a time.
//! Ordering:  release flushes first (`it_fails`
//!            and `it_fails_too` without), `Fabric::flush`.
//! Cost:      1 atomic.
//! Checked:   3 ranks.

fn it_fails() {}
";

    fn check_text(path: &str, text: &str) -> Report {
        let mut report = Report::default();
        let tests =
            Source::parse("crates/verification/sim/tests/a.rs", "fn it_fails_too() {}").unwrap();
        let tree = Tree::new(vec![Source::parse(path, text).unwrap(), tests]);
        check(&tree, &mut report);
        report
    }

    #[test]
    fn a_complete_header_is_accepted() {
        assert_eq!(check_text("crates/runtime/sync/src/mcs.rs", HEADER).text(), "");
    }

    #[test]
    fn every_key_is_needed_and_needs_a_value() {
        for key in &KEYS[1..] {
            let without = HEADER.replace(key, "Nothing:");
            let report = check_text("crates/runtime/sync/src/mcs.rs", &without);
            assert!(report.text().contains(&format!("does not say `{key}`")), "{key}");
        }
        let empty = HEADER.replace("1 atomic.", "");
        let report = check_text("crates/runtime/epoch/src/lock.rs", &empty);
        assert!(report.text().contains("`Cost:` says nothing") && report.lines() == [9]);
    }

    #[test]
    fn the_header_opens_the_file() {
        let late = format!("// First.\n{HEADER}");
        let report = check_text("crates/runtime/sync/src/lock/algorithms/mcs.rs", &late);
        assert_eq!(report.lines().len(), KEYS.len());
    }

    #[test]
    fn tests_named_for_an_ordering_exist() {
        let report = check_text(
            "crates/runtime/sync/src/mcs.rs",
            &HEADER.replace("it_fails_too", "it_fell"),
        );
        assert!(report.text().contains("names `it_fell`"), "{}", report.text());
        assert_eq!(report.lines(), [7]);
    }

    #[test]
    fn only_protocols_need_a_header() {
        for path in [
            "crates/runtime/sync/src/lib.rs",
            "crates/runtime/sync/src/lock/frame.rs",
            "crates/runtime/rma/src/world.rs",
            "crates/runtime/sync/src/lock/algorithms/mod.rs",
            "crates/runtime/sync/src/lock/algorithms/deep/mcs.rs",
            "crates/runtime/sync/tests/mcs.rs",
            "crates/verification/sim/src/algorithms/search.rs",
        ] {
            assert_eq!(check_text(path, "").text(), "", "{path}");
        }
        let missing = check_text("crates/runtime/sync/src/lock/algorithms/mcs.rs", "");
        assert_eq!(missing.lines().len(), KEYS.len());
        let part =
            check_text("crates/runtime/sync/src/lock/algorithms/part.rs", "//! State: a word.\n");
        assert_eq!(part.text(), "");
        let tests = check_text("crates/runtime/sync/src/algorithms/tests.rs", "#![cfg(test)]");
        assert_eq!(tests.text(), "");
    }
}
