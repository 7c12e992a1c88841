//! `farside app`: the built-in programs, jobs inside of jobs, and what the environment says about
//! jobs.

use crate::support::{FARSIDE, Finished, Start, farside, sorted};
use rustix::process::Signal;

/// Asserts that `hello` greeted each rank by its left neighbour.
fn greets(finished: &Finished, ranks: u32) {
    let stdout = finished.stdout();
    for rank in 0..ranks {
        let left = (rank + ranks - 1) % ranks;
        let greeting = format!(
            "in the memory of rank {rank}: \"hello, rank {rank}, this is rank {left} (process "
        );
        assert_eq!(stdout.matches(&greeting).count(), 1, "{greeting} in {stdout}");
    }
    assert_eq!(stdout.matches("in the memory of").count(), ranks as usize, "{stdout}");
}

#[test]
fn ranks_greet_each_other() {
    for ranks in [1, 2, 4] {
        greets(&farside(["app", "hello", "-n", &ranks.to_string()]).run().ends_with(0), ranks);
    }
}

#[test]
fn many_ranks_greet_each_other() {
    greets(&farside(["app", "hello", "-n", "64"]).run().ends_with(0), 64);
}

#[test]
fn a_program_that_does_not_exist_is_named() {
    farside(["app", "goodbye", "-n", "2"]).run().fails_with(&["\"goodbye\"", "hello"]);
}

#[test]
fn an_argument_that_a_program_does_not_take_is_named() {
    let finished =
        farside(["app", "hello", "-n", "2", "--", "loudly"]).run().fails_with(&["\"loudly\""]);
    assert_eq!(
        finished.stderr().lines().count(),
        1,
        "once, and not once for each rank: {}",
        finished.stderr()
    );
}

#[test]
fn an_option_of_the_job_behind_those_of_the_program_is_explained() {
    for (words, option) in [
        (&["lu", "-n", "2", "--size", "64", "--sim", "aries-xc30"][..], "--sim"),
        (&["sor", "-n", "2", "--size=20x20", "--nodes=2"], "--nodes=2"),
        (&["sor", "-n", "2", "--", "-l"], "-l"),
    ] {
        let finished = farside(["app"].iter().chain(words)).run();
        let finished = finished.fails_with(&[
            &format!("{option} is an option of the job"),
            "before the program's own",
        ]);
        assert_eq!(finished.stderr().lines().count(), 1, "{}", finished.stderr());
    }
    // What the job does not have either is not said to be its.
    let finished =
        farside(["app", "lu", "-n", "2", "--sise", "64"]).run().fails_with(&["--sise", "--size"]);
    assert!(!finished.stderr().contains("of the job"), "{}", finished.stderr());
}

#[test]
fn a_program_says_what_it_takes() {
    for words in
        [&["sor", "-n", "2", "--", "--help"][..], &["sor", "-n", "2", "--size", "20x20", "--help"]]
    {
        let finished = farside(["app"].iter().chain(words)).run().ends_with(0);
        let text = finished.stdout();
        assert_eq!(
            text.matches("--iterations").count(),
            1,
            "once, and not once for each rank: {text}"
        );
        assert!(text.contains("--barrier") && !text.contains("__rank"), "{text}");
    }
    for words in [&["sor", "--help"][..], &["sor", "-h"], &["sor", "-n", "2", "--help"]] {
        let own = farside(["app"].iter().chain(words)).run().ends_with(0).stdout();
        assert!(own.starts_with("sor: ") && own.contains("--iterations"), "{own}");
        assert!(!own.contains("--start-timeout") && !own.contains("wordcount"), "{own}");
    }
    let hello = farside(["app", "hello", "--help"]).run().ends_with(0).stdout();
    assert!(hello.starts_with("hello: "), "{hello}");
    farside(["app", "goodbye", "--help"]).run().fails_with(&["\"goodbye\"", "hello"]);
    let all = farside(["app", "--help"]).run().ends_with(0).stdout();
    for word in [
        "Arguments of fft3d, barnes, barnes-zones, sor, jacobi, tsp:",
        "--iterations",
        "Arguments of lu:",
        "--block",
    ] {
        assert!(all.contains(word), "{word:?} is not in {all}");
    }
}

#[test]
fn a_job_inside_a_job_works() {
    let finished = farside(["run", "-n", "2", "-l", FARSIDE, "app", "hello", "--ranks", "2"])
        .run()
        .ends_with(0);
    for outer in 0..2 {
        for inner in 0..2 {
            let line = format!("[{outer}]   in the memory of rank {inner}: ");
            assert_eq!(
                finished.stdout().matches(&line).count(),
                1,
                "{line} in {}",
                finished.stdout()
            );
        }
    }
}

/// A job whose ranks each are the launcher of a job that does not end.
fn endless() -> Start {
    let inner = [FARSIDE, "run", "--ranks=2", "--", "sh", "-c", "echo ready; sleep 1000"];
    farside(["run", "-n", "2"].into_iter().chain(inner))
}

#[test]
fn a_job_inside_a_job_fails_as_a_whole() {
    let finished =
        farside(["run", "-n", "2", "-l", FARSIDE, "run", "--ranks=2", "--", "sh", "-c", "exit 5"])
            .run();
    let of_inner = [
        "[0] farside: rank 0 exited with status 5\n",
        "[1] farside: rank 1 exited with status 5\n",
    ];
    let finished = finished.ends_with(5).says(&of_inner);
    let own: Vec<String> =
        sorted(&finished.stderr()).into_iter().filter(|line| !line.starts_with('[')).collect();
    assert_eq!(
        own,
        ["farside: rank 0 exited with status 5", "farside: rank 1 exited with status 5"]
    );
}

#[test]
fn a_job_inside_a_job_ends_with_it() {
    let mut running = endless().start();
    running.wait_for_lines("ready", 4);
    running.signal(Signal::TERM);
    running.wait().fails_with(&["ranks 0 and 1"]);
}

#[test]
fn a_job_inside_a_job_does_not_survive_the_outer_launcher() {
    let mut running = endless().start();
    running.wait_for_lines("ready", 4);
    running.signal(Signal::KILL);
    running.wait_until_nothing_is_left();
}

#[test]
fn the_topology_can_be_pretended() {
    let finished =
        farside(["app", "hello", "-n", "4", "--topology", "node:2,socket:2"]).run().ends_with(0);
    assert!(finished.stdout().contains("2 nodes, 4 sockets, 4 ranks"), "{}", finished.stdout());
    let finished = farside(["app", "hello", "-n", "4"])
        .variable("FARSIDE_TOPOLOGY", "node:4")
        .run()
        .ends_with(0);
    assert!(finished.stdout().contains("4 nodes, 4 ranks"), "{}", finished.stdout());
    // What is said on the command line holds.
    let both = farside(["app", "hello", "-n", "4", "--topology", "node:2"])
        .variable("FARSIDE_TOPOLOGY", "node:4");
    assert!(both.run().ends_with(0).stdout().contains("2 nodes, 4 ranks"));
}

#[test]
fn memory_can_be_limited() {
    for limited in [
        farside(["app", "hello", "-n", "2", "--memory", "4K"]),
        farside(["app", "hello", "-n", "2"]).variable("FARSIDE_MEMORY", "4K"),
    ] {
        limited.run().fails_with(&["4096 bytes of shared memory", "--memory", "FARSIDE_MEMORY"]);
    }
    let enough =
        farside(["app", "hello", "-n", "2", "--memory", "16M"]).variable("FARSIDE_MEMORY", "4K");
    greets(&enough.run().ends_with(0), 2);
}

#[test]
fn bad_values_in_the_environment_are_named() {
    for (name, value) in [
        ("FARSIDE_MEMORY", "plenty"),
        ("FARSIDE_MEMORY", "-1"),
        ("FARSIDE_TOPOLOGY", "ring"),
        ("FARSIDE_TOPOLOGY", "node:9"),
        ("FARSIDE_CORES", "few"),
        ("FARSIDE_CORES", "0"),
    ] {
        let finished = farside(["app", "hello", "-n", "2"]).variable(name, value).run();
        finished.fails_with(&[&format!("{value:?}")]);
    }
}

#[test]
fn an_empty_variable_is_as_good_as_none() {
    for name in ["FARSIDE_MEMORY", "FARSIDE_TOPOLOGY", "FARSIDE_CORES"] {
        greets(&farside(["app", "hello", "-n", "2"]).variable(name, "").run().ends_with(0), 2);
    }
}

#[test]
fn nothing_is_lost_under_any_lock() {
    for fabric in [&["--timeout", "60"][..], &["--threads"], &["--sim", "aries-xc30"]] {
        let words = ["app", "count", "-n", "8"].iter().chain(fabric).chain(&["--", "50"]);
        let finished = farside(words.copied()).run().ends_with(0);
        assert_eq!(
            finished.stdout().matches(" 400 increments, all there").count(),
            17,
            "{}",
            finished.stdout()
        );
    }
    farside(["app", "count", "-n", "2", "--", "5", "bakery"])
        .run()
        .fails_with(&["\"bakery\"", "d-mcs"]);
}
