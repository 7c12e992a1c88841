//! However a job ends, nothing of it is left: time is up, a signal comes, nobody reads, the
//! launcher is killed.

use std::os::unix::process::ExitStatusExt;

use crate::support::{
    FARSIDE, FOUR, Scratch, Start, ended, farside, farside_after, launcher, shells, sorted,
};
use rustix::process::Signal;

/// Shell code that goes on for ever without a child that outlives it for long.
const FOR_EVER: &str = "while :; do sleep 0.05; done";

/// Options of jobs with two ranks, on one host and on two.
const TWO: [&[&str]; 2] =
    [&["-n", "2"], &["--hosts", "a=127.0.0.1:1,b=127.0.0.2:1", "--rsh", "env HOST={host}"]];

#[test]
fn ranks_that_end_alike_are_one_line() {
    for options in FOUR {
        let timed = [options, &["--timeout", "2"]].concat();
        let finished = shells(&timed, "exec sleep 1000").run().ends_with(124);
        let said = "farside: timed out after 2 s; still running: ranks 0-3\n";
        assert_eq!(finished.stderr(), format!("{said}{}", ended("ranks 0-3", 15)), "{options:?}");

        let mut running = shells(options, "echo ready; exec sleep 1000").start();
        running.wait_for_lines("ready", 4);
        running.signal(Signal::TERM);
        let finished = running.wait().ends_with(128 + 15);
        assert_eq!(finished.stderr(), ended("ranks 0-3", 15), "{options:?}");
    }
}

#[test]
fn ranks_that_end_like_each_other_after_a_failure_are_one_line_behind_it() {
    let scratch = Scratch::new();
    // The others end when the launcher has heard of the first, whose process is gone then.
    let script = "if [ $FARSIDE_RANK = 3 ]; then echo $$ >new; mv new pid; exit 7; fi
        until [ -e pid ]; do sleep 0.01; done
        while [ -d /proc/$(cat pid) ]; do sleep 0.01; done
        exit $((1 + (FARSIDE_RANK == 0)))";
    let finished = shells(&["-n", "6"], script).directory(&scratch.path).run().ends_with(7);
    let said = finished.stderr();
    let (first, rest) = said.split_once('\n').expect("more than one line");
    assert_eq!(first, "farside: rank 3 exited with status 7");
    let mut rest: Vec<&str> = rest.lines().collect();
    rest.sort_unstable();
    let alike = "farside: ranks 1, 2, 4 and 5 exited with status 1";
    assert_eq!(rest, ["farside: rank 0 exited with status 2", alike], "{said}");
}

#[test]
fn a_failure_is_told_while_the_others_go_on() {
    let script = "trap 'exit 0' USR1; [ $FARSIDE_RANK != 1 ] || exit 7; echo ready;
        while :; do sleep 0.05; done";
    let mut running = shells(&["-n", "2", "--keep-going"], script).start();
    running.wait_for_lines("ready", 1);
    running.wait_until_says("rank 1 exited with status 7\n");
    running.signal(Signal::USR1);
    running.wait().ends_with(7);
}

#[test]
fn only_ranks_that_still_run_are_named_when_time_is_up() {
    let script = "[ $FARSIDE_RANK = 1 ] || sleep 1000";
    for options in FOUR {
        let finished = shells(&[options, &["--timeout", "2"]].concat(), script).run();
        let said = "timed out after 2 s; still running: ranks 0, 2 and 3\n";
        finished.ends_with(124).says(&[said]);
    }
}

#[test]
fn time_is_up_for_ranks_that_ignore_being_asked() {
    let script = format!("trap '' TERM INT HUP; echo ready; {FOR_EVER}");
    let options = ["-n", "3", "--timeout", "2", "--grace", "0.2"];
    let finished = shells(&options, &script).run().ends_with(124);
    let said = finished.stderr();
    let (first, ends) = said.split_once('\n').expect("more than one line");
    assert_eq!(first, "farside: timed out after 2 s; still running: ranks 0-2");
    // On a busy machine they end one after the other, and are more than one line.
    let ways: [&[&str]; 5] = [
        &["ranks 0-2"],
        &["rank 0", "ranks 1 and 2"],
        &["rank 1", "ranks 0 and 2"],
        &["rank 2", "ranks 0 and 1"],
        &["rank 0", "rank 1", "rank 2"],
    ];
    let lines = |way: &[&str]| way.iter().map(|ranks| ended(ranks, 9)).collect::<String>();
    assert!(ways.iter().any(|way| sorted(ends) == sorted(&lines(way))), "{said}");
}

#[test]
fn ranks_are_asked_before_they_are_killed_when_time_is_up() {
    let script = format!("trap 'echo asked; exit 0' TERM; {FOR_EVER}");
    let finished = shells(&["-n", "2", "--timeout", "2"], &script).run().ends_with(124);
    assert_eq!(finished.stdout(), "asked\nasked\n");
}

#[test]
fn ranks_have_their_grace_when_time_is_up() {
    let script = format!("trap 'sleep 1.5; echo saved; exit 0' TERM; {FOR_EVER}");
    let finished = shells(&["-n", "2", "--timeout", "1"], &script).run().ends_with(124);
    assert_eq!(finished.stdout(), "saved\nsaved\n");
}

#[test]
fn a_job_that_ends_in_time_is_not_ended() {
    let finished = shells(&["-n", "2", "--timeout", "1000"], "echo done").run().ends_with(0);
    assert_eq!(finished.stdout(), "done\ndone\n");
}

#[test]
fn children_of_ranks_end_with_the_job() {
    let script = "sleep 1000 & setsid sleep 1000 & (sleep 1000 & sleep 1000 &); echo done";
    for options in FOUR {
        assert_eq!(shells(options, script).run().ends_with(0).stdout(), "done\n".repeat(4));
    }
}

/// Shell code that starts processes in a session of their own and waits until they are there, and
/// then does `then`.
fn with_daemons(then: &str) -> String {
    let daemon = "sleep 1000 & : >up$FARSIDE_RANK; wait";
    format!("setsid sh -c '{daemon}' & until [ -e up$FARSIDE_RANK ]; do sleep 0.01; done; {then}")
}

#[test]
fn children_in_sessions_of_their_own_end_with_the_job() {
    for (then, status) in [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137)] {
        let scratch = Scratch::new();
        shells(&["-n", "2"], &with_daemons(then)).directory(&scratch.path).run().ends_with(status);
    }
}

#[test]
fn children_in_sessions_of_their_own_end_when_time_is_up() {
    let scratch = Scratch::new();
    shells(&["-n", "2", "--timeout", "1"], &with_daemons("wait"))
        .directory(&scratch.path)
        .run()
        .ends_with(124);
}

#[test]
fn children_in_sessions_of_their_own_end_after_a_signal() {
    let scratch = Scratch::new();
    let script = with_daemons(&format!("echo ready; {FOR_EVER}"));
    let mut running = shells(&["-n", "2"], &script).directory(&scratch.path).start();
    running.wait_for_lines("ready", 2);
    running.signal(Signal::TERM);
    running.wait().ends_with(128 + 15);
}

#[test]
fn signals_reach_all_ranks() {
    for (name, signal) in [
        ("INT", Signal::INT),
        ("TERM", Signal::TERM),
        ("HUP", Signal::HUP),
        ("QUIT", Signal::QUIT),
        ("USR1", Signal::USR1),
        ("USR2", Signal::USR2),
    ] {
        let script = format!("trap 'echo got; exit 3' {name}; echo ready; {FOR_EVER}");
        for options in FOUR {
            let mut running = shells(&[options, &["--grace", "1000"]].concat(), &script).start();
            running.wait_for_lines("ready", 4);
            running.signal(signal);
            let said = running.wait().ends_with(3).stdout();
            assert_eq!(said.matches("got\n").count(), 4, "{name}: {said}");
        }
    }
}

#[test]
fn ranks_that_never_joined_are_signalled_although_one_of_them_has_ended() {
    // The launcher has heard of the first rank when its process is gone.
    let script = format!(
        "if [ $FARSIDE_RANK = 0 ]; then echo $$ >new; mv new pid; exit 0; fi
        trap 'echo got; exit 3' QUIT; until [ -e pid ]; do sleep 0.01; done
        while [ -d /proc/$(cat pid) ]; do sleep 0.01; done; echo ready; {FOR_EVER}"
    );
    for options in FOUR {
        let scratch = Scratch::new();
        let options = [options, &["--keep-going", "--grace", "1000"]].concat();
        let mut running = shells(&options, &script).directory(&scratch.path).start();
        running.wait_for_lines("ready", 3);
        running.signal(Signal::QUIT);
        let said = running.wait().ends_with(3).stdout();
        assert_eq!(said.matches("got\n").count(), 3, "{said}");
    }
}

/// Programs that leave the process group of the job, and wait for the one that they start.
const LEAVING: [&str; 2] = ["timeout 1000", "setsid --wait"];

#[test]
fn ranks_that_leave_the_group_of_the_job_end_with_it() {
    for leaving in LEAVING {
        for options in FOUR {
            let script = format!("echo ready; exec {leaving} sleep 1000");
            let timed = [options, &["--timeout", "2"]].concat();
            let finished = shells(&timed, &script).run().ends_with(124);
            finished.says(&["timed out after 2 s; still running: ranks 0-3\n"]);

            let mut running = shells(options, &script).start();
            running.wait_for_lines("ready", 4);
            running.signal(Signal::TERM);
            running.wait().ends_with(128 + 15);

            let deaf = format!("trap '' TERM INT; {script}");
            let failing = format!("[ $FARSIDE_RANK != 1 ] || exit 3; {deaf}");
            shells(&[options, &["--grace", "0"]].concat(), &failing).run().ends_with(3);
        }
    }
}

#[test]
fn a_signal_that_asks_for_nothing_ends_nothing() {
    let script = format!("trap 'echo got' USR1; trap 'exit 0' USR2; echo ready; {FOR_EVER}");
    let mut running = shells(&["-n", "2", "--grace", "0"], &script).start();
    running.wait_for_lines("ready", 2);
    for times in 1..=3 {
        running.signal(Signal::USR1);
        running.wait_for_lines("got", 2 * times);
    }
    running.signal(Signal::USR2);
    running.wait().ends_with(0);
}

#[test]
fn a_job_that_is_asked_to_end_ends() {
    for (signal, number) in [(Signal::TERM, 15), (Signal::HUP, 1)] {
        let mut running = shells(&["-n", "3"], "echo ready; sleep 1000").start();
        running.wait_for_lines("ready", 3);
        running.signal(signal);
        running.wait().ends_with(128 + number).says(&[&ended("ranks 0-2", number)]);
    }
}

#[test]
fn a_job_that_was_asked_to_end_and_does_so_in_order_says_so_in_its_status() {
    for (signal, number) in [(Signal::TERM, 15), (Signal::INT, 2)] {
        let script = format!("trap 'exit 0' TERM INT; echo ready; {FOR_EVER}");
        let mut running = shells(&["-n", "2"], &script).start();
        running.wait_for_lines("ready", 2);
        running.signal(signal);
        running.wait().ends_with(128 + number);
    }
}

#[test]
fn a_signal_that_is_ignored_stays_ignored() {
    let script = format!("trap 'echo got' USR1; trap 'exit 0' USR2; echo ready; {FOR_EVER}");
    let job = ["run", "-n", "2", "--grace", "0", "sh", "-c", &script];
    for (name, signal) in [("HUP", Signal::HUP), ("INT", Signal::INT), ("QUIT", Signal::QUIT)] {
        let mut running = farside_after(&format!("trap '' {name}"), job).start();
        running.wait_for_lines("ready", 2);
        running.signal(signal);
        running.signal(Signal::USR1);
        running.wait_for_lines("got", 2);
        running.signal(Signal::USR2);
        running.wait().ends_with(0);
    }
}

#[test]
fn a_parent_that_ignores_the_ends_of_its_children_changes_nothing() {
    for options in TWO {
        for status in [0, 3] {
            let script = format!("exit {status}");
            let ignoring = ["--ignore-signal=CHLD", FARSIDE, "run"];
            let program = ["sh", "-c", &script];
            let words = ignoring.iter().chain(options).chain(&program);
            launcher("env", words).run().ends_with(status);
        }
    }
}

#[test]
fn what_ranks_leave_behind_is_reaped_when_it_ends() {
    let script = "i=0; while [ $i -lt 40 ]; do (true &); i=$((i + 1)); done
        zombies() { cat /proc/[0-9]*/stat 2>&- | awk '$3 == \"Z\" && $4 == p' p=$PPID | wc -l; }
        until [ $(zombies) = 0 ]; do sleep 0.05; done; echo reaped";
    for options in TWO {
        let options = [options, &["--timeout", "20"]].concat();
        let finished = shells(&options, script).run().ends_with(0);
        assert_eq!(finished.stdout(), "reaped\n".repeat(2));
    }
}

#[test]
fn ranks_stop_and_go_on_with_the_launcher() {
    let script = format!("trap 'exit 0' TERM; echo ready; {FOR_EVER}");
    // In the group of the job, and in groups of their own.
    let ways = TWO.iter().flat_map(|options| [(options, ""), (options, "timeout 60")]);
    for (options, wrapper) in ways {
        let words = wrapper.split_whitespace().chain(["sh", "-c", &script]);
        let words = ["run"].into_iter().chain(options.iter().copied()).chain(words);
        let mut running = farside(words).start();
        running.wait_for_lines("ready", 2);
        for _ in 0..2 {
            running.signal(Signal::TSTP);
            running.wait_until_stopped(2, true);
            running.signal(Signal::CONT);
            running.wait_until_stopped(2, false);
        }
        running.signal(Signal::TERM);
        running.wait().ends_with(128 + 15);
    }
}

#[test]
fn a_launcher_whose_output_waits_stops_and_goes_on() {
    for options in TWO {
        for to in ["", " >&2"] {
            let scratch = Scratch::new();
            let go = scratch.path.join("go");
            let waits = format!("until [ -e {} ]; do sleep 0.01; done", go.display());
            // As much as the pipe of a rank holds, and more for both than that of the launcher.
            let mut running = stalled(options, &format!("{waits}; exec seq 12000{to}")).start();
            (0..2).for_each(|rank| running.wait_for_rank(rank));
            std::fs::write(&go, "").expect("a file can be written");
            running.wait_until_alone();
            for _ in 0..2 {
                running.signal(Signal::TSTP);
                running.wait_until_stopped(0, true);
                running.signal(Signal::CONT);
                running.wait_until_stopped(0, false);
            }
            running.read_on();
            assert_eq!(running.wait().ends_with(0).lines().len(), 24_000, "{options:?}{to}");
        }
    }
}

#[test]
fn a_pause_takes_no_time_from_the_start() {
    let scratch = Scratch::new();
    // The host answers when the file is there.
    let rsh = format!("sh -c 'until [ -e {} ]; do sleep 0.05; done; exec \"$@\"' {{host}}", {
        scratch.file("answer")
    });
    let options = ["--hosts", "localhost:2", "--rsh", &rsh, "--start-timeout", "3"];
    let running = shells(&options, "echo started").start();
    running.signal(Signal::TSTP);
    // sleep: so long is the pause, longer than the start may take.
    std::thread::sleep(std::time::Duration::from_secs(5));
    running.signal(Signal::CONT);
    std::fs::write(scratch.file("answer"), "").expect("a file can be written");
    let finished = running.wait().ends_with(0);
    assert_eq!(finished.stdout(), "started\nstarted\n");
}

#[test]
fn the_last_lines_of_a_rank_come_before_the_news_of_its_end() {
    for to in ["", ">&2"] {
        for options in
            [["-n", "2"].as_slice(), &["--hosts", "localhost:2", "--rsh", "env HOST={host}"]]
        {
            let script =
                format!("[ $FARSIDE_RANK = 0 ] || exec sleep 1000; seq 1 10000 {to}; exit 3");
            let program = ["sh", "-c", script.as_str()];
            let words = ["run", "--grace", "0"].iter().chain(options).chain(&program);
            let lines = farside_after("exec 2>&1", words).run().ends_with(3).lines();
            let at = |line: &str| lines.iter().position(|one| one == line);
            let (last, news) = (at("10000"), at("farside: rank 0 exited with status 3"));
            assert!(
                last.is_some() && last < news,
                "{to}: {last:?} {news:?} of {} lines",
                lines.len()
            );
        }
    }
}

#[test]
fn who_asks_twice_means_it() {
    let script = format!("trap 'echo no' INT TERM; echo ready; {FOR_EVER}");
    for options in FOUR {
        let mut running = shells(&[options, &["--grace", "1000"]].concat(), &script).start();
        running.wait_for_lines("ready", 4);
        running.signal(Signal::INT);
        // Two signals that come at once are one to the system.
        running.wait_for_lines("no", 4);
        running.signal(Signal::INT);
        running.wait().ends_with(128 + 9).says(&[&ended("ranks 0-3", 9)]);
    }
}

#[test]
fn ranks_that_ignore_a_signal_are_killed_after_their_grace() {
    let script = format!("trap '' INT TERM; echo ready; {FOR_EVER}");
    let mut running = shells(&["-n", "3", "--grace", "0.2"], &script).start();
    running.wait_for_lines("ready", 3);
    running.signal(Signal::TERM);
    running.wait().ends_with(128 + 9).says(&[&ended("ranks 0-2", 9)]);
}

#[test]
fn a_launcher_that_is_killed_leaves_nothing() {
    for script in [
        format!("echo ready; {FOR_EVER}"),
        "sleep 1000 & setsid sleep 1000 & echo ready; wait".to_owned(),
        "(trap '' HUP TERM; sleep 1000 & sleep 1000 &); echo ready; sleep 1000".to_owned(),
        "trap '' HUP TERM; echo ready; exec timeout 1000 sleep 1000".to_owned(),
        // The ranks are gone: only their children are left to be ended.
        "trap '' HUP; sh -c 'echo ready; sleep 1000' & [ $FARSIDE_RANK = 0 ] && wait; exit 0"
            .to_owned(),
    ] {
        for options in FOUR {
            let mut running = shells(options, &script).start();
            running.wait_for_lines("ready", 4);
            running.signal(Signal::KILL);
            running.wait_until_nothing_is_left();
            assert_eq!(running.wait().status.signal(), Some(9));
        }
    }
}

#[test]
fn children_in_sessions_of_their_own_end_with_a_launcher_that_is_killed() {
    for then in ["echo ready; wait", "echo ready; exit 0"] {
        let scratch = Scratch::new();
        let mut running =
            shells(&["-n", "2"], &with_daemons(then)).directory(&scratch.path).start();
        running.wait_for_lines("ready", 2);
        running.signal(Signal::KILL);
        running.wait_until_nothing_is_left();
    }
}

#[test]
fn ranks_end_even_if_everything_is_killed_that_could_end_them() {
    // As `killall -9 farside` does.
    for options in FOUR {
        let mut running = shells(options, "trap '' HUP TERM; echo ready; exec sleep 1000").start();
        running.wait_for_lines("ready", 4);
        running.kill_all_of(FARSIDE);
        running.wait_until_nothing_is_left();
    }
}

#[test]
fn a_job_whose_output_nobody_reads_ends() {
    for options in [
        ["-n", "2"].as_slice(),
        &["-n", "2", "-l"],
        &["-n", "2", "--keep-going"],
        &[FOUR[1], &["-l"]].concat(),
    ] {
        let finished = shells(options, "yes").hang_up().run().leaves_nothing();
        assert!(finished.stdout.starts_with(if options.contains(&"-l") { b"[" } else { b"y\n" }));
    }
}

#[test]
fn a_job_whose_output_nobody_reads_ends_even_if_it_ignores_being_asked() {
    shells(&["-n", "2"], "trap '' TERM PIPE; while :; do echo y; done")
        .hang_up()
        .run()
        .leaves_nothing();
}

#[test]
fn a_job_whose_failures_nobody_hears_of_ends_like_any_other() {
    let scratch = Scratch::new();
    let script = with_daemons("[ $FARSIDE_RANK = 1 ] && exit 7; sleep 1000");
    let job = shells(&["-n", "2", "--grace", "0.2"], &script).directory(&scratch.path);
    job.unheard().run().ends_with(7);
}

#[test]
fn a_reader_that_stalls_keeps_no_rank_alive() {
    let mut running = shells(&["-n", "2", "--timeout", "1"], "yes").stall().start();
    running.wait_until_says("still running: ranks 0 and 1\n");
    running.wait_until_alone();
    running.read_on();
    running.wait().ends_with(124);
}

/// A job whose ranks are shells and which writes everything to one reader, as with `2>&1 |`, that
/// reads nothing yet.
fn stalled(options: &[&str], script: &str) -> Start {
    let program = ["sh", "-c", script];
    farside_after("exec 2>&1", ["run"].iter().chain(options).chain(&program)).stall()
}

#[test]
fn time_is_up_although_nobody_reads_errors() {
    for options in TWO {
        let options = [options, &["--timeout", "1"]].concat();
        let mut running = stalled(&options, "exec yes >&2").start();
        running.wait_until_nothing_is_left();
        running.read_on();
        running.wait().ends_with(124);
    }
}

#[test]
fn failures_and_signals_are_noticed_although_nobody_reads_errors() {
    for options in TWO {
        let options = [options, &["--grace", "0"]].concat();
        let scratch = Scratch::new();
        let go = scratch.path.join("go");
        let fails = format!("until [ -e {} ]; do sleep 0.01; done; exit 7", go.display());
        let script = format!("[ $FARSIDE_RANK = 1 ] && {{ {fails}; }}; trap '' TERM; exec yes >&2");
        let mut running = stalled(&options, &script).start();
        running.wait_until_runs("yes", true);
        std::fs::write(&go, "").expect("a file can be written");
        running.wait_until_runs("yes", false);
        running.signal(Signal::TERM);
        running.wait_until_nothing_is_left();
        running.read_on();
        running.wait().ends_with(7);
    }
}

#[test]
fn hosts_whose_output_nobody_reads_are_not_lost() {
    let scratch = Scratch::new();
    let go = scratch.path.join("go");
    // As much as a host may have under way, and more than a pipe holds.
    let script = format!("until [ -e {} ]; do sleep 0.01; done; exec seq 30000", go.display());
    let mut running = shells(TWO[1], &script).stall().start();
    (0..2).for_each(|rank| running.wait_for_rank(rank));
    std::fs::write(&go, "").expect("a file can be written");
    // All hosts have said that they are done.
    running.wait_until_alone();
    running.signal(Signal::INT);
    running.wait_until_nothing_is_left();
    running.read_on();
    let finished = running.wait().ends_with(0);
    let said = "farside: nothing reads the ranks' output; the rest is lost\n";
    assert_eq!(finished.stderr(), said);
}

#[test]
fn a_slow_reader_gets_the_last_words_of_a_job_that_was_cut_short() {
    // As much as two pipes and a buffer hold, so that the rank does not wait.
    let script = format!("trap 'seq 30000; exit 0' TERM; {FOR_EVER}");
    let finished = shells(&["-n", "1", "--timeout", "1"], &script).slowly().run().ends_with(124);
    assert_eq!(finished.lines().len(), 30_000);
}

#[test]
fn a_child_that_writes_for_ever_keeps_no_job_alive() {
    for options in [["-n", "2"].as_slice(), &["-n", "2", "-l"]] {
        shells(options, "yes & exit 0").run().ends_with(0);
    }
}
