//! `farside app wordcount`, `farside bench array` and `farside bench dht`.

use std::collections::BTreeSet;

use super::measured::{measured, refused};
use crate::support::{Scratch, farside};
use serde_json::Value;

/// What `sort | uniq -c` makes of the words of files.
fn sorted_and_counted(files: &[&str]) -> String {
    let script = "cat \"$@\" | tr -s '[:space:]' '\\n' | grep -v '^$' | LC_ALL=C sort | uniq -c";
    let output = std::process::Command::new("sh")
        .args(["-c", script, "sh"])
        .args(files)
        .output()
        .expect("sh is there");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn words_are_counted_as_sort_and_uniq_do() {
    let scratch = Scratch::new();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");
    let texts =
        ["README.md", "ARCHITECTURE.md", "docs/checking.md", "crates/runtime/rma/src/context.rs"];
    let mut files: Vec<String> = texts.iter().map(|name| format!("{root}/{name}")).collect();
    // Longer than a rank reads at a time, with words across the ends of stretches, and some long
    // ones.
    let long: String = (0..40_000)
        .map(|n| format!("w{}{}", n % 977, if n % 13 == 0 { "\n\n" } else { " " }))
        .collect();
    let wide = format!("  {}\t{} end", "x".repeat(25), "y".repeat(1000));
    for (name, text) in [("long", &long), ("wide", &wide), ("empty", &String::new())] {
        files.push(scratch.file(name));
        std::fs::write(scratch.file(name), text).expect("a scratch file");
    }
    let names: Vec<&str> = files.iter().map(String::as_str).collect();
    let expected = sorted_and_counted(&names);
    assert!(expected.lines().count() > 1000, "{expected}");
    for ranks in ["1", "4"] {
        let words = ["app", "wordcount", "-n", ranks].into_iter().chain(names.iter().copied());
        let counted = farside(words).run().ends_with(0).stdout();
        assert!(counted == expected, "{ranks} ranks count differently");
    }
}

#[test]
fn a_text_that_cannot_be_counted_is_named() {
    farside(["app", "wordcount", "-n", "2"]).run().fails_with(&["which files"]);
    farside(["app", "wordcount", "-n", "2", "/nonexistent"]).run().fails_with(&["/nonexistent"]);
}

fn texts<'r>(records: &'r [Value], key: &str) -> BTreeSet<&'r str> {
    records.iter().filter_map(|record| record[key].as_str()).collect()
}

#[test]
fn arrays_are_measured_beside_others() {
    let scratch = Scratch::new();
    let plots = scratch.file("plots");
    let line = "array --ranks 2 --time 1 --shapes 4x8 --size 32 --against ga,openblas";
    let (records, stdout) = measured(line, &["--plot", &plots]);
    let cases = BTreeSet::from(["sync", "put", "get", "accumulate", "matmul"]);
    assert_eq!(texts(&records, "case"), cases);
    assert_eq!(texts(&records, "system"), BTreeSet::from(["farside", "ga", "openblas"]));
    let algorithms = BTreeSet::from(["combined", "allfence", "ga_sync"]);
    assert!(texts(&records, "algorithm").is_superset(&algorithms), "{stdout}");
    assert!(std::path::Path::new(&plots).join("array-sync.svg").exists());
    refused(&[
        ("bench array --against mpich", "mpich"),
        ("bench array --against mpich", "ga"),
        ("bench array --shapes 4by8", "4by8"),
        ("bench array --shapes 4by8", "64x8"),
        ("bench dht --locks luck", "luck"),
        ("bench dht --locks luck", "rma-rw"),
    ]);
}

#[test]
fn hash_tables_are_measured_beside_servers() {
    let line = "dht --ranks 2 --time 5 --keys 100 --writers 5 --against redis,memcached";
    let (records, _) = measured(line, &[]);
    let cases = BTreeSet::from(["integers", "volume", "ycsb-a", "ycsb-b", "ycsb-c", "ycsb-f"]);
    assert_eq!(texts(&records, "case"), cases);
    assert_eq!(texts(&records, "system"), BTreeSet::from(["farside", "redis", "memcached"]));
    let locks =
        BTreeSet::from(["atomics", "fompi-rw", "rma-rw", "default-rw", "single", "pipelined"]);
    assert_eq!(texts(&records, "lock"), locks);
    for record in &records {
        assert!(record["per_s"].as_f64().is_some_and(|rate| rate > 0.0), "{record}");
    }
}
