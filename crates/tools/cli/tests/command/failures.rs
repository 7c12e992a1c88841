//! What the exit status and standard error say when a job fails, or cannot be started at all.

use std::os::unix::fs::PermissionsExt;

use crate::support::{FOUR, Scratch, ended, farside, farside_after, shells};

#[test]
fn a_job_in_which_all_is_well_ends_with_zero_and_says_nothing() {
    let finished = farside(["run", "-n", "3", "true"]).run().ends_with(0);
    assert_eq!((finished.stdout(), finished.stderr()), (String::new(), String::new()));
}

#[test]
fn the_status_of_a_failed_rank_is_that_of_the_job() {
    for (options, status) in FOUR.iter().flat_map(|options| [1, 7, 255].map(|it| (options, it))) {
        let script = format!("[ $FARSIDE_RANK != 2 ] || exit {status}");
        let finished = shells(options, &script).run().ends_with(status);
        // The others did not fail.
        assert_eq!(finished.stderr(), format!("farside: rank 2 exited with status {status}\n"));
    }
}

#[test]
fn a_signal_that_ended_a_rank_is_in_the_status() {
    for (name, number) in [("KILL", 9), ("SEGV", 11), ("TERM", 15)] {
        // The core that a SIGSEGV may leave is of no use to anybody.
        let script = format!("ulimit -c 0; [ $FARSIDE_RANK != 1 ] || kill -{name} $$");
        for options in FOUR {
            shells(options, &script)
                .run()
                .ends_with(128 + number)
                .says(&[&ended("rank 1", number)]);
        }
    }
}

#[test]
fn the_first_failure_wins() {
    let scratch = Scratch::new();
    // Rank 0 fails when the process of rank 1 is gone, that is, when the launcher has heard of its
    // end.
    let script = "if [ $FARSIDE_RANK = 1 ]; then echo $$ >new; mv new pid; exit 7; fi
        until [ -e pid ]; do sleep 0.01; done
        while [ -d /proc/$(cat pid) ]; do sleep 0.01; done
        exit 3";
    let finished = shells(&["-n", "2"], script).directory(&scratch.path).run().ends_with(7);
    assert_eq!(
        finished.stderr(),
        "farside: rank 1 exited with status 7\nfarside: rank 0 exited with status 3\n"
    );
}

#[test]
fn ranks_that_hang_after_a_failure_are_ended() {
    for options in FOUR {
        for (hang, signal) in [("sleep 1000", 15), ("trap '' TERM; while :; do sleep 0.1; done", 9)]
        {
            let script = format!("[ $FARSIDE_RANK = 1 ] && exit 7; {hang}");
            let finished = shells(&[options, &["--grace", "0.2"]].concat(), &script).run();
            let said = ["rank 1 exited with status 7\n", &ended("ranks 0, 2 and 3", signal)];
            finished.ends_with(7).says(&said);
        }
    }
}

#[test]
fn ranks_may_end_in_their_own_way_after_a_failure() {
    let script = "trap 'echo asked; exit 0' TERM; echo ready; read line && exit 7; while :; do \
                  sleep 0.01; done";
    let script = format!("[ $FARSIDE_RANK = 0 ] || exec </dev/null; {script}");
    let (mut running, input) = shells(&["-n", "3", "--grace", "0.1"], &script).start_with_input();
    running.wait_for_lines("ready", 3);
    std::io::Write::write_all(&mut { input }, b"fail\n").expect("the launcher reads");
    let finished = running.wait().ends_with(7);
    assert_eq!(finished.stdout().matches("asked\n").count(), 2, "{}", finished.stdout());
}

#[test]
fn ranks_within_their_grace_finish() {
    let scratch = Scratch::new();
    // Rank 0 goes on after the launcher has heard of the failure, and has all the time that it
    // needs.
    let script = "if [ $FARSIDE_RANK = 1 ]; then echo $$ >new; mv new pid; exit 7; fi
        until [ -e pid ]; do sleep 0.01; done
        while [ -d /proc/$(cat pid) ]; do sleep 0.01; done
        echo finished";
    let hosts = ["--hosts", "a=127.0.0.1:1,b=127.0.0.2:1", "--rsh", "env HOST={host}"];
    for options in [
        ["-n", "2", "--grace", "1000"].as_slice(),
        &["-n", "2", "--grace", "0", "--keep-going"],
        &[&hosts[..], &["--grace", "0", "--keep-going"]].concat(),
    ] {
        let finished = shells(options, script).directory(&scratch.path).run().ends_with(7);
        assert_eq!(finished.stdout(), "finished\n");
        assert_eq!(finished.stderr(), "farside: rank 1 exited with status 7\n");
        std::fs::remove_file(scratch.path.join("pid")).expect("rank 1 wrote it");
    }
}

#[test]
fn a_program_that_does_not_exist_is_named() {
    farside(["run", "-n", "4", "no-such-program"]).run().fails_with(&[
        "\"no-such-program\"",
        "PATH",
        "./NAME",
    ]);
    farside(["run", "-n", "4", "./no/such/program"])
        .run()
        .fails_with(&["\"./no/such/program\"", "no such file"]);
}

#[test]
fn a_program_that_cannot_be_executed_is_named() {
    let scratch = Scratch::new();
    let file = scratch.file("plain");
    std::fs::write(&file, "#!/bin/sh\n").expect("a file can be written");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644))
        .expect("permissions can be set");
    farside(["run", "-n", "4", &file]).run().fails_with(&[&file, "executable"]);
    let directory = scratch.file("");
    farside(["run", "-n", "4", &directory]).run().fails_with(&[&directory, "executable"]);
}

#[test]
fn bad_values_of_options_are_named() {
    for (option, value) in [
        ("-n", "0"),
        ("-n", "-1"),
        ("-n", "abc"),
        ("-n", "1.5"),
        ("-n", "99999999999"),
        ("-n", "5000"),
        ("--fabric", "nope"),
        ("--memory", "nonsense"),
        ("--memory", "0"),
        ("--topology", "bad"),
        ("--topology", "node:3"),
        ("--timeout", "abc"),
        ("--timeout", "nan"),
        ("--timeout", "-1"),
        ("--timeout", "0"),
        ("--env", "A B"),
        ("--env", "A B=c"),
        ("--env", "NO_SUCH_VARIABLE_HERE"),
        ("--grace", "later"),
    ] {
        let ranks = if option == "-n" { vec![] } else { vec!["-n", "2"] };
        let words = ["run"].into_iter().chain(ranks).chain([option, value, "echo", "started"]);
        let finished = farside(words).run();
        assert_eq!(finished.stdout(), "", "{option} {value}");
        finished.fails_with(&[value]);
    }
}

#[test]
fn what_is_missing_is_named() {
    farside(["run", "true"]).run().fails_with(&["--ranks"]);
    farside(["run", "-n", "2"]).run().fails_with(&["PROGRAM"]);
    farside(["app", "hello"]).run().fails_with(&["--ranks"]);
    farside(["app", "-n", "2"]).run().fails_with(&["NAME"]);
    farside(["run", "-n", "2", "--fly", "true"]).run().fails_with(&["--fly"]);
    farside(["fly"]).run().fails_with(&["'fly'"]);
}

#[test]
fn a_job_without_ranks_or_without_time_is_told_what_it_lacks() {
    farside(["run", "-n", "-1", "echo", "started"])
        .run()
        .fails_with(&["'-1'", "at least one rank"]);
    farside(["run", "-n", "2", "--timeout", "0", "echo", "started"])
        .run()
        .fails_with(&["--timeout", "more than 0"]);
    let unset = ["run", "-n", "2", "--env", "NO_SUCH_VARIABLE_HERE", "echo", "started"];
    farside(unset).run().fails_with(&["NO_SUCH_VARIABLE_HERE=VALUE"]);
}

#[test]
fn too_few_open_files_come_with_advice() {
    for files in ["8", "10", "16"] {
        let limited =
            farside_after(&format!("ulimit -n {files}"), ["run", "-n", "2", "echo", "started"]);
        limited.run().fails_with(&["Too many open files", "ulimit -n 4096"]);
    }
}

#[test]
fn a_job_fits_into_a_limited_address_space() {
    for options in [["-n", "2"].as_slice(), &["-n", "4", "--nodes", "2"]] {
        let hello = ["app", "hello"].iter().chain(options);
        farside_after("ulimit -v 4000000", hello).run().ends_with(0);
    }
}

#[test]
fn memory_that_an_address_space_has_no_room_for_is_named_with_the_limit() {
    let words = ["app", "hello", "-n", "2", "--memory", "64G"];
    let finished = farside_after("ulimit -v 4000000", words).run();
    finished.fails_with(&[
        "address space",
        "4096000000 bytes (3.81 GiB)",
        "68719476736 bytes (64 GiB)",
        "--memory",
        "FARSIDE_MEMORY",
    ]);
}

#[test]
fn a_window_that_an_address_space_has_no_room_for_blames_the_limit_of_that() {
    // Room for 500 MB of each rank, and the array needs 800 MB of one.
    let words = ["app", "lu", "-n", "1", "--", "--size", "10000"];
    let finished = farside_after("ulimit -v 1000000", words).run();
    let said = finished.stderr();
    finished.fails_with(&["ulimit -v", "1024000000 bytes (977 MiB)"]);
    assert!(!said.contains("--memory"), "{said}");
    // A limit that the user has set is the one to raise.
    let words = ["app", "lu", "-n", "1", "--memory", "100M", "--", "--size", "10000"];
    let finished = farside_after("ulimit -v 1000000", words).run();
    finished.fails_with(&["104857600 bytes (100 MiB)", "--memory", "FARSIDE_MEMORY"]);
}

#[test]
fn a_variable_that_is_misspelt_is_named_with_the_one_that_was_meant() {
    let finished =
        shells(&["-n", "2"], "echo ready").variable("FARSIDE_MEMROY", "1G").run().ends_with(0);
    let said = finished.stderr();
    assert_eq!(said.matches("FARSIDE_MEMROY").count(), 1, "{said}");
    assert!(said.contains("FARSIDE_MEMORY"), "{said}");
    let given =
        shells(&["-n", "2", "--env", "FARSIDE_TOPOLGY=node:2"], "echo ready").run().ends_with(0);
    given.says(&["FARSIDE_TOPOLGY", "FARSIDE_TOPOLOGY"]);
}
