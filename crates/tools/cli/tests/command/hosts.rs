//! `farside run --hosts`: one job, several daemons. The hosts are this machine, reached through a
//! shell; `namespaces.rs` has others. What holds on one host and on several is tested for both in
//! `run.rs`, `failures.rs` and `endings.rs`.

use std::ffi::OsStr;
use std::fs::Permissions;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

use crate::support::{FARSIDE, Scratch, Start, ended, farside, sorted};
use rustix::process::Signal;

const HOSTS: &str = "a=127.0.0.1:2,b=127.0.0.2:2";
/// Reaches a host without going anywhere.
const LOCAL: &str = "sh -c 'exec \"$@\"' {host}";
/// Shell code that goes on for ever without a child that outlives it for long.
const FOR_EVER: &str = "while :; do sleep 0.05; done";

/// A job on two hosts, each rank of which is a shell that runs `script`.
fn shells(options: &[&str], script: &str) -> Start {
    farside(
        ["run", "--hosts", HOSTS, "--rsh", LOCAL]
            .iter()
            .chain(options)
            .chain(&["sh", "-c", script]),
    )
}

/// Like [`shells`], with another way to reach the hosts.
fn reached(rsh: &str, options: &[&str]) -> Start {
    farside(
        ["run", "--hosts", HOSTS, "--rsh", rsh].iter().chain(options).chain(&["echo", "started"]),
    )
}

#[test]
fn ranks_are_numbered_host_by_host() {
    // The shell that reaches a host says which one it is.
    let rsh = "sh -c 'HOST=$0 exec \"$@\"' {host}";
    let words = ["run", "--hosts", "a=127.0.0.1:3,b=127.0.0.2,c=127.0.0.3:2", "--rsh", rsh, "-l"];
    let script = "echo $HOST; echo $HOST >&2";
    let finished = farside(words.iter().chain(&["sh", "-c", script])).run().ends_with(0);
    let expected = ["[0] a", "[1] a", "[2] a", "[3] b", "[4] c", "[5] c"];
    assert_eq!(sorted(&finished.stdout()), expected);
    assert_eq!(sorted(&finished.stderr()), expected);
}

#[test]
fn ranks_are_dealt_out() {
    let job = "run -n 5 --hosts localhost,localhost --rsh".split(' ');
    let words = job.chain([LOCAL, "sh", "-c", "echo $PPID"]);
    let lines = farside(words).run().ends_with(0).lines();
    let mut counts: Vec<usize> =
        lines.iter().map(|daemon| lines.iter().filter(|&other| other == daemon).count()).collect();
    counts.sort_unstable();
    assert_eq!(counts, [2, 2, 3, 3, 3], "{lines:?}");
}

#[test]
fn bytes_that_are_no_text_pass_unchanged() {
    let job = "run --hosts a=127.0.0.1 --rsh".split(' ');
    let words = job.chain([LOCAL, "printf", "<%s>", "two  words", "", "*", "--help"]);
    let words = words.map(OsStr::new).chain([OsStr::from_bytes(b"\xff\n")]);
    let finished = farside(words).run().ends_with(0);
    assert_eq!(finished.stdout, b"<two  words><><*><--help><\xff\n>");
}

#[test]
fn the_environment_is_that_of_the_host_with_what_was_asked_for() {
    let bare = "sh -c 'exec env -i THERE=yes PATH=\"$PATH\" \"$@\"' {host}";
    let words =
        ["run", "--hosts", HOSTS, "--rsh", bare, "--env", "ASKED", "--env", "SET=two  words"];
    let script = "echo \"$THERE $HERE $ASKED $SET $FARSIDE_TEST_OWN ${NONE-none}\"";
    let job = farside(words.iter().chain(&["sh", "-c", script])).variable("HERE", "no");
    let finished =
        job.variable("ASKED", "yes").variable("FARSIDE_TEST_OWN", "own").run().ends_with(0);
    assert_eq!(finished.stdout(), "yes  yes two  words own none\n".repeat(4));
}

#[test]
fn the_directory_is_the_same_everywhere() {
    let scratch = Scratch::new();
    let elsewhere = "sh -c 'cd / && exec \"$@\"' {host}";
    let directory = scratch.path.canonicalize().expect("it is there");
    let words = ["run", "--hosts", HOSTS, "--rsh", elsewhere, "pwd"];
    let finished = farside(words).directory(&directory).run().ends_with(0);
    assert_eq!(finished.stdout(), format!("{}\n", directory.display()).repeat(4));
    let finished = shells(&["--directory", &scratch.file("")], "pwd -P").run().ends_with(0);
    assert_eq!(finished.stdout(), format!("{}\n", directory.display()).repeat(4));
    shells(&["--directory", "/no/such"], "pwd").run().fails_with(&[
        "host ",
        "/no/such",
        "--directory",
    ]);
    farside(["run", "-n", "2", "--directory", "/no/such", "pwd"]).run().fails_with(&["/no/such"]);
}

#[test]
fn a_program_that_does_not_exist_is_named_with_its_host() {
    let words = ["run", "--hosts", HOSTS, "--rsh", LOCAL, "no-such-program"];
    let finished = farside(words).run().fails_with(&["host ", "\"no-such-program\"", "PATH"]);
    assert_eq!(finished.stderr().lines().count(), 1, "{}", finished.stderr());
}

#[test]
fn a_daemon_that_is_killed_is_a_host_that_is_lost() {
    // The parent of a rank is the daemon of its host.
    let script = "[ $FARSIDE_RANK = 2 ] && kill -9 $PPID; sleep 1000 & wait";
    let finished = shells(&["--grace", "0.2"], script).run().ends_with(1);
    finished.says(&["host b is lost: ", "; with it ranks 2 and 3\n", &ended("ranks 0 and 1", 15)]);
}

#[test]
fn the_ranks_of_other_hosts_may_outlive_a_host() {
    let scratch = Scratch::new();
    // Nobody may have waited for a rank whose daemon is gone, so that its number is still there.
    let script =
        "if [ $FARSIDE_RANK = 2 ]; then echo $$ >new; mv new pid; kill -9 $PPID; sleep 1000; fi
        until [ -e pid ]; do sleep 0.01; done
        while grep -qs 'State:.[RSDT]' /proc/$(cat pid)/status; do sleep 0.01; done
        echo finished";
    let job = shells(&["--grace", "0", "--keep-going"], script).directory(&scratch.path);
    let finished = job.run().ends_with(1).says(&["host b is lost"]);
    assert!(finished.stdout().starts_with("finished\nfinished\n"), "{}", finished.stdout());
}

#[test]
fn a_daemon_that_is_asked_to_end_takes_its_ranks_along() {
    let script = "[ $FARSIDE_RANK = 2 ] && kill -TERM $PPID; setsid sleep 1000 & wait";
    let finished = shells(&["--grace", "0.2"], script).run().ends_with(1);
    finished.says(&["host b is lost: it was ended by a signal; with it ranks 2 and 3\n"]);
}

#[test]
fn a_daemon_that_does_nothing_any_more_is_not_waited_for() {
    let script =
        format!("trap '[ $FARSIDE_RANK != 2 ] || kill -STOP $PPID' USR1; echo ready; {FOR_EVER}");
    let mut running = shells(&["--timeout", "2"], &script).start();
    running.wait_for_lines("ready", 4);
    running.signal(Signal::USR1);
    let finished = running.wait().ends_with(124);
    finished.says(&["host b is lost: it did not end its ranks; with it ranks 2 and 3\n"]);
}

#[test]
fn a_launcher_that_is_killed_while_a_host_does_not_answer_leaves_nothing() {
    let mut running = reached("sh -c 'echo reached >&2; sleep 1000' {host}", &[]).start();
    running.wait_until_says("a: reached\n");
    running.wait_until_says("b: reached\n");
    running.signal(Signal::KILL);
    running.wait_until_nothing_is_left();
}

#[test]
fn a_job_that_is_called_off_while_a_host_does_not_answer_ends() {
    let mut running = reached("sh -c 'echo reached >&2; sleep 1000' {host}", &[]).start();
    running.wait_until_says("a: reached\n");
    running.signal(Signal::INT);
    running.wait().ends_with(128 + 2);
}

#[test]
fn a_host_that_does_not_answer_is_named() {
    let rsh = "sh -c 'if [ $0 = b ]; then sleep 1000; fi; exec \"$@\"' {host}";
    let finished = reached(rsh, &["--start-timeout", "1"]).run();
    let words = ["host b: did not answer within 1 s", "`sh -c ", "--start-timeout", "--rsh"];
    assert_eq!(finished.fails_with(&words).stdout(), "");
}

#[test]
fn a_host_that_cannot_be_reached_is_named() {
    let rsh = "sh -c 'if [ $0 = b ]; then echo refused >&2; exit 255; fi; exec \"$@\"' {host}";
    let finished = reached(rsh, &[]).run();
    let finished =
        finished.fails_with(&["b: refused\n", "host b: `sh -c ", "exited with status 255 before"]);
    assert_eq!(finished.stdout(), "");
    reached("/no/such/program {host}", &[])
        .run()
        .fails_with(&["host a: cannot start \"/no/such/program\""]);
}

#[test]
fn a_host_without_farside_is_named() {
    let finished = reached(LOCAL, &["--remote-farside", "/no/such/farside"]).run();
    finished.fails_with(&["farside: host ", "exited with status 127", "--remote-farside"]);
    let words =
        ["app", "hello", "--hosts", HOSTS, "--rsh", LOCAL, "--remote-farside", "/no/such/farside"];
    farside(words).run().fails_with(&["farside: host ", "--remote-farside"]);
}

#[test]
fn a_host_that_greets_its_users_is_understood() {
    let finished =
        reached("sh -c 'echo Welcome; echo to $0; exec \"$@\"' {host}", &[]).run().ends_with(0);
    assert_eq!(finished.stdout(), "started\n".repeat(4));
    assert_eq!(sorted(&finished.stderr()), ["a: Welcome", "a: to a", "b: Welcome", "b: to b"]);
}

#[test]
fn a_host_with_another_version_is_named() {
    let finished = reached("sh -c 'echo farside-node 9.9.9/1; cat >/dev/null' {host}", &[]).run();
    finished.fails_with(&[
        ": it runs farside 9.9.9/1",
        env!("CARGO_PKG_VERSION"),
        "--remote-farside",
    ]);
}

#[test]
fn a_host_that_talks_nonsense_is_named() {
    let greeting = format!("echo farside-node {}/11", env!("CARGO_PKG_VERSION"));
    for (nonsense, words) in
        [("\\377\\377\\377\\377x", "4294967295 bytes"), ("\\001\\000\\000\\000\\377", "decoded")]
    {
        let rsh = format!("sh -c '{greeting}; printf \"{nonsense}\"; cat >/dev/null' {{host}}");
        reached(&rsh, &[]).run().fails_with(&["farside: host ", words]);
    }
    reached("sh -c 'head -c 2000000 /dev/zero' {host}", &[])
        .run()
        .fails_with(&["not the greeting of farside"]);
}

#[test]
fn addresses_that_do_not_fit_are_named() {
    let run =
        |hosts: &str| farside(["run", "--hosts", hosts, "--rsh", LOCAL, "echo", "started"]).run();
    run("a=192.0.2.77,b=127.0.0.1").fails_with(&["host a: this host has no address 192.0.2.77"]);
}

#[test]
fn options_that_contradict_each_other_are_named() {
    let refused = |words: &[&str], names: &[&str]| {
        let finished = farside(["run"].iter().chain(words).chain(&["echo", "started"])).run();
        assert_eq!(finished.fails_with(names).stdout(), "");
    };
    refused(&["--hosts", "a", "--fabric", "shm"], &["--fabric shm", "nic"]);
    refused(&["-n", "2", "--nodes", "2", "--fabric", "shm"], &["--fabric shm", "nic"]);
    refused(&["-n", "2", "--nodes", "3"], &["--nodes 3", "2 ranks"]);
    refused(&["-n", "2", "--nodes", "0"], &["--nodes", "at least one"]);
    refused(&["--hosts", "a,b", "--nodes", "2"], &["--hosts", "--nodes"]);
    refused(&["--hosts", "a,b", "-n", "1"], &["--hosts lists at least 2 ranks", "-n asks for 1"]);
    refused(&["--hosts", "a", "--rsh", "ssh"], &["\"ssh\"", "{host}"]);
    refused(&["--hosts", "a", "--start-timeout", "soon"], &["soon"]);
    refused(&["-n", "2", "--remote-farside", "/x"], &["--hosts"]);
    refused(&["-n", "2", "--env", "=x"], &["NAME=VALUE"]);
}

#[test]
fn ssh_asks_for_nothing_and_leaves_nothing_behind() {
    let scratch = Scratch::new();
    let ssh = "#!/bin/sh\necho \"$@\" >\"$(dirname \"$0\")/words\"\n\
               while [ $1 = -o ]; do shift 2; done; shift; exec \"$@\"\n";
    std::fs::write(scratch.file("ssh"), ssh).expect("a file can be written");
    std::fs::set_permissions(scratch.file("ssh"), Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", scratch.path.display(), std::env::var("PATH").unwrap());
    let job = farside(["run", "--hosts", "a=127.0.0.1:1", "echo", "started"]);
    assert_eq!(job.variable("PATH", path).run().ends_with(0).stdout(), "started\n");
    let words = std::fs::read_to_string(scratch.file("words")).expect("ssh was called");
    assert!(words.starts_with("-o BatchMode=yes -o ControlMaster=no a "), "{words}");
}

#[test]
fn hosts_of_different_families_are_named() {
    let hosts = "a=127.0.0.1:1,b=[::1]:1";
    let job = farside(["run", "--hosts", hosts, "--rsh", LOCAL, "echo", "started"]);
    job.run().fails_with(&["host b: ", "::1", "host a is 127.0.0.1", "b=ADDRESS:RANKS"]);
    // Two that have one name are told apart, and the way out is what the option takes.
    let hosts = "a=127.0.0.1:1,a=[::1]:1";
    let job = farside(["run", "--hosts", hosts, "--rsh", LOCAL, "echo", "started"]);
    job.run().fails_with(&["host a (node 1): ", "another one: a=ADDRESS:RANKS"]);
}

#[test]
fn the_template_may_come_from_the_environment() {
    let job = farside(["run", "--hosts", HOSTS, "echo", "started"]).variable("FARSIDE_RSH", LOCAL);
    assert_eq!(job.run().ends_with(0).stdout(), "started\n".repeat(4));
}

#[test]
fn a_reader_that_stalls_keeps_no_rank_alive() {
    let mut running = shells(&["--timeout", "1"], "yes").stall().start();
    running.wait_until_says("still running: ranks 0-3\n");
    running.wait_until_nothing_is_left();
    running.read_on();
    running.wait().ends_with(124);
}

#[test]
fn the_end_of_a_rank_is_noticed_although_nobody_reads_the_output_of_its_host() {
    // sleep: until then, the output of the other one has come as far as it can.
    let script = "[ $FARSIDE_RANK = 1 ] || exec yes; sleep 1; exit 7";
    let mut running = shells(&["--keep-going"], script).stall().start();
    running.wait_until_says("rank 1 exited with status 7\n");
    running.signal(Signal::TERM);
    running.wait_until_nothing_is_left();
    running.read_on();
    running.wait().ends_with(7);
}

#[test]
fn a_job_spans_hosts_from_inside_of_a_job() {
    let inner =
        format!("'{FARSIDE}' run --hosts {HOSTS} --rsh \"$RSH\" sh -c 'echo $FARSIDE_RANK'");
    let job = farside(["run", "-n", "1", "sh", "-c", &inner]).variable("RSH", LOCAL);
    assert_eq!(sorted(&job.run().ends_with(0).stdout()), ["0", "1", "2", "3"]);
}
