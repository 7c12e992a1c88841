//! `farside run`: output, input, environment, and where the ranks are.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use crate::support::{FOUR, Scratch, farside, farside_after, shells, sorted};

#[test]
fn a_prompt_of_a_rank_that_is_alone_is_seen() {
    for options in [&["-n", "1"][..], &["--hosts", "a=127.0.0.1:1", "--rsh", "env HOST={host}"]] {
        let script = "printf 'size? '; read size; printf '50%%\\r' >&2; read end; echo got $size";
        let (mut running, mut input) = shells(options, script).start_with_input();
        running.wait_until_prints("size? ");
        input.write_all(b"7\n").expect("it reads");
        running.wait_until_says("50%\r");
        input.write_all(b"\n").expect("it reads");
        let finished = running.wait().ends_with(0);
        assert_eq!(finished.stdout(), "size? got 7\n");
        assert_eq!(finished.stderr(), "50%\r");
    }
}

#[test]
fn ranks_have_the_limit_of_open_files_that_the_launcher_was_started_with() {
    for options in [&["-n", "1"][..], &["--hosts", "a=127.0.0.1:1", "--rsh", "env HOST={host}"]] {
        let program = ["sh", "-c", "ulimit -Sn; ulimit -Hn"];
        let words = ["run"].iter().chain(options).chain(&program);
        let finished = farside_after("ulimit -Sn 200; ulimit -Hn 2000", words).run().ends_with(0);
        assert_eq!(finished.stdout(), "200\n2000\n", "{options:?}");
    }
}

#[test]
fn lines_of_all_ranks_arrive_whole_and_in_order() {
    let script = "i=0; while [ $i -lt 500 ]; do
        printf 'rank %d line %d %0300d end\\n' $FARSIDE_RANK $i 0; i=$((i+1));
        done; printf 'no end'";
    let without = script.replace("; printf 'no end'", "");
    for (options, is_labelled) in [(FOUR[0], true), (FOUR[1], true), (FOUR[0], false)] {
        let label = if is_labelled { &["-l"][..] } else { &[] };
        let script = if is_labelled { script } else { &without };
        let lines = shells(&[options, label].concat(), script).run().ends_with(0).lines();
        assert_eq!(lines.len(), 4 * (500 + usize::from(is_labelled)));
        for rank in 0..4 {
            let begin = if is_labelled { format!("[{rank}] ") } else { format!("rank {rank} ") };
            let own = lines.iter().filter(|line| line.starts_with(&begin));
            let own = own.map(|line| if is_labelled { &line[begin.len()..] } else { line });
            let expected = (0..500).map(|line| format!("rank {rank} line {line} {:0300} end", 0));
            let expected = expected.chain(is_labelled.then(|| "no end".to_owned()));
            assert!(own.eq(expected), "a line of rank {rank} is broken or out of order");
        }
    }
}

#[test]
fn a_line_that_comes_in_parts_stays_whole() {
    let scratch = Scratch::new();
    // Between the parts of rank 0's line a line of rank 1 comes, on the same stream.
    let script = "until_is() { until [ -e $1 ]; do sleep 0.01; done; }
        if [ $FARSIDE_RANK = 0 ]; then
            printf 'in '; printf 'err ' >&2; : >half; until_is full; echo parts; echo parts >&2
        else
            until_is half; echo whole; echo whole >&2; : >full
        fi";
    let finished = shells(&["-n", "2"], script).directory(&scratch.path).run().ends_with(0);
    assert_eq!(sorted(&finished.stdout()), ["in parts", "whole"]);
    assert_eq!(sorted(&finished.stderr()), ["err parts", "whole"]);
}

#[test]
fn labels_say_which_rank_a_line_is_from() {
    for label in ["-l", "--label"] {
        let finished = shells(&["-n", "3", label], "echo $FARSIDE_RANK; echo e$FARSIDE_RANK >&2")
            .run()
            .ends_with(0);
        assert_eq!(sorted(&finished.stdout()), ["[0] 0", "[1] 1", "[2] 2"]);
        assert_eq!(sorted(&finished.stderr()), ["[0] e0", "[1] e1", "[2] e2"]);
    }
}

#[test]
fn a_last_line_without_its_end_is_not_lost() {
    let finished = shells(&["-n", "1"], "printf 'first\\nlast'").run().ends_with(0);
    assert_eq!(finished.stdout(), "first\nlast");
    // With labels, the next line must not begin in the middle of this one.
    let finished = shells(&["-n", "2", "-l"], "printf last").run().ends_with(0);
    assert_eq!(sorted(&finished.stdout()), ["[0] last", "[1] last"]);
}

#[test]
fn standard_output_and_standard_error_stay_apart() {
    let finished = shells(&["-n", "3"], "echo out; echo err >&2").run().ends_with(0);
    assert_eq!(finished.stdout(), "out\n".repeat(3));
    assert_eq!(finished.stderr(), "err\n".repeat(3));
}

#[test]
fn bytes_that_are_no_text_pass_unchanged() {
    let script = r"printf 'a\000b\377\376\200\r\n\n\303('; printf '\377\000' >&2";
    let finished = shells(&["-n", "1"], script).run().ends_with(0);
    assert_eq!(finished.stdout, b"a\0b\xff\xfe\x80\r\n\n\xc3(");
    assert_eq!(finished.stderr, b"\xff\0");
}

#[test]
fn a_line_of_megabytes_arrives() {
    let script = "head -c 5000000 /dev/zero | tr '\\0' $FARSIDE_RANK; echo";
    let finished = shells(&["-n", "2"], script).run().ends_with(0);
    let count = |wanted: u8| finished.stdout.iter().filter(|&&byte| byte == wanted).count();
    assert_eq!((count(b'0'), count(b'1'), count(b'\n')), (5_000_000, 5_000_000, 2));
    assert_eq!(finished.stdout.len(), 10_000_002);
}

#[test]
fn output_arrives_while_the_ranks_still_run() {
    let (mut running, input) =
        shells(&["-n", "2"], "echo early; cat; echo late").start_with_input();
    // Rank 0 waits for its input to end, so this line comes from a job that runs.
    running.wait_for_lines("early", 2);
    drop(input);
    running.wait_for_lines("late", 2);
    running.wait().ends_with(0);
}

/// A megabyte in which a lost or doubled piece is noticed.
fn megabyte() -> Vec<u8> {
    (0..1u32 << 18).flat_map(u32::to_le_bytes).collect()
}

#[test]
fn standard_input_goes_to_rank_0_whole_and_to_nobody_else() {
    let script = "if [ $FARSIDE_RANK = 0 ]; then cat; else wc -c >&2; fi";
    for options in FOUR {
        let finished = shells(options, script).run_with_input(megabyte()).ends_with(0);
        assert!(finished.stdout == megabyte(), "{} bytes came through", finished.stdout.len());
        let said = finished.stderr();
        assert_eq!(said.split_whitespace().collect::<Vec<_>>(), ["0", "0", "0"]);
        // Rank 0 closes its input and goes on.
        let finished = shells(options, "exec <&-; echo done").run_with_input(megabyte());
        assert_eq!(finished.ends_with(0).stdout(), "done\n".repeat(4));
    }
}

#[test]
fn standard_input_arrives_as_it_comes() {
    let (mut running, mut input) = farside(["run", "-n", "2", "cat"]).start_with_input();
    for line in ["one", "two"] {
        writeln!(input, "{line}").expect("the launcher reads");
        running.wait_for_lines(line, 1);
    }
    drop(input);
    running.wait().ends_with(0);
}

#[test]
fn nobody_has_to_read_standard_input() {
    farside(["run", "-n", "2", "true"]).run_with_input(megabyte()).ends_with(0);
    // An input that stays open and silent keeps no job alive.
    let (running, input) = farside(["run", "-n", "2", "true"]).start_with_input();
    running.wait().ends_with(0);
    drop(input);
}

#[test]
fn the_environment_and_the_directory_are_passed_on() {
    let scratch = Scratch::new();
    let job = shells(&["-n", "4"], "echo $FARSIDE_RANK; echo \"$GREETING $(pwd -P)\" >&2");
    let finished =
        job.variable("GREETING", "two  words").directory(&scratch.path).run().ends_with(0);
    assert_eq!(sorted(&finished.stdout()), ["0", "1", "2", "3"]);
    let directory = scratch.path.canonicalize().expect("the directory is there");
    assert_eq!(finished.stderr(), format!("two  words {}\n", directory.display()).repeat(4));
}

#[test]
fn arguments_are_passed_on_unchanged() {
    let words =
        ["run", "-n", "1", "printf", "<%s>", "two  words", "", "*", "-n", "--help", "--", "-l"]
            .map(OsStr::new);
    let finished =
        farside(words.into_iter().chain([OsStr::from_bytes(b"\xff")])).run().ends_with(0);
    assert_eq!(finished.stdout, b"<two  words><><*><-n><--help><--><-l><\xff>");
}

#[test]
fn what_follows_the_program_is_for_the_program() {
    let finished =
        farside(["run", "-n", "1", "echo", "-n", "-l", "--label", "--timeout"]).run().ends_with(0);
    assert_eq!(finished.stdout(), "-l --label --timeout");
    let finished = farside(["run", "-n", "1", "--", "echo", "-n", "--", "x"]).run().ends_with(0);
    assert_eq!(finished.stdout(), "-- x");
}

/// The parent, process group and session in a line of `/proc/PID/stat`.
fn family(stat: &str) -> [u32; 3] {
    // The name of the program stands in parentheses and may contain anything.
    let (_, rest) = stat.rsplit_once(") ").expect("the name has an end");
    let numbers: Vec<u32> =
        rest.split_whitespace().skip(1).take(3).map(|word| word.parse().unwrap()).collect();
    numbers.try_into().expect("there are three numbers")
}

#[test]
fn ranks_are_one_process_group_in_the_session_of_the_launcher() {
    let running = shells(&["-n", "4"], "cat /proc/$$/stat").start();
    let launcher = running.pid.as_raw_nonzero().get() as u32;
    let finished = running.wait().ends_with(0);
    let [_, _, session] = family(&std::fs::read_to_string("/proc/self/stat").unwrap());
    let families: Vec<[u32; 3]> = finished.lines().iter().map(|line| family(line)).collect();
    let group = families[0][1];
    assert_eq!(families, [[launcher, group, session]; 4]);
    assert_ne!(group, launcher, "what ends the job's group would end the launcher");
}

#[test]
fn ranks_start_with_signals_as_usual() {
    // A rank that ignored SIGPIPE, as the launcher does, would write for ever here.
    let finished = shells(&["-n", "2"], "yes | head -n 1").run().ends_with(0);
    assert_eq!(finished.stdout(), "y\ny\n");
    let finished =
        farside(["run", "-n", "1", "grep", "SigBlk", "/proc/self/status"]).run().ends_with(0);
    assert_eq!(finished.stdout(), "SigBlk:\t0000000000000000\n");
}

#[test]
fn many_ranks_can_be_started() {
    let finished = shells(&["-n", "64"], "echo $FARSIDE_RANK").run().ends_with(0);
    let mut ranks: Vec<u32> = finished.lines().iter().map(|line| line.parse().unwrap()).collect();
    ranks.sort_unstable();
    assert_eq!(ranks, (0..64).collect::<Vec<_>>());
}
