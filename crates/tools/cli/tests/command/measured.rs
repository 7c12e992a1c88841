//! What benches have written to a file, and their tables.

use serde_json::Value;

use crate::support::{Scratch, farside};

pub(crate) fn records(path: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("the file is there");
    let read =
        |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    text.lines().map(read).collect()
}

/// Runs `farside bench` for a single round: the words of a line, and others.
pub(crate) fn measured(line: &str, others: &[&str]) -> (Vec<Value>, String) {
    let scratch = Scratch::new();
    let json = scratch.file("figures.json");
    let words = ["bench"].into_iter().chain(line.split(' ')).chain(others.iter().copied());
    let stdout =
        farside(words.chain(["--rounds", "1", "--json", &json])).run().ends_with(0).stdout();
    (records(&json), stdout)
}

pub(crate) fn figure(record: &Value, name: &str) -> f64 {
    record[name].as_f64().unwrap_or_else(|| panic!("no {name} in {record}"))
}

/// Runs lines of the command, each of which fails and says this; nothing is measured.
pub(crate) fn refused(lines: &[(&str, &str)]) {
    for (line, problem) in lines {
        let finished = farside(line.split(' ')).run();
        assert_eq!(finished.stdout(), "", "{line}");
        finished.fails_with(&[problem]);
    }
}
