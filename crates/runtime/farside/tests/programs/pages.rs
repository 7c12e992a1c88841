//! The page of errors is whole: it has a row for each variant of the error, a row for each class,
//! and no others.

use std::collections::BTreeSet;
use std::path::Path;

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    std::fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn every_error_is_on_its_page() {
    let source = read("crates/runtime/fabric/src/error.rs");
    let body = source.split("pub enum Error {").nth(1).unwrap().split("\n}\n").next().unwrap();
    // A variant is what is indented once and begins with a capital letter.
    let variants: BTreeSet<&str> = body
        .lines()
        .filter_map(|line| line.strip_prefix("    "))
        .filter(|line| line.starts_with(|letter: char| letter.is_ascii_uppercase()))
        .map(|line| line.split(|letter: char| !letter.is_alphanumeric()).next().unwrap())
        .collect();
    assert!(variants.contains("RankLost") && variants.contains("Program"), "{variants:?}");
    let page = read("docs/errors.md");
    let rows: BTreeSet<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .filter_map(|line| line.split('`').next())
        .collect();
    assert_eq!(rows, variants, "the rows of docs/errors.md (left) are not the variants (right)");
}

#[test]
fn every_class_is_on_the_page_of_errors() {
    let page = read("docs/errors.md");
    let is_class = |line: &&str| {
        let number = line.strip_prefix("| ").and_then(|cells| cells.chars().next());
        number.is_some_and(|digit| digit.is_ascii_digit())
    };
    let rows: Vec<&str> = page.lines().filter(is_class).collect();
    let expected: Vec<String> = farside::ErrorClass::ALL
        .iter()
        .map(|class| format!("| {} | `{class:?}` | `{}` |", class.code(), class.name()))
        .collect();
    assert_eq!(rows, expected, "the classes of docs/errors.md (left) are not all (right)");
}
