//! The suite with thread ranks: as they are, crowded, on pretended nodes, and with every operation
//! passing through the fabric.

use std::sync::mpsc;

use farside::Local;
use farside::fabric::counting::Counts;
use farside_conformance::{DEADLINE, for_each_test, group, record, test, test_each};
use farside_races::Checker;

/// Runs a test, and ends the whole process if it hangs.
fn run(fabric: &str, name: &'static str, local: Local) {
    let (sender, receiver) = mpsc::channel();
    let runner = std::thread::spawn(move || {
        let result = local.run(test(name).expect("the test exists"));
        // Nobody listens any more only if the deadline has passed.
        let _ = sender.send(());
        result
    });
    if receiver.recv_timeout(DEADLINE) == Err(mpsc::RecvTimeoutError::Timeout) {
        eprintln!("{name}: hangs");
        std::process::abort();
    }
    match runner.join() {
        Ok(result) => drop(result.unwrap_or_else(|error| panic!("{name}: {error}"))),
        Err(panic) => std::panic::resume_unwind(panic),
    }
    record(fabric, name, "passed");
}

fn local(ranks: u32) -> Local {
    Local::new(ranks).expect("the environment is in order")
}

// Four ranks, and processors for two of them: the central barrier, yields, sleeps.
test_each!(threads, |name| run("shm", name, local(4).cores(2)));

// A processor for each rank, as far as the fabric knows: the dissemination barrier, spinning.
test_each!(roomy_threads, |name| run("shm", name, local(3).cores(64)));

// Five ranks on two pretended nodes: the tree collectives, an agent for each node.
test_each!(threads_on_two_nodes, |name| run("shm", name, local(5).topology("node:2")));

// Every operation passes through the fabric's own methods, none through mapped memory.
test_each!(observed_threads, |name| {
    let counts = Counts::new(4);
    run("shm", name, local(4).decorate(move |fabric| counts.over(fabric)))
});

// Four nodes that reach each other over UDP only.
test_each!(threads_over_nic, |name| run("nic", name, local(4).nodes(4)));

// Five ranks on two nodes: near and far at once.
test_each!(threads_over_nic_on_two_nodes, |name| run("nic", name, local(5).nodes(2)));

// Five ranks on two nodes whose servers execute all atomics, near ones too, and do not heed those
// of the processor.
test_each!(threads_over_nic_apart, |name| run("nic", name, local(5).nodes(2).server("nic-apart")));

fn provider() -> String {
    std::env::var(farside_job::PROVIDER).unwrap_or_else(|_| "tcp;ofi_rxm".into())
}

// Four nodes that reach each other over libfabric only: its TCP, or the provider that the
// environment names.
test_each!(threads_over_ofi, |name| run("ofi", name, local(4).nodes(4).ofi(&provider())));

/// Far atomics that the provider executes, past the agents.
#[test]
fn threads_over_ofi_native() {
    run_those_with_atomics(|| local(4).nodes(4).ofi("tcp;ofi_rxm/atomics=native"));
}

/// Near ones, too: five ranks on two nodes.
#[test]
fn threads_over_ofi_apart() {
    run_those_with_atomics(|| local(5).nodes(2).ofi("tcp;ofi_rxm/atomics=apart"));
}

/// Runs the tests in which it matters who executes atomics, one after the other; with
/// `FARSIDE_LONG`, all of them. A job over libfabric takes as much time as ten others.
fn run_those_with_atomics(local: impl Fn() -> Local) {
    macro_rules! names {
        ($($name:ident)*) => { [$(stringify!($name)),*] };
    }
    let all = for_each_test!(names);
    let is_long = std::env::var_os("FARSIDE_LONG").is_some();
    let matters = |name: &&str| {
        is_long || matches!(group(name), Some("atomics" | "ordering" | "agents" | "layers"))
    };
    all.into_iter().filter(matters).for_each(|name| run("ofi", name, local()));
}

/// The programs that have a race: they look at what is under way.
const RACY: [&str; 7] = [
    // Its gets are dropped, and what they read does not matter.
    "transfers_own_their_data",
    "counters_count",
    // Two ranks read what the other writes: at least one must see it.
    "what_an_accumulate_fetched_has_landed",
    "flush_orders_a_put_before_a_later_get",
    // Readers watch the writer.
    "fence_orders_puts_to_one_rank",
    "a_team_syncs",
    // Two ranks write one element: any of the two will do.
    "windows_of_a_team",
];

// Four ranks on one node whose operations are checked for races.
test_each!(checked_for_races, |name| {
    let checker = Checker::new(4).expect("there is memory");
    let over = checker.clone();
    let over = move |fabric| over.over(fabric).expect("the job has as many ranks");
    run("shm", name, local(4).decorate(over));
    let report = checker.report();
    assert!(RACY.contains(&name) || report.races.is_empty(), "{name}: {report}");
});
