//! What the command line takes, and what becomes of one that is wrong.

use crate::support::{Scratch, farside, shells};

#[test]
fn np_means_ranks_as_it_does_for_other_launchers() {
    for options in [&["-np", "3"][..], &["--np", "3"], &["--np=3"], &["-l", "-np", "3"]] {
        let finished = shells(options, "echo here").run().ends_with(0);
        assert_eq!(finished.lines().len(), 3, "{options:?}: {}", finished.stdout());
    }
    for words in
        [&["app", "hello", "-np", "2"][..], &["app", "--timeout", "50", "--np", "2", "hello"]]
    {
        let finished = farside(words).run().ends_with(0);
        assert!(finished.stdout().contains("2 ranks"), "{words:?}: {}", finished.stdout());
    }
    // The value of another option is not looked at, and what is wrong is named.
    let given = shells(&["--env", "NP=-np", "-np", "1"], "echo $NP").run().ends_with(0);
    assert_eq!(given.stdout(), "-np\n");
    farside(["run", "-np", "zero", "true"]).run().ends_with(2).says(&["'zero'", "--ranks <N>"]);
}

#[test]
fn np_of_the_program_is_the_programs() {
    for words in [
        &["run", "-n", "2", "echo", "-np", "4"][..],
        &["run", "-n", "2", "--", "echo", "-np", "4"],
        &["run", "-np", "2", "echo", "-np", "4"],
    ] {
        let finished = farside(words).run().ends_with(0);
        assert_eq!(finished.stdout(), "-np 4\n-np 4\n", "{words:?}");
    }
    farside(["app", "irregular", "-n", "2", "--", "-np"]).run().ends_with(2).says(&["\"-np\""]);
}

#[test]
fn a_wrong_command_line_ends_with_status_2() {
    let hosts = |list: &'static str| ["run", "-n", "3", "--hosts", list, "true"];
    for words in [
        &["run", "-n", "4", "--nodes", "8", "true"][..],
        &["run", "-n", "2", "--sim", "no-such-profile", "true"],
        &["run", "-n", "2", "--sim", "aries-xc30", "--label", "true"],
        &["run", "-n", "2", "--threads", "--fabric", "nic", "true"],
        &["run", "-n", "2", "--topology", "node:3", "true"],
        &["run", "-n", "2", "--topology", "bad", "true"],
        &["run", "-n", "2", "--nodes", "2", "--server", "nobody", "true"],
        &["run", "-n", "2", "--nodes", "2", "--fabric", "shm", "true"],
        &["run", "-n", "5000", "true"],
        &hosts("a:4,b:4"),
        &hosts("a:4,-b"),
        &["run", "--hosts", "a,b", "--rsh", "ssh", "true"],
        &["app", "goodbye", "-n", "2"],
        &["app", "lu", "-n", "2", "--", "--nonsense"],
        &["bench", "ops", "--ranks", "2", "--cases", "nonsense"],
        &["bench", "ops", "--ranks", "2", "--sim", "no-such-profile"],
        &["bench", "ops", "--ranks", "2", "--threads"],
        &["bench", "ops", "--ranks", "2", "--against", "nobody"],
        &["bench", "ops", "--ranks", "2", "--rounds", "0"],
        &["figures", "--only", "NO/SUCH"],
        &["run", "-n", "two", "true"],
    ] {
        let finished = farside(words).run();
        assert_eq!(finished.status.code(), Some(2), "{words:?}: {}", finished.stderr());
        finished.leaves_nothing();
    }
}

#[test]
fn what_the_command_line_is_not_to_blame_for_ends_with_status_1() {
    let scratch = Scratch::new();
    let missing = scratch.file("no/such/directory/x.json");
    for words in [
        &["run", "-n", "2", "./no-such-program"][..],
        &["run", "-n", "2", "--trace", &missing, "true"],
        &["figures", "--from", &missing],
    ] {
        let finished = farside(words).run();
        assert_eq!(finished.status.code(), Some(1), "{words:?}: {}", finished.stderr());
    }
}

#[test]
fn the_fabric_that_the_environment_names_is_taken_or_refused() {
    let named = |fabric: &str, options: &[&str]| {
        shells(options, "echo $FARSIDE_FABRIC").variable("FARSIDE_FABRIC", fabric).run()
    };
    named("foo", &["-n", "2"]).ends_with(2).says(&["FARSIDE_FABRIC", "\"foo\"", "shm, nic, ofi"]);
    named("shm", &["-n", "2", "--nodes", "2"]).ends_with(2).says(&["FARSIDE_FABRIC=shm"]);
    assert_eq!(named("nic", &["-n", "1"]).ends_with(0).stdout(), "nic\n");
    assert_eq!(named("foo", &["-n", "1", "--fabric", "shm"]).ends_with(0).stdout(), "shm\n");
    assert_eq!(named("", &["-n", "1"]).ends_with(0).stdout(), "shm\n");
}

#[test]
fn a_rank_may_start_a_job_of_its_own_on_another_fabric() {
    let own = crate::support::FARSIDE;
    let inner = format!("'{own}' run -n 2 --nodes 2 sh -c 'echo $FARSIDE_FABRIC'");
    assert_eq!(shells(&["-n", "1"], &inner).run().ends_with(0).stdout(), "nic\nnic\n");
}

#[test]
fn a_file_that_is_not_there_is_not_asked_which_mpi_it_uses() {
    for program in ["./nothing", "no-such-program-anywhere"] {
        let finished = farside(["preload", program]).run();
        finished.fails_with(&[program, "no such"]);
    }
    let scratch = Scratch::new();
    let there = scratch.file("there");
    std::fs::write(&there, "text").expect("a file can be written");
    farside(["preload", &there]).run().fails_with(&["which MPI", "--mpi"]);
}

#[test]
fn a_program_that_is_not_in_the_directory_is_looked_for_where_that_is_said() {
    let scratch = Scratch::new();
    let directory = scratch.file("");
    let finished = farside(["run", "-n", "2", "--directory", &directory, "./nothing"]).run();
    finished.fails_with(&["\"./nothing\"", "no such file", &directory]);
}
