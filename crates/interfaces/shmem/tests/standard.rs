//! `docs/standards/openshmem.md` names a test for each rule of the standard, and the test exists.

use std::path::Path;

const TABLE: &str = include_str!("../../../../docs/standards/openshmem.md");

/// Returns the cells of the rows of the table, without heads.
fn rows() -> impl Iterator<Item = Vec<&'static str>> {
    let cells = |line: &'static str| line.trim_matches('|').split(" | ").map(str::trim).collect();
    let is_row = |line: &&str| line.starts_with("| ") && !line.starts_with("| section |");
    TABLE.lines().filter(is_row).map(cells).filter(|row: &Vec<&str>| row[0] != "---")
}

/// Returns why a test that a cell names as `path::name` is none.
fn fault(test: &str) -> Option<String> {
    let Some((path, name)) = test.split_once("::") else {
        return Some(format!("{test:?} is no `path::name`"));
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let Ok(text) = std::fs::read_to_string(root.join(path)) else {
        return Some(format!("there is no {path}"));
    };
    let is_there = text.lines().any(|line| defines(path, line, name));
    (!is_there).then(|| format!("{path} has no function {name}"))
}

/// Whether a line begins the definition of a function; calls and comments do not.
fn defines(path: &str, line: &str, name: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    if path.ends_with(".rs") {
        return line.trim_start().trim_start_matches("pub ").starts_with(&format!("fn {name}("));
    }
    // A macro defines functions on lines that go on.
    let goes_on = line.ends_with('\\') && line.trim_start().starts_with("static ");
    let is_code = goes_on || line.starts_with(|first: char| is_part(first) || first == '#');
    let whole = |(at, _)| !line[..at].ends_with(is_part);
    is_code && line.match_indices(&format!("{name}(")).any(whole)
}

#[test]
fn every_rule_has_a_test_that_exists_or_says_why_not() {
    let (mut held, mut untested, mut faults) = (0, 0, Vec::new());
    for row in rows() {
        let [section, rule, tests] = row[..] else {
            faults.push(format!("{row:?} has not three cells"));
            continue;
        };
        if section.is_empty() || rule.is_empty() {
            faults.push(format!("{row:?} has an empty cell"));
        }
        match tests.strip_prefix("not tested: ") {
            Some(why) if !why.is_empty() => untested += 1,
            _ => {
                held += 1;
                faults.extend(tests.split(", ").filter_map(|test| fault(test.trim_matches('`'))));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(held > 100, "{held} rules have a test: the table was not read");
    println!("{} rules: {held} held by a test, {untested} not tested", held + untested);
}
