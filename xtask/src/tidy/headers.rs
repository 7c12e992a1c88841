//! A file that holds a protocol opens with what a reader must know to judge it. The tests that it
//! names exist, and so do those that the page on security names for its promises.

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

/// The page of promises.
pub(super) const PROMISES: &str = "SECURITY.md";

/// Opens, in an item of its lists, the names of tests.
const MARK: &str = "*test:*";

/// Checks the headers of all files, and the page of promises.
pub(super) fn check(tree: &Tree, promises: &str, report: &mut Report) {
    let functions = functions(tree);
    for source in tree.sources.iter().filter(|source| holds_protocol(source)) {
        check_one(source, &functions, report);
    }
    let mut is_after_mark = false;
    for (index, line) in promises.lines().enumerate() {
        // An item ends where the next one begins, or the list.
        is_after_mark &= line.starts_with("  ");
        let names = match line.split_once(MARK) {
            Some((_, names)) => names,
            None if is_after_mark => line,
            None => continue,
        };
        is_after_mark = true;
        check_names(names, &functions, (PROMISES, index + 1, MARK), report);
    }
}

/// Checks that the functions that a line of a file names under a key exist.
fn check_names(
    names: &str,
    functions: &BTreeSet<&str>,
    (path, line, key): (&str, usize, &str),
    report: &mut Report,
) {
    for test in backticked(names).filter(|name| !functions.contains(*name)) {
        let message = format!(
            "`{key}` names `{test}`, but no function in crates/ is called so: write the test, or \
             correct the name"
        );
        report.violation(path, line, message);
    }
}

/// The names of all functions in `crates/`.
fn functions(tree: &Tree) -> BTreeSet<&str> {
    let in_crates = tree.sources.iter().filter(|source| source.path.starts_with("crates/"));
    let pairs = in_crates.flat_map(|source| source.tokens.windows(2));
    pairs
        .filter(|pair| pair[0].text == "fn" && pair[1].is_word())
        .map(|pair| pair[1].text.as_str())
        .collect()
}

fn holds_protocol(source: &Source) -> bool {
    let of_protocols = source.in_src().is_some_and(|(name, _)| CRATES.contains(&name));
    if source.test_only || !of_protocols {
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
        let (line, message) = match values.iter().find(|value| value.key == *key) {
            None => (
                1,
                format!("the header does not say `{key}`: open the file with it, `//! {key} …`"),
            ),
            Some(value) if value.text.trim().is_empty() => {
                (value.line, format!("`{key}` says nothing: write `none` if there is nothing"))
            }
            Some(_) => continue,
        };
        report.violation(&source.path, line, message);
    }
    for value in values.iter().filter(|value| value.key == KEY_WITH_TESTS) {
        let place = (source.path.as_str(), value.line, value.key);
        check_names(&value.text, functions, place, report);
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
fn backticked(text: &str) -> impl Iterator<Item = &str> {
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
        check(&tree, "", &mut report);
        report
    }

    #[test]
    fn a_header_has_every_key_with_a_value_and_names_tests_that_exist() {
        let report = |text: &str| check_text("crates/runtime/sync/src/mcs.rs", text);
        assert_eq!(report(HEADER).text(), "");
        for key in &KEYS[1..] {
            let without = report(&HEADER.replace(key, "Nothing:")).text();
            assert!(without.contains(&format!("does not say `{key}`")), "{key}");
        }
        let empty = report(&HEADER.replace("1 atomic.", ""));
        assert!(empty.text().contains("`Cost:` says nothing") && empty.lines() == [9]);
        let fell = report(&HEADER.replace("it_fails_too", "it_fell"));
        assert!(fell.text().contains("names `it_fell`") && fell.lines() == [7], "{}", fell.text());
    }

    #[test]
    fn only_protocols_need_a_header() {
        for path in [
            "runtime/sync/src/lib.rs",
            "runtime/sync/src/lock/algorithms/mod.rs",
            "runtime/sync/src/lock/algorithms/deep/mcs.rs",
            "runtime/sync/tests/mcs.rs",
            "verification/sim/src/algorithms/search.rs",
        ] {
            assert_eq!(check_text(&format!("crates/{path}"), "").text(), "", "{path}");
        }
        let late = format!("// First.\n{HEADER}");
        for (file, text, missing) in [
            ("mcs.rs", "", KEYS),
            ("mcs.rs", &late, KEYS),
            ("part.rs", "//! State: a word.\n", &[]),
            ("tests.rs", "#![cfg(test)]", &[]),
        ] {
            let path = format!("crates/runtime/sync/src/lock/algorithms/{file}");
            assert_eq!(check_text(&path, text).lines().len(), missing.len(), "{file}: {text}");
        }
    }

    #[test]
    fn tests_that_a_promise_names_exist() {
        let page = "\
- By `ssh`. *test:* `it_holds` (`crates/runtime/a/tests/a.rs`), `cargo test`, and
  `it_holds_too`.
- `nothing_of_this` is promised.
";
        let said = |page: &str| {
            let mut report = Report::default();
            let tests = "fn it_holds() {} fn it_holds_too() {}";
            let tests = Source::parse("crates/runtime/a/tests/a.rs", tests).unwrap();
            check(&Tree::new(vec![tests]), page, &mut report);
            report
        };
        assert_eq!(said(page).text(), "");
        for (name, line) in [("`it_holds`", 1), ("`it_holds_too`", 2)] {
            let report = said(&page.replace(name, "`it_held`"));
            assert!(report.text().contains("names `it_held`"), "{}", report.text());
            assert_eq!(report.lines(), [line]);
        }
    }
}
