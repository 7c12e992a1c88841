//! What `farside check` explores, prints and returns.

use super::measured::records;
use crate::support::{Scratch, farside};

#[test]
fn a_check_passes_and_is_in_the_table() {
    let finished = farside(["check", "example/ticket-fair", "litmus/tickets"]).run().ends_with(0);
    let table = finished.stdout();
    let words = "example/ticket-fair|litmus/tickets|exhaustive|2 checks: 2 exhaustive|\
                 2 ranks, one node, 2 rounds";
    for words in words.split('|') {
        assert!(table.contains(words), "{words}: {table}");
    }
    assert_eq!(finished.stderr(), "");
}

#[test]
fn names_may_have_stars_and_beginnings() {
    let all = farside(["check", "--list"]).run().ends_with(0).lines();
    let some = farside(["check", "--list", "litmus/*fence*", "object"]).run().ends_with(0).lines();
    assert!(some.len() > 5 && some.len() < all.len(), "{some:?}");
    assert!(
        some.iter().all(|line| line.starts_with("object/") || line.contains("fence")),
        "{some:?}"
    );
    assert!(all.iter().any(|line| line.contains("must be caught")), "{all:?}");
}

#[test]
fn an_unknown_name_gets_close_ones() {
    farside(["check", "example/msc"]).run().fails_with(&["example/msc", "example/mcs"]);
    farside(["check", "fugue"]).run().fails_with(&["fugue", "--list"]);
}

#[test]
fn mutants_are_left_out_unless_asked_for() {
    let lines = |words: &[&str]| farside(words.iter().copied()).run().ends_with(0).stdout();
    assert!(!lines(&["check", "object"]).contains("counter-in-halves"));
    assert!(lines(&["check", "object", "--mutants"]).contains("caught"));
    assert!(lines(&["check", "object/counter-in-halves"]).contains("caught"));
}

#[test]
fn a_mutant_that_survives_is_a_failure() {
    let words = ["check", "example/mcs-without-flush", "--ranks", "1"];
    let finished = farside(words).run();
    assert_eq!(finished.status.code(), Some(1));
    assert!(finished.stdout().contains("NOT FOUND"), "{}", finished.stdout());
}

/// The part of a line that stands behind a word.
fn value(text: &str, word: &str) -> String {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(word));
    line.unwrap_or_else(|| panic!("no {word} in {text}")).trim().to_owned()
}

#[test]
fn a_failure_comes_with_a_command_that_shows_it_again() {
    let scratch = Scratch::new();
    let json = scratch.file("check.json");
    farside(["check", "example/mcs-without-second-look", "--json", &json]).run().ends_with(0);
    let record = &records(&json)[0];
    let schedule = record["schedule"].as_str().expect("a schedule");
    let line = "check example/mcs-without-second-look --ranks 2 --rounds 1 --replay";
    let words = line.split(' ').chain([schedule]);
    let again = farside(words).run();
    assert_eq!(again.status.code(), Some(1));
    let (text, problem) = (again.stdout(), record["problem"].as_str().expect("a problem"));
    assert!(text.contains(problem) && text.contains("compare_swap"), "{text}");
}

#[test]
fn a_failure_is_described() {
    // A rank alone sees nothing, which is no outcome of this test.
    let finished = farside(["check", "litmus/message-passing", "--ranks", "1"]).run();
    assert_eq!(finished.status.code(), Some(1));
    let text = finished.stdout();
    assert!(text.contains("FAILED") && text.contains("forbidden"), "{text}");
    assert_eq!(value(&text, "job"), "1 rank, one node, 1 round");
    assert_eq!(value(&text, "policy "), "exhaustive, seed 1");
    let command = value(&text, "again");
    let words: Vec<String> =
        command.split(' ').skip(1).map(|word| word.replace('\'', "")).collect();
    let again = farside(&words).run();
    assert_eq!(again.status.code(), Some(1));
    assert!(again.stdout().contains("forbidden"), "{}", again.stdout());
}

#[test]
fn records_say_what_was_done() {
    let scratch = Scratch::new();
    let json = scratch.file("check.json");
    let line = "check object/counter --policy random --budget 0.2 --seed 7 --ranks 2 --json";
    farside(line.split(' ').chain([&*json])).run().ends_with(0);
    let records = records(&json);
    assert!(!records.is_empty());
    for record in records {
        assert_eq!(
            (&record["policy"], &record["seed"], &record["ranks"]),
            (&"random".into(), &7.into(), &2.into())
        );
        assert_eq!((&record["outcome"], &record["complete"]), (&"sampled".into(), &false.into()));
        assert!(record["schedules"].as_u64().is_some_and(|runs| runs > 0), "{record}");
    }
}

#[test]
fn what_a_limit_cut_off_is_not_called_exhaustive() {
    let scratch = Scratch::new();
    let json = scratch.file("check.json");
    for limit in [["--budget", "0"], ["--schedules", "2"]] {
        let words = ["check", "example/ticket", limit[0], limit[1], "--json", &json];
        let finished = farside(words).run().ends_with(0);
        let text = finished.stdout();
        assert!(
            text.contains("exhaustive, cut off") && text.contains("1 check: 1 bounded"),
            "{text}"
        );
        assert!(!text.contains(" exhaustive "), "{text}");
        let record = &records(&json)[0];
        assert_eq!((&record["outcome"], &record["complete"]), (&"bounded".into(), &false.into()));
        let finished = farside(words.into_iter().chain(["--fail-on-bounded"])).run();
        assert_eq!(finished.status.code(), Some(1), "{}", finished.stdout());
        assert!(finished.stdout().contains("stopped at a limit"), "{}", finished.stdout());
    }
    let words = ["check", "example/ticket", "--rounds", "1", "--fail-on-bounded"];
    let text = farside(words).run().ends_with(0).stdout();
    assert!(text.contains("1 check: 1 exhaustive"), "{text}");
    // What is exhaustive says what it leaves out.
    assert!(text.contains("no schedule covers: several threads of a rank"), "{text}");
}

#[test]
fn policies_and_deaths_can_be_chosen() {
    for policy in ["unreduced", "random", "pct:2"] {
        let line = "check object/counter-compare_swap --ranks 2 --budget 0.3 --policy";
        let finished = farside(line.split(' ').chain([policy])).run().ends_with(0);
        assert!(finished.stdout().contains(policy), "{}", finished.stdout());
    }
    let finished =
        farside(["check", "example/ticket", "--rounds", "1", "--deaths", "1"]).run().ends_with(0);
    assert!(finished.stdout().contains("up to 1 death"), "{}", finished.stdout());
}

#[test]
fn bad_values_of_options_are_named() {
    for (option, value) in [
        ("--ranks", "0"),
        ("--ranks", "many"),
        ("--policy", "pct:0"),
        ("--policy", "lucky"),
        ("--budget", "soon"),
        ("--topology", "ring"),
        ("--topology", "node:9"),
        ("--replay", "!"),
    ] {
        farside(["check", "litmus/tickets", option, value]).run().fails_with(&[value]);
    }
    farside(["check", "litmus", "--replay", "0"]).run().fails_with(&["one check"]);
    let scratch = Scratch::new();
    let json = scratch.file("nowhere/check.json");
    farside(["check", "litmus/tickets", "--json", &json])
        .run()
        .fails_with(&[&json, "cannot write"]);
}
