//! The documents say what the checked-in results say.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use farside_figures::baseline::ProfileBaseline;
use farside_figures::points::Catalogue;
use farside_figures::report::{Outcome, with_verdicts};
use farside_figures::verdict::Verdict;

fn document(name: &str) -> (PathBuf, String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs").join(name);
    let text = std::fs::read_to_string(&path).unwrap();
    (path, text)
}

fn checked_in() -> (Catalogue, BTreeSet<String>, Outcome) {
    let catalogue = Catalogue::load().unwrap();
    let not_compared = ProfileBaseline::load().unwrap().check_all(&catalogue).unwrap();
    let (_, text) = document("figures.json");
    let outcome = Outcome::read(&text, &catalogue, &not_compared).unwrap();
    (catalogue, not_compared, outcome)
}

#[test]
fn the_table_of_verdicts_is_that_of_the_results() {
    let (catalogue, _, outcome) = checked_in();
    let (path, text) = document("benchmarks/papers.md");
    let fresh = with_verdicts(&text, &outcome.verdicts(&catalogue)).unwrap();
    assert!(
        fresh == text,
        "{} is stale: farside figures --from docs/figures.json --update docs/benchmarks/papers.md",
        path.display()
    );
}

#[test]
fn every_point_was_run() {
    let (_, _, outcome) = checked_in();
    let lacking: Vec<_> =
        outcome.points.iter().filter(|point| point.verdict == Verdict::NotRun).collect();
    assert!(lacking.is_empty(), "{lacking:?}");
}

#[test]
fn a_changed_measurement_makes_the_table_stale() {
    let (catalogue, not_compared, outcome) = checked_in();
    let mut text = outcome.to_json().unwrap();
    let point = outcome.points.iter().find(|point| point.id == "nic02-6a-up").unwrap();
    // A lock that takes ten times as long by the interface as it did.
    let done = outcome.done("nic02-5a").unwrap();
    for record in done.records.iter().filter(|r| r.text("server").as_deref() == Some("nic")) {
        let median = record.text("median_ns").unwrap();
        let slower = format!("{}0", median.split('.').next().unwrap());
        text =
            text.replace(&format!("\"median_ns\": {median}"), &format!("\"median_ns\": {slower}"));
    }
    let other = Outcome::read(&text, &catalogue, &not_compared).unwrap();
    let changed = other.judged("nic02-6a-up").unwrap();
    assert!(changed.predicted.unwrap() > 5.0 * point.predicted.unwrap(), "{changed:?}");
    assert_eq!(changed.verdict, Verdict::Misses);
    assert_ne!(other.verdicts(&catalogue), outcome.verdicts(&catalogue));
}
