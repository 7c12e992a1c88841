//! Programs that hang, and what the doctor says of each; and programs that are only slow. They are
//! those of the example `sick`, which is part of this file and started again as the ranks.

mod support;

#[path = "../../../runtime/farside/examples/sick.rs"]
#[allow(dead_code, reason = "its main function is that of the example")]
mod sick;

use std::process::ExitCode;

use farside_testing::namespaces::{Namespaces, RSH};
use rustix::process::Signal;
use serde_json::Value;
use support::{farside, farside_after, own, program_or_tests, tests};

tests! {
    locks_in_opposite_order a_deadlock_beside_programs_that_compute
    a_stuck_job_ends_although_nobody_reads_errors epochs_in_opposite_order
    a_barrier_that_one_rank_skips different_collectives_name_the_place a_missing_signal
    a_signal_to_another_word a_word_that_is_only_put_to a_lock_whose_holder_runs
    a_rank_that_was_stopped more_memory_than_there_is slow_programs_are_not_stuck
    the_launcher_answers_a_signal a_job_that_fails_says_where_its_ranks_were
    why_finds_the_job_and_says_it_as_json why_names_what_it_cannot_find top_prints_once_and_as_json
    statistics_are_said_at_the_end a_job_of_two_nodes_is_seen_as_one
    a_job_of_two_hosts_is_seen_as_one a_host_that_is_cut_off
    a_job_of_two_hosts_that_ends_says_where_its_ranks_were
}

fn main() -> ExitCode {
    program_or_tests(program::start, TESTS)
}

mod program {
    use std::process::ExitCode;

    use farside::World;

    pub(super) fn start() -> ExitCode {
        main()
    }

    #[farside::main]
    fn main(world: &World) -> farside::Result<()> {
        super::sick::program(world, &std::env::args().nth(2).unwrap_or_default())
    }
}

fn words(options: &[&str], name: &str) -> Vec<String> {
    let own = own();
    let program = [own.as_str(), "program", name];
    let all = ["run"].iter().chain(options).chain(&program);
    all.map(|word| (*word).to_owned()).collect()
}

/// Runs a program to its end, whose status and words are these; returns all that was said.
fn ends(options: &[&str], name: &str, status: i32, says: &[&str]) -> String {
    let finished = farside(words(options, name)).run();
    let said = unfolded(&finished.stderr());
    assert_eq!(finished.status.code(), Some(status), "{name}: {said}");
    for words in says {
        assert!(said.contains(words), "{name} should say {words:?}: {said}");
    }
    said
}

/// Runs a sick program on four ranks until the doctor calls it stuck, and checks what is said.
fn is_stuck(name: &str, says: &[&str]) {
    let options = ["-n", "4", "--stuck-after", "1", "--stuck-exit"];
    ends(&options, name, 125, &[says, &["STUCK"]].concat());
}

/// A page without the ends of its lines.
fn unfolded(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn locks_in_opposite_order() {
    is_stuck(
        "two-locks",
        &[
            "deadlock: rank 0 waits for lock `b` (",
            "which rank 1 holds (",
            "rank 1 waits for lock `a` (",
            "which rank 0 holds (",
            "in the same order",
            "ranks 2 and 3 are in barrier",
        ],
    );
}

/// The ranks have filled the pipe with what they say besides, so that the launcher cannot say why
/// it ends them.
fn a_stuck_job_ends_although_nobody_reads_errors() {
    let script = format!("yes >&2 & exec {} program two-locks", own());
    let words = ["run", "-n", "4", "--stuck-after", "1", "--stuck-exit", "sh", "-c", &script];
    let mut running = farside_after("exec 2>&1", words).stall().start();
    running.wait_until_nothing_is_left();
    running.read_on();
    running.wait().ends_with(125);
}

/// Programs that compute all the time, until dropped.
struct Busy(Vec<std::process::Child>);

impl Busy {
    fn start(count: usize) -> Busy {
        let start = |_| {
            let mut command = std::process::Command::new("sh");
            command.args(["-c", "while :; do :; done"]).spawn().expect("a shell can be started")
        };
        Busy((0..count).map(start).collect())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It runs until now: nobody else ends it.
            child.kill().and_then(|()| child.wait()).expect("a child can be ended");
        }
    }
}

/// Ranks that wait are seen to wait, however long each of their yields takes.
fn a_deadlock_beside_programs_that_compute() {
    let _busy = Busy::start(16);
    locks_in_opposite_order();
    let options = ["-n", "4", "--nodes", "2", "--stuck-after", "1", "--stuck-exit"];
    ends(&options, "two-locks", 125, &["deadlock: rank 0 waits for lock `b` ("]);
}

fn epochs_in_opposite_order() {
    is_stuck(
        "two-epochs",
        &[
            "deadlock: rank 0 waits for the lock of rank 1 in window `halo` (",
            "which rank 1 holds (",
            "rank 1 waits for the lock of rank 0 in window `halo` (",
            "which rank 0 holds (",
            "in the same order",
            "ranks 2 and 3 are in barrier",
        ],
    );
}

fn a_barrier_that_one_rank_skips() {
    is_stuck(
        "skipped-barrier",
        &[
            "3 of 4 ranks are in barrier 4 of team `world` (",
            "rank 3 has not arrived: it waits for word 0",
        ],
    );
}

fn different_collectives_name_the_place() {
    let finished = farside(words(&["-n", "4"], "different-collectives")).run();
    assert_ne!(finished.status.code(), Some(0));
    let said = finished.stderr();
    assert!(
        said.contains("disagree on collective number 1") && said.contains("sick.rs:"),
        "{said}"
    );
}

fn a_missing_signal() {
    is_stuck(
        "missing-signal",
        &["rank 1 waits for word 3 of window `inbox` (holds 0;", "has not been written since"],
    );
}

fn a_signal_to_another_word() {
    is_stuck("wrong-word", &["rank 1 waits for word 3 of window `inbox`", "word 4 holds 7"]);
}

fn a_word_that_is_only_put_to() {
    is_stuck(
        "plain-put",
        &["it held 0 when the rank last read it and holds 1 now", "`put_signal`"],
    );
}

fn a_lock_whose_holder_runs() {
    let options = ["-n", "3", "--stuck-after", "1", "--stuck-exit", "--timeout", "8"];
    let says = ["rank 0 holds lock `table` (", "and runs", " for it where the ranks are"];
    let said = ends(&options, "busy-holder", 124, &says);
    assert!(!said.contains("STUCK"), "{said}");
}

fn a_rank_that_was_stopped() {
    is_stuck("stopped", &["is stopped by a signal; ranks 0, 2 and 3 wait for it", "kill -CONT"]);
}

fn more_memory_than_there_is() {
    let says = ["bytes of shared memory for each rank"];
    ends(&["-n", "4", "--memory", "64T"], "slow-rank", 2, &says);
}

fn slow_programs_are_not_stuck() {
    for name in ["slow-rank", "slow-lock", "slow-ring"] {
        let options = ["-n", "4", "--stuck-after", "0.8", "--stuck-exit", "--timeout", "8"];
        let said = ends(&options, name, 124, &["where the ranks were: "]);
        assert!(!said.contains("STUCK"), "{name}: {said}");
    }
}

fn the_launcher_answers_a_signal() {
    let options = ["-n", "2", "--stuck-after", "1"];
    let mut running = farside(words(&options, "missing-signal")).start();
    running.wait_until_says("STUCK");
    running.signal(Signal::QUIT);
    // Said once by itself, and once more because of the signal; the job goes on.
    running.wait_until_says_times("where the ranks are", 2);
    running.signal(Signal::TERM);
    let finished = running.wait();
    assert_eq!(finished.status.code(), Some(143), "{}", finished.stderr());
}

fn a_job_that_fails_says_where_its_ranks_were() {
    let mut running = farside(words(&["-n", "3", "--stuck-after", "1"], "missing-signal")).start();
    running.wait_until_says("STUCK");
    assert!(running.kill_rank(2));
    let finished = running.wait();
    let said = unfolded(&finished.stderr());
    let (errors, places) = said.split_once("where the ranks were:").expect("it says where");
    assert!(places.contains("rank 1 waits for word 3 of window `inbox`"), "{said}");
    assert!(places.contains("is in barrier 3 of team `world`"), "{said}");
    // What explains them comes first: the end of the rank, and the errors of those that need it.
    assert!(errors.contains("farside: rank 2 was "), "{said}");
    assert!(errors.contains("rank 0: rank 2 is lost"), "{said}");
    assert!(errors.contains("farside: ranks 0 and 1 exited with status 1"), "{said}");
}

fn why_finds_the_job_and_says_it_as_json() {
    let mut running = farside(words(&["-n", "4", "--stuck-after", "1"], "two-locks")).start();
    running.wait_until_says("STUCK");
    let launcher = running.pid.as_raw_nonzero().to_string();
    let text = farside(["why", &launcher]).run();
    assert_eq!(text.status.code(), Some(2), "{}", text.stderr());
    assert!(text.stdout().contains("deadlock: rank 0 waits for lock `b`"), "{}", text.stdout());
    let json = farside(["why", "--json", &launcher]).run();
    let value: Value = serde_json::from_str(&json.stdout()).expect("it is JSON");
    assert_eq!(value["diagnosis"]["verdict"], "stuck");
    assert_eq!(value["diagnosis"]["findings"][0]["kind"], "deadlock");
    assert_eq!(value["snapshot"]["ranks"].as_array().map(Vec::len), Some(4));
    running.signal(Signal::TERM);
    running.wait();
}

fn why_names_what_it_cannot_find() {
    let finished = farside(["why", "1"]).run();
    assert_eq!(finished.status.code(), Some(1));
    assert!(finished.stderr().contains("process 1 "), "{}", finished.stderr());
    let finished = farside(["why", "x"]).run();
    assert_eq!(finished.status.code(), Some(2), "{}", finished.stderr());
}

fn top_prints_once_and_as_json() {
    let mut running = farside(words(&["-n", "4", "--stuck-after", "1"], "two-locks")).start();
    running.wait_until_says("STUCK");
    let launcher = running.pid.as_raw_nonzero().to_string();
    let text = farside(["top", "--once", "--interval", "0.2", &launcher]).run();
    assert_eq!(text.status.code(), Some(0), "{}", text.stderr());
    let shown = text.stdout();
    assert!(shown.contains("lock `a`: held by rank 0") && shown.contains("STUCK"), "{shown}");
    let json = farside(["top", "--once", "--json", "--interval", "0.2", &launcher]).run();
    let value: Value = serde_json::from_str(&json.stdout()).expect("it is JSON");
    assert_eq!(value["ranks"].as_array().map(Vec::len), Some(4));
    assert_eq!(value["locks"][0]["waiters"].as_array().map(Vec::len), Some(1));
    // Without a terminal there is no screen.
    let refused = farside(["top", &launcher]).run();
    assert_eq!(refused.status.code(), Some(2));
    assert!(refused.stderr().contains("--once or --json"), "{}", refused.stderr());
    running.signal(Signal::TERM);
    running.wait();
}

fn statistics_are_said_at_the_end() {
    let finished = farside(words(&["-n", "2", "--stats"], "healthy")).run();
    assert_eq!(finished.status.code(), Some(0), "{}", finished.stderr());
    let said = finished.stderr();
    let all = said.lines().find(|line| line.trim_start().starts_with("all")).expect("a table");
    let operations: u64 = all.split_whitespace().nth(1).expect("a column").parse().expect("digits");
    assert!(operations >= 2000, "{said}");
}

fn a_job_of_two_nodes_is_seen_as_one() {
    let options = ["-n", "4", "--nodes", "2", "--stuck-after", "1", "--stuck-exit"];
    let says = ["4 ranks on 2 nodes: STUCK", "rank 1 waits for word 3 of window `inbox`"];
    ends(&options, "missing-signal", 125, &says);
}

fn a_host_that_is_cut_off() {
    let Some(hosts) = Namespaces::wanted(2) else { return };
    let list = hosts.list(2);
    let options = ["--hosts", &list, "--rsh", RSH, "--stuck-after", "1", "--peer-timeout", "8"];
    let mut running = farside(words(&options, "slow-ring")).start();
    // They have joined when there is something to say of them.
    running.wait_until_says("where the ranks are");
    hosts.cut(1).unwrap();
    running.wait_until_says("receive");
    let finished = running.wait();
    let said = unfolded(&finished.stderr());
    let is_said = [
        "nodes 0 and 1 receive nothing from each other, for ",
        "node 0 receives nothing from node 1, for ",
        "node 1 receives nothing from node 0, for ",
    ]
    .iter()
    .any(|words| said.contains(words));
    assert!(is_said, "{said}");
    assert!(said.contains("fix: check that the hosts can reach each other"), "{said}");
    assert!(said.contains("it stopped answering"), "{said}");
}

const TWO_HOSTS: [&str; 4] = ["--hosts", "a=127.0.0.1:2,b=127.0.0.2:2", "--rsh", "env HOST={host}"];

fn a_job_of_two_hosts_that_ends_says_where_its_ranks_were() {
    let options: Vec<&str> = TWO_HOSTS.into_iter().chain(["--timeout", "5"]).collect();
    let said = ends(&options, "missing-signal", 124, &[]);
    let (errors, places) = said.split_once("where the ranks were:").expect("it says where");
    assert!(errors.contains("still running: ranks 0-3 "), "{said}");
    // The hosts end their ranks one after the other: a rank may report the loss of another first.
    assert!(errors.contains("killed by signal 15"), "{said}");
    assert!(places.contains("rank 1 waits for word 3 of window `inbox`"), "{said}");
    assert!(places.contains("ranks 0, 2 and 3 are in barrier 3 of team `world`"), "{said}");
}

fn a_job_of_two_hosts_is_seen_as_one() {
    let options: Vec<&str> = TWO_HOSTS.into_iter().chain(["--stuck-after", "1"]).collect();
    let mut running = farside(words(&options, "skipped-barrier")).start();
    running.wait_until_says("STUCK");
    running.signal(Signal::QUIT);
    running.wait_until_says_times("where the ranks are", 2);
    running.signal(Signal::TERM);
    let finished = running.wait();
    let said = unfolded(&finished.stderr());
    assert_eq!(finished.status.code(), Some(143), "{said}");
    assert!(said.contains("4 ranks on 2 nodes: STUCK"), "{said}");
    assert!(said.contains("rank 3 has not arrived: it waits for word 0"), "{said}");
}
