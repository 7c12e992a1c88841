//! Commands that run in virtual time.

use super::measured::measured;
use crate::support::{Scratch, farside, farside_after};

#[test]
fn an_app_runs_on_a_simulated_machine() {
    let run = |seed: &str| {
        let finished = farside(["app", "hello", "-n", "40", "--sim", "aries-xc30", "--seed", seed])
            .run()
            .ends_with(0);
        let text = finished.stdout();
        let last = text.lines().last().unwrap_or_default().to_owned();
        assert!(
            last.contains("40 ranks on aries-xc30: ") && last.contains(" us of virtual time"),
            "{text}"
        );
        last
    };
    assert_eq!(run("1"), run("1"), "one seed, one run");
    assert_ne!(run("1"), run("2"), "another seed, another run");
}

#[test]
fn a_trace_is_written_for_people_and_for_programs() {
    let scratch = Scratch::new();
    for (name, begins) in [("hello.html", "<!doctype html>"), ("hello.json", "{")] {
        let path = &*scratch.file(name);
        for kind in [&["--sim", "infiniband-ndr"][..], &["--threads"]] {
            let words = ["app", "hello", "-n", "16", "--trace", path];
            let said = farside(words.iter().chain(kind)).run().ends_with(0).stderr();
            assert!(said.starts_with(&format!("farside: {path}: ")), "{said:?}");
            assert!(said.ends_with(" operations\n"), "{said:?}");
        }
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.trim_start().starts_with(begins), "{name} begins with {:?}", &text[..40]);
    }
}

#[test]
fn a_bench_runs_on_a_simulated_machine() {
    let line = "ops --sim myrinet-lanai4 --ranks 4 --cases fetch_add,barrier --time 5";
    let (_, table) = measured(line, &[]);
    assert!(table.contains("fetch_add") && table.contains("barrier"), "{table}");
}

#[test]
fn simulated_ranks_are_divided_into_nodes() {
    let finished = farside(["app", "hello", "-n", "4", "--sim", "aries-xc30", "--nodes", "2"])
        .run()
        .ends_with(0);
    assert!(finished.stdout().contains("2 nodes, 4 ranks"), "{}", finished.stdout());
    let on = |words: &[&str]| {
        farside(["app", "hello", "-n", "4", "--sim", "aries-xc30"].iter().chain(words)).run()
    };
    on(&["--nodes", "5"]).fails_with(&["--nodes 5", "4 ranks"]);
    on(&["--nodes", "2", "--topology", "node:4"]).fails_with(&["--nodes 2", "--topology node:4"]);
    on(&["--server", "butler"]).fails_with(&["butler", "host-block"]);
    on(&["--server", "host-block"]).ends_with(0);
    for (option, value) in [("--fabric", "nic"), ("--memory", "1G"), ("--hosts", "a")] {
        on(&[option, value]).fails_with(&[option, "--sim"]);
    }
}

#[test]
fn where_a_trace_cannot_be_written_nothing_runs() {
    let scratch = Scratch::new();
    let path = scratch.file("nowhere/hello.html");
    let finished =
        farside(["app", "hello", "-n", "4", "--sim", "aries-xc30", "--trace", &path]).run();
    assert_eq!(finished.stdout(), "", "nothing runs");
    finished.fails_with(&[&path, "cannot write"]);
    // Neither is anything left behind, nor is anything lost.
    let (new, old) = (scratch.file("new.html"), scratch.file("old.html"));
    std::fs::write(&old, "an older trace").unwrap();
    for path in [&new, &old] {
        let line = "app hello -n 4 --sim aries-xc30 --server butler --trace";
        farside(line.split(' ').chain([&**path])).run().fails_with(&["butler"]);
    }
    assert!(!std::path::Path::new(&new).exists());
    assert_eq!(std::fs::read_to_string(&old).unwrap(), "an older trace");
}

#[test]
fn a_profile_that_cannot_be_read_is_named_by_its_file() {
    let scratch = Scratch::new();
    let whole = include_str!("../../../../verification/sim/profiles/aries-xc30.toml");
    // An entry may have several lines; those after the first are indented.
    let (before, entry) = whole.split_once("\nspin_ns").unwrap();
    let rest = entry.split_inclusive('\n').skip(1).skip_while(|line| line.starts_with(' '));
    let without = format!("{before}\n{}", rest.collect::<String>());
    for (name, text, problem) in [
        ("torn.toml", "name = \n", "line 1"),
        ("flat.toml", &whole.replace("\"machine\"", "\"planet\""), "\"machine\""),
        ("few.toml", &without, "spin_ns"),
    ] {
        let path = scratch.file(name);
        std::fs::write(&path, text).unwrap();
        farside(["app", "hello", "-n", "4", "--sim", &path]).run().fails_with(&[&path, problem]);
    }
}

#[test]
fn a_limit_that_leaves_no_stack_for_a_rank_comes_with_the_way_out() {
    let words = ["app", "hello", "-n", "60000", "--sim", "aries-xc30"];
    let finished = farside_after("ulimit -v 4000000", words).run();
    finished.fails_with(&["no memory for the stacks", "`ulimit -v` allows", "simulate at most "]);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let unknown = farside(["app", "hello", "-n", "4", "--sim", "cray"]).run();
    unknown.fails_with(&["cray", "aries-xc30", ".toml"]);
    farside(["app", "hello", "-n", "4", "--seed", "3"]).run().fails_with(&["--sim"]);
    farside(["bench", "ops", "--sim", "ibm-sp", "--against", "mpich"])
        .run()
        .fails_with(&["--against", "--sim"]);
}
